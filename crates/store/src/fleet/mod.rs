//! What the nodes of one database decide about themselves and each other.
//!
//! Several nodes share the shards of a database. A node says that it is alive by raising a number
//! in its own row, its beat. The others watch it: a node whose beat stands still for a whole lease
//! is dead, and its shards are free. Taking a shard raises its epoch, and every commit of a node
//! names the epochs of the shards that it writes.
//!
//! Everything here is pure: no clock, no I/O, no random numbers, and collections with an order. The
//! caller brings the time of its own monotonic clock, as a [`Duration`](std::time::Duration) since
//! any origin that stays the same, and the rows as the database told them. A store does what is
//! decided, so the same code runs on PostgreSQL and in a simulator.
//!
//! - [`NodeRow`], [`ShardRow`], [`View`]: the rows that are decided from.
//! - [`Membership`]: what one node knows of the others, and decides from every look at the rows.
//!   Its parts are [`Observer`], which nodes are dead; [`sharers()`], which nodes share the shards;
//!   and [`spread()`], who should have which shards.
//! - [`Fence`]: what a commit of a node must find.
//! - [`BatchSequence`]: the numbered batches of one lane, a connection that commits, and what
//!   became of a batch whose answer was lost. [`Rewinds`]: what follows when a lane finds that the
//!   database went back in time.
//! - [`PrimaryMemory`]: which of several servers is the primary, and which one only believes that
//!   it is.

mod batch_sequence;
mod fence;
mod membership;
mod observer;
mod primary;
mod rewinds;
mod sharers;
mod spread;
mod view;

pub use batch_sequence::{BatchFate, BatchSequence, LaneRow, NumberRefused, Rewound};
pub use fence::Fence;
pub use membership::{Beat, Membership, Observation};
pub use observer::Observer;
pub use primary::{
    MarkRead, PrimaryMemory, Purpose, ServerAccess, ServerIdentity, ServerRefused, ServerReport,
    TimelineMark,
};
pub use rewinds::{Positions, Rewinds};
pub use sharers::sharers;
pub use spread::{Moves, spread};
pub use view::{NodeRow, ShardRow, View};
