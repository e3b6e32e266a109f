//! What is promised about gates: behind one that is shut nothing begins but probes, and what fails
//! while a gate is not flowing uses up nobody's attempts.
//!
//! What a gate lets begin is what the node knows that claims the call, and others follow it late.
//! So the first promise is checked where one process does everything.

use std::collections::BTreeMap;

use resurgam_core::gate::{Decided, GateState, Outcome, Standing, most_probed};
use resurgam_core::retry::{Limit, RecordedWhy};
use resurgam_store::model::Model;
use resurgam_store::rows::{AttemptOutcome, AttemptRow, TaskRow};
use resurgam_store::{GateWrite, Step};

use super::Promises;
use crate::program::Call;

/// What is known of gates.
#[derive(Clone, Debug, Default)]
pub(super) struct GatesSeen {
    /// One process does everything.
    is_alone: bool,
    /// What was decided last, unless an operator has wanted something else since.
    decided: BTreeMap<String, GateState>,
    /// How often gates became what they are, and what that did.
    counts: BTreeMap<&'static str, u64>,
}

impl Promises {
    /// One process does everything: what it has decided holds for every claim after that.
    pub(crate) fn one_process_decides(&mut self) {
        self.gates.is_alone = true;
    }

    /// How often something happened at gates.
    pub(crate) fn at_gates(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.gates.counts.iter().map(|(what, count)| (*what, *count))
    }

    fn at_gate(&mut self, what: &'static str) {
        *self.gates.counts.entry(what).or_default() += 1;
    }

    /// What a step says about gates.
    pub(super) fn gates_written(&mut self, step: &Step) {
        for write in &step.gates {
            match write {
                GateWrite::Decide { key, decided } => match Decided::from_stored(decided) {
                    Ok(Decided { state, .. }) => self.gate_decided(key, state),
                    Err(error) => self.breaks(None, format!("{key} says {decided}: {error}")),
                },
                GateWrite::Hand { key, .. } | GateWrite::Forget { key } => {
                    self.gates.decided.remove(key);
                }
                _ => {}
            }
        }
    }

    fn gate_decided(&mut self, key: &str, state: GateState) {
        let standing = state.standing();
        let by_hand = state.by_hand.is_some();
        let before = self.gates.decided.insert(key.to_string(), state);
        if before.is_none_or(|before| before.standing() != standing) {
            self.at_gate(match standing {
                Standing::Flowing => "gate flows",
                Standing::Shut if by_hand => "gate is shut by hand",
                Standing::Shut => "gate shuts by itself",
                Standing::Probing => "gate lets some probe",
                Standing::Ramping => "gate lets more and more begin",
            });
        }
    }

    /// An attempt is claimed: its gate lets it begin.
    pub(super) fn claimed_behind_gate(&mut self, row: &TaskRow) {
        let Some(claim) = &row.claim else { return };
        let call = self.calls.entry(row.call).or_default();
        call.probing = row.progress.probing;
        if row.progress.probing {
            self.at_gate("attempt begins although its gate does not flow");
        }
        let decided = self.gates.decided.get(&row.gate).filter(|_| self.gates.is_alone);
        let Some(state) = decided.filter(|state| state.standing() == Standing::Shut) else {
            return;
        };
        let ends = state.by_hand.as_ref().and_then(|hand| hand.until);
        let is_over = ends.is_some_and(|until| until <= claim.started_at);
        // By hand it is shut for probes as well.
        let may_probe = row.progress.probing && state.by_hand.is_none();
        if claim.started_at > state.since && !may_probe && !is_over && !self.is_clock_in_doubt {
            let gate = &row.gate;
            let what = format!("attempt {} of call {} begins", row.attempt, row.call);
            self.breaks(row.call.run.uid, format!("{what} while {gate} is shut"));
        }
    }

    /// An attempt failed: whether that counts. What fails while a gate is not flowing is free, up
    /// to a bound.
    pub(super) fn counts_failure(&mut self, row: &AttemptRow) -> bool {
        if row.outcome != AttemptOutcome::Failed {
            return false;
        }
        let is_free = row.why.ends_with(RecordedWhy::FREE);
        let call = self.calls.entry(row.call).or_default();
        let (probing, free) = (call.probing, call.free);
        call.free += u32::from(is_free);
        let policy = call.script.as_deref().filter(|_| call.policies.is_empty());
        let should = row.next_due().is_some()
            && probing
            && policy.is_some_and(|script| is_free_for(script, row, free));
        let what = format!("attempt {} of call {}", row.attempt, row.call);
        if is_free {
            self.at_gate("attempt fails and is free");
        }
        if is_free && !probing {
            self.breaks(row.call.run.uid, format!("{what} is free, and its gate was flowing"));
        }
        if should && !is_free {
            self.breaks(row.call.run.uid, format!("{what} counts, and its gate was not flowing"));
        }
        !is_free
    }

    /// Everything is over: no call waits behind a gate.
    pub(super) fn gates_at_the_end(&mut self, model: &Model) {
        let waiting = model.waiting_gates("", 1);
        if let Some(key) = waiting.first() {
            self.breaks(None, format!("somebody waits behind {key} when everything is over"));
        }
    }
}

/// True for a failure that tells of the dependency, while some are free.
fn is_free_for(script: &Call, row: &AttemptRow, free: u32) -> bool {
    let Ok(policy) = script.policy.check() else { return false };
    let Some(failure) = row.failure.as_ref() else { return false };
    let is_told = Outcome::of_failure(&policy, failure) != Outcome::Neither;
    is_told && free < most_probed(policy.max_attempts) && policy.max_attempts != Limit::Unlimited
}
