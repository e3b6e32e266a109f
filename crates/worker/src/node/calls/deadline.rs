//! Calls that wait too long: for a slot, or for a process that knows their activity.
//!
//! | timeout | counts from             | what follows                                          |
//! |---------|-------------------------|-------------------------------------------------------|
//! | `queue` | the attempt became due  | a failed attempt, which ends the call unless a rule   |
//! |         |                         | retries it                                            |
//! | `total` | the call was scheduled  | the end of the call                                   |
//! | a pause | when it was to end      | the call fails for the reason that paused it          |
//!
//! The earliest of these is the task's deadline, stored with it, so that it also holds for calls
//! that are not in memory. A running attempt has none: its node watches over it (`attempt.rs`). A
//! deadline is a hint to look, never a decision: whether the call has waited too long is worked
//! out from the task when the time has come, so one that is out of date does no harm.
//!
//! The clock of the queue timeout stands still while the store cannot be reached, for then nobody
//! could have taken the attempt. So it does while the gate of the call does not flow, or its
//! activity is paused.
//!
//! A call that is left to others may be claimed by one of them in that very moment. So the holder
//! of its shard claims it first, and ends it when the claim is its own (`load_tasks.rs`). When
//! somebody else was faster nothing ends: the node that runs the attempt watches over its time.

use std::time::Duration;

use resurgam_core::CallKey;

use super::hot_call::{HotCall, started_at};
use super::timeouts::{queue_end, total_end};
use crate::node::Node;
use crate::node::gates::Held;
use crate::node::store_request::StoreRequest;

/// How soon all deadlines are read again at the earliest, where more calls are held back than are
/// remembered.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// The time that a call has waited too long for.
#[derive(Clone, Copy, Debug)]
enum TimeUp {
    Total,
    Queue,
    /// Of a pause that was to end by itself.
    Pause,
}

impl Node {
    /// Ends a call that waits if it has waited too long, or has it claimed for that. Otherwise it
    /// is looked at again in time.
    pub(crate) fn has_waited_too_long(&mut self, key: CallKey) -> bool {
        let Some(time) = self.time_up(key) else { return false };
        if self.outbox.is_storing(key) {
            // It is looked at again when that is durable.
            return true;
        }
        let is_left = |call: &HotCall| self.is_shared && self.leaves(&call.task);
        match self.memory.calls.get(key).is_some_and(is_left) {
            true => self.claim_to_end(key),
            false => self.end_waiting(key, time),
        }
        true
    }

    /// Ends a call if it has waited too long, of which nobody else can begin an attempt.
    pub(crate) fn ends_if_too_long(&mut self, key: CallKey) -> bool {
        let time = self.time_up(key);
        time.into_iter().for_each(|time| self.end_waiting(key, time));
        time.is_some()
    }

    /// Has a call claimed that others may run. Until that is answered it is out of memory.
    pub(crate) fn claim_to_end(&mut self, key: CallKey) {
        self.stop_waiting(key);
        self.leave_to_store(key);
        let (node, now) = (self.name.clone(), self.now);
        self.ask_store(StoreRequest::ClaimToEnd { node, call: key, now });
    }

    fn end_waiting(&mut self, key: CallKey, time: TimeUp) {
        match time {
            TimeUp::Total => self.call_ran_out_of_time(key),
            TimeUp::Queue => self.attempt_never_taken(key),
            TimeUp::Pause => self.pause_ran_out(key),
        }
    }

    /// Whether a call that waits has waited too long. If not it is looked at again in time.
    fn time_up(&mut self, key: CallKey) -> Option<TimeUp> {
        let now = self.now;
        let waits = |call: &&HotCall| call.task.claim.is_none();
        // A stop decides about nothing that can wait for the next process.
        let call = self.memory.calls.get(key).filter(|_| self.stopping.is_none());
        let call = call.filter(waits)?;
        let (task, policy) = (&call.task, &call.policy);
        if let Some(pause) = &task.progress.paused
            && pause.until.is_some_and(|until| until <= now)
        {
            return Some(TimeUp::Pause);
        }
        let total = total_end(task, policy);
        if total.is_some_and(|end| end <= now) {
            return Some(TimeUp::Total);
        }
        let flows_since = self.memory.slots.gates().flows_since(&task.name, &task.gate);
        let queue = queue_end(task, policy, flows_since);
        let Some(end) = queue.filter(|end| *end <= now) else {
            match queue.filter(|_| flows_since.is_some()) {
                // Its clock stood still until its gate flowed again, or its activity was resumed.
                Some(end) => {
                    self.memory.due.look_again(total.map_or(end, |total| total.min(end)), key);
                }
                None => task.deadline_at.into_iter().for_each(|at| {
                    self.memory.due.add_deadline(at, key);
                }),
            }
            return None;
        };
        let due = &mut self.memory.due;
        match (self.memory.slots.gates_mut().holds_deadline(&task.name, &task.gate, key), total) {
            (Held::No, _) => {}
            (_, None) => return None,
            // Its whole time runs on.
            (Held::InMemory, Some(end)) => {
                due.look_again(end, key);
                return None;
            }
            (Held::InStore, Some(end)) => {
                due.read_deadlines_again(end.max(now.saturating_add(READ_AGAIN)));
                return None;
            }
        }
        let since = [self.outbox.in_flight_since(), self.memory.outages.since];
        if since.into_iter().flatten().any(|since| since < end) {
            // Whether the store can be reached is not known before it answers.
            self.memory.outages.held.push(key);
            return None;
        }
        let due = started_at(task);
        let end = end.saturating_add(self.memory.outages.after(due));
        if end > now {
            self.memory.due.look_again(end, key);
            return None;
        }
        Some(TimeUp::Queue)
    }
}
