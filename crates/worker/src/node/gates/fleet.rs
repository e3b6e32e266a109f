//! Gates that several nodes share.
//!
//! | a node that | does |
//! |---|---|
//! | decides | hears what the others tell, and shares out what each gate allows |
//! | does not | tells what ends and waits behind a gate, and follows its share |
//!
//! What is told is a row of the gate, the second and the node, written while calls fail behind the
//! gate, or wait for a share of it. What is shared out is stored with how the gate stands. A gate
//! that flows and bounds nothing is neither told of nor shared out.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::gate::{Decided, Gate, Report, Shares, Standing};
use resurgam_store::{GateCount, GateWrite, Step};

use super::known_gate::OVERDUE;
use super::shared_gate::{Decides, Place};
use super::{GateId, Gates, MostOfEach};
use crate::node::Node;
use crate::node::follow_up::FollowUp;

/// How soon a node tells again of a gate.
const TOLD_AGAIN: Duration = Duration::from_millis(500);

/// How far back what was told is read: nobody tells of it so late.
const READ: Duration = Duration::from_secs(5);

/// How long what was told is kept.
const KEPT: Duration = Duration::from_secs(60);

impl Gates {
    /// Which node this is among those that share gates. True when that is new.
    fn is_placed(&mut self, place: Place) -> bool {
        if self.place.as_ref() == Some(&place) {
            return false;
        }
        let now = self.now;
        for gate in &mut self.known {
            gate.change_place(&place, now);
        }
        self.place = Some(place);
        true
    }

    /// There may be something to tell of a gate.
    pub(super) fn may_tell(&mut self, id: GateId) {
        if self.place.is_some() && self.known[id].has_to_tell(0) {
            self.telling.insert(id);
        }
    }

    /// Those that there may be something to tell of, or to share out.
    fn shared_out(&self) -> Vec<GateId> {
        match self.place {
            Some(_) => self.active.union(&self.telling).copied().collect(),
            None => Vec::new(),
        }
    }

    /// When a gate is to be told of, or shared out.
    pub(super) fn next_of_fleet(&self, id: GateId, in_line: usize) -> Option<Timestamp> {
        let gate = &self.known[id];
        let shared = gate.shared()?;
        match shared.decides() {
            true => shared.next_sharing(self.now),
            false if !gate.has_to_tell(in_line) => None,
            false => {
                let again = shared.told_at().map(|at| at.saturating_add(TOLD_AGAIN));
                Some(again.unwrap_or(self.now))
            }
        }
    }

    /// True when something is shared out that lapses.
    fn is_shared_out(&self) -> bool {
        let shared = self.active.iter().filter_map(|id| self.known[*id].shared());
        let mut busy = shared.map(|shared| match shared.decides() {
            true => shared.next_sharing(self.now).is_some(),
            false => shared.is_to_go_on(),
        });
        busy.any(|is_busy| is_busy)
    }

    /// Of which gates that bound what begins tasks may be claimed that others leave, at most so
    /// many of each; apart those that flow, and those that do not.
    pub(crate) fn claimable(&self, limit: usize) -> Vec<(MostOfEach, bool)> {
        let of = |flows: bool| -> MostOfEach {
            let gates = self.active.iter().map(|id| (&self.known[*id], self.room(*id, false)));
            let gates = gates.filter(|(gate, _)| flows == gate.flows());
            let most = |room: Option<u32>| room.map_or(limit, |room| limit.min(room as usize));
            let gates = gates.map(|(gate, room)| (gate.key().to_string(), most(room)));
            gates.filter(|(_, most)| *most > 0).collect()
        };
        let all = [true, false].map(|flows| (of(flows), flows));
        all.into_iter().filter(|(gates, _)| !gates.is_empty()).collect()
    }

    /// Gates of which this node may begin nothing, because it has no share of them.
    pub(crate) fn without_share(&self) -> Vec<String> {
        let is_one = |gate: &&super::KnownGate| {
            let shared = gate.shared().is_some_and(|shared| !shared.is_wanted());
            shared && !gate.is_shut() && gate.room(false, self.now) == Some(0)
        };
        let gates = self.active.iter().map(|id| &self.known[*id]).filter(is_one);
        gates.map(|gate| gate.key().to_string()).collect()
    }

    /// Calls of other holders wait behind a gate that may run here, or none do.
    pub(crate) fn wants_share(&mut self, key: &str, is_wanted: bool) {
        let now = self.now;
        if let Some(id) = self.known_id(key) {
            self.known[id].change_shared(now, |shared, _| shared.wants(is_wanted));
        }
    }

    /// No other holder leaves calls to this node any more.
    pub(crate) fn want_no_share(&mut self) {
        let now = self.now;
        for id in &self.active {
            let gate = &mut self.known[*id];
            if gate.shared().is_some_and(|shared| shared.is_wanted()) {
                gate.change_shared(now, |shared, _| shared.wants(false));
            }
        }
    }

    /// True when calls of other holders wait behind a gate, and some may begin here.
    fn may_claim(&self) -> bool {
        let mut gates = self.active.iter().map(|id| &self.known[*id]);
        gates.any(|gate| {
            let is_wanted = gate.shared().is_some_and(|shared| shared.is_wanted());
            is_wanted && gate.room(false, self.now) != Some(0)
        })
    }

    /// What was told just now is deleted some time after it is of no use.
    pub(super) fn will_be_tidied(&mut self) {
        self.tidies_at.get_or_insert(self.now.saturating_add(2 * KEPT));
    }

    fn knows_any(&self) -> bool {
        !self.of_code.is_empty() || !self.stored.is_empty() || !self.known.is_empty()
    }
}

impl Node {
    /// True when this node decides about gates.
    pub(crate) fn decides_about_gates(&self) -> bool {
        self.is_owner() && self.memory.shards.owns(GateWrite::DECIDER)
    }

    /// Which node this is among those that share gates.
    pub(super) fn follow_place(&mut self) {
        if !self.is_shared {
            return;
        }
        let decides = self.decides_about_gates();
        let others_work = self.memory.shards.others_work();
        let before = self.memory.slots.gates().place.as_ref().and_then(|place| place.decides);
        let since = Decides { since: self.now, after_others: others_work };
        let decides = decides.then(|| before.unwrap_or(since));
        self.memory.slots.gates_mut().is_placed(Place { me: self.name.clone(), decides });
    }

    /// From when on what was told of gates is to be read, if this node wants to know.
    pub(crate) fn counted_from(&self) -> Option<Timestamp> {
        let wants = self.is_shared
            && self.decides_about_gates()
            && self.memory.shards.others_work()
            && self.memory.slots.gates().knows_any();
        wants.then(|| self.now.saturating_sub(READ))
    }

    /// What is stored of gates is about to be read.
    pub(crate) fn asks_for_gates(&mut self) {
        let now = self.now;
        self.memory.slots.gates_mut().asked_at = now;
    }

    /// True when something is shared out that lapses.
    pub(crate) fn shares_gates_out(&self) -> bool {
        self.memory.slots.gates().is_shared_out()
    }

    /// Tells of gates, or shares them out, when it is time.
    pub(super) fn wake_fleet(&mut self) {
        let now = self.now;
        for id in self.memory.slots.gates().shared_out() {
            let in_line = self.memory.slots.in_line(id);
            let gates = self.memory.slots.gates();
            let is_due = gates.next_of_fleet(id, in_line).is_some_and(|at| at <= now);
            match gates.gate(id).shared().is_some_and(|shared| shared.decides()) {
                _ if !is_due => {}
                true => self.shares_again(id),
                false => self.tell_of(id),
            }
            let gates = self.memory.slots.gates_mut();
            if !gates.known[id].has_to_tell(in_line) {
                gates.telling.remove(&id);
            }
        }
        if self.memory.slots.gates().may_claim() {
            self.then(FollowUp::LookForShared);
        }
        self.tidy_gates();
    }

    /// Tells the node that decides of a gate.
    fn tell_of(&mut self, id: GateId) {
        let (report, now) = (self.report_of(id), self.now);
        let gate = self.memory.slots.gates_mut().gate_mut(id);
        let key = gate.key().to_string();
        gate.change_shared(now, |shared, _| shared.tells(report.clone(), now));
        let Ok(counts) = serde_json::to_string(&report) else { return };
        let at = Timestamp::from_millis(now.as_millis().div_euclid(1_000) * 1_000);
        let count = GateCount { gate: key, at, node: self.name.clone(), counts };
        let gates = vec![GateWrite::Count(count)];
        self.outbox.push(Step { gates, ..Step::default() }, Vec::new());
    }

    /// How many calls behind a gate should have begun a while ago, while it matters.
    pub(super) fn overdue(&self, id: GateId) -> Option<u64> {
        let gate = self.memory.slots.gates().gate(id);
        if gate.state().standing() != Standing::Ramping || !gate.knows_all_due(self.now) {
            return None;
        }
        let before = self.now.saturating_sub(OVERDUE);
        u64::try_from(self.memory.slots.in_line_before(id, before)).ok()
    }

    fn report_of(&mut self, id: GateId) -> Report {
        let (overdue, in_line) = (self.overdue(id), self.memory.slots.in_line(id));
        let now = self.now;
        self.memory.slots.gates_mut().gate_mut(id).report(in_line, overdue, now)
    }

    /// Shares a gate out. True when others are to know.
    pub(super) fn share_out(&mut self, id: GateId) -> bool {
        let (own, now) = (self.report_of(id), self.now);
        let alive = self.memory.shards.assignment().nodes;
        let gate = self.memory.slots.gates_mut().gate_mut(id);
        gate.share_out(own, &alive, now).is_some_and(|sharing| sharing.is_news)
    }

    /// Stores how a gate stands, and who gets what of it.
    pub(super) fn store_decided(&mut self, id: GateId) {
        let gate = self.memory.slots.gates_mut().gate_mut(id);
        let (key, state) = (gate.key().to_string(), gate.state().clone());
        gate.is_decided();
        let bounds = Some(gate.settings().clone()).filter(Gate::has_limits);
        let shares = gate.change_shared(self.now, |shared, _| shared.is_stored());
        let decided = Decided { state, shares: shares.unwrap_or_default(), bounds }.to_stored();
        let gates = vec![GateWrite::Decide { key, decided }];
        self.outbox.push(Step { gates, ..Step::default() }, Vec::new());
    }

    /// Stores how gates bound what begins, once calls wait for their turn: whoever looks at these
    /// from elsewhere does not know what the code says.
    pub(super) fn publish_bounds(&mut self) {
        if !self.decides_about_gates() {
            return;
        }
        for id in self.memory.slots.gates().active() {
            let in_line = self.memory.slots.in_line(id);
            if self.memory.slots.gates().gate(id).has_untold_bounds(in_line) {
                self.store_decided(id);
            }
        }
    }

    /// Shares a gate out, and stores that when others are to know.
    pub(super) fn shares_again(&mut self, id: GateId) {
        if self.share_out(id) {
            self.store_decided(id);
        }
        self.then(FollowUp::FillSlots);
    }

    /// What the node that decides has shared out was read.
    pub(super) fn shares_read(&mut self, id: GateId, shares: Shares) {
        let now = self.now;
        let gates = self.memory.slots.gates_mut();
        let asked_at = gates.asked_at;
        let is_new = gates
            .gate_mut(id)
            .change_shared(now, |shared, state| shared.reads(shares, state, (asked_at, now)));
        if is_new == Some(true) && self.memory.shards.others_leave_tasks() {
            self.then(FollowUp::LookForShared);
        }
    }

    /// What was told long ago is deleted.
    fn tidy_gates(&mut self) {
        let now = self.now;
        let decides = self.decides_about_gates();
        let gates = self.memory.slots.gates_mut();
        if !decides || gates.tidies_at.is_none_or(|at| at > now) {
            return;
        }
        gates.tidies_at = None;
        let before = now.saturating_sub(KEPT);
        let gates = vec![GateWrite::ForgetCounts { before }];
        self.outbox.push(Step { gates, ..Step::default() }, Vec::new());
    }
}
