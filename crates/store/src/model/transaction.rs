//! Changes that can be taken back: a batch is whole or nothing.
//!
//! A transaction writes into the tables at once, so that each step sees what those before it
//! wrote, and notes every row as it was. Dropping it without [`Transaction::keep`] puts the former
//! rows back, the last one first.

use resurgam_core::{CallKey, Event, Payload, Timestamp, Uid};

use super::tables::{CountKey, InboxEntry, Instance, MessageEntry, ScheduleEntry, Tables};
use crate::rows::{ActionRow, AttemptRow, PolicyOverride, TaskRow};
use crate::{BulkRecord, DeadLetter, GateCount, GateRow, Hold, HoldKind};

/// A row as it was before a change; `None` when there was none.
enum Before {
    Instance(Uid, Option<Instance>),
    Event(CallKey, Option<Event>),
    Policy(String, Option<String>),
    Task(CallKey, Option<TaskRow>),
    Message((Uid, u64), Option<MessageEntry>),
    Attempt((CallKey, u64), Option<AttemptRow>),
    Action((Uid, String), Option<ActionRow>),
    Letter(CallKey, Option<DeadLetter>),
    Kv((Uid, String), Option<Payload>),
    PolicyOverride(String, Option<PolicyOverride>),
    Gate(String, Option<GateRow>),
    GateCount(CountKey, Option<GateCount>),
    Hold((HoldKind, String), Option<Hold>),
    Schedule(String, Option<ScheduleEntry>),
    Inbox(i64, Option<InboxEntry>),
    Seen(String, Option<Timestamp>),
    Bulk(String, Option<BulkRecord>),
}

/// Changes that are kept or taken back together.
pub(super) struct Transaction<'t> {
    tables: &'t mut Tables,
    undo: Vec<Before>,
    /// The counts of arrivals and revisions at its beginning.
    counted: (u64, u64),
}

impl<'t> Transaction<'t> {
    pub(super) fn begin(tables: &'t mut Tables) -> Self {
        let counted = (tables.arrivals, tables.revisions);
        Transaction { tables, undo: Vec::new(), counted }
    }

    /// Keeps everything that was written.
    pub(super) fn keep(mut self) {
        self.undo.clear();
        self.counted = (self.tables.arrivals, self.tables.revisions);
    }

    /// The tables as they are by now.
    pub(super) fn tables(&self) -> &Tables {
        self.tables
    }

    /// The number of a row that arrives now.
    pub(super) fn next_arrival(&mut self) -> u64 {
        self.tables.arrivals += 1;
        self.tables.arrivals
    }

    /// The number of a change of a schedule.
    pub(super) fn next_revision(&mut self) -> u64 {
        self.tables.revisions += 1;
        self.tables.revisions
    }

    pub(super) fn put_instance(&mut self, uid: Uid, row: Option<Instance>) {
        let before = self.tables.instances.put(uid, row);
        self.undo.push(Before::Instance(uid, before));
    }

    pub(super) fn put_event(&mut self, place: CallKey, row: Option<Event>) {
        let before = self.tables.events.put(place, row);
        self.undo.push(Before::Event(place, before));
    }

    pub(super) fn put_policy(&mut self, hash: String, text: Option<String>) {
        let before = self.tables.policies.put(hash.clone(), text);
        self.undo.push(Before::Policy(hash, before));
    }

    pub(super) fn put_task(&mut self, call: CallKey, row: Option<TaskRow>) {
        let before = self.tables.tasks.put(call, row);
        self.undo.push(Before::Task(call, before));
    }

    pub(super) fn put_message(&mut self, key: (Uid, u64), row: Option<MessageEntry>) {
        let before = self.tables.messages.put(key, row);
        self.undo.push(Before::Message(key, before));
    }

    pub(super) fn put_attempt(&mut self, key: (CallKey, u64), row: Option<AttemptRow>) {
        let before = self.tables.attempts.put(key, row);
        self.undo.push(Before::Attempt(key, before));
    }

    pub(super) fn put_action(&mut self, key: (Uid, String), row: Option<ActionRow>) {
        let before = self.tables.actions.put(key.clone(), row);
        self.undo.push(Before::Action(key, before));
    }

    pub(super) fn put_letter(&mut self, call: CallKey, row: Option<DeadLetter>) {
        let before = self.tables.letters.put(call, row);
        self.undo.push(Before::Letter(call, before));
    }

    pub(super) fn put_kv(&mut self, key: (Uid, String), value: Option<Payload>) {
        let before = self.tables.kv.put(key.clone(), value);
        self.undo.push(Before::Kv(key, before));
    }

    pub(super) fn put_policy_override(&mut self, activity: String, row: Option<PolicyOverride>) {
        let before = self.tables.policy_overrides.put(activity.clone(), row);
        self.undo.push(Before::PolicyOverride(activity, before));
    }

    pub(super) fn put_gate(&mut self, key: String, row: Option<GateRow>) {
        let before = self.tables.gates.put(key.clone(), row);
        self.undo.push(Before::Gate(key, before));
    }

    pub(super) fn put_gate_count(&mut self, key: CountKey, row: Option<GateCount>) {
        let before = self.tables.gate_counts.put(key.clone(), row);
        self.undo.push(Before::GateCount(key, before));
    }

    pub(super) fn put_hold(&mut self, key: (HoldKind, String), row: Option<Hold>) {
        let before = self.tables.holds.put(key.clone(), row);
        self.undo.push(Before::Hold(key, before));
    }

    pub(super) fn put_schedule(&mut self, id: String, row: Option<ScheduleEntry>) {
        let before = self.tables.schedules.put(id.clone(), row);
        self.undo.push(Before::Schedule(id, before));
    }

    pub(super) fn put_inbox(&mut self, arrival: i64, row: Option<InboxEntry>) {
        let before = self.tables.inbox.put(arrival, row);
        self.undo.push(Before::Inbox(arrival, before));
    }

    pub(super) fn put_seen(&mut self, id: String, at: Option<Timestamp>) {
        let before = self.tables.seen.put(id.clone(), at);
        self.undo.push(Before::Seen(id, before));
    }

    pub(super) fn put_bulk(&mut self, id: String, row: Option<BulkRecord>) {
        let before = self.tables.bulk.put(id.clone(), row);
        self.undo.push(Before::Bulk(id, before));
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let tables = &mut *self.tables;
        (tables.arrivals, tables.revisions) = self.counted;
        for before in self.undo.drain(..).rev() {
            match before {
                Before::Instance(key, row) => {
                    tables.instances.put(key, row);
                }
                Before::Event(key, row) => {
                    tables.events.put(key, row);
                }
                Before::Policy(key, row) => {
                    tables.policies.put(key, row);
                }
                Before::Task(key, row) => {
                    tables.tasks.put(key, row);
                }
                Before::Message(key, row) => {
                    tables.messages.put(key, row);
                }
                Before::Attempt(key, row) => {
                    tables.attempts.put(key, row);
                }
                Before::Action(key, row) => {
                    tables.actions.put(key, row);
                }
                Before::Letter(key, row) => {
                    tables.letters.put(key, row);
                }
                Before::Kv(key, row) => {
                    tables.kv.put(key, row);
                }
                Before::PolicyOverride(key, row) => {
                    tables.policy_overrides.put(key, row);
                }
                Before::Gate(key, row) => {
                    tables.gates.put(key, row);
                }
                Before::GateCount(key, row) => {
                    tables.gate_counts.put(key, row);
                }
                Before::Hold(key, row) => {
                    tables.holds.put(key, row);
                }
                Before::Schedule(key, row) => {
                    tables.schedules.put(key, row);
                }
                Before::Inbox(key, row) => {
                    tables.inbox.put(key, row);
                }
                Before::Seen(key, row) => {
                    tables.seen.put(key, row);
                }
                Before::Bulk(key, row) => {
                    tables.bulk.put(key, row);
                }
            }
        }
    }
}
