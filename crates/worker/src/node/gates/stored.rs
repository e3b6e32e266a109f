//! What is stored of gates is read together with what operators set for activities
//! (`housekeeping/policy_overrides.rs`): before anything begins, when this node has written some of
//! it, and when others have committed. Then operators' settings, what they shut and opened by hand,
//! what the deciding node decided, and kinds of calls that are paused hold here.

use std::collections::BTreeSet;

use resurgam_core::gate::{ByHand, Decided, Gate, GateState, KeyPattern, Report, Why};
use resurgam_store::{
    GateCount, GateRow, GateWrite, HandState, Hold, HoldKind, PausedKinds, Step, StoredGates,
};

use super::GateId;
use super::known_gate::Stored;
use super::shared_gate::SharedGate;
use crate::error::Error;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::reply::Reply;
use crate::node::steps::effect::Effect;

impl Node {
    /// What is stored of gates was read.
    pub(crate) fn gates_read(&mut self, stored: &StoredGates) {
        let settings = stored.gates.iter().filter_map(settings_of).collect();
        let is_first = self.memory.slots.gates_mut().is_told(settings);
        if is_first {
            // Until now nothing could begin.
            self.then(FollowUp::LookForShared);
        }
        self.memory.slots.gates_mut().nothing_is_stored();
        for row in &stored.gates {
            self.gate_row_read(row, is_first);
        }
        self.kinds_are_paused(paused_kinds(&stored.holds));
        self.then(FollowUp::FillSlots);
    }

    /// What other nodes told of gates was read.
    pub(crate) fn counts_read(&mut self, counts: Vec<GateCount>) {
        if !self.decides_about_gates() {
            return;
        }
        let now = self.now;
        if !counts.is_empty() {
            self.memory.slots.gates_mut().will_be_tidied();
        }
        let mut heard: BTreeSet<GateId> = BTreeSet::new();
        for GateCount { gate: key, at, node, counts } in counts {
            let Ok(report) = serde_json::from_str::<Report>(&counts) else {
                tracing::error!(gate = %key, %node, "what was counted there cannot be read");
                continue;
            };
            let gates = self.memory.slots.gates_mut();
            let id = gates.id_or_new(&key);
            let hears = |shared: &mut SharedGate, _: &GateState| {
                shared.hears(&node, at, report, now);
            };
            gates.gate_mut(id).change_shared(now, hears);
            heard.insert(id);
        }
        for id in heard {
            self.judge(id);
            let gates = self.memory.slots.gates();
            let is_shared_out =
                gates.bounds(id) && gates.next_of_fleet(id, 0).is_some_and(|at| at <= now);
            if is_shared_out {
                self.shares_again(id);
            }
        }
    }

    /// The node that decides says how a gate stands.
    pub(super) fn gate_is_decided(&mut self, id: GateId, state: GateState) {
        let now = self.now;
        let gate = self.memory.slots.gates_mut().gate_mut(id);
        gate.change_shared(now, |shared, _| shared.shuts_alone(false));
        if state != *gate.state() {
            self.gate_stands(id, state);
        }
    }

    /// Stores what an operator wants of gates, or of kinds of calls.
    pub(crate) fn write_gates(&mut self, gates: Vec<GateWrite>, reply: Reply<()>) {
        if self.stopping.is_some() {
            return self.answer(reply, Err(Error::stopped("write what is wanted of a gate")));
        }
        let step = Step { gates, ..Step::default() };
        self.outbox.push(step, vec![Effect::Reply(reply), Effect::LookAtOverrides]);
    }

    fn gate_row_read(&mut self, row: &GateRow, is_first: bool) {
        if row.decided.is_none() && row.hand.is_none() {
            return;
        }
        let decides = self.decides_about_gates();
        let id = self.memory.slots.gates_mut().id_or_new(&row.key);
        let is_stored = if row.is_set() { Stored::Set } else { Stored::Decided };
        self.memory.slots.gates_mut().gate_mut(id).is_stored_as(is_stored);
        if let Some(decided) = row.decided.as_deref().and_then(|text| read_state(&row.key, text)) {
            let known = self.memory.slots.gates().gate(id).state().clone();
            // Whoever decides knows it better than what was read while something was on its way.
            let is_news = is_first || !decides || decided.state.turn > known.turn;
            let Decided { state, shares, bounds } = decided;
            if is_first {
                self.memory.slots.gates_mut().gate_mut(id).has_told(bounds.as_ref());
            }
            let is_behind = state.turn < known.turn
                && self.memory.slots.gates().gate(id).shared().is_some_and(SharedGate::is_alone);
            // What it shut for itself stays so until somebody has decided who knows of that.
            if is_news && !is_behind {
                self.gate_is_decided(id, state);
            }
            self.shares_read(id, shares);
        }
        self.hand_is_read(id, row);
    }

    /// Somebody has shut or opened a gate by hand, or lets it decide again.
    fn hand_is_read(&mut self, id: GateId, row: &GateRow) {
        let Some(hand) = &row.hand else { return };
        let now = self.now;
        let gate = self.memory.slots.gates().gate(id);
        let (state, settings) = (gate.state(), gate.settings());
        let is_over = hand.until.is_some_and(|until| until <= now);
        let after = match (hand.state, &state.by_hand) {
            (HandState::Auto, None) => None,
            (HandState::Auto, Some(_)) => {
                Some(state.set_auto(settings, Why::Auto { by: hand.by.clone() }, now))
            }
            (_, known) if is_over => {
                known.as_ref().map(|_| state.set_auto(settings, Why::HandOver, now))
            }
            (wanted, known) => {
                let shut = wanted == HandState::Shut;
                let is_same = |own: &&ByHand| own.since == hand.at && own.shut == shut;
                let (by, reason) = (hand.by.clone(), hand.reason.clone());
                let by_hand = ByHand { shut, by, reason, since: hand.at, until: hand.until };
                let is_known = known.as_ref().filter(is_same).is_some();
                (!is_known).then(|| state.set_by_hand(by_hand, now))
            }
        };
        if let Some(after) = after {
            self.gate_becomes(id, after);
        }
    }

    /// Nothing of these kinds of calls begins from now on, and everything else does.
    fn kinds_are_paused(&mut self, paused: PausedKinds) {
        if !self.memory.slots.gates_mut().pauses(paused) {
            return;
        }
        // Those that are due are found anew, without those that are paused.
        self.memory.slots.forget_lines();
        self.memory.due.rescan(self.now);
        self.look_at_held_deadlines();
        self.then(FollowUp::LookForShared);
    }
}

/// The settings that an operator stored, and the keys that they are for.
fn settings_of(row: &GateRow) -> Option<(KeyPattern, Gate)> {
    let text = row.settings.as_ref()?.text.as_deref()?;
    let read = || {
        let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let gate = Gate::from_stored(&value).map_err(|problems| problems.to_string())?;
        Ok::<_, String>((KeyPattern::parse(&row.key)?, gate))
    };
    read().inspect_err(|error| {
        tracing::error!(gate = %row.key, "the settings that were stored cannot be read: {error}");
    }).ok()
}

fn read_state(key: &str, text: &str) -> Option<Decided> {
    let read = Decided::from_stored(text);
    read.inspect_err(|error| {
        tracing::error!(gate = %key, "what was decided about a gate cannot be read: {error}");
    })
    .ok()
}

fn paused_kinds(holds: &[Hold]) -> PausedKinds {
    let of = |kind: HoldKind| {
        holds.iter().filter(|hold| hold.kind == kind).map(|hold| hold.name.clone()).collect()
    };
    PausedKinds { activities: of(HoldKind::Activity), queues: of(HoldKind::Queue) }
}
