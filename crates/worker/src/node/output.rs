//! Everything that a node wants done, carried out by the driver (`driver.rs`) in this order.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::event::ActivityCompleted;
use resurgam_core::{CallKey, Failure, Payload, Timestamp, Uid};
use resurgam_sdk::ActivityDefinition;
use resurgam_store::Step;

use super::reply::Answer;
use super::runs::away_turn::AwayTurn;
use super::store_request::{Stamp, StoreRequest};
use crate::attempt::Limits;
use crate::retention::Retention;

/// Something that is to be done.
#[derive(Debug)]
pub enum Output {
    /// The store is asked, after a while.
    AskStore {
        request: StoreRequest,
        after: Duration,
        /// The answer is worth nothing when this has changed.
        stamp: Option<Stamp>,
    },
    /// Steps are written in one transaction. The answer comes before anything else is sent on the
    /// lane. A client that is not patient wants to know who is in its way.
    Commit { lane: usize, batch: Batch, patient: bool },
    /// The store is asked for the right to work, after a while.
    TryOwn { node: resurgam_store::Node, after: Duration },
    /// The right to work is given back; attempts, transactions and sweeps end where they stand.
    StepDown,
    /// A turn is taken on a thread of whoever interprets the workflow.
    Turn {
        turn: Box<AwayTurn>,
        /// What comes of it is worth nothing when this has changed.
        stamp: Stamp,
    },
    /// An attempt begins.
    StartAttempt(Box<AttemptStart>),
    /// An attempt that has begun hears something.
    OrderAttempt { token: u64, order: Order },
    /// An attempt is cut short, or never begins; how that went is an answer.
    InterruptAttempt { call: CallKey, token: u64 },
    /// The store runs a transaction of an attempt.
    Transact(Box<Transaction>),
    /// An attempt hears why there is no transaction.
    RefuseTransaction { ask: u64, failure: Failure },
    /// A transaction is recorded, and nobody hears of it any more.
    TransactionRecorded { ask: u64 },
    /// An attempt asks for its transaction again, after a while.
    AskAgain { ask: TransactionRequest, after: Duration },
    /// Whoever asked for something is answered.
    Answer(Answer),
    /// Something of an instance is durable: those who look at it are told.
    Changed(Uid),
    /// Something may be, of any instance.
    AnythingChanged,
    /// Closed instances that are old enough at this time are deleted.
    Sweep { retention: Retention, now: Timestamp },
}

/// An attempt that is to begin.
#[derive(Debug)]
pub struct AttemptStart {
    pub call: CallKey,
    /// What its idempotency key is made of: the call as it was first scheduled.
    pub key: CallKey,
    pub token: u64,
    pub number: u32,
    pub instance: String,
    pub queue: String,
    pub activity: Arc<ActivityDefinition>,
    pub input: Payload,
    pub last_heartbeat: Option<Payload>,
    /// The failure of the activity whose place this one has taken.
    pub fallback_of: Option<Failure>,
    pub limits: Limits,
    /// A process before this one has begun it, and somebody may be running it.
    pub resumed: bool,
}

/// What an attempt that has begun hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is to end, and may still report.
    Tell,
    /// It is to end within the grace period, and reports when it has.
    EndInGrace,
    /// The process ends, which the attempt outlives: it is left to the next, or was never begun.
    LetGo,
    /// Another process has heard from it.
    Alive,
    /// Nobody wants its result any more; it ends within the grace period.
    GiveUp,
    /// Nothing: it has reported that its time is up, and ends by itself.
    Leave,
    /// It ends where it stands, as in a crash.
    Cut,
}

/// A transaction that an attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRequest {
    /// Which of the things that were asked.
    pub ask: u64,
    pub call: CallKey,
    pub token: u64,
    /// How long to wait when the store is in trouble.
    pub wait: Duration,
}

/// A transaction that the store is to run.
#[derive(Debug)]
pub struct Transaction {
    pub ask: TransactionRequest,
    /// The record of an attempt that succeeds, without its result.
    pub completed: ActivityCompleted,
}

/// Steps that are written in one transaction, after a while.
#[derive(Debug)]
pub struct Batch {
    pub steps: Arc<[Step]>,
    pub after: Duration,
}
