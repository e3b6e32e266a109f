//! What waits for an operator's decision: dead letters, and calls that are paused.

use std::cmp::Reverse;

use resurgam_core::{CallKey, Timestamp};

use super::Model;
use super::shard_set::ShardSet;
use super::transaction::Transaction;
use crate::rows::TaskRow;
use crate::{
    CallCursor, CallGroup, DeadLetter, DeadLetterFilter, Deleted, LetterHead, LetterState,
    LetterWrite, PausedCall, PausedFilter, ROWS, Result, grouped,
};

impl Model {
    /// The dead letter of a call.
    pub fn dead_letter(&self, call: CallKey) -> Option<DeadLetter> {
        self.tables.letters.map().get(&call).cloned()
    }

    /// Dead letters, the newest first.
    pub fn dead_letters(&self, filter: &DeadLetterFilter) -> Vec<DeadLetter> {
        let after = filter.after.unwrap_or(CallCursor::FIRST);
        let mut letters = self.matching_letters(filter);
        letters.retain(|letter| CallCursor::of_letter(letter) < after);
        letters.sort_by_key(|letter| Reverse(CallCursor::of_letter(letter)));
        letters.into_iter().take(filter.most()).cloned().collect()
    }

    /// Where dead letters stand in their list, the newest first.
    pub fn dead_letter_places(&self, filter: &DeadLetterFilter) -> Vec<CallCursor> {
        self.dead_letters(filter).iter().map(CallCursor::of_letter).collect()
    }

    /// Dead letters by their fingerprints.
    pub fn dead_letter_groups(&self, filter: &DeadLetterFilter) -> Vec<CallGroup> {
        let letters = self.matching_letters(filter).into_iter();
        grouped(letters.map(|letter| LetterHead::of(letter).group()))
    }

    /// When the oldest dead letter was written.
    pub fn oldest_dead_letter(&self) -> Option<Timestamp> {
        self.tables.letters.map().values().map(|letter| letter.at).min()
    }

    fn matching_letters(&self, filter: &DeadLetterFilter) -> Vec<&DeadLetter> {
        let DeadLetterFilter { state, fingerprint, activity, since, .. } = filter;
        let letters = self.tables.letters.map().values().filter(|letter| {
            letter.state == *state
                && fingerprint.as_ref().is_none_or(|wanted| letter.fingerprint == *wanted)
                && activity.as_ref().is_none_or(|wanted| letter.activity == *wanted)
                && since.is_none_or(|since| letter.at >= since)
                && filter.has(&LetterHead::of(letter))
        });
        letters.collect()
    }

    /// Calls that are paused, those that were paused last first.
    pub fn paused_calls(&self, filter: &PausedFilter) -> Vec<PausedCall> {
        let after = filter.after.unwrap_or(CallCursor::FIRST);
        let mut calls = self.matching_paused(filter);
        calls.retain(|call| CallCursor::of_paused(call) < after);
        calls.sort_by_key(|call| Reverse(CallCursor::of_paused(call)));
        calls.truncate(filter.most());
        calls
    }

    /// How many calls of these shards are paused.
    pub fn paused_count(&self, shards: ShardSet) -> u64 {
        let is_here = |task: &&TaskRow| shards.contains(task.call.run.uid.shard());
        let paused = self.tables.tasks.all().filter(is_here).filter(|task| task.paused().is_some());
        paused.count() as u64
    }

    /// Calls that are paused by their fingerprints.
    pub fn paused_groups(&self, filter: &PausedFilter) -> Vec<CallGroup> {
        let calls = self.matching_paused(filter).into_iter();
        grouped(calls.map(|call| {
            let fingerprint = call.task.paused().map_or("", |(fingerprint, _)| fingerprint);
            let pause = call.task.progress.paused.as_deref();
            CallGroup {
                fingerprint: fingerprint.to_string(),
                activity: call.task.name.clone(),
                error: pause.and_then(|pause| pause.error.clone()).unwrap_or_default(),
                count: 1,
                oldest: call.since(),
                newest: call.since(),
                example: call.task.call,
                instance: call.instance.clone(),
            }
        }))
    }

    fn matching_paused(&self, filter: &PausedFilter) -> Vec<PausedCall> {
        let PausedFilter { fingerprint, activity, since, .. } = filter;
        let matches = |call: &PausedCall| {
            let Some((of, at)) = call.task.paused() else { return false };
            fingerprint.as_ref().is_none_or(|wanted| of == wanted)
                && activity.as_ref().is_none_or(|wanted| call.task.name == *wanted)
                && since.is_none_or(|since| at >= since)
        };
        let calls = self.tables.tasks.all().map(|task| {
            let instance = self.tables.instances.get(task.call.run.uid).map(|it| &it.row);
            PausedCall {
                task: task.clone(),
                instance: instance.map(|row| row.id.clone()).unwrap_or_default(),
                workflow: instance.map(|row| row.workflow.clone()).unwrap_or_default(),
            }
        });
        calls.filter(matches).collect()
    }

    /// Deletes one piece of the letters that were written before a time.
    pub(super) fn delete_letters(&mut self, before: Timestamp) -> Deleted {
        let letters = self.tables.letters.map().values();
        let mut old: Vec<(Timestamp, CallKey)> =
            letters.map(|letter| (letter.at, letter.call)).collect();
        old.sort_unstable();
        let next = old.iter().map(|(at, _)| *at).find(|at| *at >= before);
        old.retain(|(at, _)| *at < before);
        let rows = usize::try_from(ROWS).unwrap_or(usize::MAX);
        let more = old.len() > rows;
        old.truncate(rows);
        old.iter().for_each(|(_, call)| drop(self.tables.letters.put(*call, None)));
        let next = next.filter(|_| !more);
        Deleted { rows: old.len() as u64, more, next, ..Deleted::default() }
    }
}

impl Transaction<'_> {
    /// True when every letter that is decided about is open.
    pub(super) fn letters_follow(&self, writes: &[LetterWrite]) -> Result<bool> {
        LetterWrite::all_follow(writes, |call| {
            let letter = self.tables().letters.map().get(&call);
            Ok(letter.map(|letter| letter.state == LetterState::Open))
        })
    }

    pub(super) fn write_letter(&mut self, write: &LetterWrite) {
        let known = self.tables().letters.map().get(&write.call()).cloned();
        match (write, known) {
            (LetterWrite::Insert(letter), None) => {
                let mut letter = (**letter).clone();
                let instance = self.tables().instances.get(letter.call.run.uid);
                letter.workflow = instance.map(|it| it.row.workflow.clone()).unwrap_or_default();
                self.put_letter(letter.call, Some(letter));
            }
            (LetterWrite::Settle { call, state, settled }, Some(letter)) => {
                let settled = Some(settled.clone());
                self.put_letter(*call, Some(DeadLetter { state: *state, settled, ..letter }));
            }
            _ => {}
        }
    }
}
