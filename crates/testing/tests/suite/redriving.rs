//! Dead letters that are redriven in their run: which ones are, with which idempotency keys, and
//! once whatever crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::{
    Act, CallKey, Client, ClosedFilter, DeadLetter, DeadLetterFilter, IfExists, LetterState,
    Redrive, ResetTo, RunHandle, Seq,
};
use resurgam_testing::{TestApp, replay};
use resurgam_watchdog::test;
use serde_json::json;

use crate::common::{crashes, later};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const KEPT: RetryPolicy = RetryPolicy::fixed(SECOND)
    .max_attempts(2)
    .jitter(Jitter::None)
    .on_exhausted(Exhausted::DeadLetter);

/// Whether the bank answers.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicBool>);

impl Bank {
    fn is_up(&self, up: bool) {
        self.0.store(up, Ordering::SeqCst);
    }
}

/// Answers with its idempotency key, without what differs from test to test.
fn place(ctx: &ActivityContext, of: &str) -> String {
    let key = ctx.idempotency_key();
    let place = key.split_once('/').map_or("", |(_, place)| place);
    format!("{of} {place}")
}

#[activity(retry = KEPT)]
async fn charge(ctx: ActivityContext, of: String) -> Result<String, Failure> {
    match ctx.state::<Bank>().0.load(Ordering::SeqCst) {
        true => Ok(place(&ctx, &of)),
        false => Err(Failure::of_type("BankDown", format!("no answer to {of}"))),
    }
}

#[activity]
async fn reserve(ctx: ActivityContext, of: String) -> Result<String, Failure> {
    Ok(place(&ctx, &of))
}

#[activity]
async fn undo(of: String) -> Result<String, Failure> {
    Ok(of)
}

#[workflow]
async fn order(ctx: WorkflowContext) -> Result<String, Failure> {
    let item: String = ctx.signal("item").await?;
    let reserved = ctx.call(reserve(item.clone())).await?;
    let paid = ctx.call(charge(item)).await?;
    let sent = ctx.call(reserve("lorry".to_string())).await?;
    Ok(format!("{reserved}, {paid}, {sent}"))
}

/// Three calls of one turn, of which the second fails.
#[workflow]
async fn together(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let all = [
        ctx.call(reserve("seat".to_string())).boxed(),
        ctx.call(charge("seat".to_string())).boxed(),
        ctx.call(reserve("meal".to_string())).boxed(),
    ];
    ctx.join_all(all).await
}

/// A call of a later turn than the one that fails.
#[workflow]
async fn side_by_side(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let other = ctx.clone();
    let twice = Box::pin(async move {
        other.call(reserve("first".to_string())).await?;
        other.call(reserve("second".to_string())).await
    });
    ctx.join_all([ctx.call(charge("it".to_string())).boxed(), twice]).await
}

/// Does what it is told about the failure.
#[workflow]
async fn careful(ctx: WorkflowContext, then: String) -> Result<String, Failure> {
    let failed = ctx.call(charge("it".to_string())).await;
    match (failed, then.as_str()) {
        (Ok(paid), _) => Ok(paid),
        (Err(_), "goes on") => Ok("paid in cash".to_string()),
        (Err(_), "waits") => ctx.signal("go").await,
        (Err(_), "fails otherwise") => Err(Failure::terminal("no money")),
        (Err(failure), "wraps") => Err(Failure::new("not paid").caused_by(failure)),
        (Err(failure), "adds to it") => Err(failure.with_details(json!({"others": 2}))),
        (Err(_), "calls again") => ctx.call(charge("it".to_string())).await,
        (Err(failure), _) => Err(failure),
    }
}

#[workflow]
async fn saga(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.call(reserve("seat".to_string())).compensate_with(|_| undo("seat".to_string())).await?;
    ctx.call(charge("seat".to_string())).await
}

#[workflow]
async fn parent(ctx: WorkflowContext) -> Result<String, Failure> {
    let _failed = ctx.child(careful("passes on".to_string())).await;
    ctx.signal("go").await
}

async fn app() -> (TestApp, Bank) {
    let bank = Bank::default();
    let app = TestApp::builder()
        .workflow(order)
        .workflow(together)
        .workflow(side_by_side)
        .workflow(careful)
        .workflow(saga)
        .workflow(parent)
        .activity(charge)
        .activity(reserve)
        .activity(undo)
        .state(bank.clone())
        .start()
        .await;
    (app, bank)
}

async fn letters(app: &TestApp, state: LetterState) -> Vec<DeadLetter> {
    let filter = DeadLetterFilter { state, ..DeadLetterFilter::default() };
    app.client().dead_letters(filter).await.unwrap()
}

/// The call of the only letter that is open.
async fn letter(app: &TestApp) -> CallKey {
    let open = letters(app, LetterState::Open).await;
    assert_eq!(open.len(), 1, "{open:?}");
    open[0].call
}

/// Redrives a letter, also when a crash comes in between.
async fn redrive(app: &TestApp, call: CallKey, how: impl Fn(Redrive) -> Redrive) -> String {
    let id = format!("redrive-{}", app.now().as_millis());
    let redrive = |client: &Client| how(client.redrive(call).by("ana").request_id(&id));
    app.ask("redrive a letter", redrive).await.unwrap().to_string()
}

/// The histories of these runs.
async fn runs(app: &TestApp, runs: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    for run in runs {
        text += &format!("run {run}\n{}", app.run_history("it", run).await);
    }
    text
}

/// Compares what is told, and that it is the same after a crash at any commit. Each time exactly
/// one letter is redriven.
async fn check(play: impl AsyncFn(&TestApp, &Bank) -> String, expected: Expect) {
    let (app, bank) = app().await;
    let story = play(&app, &bank).await;
    expected.assert_eq(&story);
    let redriven = letters(&app, LetterState::Redriven).await.len();
    for crash in crashes(app.commits()) {
        let (app, bank) = self::app().await;
        app.faults().crash(crash);
        let crashed = play(&app, &bank).await;
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
        assert_eq!(letters(&app, LetterState::Redriven).await.len(), redriven, "{crash:?}");
    }
}

#[test]
async fn a_redriven_call_has_the_key_that_it_had_and_a_fresh_budget() {
    let play = async |app: &TestApp, bank: &Bank| {
        app.start("it", order()).await;
        app.signal("it", "item", &"book").await.unwrap();
        app.advance(HOUR).await;
        // The bank is still down: it fails in the same way, and is kept again.
        redrive(app, letter(app).await, |redrive| redrive.reason("try once")).await;
        app.advance(HOUR).await;
        bank.is_up(true);
        redrive(app, letter(app).await, |redrive| redrive).await;
        app.advance(HOUR).await;
        runs(app, 1..=3).await
    };
    check(play, expect![[r#"
        run 1
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms ActivityScheduled reserve {"of":"book"}
        4 +0ms ActivityCompleted #3 "book 1/3"
        5 +0ms ActivityScheduled charge {"of":"book"}
          +0ms charge#5 attempt 1 failed: BankDown: no answer to book; again in 1s
          +1s charge#5 attempt 2 failed: BankDown: no answer to book
        6 +1s ActivityFailed #5 (attempt 2) max_attempts: BankDown: no answer to book
        7 +1s RunFailed BankDown: no answer to book
        8 +1h RunContinued by Reset
        run 2
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms ActivityScheduled reserve {"of":"book"}
        4 +0ms ActivityCompleted #3 "book 1/3"
          +1h operator ana: redriven charge#5 of it with the same idempotency key; run 2 goes on from there ("try once")
        5 +1h ActivityScheduled charge {"of":"book"}
          +1h charge#5 attempt 1 failed: BankDown: no answer to book; again in 1s
          +1h charge#5 attempt 2 failed: BankDown: no answer to book
        6 +1h ActivityFailed #5 (attempt 2) max_attempts: BankDown: no answer to book
        7 +1h RunFailed BankDown: no answer to book
        8 +2h RunContinued by Reset
        run 3
        1 +0ms RunStarted order {}
        2 +0ms SignalReceived item "book"
        3 +0ms ActivityScheduled reserve {"of":"book"}
        4 +0ms ActivityCompleted #3 "book 1/3"
          +2h operator ana: redriven charge#5 of it with the same idempotency key; run 3 goes on from there
        5 +2h ActivityScheduled charge {"of":"book"}
        6 +2h ActivityCompleted #5 "book 1/5"
        7 +2h ActivityScheduled reserve {"of":"lorry"}
        8 +2h ActivityCompleted #7 "lorry 3/7"
        9 +2h RunCompleted "book 1/3, book 1/5, lorry 3/7"
    "#]]).await;
}

#[test]
async fn a_redrive_can_ask_for_a_new_key() {
    let (app, bank) = app().await;
    let run = app.start("it", order()).await;
    app.signal("it", "item", &"book").await.unwrap();
    app.advance(HOUR).await;
    bank.is_up(true);
    let told = redrive(&app, letter(&app).await, Redrive::new_key).await;
    expect!["redriven charge#5 of it with a new idempotency key; run 2 goes on from there"]
        .assert_eq(&told);
    assert_eq!(run.result().await.unwrap(), "book 1/3, book 2/5, lorry 2/7");
}

#[test]
async fn calls_that_were_made_together_with_a_redriven_one_keep_their_keys() {
    let play = async |app: &TestApp, bank: &Bank| {
        app.start("it", together()).await;
        app.advance(HOUR).await;
        bank.is_up(true);
        redrive(app, letter(app).await, |redrive| redrive).await;
        app.advance(HOUR).await;
        runs(app, [2]).await
    };
    check(play, expect![[r#"
        run 2
        1 +0ms RunStarted together {}
        2 +0ms ActivityScheduled reserve {"of":"seat"}
          +1h operator ana: redriven charge#3 of it with the same idempotency key; run 2 goes on from there
        3 +1h ActivityScheduled charge {"of":"seat"}
        4 +1h ActivityScheduled reserve {"of":"meal"}
        5 +1h ActivityCompleted #2 "seat 1/2"
        6 +1h ActivityCompleted #3 "seat 1/3"
        7 +1h ActivityCompleted #4 "meal 1/4"
        8 +1h RunCompleted ["seat 1/2","seat 1/3","meal 1/4"]
    "#]]).await;
}

#[test]
async fn what_was_called_after_a_redriven_call_is_named_and_called_anew() {
    let (app, bank) = app().await;
    let run = app.start("it", side_by_side()).await;
    app.advance(HOUR).await;
    bank.is_up(true);
    let told = redrive(&app, letter(&app).await, |redrive| redrive).await;
    expect!["redriven charge#2 of it with the same idempotency key; run 2 goes on from there; what it called after that has new keys when it calls it again: reserve#5"].assert_eq(&told);
    let keys = run.result().await.unwrap();
    assert_eq!(keys[0], "it 1/2");
    assert!(keys[1].starts_with("second 2/"), "{keys:?}");
}

#[test]
async fn a_run_that_a_redrive_began_keeps_the_keys_when_it_is_reset() {
    let (app, bank) = app().await;
    let run = app.start("it", order()).await;
    app.signal("it", "item", &"book").await.unwrap();
    app.advance(HOUR).await;
    bank.is_up(true);
    redrive(&app, letter(&app).await, |redrive| redrive).await;
    app.advance(HOUR).await;
    // Before its result was taken: the call is open again, and the one behind it is a new one.
    let before_result = |run: &RunHandle| -> Act { run.reset(ResetTo::Event(Seq(6))).by("ana") };
    app.act_on_run("it", before_result).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "book 1/3, book 1/5, lorry 3/7");
    let export = app.client().export_history("it").await.unwrap().unwrap();
    replay(&export, order).unwrap();
}

#[test]
async fn a_bare_activity_is_redriven_under_its_own_id() {
    let (app, bank) = app().await;
    let run = app.submit("it", charge("it".to_string())).await.unwrap();
    app.advance(HOUR).await;
    bank.is_up(true);
    let told = redrive(&app, letter(&app).await, |redrive| redrive).await;
    expect!["redriven charge#2 of it with the same idempotency key; run 2 goes on from there"]
        .assert_eq(&told);
    assert_eq!(run.result().await.unwrap(), "it 1/2");
}

#[test]
async fn a_failure_that_the_workflow_wraps_is_the_calls_failure_all_the_same() {
    let (app, bank) = app().await;
    let run = app.start("it", careful("wraps".to_string())).await;
    app.advance(HOUR).await;
    bank.is_up(true);
    assert!(redrive(&app, letter(&app).await, |redrive| redrive).await.starts_with("redriven"));
    assert_eq!(run.result().await.unwrap(), "it 1/2");
}

#[test]
async fn a_failure_whose_details_the_workflow_adds_to_is_the_calls_failure_all_the_same() {
    let (app, bank) = app().await;
    let run = app.start("it", careful("adds to it".to_string())).await;
    app.advance(HOUR).await;
    bank.is_up(true);
    assert!(redrive(&app, letter(&app).await, |redrive| redrive).await.starts_with("redriven"));
    assert_eq!(run.result().await.unwrap(), "it 1/2");
}

/// What a redrive is refused with, of the letter that was written first.
async fn refused(app: &TestApp) -> String {
    let call = letters(app, LetterState::Open).await.last().unwrap().call;
    let told = redrive(app, call, |redrive| redrive).await;
    let text = told.split("; redrive it as new").next().unwrap().to_string();
    assert!(text.len() < told.len(), "what can be done instead is said: {told}");
    assert!(!letters(app, LetterState::Open).await.is_empty(), "it stays open");
    text + "\n"
}

#[test]
async fn a_call_that_did_not_fail_its_run_is_not_redriven() {
    let mut text = String::new();
    for then in ["goes on", "waits", "fails otherwise", "calls again"] {
        let (app, _) = app().await;
        app.start("it", careful(then.to_string())).await;
        app.advance(HOUR).await;
        text += &format!("{then}: {}", refused(&app).await);
    }
    // Its run was tried again by the policy of the workflow.
    let (app, _) = app().await;
    let twice = |start: resurgam::Start<String>| start.retry(RetryPolicy::fixed(HOUR));
    app.start_with("it", careful("passes on".to_string()), twice).await;
    app.advance(MINUTE).await;
    text += &format!("tried again: {}", refused(&app).await);
    expect![[r#"
        goes on: charge#2 of it is not redriven: it is completed: its code went on after the failure of charge#2
        waits: charge#2 of it is not redriven: it is running: charge#2 has not failed it
        fails otherwise: charge#2 of it is not redriven: it failed, but not by charge#2: no money
        calls again: charge#2 of it is not redriven: it failed, but not by charge#2: call #4 failed in the same way after it
        tried again: charge#2 of it is not redriven: run 1 of it is over, and run 2 came after it; only a call of the current run is redriven
    "#]].assert_eq(&text);
}

#[test]
async fn a_run_that_cannot_be_reset_is_not_redriven() {
    let mut text = String::new();
    let (app, _) = app().await;
    app.start("it", saga()).await;
    app.advance(HOUR).await;
    text += &refused(&app).await;

    let (app, _) = self::app().await;
    app.start("it", parent()).await;
    app.advance(HOUR).await;
    text += &refused(&app).await;

    let (app, _) = self::app().await;
    app.start("it", careful("passes on".to_string())).await;
    app.advance(HOUR).await;
    let again = |start: resurgam::Start<String>| start.if_exists(IfExists::ReplaceClosed);
    app.start_with("it", careful("waits".to_string()), again).await;
    text += &refused(&app).await;

    let (app, _) = self::app().await;
    let limited = |start: resurgam::Start<String>| start.total_timeout(MINUTE);
    app.start_with("it", careful("passes on".to_string()), limited).await;
    app.advance(HOUR).await;
    text += &refused(&app).await;

    let (app, _) = self::app().await;
    app.start("it", careful("passes on".to_string())).await;
    app.advance(HOUR).await;
    assert_eq!(app.delete_closed(ClosedFilter::default()).await.unwrap(), 1);
    text += &refused(&app).await;
    expect![[r#"
        charge#5 of it is not redriven: it has begun to undo what it did, and what is undone stays undone; reset it all the same with even_if_undone (--even-if-undone)
        charge#2 of it/2 is not redriven: it/2 is failed, and it, which started it, was told so; reset it instead
        charge#2 of it is not redriven: the id it was taken over by a later start; reset that one
        charge#2 of it is not redriven: the total timeout of it has passed, and goes on after a redrive
        charge#2 of it is not redriven: its instance was deleted
    "#]].assert_eq(&text);
}

#[test]
async fn a_letter_is_redriven_once() {
    let (app, bank) = app().await;
    let run = app.start("it", careful("passes on".to_string())).await;
    app.advance(HOUR).await;
    bank.is_up(true);
    let call = letter(&app).await;
    let mut text = redrive(&app, call, |redrive| redrive.reason("the bank is back")).await;
    // The same request gets the same answer, and another one hears what became of the letter.
    text = text + "\n" + &redrive(&app, call, |redrive| redrive).await;
    let client = app.client();
    for other in [client.redrive(call), client.redrive(call).as_new()] {
        let told = app.wait_for("a redrive", other.into_future()).await.unwrap();
        text = format!("{text}\n{told}");
    }
    expect![[r#"
        redriven charge#2 of it with the same idempotency key; run 2 goes on from there
        redriven charge#2 of it with the same idempotency key; run 2 goes on from there
        charge#2 of it was redriven by ana ("the bank is back") before
        charge#2 of it was redriven by ana ("the bank is back") before"#]]
    .assert_eq(&text);
    run.result().await.unwrap();
    let settled = letters(&app, LetterState::Redriven).await.remove(0).settled.unwrap();
    assert_eq!((&*settled.by, settled.redriven_as.as_deref()), ("ana", Some("it")));
    let discarded = app.client().discard_one(call).await.unwrap().to_string();
    assert_eq!(discarded, "charge#2 of it was redriven by ana (\"the bank is back\") before");
}

#[test]
async fn two_who_redrive_at_once_begin_one_run() {
    let (app, _) = app().await;
    app.start("it", careful("passes on".to_string())).await;
    app.advance(HOUR).await;
    let call = letter(&app).await;
    let (one, other) = (app.client().redrive(call), app.client().redrive(call));
    let both =
        app.wait_for("two redrives", async { tokio::join!(one.by("ana"), other.by("bob")) }).await;
    let both = [both.0.unwrap(), both.1.unwrap()];
    let (won, lost): (Vec<_>, Vec<_>) = both.iter().partition(|acted| acted.changed());
    assert_eq!((won.len(), lost.len()), (1, 1), "{both:?}");
    let lost = lost[0].to_string();
    assert!(lost == "charge#2 of it was redriven by ana before" || lost.contains("bob"), "{lost}");
    assert_eq!(app.client().find("it").await.unwrap().unwrap().run, 2);
}

/// Who decides about one letter at the same time, in any combination: one decision counts, and
/// the others hear which.
#[test]
async fn of_several_decisions_about_a_letter_at_once_one_counts() {
    for crash in [None].into_iter().chain(crashes(8).map(Some)) {
        let (app, bank) = app().await;
        app.start("it", careful("passes on".to_string())).await;
        app.advance(HOUR).await;
        bank.is_up(true);
        let call = letter(&app).await;
        crash.into_iter().for_each(|crash| app.faults().crash(later(crash, app.commits())));
        let decide = |client: &Client| {
            let client = client.clone();
            async move {
                tokio::try_join!(
                    client.redrive(call).by("ana").request_id("ana's").into_future(),
                    client.redrive(call).by("bob").as_new().into_future(),
                    client.discard_one(call).by("cleo").into_future(),
                    client.redrive(call).by("dora").request_id("dora's").into_future(),
                )
            }
        };
        let told = app.ask("decide", decide).await.unwrap();
        let told = [told.0, told.1, told.2, told.3];
        let text = told.iter().map(|acted| format!("{acted}\n")).collect::<String>();
        // Whoever is asked again after a crash hears of the first decision, also if it was theirs.
        let changed = told.iter().filter(|acted| acted.changed()).count();
        assert!(changed == 1 || (crash.is_some() && changed == 0), "{crash:?}\n{text}");
        app.advance(HOUR).await;
        let row = app.client().dead_letter(call).await.unwrap().unwrap();
        let (by, state) = (row.settled.unwrap().by, row.state);
        let run = app.client().find("it").await.unwrap().unwrap().run;
        let as_new = row_of_new(&app, call).await;
        let expected = match by.as_str() {
            "ana" | "dora" => (LetterState::Redriven, 2, false),
            "bob" => (LetterState::Redriven, 1, true),
            _ => (LetterState::Discarded, 1, false),
        };
        assert_eq!((state, run, as_new), expected, "{crash:?} {by}\n{text}");
        for acted in told.iter().filter(|acted| !acted.changed()) {
            let told = acted.to_string();
            assert!(told.contains(&format!(" by {by}")) && told.ends_with("before"), "{told}");
        }
    }
}

/// Whether an activity was run by itself because of a letter.
async fn row_of_new(app: &TestApp, call: CallKey) -> bool {
    let id = format!("redrive/{}.{}.{}", call.run.uid, call.run.run, call.seq);
    app.client().find(&id).await.unwrap().is_some()
}

#[test]
async fn many_that_are_redriven_begin_over_a_time() {
    let (app, bank) = app().await;
    for number in 1..=4 {
        app.start(&format!("it-{number}"), careful("passes on".to_string())).await;
        app.advance(MINUTE).await;
    }
    bank.is_up(true);
    let all = app.client().redrive_all(DeadLetterFilter::default()).spread(40 * SECOND);
    let began = app.now();
    all.by("ana").start().await.unwrap();
    app.advance(HOUR).await;
    // The newest first, each in ten seconds of its own.
    for (place, number) in [4, 3, 2, 1].into_iter().enumerate() {
        let events = app.client().events(&format!("it-{number}")).await.unwrap();
        let ended = events.last().unwrap();
        let after = ended.at.since(began).as_secs() / 10;
        assert_eq!((ended.kind.name(), after), ("RunCompleted", place as u64), "it-{number}");
    }
}
