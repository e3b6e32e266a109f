//! What is promised about gates: behind one that is shut nothing begins but probes, and what fails
//! while a gate is not flowing uses up nobody's attempts.
//!
//! What a gate lets begin is what the node knows that claims the call. Where one process does
//! everything, it knows at once what it has decided. Where several work, one decides and the others
//! follow: within two seconds, as long as nothing keeps them from reading what is stored, which the
//! world knows ([`LateClaim`]). A share of probes or of a ramp lapses after a second, whatever
//! happens to who has it. Who decides begins what it allows in the moment in which it does.

use std::collections::BTreeMap;

use std::time::Duration;

use resurgam_core::gate::{Decided, GateState, Outcome, Shares, Standing, most_probed};
use resurgam_core::retry::{Limit, RecordedWhy};
use resurgam_core::{Timestamp, Uid};
use resurgam_store::model::Model;
use resurgam_store::rows::{AttemptOutcome, AttemptRow, TaskRow};
use resurgam_store::{GateWrite, Step};

use super::{CORRECTED, Promises};
use crate::program::Call;

/// How late a node may be that follows what another one has decided.
const FOLLOWED: Duration = Duration::from_secs(2);

/// A node has claimed a call although its gate has been shut for longer than it takes to hear of
/// that. The promise is broken unless something kept it from reading that, or it decides itself.
#[derive(Clone, Debug)]
pub(crate) struct LateClaim {
    /// The instance of the call.
    pub(crate) uid: Uid,
    /// The node.
    pub(crate) node: String,
    /// When it claimed the call, by its own clock.
    pub(crate) at: Timestamp,
    /// It is a probe, or an attempt of a ramp.
    pub(crate) probes: bool,
    /// What it did.
    pub(crate) what: String,
}

/// What is known of gates.
#[derive(Clone, Debug, Default)]
pub(super) struct GatesSeen {
    /// One process does everything.
    is_alone: bool,
    /// What was decided last, unless an operator has wanted something else since.
    decided: BTreeMap<String, GateState>,
    /// When it was stored of those that are shut, by the clock of the database.
    shut_at: BTreeMap<String, Timestamp>,
    /// Claims behind these that nodes made which should have heard of it.
    late: Vec<LateClaim>,
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
                    self.gates.shut_at.remove(key);
                }
                _ => {}
            }
        }
    }

    fn gate_decided(&mut self, key: &str, state: GateState) {
        let (standing, now) = (state.standing(), self.now());
        match standing {
            Standing::Shut => *self.gates.shut_at.entry(key.to_string()).or_insert(now),
            _ => self.gates.shut_at.remove(key).unwrap_or(now),
        };
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
        let decided = self.gates.decided.get(&row.gate);
        let Some(state) = decided.filter(|state| state.standing() == Standing::Shut) else {
            return;
        };
        let ends = state.by_hand.as_ref().and_then(|hand| hand.until);
        let is_over = ends.is_some_and(|until| until <= claim.started_at);
        // By hand it is shut for probes as well.
        let may_probe = row.progress.probing && state.by_hand.is_none();
        if is_over || self.is_clock_in_doubt {
            return;
        }
        let uid = row.call.run.uid;
        let what = format!("attempt {} of call {} begins", row.attempt, row.call);
        let what = format!("{what} while {} is shut", row.gate);
        if self.gates.is_alone {
            if claim.started_at > state.since && !may_probe {
                self.breaks(uid, what);
            }
            return;
        }
        let Some(shut_at) = self.gates.shut_at.get(&row.gate) else { return };
        let probes = row.progress.probing;
        let followed = if probes { Shares::LAPSE } else { FOLLOWED };
        let late = claim.started_at.since(*shut_at).saturating_sub(CORRECTED);
        if late > followed {
            let (node, at) = (claim.node.clone(), claim.started_at);
            let what = format!("{what}, {late:?} ago");
            self.gates.late.push(LateClaim { uid, node, at, probes, what });
        }
    }

    /// Claims of nodes that should have heard that a gate is shut.
    pub(crate) fn take_late_claims(&mut self) -> Vec<LateClaim> {
        std::mem::take(&mut self.gates.late)
    }

    /// An attempt failed: whether that counts. What fails while a gate is not flowing is free, up
    /// to a bound.
    pub(super) fn counts_failure(&mut self, row: &AttemptRow) -> bool {
        if row.outcome != AttemptOutcome::Failed {
            return false;
        }
        let is_free = row.why.ends_with(RecordedWhy::FREE);
        let decides_itself = !self.are_policies_set();
        let call = self.calls.entry(row.call).or_default();
        let (probing, free) = (call.probing, call.free);
        let policy = call.script.as_deref();
        let policy = policy.filter(|_| call.policies.is_empty() && decides_itself);
        let should = probing && policy.is_some_and(|script| is_free_for(script, row, free));
        // One after which none follows, for another reason, does not say that it is free.
        let is_last = row.next_due().is_none();
        call.free += u32::from(is_free || (should && is_last));
        let what = format!("attempt {} of call {}", row.attempt, row.call);
        if is_free {
            self.at_gate("attempt fails and is free");
        }
        if is_free && !probing {
            self.breaks(row.call.run.uid, format!("{what} is free, and its gate was flowing"));
        }
        if should && !is_free && !is_last {
            self.breaks(row.call.run.uid, format!("{what} counts, and its gate was not flowing"));
        }
        !(is_free || (should && is_last))
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
