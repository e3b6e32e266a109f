//! The tests of graphs, one module for each topic.

#![allow(clippy::unwrap_used)]

mod cases;
mod common;
mod crashes;
mod examples;
mod properties;
mod schema;
mod secrets;
mod uniting;
mod validation;
mod wide;
