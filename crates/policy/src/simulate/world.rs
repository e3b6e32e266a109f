//! A dependency that is out for a while, the calls that talk to it, and what becomes of them.
//!
//! Pure: the same world gives the same story. What a call does after a failure is what the engine
//! decides ([`decide`]), and what may begin behind the gate is what the engine's own gate says
//! ([`GateState`], [`Grants`]). Only the dependency is a model: it serves one request after
//! another, refuses one that would wait longer than its patience, which takes a part of the time
//! that serving takes, and refuses everything while it is out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use resurgam_core::gate::{
    Gate, GateState, Grants, Outcome, Seen, Share, Standing, Tally, Window, most_probed,
};
use resurgam_core::retry::{CheckedPolicy, Decision, State, decide, decide_uncounted};
use resurgam_core::{Failure, Kind, Timestamp};

use super::dependency::Dependency;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct World {
    /// The policy of the calls.
    pub policy: CheckedPolicy,
    /// What stands before the dependency.
    pub gate: Option<Gate>,
    /// How many calls are made each second.
    pub rate: f64,
    /// How many are made at all; without end, with `None`.
    pub calls: Option<u64>,
    /// How many requests the dependency serves in a second.
    pub capacity: f64,
    /// What refusing a request costs it, where serving it costs 1.
    pub refusal: f64,
    /// When the outage begins.
    pub before: Duration,
    /// How long it lasts.
    pub outage: Duration,
    /// How many attempts run at once.
    pub slots: usize,
    /// How far a second of the clock has passed when it begins: a gate counts what ends by the
    /// seconds of the clock, so that decides how soon it notices an outage.
    pub phase: Duration,
}

/// What there was in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests that the dependency got.
    pub offered: u64,
    /// Those of them that it served.
    pub served: u64,
    /// Calls that had been made and were neither served nor given up.
    pub waiting: u64,
}

/// What happened, second by second.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Each second.
    pub seconds: Vec<Second>,
    /// When the first request after the outage was served.
    pub found: Option<Duration>,
    /// When nobody waited any more; `None` when that did not come.
    pub drained: Option<Duration>,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Calls that were given up.
    pub lost: u64,
    /// Failures that used up no attempt.
    pub free: u64,
}

/// A call that is not over.
#[derive(Clone, Copy, Debug)]
struct Call {
    state: State,
    probed: u32,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// An attempt of a call has ended. It began in a turn of the gate.
    Ended { call: usize, turn: u64, is_free: bool, how: Ended },
    /// A call is due again.
    Due { call: usize },
    /// The gate may let somebody through, or change.
    Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Served,
    Refused,
    TimedOut,
}

/// The gate and what it has seen.
struct Standby {
    settings: Gate,
    state: GateState,
    grants: Grants,
    window: Window,
    /// What ended of the attempts that began in this turn.
    turn: Tally,
}

/// A world under way.
struct Run<'w> {
    world: &'w World,
    now: Timestamp,
    calls: Vec<Call>,
    free_places: Vec<usize>,
    made: u64,
    running: usize,
    happenings: BinaryHeap<Reverse<(Timestamp, u64, Happening)>>,
    count: u64,
    /// Calls that are due: when, and whether they are retries.
    first: BinaryHeap<Reverse<(Timestamp, usize)>>,
    retries: BinaryHeap<Reverse<(Timestamp, usize)>>,
    next_look: Option<Timestamp>,
    dependency: Dependency,
    gate: Option<Standby>,
    random: u64,
    story: Story,
    second: Second,
}

impl World {
    /// What happens, until nobody waits or it is clear that that does not come.
    pub fn story(&self) -> Story {
        let mut run = Run::of(self);
        let back = self.before + self.outage;
        let limit = self.patience();
        for second in 0.. {
            let end = self.begins().saturating_add(Duration::from_secs(second + 1));
            run.until(end);
            let now = Duration::from_secs(second + 1);
            run.ends_second();
            // Those that come in a second are always under way.
            let few = self.rate.ceil() as u64;
            let waiting = run.waiting();
            let all_made = self.calls.is_some_and(|calls| run.made >= calls);
            let is_drained = now > back && (waiting == 0 || (waiting <= few && !all_made));
            if is_drained && (run.story.found.is_some() || waiting == 0) {
                run.story.drained = Some(now);
            }
            if run.story.drained.is_some() || now > limit {
                return run.story;
            }
        }
        run.story
    }

    /// How long the dependency would take at least for what came during the outage, beside what
    /// goes on coming.
    pub fn shortest_drain(&self) -> f64 {
        let during = self.rate * self.outage.as_secs_f64();
        let behind = self.calls.map_or(during, |calls| during.min(calls as f64));
        let room = (self.capacity - self.rate).max(self.capacity * 0.05);
        behind / room
    }

    /// How long a world is watched at most, until it is clear that it does not recover.
    pub fn patience(&self) -> Duration {
        let after = 60.0 + 4.0 * self.shortest_drain();
        self.before + self.outage + Duration::from_secs(after.min(86_400.0) as u64)
    }

    fn begins(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(self.phase)
    }

    fn is_out(&self, now: Timestamp) -> bool {
        let since = now.since(self.begins());
        since >= self.before && since < self.before + self.outage
    }
}

impl<'w> Run<'w> {
    fn of(world: &'w World) -> Self {
        let now = world.begins();
        let gate = world.gate.clone().map(|settings| {
            let state = GateState::flowing(now);
            let grants = Grants::new(Share::whole(&settings, &state), state.turn, now);
            let window = settings.breaker.as_ref().map_or(Duration::from_secs(10), |it| it.window);
            let (window, turn) = (Window::new(window), Tally::default());
            Standby { settings, state, grants, window, turn }
        });
        Run {
            world,
            now,
            calls: Vec::new(),
            free_places: Vec::new(),
            made: 0,
            running: 0,
            happenings: BinaryHeap::new(),
            count: 0,
            first: BinaryHeap::new(),
            retries: BinaryHeap::new(),
            next_look: None,
            dependency: Dependency::new(world.capacity, world.refusal),
            gate,
            random: 0x5EED,
            story: Story::default(),
            second: Second::default(),
        }
    }

    fn until(&mut self, end: Timestamp) {
        loop {
            let made = self.next_made().filter(|at| *at < end);
            let next = self.happenings.peek().map(|Reverse((at, ..))| *at).filter(|at| *at < end);
            match (made, next) {
                (None, None) => return self.now = end,
                (Some(made), next) if next.is_none_or(|next| made <= next) => {
                    self.now = made;
                    self.is_made();
                }
                _ => {
                    let Some(Reverse((at, _, happening))) = self.happenings.pop() else { return };
                    self.now = self.now.max(at);
                    self.happens(happening);
                }
            }
            self.begin_what_may();
        }
    }

    /// When the next call is made: they come evenly.
    fn next_made(&self) -> Option<Timestamp> {
        if self.world.calls.is_some_and(|calls| self.made >= calls) {
            return None;
        }
        let millis = (self.made as f64 / self.world.rate * 1_000.0) as i64;
        Some(Timestamp::from_millis(self.world.begins().as_millis() + millis))
    }

    fn is_made(&mut self) {
        self.made += 1;
        let state = State { first_started: None, ..State::after(0, self.now) };
        let call = Call { state, probed: 0 };
        let place = match self.free_places.pop() {
            Some(place) => {
                self.calls[place] = call;
                place
            }
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        };
        self.first.push(Reverse((self.now, place)));
    }

    fn waiting(&self) -> u64 {
        self.made - self.story.succeeded - self.story.lost
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Due { call } => self.retries.push(Reverse((self.now, call))),
            // One that was overtaken by an earlier one.
            Happening::Look if self.next_look != Some(self.now) => return,
            Happening::Look => self.next_look = None,
            Happening::Ended { call, turn, is_free, how } => {
                self.running -= 1;
                self.ends(call, turn, is_free, how);
            }
        }
        self.gate_moves();
    }

    fn ends(&mut self, place: usize, turn: u64, is_free: bool, how: Ended) {
        let failure = match how {
            Ended::Served => None,
            Ended::Refused => Some(Failure::of_type("Refused", "the dependency refused")),
            Ended::TimedOut => Some(Failure::of_kind(Kind::Timeout, "no answer in time")),
        };
        let policy = &self.world.policy;
        let outcome = failure
            .as_ref()
            .map_or(Outcome::Succeeded, |failure| Outcome::of_failure(policy, failure));
        if let Some(gate) = &mut self.gate {
            gate.hears(outcome, turn, self.now);
        }
        let Some(failure) = failure else {
            self.story.succeeded += 1;
            return self.free_places.push(place);
        };
        let u = self.random();
        let call = &mut self.calls[place];
        let counts = matches!(outcome, Outcome::Failed { .. });
        let is_free = is_free && counts && call.probed < most_probed(policy.max_attempts);
        let decision = if is_free {
            call.probed += 1;
            self.story.free += 1;
            decide_uncounted(policy, &call.state, &failure, self.now, u)
        } else {
            call.state.failures += 1;
            decide(policy, &call.state, &failure, self.now, u)
        };
        match decision {
            Decision::Retry { delay, .. } => {
                call.state.previous_delay = Some(delay);
                let due = self.now.saturating_add(delay);
                self.add(due, Happening::Due { call: place });
            }
            Decision::Stop { .. } => {
                self.story.lost += 1;
                self.free_places.push(place);
            }
        }
    }

    /// The gate changes as far as what it has seen says so.
    fn gate_moves(&mut self) {
        let u = self.random();
        let overdue = self.overdue();
        let Some(gate) = &mut self.gate else { return };
        gate.moves(overdue, self.now, u);
        let next = gate.state.next_change().filter(|at| *at > self.now);
        self.look_at(next);
    }

    /// How many calls should have begun a moment ago.
    fn overdue(&self) -> u64 {
        let before = Timestamp::from_millis(self.now.as_millis() - 100);
        let first = |heap: &BinaryHeap<Reverse<(Timestamp, usize)>>| match heap.peek() {
            Some(Reverse((at, _))) if *at <= before => heap.len() as u64,
            _ => 0,
        };
        first(&self.first) + first(&self.retries)
    }

    fn look_at(&mut self, at: Option<Timestamp>) {
        if let Some(at) = at
            && self.next_look.is_none_or(|next| at < next)
        {
            self.next_look = Some(at);
            self.add(at, Happening::Look);
        }
    }

    fn begin_what_may(&mut self) {
        while self.running < self.world.slots {
            let (attempts, retries) = match &mut self.gate {
                None => (true, true),
                Some(gate) => {
                    let left = gate.grants.left(self.now);
                    (left.attempts != Some(0), left.retries != Some(0))
                }
            };
            if !attempts {
                break;
            }
            let Some((place, is_retry)) = self.next_due(retries) else { break };
            self.begins(place, is_retry);
        }
        let next = match &mut self.gate {
            Some(gate) if !(self.first.is_empty() && self.retries.is_empty()) => {
                gate.grants.next(self.now)
            }
            _ => None,
        };
        self.look_at(next);
    }

    /// The call that is due first, of those that may begin.
    fn next_due(&mut self, retries: bool) -> Option<(usize, bool)> {
        let first = self.first.peek().map(|Reverse((at, _))| *at);
        let retry = self.retries.peek().map(|Reverse((at, _))| *at).filter(|_| retries);
        let is_retry = retry.is_some_and(|retry| first.is_none_or(|first| retry < first));
        let heap = if is_retry { &mut self.retries } else { &mut self.first };
        heap.pop().map(|Reverse((_, place))| (place, is_retry))
    }

    fn begins(&mut self, place: usize, is_retry: bool) {
        let (mut turn, mut is_free) = (0, false);
        if let Some(gate) = &mut self.gate {
            gate.grants.begins(is_retry, self.now);
            turn = gate.state.turn;
            is_free = gate.state.standing() != Standing::Flowing;
        }
        self.running += 1;
        self.second.offered += 1;
        self.calls[place].state.first_started.get_or_insert(self.now);
        let is_out = self.world.is_out(self.now);
        let served = self.dependency.take(self.now, is_out);
        let timeout = self.world.policy.timeouts.attempt;
        let (after, how) = match served {
            None => (Duration::from_millis(1), Ended::Refused),
            Some(wait) if timeout.is_some_and(|timeout| wait > timeout) => {
                (timeout.unwrap_or_default(), Ended::TimedOut)
            }
            Some(wait) => (wait, Ended::Served),
        };
        if how == Ended::Served {
            self.second.served += 1;
            let since = self.now.since(self.world.begins());
            if since >= self.world.before + self.world.outage {
                self.story.found.get_or_insert(since);
            }
        }
        let at = self.now.saturating_add(after);
        self.add(at, Happening::Ended { call: place, turn, is_free, how });
    }

    fn ends_second(&mut self) {
        let waiting = self.waiting();
        self.story.seconds.push(Second { waiting, ..self.second });
        self.second = Second::default();
    }

    fn add(&mut self, at: Timestamp, happening: Happening) {
        self.count += 1;
        self.happenings.push(Reverse((at, self.count, happening)));
    }

    /// A number from 0 to 1 (SplitMix64).
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Standby {
    fn hears(&mut self, outcome: Outcome, turn: u64, now: Timestamp) {
        let says_something = outcome != Outcome::Neither;
        self.grants.ends();
        if turn == self.state.turn && !says_something {
            self.grants.says_nothing();
        }
        if turn != self.state.turn {
            return;
        }
        if self.state.standing() == Standing::Flowing {
            self.window.add(outcome, now);
        }
        match outcome {
            Outcome::Succeeded => self.turn.succeeded += 1,
            Outcome::Failed { .. } => self.turn.failed += 1,
            Outcome::Neither => {}
        }
    }

    fn moves(&mut self, overdue: u64, now: Timestamp, u: f64) {
        let is_flowing = self.state.standing() == Standing::Flowing;
        let ended = if is_flowing { self.window.tally(now) } else { self.turn };
        let least = self.settings.breaker.as_ref().map_or(0, |breaker| breaker.min_calls);
        let worst =
            if is_flowing { self.window.worst(now, u64::from(least)) } else { Tally::default() };
        let told = self.window.told()[2];
        let since = self.window.since();
        let seen = Seen { ended, worst, since, overdue: Some(overdue), told };
        let Some(next) = self.state.next(&self.settings, &seen, now, u) else { return };
        if next.turn != self.state.turn {
            self.turn = Tally::default();
            self.window.clear();
        }
        self.state = next;
        let share = Share::whole(&self.settings, &self.state);
        self.grants.set(share, self.state.turn, now);
    }
}
