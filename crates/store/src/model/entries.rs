//! Messages, policies, schedules and rows of the inbox in a batch.

use resurgam_core::{RunKey, Uid};

use super::tables::{InboxEntry, MessageEntry, ScheduleEntry};
use super::transaction::Transaction;
use crate::rows::{MessageRow, PolicyOverride, PolicyRow};
use crate::{InboxWrite, MessageWrite, ScheduleWrite};

/// How many ids of inbox rows are forgotten at a time.
const FORGOTTEN_AT_ONCE: usize = 1_000;

impl Transaction<'_> {
    pub(super) fn add_policy(&mut self, policy: &PolicyRow) {
        if !self.tables().policies.map().contains_key(&policy.hash) {
            self.put_policy(policy.hash.clone(), Some(policy.text.clone()));
        }
    }

    pub(super) fn write_message(&mut self, write: &MessageWrite) {
        match write {
            MessageWrite::Insert(row) => self.deliver(row),
            MessageWrite::InsertIfOpen(row) => {
                let instance = self.tables().instances.get(row.uid);
                if instance.is_some_and(|instance| instance.row.closed_at.is_none()) {
                    self.deliver(row);
                }
            }
            MessageWrite::Delete { uid, id } => {
                if let Some((key, _)) = self.tables().messages.by_id(*uid, id) {
                    self.put_message(key, None);
                }
            }
            MessageWrite::Defer { uid, id } => {
                let found = self.tables().messages.by_id(*uid, id);
                if let Some((key, mut entry)) = found.map(|(key, entry)| (key, entry.clone())) {
                    entry.row.due_at = MessageRow::NEVER;
                    self.put_message(key, Some(entry));
                }
            }
            MessageWrite::DeleteRun(run) => self.delete_messages_of(*run),
            MessageWrite::Park(uid) => self.park(*uid, true),
            MessageWrite::Unpark(uid) => self.park(*uid, false),
        }
    }

    /// Stores a message, unless the instance has one with its id.
    pub(super) fn deliver(&mut self, row: &MessageRow) {
        if self.tables().messages.by_id(row.uid, &row.id).is_none() {
            let key = (row.uid, self.next_arrival());
            self.put_message(key, Some(MessageEntry { row: row.clone(), parked: false }));
        }
    }

    fn delete_messages_of(&mut self, run: RunKey) {
        let messages = self.tables().messages.of(run.uid);
        let of_run = messages.filter(|(_, entry)| entry.row.body.run() == Some(run.run));
        let keys: Vec<(Uid, u64)> = of_run.map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.put_message(key, None));
    }

    fn park(&mut self, uid: Uid, parked: bool) {
        let messages = self.tables().messages.of(uid);
        // A run that does not go on holds up nothing that is for who holds its shard.
        let may_park = |entry: &MessageEntry| !(parked && entry.row.body.is_for_holder());
        let others = messages.filter(|(_, entry)| entry.parked != parked && may_park(entry));
        let changed: Vec<((Uid, u64), MessageEntry)> =
            others.map(|(key, entry)| (key, MessageEntry { parked, ..entry.clone() })).collect();
        changed.into_iter().for_each(|(key, entry)| self.put_message(key, Some(entry)));
    }

    /// Keeps a policy that was set for an activity, or that there is none any more.
    pub(super) fn set_policy_override(&mut self, row: &PolicyOverride) {
        let before = self.tables().policy_overrides.map().get(&row.activity);
        let revision = before.map_or(0, |before| before.revision) + 1;
        self.put_policy_override(
            row.activity.clone(),
            Some(PolicyOverride { revision, ..row.clone() }),
        );
    }

    /// True when a change of a schedule follows from what is stored.
    pub(super) fn follows(&self, write: &ScheduleWrite) -> bool {
        let stored = self.tables().schedules.get(write.id());
        match write {
            ScheduleWrite::Insert(_) => stored.is_none(),
            ScheduleWrite::Update { revision, .. } => {
                stored.is_some_and(|entry| entry.revision == *revision)
            }
            ScheduleWrite::Delete { .. } => stored.is_some(),
        }
    }

    pub(super) fn write_schedule(&mut self, write: &ScheduleWrite) {
        let revision = self.next_revision();
        let entry = match write {
            ScheduleWrite::Insert(row) | ScheduleWrite::Update { row, .. } => {
                Some(ScheduleEntry { row: row.clone(), revision })
            }
            ScheduleWrite::Delete { .. } => None,
        };
        self.put_schedule(write.id().to_string(), entry);
    }

    /// True unless a row is to be taken that is not there as it was read, or that was taken before.
    /// The latter goes here: there is nothing else of its step to be written.
    pub(super) fn is_new(&mut self, write: &InboxWrite) -> bool {
        let InboxWrite::Take { row, .. } = write else { return true };
        if self.tables().inbox.new_row(row.arrival) != Some(row) {
            return false;
        }
        let seen = row.id.as_ref().is_some_and(|id| self.tables().seen.contains(id));
        if seen {
            self.put_inbox(row.arrival, None);
        }
        !seen
    }

    pub(super) fn write_inbox(&mut self, write: &InboxWrite) {
        match write {
            InboxWrite::Take { row, at } => {
                self.put_inbox(row.arrival, None);
                if let Some(id) = &row.id {
                    self.put_seen(id.clone(), Some(*at));
                }
            }
            InboxWrite::Refuse { arrival, error } => {
                if let Some(row) = self.tables().inbox.new_row(*arrival).cloned() {
                    let error = Some(error.clone());
                    self.put_inbox(*arrival, Some(InboxEntry { row, error }));
                }
            }
            InboxWrite::Forget { before } => {
                let old = self.tables().seen.before(*before).take(FORGOTTEN_AT_ONCE);
                let ids: Vec<String> = old.map(str::to_string).collect();
                ids.into_iter().for_each(|id| self.put_seen(id, None));
            }
        }
    }
}
