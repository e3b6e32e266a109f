//! Gates: calls to a dependency that is down are held back, and come back slowly.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use resurgam::gate::{Breaker, Budget, Gate, Rate, Standing};
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{Failure, GateStatus, Kind, Timestamp, WaitsFor};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::tables::{self, TransactionExt, execute, number};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Something that activities talk to: it can be down, and knows who came when.
#[derive(Default)]
struct Bank {
    is_down: AtomicBool,
    running: AtomicU32,
    most: AtomicU32,
    came: Mutex<Vec<(Timestamp, u32)>>,
}

impl Bank {
    fn is_down(&self, down: bool) {
        self.is_down.store(down, Ordering::SeqCst);
    }

    fn came(&self) -> Vec<(Timestamp, u32)> {
        self.came.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.came().len()
    }
}

const POLICY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(2)).jitter(Jitter::None).max_attempts(3);

#[activity(retry = POLICY)]
async fn charge(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    let bank = ctx.state::<Arc<Bank>>();
    bank.came.lock().unwrap().push((ctx.now(), order));
    let running = bank.running.fetch_add(1, Ordering::SeqCst) + 1;
    bank.most.fetch_max(running, Ordering::SeqCst);
    ctx.sleep(Duration::from_millis(100)).await;
    bank.running.fetch_sub(1, Ordering::SeqCst);
    match bank.is_down.load(Ordering::SeqCst) {
        true => Err(Failure::of_type("BankDown", "no answer")),
        false => Ok(order),
    }
}

fn breaker() -> Breaker {
    Breaker::new().jitter(0.0)
}

fn app(gate: Gate) -> (TestBuilder, Arc<Bank>) {
    let bank = Arc::new(Bank::default());
    (TestApp::builder().activity(charge).state(bank.clone()).gate("charge", gate), bank)
}

async fn submit(app: &TestApp, orders: std::ops::Range<u32>) {
    for order in orders {
        app.submit(&format!("order-{order}"), charge(order)).await.unwrap();
    }
}

async fn standing(app: &TestApp) -> Standing {
    let gate = app.client().gate("charge").await.unwrap();
    gate.map_or(Standing::Flowing, |gate| gate.state.standing())
}

/// How the gate stands, as it changes, second by second.
async fn story(app: &TestApp, seconds: u32, story: &mut String) {
    let mut last = None;
    for _ in 0..seconds {
        app.advance(SECOND).await;
        let Some(gate) = app.client().gate("charge").await.unwrap() else { continue };
        if last != Some(gate.state.turn) {
            let now = app.now().as_millis() / 1000 % 1000;
            writeln!(story, "{now:>4}s {}: {}", gate.state.standing().name(), gate.state.why)
                .unwrap();
            last = Some(gate.state.turn);
        }
    }
}

#[test]
async fn an_outage_uses_up_nobodys_attempts() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..100).await;
    let mut told = String::new();
    story(&app, 120, &mut told).await;
    let futile = bank.count();
    bank.is_down(false);
    story(&app, 60, &mut told).await;
    writeln!(told, "{futile} calls in vain, {} in all", bank.count()).unwrap();
    expect![[r#"
         601s shut: 20 of 20 failed
         606s shut: a probe failed
         616s shut: a probe failed
         636s shut: a probe failed
         666s shut: a probe failed
         696s shut: a probe failed
         721s shut: a probe failed
         726s ramping: the probes succeeded
         733s flowing: no call is overdue
        115 calls in vain, 215 in all
    "#]]
    .assert_eq(&told);
    for order in 0..100 {
        let instance = app.client().instance::<u32>(&format!("order-{order}")).await.unwrap();
        assert_eq!(instance.unwrap().result().await.unwrap(), order);
    }
}

#[test]
async fn a_ramp_that_nobody_waits_behind_is_over_although_the_last_calls_failed() {
    let (app, bank) = app(Gate::new().breaker(breaker().min_calls(3).probes(1)));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..3).await;
    app.advance(4 * SECOND).await;
    assert_eq!(standing(&app).await, Standing::Shut);
    bank.is_down(false);
    // One call probes and succeeds; the others fail in the ramp, and nothing comes after them.
    app.advance(Duration::from_millis(1_250)).await;
    assert_eq!(standing(&app).await, Standing::Ramping);
    bank.is_down(true);
    app.advance(Duration::from_millis(1_500)).await;
    assert_eq!((bank.count(), standing(&app).await), (6, Standing::Flowing));
    bank.is_down(false);
    for order in 0..3 {
        let instance = app.instance::<u32>(&format!("order-{order}")).await.unwrap();
        assert_eq!(instance.result().await.unwrap(), order);
    }
}

#[test]
async fn a_gate_that_is_shut_by_hand_holds_everything_back_until_its_time_is_over() {
    let (app, bank) = app(Gate::new());
    let app = app.start().await;
    app.client().shut_gate("charge").lasting(MINUTE).by("ana").await.unwrap();
    submit(&app, 0..3).await;
    app.advance(59 * SECOND).await;
    let described = app.describe("order-0").await;
    assert_eq!(described.pending[0].attempt, 0);
    assert_eq!((bank.count(), standing(&app).await), (0, Standing::Shut));
    app.advance(2 * SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (3, Standing::Flowing));
}

#[test]
async fn a_gate_can_be_shut_and_opened_while_calls_run() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..30).await;
    app.advance(SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (30, Standing::Shut));
    app.client().open_gate("charge").await.unwrap();
    app.advance(2 * SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (60, Standing::Flowing));
    bank.is_down(false);
    app.client().auto_gate("charge").await.unwrap();
    app.advance(3 * SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (90, Standing::Flowing));
}

#[test]
async fn a_pause_of_an_activity_or_a_queue_holds_calls_back_and_a_resume_lets_them_go() {
    let (app, bank) = app(Gate::new());
    let app = app.start().await;
    app.client().pause_activity("charge").by("ana").await.unwrap();
    submit(&app, 0..2).await;
    app.advance(MINUTE).await;
    assert_eq!(bank.count(), 0);
    app.client().resume_activity("charge").await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(bank.count(), 2);
    app.client().pause_queue("default").await.unwrap();
    submit(&app, 2..4).await;
    app.advance(MINUTE).await;
    assert_eq!(bank.count(), 2);
    app.client().resume_queue("default").await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(bank.count(), 4);
}

#[test]
async fn no_more_begin_than_the_rate_allows() {
    let (app, bank) = app(Gate::new().rate(Rate::per_second(5.0).burst(3)));
    let app = app.start().await;
    submit(&app, 0..20).await;
    app.advance(10 * SECOND).await;
    let came = bank.came();
    let first = came[0].0;
    let times: Vec<u128> = came.iter().map(|(at, _)| at.since(first).as_millis()).collect();
    expect!["[0, 0, 0, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000, 2200, 2400, 2600, 2800, 3000, 3200, 3400]"].assert_eq(&format!("{times:?}"));
}

#[test]
async fn no_more_run_at_once_than_the_gate_allows() {
    let (app, bank) = app(Gate::new().concurrency(4));
    let app = app.start().await;
    submit(&app, 0..40).await;
    app.advance(MINUTE).await;
    assert_eq!((bank.count(), bank.most.load(Ordering::SeqCst)), (40, 4));
}

#[test]
async fn retries_have_a_budget() {
    let budget = Budget::new().ratio(0.0).min_per_second(1.0);
    let (app, bank) = app(Gate::new().budget(budget));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..10).await;
    app.advance(6 * SECOND).await;
    // Ten first attempts, and a retry each second when the first wait is over.
    assert_eq!(bank.count(), 10 + 4);
    bank.is_down(false);
    app.advance(MINUTE).await;
    assert_eq!(bank.count(), 10 + 4 + 10);
}

#[test]
async fn a_retry_puts_a_gated_call_first_in_line() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    app.client().shut_gate("charge").await.unwrap();
    submit(&app, 0..10).await;
    app.advance(SECOND).await;
    let retried = app.client().call("order-7", "charge#2").retry().by("ana").await.unwrap();
    let told = retried.to_string();
    assert!(told.starts_with("charge#2 is first in line for gate charge (shut"), "{told}");
    assert_eq!(bank.count(), 0);
    app.client().auto_gate("charge").await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(bank.came()[0].1, 7);
}

#[test]
async fn what_operators_do_to_a_call_that_its_gate_holds_back() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    app.client().shut_gate("charge").reason("maintenance").by("bob").await.unwrap();
    submit(&app, 0..5).await;
    app.advance(SECOND).await;
    let waits = &app.describe("order-0").await.pending[0];
    assert_eq!(waits.waits_for, Some(WaitsFor::Gate));
    let held_by = "gate charge (shut 1s ago: bob wants it: maintenance)";
    assert_eq!((waits.gate.as_str(), waits.held_by.as_deref()), ("charge", Some(held_by)));
    let call = |order: u32| app.client().call(format!("order-{order}"), "charge#2");
    let resumed = call(0).resume().by("ana").await.unwrap();
    assert!(!resumed.changed(), "{resumed}");
    assert!(call(0).pause().by("ana").await.unwrap().changed());
    assert!(call(1).set_policy(RetryPolicy::once()).by("ana").await.unwrap().changed());
    assert!(call(2).complete(&7).by("ana").await.unwrap().changed());
    assert!(call(3).fail("no").by("ana").await.unwrap().changed());
    app.client().auto_gate("charge").await.unwrap();
    app.advance(MINUTE).await;
    let came: Vec<u32> = bank.came().iter().map(|(_, order)| *order).collect();
    assert_eq!(came, [1, 4]);
    assert!(call(0).resume().by("ana").await.unwrap().changed());
    app.advance(SECOND).await;
    assert_eq!(bank.count(), 3);
}

#[activity(retry = POLICY, queue_timeout = 10 * SECOND)]
async fn impatient(ctx: ActivityContext) -> Result<(), Failure> {
    ctx.state::<Arc<Bank>>().came.lock().unwrap().push((ctx.now(), 0));
    Ok(())
}

#[test]
async fn the_queue_clock_stands_still_while_a_gate_is_shut() {
    let (app, bank) = app(Gate::new());
    let app = app.activity(impatient).start().await;
    app.client().shut_gate("impatient").await.unwrap();
    let run = app.submit("call-1", impatient()).await.unwrap();
    app.advance(10 * MINUTE).await;
    assert_eq!(bank.count(), 0);
    app.client().auto_gate("impatient").await.unwrap();
    run.result().await.unwrap();
}

#[test]
async fn the_queue_clock_stands_still_while_an_activity_is_paused() {
    let (app, bank) = app(Gate::new());
    let app = app.activity(impatient).start().await;
    app.client().pause_activity("impatient").await.unwrap();
    let run = app.submit("call-1", impatient()).await.unwrap();
    app.advance(10 * MINUTE).await;
    assert_eq!(bank.count(), 0);
    app.client().resume_activity("impatient").await.unwrap();
    run.result().await.unwrap();
}

#[activity(retry = POLICY, total_timeout = MINUTE)]
async fn bounded(ctx: ActivityContext) -> Result<(), Failure> {
    ctx.state::<Arc<Bank>>().came.lock().unwrap().push((ctx.now(), 0));
    Err(Failure::of_type("BankDown", "no answer"))
}

#[test]
async fn the_whole_time_of_a_call_runs_on_and_ends_with_its_last_failure_as_the_cause() {
    let (app, bank) = app(Gate::new());
    let app = app.activity(bounded).start().await;
    let run = app.submit("call-1", bounded()).await.unwrap();
    app.advance(SECOND).await;
    app.client().shut_gate("bounded").await.unwrap();
    let failure = run.failure().await;
    assert_eq!((bank.count(), failure.kind), (1, Kind::TotalTimeout));
    assert_eq!(failure.cause.as_ref().unwrap().type_name.as_deref(), Some("BankDown"));
}

/// What holds the call of an order back, and how its gate stands.
async fn held(app: &TestApp, order: u32) -> (Option<WaitsFor>, String, GateStatus) {
    let mut described = app.describe(&format!("order-{order}")).await;
    let call = described.pending.remove(0);
    (call.waits_for, call.held_by.unwrap(), call.behind.unwrap())
}

#[test]
async fn a_call_that_waits_for_its_turn_says_what_bounds_it_and_when_it_may_begin() {
    let (app, _bank) = app(Gate::new().rate(Rate::per_second(2.0).burst(1)).concurrency(3));
    let app = app.start().await;
    submit(&app, 0..10).await;
    app.advance(Duration::from_millis(10)).await;
    let (waits_for, held_by, gate) = held(&app, 9).await;
    assert_eq!(waits_for, Some(WaitsFor::Slot));
    let expected = "its turn at gate charge (flowing; at most 2 begin each second and 3 run at once; \
                    8 calls are due before it, about 4s), or for a slot";
    assert_eq!(held_by, expected);
    assert_eq!((gate.key.as_str(), gate.due), ("charge", 8));
    assert_eq!(gate.next_turn(app.now()), Some(app.now().saturating_add(4 * SECOND)));
    assert_eq!(gate.bounds.as_ref().unwrap().concurrency, Some(3));
    // Who lists gates sees the same.
    let listed = app.client().gate("charge").await.unwrap().unwrap();
    assert_eq!((listed.due, &listed.bounds), (9, &gate.bounds));
}

#[test]
async fn a_call_that_comes_back_through_a_ramp_says_how_many_are_before_it() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..100).await;
    app.advance(4 * SECOND).await;
    let (waits_for, held_by, gate) = held(&app, 50).await;
    assert_eq!((waits_for, gate.state.standing()), (Some(WaitsFor::Gate), Standing::Shut));
    expect!["gate charge (shut 3.9s ago: 20 of 20 failed; next probe in 1.1s)"].assert_eq(&held_by);
    assert!(gate.state.next_change().unwrap() > app.now());
    bank.is_down(false);
    app.advance(3 * SECOND).await;
    let (waits_for, held_by, gate) = held(&app, 90).await;
    assert_eq!((waits_for, gate.state.standing()), (Some(WaitsFor::Gate), Standing::Ramping));
    let expected = "gate charge (ramping for 1.8s: the probes succeeded; 10 each second begin; \
                    77 calls are due before it, about 7.7s)";
    assert_eq!(held_by, expected);
    assert!(gate.next_turn(app.now()).is_some());
}

#[test]
#[should_panic(expected = "nothing is due: charge of order-0 waits for gate charge (shut")]
async fn who_waits_in_vain_for_a_call_behind_a_shut_gate_is_told_which() {
    let (app, _bank) = app(Gate::new());
    let app = app.start().await;
    app.client().shut_gate("charge").await.unwrap();
    let run = app.submit("order-0", charge(0)).await.unwrap();
    let _never = run.result().await;
}

#[test]
#[should_panic(expected = "nothing is due: charge of order-0 is paused")]
async fn who_waits_in_vain_for_a_paused_call_is_told_which() {
    let (app, bank) = app(Gate::new());
    let app = app.start().await;
    bank.is_down(true);
    let run = app.submit("order-0", charge(0)).await.unwrap();
    app.advance(SECOND).await;
    let paused = app.client().call("order-0", "charge#2").pause().by("ana").await.unwrap();
    assert!(paused.changed());
    let _never = run.result().await;
}

#[test]
async fn a_shut_gate_wakes_once_when_it_probes() {
    let hour = 60 * MINUTE;
    let gate = Gate::new().breaker(breaker().shut(hour, hour));
    let (idle, _) = app(gate.clone());
    let (app, bank) = app(gate);
    let (idle, app) = (idle.start().await, app.start().await);
    bank.is_down(true);
    submit(&app, 0..100).await;
    // By then all that were tried are due again, and nobody tidies up any more.
    for app in [&app, &idle] {
        app.advance(2 * MINUTE).await;
    }
    assert_eq!((bank.count(), standing(&app).await), (100, Standing::Shut));
    bank.is_down(false);
    let (commits, before) = (app.commits(), [app.wakes(), idle.wakes()]);
    for app in [&app, &idle] {
        app.advance(hour - 2 * MINUTE - SECOND).await;
    }
    // It wakes as often as an app that has nothing to do, and writes nothing.
    let wakes = [app.wakes() - before[0], idle.wakes() - before[1]];
    assert_eq!((wakes[0], app.commits() - commits), (wakes[1], 0));
    app.advance(2 * SECOND).await;
    assert_eq!(standing(&app).await, Standing::Ramping);
    assert!(bank.count() >= 103, "{}", bank.count());
}

const HASTY: RetryPolicy = POLICY.max_elapsed(Duration::from_secs(30));

/// The bank has never heard of order 0.
#[activity(gate = "charge", retry = HASTY)]
async fn hasty(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    let bank = ctx.state::<Arc<Bank>>();
    bank.came.lock().unwrap().push((ctx.now(), order));
    match bank.is_down.load(Ordering::SeqCst) || order == 0 {
        true => Err(Failure::of_type("BankDown", "no answer")),
        false => Ok(order),
    }
}

#[test]
async fn how_long_a_call_may_be_tried_is_asked_at_its_next_failure_behind_the_gate() {
    let (app, bank) = app(Gate::new());
    let app = app.activity(hasty).start().await;
    bank.is_down(true);
    let lost = app.submit("lost", hasty(0)).await.unwrap();
    let paid = app.submit("paid", hasty(1)).await.unwrap();
    app.advance(SECOND).await;
    app.client().shut_gate("charge").await.unwrap();
    app.advance(10 * MINUTE).await;
    assert_eq!(bank.count(), 2);
    bank.is_down(false);
    app.client().auto_gate("charge").await.unwrap();
    assert_eq!(paid.result().await.unwrap(), 1);
    let failure = lost.failure().await;
    assert_eq!((failure.why.as_deref(), failure.attempts), (Some("max_elapsed"), Some(2)));
}

#[test]
async fn calls_come_back_through_the_ramp_when_nobody_has_worked_for_an_hour() {
    let (app, bank) = app(Gate::new().breaker(breaker().min_calls(1_000)));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..100).await;
    app.advance(SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (100, Standing::Flowing));
    app.stop_working().await;
    bank.is_down(false);
    app.advance(60 * MINUTE).await;
    let began = app.now();
    app.restart().await;
    let mut told = String::new();
    story(&app, 30, &mut told).await;
    let second = |(at, _): &(Timestamp, u32)| at.since(began).as_secs();
    let seconds: Vec<u64> = bank.came().iter().skip(100).map(second).collect();
    let counts = (0..8).map(|second| seconds.iter().filter(|at| **at == second).count());
    writeln!(told, "{:?} of {}", counts.collect::<Vec<_>>(), seconds.len()).unwrap();
    expect![[r#"
         202s ramping: calls are overdue because nobody worked for a while
         209s flowing: no call is overdue
        [10, 10, 12, 13, 15, 17, 19, 4] of 100
    "#]]
    .assert_eq(&told);
}

#[activity(retry = POLICY)]
async fn book(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    if ctx.state::<Arc<Bank>>().is_down.load(Ordering::SeqCst) {
        return Err(Failure::of_type("BankDown", "no answer"));
    }
    ctx.transaction(async move |tx| {
        execute(tx, &format!("INSERT INTO booked VALUES ({order})")).await?;
        Ok(order)
    })
    .await
}

#[test]
async fn a_probe_that_succeeds_in_a_transaction_opens_the_gate() {
    let bank = Arc::new(Bank::default());
    let app = TestApp::builder().activity(book).state(bank.clone());
    let app = app.gate("book", Gate::new().breaker(breaker()));
    let app = tables::start_with(app, "CREATE TABLE booked (number BIGINT NOT NULL);").await;
    bank.is_down(true);
    for order in 0..30 {
        app.submit(&format!("order-{order}"), book(order)).await.unwrap();
    }
    app.advance(30 * SECOND).await;
    let standing = async || app.client().gate("book").await.unwrap().unwrap().state.standing();
    assert_ne!(standing().await, Standing::Flowing);
    bank.is_down(false);
    app.advance(2 * MINUTE).await;
    assert_eq!(standing().await, Standing::Flowing);
    let booked = tables::read(&app, async |tx| number(tx, "SELECT count(*) FROM booked").await);
    assert_eq!(booked.await.unwrap(), 30);
}

#[activity(gate = "charge", queue_timeout = MINUTE, total_timeout = 100 * SECOND)]
async fn hurried() -> Result<(), Failure> {
    Ok(())
}

#[test]
async fn the_whole_time_of_a_call_ends_behind_a_shut_gate_after_its_time_in_the_queue() {
    let (app, _bank) = app(Gate::new());
    let app = app.activity(hurried).start().await;
    app.client().shut_gate("charge").await.unwrap();
    let began = app.now();
    let run = app.submit("call-1", hurried()).await.unwrap();
    assert_eq!(run.failure().await.kind, Kind::TotalTimeout);
    assert_eq!(app.now().since(began), 100 * SECOND);
}

#[activity(gate = "charge")]
async fn hog(ctx: ActivityContext) -> Result<(), Failure> {
    ctx.sleep(60 * MINUTE).await;
    Ok(())
}

#[test]
async fn the_whole_time_of_a_call_ends_before_its_time_in_the_queue_that_began_anew() {
    let (app, _bank) = app(Gate::new().concurrency(1));
    let app = app.activity(hurried).activity(hog).start().await;
    app.client().shut_gate("charge").await.unwrap();
    let (hog, began) = (app.submit("hog", hog()).await.unwrap(), app.now());
    let run = app.submit("call-1", hurried()).await.unwrap();
    app.advance(90 * SECOND).await;
    app.client().auto_gate("charge").await.unwrap();
    assert_eq!(run.failure().await.kind, Kind::TotalTimeout);
    assert_eq!(app.now().since(began), 100 * SECOND);
    hog.result().await.unwrap();
}

#[test]
async fn probes_that_fail_are_free_up_to_the_number_of_attempts() {
    let (app, bank) = app(Gate::new().breaker(breaker().min_calls(1).probes(1)));
    let app = app.start().await;
    bank.is_down(true);
    let run = app.submit("order-0", charge(0)).await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(standing(&app).await, Standing::Shut);
    let counters = |described: resurgam::Description| {
        let counters = described.pending[0].counters;
        (counters.failures, counters.probed)
    };
    app.advance(40 * SECOND).await;
    assert_eq!(counters(app.describe("order-0").await), (1, 3));
    let failure = run.failure().await;
    assert_eq!((failure.attempts, bank.count()), (Some(6), 6));
}

#[test]
async fn a_process_that_stops_finds_its_gates_as_they_were() {
    let (app, bank) = app(Gate::new().breaker(breaker()));
    let app = app.start().await;
    bank.is_down(true);
    submit(&app, 0..50).await;
    app.advance(SECOND).await;
    assert_eq!(bank.count(), 50);
    app.restart().await;
    app.advance(2 * SECOND).await;
    assert_eq!((bank.count(), standing(&app).await), (50, Standing::Shut));
    bank.is_down(false);
    app.advance(MINUTE).await;
    assert_eq!((bank.count(), standing(&app).await), (100, Standing::Flowing));
}
