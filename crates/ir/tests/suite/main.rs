//! The tests of programs, one module for each topic.

#![allow(clippy::unwrap_used)]

mod cases;
mod crashes;
mod dialects;
mod errors;
mod examples;
mod expressions;
mod format;
mod statements;
mod support;
