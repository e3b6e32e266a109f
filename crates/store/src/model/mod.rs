//! The model store: what every store means, as one pure data structure.
//!
//! A [`Model`] keeps full rows of every table in ordered maps and does what the traits of this
//! crate promise, as plain synchronous calls: [`Model::commit`] is what a batch means, and every
//! read of [`Work`](crate::Work), [`Inspect`](crate::Inspect), [`Schedules`](crate::Schedules),
//! [`Inbox`](crate::Inbox) and [`Retain`](crate::Retain) has a method of the same name. It has no
//! clock, no random numbers and no threads: the same calls give the same answers. Times, tokens of
//! claims and arrivals of inbox rows come in as arguments.
//!
//! It serves two purposes. It is the database of the simulator. And it is the oracle for the real
//! stores: differential tests run random batches against it and them and compare every answer.
//!
//! - `tables`: the rows of each table, with the indexes that the reads need. `transaction`: changes
//!   that can be taken back.
//! - `commit`: what a batch means, step by step. `instances`, `entries`: its parts.
//! - `gates`: gates, and kinds that are paused.
//! - `work`, `inspect`, `schedules`, `inbox`: the reads. `retention`: deleting closed instances.
//! - `statistics`: what was counted and done, and graphs by name.
//! - `ownership`: nodes, shards and the fence of a commit. `claims`: tasks that the holder of a
//!   shard leaves to others, and attempts that end their call in a transaction of their own.
//! - `store`: the thin asynchronous [`ModelStore`] around it.
//!
//! What it costs: a commit takes O(rows written · log n), also one that is refused, because what it
//! wrote is taken back row by row. Reads of what is due follow an index in the order of time and
//! take O(limit · log n), plus what they step over because it is of other shards or cannot be run
//! here. Lists for people may walk through all instances.
//!
//! Deliberately not here: rows that cannot be read and are set aside (the model never has any); and
//! what nodes decide by themselves, which is in [`fleet`](crate::fleet): lanes and lost answers,
//! beats, and who should have which shards.
//!
//! ```
//! use resurgam_core::{Payload, Timestamp, Uid};
//! use resurgam_store::model::{Model, Sharing};
//! use resurgam_store::rows::InstanceRow;
//! use resurgam_store::{InstanceWrite, Replaces, Step, StepResult};
//!
//! let mut model = Model::new(Sharing::OneNode);
//! let row = InstanceRow::new(Uid(7), "order-1", "fulfil", Payload::null(), Timestamp::EPOCH);
//! let insert = InstanceWrite::Insert { row: Box::new(row), replaces: Replaces::Nobody };
//! let start = Step { instance: Some(insert), ..Step::default() };
//! assert_eq!(model.commit(&[start.clone()])?, [StepResult::Written]);
//! assert_eq!(model.commit(&[start])?, [StepResult::Duplicate]);
//! assert_eq!(model.find("order-1").map(|row| row.uid), Some(Uid(7)));
//! # Ok::<(), resurgam_store::Error>(())
//! ```

mod bulk;
mod claims;
mod commit;
mod entries;
mod gates;
mod inbox;
mod inspect;
mod instances;
mod ownership;
mod remote;
mod retention;
mod schedules;
mod shard_set;
mod statistics;
mod store;
mod tables;
mod tokens;
mod transaction;
mod unresolved;
mod work;

pub use ownership::Writer;
pub use shard_set::ShardSet;
pub use store::{ModelDatabase, ModelStore, ModelWork};

use ownership::Members;
use tables::Tables;

/// Whether one node works on a store, or several at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One node holds all shards or none, as on SQLite.
    OneNode,
    /// Several nodes share the shards, as on PostgreSQL.
    ManyNodes,
}

/// A store as a data structure. See the [module](self).
#[derive(Clone, Debug)]
pub struct Model {
    sharing: Sharing,
    tables: Tables,
    members: Members,
}

impl Model {
    /// An empty store.
    pub fn new(sharing: Sharing) -> Self {
        Model { sharing, tables: Tables::default(), members: Members::default() }
    }

    /// Whether several nodes can work on it at the same time.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }
}
