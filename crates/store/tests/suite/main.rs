//! The tests of the model store and of nodes that share a database, one module for each topic.

#![allow(clippy::unwrap_used)]

mod claims;
mod conformance;
mod fleet;
mod ownership;
mod random;
