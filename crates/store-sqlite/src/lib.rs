//! Resurgam on one SQLite file, for workflows that run inside the user's process.
//!
//! [`SqliteStore`] keeps the promises of [`resurgam_store`]. How it works:
//!
//! - One thread writes (`writer`), one transaction for each batch, its statements prepared once
//!   (`commit/`, a file for each table). A commit is acknowledged when the disk has it.
//! - Other threads read (`reader`, `read/`) on connections of their own, so that nobody who looks
//!   at a long list holds up a commit. In memory one connection does both.
//! - Another connection copies the write-ahead log into the database (`checkpoint`).
//! - `open` and `schema` refuse what is not ours or is newer than we are; `trouble` says in one
//!   table what SQLite's errors mean; `aside` keeps rows that cannot be read out of the way.
//!
//! The tables are described in `schema.sql`, for people too: anybody may read them with any SQLite
//! tool while the store is open.
//!
//! Not here: who owns a file, and what is done with its rows. That is the worker's.

mod aside;
mod busy;
mod calls;
mod checkpoint;
mod commit;
mod decode;
mod encode;
mod open;
mod options;
mod read;
mod reader;
mod schema;
mod store;
mod threads;
mod trouble;
mod writer;

pub use aside::BadRow;
pub use options::{Options, SyncMode};
pub use store::{Commits, SqliteStore};
