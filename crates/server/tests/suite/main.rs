//! The API, asked in process through its router.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

mod acting;
mod browser;
mod dashboard;
mod description;
mod log;
mod operating;
mod reading;
mod serving;
mod support;
mod tokens;
mod working;
