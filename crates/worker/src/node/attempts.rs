//! What attempts that run here tell: how far they have come, how they ended. Those of shards that
//! this node holds are its own business (`attempt_result.rs`); of the others it reports
//! (`remote_attempts.rs`).

use resurgam_core::{CallKey, Failure};
use resurgam_store::rows::Heartbeat;
use resurgam_store::{Step, TaskWrite};

use super::Node;
use super::calls::attempt_result::Ended;
use super::follow_up::FollowUp;
use super::input::AttemptEnd;

impl Node {
    /// An attempt reports how far it has come: that is stored.
    pub(crate) fn attempt_reports(&mut self, key: CallKey, token: u64, heartbeat: Heartbeat) {
        if self.away_reports(key, token, &heartbeat) {
            return;
        }
        let Some(call) = self.memory.calls.attempt_mut(key, token) else {
            return;
        };
        call.note(Some(heartbeat));
        let tasks = vec![TaskWrite::Amend(call.task().clone())];
        self.outbox.push(Step { tasks, ..Step::default() }, Vec::new());
    }

    /// An attempt reports. One whose token is not the task's changes nothing. One that lingers has
    /// run out of time, and reports again when it has ended.
    pub(crate) fn attempt_ended(&mut self, key: CallKey, token: u64, end: AttemptEnd) {
        if !end.lingers {
            self.stops_lingering(key.run, token);
        }
        let Some(end) = self.memory.transactions.hold(key, token, end) else { return };
        if self.memory.reports.get(key, token).is_some() {
            self.away_ended(key, end);
            return self.then(FollowUp::FillSlots);
        }
        if self.memory.calls.attempt(key, token).is_some() && self.is_left_running(&end) {
            self.leave_running(key);
            return self.then(FollowUp::FillSlots);
        }
        let Some(call) = self.memory.calls.attempt_mut(key, token) else {
            tracing::debug!(call = %key, "a report was refused: the attempt is over");
            return;
        };
        if call.is_given_up() {
            // Nobody wants it.
            return self.leave_attempt(key, end.lingers);
        }
        call.note(end.heartbeat);
        if let Err(failure) = &end.result
            && end.lingers
            && self.wants_late_end(key, failure)
        {
            return self.time_is_up(key, failure.clone(), self.now);
        }
        self.leave_attempt(key, end.lingers);
        self.attempt_over(key, end.result);
    }

    /// True when an attempt goes on without this process, which stops.
    fn is_left_running(&self, end: &AttemptEnd) -> bool {
        let is_left = end.result.as_ref().is_err_and(Failure::is_left_running);
        is_left && self.stopping.is_some()
    }

    /// A graceful stop cut an attempt short, or kept it from beginning.
    pub(crate) fn attempt_interrupted(
        &mut self,
        key: CallKey,
        token: u64,
        began: bool,
        heartbeat: Option<Heartbeat>,
    ) {
        if self.memory.reports.get(key, token).is_some() {
            return self.away_interrupted(key, began, heartbeat);
        }
        let Some(call) = self.memory.calls.attempt_mut(key, token) else {
            return;
        };
        if call.goes_on_elsewhere(began) {
            // Whoever waits for it here did not let go of it in time.
            return self.leave_running(key);
        }
        call.is_cut_short();
        if !began {
            return self.hand_back(key);
        }
        call.note(heartbeat);
        self.attempt_failed(key, Ended::Interrupted, self.now);
    }
}
