//! Bulk jobs, and the calls that they are about.

use std::cmp::Reverse;

use resurgam_core::{CallKey, RunKey, Shard, Timestamp};

use super::Model;
use super::shard_set::ShardSet;
use super::transaction::Transaction;
use crate::rows::{MessageRow, TaskRow};
use crate::{
    AskedAnswer, BulkCursor, BulkRecord, BulkRow, BulkWrite, CallFilter, CallPage, Candidate,
    Deleted, FailedCall, ROWS, RunCalls, WINDOW,
};

impl Model {
    /// Jobs of these shards that are not over, the oldest first.
    pub fn open_bulk(&self, shards: ShardSet, limit: usize) -> Vec<BulkRecord> {
        let is_here = |record: &&BulkRecord| {
            record.row.closed_at.is_none() && shards.contains(Shard::of_id(&record.row.id))
        };
        let mut open: Vec<&BulkRecord> = self.tables.bulk.map().values().filter(is_here).collect();
        open.sort_by_key(|record| (record.row.created_at, record.row.id.clone()));
        open.into_iter().take(limit).cloned().collect()
    }

    /// The job of an id.
    pub fn bulk(&self, id: &str) -> Option<BulkRecord> {
        self.tables.bulk.map().get(id).cloned()
    }

    /// All jobs, the newest first.
    pub fn bulk_list(&self, after: Option<&BulkCursor>, limit: usize) -> Vec<BulkRecord> {
        let place = |record: &BulkRecord| (record.row.created_at, record.row.id.clone());
        let is_behind =
            |record: &&BulkRecord| after.is_none_or(|it| place(record) < (it.at, it.id.clone()));
        let mut all: Vec<&BulkRecord> = self.tables.bulk.map().values().filter(is_behind).collect();
        all.sort_by_key(|record| Reverse(place(record)));
        all.into_iter().take(limit).cloned().collect()
    }

    /// When the job was over that was over first.
    pub fn oldest_bulk(&self) -> Option<Timestamp> {
        self.tables.bulk.map().values().filter_map(|record| record.row.closed_at).min()
    }

    /// Open calls that match, by their keys.
    pub fn matching_calls(
        &self,
        filter: &CallFilter,
        after: Option<CallKey>,
        limit: usize,
    ) -> CallPage {
        let looked_at: Vec<&TaskRow> = self.tables.tasks.after(after).take(WINDOW).collect();
        let last = looked_at.last().filter(|_| looked_at.len() == WINDOW).map(|task| task.call);
        let candidates = looked_at.into_iter().map(|task| self.candidate(task, filter));
        let mut page = CallPage::default();
        page.add(filter, candidates, last, limit);
        page
    }

    fn candidate(&self, task: &TaskRow, filter: &CallFilter) -> Candidate {
        let row = self.tables.instances.get(task.call.run.uid).map(|instance| &instance.row);
        let ledger =
            self.tables.attempts.map().range((task.call, u64::MIN)..=(task.call, u64::MAX));
        let failed = ledger.rev().map(|(_, row)| row).find(|row| row.failure.is_some());
        let failed = failed.filter(|_| filter.needs_failure());
        Candidate {
            task: task.clone(),
            instance: row.map(|row| row.id.clone()).unwrap_or_default(),
            workflow: row.map(|row| row.workflow.clone()).unwrap_or_default(),
            created_at: row.map_or(Timestamp::EPOCH, |row| row.created_at),
            tag: filter.tag.as_ref().and_then(|(name, _)| row?.tags.get(name).cloned()),
            failure: failed.and_then(|row| row.failure.clone()),
            failed_at: failed.map(|row| row.ended_at),
        }
    }

    /// What the calls of these runs say about each.
    pub fn run_calls(&self, runs: &[RunKey], activity: Option<&str>) -> Vec<RunCalls> {
        let of = |run: &RunKey| {
            let is_open = |task: &TaskRow| {
                task.call.run == *run && activity.is_some_and(|activity| task.name == activity)
            };
            let failed = self.attempts(*run).into_iter().rev().find_map(|row| {
                let failure = row.failure?;
                Some(FailedCall { activity: row.name, failure, at: row.ended_at })
            });
            RunCalls { has_open: self.tables.tasks.of(run.uid).any(is_open), failed }
        };
        runs.iter().map(of).collect()
    }

    /// What came of actions that were asked for.
    pub fn answers(&self, asked: &[(CallKey, String)]) -> Vec<AskedAnswer> {
        let answer = |(call, id): &(CallKey, String)| {
            let uid = call.run.uid;
            let done = self.tables.actions.map().get(&(uid, id.clone()));
            let waits = || self.tables.messages.by_id(uid, &MessageRow::action_id(id)).is_some();
            match done {
                Some(row) => AskedAnswer::Answered(row.answer.clone()),
                None if waits() => AskedAnswer::Waits,
                None => AskedAnswer::Gone,
            }
        };
        asked.iter().map(answer).collect()
    }

    /// Deletes one piece of the jobs that were over before a time.
    pub(super) fn delete_bulk(&mut self, before: Timestamp) -> Deleted {
        let jobs = self.tables.bulk.map().values();
        let mut closed: Vec<(Timestamp, String)> =
            jobs.filter_map(|job| Some((job.row.closed_at?, job.row.id.clone()))).collect();
        closed.sort_unstable();
        let next = closed.iter().map(|(at, _)| *at).find(|at| *at >= before);
        closed.retain(|(at, _)| *at < before);
        let rows = usize::try_from(ROWS).unwrap_or(usize::MAX);
        let more = closed.len() > rows;
        closed.truncate(rows);
        let count = closed.len() as u64;
        closed.into_iter().for_each(|(_, id)| drop(self.tables.bulk.put(id, None)));
        Deleted { rows: count, more, next: next.filter(|_| !more), ..Deleted::default() }
    }
}

impl Transaction<'_> {
    /// True when a change of a job follows from what is stored.
    pub(super) fn bulk_follows(&self, write: &BulkWrite) -> bool {
        let stored = self.tables().bulk.map().get(write.id());
        match write {
            BulkWrite::Insert(_) => stored.is_none(),
            BulkWrite::Update { revision, .. } => {
                stored.is_some_and(|record| record.revision == *revision)
            }
            BulkWrite::Stop { .. } => stored.is_some_and(|record| {
                record.row.closed_at.is_none() && record.row.stopped_by.is_none()
            }),
        }
    }

    pub(super) fn write_bulk(&mut self, write: &BulkWrite) {
        let stored = self.tables().bulk.map().get(write.id()).cloned();
        let revision = stored.as_ref().map_or(0, |stored| stored.revision) + 1;
        let row = match (write, stored) {
            (BulkWrite::Insert(row) | BulkWrite::Update { row, .. }, _) => row.clone(),
            (BulkWrite::Stop { by, .. }, Some(stored)) => {
                BulkRow { stopped_by: Some(by.clone()), ..stored.row }
            }
            (BulkWrite::Stop { .. }, None) => return,
        };
        self.put_bulk(row.id.clone(), Some(BulkRecord { row, revision }));
    }
}
