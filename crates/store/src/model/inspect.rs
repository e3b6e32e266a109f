//! What people and clients read.

use resurgam_core::{Event, EventKind, RunKey, Uid};

use super::Model;
use super::tables::{calls_of_run, is_signal, ledger_of};
use crate::EventPage;
use crate::rows::{
    ActionRow, AttemptRow, InstanceFilter, InstanceRow, KvRow, MessageRow, Status, TaskRow,
};

impl Model {
    /// The current instance of an id.
    pub fn find(&self, id: &str) -> Option<InstanceRow> {
        self.tables.instances.holder(id).map(|instance| instance.row.clone())
    }

    /// The instance that was started with a request id.
    pub fn find_request(&self, request_id: &str) -> Option<InstanceRow> {
        self.tables.instances.requested(request_id).map(|instance| instance.row.clone())
    }

    /// True when a signal with this request id was stored for an instance of this id, the current
    /// one or one before it.
    pub fn signalled(&self, id: &str, request_id: &str) -> bool {
        let message = format!("{}{request_id}", MessageRow::REPEATABLE_SIGNAL);
        let waits = |uid: Uid| {
            let found = self.tables.messages.by_id(uid, &message);
            found.is_some_and(|(_, entry)| is_signal(&entry.row))
        };
        let mut holders = self.tables.instances.holders(id);
        holders.any(|uid| waits(uid) || self.tables.events.has_signal(uid, request_id))
    }

    /// The instance of a uid.
    pub fn instance(&self, uid: Uid) -> Option<InstanceRow> {
        self.tables.instances.get(uid).map(|instance| instance.row.clone())
    }

    /// Those of these instances that are closed.
    pub fn closed(&self, uids: &[Uid]) -> Vec<InstanceRow> {
        let found = uids.iter().filter_map(|uid| self.tables.instances.get(*uid));
        found.map(|found| &found.row).filter(|row| row.closed_at.is_some()).cloned().collect()
    }

    /// Those of these instances that are not there, in the order in which they are asked for.
    pub fn missing(&self, uids: &[Uid]) -> Vec<Uid> {
        let is_missing = |uid: &&Uid| self.tables.instances.get(**uid).is_none();
        uids.iter().filter(is_missing).copied().collect()
    }

    /// Instances, the newest first.
    pub fn list(&self, filter: &InstanceFilter) -> Vec<InstanceRow> {
        let newest = self.tables.instances.newest(filter.after);
        let young = |row: &&InstanceRow| filter.since.is_none_or(|since| row.created_at >= since);
        let wanted = newest
            .take_while(young)
            .filter(|row| is_wanted(row, filter) && (!filter.retrying || self.is_retrying(row)));
        wanted.take(filter.most()).cloned().collect()
    }

    /// Current instances whose ids begin so, in the order of their ids.
    pub fn with_prefix(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<InstanceRow> {
        let is_one = |row: &&InstanceRow| {
            let holds = self.find(&row.id).is_some_and(|holder| holder.uid == row.uid);
            holds && row.id.starts_with(prefix) && after.is_none_or(|after| row.id.as_str() > after)
        };
        let mut found: Vec<InstanceRow> =
            self.tables.instances.newest(None).filter(is_one).cloned().collect();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        found.truncate(limit);
        found
    }

    /// Whether an activity of an open instance waits to be tried again.
    fn is_retrying(&self, row: &InstanceRow) -> bool {
        let waits_again = |task: &TaskRow| {
            task.claim.is_none() && task.attempt > 0 && task.wake_at != TaskRow::NEVER
        };
        !row.status.is_closed() && self.tables.tasks.of(row.uid).any(waits_again)
    }

    /// The events of a run in order, as far as they are there.
    pub fn history(&self, run: RunKey) -> Vec<Event> {
        self.tables.events.of_run(run).cloned().collect()
    }

    /// A part of the events of a run, in order.
    pub fn event_page(&self, run: RunKey, page: EventPage, limit: usize) -> Vec<Event> {
        let events = self.tables.events.of_run(run);
        match page {
            EventPage::After(place) => {
                events.filter(|event| event.seq > place).take(limit).cloned().collect()
            }
            EventPage::Before(place) => {
                let is_before = |event: &&Event| place.is_none_or(|place| event.seq < place);
                let all: Vec<&Event> = events.filter(is_before).collect();
                let skipped = all.len().saturating_sub(limit);
                all.into_iter().skip(skipped).cloned().collect()
            }
        }
    }

    /// The ledger of a run: attempts in order of their end; those of one moment call by call.
    pub fn attempts(&self, run: RunKey) -> Vec<AttemptRow> {
        let ledger = self.tables.attempts.map().range(ledger_of(calls_of_run(run)));
        let mut rows: Vec<AttemptRow> = ledger.map(|(_, row)| row.clone()).collect();
        rows.sort_by_key(|row| row.ended_at);
        rows
    }

    /// What operators did to the calls of a run, in order of time; those of one moment by their
    /// ids.
    pub fn actions(&self, run: RunKey) -> Vec<ActionRow> {
        let actions = self.tables.actions.map().range((run.uid, String::new())..);
        let of = actions.take_while(|((uid, _), _)| *uid == run.uid).map(|(_, row)| row);
        let mut rows: Vec<ActionRow> = of.filter(|row| row.call.run == run).cloned().collect();
        rows.sort_by_key(|row| row.at);
        rows
    }

    /// What came of the action of this id.
    pub fn action(&self, uid: Uid, id: &str) -> Option<ActionRow> {
        self.tables.actions.map().get(&(uid, id.to_string())).cloned()
    }

    /// The unfinished activity calls of a run.
    pub fn tasks(&self, run: RunKey) -> Vec<TaskRow> {
        self.tables.tasks.of_run(run).cloned().collect()
    }

    /// The messages that an instance has not read, in order of their arrival.
    pub fn messages(&self, uid: Uid) -> Vec<MessageRow> {
        self.tables.messages.of(uid).map(|(_, entry)| entry.row.clone()).collect()
    }

    /// Whether the history of a run says that somebody asked it to end.
    pub fn cancel_requested(&self, run: RunKey) -> bool {
        let is_request = |event: &Event| matches!(event.kind, EventKind::CancelRequested { .. });
        self.tables.events.of_run(run).any(is_request)
    }

    /// One entry of an instance's own data.
    pub fn kv(&self, uid: Uid, key: &str) -> Option<KvRow> {
        let value = self.tables.kv.map().get(&(uid, key.to_string()))?.clone();
        Some(KvRow { uid, key: key.to_string(), value })
    }
}

fn is_wanted(row: &InstanceRow, filter: &InstanceFilter) -> bool {
    fn is<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
        wanted.is_none() || wanted == found
    }
    let status = |status: &Status| filter.status.is_empty() || filter.status.contains(status);
    let tag = filter.tag.as_ref().is_none_or(|(name, value)| row.tags.get(name) == Some(value));
    status(&row.status)
        && is(filter.workflow.as_ref(), Some(&row.workflow))
        && tag
        && is(filter.schedule.as_ref(), row.schedule.as_ref())
        && is(filter.compensation.as_ref(), row.compensation.as_ref())
}
