//! Activities that change the user's own tables, in virtual time: both the change and the result,
//! or neither, wherever the engine is stopped.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, Jitter};
use resurgam::{Act, CallHandle, Kind};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder, TestInstance};
use resurgam_watchdog::test;

use crate::common::crashes;
use crate::common::tables::{self, Transaction, TransactionExt, execute, number};

const POLICY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(10)).max_attempts(4).jitter(Jitter::None);

const TABLES: &str = "
    CREATE TABLE account (name TEXT PRIMARY KEY, cents BIGINT NOT NULL);
    CREATE TABLE applied (key TEXT NOT NULL, cents BIGINT NOT NULL);
    INSERT INTO account VALUES ('ada', 100), ('bob', 0);";

const OF_ADA: &str = "SELECT cents FROM account WHERE name = 'ada'";
const OF_BOB: &str = "SELECT cents FROM account WHERE name = 'bob'";

/// Moves money, and notes by which call.
async fn pay(tx: &Transaction<'_>, key: &str, cents: i64) -> Result<i64, Failure> {
    let take = format!("UPDATE account SET cents = cents - {cents} WHERE name = 'ada'");
    let give = format!("UPDATE account SET cents = cents + {cents} WHERE name = 'bob'");
    let note = format!("INSERT INTO applied VALUES ('{key}', {cents})");
    for change in [take, give, note] {
        execute(tx, &change).await?;
    }
    number(tx, OF_ADA).await
}

#[activity(retry = POLICY)]
async fn transfer(ctx: ActivityContext, cents: i64) -> Result<i64, Failure> {
    let key = ctx.idempotency_key();
    ctx.transaction(async move |tx| pay(tx, &key, cents).await).await
}

/// The first attempts write and then fail, each in another way.
#[activity(retry = POLICY)]
async fn shaky(ctx: ActivityContext, cents: i64) -> Result<i64, Failure> {
    let (key, attempt) = (ctx.idempotency_key(), ctx.attempt());
    ctx.transaction(async move |tx| {
        let left = pay(tx, &key, cents).await?;
        match attempt {
            1 => Err(Failure::of_type("Gloomy", "not today")),
            2 => panic!("ink all over the ledger"),
            _ => Ok(left),
        }
    })
    .await
}

#[activity(retry = POLICY)]
async fn add(a: i64, b: i64) -> Result<i64, Failure> {
    Ok(a + b)
}

#[workflow]
async fn once(ctx: WorkflowContext) -> Result<i64, Failure> {
    ctx.call(transfer(30)).await
}

#[workflow]
async fn three_steps(ctx: WorkflowContext) -> Result<i64, Failure> {
    let first = ctx.call(transfer(10)).await?;
    let second = ctx.call(shaky(20)).await?;
    let both = ctx.join_all([ctx.call(transfer(1)), ctx.call(transfer(2))]).await?;
    ctx.call(add(first + second, both.len() as i64)).await
}

fn builder() -> TestBuilder {
    builder_of(TestApp::builder())
}

fn builder_of(builder: TestBuilder) -> TestBuilder {
    builder.workflow(once).workflow(three_steps).activity(transfer).activity(shaky).activity(add)
}

async fn app() -> TestApp {
    start(builder()).await
}

async fn start(builder: TestBuilder) -> TestApp {
    tables::start_with(builder, TABLES).await
}

/// What ada and bob have, and how many transfers were applied.
async fn books(app: &TestApp) -> (i64, i64, i64) {
    let read = tables::read(app, async |tx| {
        let applied = number(tx, "SELECT count(*) FROM applied").await?;
        Ok((number(tx, OF_ADA).await?, number(tx, OF_BOB).await?, applied))
    });
    read.await.unwrap()
}

async fn check<T: serde::de::DeserializeOwned>(run: &TestInstance<T>, expect: Expect) {
    expect.assert_eq(&run.history().await);
}

/// Nothing is left of an instance but its history.
async fn nothing_is_left(app: &TestApp, id: &str) {
    let description = app.describe(id).await;
    assert_eq!(description.pending, []);
    let store = app.client().handle().store().clone();
    assert_eq!(store.messages(description.instance.uid).await.unwrap(), []);
}

#[test]
async fn the_change_and_the_result_are_recorded_together() {
    let app = app().await;
    let run = app.start("run", once()).await;
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(books(&app).await, (70, 30, 1));
    // The start with its first turn, the transaction, and the turn that follows it.
    assert_eq!(app.commits(), 3);
    check(
        &run,
        expect![[r#"
            1 +0ms RunStarted once {}
            2 +0ms ActivityScheduled transfer {"cents":30}
            3 +0ms ActivityCompleted #2 70
            4 +0ms RunCompleted 70
        "#]],
    )
    .await;
    nothing_is_left(&app, "run").await;
}

#[test]
async fn a_bare_activity_can_have_a_transaction() {
    let app = app().await;
    let run = app.submit("gift", transfer(30)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(books(&app).await, (70, 30, 1));
}

#[test]
async fn failures_and_panics_leave_nothing_behind_and_are_retried_by_policy() {
    let app = app().await;
    let run = app.submit("gift", shaky(30)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(books(&app).await, (70, 30, 1));
    assert_eq!(app.attempts(shaky), 3);
    check(
        &run,
        expect![[r#"
            1 +0ms RunStarted resurgam.activity {"activity":"shaky","arguments":{"cents":30}}
            2 +0ms ActivityScheduled shaky {"cents":30}
              +0ms shaky#2 attempt 1 failed: Gloomy: not today; again in 10s
              +10s shaky#2 attempt 2 failed: panic: ink all over the ledger; again in 10s
            3 +20s ActivityCompleted #2 (attempt 3) 70
            4 +20s RunCompleted 70
        "#]],
    )
    .await;
}

#[test]
async fn a_crash_at_any_commit_applies_everything_once() {
    let quiet = app().await;
    let end = quiet.start("run", three_steps()).await.result().await.unwrap();
    let commits = quiet.commits();
    assert_eq!(books(&quiet).await, (67, 33, 4));
    for crash in crashes(commits) {
        let app = app().await;
        app.faults().crash(crash);
        let run = app.start("run", three_steps()).await;
        let result = run.result().await;
        let story = run.history().await;
        assert_eq!(result.unwrap(), end, "{crash:?}\n{story}");
        assert_eq!(books(&app).await, (67, 33, 4), "{crash:?}\n{story}");
        nothing_is_left(&app, "run").await;
    }
}

#[test]
async fn so_it_is_when_runs_do_not_stay_in_memory() {
    let cold = || builder().options(|options| options.hot_runs = 0);
    for crash in [None, Some(Crash::BeforeCommit(4)), Some(Crash::AfterCommit(4))] {
        let app = start(cold()).await;
        crash.into_iter().for_each(|crash| app.faults().crash(crash));
        let runs = [app.start("a", once()).await, app.start("b", once()).await];
        for run in &runs {
            run.result().await.unwrap();
        }
        assert_eq!(books(&app).await, (40, 60, 2), "{crash:?}");
        nothing_is_left(&app, "a").await;
        nothing_is_left(&app, "b").await;
    }
}

#[test]
async fn a_store_in_trouble_is_waited_for_and_costs_no_attempt() {
    let app = app().await;
    app.faults().refuse(StoreCall::Transact, 20);
    let run = app.start("run", once()).await;
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(app.faults().refusals_left(StoreCall::Transact), 0);
    assert_eq!((app.attempts(transfer), app.ledger("run").await.len()), (1, 0));
    assert_eq!(books(&app).await, (70, 30, 1));
}

#[activity(retry = POLICY, timeout = Duration::from_secs(5))]
async fn hasty(ctx: ActivityContext, cents: i64) -> Result<i64, Failure> {
    let key = ctx.idempotency_key();
    ctx.transaction(async move |tx| pay(tx, &key, cents).await).await
}

#[test]
async fn an_attempt_whose_time_is_up_does_not_write_later() {
    let app = start(builder().activity(hasty)).await;
    // About as many as fit into eight seconds: the first attempt is timed out.
    app.faults().refuse(StoreCall::Transact, 14);
    let run = app.submit("gift", hasty(30)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(books(&app).await, (70, 30, 1));
    let ledger = app.ledger("gift").await;
    let kinds: Vec<Kind> = ledger.iter().map(|row| row.failure.clone().unwrap().kind).collect();
    assert_eq!(kinds, [Kind::Timeout]);
    assert_eq!(app.attempts(hasty), 2);
}

/// Does not end when it is told to, and then wants to write.
#[activity(retry = POLICY, timeout = Duration::from_secs(5))]
async fn stubborn(ctx: ActivityContext, cents: i64) -> Result<i64, Failure> {
    if ctx.attempt() == 1 {
        ctx.sleep(Duration::from_secs(6)).await;
    }
    let heard = ctx.state::<Heard>();
    let key = ctx.idempotency_key();
    let ended = ctx.transaction(async move |tx| pay(tx, &key, cents).await).await;
    heard.lock().unwrap().push(ended.clone().unwrap_err().to_string());
    ended
}

/// What attempts heard instead of being over.
type Heard = Arc<Mutex<Vec<String>>>;

#[workflow]
async fn impatient(ctx: WorkflowContext) -> Result<String, Failure> {
    match ctx.timeout(Duration::from_secs(3), ctx.call(stubborn(30))).await {
        Ok(left) => Ok(format!("{} left", left?)),
        Err(_) => {
            ctx.sleep(Duration::from_secs(60)).await?;
            Ok("gave up".to_string())
        }
    }
}

const LOST: &str =
    "cancelled: the attempt lost its claim before its transaction began; nothing was written";

#[test]
async fn an_attempt_that_was_timed_out_is_told_that_it_lost_its_claim() {
    let heard = Heard::default();
    let app = start(builder().activity(stubborn).state(heard.clone())).await;
    let run = app.submit("gift", stubborn(30)).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(*heard.lock().unwrap(), [LOST]);
    assert_eq!(books(&app).await, (70, 30, 1));
    assert_eq!(app.attempts(stubborn), 2);
}

#[test]
async fn an_attempt_of_a_call_that_was_given_up_writes_nothing() {
    #[activity]
    async fn late(ctx: ActivityContext) -> Result<i64, Failure> {
        ctx.cancelled().await;
        let key = ctx.idempotency_key();
        let ended = ctx.transaction(async move |tx| pay(tx, &key, 30).await).await;
        ctx.state::<Heard>().lock().unwrap().push(ended.clone().unwrap_err().to_string());
        ended
    }
    #[workflow]
    async fn gives_up(ctx: WorkflowContext) -> Result<bool, Failure> {
        let given_up = ctx.timeout(Duration::from_secs(3), ctx.call(late())).await.is_err();
        ctx.sleep(Duration::from_secs(60)).await?;
        Ok(given_up)
    }
    let heard = Heard::default();
    let app = start(builder().workflow(gives_up).activity(late).state(heard.clone())).await;
    let run = app.start("run", gives_up()).await;
    assert!(run.result().await.unwrap());
    assert_eq!(*heard.lock().unwrap(), [LOST]);
    assert_eq!(books(&app).await, (100, 0, 0));
    nothing_is_left(&app, "run").await;
}

#[test]
async fn a_call_that_is_given_up_while_the_store_is_in_trouble_writes_nothing() {
    let heard = Heard::default();
    let app = start(builder().workflow(impatient).activity(stubborn).state(heard.clone())).await;
    app.faults().refuse(StoreCall::Transact, 30);
    let run = app.start("run", impatient()).await;
    assert_eq!(run.result().await.unwrap(), "gave up");
    assert_eq!(books(&app).await, (100, 0, 0));
    nothing_is_left(&app, "run").await;
}

/// A transaction that stays with the store until the test lets it go on.
struct Gate {
    inside: AtomicBool,
    open: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    fn new() -> (Arc<Self>, mpsc::Sender<()>) {
        let (opens, open) = mpsc::channel();
        (Arc::new(Gate { inside: AtomicBool::new(false), open: Mutex::new(open) }), opens)
    }

    fn pass(&self) {
        self.inside.store(true, Ordering::SeqCst);
        let opened = self.open.lock().unwrap().recv_timeout(Duration::from_secs(120));
        opened.expect("the test opens the gate");
    }

    async fn somebody_is_inside(&self) {
        while !self.inside.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }
}

#[activity]
async fn gated(ctx: ActivityContext) -> Result<i64, Failure> {
    let (gate, key) = (ctx.state::<Arc<Gate>>(), ctx.idempotency_key());
    ctx.transaction(async move |tx| {
        gate.pass();
        pay(tx, &key, 30).await
    })
    .await
}

#[activity]
async fn refund(cents: i64) -> Result<i64, Failure> {
    Ok(cents)
}

/// Ends while the transaction is with the store.
#[activity]
async fn meanwhile(ctx: ActivityContext) -> Result<i64, Failure> {
    ctx.state::<Arc<Gate>>().somebody_is_inside().await;
    Ok(0)
}

type Wait = std::pin::Pin<Box<dyn Future<Output = Result<i64, Failure>> + Send>>;

#[workflow]
async fn changes_its_mind(ctx: WorkflowContext, undo: bool) -> Result<i64, Failure> {
    let call: Wait = match undo {
        true => Box::pin(async_call(ctx.call(gated()).compensate_with(|_| refund(30)))),
        false => Box::pin(async_call(ctx.call(gated()))),
    };
    let other: Wait = Box::pin(async_call(ctx.call(meanwhile())));
    let (_, first) = ctx.race([call, other]).await;
    first?;
    match undo {
        true => Err(Failure::terminal("another mind")),
        false => Ok(1),
    }
}

async fn async_call(call: impl IntoFuture<Output = Result<i64, Failure>>) -> Result<i64, Failure> {
    call.await
}

/// Lets the gate open once the engine has had time to take notice of everything else.
fn open_later(gate: Arc<Gate>, opens: mpsc::Sender<()>) {
    tokio::spawn(async move {
        gate.somebody_is_inside().await;
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        opens.send(()).unwrap();
    });
}

fn gated_builder(gate: &Arc<Gate>) -> TestBuilder {
    builder()
        .workflow(changes_its_mind)
        .activity(gated)
        .activity(meanwhile)
        .activity(refund)
        .state(gate.clone())
}

#[test]
async fn a_result_that_comes_while_its_call_is_given_up_is_dropped_without_a_trace() {
    let (gate, opens) = Gate::new();
    let app = start(gated_builder(&gate)).await;
    if tables::has_one_writer() {
        open_later(gate, opens);
        let run = app.start("run", changes_its_mind(false)).await;
        assert_eq!(run.result().await.unwrap(), 1);
        // It was in time, and stays; the workflow did not want to know.
        assert_eq!(books(&app).await, (70, 30, 1));
    } else {
        let run = app.start("run", changes_its_mind(false)).await;
        assert_eq!(run.result().await.unwrap(), 1);
        // The call was given up first: the claim is gone, and with it what was written.
        opens.send(()).unwrap();
        app.advance(Duration::from_secs(60)).await;
        assert_eq!(books(&app).await, (100, 0, 0));
    }
    nothing_is_left(&app, "run").await;
}

#[test]
async fn a_result_that_comes_while_its_call_settles_is_undone() {
    let (gate, opens) = Gate::new();
    let app = start(gated_builder(&gate)).await;
    open_later(gate, opens);
    let began = app.now();
    let run = app.start("run", changes_its_mind(true)).await;
    assert_eq!(run.failure().await.message, "another mind");
    // The step that gave it up was written although the task was gone by then: nothing was lost
    // with it, and nothing waited.
    assert_eq!((app.attempts(refund), app.attempts(meanwhile)), (1, 1));
    assert_eq!(app.now(), began);
    assert_eq!(books(&app).await, (70, 30, 1));
    nothing_is_left(&app, "run").await;
}

#[test]
async fn a_report_that_comes_while_the_store_decides_waits_for_it() {
    #[activity]
    async fn loses_patience(ctx: ActivityContext) -> Result<i64, Failure> {
        let (gate, key) = (ctx.state::<Arc<Gate>>(), ctx.idempotency_key());
        let inside = gate.clone();
        let transaction = ctx.transaction(async move |tx| {
            gate.pass();
            pay(tx, &key, 30).await
        });
        tokio::select! {
            ended = transaction => ended,
            () = inside.somebody_is_inside() => Err(Failure::terminal("took too long")),
        }
    }
    let (gate, opens) = Gate::new();
    let app = start(builder().activity(loses_patience).state(gate.clone())).await;
    open_later(gate, opens);
    let began = app.now();
    let run = app.submit("run", loses_patience()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    // Taken at once, it would have ended the call in a step that the store cannot write any more.
    assert_eq!(app.now(), began);
    assert_eq!((app.attempts(loses_patience), app.ledger("run").await.len()), (1, 0));
    assert_eq!(books(&app).await, (70, 30, 1));
}

/// What an operator does, by name.
type Verb = (&'static str, fn(&CallHandle) -> Act);

/// What operators do while the transaction of a call is with the store.
const VERBS: [Verb; 6] = [
    ("retry", |call| call.retry()),
    ("pause", |call| call.pause()),
    ("resume", |call| call.resume()),
    ("complete", |call| call.complete(&9)),
    ("fail", |call| call.fail("enough")),
    ("set-policy", |call| call.set_policy(RetryPolicy::once())),
];

#[test]
async fn what_an_operator_asks_for_while_the_store_decides_about_a_call_ends_it_no_second_time() {
    for (name, verb) in VERBS {
        let (gate, opens) = Gate::new();
        let app = start(gated_builder(&gate)).await;
        let run = app.submit("run", gated()).await.unwrap();
        gate.somebody_is_inside().await;
        // With one writer nobody can even ask while somebody else is in a transaction.
        let is_asked_first = !tables::has_one_writer() && !["complete", "fail"].contains(&name);
        if !is_asked_first {
            open_later(gate, opens.clone());
        }
        let acted = app.act("run", "gated#2", |call| verb(call).by("ana")).await.unwrap();
        opens.send(()).unwrap();
        assert_eq!(run.result().await.unwrap(), 70, "{name}: {acted}");
        assert_eq!(books(&app).await, (70, 30, 1), "{name}");
        assert_eq!(app.attempts(gated), 1, "{name}");
        match (name, is_asked_first) {
            // They change the call, which the transaction ends all the same.
            ("pause" | "set-policy", true) => assert!(acted.changed(), "{name}: {acted}"),
            _ => assert!(!acted.changed(), "{name}: {acted}"),
        }
        nothing_is_left(&app, "run").await;
    }
}

/// Lets everybody who is inside go on, also those who come again after a crash.
fn open_for_all(gate: Arc<Gate>, opens: mpsc::Sender<()>) {
    tokio::spawn(async move {
        loop {
            gate.somebody_is_inside().await;
            gate.inside.store(false, Ordering::SeqCst);
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            if opens.send(()).is_err() {
                return;
            }
        }
    });
}

/// Acts on a call with a transaction while a process crashes, and answers how many commits there
/// were. The money moves once if the transaction ends the call, and else not at all.
async fn act_in_transaction((name, verb): Verb, crash: Option<Crash>) -> u64 {
    let (gate, opens) = Gate::new();
    let app = start(gated_builder(&gate)).await;
    open_for_all(gate, opens);
    crash.into_iter().for_each(|crash| app.faults().crash(crash));
    let run = app.submit("run", gated()).await.unwrap();
    let acted = app.act("run", "gated#2", |call| verb(call).by("ana")).await.unwrap();
    app.advance(Duration::from_secs(60)).await;
    let what = format!("{name} {crash:?}: {acted}");
    if app.describe("run").await.pending.first().is_some_and(|call| call.paused.is_some()) {
        assert_eq!((name, books(&app).await), ("pause", (100, 0, 0)), "{what}");
        let resumed = app.act("run", "gated#2", |call| call.resume()).await.unwrap();
        assert!(resumed.changed(), "{what}: {resumed}");
    }
    let result = run.result().await;
    let story = app.history("run").await;
    match result {
        Ok(70) => assert_eq!(books(&app).await, (70, 30, 1), "{what}\n{story}"),
        ended => {
            assert_eq!(books(&app).await, (100, 0, 0), "{what}\n{story}");
            assert!(["complete", "fail"].contains(&name) && acted.changed(), "{what}: {ended:?}");
        }
    }
    assert!(story.matches("operator ana").count() <= 1, "{what}\n{story}");
    nothing_is_left(&app, "run").await;
    app.commits()
}

#[test(minutes = 15)]
async fn an_operator_and_a_transaction_end_a_call_once_whatever_crashes() {
    for verb in VERBS {
        for crash in crashes(act_in_transaction(verb, None).await) {
            act_in_transaction(verb, Some(crash)).await;
        }
    }
}

#[test]
async fn nothing_runs_after_a_transaction_that_is_recorded() {
    static AFTER: AtomicU32 = AtomicU32::new(0);
    #[activity]
    async fn goes_on(ctx: ActivityContext) -> Result<i64, Failure> {
        let key = ctx.idempotency_key();
        let left: i64 = ctx.transaction(async move |tx| pay(tx, &key, 30).await).await?;
        AFTER.fetch_add(1, Ordering::SeqCst);
        Ok(left + 1_000)
    }
    let app = start(builder().activity(goes_on)).await;
    let run = app.submit("run", goes_on()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    app.advance(Duration::from_secs(60)).await;
    assert_eq!(AFTER.load(Ordering::SeqCst), 0);
}

#[test]
async fn a_transaction_that_returns_something_else_is_refused_before_it_begins() {
    #[activity]
    async fn confused(ctx: ActivityContext) -> Result<String, Failure> {
        let key = ctx.idempotency_key();
        let left = ctx.transaction(async move |tx| pay(tx, &key, 30).await).await?;
        Ok(left.to_string())
    }
    let app = start(builder().activity(confused)).await;
    let failure = app.submit("run", confused()).await.unwrap().failure().await;
    assert_eq!(
        failure.to_string(),
        "BadOutput: the transaction of activity confused returns i64, and the activity \
         alloc::string::String; what the transaction returns is the activity's result"
    );
    assert_eq!((app.attempts(confused), books(&app).await), (1, (100, 0, 0)));
}

#[test]
async fn after_a_transaction_that_failed_an_attempt_can_have_another() {
    #[activity]
    async fn has_a_plan_b(ctx: ActivityContext) -> Result<i64, Failure> {
        let key = ctx.idempotency_key();
        let other = key.clone();
        let broke = ctx.transaction(async move |tx| {
            pay(tx, &key, 500).await?;
            Err::<i64, _>(Failure::new("not enough"))
        });
        match broke.await {
            Err(failure) if failure.message == "not enough" => {
                ctx.transaction(async move |tx| pay(tx, &other, 5).await).await
            }
            ended => ended,
        }
    }
    let app = start(builder().activity(has_a_plan_b)).await;
    let run = app.submit("run", has_a_plan_b()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 95);
    assert_eq!((app.attempts(has_a_plan_b), books(&app).await), (1, (95, 5, 1)));
}

#[test]
async fn two_transactions_at_once_are_one_too_many() {
    static SECOND: Mutex<Option<Failure>> = Mutex::new(None);
    #[activity]
    async fn greedy(ctx: ActivityContext) -> Result<i64, Failure> {
        let (key, other) = (ctx.idempotency_key(), ctx.idempotency_key());
        let first = ctx.transaction(async move |tx| pay(tx, &key, 30).await);
        let second = async {
            let ended = ctx.transaction(async move |tx| pay(tx, &other, 30).await).await;
            *SECOND.lock().unwrap() = ended.err();
            std::future::pending().await
        };
        tokio::select! { biased; ended = first => ended, ended = second => ended }
    }
    let app = start(builder().activity(greedy)).await;
    let run = app.submit("run", greedy()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 70);
    assert_eq!(books(&app).await, (70, 30, 1));
    if let Some(second) = SECOND.lock().unwrap().take() {
        assert_eq!(second.type_name.as_deref(), Some("SecondTransaction"));
    }
}

#[test]
async fn what_is_not_allowed_ends_the_call_and_is_named() {
    #[activity(retry = POLICY)]
    async fn nosy(ctx: ActivityContext) -> Result<i64, Failure> {
        ctx.transaction(async |tx| {
            execute(tx, tables::trespass().0).await?;
            Ok(0)
        })
        .await
    }
    let app = start(builder().activity(nosy)).await;
    let failure = app.submit("run", nosy()).await.unwrap().failure().await;
    assert_eq!(failure.to_string(), tables::trespass().1);
    assert_eq!(app.attempts(nosy), 1);
    let read = tables::read(&app, async |tx| execute(tx, "DELETE FROM account").await).await;
    assert_eq!(read.unwrap_err(), tables::only_read());
}

#[test]
async fn a_transaction_that_takes_too_long_is_a_timeout_for_the_policy() {
    // On a busy machine any transaction may take too long, and is tried once more.
    const PATIENT: RetryPolicy = POLICY.max_attempts(100);
    #[activity(retry = PATIENT)]
    async fn endless(ctx: ActivityContext) -> Result<i64, Failure> {
        let attempt = ctx.attempt();
        let key = ctx.idempotency_key();
        ctx.transaction(async move |tx| {
            if attempt < 3 {
                execute(tx, tables::endless()).await?;
            }
            pay(tx, &key, 30).await
        })
        .await
    }
    let app = start(tables::in_a_hurry(builder().activity(endless))).await;
    assert_eq!(app.submit("run", endless()).await.unwrap().result().await.unwrap(), 70);
    let kinds = app.ledger("run").await.into_iter().map(|row| row.failure.unwrap().kind);
    let kinds: Vec<Kind> = kinds.collect();
    assert!(kinds.len() >= 2 && kinds.iter().all(|kind| *kind == Kind::Timeout), "{kinds:?}");
    assert_eq!(books(&app).await, (70, 30, 1));
}

#[test]
async fn a_result_that_is_too_large_leaves_nothing_behind() {
    #[activity(retry = POLICY)]
    async fn wordy(ctx: ActivityContext) -> Result<String, Failure> {
        let key = ctx.idempotency_key();
        ctx.transaction(async move |tx| {
            pay(tx, &key, 30).await?;
            Ok("x".repeat(100))
        })
        .await
    }
    let app = start(builder().activity(wordy).options(|options| options.max_payload = 60)).await;
    let failure = app.submit("run", wordy()).await.unwrap().failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("PayloadTooLarge"));
    assert_eq!((app.attempts(wordy), books(&app).await), (1, (100, 0, 0)));
}

#[test]
async fn an_activity_that_may_run_once_is_not_in_doubt_when_its_transaction_was_recorded() {
    const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);
    #[activity(retry = ONCE)]
    async fn delicate(ctx: ActivityContext) -> Result<i64, Failure> {
        let key = ctx.idempotency_key();
        ctx.transaction(async move |tx| pay(tx, &key, 30).await).await
    }
    for (crash, done) in [(Crash::BeforeCommit(2), false), (Crash::AfterCommit(2), true)] {
        let app = start(builder().activity(delicate)).await;
        app.faults().crash(crash);
        let result = app.submit("run", delicate()).await.unwrap().result().await;
        assert_eq!(result.is_ok(), done, "{result:?}");
        assert_eq!(books(&app).await.2, i64::from(done));
    }
}

#[test]
async fn attempts_that_run_twice_write_once() {
    let app = start(builder_of(TestApp::builder().run_attempts_twice())).await;
    let run = app.start("run", three_steps()).await;
    run.result().await.unwrap();
    assert_eq!(books(&app).await, (67, 33, 4));
}

#[test]
async fn tables_can_be_changed_outside_of_activities() {
    let app = app().await;
    let bob = tables::write(&app, async |tx| {
        execute(tx, "UPDATE account SET cents = 7 WHERE name = 'bob'").await?;
        number(tx, OF_BOB).await
    });
    assert_eq!(bob.await.unwrap(), 7);
    let failed = tables::write(&app, async |tx| {
        execute(tx, "UPDATE account SET cents = 0").await?;
        Err::<(), _>(Failure::new("on second thoughts"))
    });
    assert_eq!(failed.await.unwrap_err(), "on second thoughts");
    assert_eq!(books(&app).await, (100, 7, 0));
}
