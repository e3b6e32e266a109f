//! Resurgam on PostgreSQL, for workflows that many processes work on.
//!
//! [`PostgresStore`] keeps the promises of [`resurgam_store`]. How it works:
//!
//! - A batch is one transaction in one round trip (`commit/`, a file for each table), on one of a
//!   few connections, the lanes. Batches of a lane are numbered, so that a lost answer is resolved
//!   and not guessed.
//! - Other connections read (`pool`, `read/`), one round trip for each read.
//! - Instances belong to shards and shards to nodes: `ownership` says who is alive and who has
//!   what. Every commit of an owner is refused once another node has taken the shard.
//! - `changes` hears of the commits of others: by polling, and sooner by notifications.
//! - `connect`, `connect/tls` and `migrate` refuse what is not ours, too old or newer than we are;
//!   `errors` says in one table what PostgreSQL's errors mean; `quarantine` keeps rows that cannot
//!   be read out of the way.
//!
//! A pooler in transaction mode may stand between; give [`Options::listen_url`] the server itself
//! then. Nothing is left behind in a session that others may get: statements have no names,
//! settings end with their transaction, and there are no session locks anywhere. Where a session is
//! ours alone (`session`) statements are prepared, and a batch is one of them (`combine`,
//! `small_batch`). What statements say follows from lists of columns (`sql`).
//!
//! The tables are described in `schema.sql`, for people too: anybody may read them while nodes
//! work.
//!
//! Not here: what an owner does with the rows, and when it takes or gives up a shard. That is the
//! worker's.

mod audit;
mod backoff;
mod batched_reads;
mod calls;
mod changes;
mod clock;
mod combine;
mod commit;
mod connect;
mod decode;
mod encode;
mod errors;
mod graph_templates;
mod lanes;
mod limits;
mod migrate;
mod options;
mod ownership;
mod pool;
mod pressure;
mod quarantine;
mod read;
mod remote;
mod session;
mod small_batch;
mod sql;
mod statement;
mod store;
mod sweep;
mod tokens;
mod user_transaction;

pub use options::Options;
pub use resurgam_store::quarantine::BadRow;
pub use store::{Commits, PostgresStore};
pub use user_transaction::PostgresWork;
