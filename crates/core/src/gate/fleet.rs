//! One gate before many nodes: what nodes tell of it, and how much of what it allows each gets.
//!
//! One node decides. The others count what ends behind the gate, and tell it once a second while
//! there is anything to tell ([`Report`]). It adds that up ([`Fleet::seen`]), and shares out what
//! the gate allows ([`Fleet::shares`]) among those that have calls.
//!
//! - A share of a rate, of a ramp and of probes holds for a moment and lapses ([`Shares::LAPSE`]):
//!   without somebody who decides, nothing begins.
//! - A share of what may run at once stays with its node until it has told that it follows a
//!   smaller one, or has told nothing for so long that it is dead ([`Fleet::DEAD`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::grants::Share;
use super::machine::{GateState, Seen, Standing};
use super::outcome::Tally;
use super::settings::Rate;
use crate::Timestamp;

/// What a node tells of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The turn of the gate that it knows.
    pub turn: u64,
    /// While the gate flows: what ended within the window. Otherwise: what ended in this turn.
    pub ended: Tally,
    /// How many calls should have begun a while ago; `None` while it does not know.
    pub overdue: Option<u64>,
    /// How many calls are in line for a share.
    pub waiting: u32,
    /// How many attempts run there.
    pub running: u32,
    /// Until when the dependency wants to be left alone, as calls were told, the latest first.
    pub told: [Option<Timestamp>; 3],
    /// The number of the shares that it follows.
    pub follows: u64,
}

impl Report {
    /// True when it says nothing that matters to anybody.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.running == 0 && self.ended.failed == 0
    }
}

/// How much of what a gate allows each node gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// How often it was shared out.
    pub number: u64,
    /// When.
    pub at: Option<Timestamp>,
    /// Who gets what.
    pub of: BTreeMap<String, NodeShare>,
}

/// What one node gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeShare {
    /// The part of the rate, of the ramp and of the budget.
    pub part: f64,
    /// How many probes in this turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub probes: u32,
    /// How many attempts at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub concurrency: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a gate stands, and how much of what it allows each node gets: what is stored.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::gate::{Decided, GateState, Shares};
///
/// let state = GateState::flowing(Timestamp::EPOCH);
/// let text = Decided { state: state.clone(), shares: Shares::default() }.to_stored();
/// // Who wants to know how it stands need not know of shares.
/// assert_eq!(serde_json::from_str::<GateState>(&text)?, state);
/// assert_eq!(Decided::from_stored(&text)?.shares, Shares::default());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// How it stands.
    #[serde(flatten)]
    pub state: GateState,
    /// Who gets what.
    #[serde(default)]
    pub shares: Shares,
}

impl Decided {
    /// The stored form.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("a state holds nothing that JSON cannot")
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl Shares {
    /// How long a share of a rate holds.
    pub const LAPSE: Duration = Duration::from_millis(2_500);

    /// What a node may begin, of all that the gate allows.
    pub fn of_node(&self, node: &str, whole: Share) -> Share {
        let own = self.of.get(node).copied().unwrap_or_default();
        let part = |number: f64| number * own.part;
        let of_rate = |rate: Rate| Rate {
            per_second: part(rate.per_second),
            burst: (part(f64::from(rate.burst)) as u32).max(1),
        };
        Share {
            standing: whole.standing,
            rate: whole.rate.map(of_rate),
            ramp: whole.ramp.map(part),
            probes: whole.probes.map(|_| own.probes),
            concurrency: whole.concurrency.map(|_| own.concurrency),
            // A ratio is the same for all.
            budget: whole.budget.map(|mut budget| {
                budget.min_per_second = part(budget.min_per_second);
                budget
            }),
        }
    }

    /// Until when what it says of rates and probes holds.
    pub fn until(&self) -> Timestamp {
        self.at.map_or(Timestamp::from_millis(i64::MIN), |at| at.saturating_add(Shares::LAPSE))
    }
}

/// What the node that decides knows of the others, of one gate.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    reports: BTreeMap<String, (Timestamp, Report)>,
    /// How many attempts at once nodes may think that they have, and since which number.
    held: BTreeMap<String, Held>,
    number: u64,
    probes: (u64, BTreeMap<String, u32>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    most: u32,
    /// The number of the shares that said less, and how much.
    less: Option<(u64, u32)>,
}

impl Fleet {
    /// How long what a node has told counts.
    const FRESH: Duration = Duration::from_secs(3);

    /// A node that has told nothing for so long, and whose attempts ran, is dead.
    pub const DEAD: Duration = Duration::from_secs(60);

    /// Begins where the node before ended that decided.
    pub fn takes_over(&mut self, shares: &Shares) {
        self.number = self.number.max(shares.number);
        for (node, share) in &shares.of {
            let held = self.held.entry(node.clone()).or_default();
            held.most = held.most.max(share.concurrency);
        }
    }

    /// A node tells something.
    pub fn hears(&mut self, node: &str, at: Timestamp, report: Report) {
        let known = self.reports.get(node).is_some_and(|(known, _)| *known >= at);
        if !known {
            self.reports.insert(node.to_string(), (at, report));
        }
    }

    /// True while anybody has told something that matters, lately.
    pub fn is_busy(&self, now: Timestamp) -> bool {
        self.fresh(now).any(|report| !report.is_idle())
    }

    fn fresh(&self, now: Timestamp) -> impl Iterator<Item = &Report> {
        let is_fresh = move |at: &Timestamp| now.since(*at) <= Fleet::FRESH;
        self.reports.values().filter(move |(at, _)| is_fresh(at)).map(|(_, report)| report)
    }

    /// What is known of the gate, with what the node that decides has seen itself.
    pub fn seen(&self, own: Seen, turn: u64, standing: Standing, now: Timestamp) -> Seen {
        let mut seen = own;
        // What ended in a turn counts however long ago it was told; what ended in a window, not.
        let is_flowing = standing == Standing::Flowing;
        for (at, report) in self.reports.values() {
            let is_fresh = now.since(*at) <= Fleet::FRESH;
            if report.turn == turn && (is_fresh || !is_flowing) {
                seen.ended = seen.ended.and(report.ended);
            }
            if !is_fresh {
                continue;
            }
            seen.overdue = match (seen.overdue, report.overdue) {
                _ if report.turn != turn && report.waiting > 0 => None,
                (Some(own), Some(other)) => Some(own + other),
                _ if report.waiting == 0 && report.running == 0 => seen.overdue,
                _ => None,
            };
            seen.told = seen.told.max(report.told[2]);
        }
        seen
    }

    /// Shares out what the gate allows, among the nodes that have calls: `me` is the one that
    /// decides, and `own` what it has itself.
    pub fn shares(
        &mut self,
        whole: &Share,
        turn: u64,
        me: &str,
        own: Report,
        now: Timestamp,
    ) -> Shares {
        self.reports.insert(me.to_string(), (now, own));
        self.forget_dead(now);
        let wants: BTreeMap<String, Report> = self
            .reports
            .iter()
            .filter(|(_, (at, report))| now.since(*at) <= Fleet::FRESH && !report.is_idle())
            .map(|(node, (_, report))| (node.clone(), *report))
            .collect();
        self.number += 1;
        let mut of: BTreeMap<String, NodeShare> = BTreeMap::new();
        for (node, part) in parts(&wants) {
            of.entry(node).or_default().part = part;
        }
        if let Some(most) = whole.probes {
            for (node, probes) in self.share_probes(most, turn, &wants) {
                of.entry(node).or_default().probes = probes;
            }
        }
        if let Some(most) = whole.concurrency {
            for (node, permits) in self.share_permits(most, &wants) {
                of.entry(node).or_default().concurrency = permits;
            }
        }
        self.reports.remove(me);
        Shares { number: self.number, at: Some(now), of }
    }

    fn forget_dead(&mut self, now: Timestamp) {
        let is_dead = |at: &Timestamp| now.since(*at) > Fleet::DEAD;
        let dead: Vec<String> =
            self.reports.iter().filter(|(_, (at, _))| is_dead(at)).map(|it| it.0.clone()).collect();
        for node in dead {
            self.reports.remove(&node);
            self.held.remove(&node);
        }
    }

    /// Probes, one by one, for those that have calls. What a node has been given in a turn stays.
    fn share_probes(
        &mut self,
        most: u32,
        turn: u64,
        wants: &BTreeMap<String, Report>,
    ) -> BTreeMap<String, u32> {
        if self.probes.0 != turn {
            self.probes = (turn, BTreeMap::new());
        }
        let given = &mut self.probes.1;
        let mut left = most.saturating_sub(given.values().sum());
        let waiting: Vec<&String> =
            wants.iter().filter(|(_, it)| it.waiting > 0).map(|(node, _)| node).collect();
        while left > 0 && !waiting.is_empty() {
            for node in &waiting {
                if left > 0 {
                    *given.entry((*node).clone()).or_default() += 1;
                    left -= 1;
                }
            }
        }
        given.clone()
    }

    /// What may run at once. A node gives back what it has by telling that it follows a smaller
    /// share; what it runs it keeps.
    fn share_permits(
        &mut self,
        most: u32,
        wants: &BTreeMap<String, Report>,
    ) -> BTreeMap<String, u32> {
        for (node, (_, report)) in &self.reports {
            let held = self.held.entry(node.clone()).or_default();
            if let Some((_, less)) = held.less.filter(|(number, _)| report.follows >= *number) {
                *held = Held { most: less.max(report.running), less: None };
            }
            held.most = held.most.max(report.running);
        }
        let wanted =
            |node: &String| wants.get(node).map_or(0, |it| it.running.saturating_add(it.waiting));
        let nodes: Vec<String> = self.held.keys().cloned().collect();
        let even = most / u32::try_from(wants.len().max(1)).unwrap_or(u32::MAX);
        let mut shares = BTreeMap::new();
        // Those that have more than they want, or than an even share, are to have less.
        for node in &nodes {
            let held = self.held.entry(node.clone()).or_default();
            let fair = wanted(node).min(even.max(1));
            if held.most > fair && held.less.is_none() {
                held.less = Some((self.number, fair));
            }
            let own = held.less.map_or(held.most, |(_, less)| less);
            shares.insert(node.clone(), own);
        }
        let used: u32 = self.held.values().map(|held| held.most).fold(0, u32::saturating_add);
        let mut free = most.saturating_sub(used);
        // First an even share for each, then the rest for whoever wants it.
        for bound in [even.max(1), most] {
            for node in wants.keys() {
                let held = self.held.entry(node.clone()).or_default();
                if held.less.is_some() {
                    continue;
                }
                let more = wanted(node).min(bound).saturating_sub(held.most).min(free);
                held.most += more;
                free -= more;
                shares.insert(node.clone(), held.most);
            }
        }
        shares.retain(|_, permits| *permits > 0);
        shares
    }
}

/// The part of each: by how many of its calls wait, and a little for those whose calls run.
fn parts(wants: &BTreeMap<String, Report>) -> BTreeMap<String, f64> {
    let weight = |report: &Report| f64::from(report.waiting).max(0.1);
    let all: f64 = wants.values().map(weight).sum();
    wants.iter().map(|(node, report)| (node.clone(), weight(report) / all)).collect()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use crate::gate::{Breaker, Gate};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    fn report(waiting: u32, running: u32, follows: u64) -> Report {
        Report { waiting, running, follows, ..Report::default() }
    }

    fn whole(gate: &Gate) -> Share {
        Share::whole(gate, &GateState::flowing(at(0)))
    }

    #[test]
    fn a_rate_is_shared_out_among_those_whose_calls_wait() {
        let gate = Gate::new().rate(Rate::per_second(100.0));
        let mut fleet = Fleet::default();
        fleet.hears("b", at(0), report(30, 0, 0));
        fleet.hears("c", at(0), report(0, 0, 0));
        let shares = fleet.shares(&whole(&gate), 0, "a", report(10, 0, 0), at(1));
        let rate = |node: &str| shares.of_node(node, whole(&gate)).rate.unwrap().per_second;
        assert_eq!([rate("a"), rate("b"), rate("c")], [25.0, 75.0, 0.0]);
        assert_eq!(shares.until(), Timestamp::from_millis(3_500));
        // What was told long ago counts for nothing.
        let later = fleet.shares(&whole(&gate), 0, "a", report(10, 0, 0), at(10));
        assert_eq!(later.of.keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn as_many_probes_are_given_as_the_gate_wants_whoever_asks() {
        let gate = Gate::new().breaker(Breaker::new());
        let mut share = whole(&gate);
        (share.standing, share.probes) = (Standing::Probing, Some(3));
        let mut fleet = Fleet::default();
        fleet.hears("b", at(0), report(5, 0, 0));
        let given = |shares: Shares| -> Vec<(String, u32)> {
            shares.of.into_iter().map(|(node, share)| (node, share.probes)).collect()
        };
        let first = given(fleet.shares(&share, 1, "a", report(1, 0, 0), at(1)));
        assert_eq!(first, [("a".to_string(), 2), ("b".to_string(), 1)]);
        let again = given(fleet.shares(&share, 1, "a", report(1, 0, 0), at(2)));
        assert_eq!(again, first);
        let next_turn = given(fleet.shares(&share, 2, "a", report(0, 0, 0), at(3)));
        assert_eq!(next_turn, [("b".to_string(), 3)]);
    }

    #[test]
    fn permits_move_when_their_node_has_let_go_of_them() {
        let gate = Gate::new().concurrency(10);
        let mut fleet = Fleet::default();
        let permits =
            |shares: &Shares, node: &str| shares.of_node(node, whole(&gate)).concurrency.unwrap();
        let first = fleet.shares(&whole(&gate), 0, "a", report(50, 0, 0), at(0));
        assert_eq!(permits(&first, "a"), 10);
        fleet.hears("b", at(1), report(50, 0, 0));
        // All ten run at the first node: it is to have five, and the other one none before that.
        let second = fleet.shares(&whole(&gate), 0, "a", report(50, 10, first.number), at(1));
        assert_eq!((permits(&second, "a"), permits(&second, "b")), (5, 0));
        fleet.hears("b", at(2), report(50, 0, second.number));
        let third = fleet.shares(&whole(&gate), 0, "a", report(50, 8, second.number), at(2));
        assert_eq!((permits(&third, "a"), permits(&third, "b")), (5, 2));
        fleet.hears("b", at(3), report(50, 2, third.number));
        let fourth = fleet.shares(&whole(&gate), 0, "a", report(50, 5, third.number), at(3));
        assert_eq!((permits(&fourth, "a"), permits(&fourth, "b")), (5, 5));
    }

    #[test]
    fn the_permits_of_a_silent_node_stay_until_it_is_dead() {
        let gate = Gate::new().concurrency(4);
        let mut fleet = Fleet::default();
        fleet.takes_over(&Shares {
            number: 7,
            at: None,
            of: [("b".to_string(), NodeShare { concurrency: 4, ..NodeShare::default() })].into(),
        });
        fleet.hears("b", at(0), report(0, 4, 7));
        let permits = |fleet: &mut Fleet, now| {
            let shares = fleet.shares(&whole(&gate), 0, "a", report(9, 0, 0), now);
            shares.of_node("a", whole(&gate)).concurrency.unwrap()
        };
        assert_eq!(permits(&mut fleet, at(30)), 0);
        assert_eq!(permits(&mut fleet, at(61)), 4);
    }

    #[test]
    fn what_all_nodes_have_seen_is_added_up() {
        let mut fleet = Fleet::default();
        let ended = Tally { succeeded: 1, failed: 9 };
        let one = Report { ended, overdue: Some(0), turn: 2, ..report(0, 3, 0) };
        fleet.hears("b", at(0), one);
        fleet.hears("c", at(0), Report { turn: 1, ..one });
        let own = Seen { ended, overdue: Some(4), told: None, ..Seen::default() };
        let seen = fleet.seen(own, 2, Standing::Flowing, at(1));
        assert_eq!((seen.ended.failed, seen.overdue), (18, Some(4)));
        let late = fleet.seen(own, 2, Standing::Flowing, at(9));
        assert_eq!(late.ended.failed, 9);
        assert_eq!(fleet.seen(own, 2, Standing::Ramping, at(9)).ended.failed, 18);
    }
}
