//! The tests of the macros, one module for each topic.

#![allow(clippy::unwrap_used)]

mod activity;
mod failure_type;
mod ui;
mod workflow;
