//! What gates protect: dependencies that some calls go to, and that are out now and then. Operators
//! shut and open their gates, and pause kinds of calls; in the end they let everything go on.

use std::time::Duration;

use resurgam_core::gate::{Breaker, Budget, Gate, KeyPattern, Rate};
use resurgam_core::{CallKey, Failure, Shard};
use resurgam_store::rows::TaskRow;
use resurgam_store::{ByHand, GateWrite, HandState, Hold, HoldKind};

use crate::bulk::Order;
use crate::program::{OTHER_QUEUE, WORK};
use crate::promises::LateClaim;
use crate::random::Random;
use crate::world::{Event, World};

/// How soon a node has heard what others decided, once nothing keeps it from that.
const HEARD_AGAIN: Duration = Duration::from_secs(3);

/// What the calls of a dependency meet.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// What bounds them.
    pub(crate) gate: Gate,
    /// It is out until then.
    out_until: Duration,
}

/// The key of the gate before the dependency of this number.
pub(crate) fn key_of(number: usize) -> String {
    format!("dependency-{number}")
}

/// The settings of all gates, as code names them.
pub(crate) fn settings(gates: &[Gate]) -> Vec<(KeyPattern, Gate)> {
    let pattern = |number| KeyPattern::parse(&key_of(number)).ok();
    let gates = gates.iter().enumerate();
    gates.filter_map(|(number, gate)| Some((pattern(number)?, gate.clone()))).collect()
}

/// The gates of a seed; most have none, and are what they were before there were gates.
pub(crate) fn of_seed(seed: u64) -> Vec<Gate> {
    let mut random = Random::new(seed ^ 0x6A7E);
    match random.one_in(5) {
        true => (0..random.between(1, 3)).map(|_| some_gate(&mut random)).collect(),
        false => Vec::new(),
    }
}

fn some_gate(random: &mut Random) -> Gate {
    let seconds =
        |random: &mut Random, first, last| Duration::from_secs(random.between(first, last));
    let breaker = Breaker::new()
        .window(seconds(random, 5, 30))
        .min_calls(random.between(2, 5) as u32)
        .probes(random.between(1, 3) as u32)
        .shut(seconds(random, 1, 5), seconds(random, 5, 30));
    Gate {
        breaker: (!random.one_in(5)).then_some(breaker),
        rate: random.one_in(4).then(|| Rate::per_second(random.between(1, 10) as f64)),
        concurrency: random.one_in(2).then(|| random.between(1, 3) as u32),
        budget: random.one_in(4).then(Budget::new),
    }
}

impl Dependency {
    /// One that is not out, behind this gate.
    pub(crate) fn new(gate: &Gate) -> Self {
        Dependency { gate: gate.clone(), out_until: Duration::ZERO }
    }
}

impl World {
    /// When dependencies are out, and when operators look at their gates.
    pub(crate) fn plan_dependencies(&mut self) {
        for number in 0..self.dependencies.len() {
            self.plan_outage(number);
        }
        if !self.dependencies.is_empty() && self.plan.operators.is_some() {
            self.timeline.after(Duration::from_secs(2), Event::GateOperator);
        }
    }

    fn plan_outage(&mut self, number: usize) {
        let well = self.random.delay(Duration::from_secs(1), self.plan.trouble);
        self.timeline.after(well, Event::Outage(number));
    }

    /// A dependency is out for a while.
    pub(crate) fn outage(&mut self, number: usize) {
        if self.is_calm() {
            return;
        }
        let out = self.random.delay(Duration::from_secs(2), Duration::from_secs(120));
        self.dependencies[number].out_until = self.timeline.now() + out;
        self.counts.note("outage of a dependency");
        self.trace.line(self.timeline.now(), || format!("! {} is out for {out:?}", key_of(number)));
        self.plan_outage(number);
    }

    /// What an attempt gets from its dependency, when that is out.
    pub(crate) fn refused_by(&self, dependency: Option<usize>) -> Option<Failure> {
        let dependency = &self.dependencies.get(dependency?)?;
        let is_out = dependency.out_until > self.timeline.now() && !self.is_calm();
        is_out.then(|| Failure::of_type("Out", "the dependency is out"))
    }

    /// Whether a call waits behind a gate, which may have to be probed first.
    pub(crate) fn is_behind_gate(&self, task: &TaskRow) -> bool {
        (0..self.dependencies.len()).any(|number| key_of(number) == task.gate)
    }

    /// No more attempts run behind a gate than it lets, in all processes together that may work:
    /// what one does that is taken for dead comes on top. Those count that have a slot.
    pub(crate) fn check_concurrency(&mut self, call: CallKey, dependency: usize) {
        let most = self.dependencies.get(dependency).and_then(|known| known.gate.concurrency);
        let Some(most) = most else { return };
        let hosts = self.hosts.iter().filter_map(|place| place.host.as_ref());
        let working = hosts.filter(|host| !host.is_unaware && self.at(host).may_begin);
        let running = working.map(|host| {
            let has_slot = |token: &u64| !host.asks.values().any(|asking| asking == token);
            let attempts = host.attempts.iter().filter(|(token, attempt)| {
                attempt.dependency == Some(dependency) && attempt.works() && has_slot(token)
            });
            attempts.count()
        });
        let running: Vec<usize> = running.filter(|count| *count > 0).collect();
        let (all, processes) = (running.iter().sum::<usize>(), running.len());
        if all == most as usize && processes > 1 {
            self.counts.note("gate is full of attempts of several processes");
        }
        if all > most as usize {
            let key = key_of(dependency);
            let what = format!("{all} attempts run behind {key} in {processes} processes");
            self.database.promises.breaks(call.run.uid, format!("{what}, and it lets {most}"));
        }
    }

    /// Claims behind a gate that is shut are excused where something kept their node from reading
    /// that.
    pub(crate) fn check_late_claims(&mut self) {
        for LateClaim { uid, node, at, probes, what } in self.database.promises.take_late_claims() {
            let mut holdings = self.database.model.holdings();
            let decides = |(shard, holder, _): (Shard, Option<&str>, i64)| {
                shard == GateWrite::DECIDER && holder == Some(node.as_str())
            };
            if probes && holdings.any(decides) {
                continue;
            }
            let mut hosts = self.hosts.iter().filter_map(|place| place.host.as_ref());
            let host = hosts.find(|host| host.node.name() == node);
            let ago = self.database_time().since(at);
            let claimed = self.timeline.now().saturating_sub(ago);
            // Who is not there any more began nothing.
            let Some(host) = host else { continue };
            let hears_late = host.hears_since.is_some_and(|since| claimed < since + HEARD_AGAIN);
            // What it has a share of lapses, whether it hears of anything or not.
            let is_excused = hears_late && !probes;
            if !is_excused && !host.is_unaware {
                self.database.promises.breaks(uid, what);
            }
        }
    }

    /// Something keeps a process from hearing what others have decided, until then.
    pub(crate) fn hears_late(&mut self, number: usize, until: Duration) {
        if let Some(host) = self.hosts[number].host.as_mut() {
            host.hears_since = host.hears_since.max(Some(until));
        }
    }

    /// An operator shuts or opens a gate, or pauses a kind of calls.
    pub(crate) fn operator_acts_on_gate(&mut self) {
        let Some(longest) = self.plan.operators.filter(|_| !self.is_calm()) else { return };
        let key = key_of(self.random.below(self.dependencies.len() as u64) as usize);
        let (kind, name) = match self.random.below(4) {
            0 => (HoldKind::Queue, OTHER_QUEUE),
            _ => (HoldKind::Activity, WORK),
        };
        let write = match self.random.below(8) {
            0..=1 => self.by_hand(key, HandState::Shut),
            2 => self.by_hand(key, HandState::Open),
            3..=4 => self.by_hand(key, HandState::Auto),
            5 => {
                let (by, since) = ("ana".to_string(), self.database_time());
                GateWrite::Hold(Hold { kind, name: name.to_string(), by, reason: None, since })
            }
            _ => GateWrite::Release { kind, name: name.to_string() },
        };
        self.counts.note(match &write {
            GateWrite::Hand { .. } => "gate set by hand",
            GateWrite::Hold(_) => "kind of calls paused",
            _ => "kind of calls resumed",
        });
        self.orders(Order::Gate(write));
        let lull = self.random.delay(Duration::from_millis(100), 5 * longest);
        self.timeline.after(lull, Event::GateOperator);
    }

    fn by_hand(&mut self, key: String, state: HandState) -> GateWrite {
        let (at, by) = (self.database_time(), "ana".to_string());
        let time = self.random.delay(Duration::from_secs(1), Duration::from_secs(60));
        let ends = state != HandState::Auto && self.random.one_in(3);
        let until = ends.then(|| at.saturating_add(time));
        GateWrite::Hand { key, hand: ByHand { state, by, reason: None, at, until } }
    }

    /// Everything is to come to its end: gates decide for themselves, and nothing is paused.
    pub(crate) fn gates_go_on(&mut self) {
        let stored = self.database.model.gates();
        let is_set = |hand: &ByHand| hand.state != HandState::Auto;
        for row in stored.gates.iter().filter(|row| row.hand.as_ref().is_some_and(is_set)) {
            let write = self.by_hand(row.key.clone(), HandState::Auto);
            self.orders(Order::Gate(write));
        }
        for Hold { kind, name, .. } in stored.holds {
            self.orders(Order::Gate(GateWrite::Release { kind, name }));
        }
    }
}
