//! The benchmark works, and what it counts stays what it was.

#![allow(clippy::unwrap_used)]

mod instructions;
mod smoke;
