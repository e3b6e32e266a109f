//! The tests of the model store, one module for each topic.

#![allow(clippy::unwrap_used)]

mod claims;
mod conformance;
mod ownership;
mod random;
