//! What follows at gates when attempts end and time passes.
//!
//! Attempts are counted where their calls are held: by the node that works on the shard. What
//! follows is decided by the machine (`gate/machine.rs` in the core), and by one node: the one that
//! holds [`GateWrite::DECIDER`], which is every node that works alone. What it decides is a row of
//! the gate, and no row of a task.

use resurgam_core::gate::{Changed, GateState, Outcome, Phase, Standing};
use resurgam_core::{CallKey, retry};

use super::GateId;
use super::known_gate::AttemptOf;
use super::shared_gate::SharedGate;
use crate::node::Node;
use crate::node::calls::hot_call::started_at;
use crate::node::follow_up::FollowUp;

impl Node {
    /// An attempt of a call has ended: its gate takes notice.
    pub(crate) fn gate_hears(&mut self, key: CallKey, outcome: Outcome) {
        let Some(call) = self.memory.calls.get(key) else { return };
        let task = call.task();
        let gates = self.memory.slots.gates_mut();
        let Some(id) = gates.known_id(&task.gate) else { return };
        let (probing, began) = (task.progress.probing, started_at(task));
        let ended = AttemptOf { call: key, probing, began };
        if gates.gate_mut(id).counts(ended, outcome, self.now) {
            self.judge(id);
            self.memory.slots.gates_mut().may_tell(id);
        }
    }

    /// Asks the machine what follows from what is seen of a gate.
    pub(super) fn judge(&mut self, id: GateId) {
        let now = self.now;
        let decides = self.decides_about_gates();
        let overdue = self.overdue(id);
        let gate = self.memory.slots.gates_mut().gate_mut(id);
        if !decides && gate.state().standing() != Standing::Flowing {
            return;
        }
        let seen = gate.seen(overdue, now);
        let (state, since) = (gate.state(), gate.state().since.as_millis().unsigned_abs());
        let u = retry::uniform(u128::from(since), 0, state.turn, u32::try_from(id).unwrap_or(0));
        let after = state.next(gate.settings(), &seen, now, u);
        let fleet = gate.shared().and_then(SharedGate::fleet);
        if fleet.is_some_and(|fleet| fleet.is_after_outage(state.turn, now)) {
            return self.ramps_after_outage(id);
        }
        let shut_alone = fleet.and_then(|fleet| fleet.shut_alone(state.turn, now));
        match (after, shut_alone) {
            (Some(mut after), alone) if decides => {
                after.turn = after.turn.max(alone.unwrap_or_default());
                self.gate_becomes(id, after);
            }
            (None, Some(turn)) if decides => {
                let after = state.overrules(turn, now);
                self.gate_becomes(id, after);
            }
            // Nobody but the node that decides opens a gate; every node shuts it for itself.
            (Some(after), _) if after.standing() == Standing::Shut => {
                gate.change_shared(now, |shared, _| shared.shuts_alone(true));
                self.gate_stands(id, after);
                self.memory.slots.gates_mut().may_tell(id);
            }
            _ => {}
        }
    }

    /// Calls are overdue because nobody worked for a while: they come back slowly.
    pub(super) fn judge_after_outage(&mut self) {
        for id in self.memory.slots.gates_mut().take_after_outage() {
            match self.decides_about_gates() {
                true => self.ramps_after_outage(id),
                false => self.memory.slots.gates_mut().may_tell(id),
            }
        }
    }

    fn ramps_after_outage(&mut self, id: GateId) {
        let now = self.now;
        let gate = self.memory.slots.gates().gate(id);
        if let Some(after) = gate.state().after_own_outage(gate.settings(), now) {
            self.gate_becomes(id, after);
        }
    }

    /// A gate stands as this says from now on, which is stored.
    pub(super) fn gate_becomes(&mut self, id: GateId, after: GateState) {
        self.gate_stands(id, after);
        if self.decides_about_gates() {
            self.share_out(id);
            self.store_decided(id);
        }
    }

    /// A gate stands as this says from now on.
    pub(super) fn gate_stands(&mut self, id: GateId, after: GateState) {
        let now = self.now;
        let gate = self.memory.slots.gates().gate(id);
        let (before, key) = (gate.state().clone(), gate.key().to_string());
        let was_held = gate.is_held();
        log_change(&Changed { key: &key, before: &before, after: &after });
        let stands = after.standing();
        let rate = match after.phase {
            Phase::Ramping { rate, .. } if stands == Standing::Ramping => Some(rate),
            _ => None,
        };
        let gates = self.memory.slots.gates_mut();
        gates.gate_mut(id).becomes(after, now);
        gates.note(id);
        gates.watched.stands(&key, stands, rate);
        if was_held && !self.memory.slots.gates().gate(id).is_held() {
            // What was left to the store is due like anything else.
            self.memory.due.rescan(now);
        }
        if before.standing() != stands && stands == Standing::Flowing {
            self.look_at_held_deadlines();
            self.then(FollowUp::LookForShared);
        }
        self.then(FollowUp::FillSlots);
    }

    /// Calls whose clocks stood still are looked at when they are due.
    pub(super) fn look_at_held_deadlines(&mut self) {
        let now = self.now;
        let (calls, more) = self.memory.slots.gates_mut().take_held_deadlines();
        calls.into_iter().for_each(|call| self.memory.due.look_again(now, call));
        if more {
            self.memory.due.rescan(now);
        }
    }
}

fn log_change(changed: &Changed<'_>) {
    let Changed { key, before, after } = changed;
    if before.turn == after.turn {
        return tracing::debug!(gate = key, "{changed}");
    }
    match after.standing() {
        Standing::Shut => tracing::warn!(gate = key, why = %after.why, "{changed}"),
        _ => tracing::info!(gate = key, why = %after.why, "{changed}"),
    }
}
