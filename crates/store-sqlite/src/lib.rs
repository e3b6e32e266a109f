//! Resurgam on one SQLite file, for workflows that run inside the user's process.
//!
//! [`SqliteStore`] keeps the promises of [`resurgam_store`]. How it works:
//!
//! - One thread writes (`writer`), one transaction for each batch, its statements prepared once
//!   (`commit/`, a file for each table). A commit is acknowledged when the disk has it.
//! - Other threads read (`reader`, `read/`) on connections of their own, so that nobody who looks
//!   at a long list holds up a commit. In memory one connection does both.
//! - Another connection copies the write-ahead log into the database (`checkpoint`).
//! - One process at a time works on a file, and others are its clients. `ownership` says how that
//!   is kept: a lock beside the file (`lock`, `lock_files`), and a name inside it that every commit
//!   of the owner reads first. `changes` hears of the commits of others, and `busy` and `queue` see
//!   to it that everybody who waits to write gets there soon.
//! - The user's own tables lie beside ours. Code that uses them runs on the same threads, and
//!   `user_transaction` keeps it to its tables; `commit/transact.rs` stores an attempt's result
//!   together with what the attempt wrote there.
//! - Who only looks, or asks others to work, opens a database as it is and leaves it so: nothing
//!   is made, migrated or marked, and the right to read is enough (`still`: where no files can be
//!   made).
//! - `open` and `schema` refuse what is not ours or is newer than we are; `process` refuses use
//!   after a fork; `errors` says in one table what SQLite's errors mean, and `file_limit` makes an
//!   error of what would end the process; `quarantine` keeps rows that cannot be read out of the
//!   way; `sweep` deletes closed instances in short pieces.
//!
//! The tables are described in `schema.sql` and the migrations beside it, for people too: anybody
//! may read them with any SQLite tool while the store is open.
//!
//! Beside `orders.db` and SQLite's own files lie `orders.db-owner` and `orders.db-queue`, which
//! hold nothing worth keeping: a backup needs neither, and both may be removed while nobody works.
//!
//! Not here: what an owner does with the rows, and when a standby tries to become one. That is the
//! worker's.

mod audit;
mod busy;
mod calls;
mod changes;
mod checkpoint;
mod commit;
mod decode;
mod encode;
mod errors;
mod file_limit;
mod graph_templates;
mod lock;
mod lock_files;
mod open;
mod options;
mod ownership;
mod pressure;
mod process;
mod quarantine;
mod queue;
mod read;
mod reader;
mod remote;
mod schema;
mod still;
mod store;
mod sweep;
mod threads;
mod tokens;
mod user_transaction;
mod writer;

pub use options::{Options, SyncMode};
pub use resurgam_store::quarantine::BadRow;
pub use store::{Commits, SqliteStore};
pub use user_transaction::SqliteWork;
