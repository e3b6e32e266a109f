//! The command line as people use it: every test runs the binary. Tests with many processes, or
//! with some that work for a while, have a quarter of an hour.

#![allow(clippy::unwrap_used)]

mod demo;
mod explain;
mod guides;
mod help;
mod policy;
mod processes;
mod snippets;
mod work;
