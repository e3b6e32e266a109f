//! Calls that wait too long: for a slot, or for a process that knows their activity.
//!
//! | timeout | counts from             | what follows                                          |
//! |---------|-------------------------|-------------------------------------------------------|
//! | `queue` | the attempt became due  | a failed attempt, which ends the call unless a rule   |
//! |         |                         | retries it                                            |
//! | `total` | the call was scheduled  | the end of the call                                   |
//!
//! The earlier of the two is the task's deadline, stored with it, so that it also holds for calls
//! that are not in memory. A running attempt has none: its node watches over it (`attempt.rs`). A
//! deadline is a hint to look, never a decision: whether the call has waited too long is worked
//! out from the task when the time has come, so one that is out of date does no harm.
//!
//! The clock of the queue timeout stands still while the store cannot be reached, for then nobody
//! could have taken the attempt.

use std::collections::VecDeque;
use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::{CallKey, Failure, Kind, Timestamp};
use resurgam_store::rows::TaskRow;

use super::call::HotCall;

use super::Node;
use crate::attempt::Limit;
use crate::policy::Resolved;

/// How long a commit may take before the store counts as out of reach meanwhile.
const SLOW: Duration = Duration::from_millis(100);

/// How many outages are remembered.
const OUTAGES: usize = 1_000;

/// When the store could not be reached.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// The times that are over, in order and apart from each other.
    past: VecDeque<(Timestamp, Timestamp)>,
    /// Since when reading is refused.
    since: Option<Timestamp>,
    /// Calls whose deadline passed in an outage that is not over.
    held: Vec<CallKey>,
}

impl Outages {
    /// The store refused to be read.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// The store was out of reach, or slow, for this time.
    fn add(&mut self, mut from: Timestamp, mut until: Timestamp) {
        while let Some(last) = self.past.back().copied().filter(|last| last.1 >= from) {
            self.past.pop_back();
            (from, until) = (from.min(last.0), until.max(last.1));
        }
        self.past.push_back((from, until));
        if self.past.len() > OUTAGES {
            self.past.pop_front();
        }
    }

    /// How long the store was out of reach after this time.
    fn after(&self, time: Timestamp) -> Duration {
        let after = self.past.iter().rev().take_while(|(_, until)| *until > time);
        after.map(|(from, until)| until.since(time.max(*from))).sum()
    }
}

/// Until when a task may wait, as long as no attempt of it runs.
pub(super) fn deadline(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let ends = [total_end(task, policy), queue_end(task, policy)];
    ends.into_iter().flatten().min().filter(|_| task.claim.is_none())
}

/// When the whole call runs out of time.
pub(super) fn total_end(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    let scheduled = task.progress.first_scheduled?;
    Some(scheduled.saturating_add(policy.checked.timeouts.total?))
}

fn queue_end(task: &TaskRow, policy: &Resolved) -> Option<Timestamp> {
    Some(task.wake_at.saturating_add(policy.checked.timeouts.queue?))
}

/// The failure of a call whose total timeout passed.
pub(super) fn total_failure(policy: &Resolved) -> Failure {
    let whole = policy.checked.timeouts.total.unwrap_or_default();
    Limit { left: whole, whole, kind: Kind::TotalTimeout }.failure()
}

fn queue_failure(policy: &Resolved) -> Failure {
    let time = policy.checked.timeouts.queue.unwrap_or_default();
    let message = format!("no worker took it within {}", Human(time));
    Failure::of_kind(Kind::QueueTimeout, message)
}

impl Node {
    /// Looks at the calls whose deadline has come.
    pub(super) fn deadlines_due(&mut self, now: Timestamp) {
        for call in self.memory.due.due_deadlines(now) {
            self.look_at_call(call);
        }
    }

    /// Ends a call that has waited too long, wherever it is. Otherwise it waits on.
    pub(super) fn look_at_call(&mut self, key: CallKey) {
        if self.memory.calls.contains_key(&key) {
            self.has_waited_too_long(key);
            return;
        }
        self.read_task(key, None);
    }

    /// Ends a call that waits if it has waited too long. Otherwise it is looked at again in time.
    pub(super) fn has_waited_too_long(&mut self, key: CallKey) -> bool {
        let now = self.now;
        let waits = |call: &&HotCall| call.task.claim.is_none();
        // A stop decides about nothing that can wait for the next process.
        let Some(call) =
            self.memory.calls.get(&key).filter(waits).filter(|_| self.stopping.is_none())
        else {
            return false;
        };
        let (task, policy) = (&call.task, &call.policy);
        if total_end(task, policy).is_some_and(|end| end <= now) {
            self.call_ran_out_of_time(key);
            return true;
        }
        let Some(end) = queue_end(task, policy).filter(|end| *end <= now) else {
            if let Some(at) = task.deadline_at {
                self.memory.due.add_deadline(at, key);
            }
            return false;
        };
        let since = [self.outbox.in_flight_since(), self.memory.outages.since];
        if since.into_iter().flatten().any(|since| since < end) {
            // Whether the store can be reached is not known before it answers.
            self.memory.outages.held.push(key);
            return false;
        }
        let end = end.saturating_add(self.memory.outages.after(task.wake_at));
        if end > now {
            self.memory.due.look_again(end, key);
            return false;
        }
        let failure = queue_failure(policy);
        self.attempt_never_taken(key, failure);
        true
    }

    /// The store has taken a batch that was on its way since then.
    pub(super) fn store_took(&mut self, since: Timestamp) {
        let now = self.now;
        if now.since(since) >= SLOW {
            self.memory.outages.add(since, now);
        }
        self.look_at_held();
    }

    /// The store can be read.
    pub(super) fn store_answers(&mut self) {
        if let Some(since) = self.memory.outages.since.take() {
            self.memory.outages.add(since, self.now);
            self.look_at_held();
        }
    }

    fn look_at_held(&mut self) {
        for call in std::mem::take(&mut self.memory.outages.held) {
            self.look_at_call(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn outages_are_counted_once_and_from_the_time_that_is_asked_about() {
        let mut outages = Outages::default();
        for (from, until) in [(10, 20), (30, 40), (35, 50), (100, 110)] {
            outages.add(at(from), at(until));
        }
        let after = |time| outages.after(at(time)).as_millis();
        assert_eq!(outages.past, [(at(10), at(20)), (at(30), at(50)), (at(100), at(110))]);
        assert_eq!([0, 15, 20, 45, 60, 105, 200].map(after), [40, 35, 30, 15, 10, 5, 0]);
    }
}
