//! The rows of every table, with the indexes that the reads need.
//!
//! Each table changes through one function, `put`: it sets the row of a key, or removes it, keeps
//! the indexes in step, and answers with the row as it was. So a change is taken back by putting
//! the former row, and no index can be forgotten.

mod inbox;
mod instances;
mod messages;
mod schedules;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};

use crate::rows::{ActionRow, AttemptRow, PolicyOverride};
use crate::{
    AuditRow, BulkRecord, DeadLetter, GateCount, GateRow, GraphTemplateRow, Hold, HoldKind,
    LoginRow, PressureCounts, RemoteActivity, TokenRow, WorkerSession,
};

pub(super) use inbox::{InboxEntry, InboxRows, SeenIds};
pub(super) use instances::{Instance, Instances};
pub(super) use messages::{MessageEntry, Messages, is_signal};
pub(super) use schedules::{ScheduleEntry, ScheduleRows};
pub(super) use tasks::Tasks;

/// All tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) instances: Instances,
    pub(super) events: Events,
    pub(super) policies: Rows<String, String>,
    pub(super) tasks: Tasks,
    pub(super) messages: Messages,
    /// The ledger: the place of a row in the ledger of its call counts dropped rows too.
    pub(super) attempts: Rows<(CallKey, u64), AttemptRow>,
    pub(super) actions: Rows<(Uid, String), ActionRow>,
    pub(super) letters: Rows<CallKey, DeadLetter>,
    pub(super) kv: Rows<(Uid, String), Payload>,
    pub(super) policy_overrides: Rows<String, PolicyOverride>,
    pub(super) gates: Rows<String, GateRow>,
    pub(super) gate_counts: Rows<CountKey, GateCount>,
    pub(super) holds: Rows<(HoldKind, String), Hold>,
    pub(super) schedules: ScheduleRows,
    pub(super) inbox: InboxRows,
    pub(super) seen: SeenIds,
    pub(super) bulk: Rows<String, BulkRecord>,
    pub(super) tokens: Rows<String, TokenRow>,
    pub(super) logins: Rows<String, LoginRow>,
    pub(super) graph_templates: Rows<String, GraphTemplateRow>,
    pub(super) pressure: Rows<PressureKey, PressureCounts>,
    pub(super) audit: Rows<(Timestamp, String), AuditRow>,
    /// By session and server.
    pub(super) worker_sessions: Rows<(String, String), WorkerSession>,
    pub(super) remote_activities: Rows<String, RemoteActivity>,
    /// How many rows have arrived: what was written first has a lower number.
    pub(super) arrivals: u64,
    /// How often schedules were written.
    pub(super) revisions: u64,
}

/// The gate, the second and the node of what was counted.
pub(super) type CountKey = (String, Timestamp, String);

/// The minute, the activity and the failure type of what was counted.
pub(super) type PressureKey = (Timestamp, String, String);

/// A table that is only read by its key.
#[derive(Clone, Debug)]
pub(super) struct Rows<K, V>(BTreeMap<K, V>);

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Rows(BTreeMap::new())
    }
}

impl<K: Ord, V> Rows<K, V> {
    pub(super) fn put(&mut self, key: K, row: Option<V>) -> Option<V> {
        match row {
            Some(row) => self.0.insert(key, row),
            None => self.0.remove(&key),
        }
    }

    pub(super) fn map(&self) -> &BTreeMap<K, V> {
        &self.0
    }
}

/// Histories.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    rows: BTreeMap<CallKey, Event>,
    /// Signals that were read, by the request id of their sender.
    signals: BTreeSet<(String, CallKey)>,
}

impl Events {
    pub(super) fn put(&mut self, place: CallKey, row: Option<Event>) -> Option<Event> {
        if let Some(request) = row.as_ref().and_then(signal_request) {
            self.signals.insert((request.to_string(), place));
        }
        let before = match row {
            Some(row) => self.rows.insert(place, row),
            None => self.rows.remove(&place),
        };
        if let Some(request) = before.as_ref().and_then(signal_request)
            && self.rows.get(&place).and_then(signal_request) != Some(request)
        {
            self.signals.remove(&(request.to_string(), place));
        }
        before
    }

    pub(super) fn map(&self) -> &BTreeMap<CallKey, Event> {
        &self.rows
    }

    /// The events of a run in order.
    pub(super) fn of_run(&self, run: RunKey) -> impl Iterator<Item = &Event> {
        self.rows.range(calls_of_run(run)).map(|(_, event)| event)
    }

    /// Whether an instance has read a signal with this request id.
    pub(super) fn has_signal(&self, uid: Uid, request: &str) -> bool {
        let (first, last) = calls_of(uid).into_inner();
        let places = (request.to_string(), first)..=(request.to_string(), last);
        self.signals.range(places).next().is_some()
    }
}

fn signal_request(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::SignalReceived { id, .. } => id.as_deref(),
        _ => None,
    }
}

/// The places of everything of an instance.
pub(super) fn calls_of(uid: Uid) -> RangeInclusive<CallKey> {
    let first = RunKey { uid, run: u32::MIN }.call(Seq(u64::MIN));
    first..=RunKey { uid, run: u32::MAX }.call(Seq(u64::MAX))
}

/// The places of a run.
pub(super) fn calls_of_run(run: RunKey) -> RangeInclusive<CallKey> {
    run.call(Seq(u64::MIN))..=run.call(Seq(u64::MAX))
}

/// Those rows of a ledger that are of these calls.
pub(super) fn ledger_of(calls: RangeInclusive<CallKey>) -> RangeInclusive<(CallKey, u64)> {
    let (first, last) = calls.into_inner();
    (first, u64::MIN)..=(last, u64::MAX)
}
