//! The tests of the private server.

#![allow(clippy::unwrap_used)]

mod life;
