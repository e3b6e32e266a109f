//! Gates on a database of many nodes: what a node does that decides about them, and one that does
//! not.

use resurgam_core::Shard;
use resurgam_core::gate::{
    Breaker, Decided, Gate, GateState, KeyPattern, Phase, Rate, Shares, Standing,
};
use resurgam_store::{Assignment, ByHand, GateWrite, Gates, HandState};
use resurgam_watchdog::test;

use super::gauges::Gauges;
use super::remote::{ELSEWHERE, holder};
use super::*;
use crate::handle::Started;

const SECOND: Duration = Duration::from_secs(1);

/// How finely time passes, and how many steps it takes until nodes hear of each other.
const STEP: Duration = Duration::from_millis(20);
const HEARD: u32 = 5;

/// Somebody who is no node writes about a gate.
fn write(world: &World, gate: GateWrite) {
    let store = ModelStore::on(world.store.database());
    let step = Step { gates: vec![gate], ..Step::default() };
    at_once(store.commit([step].into())).unwrap();
}

/// Several nodes on one database, the first of which decides about gates, and a dependency that all
/// of them call.
struct Nodes {
    worlds: Vec<World>,
    /// Attempts that run: at which node, and until when.
    running: Vec<(usize, AttemptStart, Timestamp)>,
    /// When attempts began, and at which node.
    began: Vec<(Timestamp, usize)>,
    most: usize,
    is_down: bool,
    /// How long an attempt takes.
    takes: Duration,
    /// Nodes that have died.
    dead: Vec<usize>,
}

impl Nodes {
    /// So many nodes; each has its part of the shards.
    fn new(
        count: usize,
        key: &str,
        gate: Gate,
        queues: fn(usize) -> Option<Arc<[String]>>,
    ) -> Self {
        let database = ModelDatabase::new(Model::new(Sharing::ManyNodes));
        let pattern = KeyPattern::parse(key).unwrap();
        let options = |node| Options {
            gates: vec![(pattern.clone(), gate.clone())],
            queues: queues(node),
            ..Options::default()
        };
        let node = |node: usize| World::beside(&database, options(node), node as u64);
        let mut worlds: Vec<World> = (0..count).map(node).collect();
        for world in &mut worlds {
            world.goes_on = Some(if key == "mail" { "mail" } else { "clean" });
            world.node.begin();
            world.settle();
        }
        let mut nodes = Nodes {
            worlds,
            running: Vec::new(),
            began: Vec::new(),
            most: 0,
            is_down: false,
            takes: Duration::from_millis(100),
            dead: Vec::new(),
        };
        let of =
            |node: usize| Shard::all().filter(move |shard| usize::from(shard.0) % count == node);
        let given = (1..count).flat_map(of).collect();
        nodes.assigns(0, Vec::new(), given);
        (1..count).for_each(|node| nodes.assigns(node, of(node).collect(), Vec::new()));
        nodes.assigns(0, Vec::new(), Vec::new());
        nodes
    }

    fn assigns(&mut self, node: usize, take: Vec<Shard>, give: Vec<Shard>) {
        let alive = (0..self.worlds.len()).filter(|node| !self.dead.contains(node));
        let names = alive.map(|node| self.worlds[node].node.name().to_string()).collect();
        let assignment = Assignment {
            take,
            give,
            others_work: true,
            others_leave_tasks: true,
            nodes: Arc::new(names),
            departed: self.dead.len() as u64,
            may_begin: true,
            ..Assignment::default()
        };
        let world = &mut self.worlds[node];
        world.node.assignment(world.at(), assignment);
        world.settle();
    }

    /// A node dies, and another one takes its shards over.
    fn dies(&mut self, node: usize, heir: usize) {
        self.dead.push(node);
        self.worlds[node].right = None;
        self.running.retain(|(at, _, _)| *at != node);
        let count = self.worlds.len();
        let shards = Shard::all().filter(|shard| usize::from(shard.0) % count == node).collect();
        let alive: Vec<usize> =
            (0..count).filter(|other| !self.dead.contains(other) && *other != heir).collect();
        self.assigns(heir, shards, Vec::new());
        alive.into_iter().for_each(|other| self.assigns(other, Vec::new(), Vec::new()));
    }

    fn now(&self) -> Timestamp {
        self.worlds[self.worlds.len() - 1].now
    }

    /// Starts instances, spread over all shards.
    fn start(&mut self, workflow: &str, numbers: std::ops::Range<u32>) {
        let last = self.worlds.len() - 1;
        for number in numbers {
            self.worlds[last].start(workflow, format!("{workflow}-{number}"));
        }
    }

    fn advance(&mut self, time: Duration) {
        let end = self.now().saturating_add(time);
        for step in 0_u32.. {
            let now = self.now().saturating_add(STEP);
            if now > end {
                return;
            }
            let nodes_hear = step % HEARD == 0;
            for node in (0..self.worlds.len()).filter(|node| !self.dead.contains(node)) {
                let world = &mut self.worlds[node];
                (world.now, world.elapsed) = (now, world.elapsed + STEP);
                match nodes_hear {
                    true => world.hears(),
                    false => world.settle(),
                }
                world.trace.clear();
                let begin = std::mem::take(&mut world.running);
                let ends = now.saturating_add(self.takes);
                self.began.extend(begin.iter().map(|_| (now, node)));
                self.running.extend(begin.into_iter().map(|start| (node, start, ends)));
            }
            self.most = self.most.max(self.running.len());
            for (node, start, _) in self.running.extract_if(.., |(_, _, at)| *at <= now) {
                let result = match self.is_down {
                    true => Err(Failure::retryable("no answer")),
                    false => Ok(Payload::null()),
                };
                self.worlds[node].ends(&start, result);
            }
        }
    }

    /// How many attempts began so far, at each node.
    fn counts(&self) -> Vec<usize> {
        let of = |node| self.began.iter().filter(|(_, at)| *at == node).count();
        (0..self.worlds.len()).map(of).collect()
    }

    /// The most attempts that began beyond what a rate allows in any time.
    fn beyond(&self, rate: Rate) -> f64 {
        let mut worst = f64::MIN;
        for (first, (from, _)) in self.began.iter().enumerate() {
            for (last, (until, _)) in self.began.iter().enumerate().skip(first) {
                let time = until.since(*from) + STEP;
                let allowed = time.as_secs_f64() * rate.per_second + f64::from(rate.burst);
                worst = worst.max((last - first + 1) as f64 - allowed);
            }
        }
        worst
    }

    fn stored(&self, key: &str) -> Option<GateState> {
        let stored = at_once(self.worlds[0].store.gates()).unwrap();
        let row = stored.gates.into_iter().find(|row| row.key == key)?;
        serde_json::from_str(&row.decided?).ok()
    }
}

#[test]
fn a_rate_holds_for_all_nodes_together_and_each_gets_its_part() {
    let rate = Rate::per_second(20.0).burst(6);
    let mut nodes = Nodes::new(3, "clean", Gate::new().rate(rate), |_| None);
    nodes.start("clean", 0..300);
    nodes.advance(20 * SECOND);
    assert!(nodes.beyond(rate) <= 1.0, "{} too many begin", nodes.beyond(rate));
    let counts = nodes.counts();
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    assert_eq!(nodes.began.len(), 300);
    // What nodes told is kept no longer than it is of use.
    let counted = |nodes: &Nodes| at_once(nodes.worlds[0].store.gate_counts(Timestamp::EPOCH));
    assert!(!counted(&nodes).unwrap().is_empty());
    nodes.advance(240 * SECOND);
    assert_eq!(counted(&nodes).unwrap(), []);
}

#[test]
fn no_more_run_at_once_on_all_nodes_than_the_gate_allows_also_when_the_one_dies_that_decides() {
    let mut nodes = Nodes::new(3, "clean", Gate::new().concurrency(4), |_| None);
    nodes.takes = 2 * SECOND;
    nodes.start("clean", 0..60);
    nodes.advance(15 * SECOND);
    assert!(nodes.counts().iter().all(|count| *count > 0), "{:?}", nodes.counts());
    nodes.dies(0, 1);
    nodes.advance(60 * SECOND);
    assert_eq!(nodes.most, 4);
    let begun = nodes.began.len();
    assert!((60..=64).contains(&begun), "{begun}: those that ran at the dead node begin again");
}

#[test]
fn nodes_shut_a_gate_for_themselves_and_it_opens_for_all_when_the_dependency_is_back() {
    let gate = Gate::new().breaker(Breaker::new().jitter(0.0));
    let mut nodes = Nodes::new(3, "clean", gate, |_| None);
    nodes.is_down = true;
    nodes.start("clean", 0..200);
    nodes.advance(2 * SECOND);
    assert_eq!(nodes.stored("clean").unwrap().standing(), Standing::Shut);
    let before = nodes.began.len();
    nodes.start("clean", 200..400);
    nodes.advance(58 * SECOND);
    let probes = nodes.began.len() - before;
    assert!((3..=12).contains(&probes), "{probes} probe while it is down");
    nodes.is_down = false;
    nodes.advance(90 * SECOND);
    assert_eq!(nodes.stored("clean").unwrap().standing(), Standing::Flowing);
    let gates = Arc::new(["clean".to_string()]);
    let end = Timestamp::from_millis(i64::MAX);
    let waiting = at_once(nodes.worlds[0].store.count_waiting(gates, end, 1_000)).unwrap();
    assert_eq!((nodes.running.len(), waiting[0].due), (0, 0));
}

#[test]
fn nothing_opens_while_nobody_decides_and_somebody_else_does_later() {
    let gate = Gate::new().breaker(Breaker::new().jitter(0.0)).rate(Rate::per_second(50.0));
    let mut nodes = Nodes::new(3, "clean", gate, |_| None);
    nodes.is_down = true;
    nodes.start("clean", 0..200);
    nodes.advance(5 * SECOND);
    assert_eq!(nodes.stored("clean").unwrap().standing(), Standing::Shut);
    // Nobody has heard that it is gone.
    nodes.dead.push(0);
    nodes.running.retain(|(node, _, _)| *node != 0);
    let before = nodes.began.len();
    nodes.is_down = false;
    nodes.advance(60 * SECOND);
    assert_eq!(nodes.began.len(), before);
    nodes.dead.clear();
    nodes.dies(0, 1);
    nodes.advance(90 * SECOND);
    assert_eq!(nodes.stored("clean").unwrap().standing(), Standing::Flowing);
    assert!(nodes.began.len() >= before + 100, "{} and {before}", nodes.began.len());
}

#[test]
fn calls_behind_a_gate_that_lets_few_begin_are_found_by_the_node_that_takes_their_shard_over() {
    let gate = Gate::new().breaker(Breaker::new());
    let mut nodes = Nodes::new(3, "clean", gate, |_| None);
    let state = GateState { turn: 5, phase: Phase::Probing, ..GateState::flowing(nodes.now()) };
    let decided = Decided { state, shares: Shares::default(), bounds: None }.to_stored();
    write(&nodes.worlds[0], GateWrite::Decide { key: "clean".to_string(), decided });
    // By now all have looked for calls behind it, and there are none.
    nodes.advance(2 * SECOND);
    let is_of_second = |number: &u32| Shard::of_id(&format!("clean-{number}")).0 % 3 == 1;
    let number = (0..).find(is_of_second).unwrap();
    nodes.start("clean", number..number + 1);
    nodes.advance(2 * STEP);
    let gates = Arc::new(["clean".to_string()]);
    let waiting = at_once(nodes.worlds[0].store.count_waiting(gates, nodes.now(), 10)).unwrap();
    assert_eq!((waiting[0].due, nodes.counts()), (1, vec![0, 0, 0]));
    nodes.dies(1, 0);
    nodes.advance(90 * SECOND);
    assert_eq!(nodes.counts(), [1, 0, 0]);
}

#[test]
fn calls_behind_a_bounded_gate_run_where_their_queue_is_served() {
    let queues = |node| {
        let default = [resurgam_core::command::DEFAULT_QUEUE.to_string()];
        (node < 2).then(|| default.into())
    };
    let rate = Rate::per_second(10.0).burst(2);
    let gate = Gate::new().rate(rate).concurrency(3);
    let mut nodes = Nodes::new(3, "mail", gate, queues);
    nodes.start("send", 0..60);
    nodes.advance(30 * SECOND);
    assert_eq!(nodes.counts(), [0, 0, 60], "only the last node serves {ELSEWHERE}");
    assert!(nodes.most <= 3, "{} run at once", nodes.most);
    assert!(nodes.beyond(rate) <= 1.0, "{} too many begin", nodes.beyond(rate));
}

#[test]
fn probes_run_where_the_queue_is_served() {
    let queues = |node| {
        let default = [resurgam_core::command::DEFAULT_QUEUE.to_string()];
        (node < 2).then(|| default.into())
    };
    let gate = Gate::new().breaker(Breaker::new().jitter(0.0));
    let mut nodes = Nodes::new(3, "mail", gate, queues);
    nodes.is_down = true;
    nodes.start("send", 0..100);
    nodes.advance(20 * SECOND);
    assert_ne!(nodes.stored("mail").unwrap().standing(), Standing::Flowing);
    nodes.is_down = false;
    nodes.advance(90 * SECOND);
    assert_eq!(nodes.stored("mail").unwrap().standing(), Standing::Flowing);
    assert_eq!(nodes.counts()[..2], [0, 0]);
}

#[test]
fn a_gate_that_flows_and_bounds_nothing_costs_no_row() {
    let mut nodes = Nodes::new(2, "clean", Gate::new().breaker(Breaker::new()), |_| None);
    nodes.start("clean", 0..100);
    nodes.advance(5 * SECOND);
    assert_eq!(nodes.began.len(), 100);
    let counts = at_once(nodes.worlds[0].store.gate_counts(Timestamp::EPOCH)).unwrap();
    assert_eq!((counts, nodes.stored("clean")), (Vec::new(), None));
}

#[test]
fn calls_that_are_overdue_because_nobody_worked_come_back_slowly() {
    let gate = Gate::new().rate(Rate::per_second(1_000.0));
    let gates = vec![(KeyPattern::parse("ship").unwrap(), gate)];
    let mut world = World::on(Sharing::OneNode, Options { gates, ..Options::default() }, 7);
    world.node.begin();
    world.settle();
    for number in 0..90 {
        world.start("order", format!("order-{number}"));
    }
    // Every call has failed once, and waits.
    world.advance(Duration::from_millis(1_400));
    assert_eq!(world.began.len(), 90);
    world.clock_jumps(3_600 * SECOND);
    world.advance(SECOND);
    assert!(world.began.len() < 90 + 20, "{} begin at once", world.began.len() - 90);
    world.advance(60 * SECOND);
    assert_eq!(world.began.len(), 3 * 90);
}

impl World {
    /// The node hears of what others have stored, and has read it.
    fn hears_of_gates(&mut self) {
        self.hears();
        self.advance(2 * SECOND);
    }

    /// Starts an instance whose only call is behind this gate.
    fn calls_behind(&mut self, gate: &str, id: &str) {
        let options = StartOptions { id: id.to_string(), ..StartOptions::default() };
        let reply = self.reply(|told: Result<Started>| drop(told.unwrap()));
        let (workflow, input) = ("send_behind".to_string(), Payload::encode(gate).unwrap());
        self.ask(Request::Start { workflow, input, options, reply });
        self.settle();
        self.trace.clear();
    }

    /// Starts such an instance behind each of so many gates, ten a second.
    fn calls_behind_many(&mut self, count: u32) -> usize {
        let mut most = 0;
        for number in 0..count {
            self.calls_behind(&format!("bank:{number}"), &format!("payment-{number}"));
            most = most.max(self.node.known_gates().len());
            self.advance(Duration::from_millis(100));
        }
        most
    }
}

/// A node with a gate of these settings for each customer.
fn banks(gate: Gate) -> World {
    let gates = vec![(KeyPattern::parse("bank:*").unwrap(), gate)];
    let mut world = World::on(Sharing::OneNode, Options { gates, ..Options::default() }, 7);
    world.node.begin();
    world.settle();
    world
}

#[test]
fn of_gates_whose_calls_are_over_nothing_is_kept_however_many_there_were() {
    let gate = Gate::new().breaker(Breaker::new()).rate(Rate::per_second(10.0)).concurrency(1);
    let mut world = banks(gate);
    let most = world.calls_behind_many(2_500);
    assert_eq!(world.began.len(), 2_500);
    assert!(most <= 1_001, "{most} gates were known at once");
}

#[test]
fn a_gate_is_not_forgotten_that_somebody_shut_or_that_calls_run_or_wait_behind() {
    let mut world = banks(Gate::new().concurrency(1));
    let at = world.now;
    let hand = ByHand { state: HandState::Shut, by: "ana".into(), reason: None, at, until: None };
    write(&world, GateWrite::Hand { key: "bank:shut".to_string(), hand });
    world.hears_of_gates();
    world.goes_on = Some("mail");
    world.calls_behind("bank:busy", "runs");
    world.goes_on = None;
    world.calls_behind("bank:busy", "waits");
    world.calls_behind("bank:shut", "is-held-back");
    let most = world.calls_behind_many(1_500);
    assert!(most <= 1_001, "{most} gates were known at once");
    let known = world.node.known_gates();
    assert!(["bank:busy", "bank:shut"].iter().all(|key| known.contains(key)), "{known:?}");
    // Nobody has forgotten who runs, and who waits for that.
    assert_eq!(world.began.len(), 1 + 1_500);
    let running = world.running.pop().unwrap();
    world.ends(&running, Ok(Payload::null()));
    world.advance(SECOND);
    assert_eq!(world.began.len(), 2 + 1_500);
}

#[test]
fn what_is_stored_of_gates_that_were_shut_goes_when_they_have_flowed_for_long() {
    let mut world = banks(Gate::new().breaker(Breaker::new().probes(1)));
    let hand = |state, at| ByHand { state, by: "ana".into(), reason: None, at, until: None };
    for number in 0..1_200 {
        let key = format!("bank:{number}");
        write(&world, GateWrite::Hand { key, hand: hand(HandState::Shut, world.now) });
    }
    world.hears_of_gates();
    let stored = |world: &World| at_once(world.store.gates()).unwrap().gates.len();
    assert_eq!((stored(&world), world.node.known_gates().len()), (1_200, 1_200));
    world.advance(SECOND);
    for number in 0..1_199 {
        let key = format!("bank:{number}");
        write(&world, GateWrite::Hand { key, hand: hand(HandState::Auto, world.now) });
    }
    world.hears_of_gates();
    // Each of them probes until somebody calls, and that succeeds.
    for gate in 0..1_199 {
        world.calls_behind(&format!("bank:{gate}"), &format!("payment-{gate}"));
    }
    world.advance(1_300 * SECOND);
    world.calls_behind("bank:1199", "is-held-back");
    assert_eq!((stored(&world), world.node.known_gates().len()), (1, 1));
}

#[test]
fn however_often_a_gate_is_shut_and_opened_no_task_is_written() {
    let mut world = banks(Gate::new().concurrency(1));
    world.goes_on = Some("mail");
    for number in 0..300 {
        world.calls_behind("bank:a", &format!("payment-{number}"));
    }
    let written = world.task_rows;
    assert_eq!(written, 300);
    let mut changed = Vec::new();
    for state in [HandState::Shut, HandState::Open, HandState::Auto, HandState::Shut] {
        let hand = ByHand { state, by: "ana".into(), reason: None, at: world.now, until: None };
        write(&world, GateWrite::Hand { key: "bank:a".to_string(), hand });
        world.hears_of_gates();
        let stored = at_once(world.store.gates()).unwrap().gates;
        let decided = Decided::from_stored(stored[0].decided.as_ref().unwrap()).unwrap();
        changed.push(decided.state.standing());
    }
    use Standing::{Flowing, Shut};
    assert_eq!(changed, [Shut, Flowing, Flowing, Shut]);
    assert_eq!((world.task_rows, world.running.len()), (written, 1));
}

#[test]
fn who_watches_a_gate_sees_how_it_stands_how_many_wait_and_how_many_probe() {
    let gauges = Gauges::default();
    metrics::with_local_recorder(&gauges, || {
        let gate = Gate::new().breaker(Breaker::new().jitter(0.0));
        let mut world = banks(gate);
        world.goes_on = Some("mail");
        let fail = |world: &mut World| {
            for start in std::mem::take(&mut world.running) {
                world.ends(&start, Err(Failure::retryable("no answer")));
            }
            world.settle();
        };
        for number in 0..30 {
            world.calls_behind("bank:a", &format!("payment-{number}"));
        }
        fail(&mut world);
        assert_eq!(gauges.value("resurgam.gate_state gate=bank:a"), Some(3.0));
        // They are due again; the gate is shut for five seconds, and three of them probe.
        world.advance(4 * SECOND);
        assert_eq!(gauges.count("resurgam.probes gate=bank:a"), 0);
        world.advance(SECOND);
        assert_eq!(gauges.value("resurgam.gate_state gate=bank:a"), Some(2.0));
        assert_eq!(gauges.count("resurgam.probes gate=bank:a"), 3);
        fail(&mut world);
        world.advance(12 * SECOND);
        assert_eq!(gauges.value("resurgam.gated_calls gate=bank:a"), Some(30.0));
        world.goes_on = None;
        for start in std::mem::take(&mut world.running) {
            world.ends(&start, Ok(Payload::null()));
        }
        world.advance(SECOND);
        assert_eq!(gauges.value("resurgam.gate_state gate=bank:a"), Some(1.0));
        assert_eq!(gauges.value("resurgam.gate_ramp gate=bank:a"), Some(10.0));
        world.advance(60 * SECOND);
        assert_eq!(gauges.value("resurgam.gate_state gate=bank:a"), Some(0.0));
        assert_eq!(gauges.value("resurgam.gate_ramp gate=bank:a"), Some(0.0));
        assert_eq!(gauges.value("resurgam.gated_calls gate=bank:a"), Some(0.0));
    });
}

#[test]
fn a_hundred_gates_have_numbers_of_their_own() {
    let gauges = Gauges::default();
    metrics::with_local_recorder(&gauges, || {
        let mut world = banks(Gate::new());
        let at = world.now;
        let hand =
            ByHand { state: HandState::Shut, by: "ana".into(), reason: None, at, until: None };
        for number in 0..150 {
            let key = format!("bank:{number}");
            write(&world, GateWrite::Hand { key, hand: hand.clone() });
        }
        world.hears_of_gates();
        assert_eq!(world.node.known_gates().len(), 150);
    });
    assert_eq!(gauges.of_name("resurgam.gate_state "), 100);
}

/// More calls than fit into a page, and than are remembered, whose time in the queue is over while
/// their gate is shut.
#[test]
fn calls_whose_time_in_a_queue_is_over_behind_a_shut_gate_hide_nothing_that_is_due_later() {
    let database = ModelDatabase::new(Model::new(Sharing::OneNode));
    let mut world = World::beside(&database, Options::default(), 7);
    world.node.begin();
    world.settle();
    let hand = ByHand {
        state: HandState::Shut,
        by: "ana".to_string(),
        reason: None,
        at: world.now,
        until: None,
    };
    write(&world, GateWrite::Hand { key: "mail".to_string(), hand });
    world.hears_of_gates();
    let outcomes = Arc::default();
    let crowds: Vec<Uid> =
        (0..11).map(|number| world.start("crowd", format!("crowd-{number}"))).collect();
    world.advance(2 * SECOND);
    // Another process goes on.
    let (now, elapsed) = (world.now, world.elapsed);
    world.right = None;
    drop(world);
    let mut world = World::beside(&database, Options::default(), 8);
    (world.now, world.elapsed) = (now, elapsed);
    world.node.begin();
    world.settle();
    for uid in crowds {
        world.wait_for(uid, &outcomes);
    }
    world.start("order", "order-1".to_string());
    world.advance(20 * SECOND);
    assert_eq!(world.began, ["ship", "ship", "ship"]);
    // Their whole time runs on.
    assert_eq!(outcomes.lock().unwrap().len(), 0);
    world.advance(30 * SECOND);
    assert_eq!(outcomes.lock().unwrap().len(), 11);
}

#[test]
fn a_node_that_does_not_decide_waits_for_who_does_and_not_for_a_time_that_is_over() {
    let mut world = holder();
    world.gives(Shard(0));
    let at = world.now;
    let until = Some(at.saturating_add(5 * SECOND));
    let hand = ByHand { state: HandState::Shut, by: "ana".to_string(), reason: None, at, until };
    write(&world, GateWrite::Hand { key: "mail".to_string(), hand });
    world.advance(2 * SECOND);
    world.hears();
    world.clock_jumps(10 * SECOND);
    world.settle();
    let next = world.node.next_due();
    assert!(next.is_none_or(|next| next > world.now), "{next:?} is over at {:?}", world.now);
}
