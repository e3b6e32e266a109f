//! Gates: what follows what, as a table, as a story, and as properties of any story.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use resurgam_core::Timestamp;
use resurgam_core::gate::{
    Breaker, ByHand, Changed, Gate, GateState, Grants, Left, Meter, Outcome, Phase, Rate, Seen,
    Share, Standing, Tally, Why, Window, json_schema,
};
use resurgam_watchdog::test;
use serde_json::json;

use crate::properties::config;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn breaker() -> Breaker {
    Breaker::new().jitter(0.0)
}

fn gate() -> Gate {
    Gate::new().breaker(breaker())
}

fn ended(succeeded: u64, failed: u64) -> Seen {
    Seen { ended: Tally { succeeded, failed }, ..Seen::default() }
}

fn state(phase: Phase) -> GateState {
    GateState { phase, turn: 7, before: 1000.0, ..GateState::flowing(at(0)) }
}

fn ramping(rate: f64) -> Phase {
    let judged = Tally { succeeded: 100, failed: 0 };
    Phase::Ramping { rate, first: 30.0, judged_at: at(60_000), judged }
}

fn by_hand(shut: bool, until: Option<Timestamp>) -> ByHand {
    let reason = Some("maintenance".to_string());
    ByHand { shut, by: "ana".to_string(), reason, since: at(0), until }
}

/// What follows at a minute past the beginning, as text.
fn follows(state: &GateState, gate: &Gate, seen: Seen) -> String {
    let now = at(61_000);
    match state.next(gate, &seen, now, 0.5) {
        None => "stays".to_string(),
        Some(after) => match after.phase {
            Phase::Ramping { rate, .. } if after.turn == state.turn => format!("rate {rate:.1}"),
            Phase::Ramping { rate, .. } => format!("ramping at {rate:.1}: {}", after.why),
            Phase::Shut { until } => {
                format!("shut for {}: {}", until.since(now).as_secs(), after.why)
            }
            _ => format!("{}: {}", after.standing().name(), after.why),
        },
    }
}

#[test]
fn what_follows_what() {
    let flowing = state(Phase::Flowing);
    let shut_until = |millis| state(Phase::Shut { until: at(millis) });
    let probing = GateState { period_ms: Some(5_000), ..state(Phase::Probing) };
    let ramping_at = |rate| GateState { period_ms: Some(20_000), ..state(ramping(rate)) };
    let of_100 =
        |succeeded: u64, failed| Seen { overdue: Some(5), ..ended(100 + succeeded, failed) };
    let told = |millis| Seen { told: Some(at(millis)), ..Seen::default() };
    let hand =
        |shut, until| GateState { by_hand: Some(by_hand(shut, until)), ..state(Phase::Flowing) };
    let rows: [(&str, GateState, Seen, &str); 28] = [
        ("too few", flowing.clone(), ended(0, 19), "stays"),
        ("under half", flowing.clone(), ended(11, 10), "stays"),
        ("half", flowing.clone(), ended(10, 10), "shut for 5: 10 of 20 failed"),
        (
            "told",
            flowing.clone(),
            told(91_000),
            "shut for 30: three calls were told to come back later",
        ),
        (
            "told for an hour",
            flowing.clone(),
            told(3_661_000),
            "shut for 300: three calls were told to come back later",
        ),
        ("told, and over", flowing.clone(), told(60_000), "stays"),
        (
            "told for a moment",
            flowing,
            told(61_500),
            "shut for 5: three calls were told to come back later",
        ),
        ("still shut", shut_until(61_001), ended(0, 50), "stays"),
        ("over", shut_until(61_000), ended(0, 0), "probing: it was shut long enough"),
        ("two probes", probing.clone(), ended(2, 0), "stays"),
        ("three probes", probing.clone(), ended(3, 0), "ramping at 30.0: the probes succeeded"),
        ("one failed", probing.clone(), ended(2, 1), "shut for 10: a probe failed"),
        ("good", ramping_at(100.0), of_100(20, 0), "rate 120.0"),
        ("too few to tell", ramping_at(100.0), of_100(19, 0), "stays"),
        ("above before", ramping_at(1001.0), of_100(40, 1), "rate 1021.0"),
        ("some fail", ramping_at(100.0), of_100(38, 2), "rate 90.0"),
        ("a fifth fails", ramping_at(100.0), of_100(80, 20), "rate 70.0"),
        (
            "below its start",
            ramping_at(40.0),
            of_100(10, 10),
            "shut for 30: 10 of 20 failed while calls came back",
        ),
        (
            "nobody waits",
            ramping_at(100.0),
            Seen { overdue: Some(0), ..ended(101, 0) },
            "flowing: no call is overdue",
        ),
        (
            "nobody waits, and they fail",
            ramping_at(100.0),
            Seen { overdue: Some(0), ..ended(110, 10) },
            "rate 70.0",
        ),
        (
            "nobody waits, and a few fail",
            ramping_at(100.0),
            Seen { overdue: Some(0), ..ended(101, 9) },
            "flowing: no call is overdue",
        ),
        ("nobody knows", ramping_at(100.0), ended(101, 0), "stays"),
        ("shut by hand", hand(true, None), ended(50, 0), "stays"),
        ("for a time", hand(true, Some(at(61_001))), ended(50, 0), "stays"),
        (
            "and over",
            hand(true, Some(at(61_000))),
            ended(50, 0),
            "probing: the time for what was set by hand is over",
        ),
        ("open by hand", hand(false, None), ended(0, 50), "stays"),
        (
            "and over",
            hand(false, Some(at(61_000))),
            ended(0, 50),
            "flowing: the time for what was set by hand is over",
        ),
        (
            "probing by hand",
            GateState { by_hand: Some(by_hand(true, None)), ..probing },
            ended(0, 5),
            "stays",
        ),
    ];
    for (name, state, seen, expected) in rows {
        assert_eq!(follows(&state, &gate(), seen), expected, "{name}");
    }
}

#[test]
fn what_fails_from_one_moment_on_shuts_a_gate_however_much_succeeded_before() {
    let mut window = Window::new(Duration::from_secs(10));
    for millis in (0..10_000).step_by(10) {
        window.add(Outcome::Succeeded, at(millis));
    }
    let judged = |window: &mut Window, now| {
        let (ended, worst) = (window.tally(now), window.worst(now, 20));
        let seen = Seen { ended, worst, ..Seen::default() };
        GateState::flowing(at(0)).next(&gate(), &seen, now, 0.5).map(|after| after.why.to_string())
    };
    let shut = (10_000..20_000).step_by(10).find_map(|millis| {
        window.add(Outcome::Failed { told: None }, at(millis));
        judged(&mut window, at(millis)).map(|why| (millis, why))
    });
    // With the second before it, half of the calls have failed when the second is over.
    assert_eq!(shut, Some((10_990, "100 of 200 failed".to_string())));
    // A few calls that fail within a moment are not half of a second.
    let mut window = Window::new(Duration::from_secs(10));
    (0..1_000).for_each(|_| window.add(Outcome::Succeeded, at(0)));
    (0..400).for_each(|_| window.add(Outcome::Failed { told: None }, at(1_100)));
    assert_eq!(judged(&mut window, at(1_100)), None);
}

#[test]
fn without_a_breaker_only_people_shut_a_gate() {
    let limits = Gate::new().rate(Rate::per_second(10.0));
    assert_eq!(follows(&state(Phase::Flowing), &limits, ended(0, 100)), "stays");
    let shut = state(Phase::Shut { until: at(100_000) });
    assert_eq!(follows(&shut, &limits, ended(0, 0)), "flowing: no call is overdue");
    let over = GateState { by_hand: Some(by_hand(true, Some(at(1)))), ..state(Phase::Flowing) };
    let line = "flowing: the time for what was set by hand is over";
    assert_eq!(follows(&over, &limits, ended(0, 0)), line);
    // A ramp after an outage of our own slows down, and never shuts.
    let seen = Seen { overdue: Some(5), ..ended(100, 50) };
    assert_eq!(follows(&state(ramping(31.0)), &limits, seen), "rate 30.0");
}

#[test]
fn a_period_doubles_until_a_calm_time() {
    let mut state = GateState::flowing(at(0));
    let mut periods = Vec::new();
    let mut now = 0;
    for calm in [1_000, 1_000, 599_000, 1_000, 600_000, 1_000] {
        now += calm;
        state = state.next(&gate(), &ended(0, 20), at(now), 0.5).unwrap();
        periods.push(state.period_ms.unwrap() / 1000);
        state = GateState { phase: Phase::Flowing, since: at(now), ..state };
    }
    assert_eq!(periods, [5, 10, 20, 30, 5, 10]);
}

#[test]
fn a_gate_that_has_just_begun_to_flow_keeps_the_rate_from_before_the_outage() {
    let rate_after = |seconds: i64| {
        let next = state(Phase::Flowing).next(&gate(), &ended(0, 40), at(seconds * 1000), 0.5);
        let next = next.unwrap();
        assert_eq!(next.standing().name(), "shut");
        next.before
    };
    assert_eq!(rate_after(3), 1000.0);
    assert_eq!(rate_after(60), 4.0);
}

#[test]
fn the_rate_before_an_outage_is_that_of_the_time_in_which_calls_came() {
    let rate = |flows_since, first: Option<i64>, now| {
        let flowing = GateState::flowing(at(flows_since));
        let seen = Seen { since: first.map(at), ..ended(0, 40) };
        flowing.next(&gate(), &seen, at(now), 0.5).unwrap().before
    };
    // The gate is there for two seconds, or for a moment.
    assert_eq!(rate(58_000, Some(58_000), 60_000), 20.0);
    assert_eq!(rate(59_700, Some(59_000), 60_000), 40.0);
    // It is there for a minute, and calls have come for five seconds, or for longer than it counts.
    assert_eq!(rate(0, Some(55_000), 60_000), 8.0);
    assert_eq!(rate(0, Some(50_000), 60_000), 4.0);
    assert_eq!(rate(0, None, 60_000), 4.0);
}

#[test]
fn overdue_calls_come_back_slowly_after_an_outage_of_our_own() {
    let flowing = GateState::flowing(at(0));
    assert_eq!(flowing.after_own_outage(&Gate::new().concurrency(5), at(9)), None);
    let ramping = flowing.after_own_outage(&gate(), at(9)).unwrap();
    assert_eq!(
        ramping.told_at(at(9)),
        "ramping for 0ms: calls are overdue because nobody worked \
        for a while; 10 each second begin"
    );
    // Nobody knows what was usual: the rate grows fast.
    let seen = Seen { overdue: Some(5), ..ended(20, 0) };
    let faster = ramping.next(&gate(), &seen, at(1_009), 0.5).unwrap();
    assert!(matches!(faster.phase, Phase::Ramping { rate, .. } if rate == 12.0));
}

#[test]
fn a_state_is_stored_and_read_back() {
    let told = ended(0, 20).ended;
    for phase in [Phase::Flowing, Phase::Shut { until: at(5) }, Phase::Probing, ramping(12.5)] {
        let by_hand = Some(by_hand(true, Some(at(9))));
        let why = Why::Failing { failed: told.failed, ended: told.ended() };
        let state = GateState { by_hand, why, period_ms: Some(5000), ..state(phase) };
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<GateState>(&text).unwrap(), state, "{text}");
    }
    let text = serde_json::to_string(&GateState::flowing(at(3))).unwrap();
    expect![[
        r#"{"turn":0,"phase":{"is":"flowing"},"since":3,"why":{"because":"new"},"before":0.0}"#
    ]]
    .assert_eq(&text);
}

/// `UPDATE_EXPECT=1` rewrites the file.
#[test]
fn the_published_schema_of_a_gate_is_the_one_that_the_code_builds() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gate.schema.json");
    let text = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    expect_file![file].assert_eq(&text);
}

#[test]
fn the_schema_and_the_reader_agree() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    for (value, good) in [
        (json!({}), true),
        (json!({"breaker": true, "rate": 5, "concurrency": 3, "budget": true}), true),
        (serde_json::to_value(gate()).unwrap(), true),
        (json!({"rate": {"burst": 3}}), false),
        (json!({"breaker": {"failure_ratio": 0}}), false),
        (json!({"concurrency": 0}), false),
        (json!({"speed": 3}), false),
        (json!(7), false),
    ] {
        assert_eq!(schema.is_valid(&value), good, "{value}");
        assert_eq!(Gate::from_value(&value).is_ok(), good, "{value}");
    }
}

/// One node, one gate, and a dependency that is down for a while. Calls come at a rate and are
/// tried again; what happens is written down.
struct World {
    gate: Gate,
    state: GateState,
    grants: Grants,
    window: Window,
    turn: Tally,
    waiting: u64,
    overdue: u64,
    begun: Vec<(Timestamp, Standing)>,
    story: String,
}

impl World {
    fn new(gate: Gate) -> Self {
        let state = GateState::flowing(at(0));
        let grants = Grants::new(Share::whole(&gate, &state), state.turn, at(0));
        World {
            window: Window::new(gate.breaker.as_ref().map_or(Duration::MAX, |own| own.window)),
            gate,
            state,
            grants,
            turn: Tally::default(),
            waiting: 0,
            overdue: 0,
            begun: Vec::new(),
            story: String::new(),
        }
    }

    /// A tenth of a second: calls come, some begin, all of them end at once.
    fn goes_on(&mut self, now: Timestamp, come: u64, down: bool, u: f64) {
        self.overdue = self.waiting;
        self.decide(now, u);
        self.waiting += come;
        for _ in 0..self.waiting {
            if self.grants.left(now).attempts == Some(0) {
                break;
            }
            self.waiting -= 1;
            self.begun.push((now, self.state.standing()));
            self.grants.begins(false, now);
            let outcome = match down {
                true => Outcome::Failed { told: None },
                false => Outcome::Succeeded,
            };
            self.window.add(outcome, now);
            self.grants.ends();
            match outcome {
                Outcome::Succeeded => self.turn.succeeded += 1,
                _ => (self.turn.failed, self.waiting) = (self.turn.failed + 1, self.waiting + 1),
            }
            self.decide(now, u);
        }
    }

    fn decide(&mut self, now: Timestamp, u: f64) {
        let ended = match self.state.phase {
            Phase::Flowing => self.window.tally(now),
            _ => self.turn,
        };
        let (overdue, told) = (Some(self.overdue), self.window.told()[2]);
        let seen = Seen { ended, overdue, told, ..Seen::default() };
        let Some(after) = self.state.next(&self.gate, &seen, now, u) else { return };
        if after.turn != self.state.turn {
            let changed = Changed { key: "stripe", before: &self.state, after: &after };
            writeln!(self.story, "{:>6.1}s {changed}", now.as_millis() as f64 / 1000.0).unwrap();
            self.turn = Tally::default();
            self.window.clear();
        }
        self.grants.set(Share::whole(&self.gate, &after), after.turn, now);
        self.state = after;
    }
}

#[test]
fn an_outage_of_a_minute() {
    let mut world = World::new(gate());
    for tenth in 0..3_000 {
        let now = at(tenth * 100);
        world.goes_on(now, 10, (200..800).contains(&tenth), 0.5);
    }
    let futile =
        world.begun.iter().filter(|(when, _)| (20_000..80_000).contains(&when.as_millis()));
    writeln!(world.story, "{} attempts in vain, {} wait", futile.count(), world.waiting).unwrap();
    expect![[r#"
          21.2s gate stripe: flowing -> shut: 800 of 1600 failed
          26.2s gate stripe: shut -> probing: it was shut long enough
          26.2s gate stripe: probing -> shut: a probe failed
          36.2s gate stripe: shut -> probing: it was shut long enough
          36.2s gate stripe: probing -> shut: a probe failed
          56.2s gate stripe: shut -> probing: it was shut long enough
          56.2s gate stripe: probing -> shut: a probe failed
          86.2s gate stripe: shut -> probing: it was shut long enough
          86.2s gate stripe: probing -> ramping: the probes succeeded
         149.1s gate stripe: ramping -> flowing: no call is overdue
        803 attempts in vain, 0 wait
    "#]]
    .assert_eq(&world.story);
}

#[test]
fn numbers_of_a_ramp_do_not_depend_on_how_often_anybody_looks() {
    let mut meter = Meter::new(Rate::per_second(4.0).burst(1), at(0));
    let mut taken = 0;
    for milli in 0..=10_000 {
        while meter.left(at(milli)) > 0 {
            meter.take(at(milli));
            taken += 1;
        }
    }
    assert_eq!(taken, 41);
}

fn gates() -> impl Strategy<Value = Gate> {
    let breaker =
        (1..20_u64, 1..30_u32, 0.1..1.0_f64, 1..6_u32, 1..20_u64, 0..40_u64, 0.0..1.0_f64);
    let breaker = breaker.prop_map(|(window, calls, ratio, probes, shut, more, jitter)| {
        let shut = Duration::from_secs(shut);
        Breaker::new()
            .window(Duration::from_secs(window))
            .min_calls(calls)
            .failure_ratio(ratio)
            .probes(probes)
            .shut(shut, shut + Duration::from_secs(more))
            .jitter(jitter)
    });
    let rate =
        (0.5..50.0_f64, 1..20_u32).prop_map(|(rate, burst)| Rate::per_second(rate).burst(burst));
    (proptest::option::weighted(0.9, breaker), proptest::option::of(rate))
        .prop_map(|(breaker, rate)| Gate { breaker, rate, ..Gate::new() })
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn no_story_lets_anything_begin_that_should_not(
        gate in gates(),
        moments in proptest::collection::vec((0..30_u64, any::<bool>(), 0.0..1.0_f64), 1..600),
    ) {
        let rate = gate.rate;
        let breaker = gate.breaker.clone();
        let mut world = World::new(gate);
        let (mut down, mut probes_of_turn) = (false, (0, 0));
        for (tenth, (come, changes, u)) in moments.into_iter().enumerate() {
            down ^= changes && tenth % 20 == 0;
            let (now, before) = (at(tenth as i64 * 100), world.begun.len());
            world.goes_on(now, come, down, u);
            for (_, standing) in &world.begun[before..] {
                prop_assert_ne!(*standing, Standing::Shut);
            }
            if let (Phase::Shut { until }, Some(breaker)) = (world.state.phase, &breaker) {
                let period = until.since(world.state.since).as_secs_f64();
                let least = breaker.shut.as_secs_f64() * (1.0 - breaker.jitter) - 0.01;
                let most = breaker.max_shut.as_secs_f64() * (1.0 + breaker.jitter) + 0.01;
                prop_assert!((least..=most).contains(&period), "{} {:?}", period, breaker);
            }
            if probes_of_turn.0 != world.state.turn {
                probes_of_turn = (world.state.turn, 0);
            }
            let Left { attempts, .. } = world.grants.left(now);
            prop_assert!(world.state.standing() != Standing::Shut || attempts == Some(0));
        }
        if let Some(rate) = rate {
            let times: Vec<f64> =
                world.begun.iter().map(|(when, _)| when.as_millis() as f64 / 1000.0).collect();
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first).step_by(7) {
                    let most = rate.per_second * (to - from) + f64::from(rate.burst.max(1)) + 1e-3;
                    prop_assert!((last - first + 1) as f64 <= most, "{first}..{last} {rate:?}");
                }
            }
        }
    }
}
