//! Several nodes before one gate: what each gets, and when.

use resurgam_watchdog::test;

use super::*;
use crate::gate::{Breaker, Gate, Grants, Outcome};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn report(waiting: u32, running: u32, follows: u64) -> Report {
    Report { waiting, running, follows, ..Report::default() }
}

fn whole(gate: &Gate) -> Share {
    Share::whole(gate, &GateState::flowing(at(0)))
}

fn nodes(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_string()).collect()
}

const NOBODY: &BTreeSet<String> = &BTreeSet::new();

#[test]
fn a_rate_is_shared_out_among_those_whose_calls_wait() {
    let gate = Gate::new().rate(Rate::per_second(100.0).burst(20));
    let mut fleet = Fleet::new("a");
    fleet.hears("b", at(0), report(30, 0, 0), at(0));
    fleet.hears("c", at(0), report(0, 0, 0), at(0));
    let shares = fleet.shares(&whole(&gate), report(10, 0, 0), NOBODY, at(1));
    let rate = |node: &str| {
        let rate = shares.of_node(node, whole(&gate)).rate.unwrap();
        (rate.per_second, rate.burst)
    };
    assert_eq!([rate("a"), rate("b"), rate("c")], [(25.0, 5), (75.0, 15), (0.0, 0)]);
    assert!(fleet.renews(&shares));
}

#[test]
fn a_part_of_a_rate_is_given_again_when_nobody_can_use_it_any_more() {
    let gate = Gate::new().rate(Rate::per_second(10.0).burst(4));
    let mut fleet = Fleet::new("a");
    let parts = |shares: &Shares, node: &str| shares.of.get(node).map_or(0, |it| it.parts);
    fleet.hears("b", at(0), report(9, 0, 0), at(0));
    let first = fleet.shares(&whole(&gate), report(0, 0, 0), NOBODY, at(0));
    assert_eq!(parts(&first, "b"), 4);
    fleet.hears("c", at(1), report(9, 0, 0), at(1));
    fleet.hears("b", at(1), report(9, 0, first.number), at(1));
    let second = fleet.shares(&whole(&gate), report(0, 0, 0), NOBODY, at(1));
    assert_eq!([parts(&second, "b"), parts(&second, "c")], [2, 0]);
    // One that tells that it has heard of that makes room at once; of one that tells nothing, the
    // share lapses.
    fleet.hears("c", at(2), report(9, 0, second.number), at(2));
    let mut told = fleet.clone();
    told.hears("b", at(2), report(9, 0, second.number), at(2));
    let third = told.shares(&whole(&gate), report(0, 0, 0), NOBODY, at(2));
    assert_eq!([parts(&third, "b"), parts(&third, "c")], [2, 2]);
    fleet.hears("c", at(5), report(9, 0, second.number), at(5));
    let third = fleet.shares(&whole(&gate), report(0, 0, 0), NOBODY, at(5));
    assert_eq!([parts(&third, "b"), parts(&third, "c")], [0, 2], "b has told nothing for long");
    fleet.hears("c", at(8), report(9, 0, third.number), at(8));
    let fourth = fleet.shares(&whole(&gate), report(0, 0, 0), NOBODY, at(8));
    assert_eq!([parts(&fourth, "b"), parts(&fourth, "c")], [0, 4]);
}

#[test]
fn what_is_too_little_for_all_goes_round() {
    let gate = Gate::new().concurrency(1);
    let mut fleet = Fleet::new("a");
    let mut had = BTreeSet::new();
    let mut follows = 0;
    for second in 0..20 {
        for node in ["b", "c"] {
            fleet.hears(node, at(second), report(9, 0, follows), at(second));
        }
        let shares = fleet.shares(&whole(&gate), report(9, 0, 0), NOBODY, at(second));
        follows = shares.number;
        assert!(shares.of.values().map(|share| share.concurrency).sum::<u32>() <= 1);
        had.extend(shares.of.into_keys());
    }
    assert_eq!(had, nodes(&["a", "b", "c"]));
}

#[test]
fn as_many_probes_are_given_as_the_gate_wants_whoever_asks() {
    let gate = Gate::new().breaker(Breaker::new());
    let mut share = whole(&gate);
    (share.standing, share.probes) = (Standing::Probing, Some(3));
    let own = |waiting, turn| Report { turn, ..report(waiting, 0, 0) };
    let mut fleet = Fleet::new("a");
    fleet.hears("b", at(0), own(5, 1), at(0));
    let given = |shares: &Shares| -> Vec<(String, u32)> {
        shares.of.iter().map(|(node, share)| (node.clone(), share.probes)).collect()
    };
    let first = fleet.shares(&share, own(1, 1), NOBODY, at(1));
    assert_eq!(given(&first), [("a".to_string(), 1), ("b".to_string(), 2)]);
    // The node dies that decides. The next one knows what was given.
    let phase = super::super::machine::Phase::Probing;
    let state = GateState { turn: 1, phase, ..GateState::flowing(at(0)) };
    let mut next = Fleet::new("b");
    next.takes_over(Some(&Decided { state, shares: first, bounds: None }), at(2));
    next.hears("c", at(2), own(9, 1), at(2));
    let begun = |begun| Report { begun, ..own(5, 1) };
    let settling = next.shares(&share, begun(2), &nodes(&["b", "c"]), at(2));
    assert_eq!(given(&settling), [("b".to_string(), 2)]);
    // A probe that its node is not known to have begun lapses, and is given to somebody else.
    next.hears("c", at(5), own(9, 1), at(5));
    let settled = next.shares(&share, begun(2), &nodes(&["b", "c"]), at(5));
    assert_eq!(given(&settled), [("b".to_string(), 2), ("c".to_string(), 1)]);
    next.hears("c", at(9), Report { turn: 2, ..own(9, 1) }, at(9));
    let next_turn = next.shares(&share, own(0, 2), &nodes(&["b", "c"]), at(9));
    assert_eq!(given(&next_turn), [("c".to_string(), 3)]);
}

#[test]
fn permits_move_when_their_node_has_let_go_of_them() {
    let gate = Gate::new().concurrency(10);
    let mut fleet = Fleet::new("a");
    let permits =
        |shares: &Shares, node: &str| shares.of_node(node, whole(&gate)).concurrency.unwrap();
    let first = fleet.shares(&whole(&gate), report(50, 0, 0), NOBODY, at(0));
    assert_eq!(permits(&first, "a"), 10);
    fleet.hears("b", at(1), report(50, 0, 0), at(1));
    // All ten run at the first node: it is to have five, and the other one none before that.
    let second = fleet.shares(&whole(&gate), report(50, 10, 0), NOBODY, at(1));
    assert_eq!((permits(&second, "a"), permits(&second, "b")), (5, 0));
    fleet.hears("b", at(2), report(50, 0, second.number), at(2));
    let third = fleet.shares(&whole(&gate), report(50, 8, 0), NOBODY, at(2));
    assert_eq!((permits(&third, "a"), permits(&third, "b")), (5, 2));
    fleet.hears("b", at(3), report(50, 2, third.number), at(3));
    let fourth = fleet.shares(&whole(&gate), report(50, 5, 0), NOBODY, at(3));
    assert_eq!((permits(&fourth, "a"), permits(&fourth, "b")), (5, 5));
}

#[test]
fn permits_stay_with_a_silent_node_until_it_is_dead() {
    let gate = Gate::new().concurrency(4);
    let share = NodeShare { concurrency: 4, ..NodeShare::default() };
    let shares = Shares { number: 7, of: [("b".to_string(), share)].into(), ..Shares::default() };
    let stored = Decided { state: GateState::flowing(at(0)), shares, bounds: None };
    let permits = |fleet: &mut Fleet, alive: &BTreeSet<String>, now| {
        let shares = fleet.shares(&whole(&gate), report(9, 0, 0), alive, now);
        shares.of_node("a", whole(&gate)).concurrency.unwrap()
    };
    // It has told nothing since; it may be the one that decided.
    let mut fleet = Fleet::new("a");
    fleet.takes_over(Some(&stored), at(0));
    let both = nodes(&["a", "b"]);
    assert_eq!(permits(&mut fleet, &both, at(30)), 0);
    assert_eq!(permits(&mut fleet.clone(), &nodes(&["a"]), at(31)), 4, "it is gone");
    assert_eq!(permits(&mut fleet, &both, at(600)), 0, "it is there");
    // One that nobody has seen is waited for a minute.
    let mut fleet = Fleet::new("a");
    fleet.takes_over(Some(&stored), at(0));
    assert_eq!(permits(&mut fleet, &nodes(&["a"]), at(60)), 0);
    assert_eq!(permits(&mut fleet, &nodes(&["a"]), at(61)), 4);
}

#[test]
fn what_all_nodes_have_seen_is_added_up() {
    let gate = Gate::new().breaker(Breaker::new());
    let window = |ended: &[(i64, u64, u64)]| -> Vec<(i64, Tally)> {
        let tally = |(second, succeeded, failed)| (second, Tally { succeeded, failed });
        ended.iter().copied().map(tally).collect()
    };
    let state = GateState::flowing(at(0));
    let mut fleet = Fleet::new("a");
    for node in ["b", "c"] {
        let lately = window(&[(1, 50, 0), (3, 0, 9)]);
        fleet.hears(node, at(3), Report { lately, ..report(0, 3, 0) }, at(3));
    }
    let mut own = Window::new(Duration::from_secs(10));
    (0..9).for_each(|_| own.add(Outcome::Failed { told: None }, at(3)));
    let seen = fleet.seen(Seen::default(), &own, (&gate, &state), at(4));
    assert_eq!(seen.ended, Tally { succeeded: 100, failed: 27 });
    assert_eq!(seen.worst, Tally { succeeded: 0, failed: 27 }, "nine of one are too few");
    // What a node told long ago of the time in which a gate flowed counts for nothing.
    let late = fleet.seen(Seen::default(), &own, (&gate, &state), at(9));
    assert_eq!(late.ended.failed, 9);
    // In a turn everything counts.
    let phase = super::super::machine::Phase::Probing;
    let state = GateState { turn: 2, phase, ..state };
    let ended = Tally { succeeded: 1, failed: 0 };
    for node in ["b", "c"] {
        fleet.hears(node, at(4), Report { turn: 2, ended, ..report(0, 0, 0) }, at(4));
    }
    let seen = fleet.seen(Seen { ended, ..Seen::default() }, &own, (&gate, &state), at(40));
    assert_eq!(seen.ended.succeeded, 3);
}

#[test]
fn three_calls_of_three_nodes_say_until_when_to_leave_a_dependency_alone() {
    let gate = Gate::new().breaker(Breaker::new());
    let state = GateState::flowing(at(0));
    let mut own = Window::new(Duration::from_secs(10));
    own.add(Outcome::Failed { told: Some(Duration::from_secs(30)) }, at(0));
    let mut fleet = Fleet::new("a");
    for (node, until) in [("b", 40), ("c", 20)] {
        let told = [Some(at(until)), None, None];
        fleet.hears(node, at(0), Report { told, ..report(1, 0, 0) }, at(0));
    }
    let seen = fleet.seen(Seen::default(), &own, (&gate, &state), at(1));
    assert_eq!(seen.told, Some(at(20)));
}

#[test]
fn calls_are_overdue_until_every_node_knows_that_none_is() {
    let gate = Gate::new().breaker(Breaker::new());
    let state = GateState { turn: 2, ..GateState::flowing(at(0)) };
    let own = Window::new(Duration::from_secs(10));
    let overdue = |others: &[Report]| {
        let mut fleet = Fleet::new("a");
        for (node, report) in others.iter().enumerate() {
            fleet.hears(&node.to_string(), at(0), report.clone(), at(0));
        }
        let seen = Seen { overdue: Some(4), ..Seen::default() };
        fleet.seen(seen, &own, (&gate, &state), at(1)).overdue
    };
    let of = |turn, overdue, waiting| Report { turn, overdue, ..report(waiting, 0, 0) };
    assert_eq!(overdue(&[of(2, Some(3), 9)]), Some(7));
    assert_eq!(overdue(&[of(2, None, 9)]), None);
    assert_eq!(overdue(&[of(1, Some(0), 9)]), None);
    assert_eq!(overdue(&[of(1, None, 0)]), Some(4));
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)) >> 11) % bound
    }
}

/// A node that follows shares late, and tells late.
struct Follower {
    name: String,
    grants: Grants,
    follows: u64,
    /// When it asked for what it follows.
    asked: Timestamp,
    ends: Vec<Timestamp>,
}

impl Follower {
    fn tells(&self) -> Report {
        Report { begun: self.grants.begun(), ..report(50, self.grants.running(), self.follows) }
    }

    fn begins(&mut self, now: Timestamp, random: &mut Random) -> usize {
        let over = self.ends.extract_if(.., |end| *end <= now).count();
        (0..over).for_each(|_| self.grants.ends());
        let has_lapsed = self.follows > 0 && now.since(self.asked) > Shares::LAPSE;
        let left = self.grants.left(now).attempts.unwrap_or(0);
        let begins = if has_lapsed { 0 } else { random.below(u64::from(left) + 1) };
        for _ in 0..begins {
            self.grants.begins(false, now);
            self.ends.push(now.saturating_add(Duration::from_millis(1 + random.below(500))));
        }
        begins as usize
    }
}

#[test]
fn however_late_nodes_hear_they_begin_no_more_together_than_the_gate_allows() {
    let (per_second, burst, most) = (20.0, 5, 6);
    for seed in 0..50 {
        let mut random = Random(seed);
        let gate = Gate::new().rate(Rate { per_second, burst }).concurrency(most);
        let whole = whole(&gate);
        let none = Shares::default();
        let mut nodes: Vec<Follower> = ["a", "b", "c"]
            .map(|name| Follower {
                name: name.to_string(),
                grants: Grants::new(none.of_node(name, whole), 0, at(0)),
                follows: 0,
                asked: at(0),
                ends: Vec::new(),
            })
            .into();
        let (mut fleet, mut stored) = (Fleet::new("a"), none);
        let mut began: Vec<Timestamp> = Vec::new();
        for millis in (0..20_000).step_by(10) {
            let now = Timestamp::from_millis(millis);
            for node in &mut nodes {
                began.extend(std::iter::repeat_n(now, node.begins(now, &mut random)));
            }
            let running: u32 = nodes.iter().map(|node| node.grants.running()).sum();
            assert!(running <= most, "{running} run at {now:?} with seed {seed}");
            let other = 1 + random.below(2) as usize;
            if random.below(20) == 0 {
                fleet.hears(&nodes[other].name, now, nodes[other].tells(), now);
            }
            if random.below(40) == 0 {
                stored = fleet.shares(&whole, nodes[0].tells(), NOBODY, now);
                nodes[0].grants.set(stored.of_node("a", whole), 0, now);
                (nodes[0].follows, nodes[0].asked) = (stored.number, now);
            }
            if random.below(30) == 0 && nodes[other].follows < stored.number {
                let node = &mut nodes[other];
                node.grants.set(stored.of_node(&node.name, whole), 0, now);
                (node.follows, node.asked) = (stored.number, now);
            }
        }
        assert!(began.len() > 100, "{} begin with seed {seed}", began.len());
        for (first, from) in began.iter().enumerate() {
            for (last, until) in began.iter().enumerate().skip(first) {
                let allowed = until.since(*from).as_secs_f64() * per_second + f64::from(burst);
                let count = last - first + 1;
                assert!(count as f64 <= allowed + 1.0, "{count} of {allowed} with seed {seed}");
            }
        }
    }
}
