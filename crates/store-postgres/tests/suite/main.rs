//! The tests that need a server, in one program so that they share one.

#![allow(clippy::unwrap_used)]

mod conformance;
mod support;
