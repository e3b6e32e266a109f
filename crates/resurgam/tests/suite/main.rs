//! Apps and clients as people use them, on files and servers, in one process and in several.

#![allow(clippy::unwrap_used)]

mod clients;
mod files;
mod kill;
mod nodes;
mod overtaken;
mod processes;
mod rights;
mod schedules;
mod sharing;
mod stop;
mod takeover;
mod transfers;
