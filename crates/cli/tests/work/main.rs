//! `resurgam run`, `worker` and all that looks at them, as processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod broken;
mod examples;
mod kills;
mod looking;
mod postgres;
mod run;
mod secrets;
mod support;
mod workers;
