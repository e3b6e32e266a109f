//! Cells of the table of operators' levers that need a stage of their own, with a crash before and
//! after every commit: calls that no worker knows, calls that are ending, letters and groups. The
//! other cells are in `operators.rs`; `checks/tests/suite/levers.rs` lists all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::{
    Act, CallHandle, Client, DeadLetterFilter, InstanceFilter, LetterState, PausedFilter, Status,
    WaitsFor,
};
use resurgam_testing::{Crash, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::crashes;
use crate::common::ground::Ground;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(5).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

#[activity]
async fn give_back(cents: u32) -> Result<u32, Failure> {
    Ok(cents)
}

/// Goes on although nobody wants it any more.
#[activity(retry = HOURLY)]
async fn slow(ctx: ActivityContext) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await;
    Ok(7)
}

#[workflow]
async fn order(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(charge(700)).await
}

/// Gives a call up that can be undone, and waits for how it ends.
#[workflow]
async fn given_up(ctx: WorkflowContext) -> Result<u32, Failure> {
    let called = ctx.call(slow()).compensate_with(|cents| give_back(*cents));
    match ctx.timeout(SECOND, called).await {
        Ok(called) => called,
        Err(elapsed) => Err(elapsed.into()),
    }
}

type Verb = fn(&CallHandle) -> Act;

const VERBS: [(&str, Verb); 6] = [
    ("retry", |call| call.retry()),
    ("pause", |call| call.pause()),
    ("resume", |call| call.resume()),
    ("complete", |call| call.complete(&9).unchecked()),
    ("fail", |call| call.fail("enough")),
    ("set-policy", |call| call.set_policy(RetryPolicy::once())),
];

/// The builder of an app at a stage, what is started there, and the call that is acted on.
type Stage = (fn() -> TestBuilder, &'static str, &'static str);

/// Starts it, acts on its call after a minute, and answers with what is told a day later.
async fn play(app: &TestApp, stage: Stage, verb: Verb) -> (String, String) {
    let (_, workflow, call) = stage;
    drop(app.start_named::<u32>("it", workflow, &serde_json::json!({})).await);
    app.advance(60 * SECOND).await;
    let acted = app.act("it", call, |call| verb(call).by("bob")).await.unwrap();
    app.advance(24 * HOUR).await;
    (format!("{}: {acted}", acted.changed()), app.history("it").await)
}

/// Every verb at a stage: whether it changes anything, and that a crash makes no difference.
async fn check(stage: Stage, changes: [bool; 6]) {
    for ((name, verb), changes) in VERBS.into_iter().zip(changes) {
        let app = stage.0().start().await;
        let (answer, history) = play(&app, stage, verb).await;
        assert!(answer.starts_with(&changes.to_string()), "{name} of {}: {answer}", stage.2);
        for crash in crashes(app.commits()) {
            let app = stage.0().start().await;
            app.faults().crash(crash);
            let (crashed, story) = play(&app, stage, verb).await;
            // An attempt that was lost with the process shifts what follows.
            if !story.contains(" lost: ") {
                let told = |history: &str| history.replace("+1m 10s ", "+1m 11s ");
                assert_eq!((&crashed, told(&story)), (&answer, told(&history)), "{crash:?}");
            }
            let acted = story.matches("operator bob").count();
            assert!(acted <= 1, "{name} {crash:?}\n{story}");
        }
    }
}

#[test]
async fn a_call_that_no_worker_knows_is_acted_on_once_whatever_crashes() {
    let stage: Stage = (|| TestApp::builder().workflow(order), "order", "charge#2");
    let app = stage.0().start().await;
    app.start("it", order()).await;
    app.advance(SECOND).await;
    assert_eq!(app.describe("it").await.pending[0].waits_for, Some(WaitsFor::Unregistered));
    check(stage, [false, true, false, true, true, true]).await;
}

#[test]
async fn a_call_that_is_ending_can_only_be_completed_whatever_crashes() {
    let builder = || {
        let builder = TestApp::builder().workflow(given_up).activity(slow).activity(give_back);
        builder.options(|options| options.grace = Duration::from_secs(10))
    };
    check((builder, "given_up", "slow#2"), [false, false, false, true, false, false]).await;
}

const KEPT: RetryPolicy = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter);
const PAUSES: RetryPolicy = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None });

/// Whether there is paper.
#[derive(Clone, Default)]
struct Paper(Arc<AtomicBool>);

#[activity(retry = KEPT)]
async fn print(ctx: ActivityContext, page: u32) -> Result<u32, Failure> {
    match ctx.state::<Paper>().0.load(Ordering::SeqCst) {
        true => Ok(page),
        false => Err(Failure::of_type("NoPaper", format!("page {page} is not printed"))),
    }
}

#[activity(retry = PAUSES)]
async fn notify(number: u32) -> Result<u32, Failure> {
    Ok(number)
}

/// Three calls that were given up, and three that are paused. There is paper by now.
async fn decided() -> TestApp {
    let paper = Paper::default();
    let app = TestApp::builder()
        .activity(print)
        .state(paper.clone())
        .stub(notify, |call, attempt| match attempt {
            1 => Err(Failure::of_type("MailDown", format!("no answer to {}", call.number))),
            _ => Ok(call.number),
        })
        .start()
        .await;
    for number in 1..=3 {
        app.submit(&format!("page-{number}"), print(number)).await.unwrap();
        app.submit(&format!("mail-{number}"), notify(number)).await.unwrap();
        app.advance(SECOND).await;
    }
    paper.0.store(true, Ordering::SeqCst);
    app
}

/// Decides with a crash at each commit from there on, and without one.
async fn with_crashes(decide: impl AsyncFn(&TestApp)) {
    let app = decided().await;
    let before = app.commits();
    decide(&app).await;
    for crash in crashes(app.commits() - before) {
        let app = decided().await;
        app.faults().crash(match crash {
            Crash::BeforeCommit(k) => Crash::BeforeCommit(before + k),
            Crash::AfterCommit(k) => Crash::AfterCommit(before + k),
        });
        decide(&app).await;
    }
}

async fn in_state(app: &TestApp, state: LetterState) -> usize {
    let filter = DeadLetterFilter { state, ..DeadLetterFilter::default() };
    app.client().dead_letters(filter).await.unwrap().len()
}

#[test]
async fn letters_are_discarded_once_whatever_crashes() {
    with_crashes(async |app| {
        let all = |client: &Client| client.discard(DeadLetterFilter::default()).by("ana");
        let discarded = app.ask("discard all", all).await.unwrap();
        assert!(discarded.counts.changed <= 3, "who asks again after a crash has a job of its own");
        assert_eq!(in_state(app, LetterState::Discarded).await, 3);
        assert_eq!(in_state(app, LetterState::Open).await, 0);
    })
    .await;
    with_crashes(async |app| {
        let newest = app.client().dead_letters(DeadLetterFilter::default()).await.unwrap()[0].call;
        let one = |client: &Client| client.discard_one(newest).by("ana");
        app.ask("discard one", one).await.unwrap();
        assert_eq!(in_state(app, LetterState::Discarded).await, 1);
        assert_eq!(in_state(app, LetterState::Open).await, 2);
    })
    .await;
}

#[test]
async fn a_group_of_letters_is_redriven_once_each_whatever_crashes() {
    with_crashes(async |app| {
        let all = |client: &Client| client.redrive_all(DeadLetterFilter::default()).by("ana");
        // Who asks again after a crash may be told of one that it was redriven meanwhile.
        app.ask("redrive all", all).await.unwrap();
        app.advance(HOUR).await;
        assert_eq!(in_state(app, LetterState::Redriven).await, 3);
        for number in 1..=3 {
            let row = app.client().find(&format!("page-{number}")).await.unwrap().unwrap();
            assert_eq!((row.run, row.status), (2, Status::Completed), "{number}");
        }
    })
    .await;
}

#[test]
async fn a_group_of_paused_calls_is_resumed_or_failed_once_each_whatever_crashes() {
    with_crashes(async |app| {
        let all = |client: &Client| client.resume_paused(PausedFilter::default()).by("ana");
        app.ask("resume all", all).await.unwrap();
        app.advance(HOUR).await;
        for number in 1..=3 {
            let history = app.history(&format!("mail-{number}")).await;
            assert_eq!(history.matches("operator ana: resumed").count(), 1, "{history}");
            assert!(history.contains("RunCompleted"), "{history}");
        }
    })
    .await;
    with_crashes(async |app| {
        let all = |client: &Client| client.fail_paused(PausedFilter::default(), "no").by("ana");
        app.ask("fail all", all).await.unwrap();
        app.advance(SECOND).await;
        let filter = InstanceFilter { status: vec![Status::Failed], ..InstanceFilter::default() };
        // With the pages, which failed by themselves.
        assert_eq!(app.client().list(filter).await.unwrap().len(), 6);
        assert!(app.client().paused_calls(PausedFilter::default()).await.unwrap().is_empty());
    })
    .await;
}

#[test]
async fn an_action_on_a_call_whose_row_cannot_be_read_is_answered_and_holds_up_no_other() {
    let builder =
        || TestApp::builder().workflow(order).stub(charge, |_, _| Err(Failure::new("down")));
    let ground = Ground::new().await;
    let app = ground.start(builder()).await;
    app.start("bad", order()).await;
    app.start("good", order()).await;
    app.advance(60 * SECOND).await;
    let bad = app.client().find("bad").await.unwrap().unwrap();
    app.stop().await;
    let of_bad = "WHERE uid = (SELECT uid FROM instance WHERE id = 'bad')";
    ground.run(&format!("UPDATE task SET progress = 'x' {of_bad}")).await;

    let app = ground.start(builder()).await;
    app.advance(60 * SECOND).await;
    for (name, verb) in VERBS {
        let key = resurgam::RunKey { uid: bad.uid, run: 1 }.call(resurgam::Seq(2));
        let act = |client: &Client| verb(&client.call_of(key));
        let answer = app.ask(name, act).await.unwrap();
        assert!(!answer.changed(), "{name}: {answer}");
        let why = "is not finished, but its task cannot be read and was set aside; the log of";
        assert!(answer.to_string().contains(why), "{name}: {answer}");
    }
    let reset = app.act_on_run("bad", |run| run.reset(resurgam::ResetTo::Event(resurgam::Seq(2))));
    let reset = reset.await.unwrap().to_string();
    assert!(reset.starts_with("the run cannot be read: "), "{reset}");
    let retried = app.act("good", "charge#2", |call| call.retry()).await.unwrap();
    assert_eq!(retried.to_string(), "retried charge#2 now");
}
