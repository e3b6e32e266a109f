//! Stopping: no new attempts, a grace period for those that run, the rest is interrupted and
//! recorded. Nothing has to wait for a timeout on the next start.

use resurgam_core::{CallKey, Timestamp};

use super::Engine;
use super::request::Reply;

/// The engine is about to stop.
#[derive(Debug)]
pub(super) struct Stopping {
    /// When attempts that still run are interrupted.
    pub(super) until: Timestamp,
    interrupted: bool,
    replies: Vec<Reply<()>>,
}

impl Engine {
    pub(super) fn stop(&mut self, reply: Reply<()>) {
        let until = self.clock.now().saturating_add(self.options.grace);
        let stopping = Stopping { until, interrupted: false, replies: Vec::new() };
        self.stopping.get_or_insert(stopping).replies.push(reply);
        for call in self.calls.values() {
            call.running.iter().for_each(crate::attempt::Running::tell);
        }
    }

    /// True when the engine was told to stop and everything is on the disk.
    pub(super) fn is_done(&mut self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let claimed =
            |(key, call): (&CallKey, &super::HotCall)| call.task.claim.as_ref().map(|_| *key);
        let running: Vec<CallKey> = self.calls.iter().filter_map(claimed).collect();
        if !running.is_empty() && self.clock.now() >= stopping.until && !stopping.interrupted {
            self.interrupt(running);
            self.commit();
            return false;
        }
        // Outcomes that wait for a run to be read are on their way too.
        let held = self.asleep.values().any(|asleep| !asleep.held.is_empty());
        if !running.is_empty() || !self.outbox.is_empty() || held {
            return false;
        }
        for reply in self.stopping.take().into_iter().flat_map(|stopping| stopping.replies) {
            reply.send(Ok(()));
        }
        true
    }

    fn interrupt(&mut self, running: Vec<CallKey>) {
        if let Some(stopping) = &mut self.stopping {
            stopping.interrupted = true;
            // The stop is over when the interruptions are durable, not at a time.
            stopping.until = Timestamp::from_millis(i64::MAX);
        }
        // A claim whose code never began is handed back when it is durable.
        let begun = |key: &CallKey| self.calls.get(key).is_some_and(|call| call.running.is_some());
        for key in running.into_iter().filter(begun).collect::<Vec<_>>() {
            self.attempt_interrupted(key);
        }
    }
}
