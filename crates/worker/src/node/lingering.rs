//! Attempts that are over for their call, and whose code has not returned yet.
//!
//! An attempt lingers when its time was up, or when its workflow gave the call up: it has the grace
//! period to clean up. It may still use what the run made. A compensation takes that away, so its
//! first attempt begins when no attempt of the run lingers here. It is stored as due at the end of
//! the grace period, which is the latest that a lingering attempt can take, and begins before that
//! when the last one has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{CallKey, RunKey, Timestamp};

use super::Node;
use super::call::HotCall;
use super::effect::Effect;

/// The attempts that linger in this process, by run.
#[derive(Debug, Default)]
pub(super) struct Lingering(BTreeMap<RunKey, Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The tokens of the attempts.
    attempts: BTreeSet<u64>,
    /// The compensations that wait for them.
    compensations: Vec<CallKey>,
}

impl Lingering {
    /// An attempt is over, and its code goes on for now.
    pub(super) fn begin(&mut self, run: RunKey, token: u64) {
        self.0.entry(run).or_default().attempts.insert(token);
    }

    /// The code of an attempt has returned. Answers with the compensations that waited for it.
    fn end(&mut self, run: RunKey, token: u64) -> Vec<CallKey> {
        let Some(waits) = self.0.get_mut(&run) else { return Vec::new() };
        waits.attempts.remove(&token);
        match waits.attempts.is_empty() {
            true => self.0.remove(&run).map(|waits| waits.compensations).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// When a compensation that is scheduled now may begin at the latest; `None` when nothing of
    /// its run lingers.
    pub(super) fn hold(
        &mut self,
        compensation: CallKey,
        now: Timestamp,
        grace: Duration,
    ) -> Option<Timestamp> {
        let waits = self.0.get_mut(&compensation.run)?;
        waits.compensations.push(compensation);
        Some(now.saturating_add(grace))
    }
}

impl Node {
    /// The code of an attempt has returned: what waited for that may begin.
    pub(super) fn stops_lingering(&mut self, run: RunKey, token: u64) {
        let now = self.now;
        for key in self.lingering.end(run, token) {
            let waits = |call: &HotCall| call.task.claim.is_none() && call.task.wake_at > now;
            if !self.calls.get(&key).is_some_and(waits) {
                continue;
            }
            self.stop_waiting(key);
            if let Some(call) = self.calls.get_mut(&key) {
                call.task.wake_at = now;
            }
            // The step that schedules it may not be durable yet.
            self.outbox.after(key.run.uid, Effect::Waiting(key));
        }
    }
}
