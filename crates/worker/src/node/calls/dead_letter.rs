//! What is kept of a call that is given up, where its policy wants that.
//!
//! The letter goes with the end of the call, in the same commit: as an event of the run, or as the
//! message that tells a run which is not in memory. An end that nobody wants to hear of any more
//! leaves no letter.

use resurgam_core::event::ActivityFailed;
use resurgam_core::{Fingerprint, Timestamp};
use resurgam_store::{DeadLetter, LetterState};

use super::hot_call::HotCall;
use crate::node::Node;

impl Node {
    /// The letter of a call that ends so. It is to be deleted some day.
    pub(crate) fn dead_letter(
        &mut self,
        call: &HotCall,
        failed: &ActivityFailed,
        now: Timestamp,
    ) -> Box<DeadLetter> {
        metrics::counter!("resurgam.dead_letters").increment(1);
        if let Some(stays) = self.options.retention.dead_letters {
            self.memory.sweeper.not_later_than(now.saturating_add(stays));
        }
        let Fingerprint { key, error } = Fingerprint::of(&call.task.name, Some(&failed.failure));
        Box::new(DeadLetter {
            call: call.task.call,
            instance: call.instance.clone(),
            // The store knows.
            workflow: String::new(),
            activity: call.task.name.clone(),
            queue: call.task.queue.clone(),
            gate: call.task.gate.clone(),
            policy: call.task.policy.clone(),
            input: call.input.clone(),
            failure: failed.failure.clone(),
            why: failed.why.clone(),
            attempts: failed.attempt,
            ledger: call.failure_log.rows(),
            at: now,
            fingerprint: key,
            error,
            state: LetterState::Open,
            settled: None,
        })
    }
}
