//! `resurgam run`, `worker` and all that looks at them, as processes.
#![cfg(unix)]

mod acting;
mod acting_on_runs;
mod broken;
mod deleting;
mod each;
mod examples;
mod exporting;
mod gates;
mod inputs;
mod journal;
mod kills;
mod lists;
mod looking;
mod many;
mod postgres;
mod remote;
mod remote_kills;
mod run;
mod schedules;
mod secrets;
mod servers;
pub(crate) mod support;
mod unresolved;
mod what_if;
mod workers;
