//! The inbox: rows that others insert.

use resurgam_core::Shard;

use super::Model;
use super::shard_set::ShardSet;
use super::tables::InboxEntry;
use crate::InboxRow;

impl Model {
    /// Rows that nobody has taken or refused, in the order of their arrival. The rows of one
    /// instance are for the node that holds the shard of its id.
    pub fn inbox(&self, shards: ShardSet, limit: usize) -> Vec<InboxRow> {
        let new = self.tables.inbox.new_rows();
        let here = new.filter(|row| shards.contains(Shard::of_id(&row.instance)));
        here.take(limit).cloned().collect()
    }

    /// Somebody inserts a row with SQL. Its arrival is its key: a row that has it is replaced.
    pub fn insert_inbox(&mut self, row: InboxRow) {
        self.tables.inbox.put(row.arrival, Some(InboxEntry { row, error: None }));
    }
}
