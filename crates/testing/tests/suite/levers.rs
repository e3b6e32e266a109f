//! Cells of the table of operators' levers that need a stage of their own, with a crash before and
//! after every commit: calls that no worker knows, that are ending or have ended, or that a gate
//! holds back, letters and groups. The other cells are in `operators.rs`;
//! `checks/tests/suite/levers.rs` lists all of them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter, LostWorker};
use resurgam::{
    Act, CallHandle, Client, DeadLetterFilter, InstanceFilter, LetterState, PausedFilter, Status,
    WaitsFor,
};
use resurgam_testing::{Crash, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::acted::takes_effect_once;
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

/// The name of an activity whose gate is shut, where that is the stage.
const GATED: &str = "held";

/// Starts it, acts on its call after a minute, and answers with what is told a day later.
async fn play(app: &TestApp, stage: Stage, verb: Verb) -> (String, String) {
    let (_, workflow, call) = stage;
    drop(app.start_named::<u32>("it", workflow, &serde_json::json!({})).await);
    app.advance(SECOND).await;
    let is_gated = call.starts_with(GATED);
    if is_gated {
        app.ask("shut", |client: &Client| client.shut_gate(GATED).by("ana")).await.unwrap();
    }
    app.advance(59 * SECOND).await;
    if is_gated {
        let waits_for = app.describe("it").await.pending.first().and_then(|call| call.waits_for);
        assert!(matches!(waits_for, None | Some(WaitsFor::Gate)), "{waits_for:?}");
    }
    let acted = app.act("it", call, |call| verb(call).by("bob")).await.unwrap();
    if is_gated {
        app.advance(HOUR).await;
        assert!(app.attempts_of(GATED) <= 2, "nothing begins while the gate is shut");
        app.ask("open", |client: &Client| client.auto_gate(GATED).by("ana")).await.unwrap();
    }
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
                let (story, history) = (without_waits(&story), without_waits(&history));
                assert_eq!((&crashed, story), (&answer, history), "{crash:?}");
            }
            let acted = story.matches("operator bob").count();
            assert!(acted <= 1, "{name} {crash:?}\n{story}");
            if let Some(answer) = crashed.strip_prefix("true: ") {
                takes_effect_once(answer, &story, "bob");
            }
        }
    }
}

/// A history without how long an attempt was waited for that nobody wants any more: that begins
/// anew when the process does.
fn without_waits(history: &str) -> String {
    let waited = (10..60).map(|seconds| format!("+1m {seconds}s "));
    waited.fold(history.to_string(), |history, waited| history.replace(&waited, "+1m and more "))
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

#[test]
async fn a_call_that_has_ended_is_left_alone_and_its_outcome_told_whatever_crashes() {
    let builder = || TestApp::builder().workflow(order).activity(charge);
    check((builder, "order", "charge#2"), [false; 6]).await;
    for (name, verb) in VERBS {
        let app = builder().start().await;
        let (answer, history) = play(&app, (builder, "order", "charge#2"), verb).await;
        assert_eq!(answer, "false: charge#2 completed", "{name}");
        assert!(history.ends_with("RunCompleted 700\n"), "{history}");
    }
}

/// Fails once, and its gate is shut when it is due again, after half a minute.
#[activity(retry = RetryPolicy::fixed(Duration::from_secs(30)).max_attempts(5).jitter(Jitter::None))]
async fn held(ctx: ActivityContext) -> Result<u32, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::of_type("BankDown", "no answer")),
        _ => Ok(7),
    }
}

#[workflow]
async fn gated(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(held()).await
}

#[test(minutes = 15)]
async fn a_call_that_its_gate_holds_back_is_acted_on_once_whatever_crashes() {
    let builder = || TestApp::builder().workflow(gated).activity(held);
    let stage: Stage = (builder, "gated", "held#2");
    check(stage, [true, true, false, true, true, true]).await;
    let mut told = String::new();
    for (name, verb) in VERBS {
        let app = builder().start().await;
        let (answer, history) = play(&app, stage, verb).await;
        let end = history.lines().last().unwrap_or_default();
        writeln!(told, "{name} {answer}\n    {end}").unwrap();
    }
    expect![[r#"
        retry true: held#2 is first in line for gate held (shut 59s ago: ana wants it)
            4 +1h 1m RunCompleted 7
        pause true: paused held#2 (attempt 2 is due now)
              +1m operator bob: paused held#2 (attempt 2 is due now)
        resume false: held#2 is not paused; nothing to resume
            4 +1h 1m RunCompleted 7
        complete true: completed held#2
            4 +1m RunCompleted 9
        fail true: failed held#2
            4 +1m RunFailed FailedByOperator: enough
        set-policy true: held#2 ended by its new policy: max_attempts: 1 of 1 attempts failed
            4 +1m RunFailed BankDown: no answer
    "#]]
    .assert_eq(&told);
}

#[test]
async fn another_policy_decides_again_about_a_gated_call_from_its_last_failure() {
    let builder = || TestApp::builder().workflow(gated).activity(held);
    let hourly: Verb = |call| call.set_policy(HOURLY);
    let app = builder().start().await;
    let (answer, history) = play(&app, (builder, "gated", "held#2"), hourly).await;
    expect![[r#"
        true: held#2 follows another policy from now on (attempt 2 is due in 59m)
        1 +0ms RunStarted gated {}
        2 +0ms ActivityScheduled held {}
          +0ms held#2 attempt 1 failed: BankDown: no answer; again in 30s
          +1m operator bob: held#2 follows another policy from now on (attempt 2 is due in 59m)
        3 +1h 1m ActivityCompleted #2 (attempt 2) 7
        4 +1h 1m RunCompleted 7
    "#]]
    .assert_eq(&format!("{answer}\n{history}"));
}

#[test]
async fn another_policy_for_a_paused_call_decides_when_it_is_resumed_whatever_crashes() {
    let builder = || {
        TestApp::builder().workflow(order).stub(charge, |_, _| Err(Failure::new("bank is down")))
    };
    let play = async |app: &TestApp| {
        drop(app.start("it", order()).await);
        app.advance(60 * SECOND).await;
        let act = async |verb: Verb| app.act("it", "charge#2", verb).await.unwrap().to_string();
        let paused = act(|call| call.pause().by("ana")).await;
        let twice: Verb =
            |call| call.set_policy(RetryPolicy::fixed(SECOND).max_attempts(2)).by("bob");
        let set = act(twice).await;
        app.advance(HOUR).await;
        let resumed = act(|call| call.resume().by("ana")).await;
        app.advance(24 * HOUR).await;
        format!("{paused}\n{set}\n{resumed}\n{}", app.history("it").await)
    };
    let app = builder().start().await;
    let story = play(&app).await;
    expect![[r#"
        paused charge#2 (attempt 2 is due in 59m)
        charge#2 follows another policy from now on
        resumed charge#2 (attempt 2 is due now)
        1 +0ms RunStarted order {}
        2 +0ms ActivityScheduled charge {"cents":700}
          +0ms charge#2 attempt 1 failed: bank is down; again in 1h
          +1m operator ana: paused charge#2 (attempt 2 is due in 59m)
          +1m operator bob: charge#2 follows another policy from now on
          +1h 1m operator ana: resumed charge#2 (attempt 2 is due now)
          +1h 1m charge#2 attempt 2 failed: bank is down
        3 +1h 1m ActivityFailed #2 (attempt 2) max_attempts: bank is down
        4 +1h 1m RunFailed bank is down
    "#]]
    .assert_eq(&story);
    for crash in crashes(app.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let crashed = play(&app).await;
        if !crashed.contains(" lost: ") {
            assert_eq!(crashed, story, "{crash:?}");
        }
    }
}

/// A call that waits after its first attempt, and when its next one is due before and after its
/// policy is set to one that would retry within a second.
async fn due_around_a_policy(app: &TestApp) -> [Option<resurgam::Timestamp>; 2] {
    let due = async || app.describe("it").await.pending[0].next_due;
    let before = due().await;
    let soon = RetryPolicy::fixed(SECOND).max_attempts(1);
    let set = app.act("it", "waiting#2", |call| call.set_policy(soon.clone())).await.unwrap();
    assert_eq!(set.to_string(), "waiting#2 follows another policy from now on");
    [before, due().await]
}

#[test]
async fn another_policy_changes_nothing_about_a_call_that_waits_after_a_snooze_or_a_loss() {
    const LATE: LostWorker = LostWorker { max: 10, initial: HOUR, max_delay: HOUR };
    #[activity(retry = HOURLY.lost_worker(LATE))]
    async fn waiting(ctx: ActivityContext, snoozes: bool) -> Result<u32, Failure> {
        match (snoozes, ctx.attempt()) {
            (true, 1) => Err(Failure::snooze(HOUR)),
            (false, 1) => {
                resurgam_testing::never(&ctx).await;
                Ok(0)
            }
            (_, attempt) => Ok(attempt),
        }
    }
    for snoozes in [true, false] {
        let app = TestApp::builder().activity(waiting).start().await;
        let run = app.submit("it", waiting(snoozes)).await.unwrap();
        app.advance(SECOND).await;
        if !snoozes {
            app.restart().await;
            app.advance(SECOND).await;
        }
        let [before, after] = due_around_a_policy(&app).await;
        assert!(before.is_some_and(|due| due.since(app.now()) > HOUR / 2), "{before:?}");
        assert_eq!(before, after, "snoozes: {snoozes}");
        assert_eq!(run.result().await.unwrap(), 2);
    }
}

#[test]
async fn a_pause_that_was_asked_for_is_taken_back_whatever_crashes() {
    #[activity(retry = HOURLY)]
    async fn paper(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.sleep(HOUR).await;
        Err(Failure::new("no paper"))
    }
    #[workflow]
    async fn job(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(paper()).await
    }
    let builder = || TestApp::builder().workflow(job).activity(paper);
    let play = async |app: &TestApp| {
        drop(app.start("it", job()).await);
        app.advance(60 * SECOND).await;
        let act = async |verb: Verb| app.act("it", "paper#2", verb).await.unwrap().to_string();
        let asked = act(|call| call.pause().by("ana")).await;
        let taken_back = act(|call| call.resume().by("bob")).await;
        app.advance(2 * HOUR).await;
        format!("{asked}\n{taken_back}\n{}", app.history("it").await)
    };
    let app = builder().start().await;
    let story = play(&app).await;
    expect![[r#"
        asked paper#2 to pause when attempt 1 has failed
        took back that paper#2 is to pause
        1 +0ms RunStarted job {}
        2 +0ms ActivityScheduled paper {}
          +1m operator ana: asked paper#2 to pause when attempt 1 has failed
          +1m operator bob: took back that paper#2 is to pause
          +1h paper#2 attempt 1 failed: no paper; again in 1h
    "#]]
    .assert_eq(&story);
    for crash in crashes(app.commits()) {
        let app = builder().start().await;
        app.faults().crash(crash);
        let crashed = play(&app).await;
        let taken_back = crashed.matches("operator bob").count();
        assert!(taken_back <= 1, "{crash:?}\n{crashed}");
        match crashed.contains(" lost: ") {
            // Whatever was asked of an attempt that is lost, the call is not paused in the end.
            true => {
                let waits_for = app.describe("it").await.pending[0].waits_for;
                assert_ne!(waits_for, Some(WaitsFor::Operator), "{crash:?}\n{crashed}");
            }
            false => assert_eq!(crashed, story, "{crash:?}"),
        }
    }
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
