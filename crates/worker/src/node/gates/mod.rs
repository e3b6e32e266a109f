//! Gates: what of a dependency's calls may begin here, and what is known of each gate.
//!
//! [`Gates`] is asked by the slots (`calls/slots.rs`): a task behind a gate waits in a line of its
//! own, which gets slots as the gate allows. It knows every gate that has settings, in code or
//! stored, and every gate that somebody shut or opened by hand. A key without either flows, and
//! nothing is remembered of it.
//!
//! | file | what it has |
//! |---|---|
//! | `known_gate.rs` | one gate: its settings, its state, what began and ended behind it |
//! | `judging.rs` | what follows when attempts end and time passes; what is written of that |
//! | `shared_gate.rs`, `fleet.rs` | what other nodes have of a gate: what is told, and shared out |
//! | `backlog.rs` | due tasks behind gates that hold them back are read, as many as may begin |
//! | `idle.rs` | gates are forgotten that nothing need be known of |
//! | `crowded.rs` | calls share a gate where too many keys of one prefix wait |
//! | `watched.rs` | what those who watch many gates are told as numbers |
//! | `gated.rs` | how many calls wait behind gates |
//! | `stored.rs` | what operators and other nodes have stored holds here |
//!
//! A gate that holds tasks back is *held*: its due tasks are left to the store, whatever their
//! number, and scans for what is due pass them by. Of each held gate a page of them is in line.
//! Nothing is written about any of them when the gate shuts or opens.

pub(crate) mod backlog;
pub(crate) mod crowded;
pub(crate) mod fleet;
mod gated;
mod idle;
pub(crate) mod judging;
pub(crate) mod known_gate;
mod shared_gate;
pub(crate) mod stored;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::gate::{Gate, KeyPattern, Standing};
use resurgam_core::{CallKey, Timestamp};
use resurgam_store::{GateScope, PausedKinds};

use known_gate::{KnownGate, Stored};
use shared_gate::{Place, SharedGate};
use watched::Watched;

/// How many calls are remembered whose queue timeout has passed while they were held back. Those
/// beyond are found in the store.
const HELD: usize = 10_000;

/// How long it takes until what is due is found when a node begins.
const FOUND_IN: Duration = Duration::from_secs(5);

/// Keys of gates, each with how many tasks behind it are asked for at most.
pub(crate) type MostOfEach = Arc<[(String, usize)]>;

/// Which gate: its place among those that are known.
pub(crate) type GateId = usize;

/// Whether a call is held back whose time in a queue would be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It is not.
    No,
    /// It is, and remembered.
    InMemory,
    /// It is. There are too many of these: it is found in the store.
    InStore,
}

/// The gates that are known.
#[derive(Debug)]
pub(crate) struct Gates {
    now: Timestamp,
    /// Settings that the code names.
    of_code: Vec<(KeyPattern, Gate)>,
    /// Settings that operators stored, which win.
    stored: Vec<(KeyPattern, Gate)>,
    /// Gates, by their ids; those that are free stand for none.
    known: Vec<KnownGate>,
    free: Vec<GateId>,
    /// How many there were when idle ones were forgotten last, and when that was.
    left: usize,
    looked_at: Timestamp,
    ids: BTreeMap<String, GateId>,
    /// Those that are more than a look at what ends: they do not flow, or have limits.
    active: BTreeSet<GateId>,
    /// Kinds of calls of which nothing begins.
    paused: PausedKinds,
    /// When activities went on that were paused.
    resumed: BTreeMap<String, Timestamp>,
    /// Calls whose queue timeout has passed while they were held back, and whether there are more.
    held_deadlines: BTreeSet<CallKey>,
    more_held: bool,
    /// Calls that an operator wants to be first in line.
    first: BTreeSet<CallKey>,
    /// Which node this is among those that share gates; none where one works alone.
    place: Option<Place>,
    /// Gates of which there is something to tell the node that decides, or was a moment ago.
    telling: BTreeSet<GateId>,
    /// When what is stored was asked for last.
    asked_at: Timestamp,
    /// When what other nodes told long ago is deleted next, if there is any.
    tidies_at: Option<Timestamp>,
    /// Until when calls that are found due may be overdue because nobody worked for a while, and
    /// the gates behind which there were some.
    outage_until: Timestamp,
    after_outage: BTreeSet<GateId>,
    watched: Watched,
    /// Due tasks are being read.
    reading: bool,
    /// More calls can run here since that began.
    is_read_in_vain: bool,
    /// What is stored was read: until then nothing begins.
    is_read: bool,
}

impl Gates {
    /// Nothing is known but what the code names.
    pub(crate) fn new(of_code: Vec<(KeyPattern, Gate)>, now: Timestamp) -> Self {
        Gates {
            now,
            of_code,
            stored: Vec::new(),
            known: Vec::new(),
            free: Vec::new(),
            left: 0,
            looked_at: now,
            ids: BTreeMap::new(),
            active: BTreeSet::new(),
            paused: PausedKinds::default(),
            resumed: BTreeMap::new(),
            held_deadlines: BTreeSet::new(),
            more_held: false,
            first: BTreeSet::new(),
            place: None,
            telling: BTreeSet::new(),
            asked_at: now,
            tidies_at: None,
            outage_until: now,
            after_outage: BTreeSet::new(),
            watched: Watched::default(),
            reading: false,
            is_read_in_vain: false,
            is_read: false,
        }
    }

    /// True while due tasks are being read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading
    }

    /// Due tasks are being read, or are no longer.
    pub(super) fn reads(&mut self, reading: bool) {
        self.reading = reading;
        self.is_read_in_vain = false;
    }

    /// The time of what is being handled.
    pub(crate) fn time_is(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The gate of this key, if anything is known of it or could be.
    pub(crate) fn id_of(&mut self, key: &str) -> Option<GateId> {
        if let Some(id) = self.ids.get(key) {
            return Some(*id);
        }
        let settings = self.settings_of(key)?.clone();
        Some(self.learn(key, settings))
    }

    /// The gate of this key, whatever is known of it.
    pub(super) fn id_or_new(&mut self, key: &str) -> GateId {
        match self.ids.get(key) {
            Some(id) => *id,
            None => {
                let settings = self.settings_of(key).cloned().unwrap_or_default();
                self.learn(key, settings)
            }
        }
    }

    /// The gate of this key, if it is known.
    pub(crate) fn known_id(&self, key: &str) -> Option<GateId> {
        self.ids.get(key).copied()
    }

    fn learn(&mut self, key: &str, settings: Gate) -> GateId {
        let shared = self.place.as_ref().map(SharedGate::new);
        let gate = KnownGate::new(key.to_string(), settings, shared, self.now);
        let id = match self.free.pop() {
            Some(id) => {
                self.known[id] = gate;
                id
            }
            None => {
                self.known.push(gate);
                self.known.len() - 1
            }
        };
        self.ids.insert(key.to_string(), id);
        self.note(id);
        id
    }

    /// The settings of a key: what operators stored before what the code names, the pattern that
    /// says most of the key.
    fn settings_of(&self, key: &str) -> Option<&Gate> {
        let best = |of: &'_ Vec<(KeyPattern, Gate)>| {
            let matching = of.iter().enumerate().filter(|(_, (pattern, _))| pattern.matches(key));
            matching.max_by(|(_, one), (_, other)| one.0.cmp(&other.0)).map(|(index, _)| index)
        };
        let stored = best(&self.stored).map(|index| &self.stored[index].1);
        stored.or_else(|| best(&self.of_code).map(|index| &self.of_code[index].1))
    }

    pub(super) fn gate(&self, id: GateId) -> &KnownGate {
        &self.known[id]
    }

    pub(super) fn gate_mut(&mut self, id: GateId) -> &mut KnownGate {
        &mut self.known[id]
    }

    /// Whether a gate is more than a look at what ends has changed.
    pub(super) fn note(&mut self, id: GateId) {
        match self.known[id].is_active() {
            true => self.active.insert(id),
            false => self.active.remove(&id),
        };
    }

    /// Those that are more than a look at what ends.
    pub(super) fn active(&self) -> Vec<GateId> {
        self.active.iter().copied().collect()
    }

    /// True when calls of this kind may begin as far as operators are concerned.
    pub(crate) fn lets_kind(&self, activity: &str, queue: &str) -> bool {
        self.paused.is_empty() || !self.paused.has(activity, queue)
    }

    /// What is paused as a whole.
    pub(crate) fn paused(&self) -> PausedKinds {
        self.paused.clone()
    }

    /// How many attempts may begin behind a gate now; `None` is as many as there are slots.
    pub(crate) fn room(&self, id: GateId, is_retry: bool) -> Option<u32> {
        self.known[id].room(is_retry, self.now)
    }

    /// True when the retries of a gate are bounded apart.
    pub(crate) fn bounds_retries(&self, id: GateId) -> bool {
        self.known[id].settings().budget.is_some()
    }

    /// A slot is held for a task behind the gate.
    pub(crate) fn reserves(&mut self, id: GateId) {
        self.known[id].reserves();
    }

    /// A slot that was held is free again, and nothing began.
    pub(crate) fn gives_back(&mut self, id: GateId) {
        self.known[id].gives_back();
    }

    /// An attempt begins with a slot that was held.
    pub(crate) fn begins(&mut self, id: GateId, call: CallKey, is_retry: bool) {
        let now = self.now;
        self.first.remove(&call);
        let gate = &mut self.known[id];
        gate.begins(call, is_retry, now);
        if gate.state().standing() == Standing::Probing {
            self.watched.probes(gate.key());
        }
    }

    /// Another node hears how the attempt of this call ends.
    pub(crate) fn is_judged_elsewhere(&mut self, id: GateId, call: CallKey) {
        self.known[id].is_judged_elsewhere(call);
    }

    /// An attempt of this call has ended, as far as its slot is concerned.
    pub(crate) fn ends(&mut self, id: GateId, call: CallKey) {
        self.known[id].ends(call);
    }

    /// True when a gate bounds what begins: only a page of its tasks is in line.
    pub(crate) fn bounds(&self, id: GateId) -> bool {
        self.active.contains(&id)
    }

    /// True when a call probed last, and others are to probe now.
    pub(crate) fn probed_last(&self, id: GateId, call: CallKey) -> bool {
        self.known[id].probed_last(call)
    }

    /// How a gate stands; a key of which nothing is known flows.
    pub(crate) fn standing(&self, key: &str) -> Standing {
        self.known_id(key).map_or(Standing::Flowing, |id| self.known[id].state().standing())
    }

    /// True when the due tasks of this gate are left to the store.
    pub(crate) fn is_held(&self, id: GateId) -> bool {
        self.known[id].is_held()
    }

    /// Which tasks are looked for where everything is that is due: not those behind gates that hold
    /// them back.
    pub(crate) fn scope(&self) -> GateScope {
        let held: Arc<[String]> = self
            .active
            .iter()
            .filter(|id| self.known[**id].is_held())
            .map(|id| self.known[*id].key().to_string())
            .collect();
        if held.is_empty() { GateScope::All } else { GateScope::Except(held) }
    }

    /// Of which gates tasks are claimed that others leave: not of those that bound what begins.
    pub(crate) fn unbounded(&self) -> GateScope {
        let bound: Arc<[String]> =
            self.active.iter().map(|id| self.known[*id].key().to_string()).collect();
        if bound.is_empty() { GateScope::All } else { GateScope::Except(bound) }
    }

    /// There are more due tasks behind a held gate than are in line, at this time.
    pub(crate) fn left_to_store(&mut self, id: GateId, at: Timestamp) {
        self.known[id].backlog_mut().left_to_store(at);
    }

    /// Whether a call is held back whose time in a queue is over as far as clocks go: they stand
    /// still behind a gate that does not flow. It is looked at when the gate flows.
    pub(crate) fn holds_deadline(&mut self, activity: &str, gate: &str, call: CallKey) -> Held {
        let is_paused = self.paused.activities.iter().any(|other| other == activity);
        if !is_paused && self.standing(gate) == Standing::Flowing {
            return Held::No;
        }
        if self.held_deadlines.len() >= HELD && !self.held_deadlines.contains(&call) {
            self.more_held = true;
            return Held::InStore;
        }
        self.held_deadlines.insert(call);
        Held::InMemory
    }

    /// True for a call that is remembered to be held back so.
    pub(crate) fn has_held(&self, call: CallKey) -> bool {
        self.held_deadlines.contains(&call)
    }

    /// Those calls, now that it changes, and whether there are more of them in the store.
    pub(super) fn take_held_deadlines(&mut self) -> (BTreeSet<CallKey>, bool) {
        (std::mem::take(&mut self.held_deadlines), std::mem::take(&mut self.more_held))
    }

    /// An operator wants a call to be first in line where a gate holds it back.
    /// Answers with how that stands, if one does.
    pub(crate) fn puts_first(&mut self, gate: &str, call: CallKey) -> Option<String> {
        let state = self.known[self.known_id(gate)?].state();
        let stands = state.standing() != Standing::Flowing;
        let told = stands.then(|| format!("{gate} ({})", state.told_at(self.now)));
        if stands {
            self.first.insert(call);
        }
        told
    }

    /// True when an operator wants a call to be first in line.
    pub(crate) fn is_first(&self, call: CallKey) -> bool {
        !self.first.is_empty() && self.first.contains(&call)
    }

    /// What is stored was read: until then nothing begins.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// What is stored of settings was read. True when nothing was known before.
    pub(super) fn is_told(&mut self, stored: Vec<(KeyPattern, Gate)>) -> bool {
        self.stored = stored;
        for id in self.ids.values().copied().collect::<Vec<_>>() {
            let settings = self.settings_of(self.known[id].key()).cloned().unwrap_or_default();
            self.known[id].follows(settings, self.now);
            self.note(id);
        }
        let is_first = !std::mem::replace(&mut self.is_read, true);
        if is_first {
            self.begins_after_outage();
        }
        is_first
    }

    /// What is stored of gates is about to be told, of each of which there is something.
    fn nothing_is_stored(&mut self) {
        self.known.iter_mut().for_each(|gate| gate.is_stored_as(Stored::Nothing));
    }

    /// Nobody may have worked for a while until now.
    pub(crate) fn begins_after_outage(&mut self) {
        self.outage_until = self.now.saturating_add(FOUND_IN);
    }

    /// A call behind a gate has been due since then.
    pub(crate) fn is_due(&mut self, id: GateId, since: Timestamp) {
        let now = self.now;
        if now < self.outage_until && self.known[id].is_overdue(since, now) {
            self.after_outage.insert(id);
        }
    }

    /// The gates behind which calls are overdue because nobody worked for a while.
    pub(super) fn take_after_outage(&mut self) -> BTreeSet<GateId> {
        std::mem::take(&mut self.after_outage)
    }

    /// Other kinds of calls are paused from now on. True when that is new.
    pub(super) fn pauses(&mut self, paused: PausedKinds) -> bool {
        let is_new = self.paused != paused;
        let before = std::mem::replace(&mut self.paused, paused);
        let goes_on = |name: &&String| !self.paused.activities.contains(name);
        let resumed = before.activities.iter().filter(goes_on);
        self.resumed.extend(resumed.map(|name| (name.clone(), self.now)));
        if is_new {
            self.reads_anew();
        }
        is_new
    }

    /// True when what is being read leaves out calls that are to be found.
    pub(super) fn is_read_in_vain(&self) -> bool {
        self.is_read_in_vain
    }

    /// What was read of due tasks left some out that can run here now, and what is being read does:
    /// other kinds of calls are paused, there are more shards, or there is somebody for activities
    /// that nobody knew.
    pub(crate) fn reads_anew(&mut self) {
        self.is_read_in_vain = self.reading;
        self.known.iter_mut().for_each(|gate| gate.backlog_mut().is_over());
    }

    /// When something is to be done about gates, of which so many are in line each.
    pub(crate) fn next(
        &self,
        decides: bool,
        in_line: impl Fn(GateId) -> usize,
    ) -> Option<Timestamp> {
        let next = |id: &GateId| {
            let gate = &self.known[*id];
            let is_wanted = gate.shared().is_some_and(SharedGate::is_wanted);
            let in_line = in_line(*id) + usize::from(is_wanted);
            let change = gate.next_change(self.now).filter(|_| decides);
            change.into_iter().chain(gate.next(in_line, self.now)).min()
        };
        let shared = |id: &GateId| self.next_of_fleet(*id, in_line(*id));
        let sharing = self.active.union(&self.telling).filter_map(shared);
        let tidies = self.tidies_at.filter(|_| decides);
        let outage = self.after_outage.iter().map(|_| self.now);
        self.active.iter().filter_map(next).chain(sharing).chain(outage).chain(tidies).min()
    }

    /// Since when calls of an activity begin behind a gate, where that was not always so: the clock
    /// of their time in a queue stood still until then. Who was not there when the activity was
    /// resumed does not know of its pause.
    pub(crate) fn flows_since(&self, activity: &str, gate: &str) -> Option<Timestamp> {
        let state = self.known_id(gate).map(|id| self.known[id].state());
        let flows = state.filter(|it| it.turn > 0 && it.standing() == Standing::Flowing);
        flows.map(|state| state.since).max(self.resumed.get(activity).copied())
    }
}
