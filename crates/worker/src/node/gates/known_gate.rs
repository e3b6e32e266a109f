//! One gate, as a node knows it ([`KnownGate`]).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use resurgam_core::gate::{
    Gate, GateState, Grants, Left, Outcome, Report, Seen, Share, Standing, Tally, Window,
};
use resurgam_core::{CallKey, Timestamp};

use super::shared_gate::{Place, SharedGate, Sharing};

/// How many due tasks of a held gate are in line.
pub(crate) const PAGE: usize = 1_000;

/// When there are fewer than these in line, more are read.
const LOW: usize = 250;

/// The shortest time between two reads of a full page.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a call is due before it counts as overdue. When a gate flows again, all that are due
/// for less than this begin at once.
pub(super) const OVERDUE: Duration = Duration::from_millis(100);

/// How many calls are remembered that were told to leave the dependency alone.
const TOLD_BY: usize = 16;

/// Calls that are due for so long when a node begins, or after its clock jumped, are overdue
/// because nobody worked.
const LONG: Duration = Duration::from_secs(60);

/// How long a node waits for what is decided about such calls.
const DECIDED_IN: Duration = Duration::from_secs(5);

/// How soon a ramp is looked at again of which nothing new is known.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often more may begin where it is a question of time, at most.
const GRAIN: Duration = Duration::from_millis(10);

/// One gate.
#[derive(Debug)]
pub(crate) struct KnownGate {
    key: String,
    settings: Gate,
    state: GateState,
    grants: Grants,
    /// Slots that are held for tasks which have not begun.
    reserved: u32,
    /// What ended lately, while it flows.
    window: Window,
    /// What ended of the attempts that began in this turn, while it does not.
    of_turn: Tally,
    /// The calls that probe, and those that probed before.
    probes: BTreeSet<CallKey>,
    probed: BTreeSet<CallKey>,
    /// The calls that were last told to leave the dependency alone.
    told_by: VecDeque<CallKey>,
    /// The calls that probed, and of which nobody has said how their attempt ended.
    unjudged: BTreeSet<CallKey>,
    backlog: Backlog,
    /// What other nodes have of it, where many work.
    shared: Option<SharedGate>,
    /// When its calls were found overdue because nobody worked for a while.
    after_outage: Option<Timestamp>,
    /// What is stored of it.
    stored: Stored,
    /// What bounds its calls is stored.
    bounds_are_told: bool,
}

/// What is stored of a gate beside settings for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing, as far as is known.
    Nothing,
    /// What was decided about it, or what an operator wanted once.
    Decided,
    /// Something that an operator has set.
    Set,
}

/// What a node knows of the due tasks of a held gate that are not in line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// More tasks are due than fit in the line.
    more: bool,
    /// When the next one is due.
    next_due: Option<Timestamp>,
    /// It has been read in this turn.
    is_known: bool,
    /// Reading is refused until then.
    again_at: Option<Timestamp>,
}

impl Backlog {
    /// A task that is due then is left to the store.
    pub(super) fn left_to_store(&mut self, at: Timestamp) {
        self.next_due = Some(self.next_due.map_or(at, |known| known.min(at)));
    }

    /// A page was read: whether it was full, and when the first task is due that is not yet.
    pub(super) fn is_read(&mut self, more: bool, next_due: Option<Timestamp>, now: Timestamp) {
        // What is full of tasks that are about to be claimed is not read again at once.
        let again_at = more.then(|| now.saturating_add(PAUSE));
        *self = Backlog { more, next_due, is_known: true, again_at };
    }

    /// Nothing of the gate is left to the store any more.
    pub(super) fn is_over(&mut self) {
        *self = Backlog::default();
    }

    /// True when something is left to the store.
    fn has_any(&self) -> bool {
        self.more || self.next_due.is_some()
    }

    /// It could not be read.
    pub(super) fn is_refused(&mut self, again_at: Timestamp) {
        self.again_at = Some(again_at);
    }

    /// True when there is something to be read, with so many in line.
    fn is_wanted(&self, in_line: usize, now: Timestamp) -> bool {
        let is_due = self.more || !self.is_known || self.next_due.is_some_and(|at| at <= now);
        in_line < LOW && is_due && self.again_at.is_none_or(|at| at <= now)
    }

    fn next(&self, in_line: usize, now: Timestamp) -> Option<Timestamp> {
        if let Some(at) = self.again_at.filter(|at| *at > now) {
            return Some(at);
        }
        self.next_due.filter(|at| *at > now && !self.more && in_line < LOW)
    }
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptOf {
    /// Its call.
    pub(super) call: CallKey,
    /// Its gate was not flowing when it began.
    pub(super) probing: bool,
    /// When it began.
    pub(super) began: Timestamp,
}

impl KnownGate {
    /// A gate that nobody has had trouble with.
    pub(super) fn new(
        key: String,
        settings: Gate,
        shared: Option<SharedGate>,
        now: Timestamp,
    ) -> Self {
        let state = GateState::flowing(now);
        let whole = Share::whole(&settings, &state);
        let share = shared.as_ref().map_or(whole, |shared| shared.share(whole, now));
        KnownGate {
            grants: Grants::new(share, state.turn, now),
            shared,
            after_outage: None,
            stored: Stored::Nothing,
            bounds_are_told: false,
            window: window_of(&settings),
            key,
            settings,
            state,
            reserved: 0,
            of_turn: Tally::default(),
            probes: BTreeSet::new(),
            probed: BTreeSet::new(),
            told_by: VecDeque::new(),
            unjudged: BTreeSet::new(),
            backlog: Backlog::default(),
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn settings(&self) -> &Gate {
        &self.settings
    }

    pub(super) fn state(&self) -> &GateState {
        &self.state
    }

    /// True when its calls begin when they are due, as far as it stands.
    pub(super) fn flows(&self) -> bool {
        self.state.standing() == Standing::Flowing
    }

    /// True when nothing begins behind it.
    pub(super) fn is_shut(&self) -> bool {
        self.state.standing() == Standing::Shut
    }

    /// This much is stored of it.
    pub(super) fn is_stored_as(&mut self, stored: Stored) {
        self.stored = stored;
    }

    /// True when calls wait for their turn, with so many in line, and nothing is stored of what
    /// bounds them.
    pub(super) fn has_untold_bounds(&self, in_line: usize) -> bool {
        let wait = in_line > 0 || self.backlog.has_any();
        wait && !self.bounds_are_told && self.flows() && self.settings.has_limits()
    }

    /// It is stored that these bound what begins.
    pub(super) fn has_told(&mut self, bounds: Option<&Gate>) {
        self.bounds_are_told = bounds == Some(&self.settings);
    }

    /// What is decided about it is about to be stored.
    pub(super) fn is_decided(&mut self) {
        self.bounds_are_told = true;
        if self.stored == Stored::Nothing {
            self.stored = Stored::Decided;
        }
    }

    /// True when something is stored of it.
    pub(super) fn is_stored(&self) -> bool {
        self.stored != Stored::Nothing
    }

    /// True when learning it anew would make no difference, but for calls in line or about to be.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let flows = self.state.is_as_new(now) && self.stored != Stored::Set;
        flows
            && self.reserved == 0
            && self.grants.is_rested(now)
            && !self.window.has_trouble(now)
            && self.unjudged.is_empty()
            && !self.backlog.has_any()
            && self.after_outage.is_none()
            && self.shared.as_ref().is_none_or(|shared| shared.is_idle(now))
    }

    pub(super) fn backlog_mut(&mut self) -> &mut Backlog {
        &mut self.backlog
    }

    /// True when it is more than a look at what ends.
    pub(super) fn is_active(&self) -> bool {
        self.settings.has_limits() || self.state.standing() != Standing::Flowing
    }

    /// True when its due tasks are left to the store: it does not flow, or bounds more than fit in
    /// line.
    pub(super) fn is_held(&self) -> bool {
        self.state.standing() != Standing::Flowing
            || (self.settings.has_limits() && self.backlog.has_any())
    }

    /// How many attempts may begin now.
    pub(super) fn room(&self, is_retry: bool, now: Timestamp) -> Option<u32> {
        if self.has_lapsed(now) || self.is_after_outage(now) {
            return Some(0);
        }
        let Left { attempts, retries } = self.grants.left(now);
        let retries = retries.filter(|_| is_retry);
        let room = attempts.into_iter().chain(retries).min();
        room.map(|room| room.saturating_sub(self.reserved))
    }

    pub(super) fn reserves(&mut self) {
        self.reserved += 1;
    }

    pub(super) fn gives_back(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    pub(super) fn begins(&mut self, call: CallKey, is_retry: bool, now: Timestamp) {
        self.gives_back();
        self.grants.begins(is_retry, now);
        if self.state.standing() == Standing::Probing {
            self.probes.insert(call);
            // What its attempt before this one said is known: that was nothing, if it is unjudged.
            self.unjudged.remove(&call);
        }
    }

    /// Another node hears how the attempt of this call ends.
    pub(super) fn is_judged_elsewhere(&mut self, call: CallKey) {
        self.probes.remove(&call);
    }

    /// An attempt has ended, as far as its slot is concerned. Where it probed, and nobody says how
    /// it ended, another one may probe.
    pub(super) fn ends(&mut self, call: CallKey) {
        self.grants.ends();
        if self.probes.contains(&call) && self.unjudged.insert(call) {
            self.grants.says_nothing();
        }
    }

    /// True when another call is to probe instead, if there is one.
    pub(super) fn probed_last(&self, call: CallKey) -> bool {
        self.state.standing() == Standing::Probing && self.probed.contains(&call)
    }

    /// An attempt of a call has ended that began then. True when that says something about the
    /// gate.
    pub(super) fn counts(&mut self, ended: AttemptOf, outcome: Outcome, now: Timestamp) -> bool {
        let AttemptOf { call, probing, began } = ended;
        let outcome = self.told_once(call, outcome);
        let is_of_turn = probing && began >= self.state.since;
        match (self.state.standing(), outcome) {
            (Standing::Flowing, Outcome::Neither) => return false,
            (Standing::Flowing, outcome) => self.window.add(outcome, now),
            _ if !is_of_turn => return false,
            (_, Outcome::Neither) => {}
            (_, Outcome::Succeeded) => self.of_turn.succeeded += 1,
            (_, Outcome::Failed { .. }) => {
                self.window.add(outcome, now);
                self.of_turn.failed += 1;
            }
        }
        if outcome != Outcome::Neither && self.unjudged.remove(&call) {
            self.grants.says_something();
        }
        true
    }

    /// What three calls are told to shut a gate counts once for each call; not where the key is
    /// that of many dependencies (`host:*`).
    fn told_once(&mut self, call: CallKey, outcome: Outcome) -> Outcome {
        let Outcome::Failed { told: Some(_) } = outcome else { return outcome };
        if self.key.ends_with('*') || self.told_by.contains(&call) {
            return Outcome::Failed { told: None };
        }
        self.told_by.push_back(call);
        if self.told_by.len() > TOLD_BY {
            self.told_by.pop_front();
        }
        outcome
    }

    /// What is known of it, with so many of its calls overdue.
    pub(super) fn seen(&mut self, overdue: Option<u64>, now: Timestamp) -> Seen {
        let own = self.seen_here(overdue, now);
        match self.shared.as_ref().and_then(SharedGate::fleet) {
            Some(fleet) => fleet.seen(own, &self.window, (&self.settings, &self.state), now),
            None => own,
        }
    }

    fn seen_here(&mut self, overdue: Option<u64>, now: Timestamp) -> Seen {
        let told = self.window.told()[2];
        if self.state.standing() != Standing::Flowing {
            return Seen { ended: self.of_turn, overdue, told, ..Seen::default() };
        }
        let least = self.settings.breaker.as_ref().map_or(1, |breaker| breaker.min_calls);
        let worst = self.window.worst(now, u64::from(least));
        let ended = self.window.tally(now);
        Seen { ended, worst, since: self.window.since(), overdue, told }
    }

    /// True when everything of it that is due is in line.
    pub(super) fn knows_all_due(&self, now: Timestamp) -> bool {
        let Backlog { more, next_due, is_known, .. } = self.backlog;
        is_known && !more && next_due.is_none_or(|at| at > now)
    }

    /// It stands as this says from now on.
    pub(super) fn becomes(&mut self, state: GateState, now: Timestamp) {
        if state.turn != self.state.turn {
            self.after_outage = None;
            self.of_turn = Tally::default();
            // What a node saw that shuts a gate for itself, the others are to know.
            if state.standing() != Standing::Shut || !self.is_shut_alone() {
                self.window.clear();
                self.told_by.clear();
            }
            if !self.probes.is_empty() {
                self.probed = std::mem::take(&mut self.probes);
            }
            self.unjudged.clear();
            self.backlog.is_known = false;
        }
        self.state = state;
        self.allows(now);
        if self.state.standing() == Standing::Flowing {
            self.probed.clear();
            // What is left to the store is found there, as anything that is due.
            self.backlog = Backlog::default();
        }
    }

    /// Other settings hold from now on.
    pub(super) fn follows(&mut self, settings: Gate, now: Timestamp) {
        if settings != self.settings {
            self.window = window_of(&settings);
            self.settings = settings;
            self.bounds_are_told = false;
            self.allows(now);
        }
    }

    /// True when due tasks of it are to be read, with so many in line.
    pub(super) fn wants_due(&self, in_line: usize, now: Timestamp) -> bool {
        self.state.standing() != Standing::Shut
            && self.is_held()
            && self.backlog.is_wanted(in_line, now)
    }

    /// A call of it has been due since then although nobody had trouble with the gate: nobody
    /// worked for a while. True when nobody knew.
    pub(super) fn is_overdue(&mut self, since: Timestamp, now: Timestamp) -> bool {
        let is_one = now.since(since) >= LONG
            && self.after_outage.is_none()
            && self.state.after_own_outage(&self.settings, now).is_some();
        if is_one {
            self.after_outage = Some(now);
        }
        is_one
    }

    /// True while it is to be decided how its overdue calls come back.
    pub(super) fn is_after_outage(&self, now: Timestamp) -> bool {
        self.after_outage.is_some_and(|at| now < at.saturating_add(DECIDED_IN))
    }

    /// What it allows this node now.
    fn allows(&mut self, now: Timestamp) {
        let whole = Share::whole(&self.settings, &self.state);
        let share = self.shared.as_ref().map_or(whole, |shared| shared.share(whole, now));
        self.grants.set(share, self.state.turn, now);
    }

    /// True when what was shared out holds no more, and nobody has renewed it.
    fn has_lapsed(&self, now: Timestamp) -> bool {
        self.grants.lapses() && self.shared.as_ref().is_some_and(|it| it.has_lapsed(now))
    }

    /// This node has another place among those that share gates.
    pub(super) fn change_place(&mut self, place: &Place, now: Timestamp) {
        match &mut self.shared {
            Some(shared) => shared.is_placed(place, Some(&self.state)),
            None => self.shared = Some(SharedGate::new(place)),
        }
        self.allows(now);
    }

    /// What other nodes have of it, where many work.
    pub(super) fn shared(&self) -> Option<&SharedGate> {
        self.shared.as_ref()
    }

    /// Something changes about what other nodes have of it.
    pub(super) fn change_shared<T>(
        &mut self,
        now: Timestamp,
        change: impl FnOnce(&mut SharedGate, &GateState) -> T,
    ) -> Option<T> {
        let changed = change(self.shared.as_mut()?, &self.state);
        self.allows(now);
        Some(changed)
    }

    /// Shares it out among all nodes, of which this one tells so much.
    pub(super) fn share_out(
        &mut self,
        own: Report,
        alive: &BTreeSet<String>,
        now: Timestamp,
    ) -> Option<Sharing> {
        let whole = Share::whole(&self.settings, &self.state);
        self.change_shared(now, |shared, _| shared.share_out(&whole, own, alive, now))
    }

    /// True when there is something about it that the node that decides should know.
    pub(super) fn has_to_tell(&self, in_line: usize) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|shared| !shared.decides()) else {
            return false;
        };
        let is_shut = self.state.standing() == Standing::Shut;
        if self.after_outage.is_some() {
            return true;
        }
        let is_busy = match is_shut {
            true => shared.is_alone(),
            false => self.is_busy(in_line) || self.window.has_failures(),
        };
        is_busy || (!is_shut && shared.is_to_go_on())
    }

    /// True when calls have, or want, a share of it.
    fn is_busy(&self, in_line: usize) -> bool {
        self.is_active() && (in_line > 0 || self.grants.running() + self.reserved > 0)
            || (self.is_held()
                && (self.backlog.more || self.shared.as_ref().is_some_and(SharedGate::is_wanted)))
    }

    /// What this node tells of it, with so many in line and so many overdue.
    pub(super) fn report(
        &mut self,
        in_line: usize,
        overdue: Option<u64>,
        now: Timestamp,
    ) -> Report {
        let flows = self.state.standing() == Standing::Flowing;
        // Also forgets what is too long ago.
        self.window.tally(now);
        let matters = self.is_active();
        let behind = if self.backlog.more { PAGE } else { 0 };
        let elsewhere = usize::from(self.shared.as_ref().is_some_and(SharedGate::is_wanted));
        let waiting = in_line.saturating_add(behind).saturating_add(elsewhere);
        let count = |number: u32| if matters { number.saturating_add(self.reserved) } else { 0 };
        Report {
            turn: self.state.turn,
            lately: if flows || self.is_shut_alone() { self.window.seconds() } else { Vec::new() },
            ended: self.of_turn,
            overdue,
            waiting: if matters { u32::try_from(waiting).unwrap_or(u32::MAX) } else { 0 },
            running: count(self.grants.running()),
            begun: count(self.grants.begun()),
            told: self.window.told(),
            follows: self.shared.as_ref().map_or(0, SharedGate::number),
            is_alone: self.is_shut_alone(),
            after_outage: self.after_outage.is_some(),
        }
    }

    fn is_shut_alone(&self) -> bool {
        self.shared.as_ref().is_some_and(SharedGate::is_alone)
    }

    /// When the node that decides looks at it although nothing ends.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.state.next_change().map(|at| match self.state.standing() {
            // A rate that nothing says anything about is looked at again.
            Standing::Ramping if at <= now => now.saturating_add(LOOK_AGAIN),
            _ => at,
        })
    }

    /// When something is to be done about its calls, with so many in line.
    pub(super) fn next(&self, in_line: usize, now: Timestamp) -> Option<Timestamp> {
        let standing = self.state.standing();
        let grants = self.grants.next(now).filter(|_| in_line > 0 && !self.has_lapsed(now));
        let grants = grants.map(|at| at.max(now.saturating_add(GRAIN)));
        let due = match standing {
            Standing::Shut => None,
            _ if self.is_held() => self.backlog.next(in_line, now),
            _ => None,
        };
        let decided = self.after_outage.map(|at| at.saturating_add(DECIDED_IN));
        let decided = decided.filter(|at| *at > now);
        [grants, due, decided].into_iter().flatten().min()
    }
}

fn window_of(settings: &Gate) -> Window {
    let breaker = settings.breaker.clone().unwrap_or_default();
    Window::new(breaker.window)
}

#[cfg(test)]
mod tests {
    use resurgam_core::gate::{Breaker, Phase};
    use resurgam_core::{RunKey, Seq, Uid};
    use resurgam_watchdog::test;

    use super::*;

    const NOW: Timestamp = Timestamp::EPOCH;

    fn probing(probes: u32) -> KnownGate {
        let settings = Gate::new().breaker(Breaker::new().probes(probes));
        let mut gate = KnownGate::new("bank".to_string(), settings, None, NOW);
        let state = GateState { turn: 2, phase: Phase::Probing, ..GateState::flowing(NOW) };
        gate.becomes(state, NOW);
        gate
    }

    /// An attempt of a call begins, ends, and says this about the dependency.
    fn tries(gate: &mut KnownGate, call: CallKey, outcome: Outcome) {
        gate.reserves();
        gate.begins(call, false, NOW);
        gate.ends(call);
        gate.counts(AttemptOf { call, probing: true, began: NOW }, outcome, NOW);
    }

    #[test]
    fn a_call_that_probes_again_and_again_and_says_nothing_leaves_room_for_others() {
        let mut gate = probing(2);
        let call = RunKey::first(Uid(1)).call(Seq(2));
        for _ in 0..5 {
            tries(&mut gate, call, Outcome::Neither);
            assert_eq!(gate.room(false, NOW), Some(2));
        }
        tries(&mut gate, call, Outcome::Succeeded);
        assert_eq!(gate.room(false, NOW), Some(1));
    }
}
