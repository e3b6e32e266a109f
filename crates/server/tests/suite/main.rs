//! The API, asked in process through its router.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

mod acting;
mod browser;
mod dashboard;
mod description;
mod log;
mod logins;
mod numbers;
mod operating;
mod questions;
mod reading;
mod restarting;
mod serving;
mod support;
mod tokens;
mod two_servers;
mod working;
