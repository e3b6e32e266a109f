//! Schedules: what is due, what waits, and what people want to see.

use resurgam_core::{Shard, Timestamp};

use super::Model;
use super::shard_set::ShardSet;
use super::tables::ScheduleEntry;
use crate::{DueSchedules, ScheduleRecord};

impl Model {
    /// Schedules of these shards whose time has come by now, the earliest first, and when the
    /// first of the others is due: now, when as many are due as are asked for.
    pub fn due_schedules(&self, shards: ShardSet, now: Timestamp, limit: usize) -> DueSchedules {
        let mut by_time =
            self.tables.schedules.by_time().filter(|(_, entry)| is_in(entry, shards)).peekable();
        let mut due = Vec::new();
        while due.len() < limit
            && let Some((_, entry)) = by_time.next_if(|(at, _)| *at <= now)
        {
            due.push(self.record(entry));
        }
        let next = match due.len() == limit {
            true => Some(now),
            false => by_time.next().map(|(at, _)| at),
        };
        DueSchedules { due, next }
    }

    /// Schedules of these shards that wait for something else than the time, by id after this one.
    pub fn waiting_schedules(
        &self,
        shards: ShardSet,
        after: &str,
        limit: usize,
    ) -> Vec<ScheduleRecord> {
        let waiting = self.tables.schedules.waiting_after(after);
        let here = waiting.filter(|entry| is_in(entry, shards));
        here.take(limit).map(|entry| self.record(entry)).collect()
    }

    /// The schedule of an id.
    pub fn schedule(&self, id: &str) -> Option<ScheduleRecord> {
        self.tables.schedules.get(id).map(|entry| self.record(entry))
    }

    /// All schedules, by id after this one.
    pub fn schedules(&self, after: &str, limit: usize) -> Vec<ScheduleRecord> {
        let all = self.tables.schedules.after(after);
        all.take(limit).map(|entry| self.record(entry)).collect()
    }

    /// Goes on where another one stands with the revisions of schedules: this is that one, restored
    /// from a backup. A revision never comes twice, also then; on PostgreSQL it is random.
    pub fn counts_revisions_from(&mut self, lost: &Model) {
        self.tables.revisions = self.tables.revisions.max(lost.tables.revisions);
    }

    fn record(&self, ScheduleEntry { row, revision }: &ScheduleEntry) -> ScheduleRecord {
        let last = row.last.as_deref().and_then(|id| self.tables.instances.holder(id));
        let last_open = last.is_some_and(|instance| instance.row.closed_at.is_none());
        ScheduleRecord { row: row.clone(), revision: *revision, last_open }
    }
}

fn is_in(entry: &ScheduleEntry, shards: ShardSet) -> bool {
    shards.contains(Shard::of_id(&entry.row.id))
}
