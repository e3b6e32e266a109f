//! What one wave of a batch writes: a list for each statement.

use std::collections::BTreeSet;

use resurgam_core::event::{Compensation, Stored};
use resurgam_core::{CallKey, Payload, RunKey, Timestamp, Uid};
use resurgam_store::rows::{InstanceRow, MessageRow, RunPause, Status, TaskRow};
use resurgam_store::{BulkRow, DeadLetter, InboxRow, ScheduleRow};

use super::gate::GateWrites;
use super::letter::SettledLetter;

/// What may be written in any order.
#[derive(Default)]
pub(crate) struct Wave<'b> {
    pub(crate) open: BTreeSet<Uid>,
    pub(crate) statuses: Vec<StatusWrite<'b>>,
    pub(crate) continued: Vec<(RunKey, &'b Payload, Option<&'b RunPause>)>,
    pub(crate) paused: Vec<(Uid, Status, &'b RunPause)>,
    pub(crate) released: Vec<&'b str>,
    /// Closed instances whose ids others take over, which must hold them.
    pub(crate) replaced: Vec<Uid>,
    pub(crate) started: Vec<(i64, &'b InstanceRow)>,
    pub(crate) task_inserts: Vec<&'b TaskRow>,
    pub(crate) task_updates: Vec<&'b TaskRow>,
    pub(crate) task_amends: Vec<&'b TaskRow>,
    pub(crate) task_deletes: Vec<CallKey>,
    pub(crate) task_discards: Vec<CallKey>,
    pub(crate) task_runs: Vec<RunKey>,
    pub(crate) message_inserts: Vec<NewMessage<'b>>,
    pub(crate) message_inserts_if_open: Vec<NewMessage<'b>>,
    pub(crate) message_deletes: Vec<(Uid, &'b str)>,
    pub(crate) message_defers: Vec<(Uid, &'b str)>,
    pub(crate) message_runs: Vec<RunKey>,
    pub(crate) parked: Vec<(Uid, bool)>,
    pub(crate) schedule_inserts: Vec<&'b ScheduleRow>,
    pub(crate) schedule_updates: Vec<(&'b ScheduleRow, u64)>,
    pub(crate) schedule_deletes: Vec<&'b str>,
    pub(crate) taken: Vec<(&'b InboxRow, Timestamp)>,
    pub(crate) dropped: Vec<i64>,
    pub(crate) refused: Vec<(i64, &'b str)>,
    pub(crate) forgotten: Option<Timestamp>,
    pub(crate) bulk_inserts: Vec<&'b BulkRow>,
    pub(crate) bulk_updates: Vec<(&'b BulkRow, u64)>,
    pub(crate) bulk_stops: Vec<(&'b str, &'b str)>,
    pub(crate) letter_inserts: Vec<&'b DeadLetter>,
    pub(crate) letter_settles: Vec<SettledLetter<'b>>,
    /// Few batches have any.
    pub(crate) gates: Option<Box<GateWrites<'b>>>,
}

/// A change of status.
pub(crate) struct StatusWrite<'b> {
    pub(crate) uid: Uid,
    pub(crate) status: Status,
    pub(crate) outcome: Option<&'b Payload>,
    pub(crate) compensation: Option<Compensation>,
    pub(crate) error: Option<&'b str>,
    pub(crate) closed_at: Option<Timestamp>,
}

/// A message with its place among those of the batch.
pub(crate) struct NewMessage<'b> {
    pub(crate) arrival: i64,
    pub(crate) row: &'b MessageRow,
    pub(crate) run: Option<u32>,
    pub(crate) stored: Stored,
}
