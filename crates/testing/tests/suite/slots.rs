//! Slots: how many attempts run at once, who gets the next one, and what a stop does to those that
//! have not begun.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, Jitter};
use resurgam::{AttemptOutcome, WaitsFor};
use resurgam_testing::{StoreCall, TestApp, TestBuilder, never};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Who runs, and who ran.
#[derive(Default)]
struct Board(Mutex<Running>);

#[derive(Default)]
struct Running {
    now: Vec<String>,
    most: usize,
    order: Vec<String>,
}

impl Board {
    fn begin(&self, name: &str) {
        let mut running = self.0.lock().unwrap();
        running.now.push(name.to_string());
        running.most = running.most.max(running.now.len());
        running.order.push(name.to_string());
    }

    fn end(&self, name: &str) {
        self.0.lock().unwrap().now.retain(|other| other != name);
    }

    /// How many of those whose name begins so run now.
    fn count(&self, begin: &str) -> usize {
        self.0.lock().unwrap().now.iter().filter(|name| name.starts_with(begin)).count()
    }

    fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }

    fn order(&self) -> String {
        self.0.lock().unwrap().order.join(" ")
    }
}

async fn on_board(ctx: &ActivityContext, name: &str) -> Result<(), Failure> {
    let board = ctx.state::<Arc<Board>>();
    board.begin(name);
    ctx.sleep(10 * SECOND).await;
    board.end(name);
    Ok(())
}

#[activity]
async fn free(ctx: ActivityContext, name: String) -> Result<(), Failure> {
    on_board(&ctx, &name).await
}

#[activity(max_concurrent = 2)]
async fn rare(ctx: ActivityContext, name: String) -> Result<(), Failure> {
    on_board(&ctx, &name).await
}

/// Calls many activities at once, in the order of their names.
#[workflow]
async fn fan_out(ctx: WorkflowContext, names: Vec<String>) -> Result<(), Failure> {
    let calls = names.into_iter().map(|name| {
        let (queue, ctx) = (if name.contains("slow") { "slow" } else { "default" }, &ctx);
        async move {
            match name.contains("rare") {
                true => ctx.call(rare(name)).queue(queue).await,
                false => ctx.call(free(name)).queue(queue).await,
            }
        }
    });
    ctx.join_all(calls.map(Box::pin)).await.map(drop)
}

fn names(of: &[(&str, usize)]) -> Vec<String> {
    let names = of.iter().flat_map(|(name, count)| (0..*count).map(move |n| format!("{name}-{n}")));
    names.collect()
}

fn app(slots: usize) -> (TestBuilder, Arc<Board>) {
    let board = Arc::new(Board::default());
    let app = TestApp::builder().workflow(fan_out).activity(free).activity(rare);
    (app.state(board.clone()).options(move |options| options.slots = slots), board)
}

#[test]
async fn a_node_runs_so_many_attempts_at_once_and_no_more() {
    let (app, board) = app(7);
    let app = app.start().await;
    let began = app.now();
    let run = app.start("fan-1", fan_out(names(&[("free", 30)]))).await;
    app.advance(SECOND).await;
    assert_eq!(board.count("free"), 7);
    let waiting = app.describe("fan-1").await.pending.into_iter();
    assert_eq!(waiting.filter(|call| call.waits_for == Some(WaitsFor::Slot)).count(), 23);
    run.result().await.unwrap();
    assert_eq!((board.most(), app.now().since(began)), (7, 50 * SECOND));
}

#[test]
async fn an_activity_and_a_queue_at_their_limits_hold_up_nobody_else() {
    let (app, board) = app(100);
    let app = app.options(|options| {
        options.queue_slots.insert("slow".to_string(), 3);
    });
    let app = app.start().await;
    // The ones that have to wait come first.
    let all = names(&[("rare", 5), ("slow", 5), ("rare-slow", 5), ("free", 20)]);
    let run = app.start("fan-1", fan_out(all)).await;
    app.advance(SECOND).await;
    let running = ["rare", "slow", "rare-slow", "free"].map(|name| board.count(name));
    assert_eq!(running, [2, 3, 0, 20]);
    run.result().await.unwrap();
    assert_eq!(board.most(), 25);
}

#[test]
async fn a_call_needs_a_slot_of_its_activity_and_one_of_its_queue() {
    let (app, board) = app(100);
    let app = app.options(|options| {
        options.queue_slots.insert("slow".to_string(), 3);
    });
    let app = app.start().await;
    let run = app.start("fan-1", fan_out(names(&[("rare-slow", 6), ("slow", 2)]))).await;
    app.advance(SECOND).await;
    assert_eq!((board.count("rare-slow"), board.count("slow")), (2, 1));
    run.result().await.unwrap();
    assert_eq!(board.most(), 3);
}

#[test]
async fn a_queue_without_slots_is_not_served_here() {
    let (one, _) = app(100);
    let one = one.options(|options| {
        options.queue_slots.insert("slow".to_string(), 0);
    });
    let app = one.start().await;
    let run = app.start("fan-1", fan_out(names(&[("slow", 2), ("free", 1)]))).await;
    app.advance(60 * MINUTE).await;
    assert_eq!(app.attempts(free), 1);
    app.restart_with(self::app(100).0).await;
    run.result().await.unwrap();
    assert_eq!(app.attempts(free), 3);
}

#[test]
async fn the_next_slot_goes_to_the_call_of_the_highest_priority_that_is_due() {
    let (app, board) = app(1);
    let app = app.start().await;
    let client = app.client();
    let start = async |id: &str, priority: i32, calls: usize| {
        let argument = fan_out(names(&[(id, calls)]));
        client.start(id, argument).priority(priority).await.unwrap();
        app.advance(SECOND).await;
    };
    start("first", 0, 1).await;
    start("low", -1, 2).await;
    start("normal", 0, 2).await;
    start("high", 9, 2).await;
    app.advance(2 * MINUTE).await;
    // The one that runs is left alone; among equals the one that has been due longest goes first.
    expect!["first-0 high-0 high-1 normal-0 normal-1 low-0 low-1"].assert_eq(&board.order());
}

#[test]
async fn the_order_of_priorities_survives_a_restart() {
    let (app, board) = app(1);
    let app = app.start().await;
    let client = app.client();
    for (id, priority) in [("first", 0), ("low", -1), ("normal", 0), ("high", 9)] {
        let start = client.start(id, fan_out(names(&[(id, 1)])));
        start.priority(priority).await.unwrap();
    }
    app.advance(SECOND).await;
    app.restart().await;
    app.advance(2 * MINUTE).await;
    // The attempt that died with the process waits a little before it is tried again.
    expect!["first-0 high-0 normal-0 first-0 low-0"].assert_eq(&board.order());
}

#[test]
async fn a_call_that_waits_for_a_slot_uses_nothing_up() {
    let (app, _) = app(1);
    let app = app.start().await;
    let run = app.start("fan-1", fan_out(names(&[("free", 100)]))).await;
    app.advance(95 * SECOND).await;
    app.restart().await;
    run.result().await.unwrap();
    let ledger = app.ledger("fan-1").await;
    assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Lost));
    assert_eq!(app.attempts(free), 101);
}

#[test]
async fn a_node_runs_a_thousand_attempts_at_once_unless_set() {
    let board = Arc::new(Board::default());
    let app = TestApp::builder().workflow(fan_out).activity(free).activity(rare);
    let app = app.state(board.clone()).start().await;
    let run = app.start("fan-1", fan_out(names(&[("free", 1_200)]))).await;
    run.result().await.unwrap();
    assert_eq!(board.most(), 1_000);
}

#[test]
async fn a_call_that_waits_for_its_activity_or_its_queue_holds_no_slot_of_the_node() {
    let (app, board) = app(4);
    let app = app.options(|options| {
        options.queue_slots.insert("slow".to_string(), 1);
    });
    let app = app.start().await;
    let run = app.start("fan-1", fan_out(names(&[("rare", 10), ("slow", 10), ("free", 1)]))).await;
    app.advance(SECOND).await;
    assert_eq!(["rare", "slow", "free"].map(|name| board.count(name)), [2, 1, 1]);
    run.result().await.unwrap();
}

#[test]
async fn calls_that_wait_for_a_slot_or_for_their_time_hold_no_task_of_the_runtime() {
    #[activity(retry = RetryPolicy::fixed(60 * MINUTE).jitter(Jitter::None))]
    async fn fail_once(ctx: ActivityContext) -> Result<(), Failure> {
        match ctx.attempt() {
            1 => Err(Failure::new("down")),
            _ => Ok(()),
        }
    }
    #[workflow]
    async fn fail_a_lot(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.join_all((0..2_000).map(|_| ctx.call(fail_once()))).await.map(drop)
    }
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (app, board) = app(10);
    let app = app.workflow(fail_a_lot).activity(fail_once).start().await;
    let failed = app.start("fail-1", fail_a_lot()).await;
    app.advance(MINUTE).await;
    // Two thousand wait for their time; the others, but for ten of them, for a slot.
    let before = alive();
    let fanned = app.start("fan-1", fan_out(names(&[("free", 2_000)]))).await;
    app.advance(SECOND).await;
    assert_eq!(board.count("free"), 10);
    assert!(before < 50 && alive() < 70, "{before}, then {}", alive());
    fanned.result().await.unwrap();
    failed.result().await.unwrap();
}

#[test]
async fn plain_functions_run_beside_each_other_on_threads_of_their_own() {
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    /// Returns when another one has begun too.
    #[activity]
    fn meet() -> Result<bool, Failure> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        while INSIDE.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        Ok(true)
    }
    #[workflow]
    async fn meet_each_other(ctx: WorkflowContext) -> Result<Vec<bool>, Failure> {
        ctx.join_all([ctx.call(meet()), ctx.call(meet())]).await
    }
    let app = TestApp::builder().workflow(meet_each_other).activity(meet).start().await;
    let run = app.start("meet-1", meet_each_other()).await;
    assert_eq!(run.result().await.unwrap(), [true, true]);
}

// Stopping.

/// May be attempted once, whatever happens.
#[activity(retry = RetryPolicy::once().idempotency(Idempotency::AtMostOnce))]
async fn launch(ctx: ActivityContext) -> Result<u32, Failure> {
    Ok(ctx.attempt())
}

#[test]
async fn an_attempt_that_was_claimed_and_not_begun_is_handed_back_by_a_stop() {
    let app = TestApp::builder().activity(launch).start().await;
    let client = app.client();
    // The claim is on its way to the store when the stop is asked for.
    app.faults().refuse(StoreCall::Commit, 3);
    let start = tokio::spawn(async move { client.submit("launch-1", launch()).await.map(drop) });
    app.advance(Duration::from_millis(5)).await;
    app.stop().await;
    app.wait_for("the answer to the start", start).await.unwrap().unwrap();
    let call = app.describe("launch-1").await.pending.remove(0);
    assert_eq!((call.attempt, call.started_at, app.attempts(launch)), (0, None, 0));
    app.restart().await;
    app.advance(SECOND).await;
    expect![[r#"
        1 +0ms RunStarted resurgam.activity {"activity":"launch","arguments":{}}
        2 +0ms ActivityScheduled launch {}
        3 +70ms ActivityCompleted #2 1
        4 +70ms RunCompleted 1
    "#]]
    .assert_eq(&app.history("launch-1").await);
    assert_eq!(app.ledger("launch-1").await, []);
}

#[test]
async fn an_attempt_that_is_cut_short_may_have_done_something_and_is_recorded() {
    #[activity(retry = RetryPolicy::once().idempotency(Idempotency::AtMostOnce))]
    async fn linger(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(60 * MINUTE).await;
        Ok(())
    }
    let app = TestApp::builder().activity(linger).start().await;
    let run = app.submit("linger-1", linger()).await.unwrap();
    app.advance(SECOND).await;
    app.stop().await;
    app.restart().await;
    let failure = run.failure().await;
    assert_eq!((failure.why.as_deref(), failure.attempts), (Some("worker_lost"), Some(1)));
    let ledger = app.ledger("linger-1").await;
    assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Interrupted));
}

#[test]
async fn a_timeout_that_passes_during_a_stop_is_a_failure_and_no_interruption() {
    const STEADY: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).unlimited();
    #[activity(retry = STEADY, timeout = 10 * SECOND)]
    async fn slow_at_first(ctx: ActivityContext) -> Result<u32, Failure> {
        if ctx.attempt() == 1 {
            ctx.sleep(MINUTE).await;
        }
        Ok(ctx.attempt())
    }
    let app = TestApp::builder().activity(slow_at_first).start().await;
    let run = app.submit("slow-1", slow_at_first()).await.unwrap();
    app.advance(5 * SECOND).await;
    app.stop().await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 2);
    let ledger = app.ledger("slow-1").await;
    assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Failed));
}

/// Its process dies three times while it runs.
#[activity]
async fn deadly(ctx: ActivityContext, name: String) -> Result<(), Failure> {
    if ctx.attempt() <= 3 {
        never(&ctx).await;
    }
    on_board(&ctx, &name).await
}

#[test]
async fn calls_that_lose_their_process_again_and_again_run_one_at_a_time_beside_healthy_ones() {
    let (app, board) = app(100);
    let app = app.activity(deadly).start().await;
    let deadly_ones = names(&[("deadly", 4)]);
    let mut runs = Vec::new();
    for name in &deadly_ones {
        runs.push(app.submit(name, deadly(name.clone())).await.unwrap());
    }
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    runs.push(app.submit("free-1", free("free-1".to_string())).await.unwrap());
    runs.push(app.submit("free-2", free("free-2".to_string())).await.unwrap());
    app.advance(SECOND).await;
    assert_eq!([board.count("deadly"), board.count("free")], [1, 2]);
    let mut waiting = Vec::new();
    for name in &deadly_ones {
        let call = app.describe(name).await.pending.remove(0);
        assert_eq!((call.counters.lost, call.attempt >= 3), (3, true));
        if !call.running {
            assert_eq!(call.waits_for, Some(WaitsFor::Poison));
            waiting.push(name);
        }
    }
    assert_eq!(waiting.len(), 3);
    // Somebody who knows better begins the count anew.
    let retried = app.act(waiting[0], "deadly#2", |call| call.retry().reset()).await.unwrap();
    assert!(retried.changed(), "{retried}");
    app.advance(SECOND).await;
    assert_eq!(board.count("deadly"), 2);
    app.advance(10 * SECOND).await;
    assert_eq!(board.count("deadly"), 1, "the next one");
    for run in runs {
        run.result().await.unwrap();
    }
}

#[test]
async fn a_call_that_may_kill_its_process_does_not_wait_behind_one_that_lives() {
    let (app, board) = app(100);
    let app = app.activity(deadly).start().await;
    let first = app.submit("deadly-0", deadly("deadly-0".to_string())).await.unwrap();
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    app.advance(SECOND).await;
    // It has succeeded by then, so the next one that gets there is alone again.
    first.result().await.unwrap();
    let second = app.submit("deadly-1", deadly("deadly-1".to_string())).await.unwrap();
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    app.advance(SECOND).await;
    assert_eq!(board.count("deadly"), 1);
    second.result().await.unwrap();
}
