//! Turns that are taken on another thread: the same histories and commits, whatever happens to a
//! run while it is away.
//!
//! `RESURGAM_TEST_TURNS=elsewhere cargo test -p resurgam-testing` runs all tests of the engine with
//! such a thread. The simulator lets turns be late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{PendingTurn, TurnThread};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::crashes;

const POLICY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(60)).max_attempts(3).jitter(Jitter::None);

/// Takes turns when a test says so, and at once where it does not mind. Histories are gone
/// through in the smallest slices that there are.
#[derive(Debug, Default)]
struct Later {
    waits: Mutex<Option<VecDeque<PendingTurn>>>,
}

impl Later {
    /// From now on turns wait.
    fn hold(&self) {
        self.waits.lock().unwrap().get_or_insert_default();
    }

    /// How many wait.
    fn held(&self) -> usize {
        self.waits.lock().unwrap().as_ref().map_or(0, VecDeque::len)
    }

    /// Takes a slice of the one that waits first. What is left of it waits behind all others.
    fn slice(&self) {
        let first = self.waits.lock().unwrap().as_mut().and_then(VecDeque::pop_front);
        if let Some(rest) = first.and_then(|turn| turn.take_while(|| false)) {
            self.take(rest);
        }
    }

    /// Takes those that wait, and all others at once.
    fn let_go(&self) {
        let held = self.waits.lock().unwrap().take();
        held.into_iter().flatten().for_each(slice_by_slice);
    }
}

fn slice_by_slice(turn: PendingTurn) {
    let mut rest = Some(turn);
    while let Some(turn) = rest {
        rest = turn.take_while(|| false);
    }
}

impl TurnThread for Later {
    fn take(&self, turn: PendingTurn) {
        let turn = match &mut *self.waits.lock().unwrap() {
            Some(waits) => return waits.push_back(turn),
            None => turn,
        };
        std::thread::spawn(|| slice_by_slice(turn));
    }
}

#[activity(retry = POLICY)]
async fn flaky(number: u32) -> Result<u32, Failure> {
    Ok(number)
}

#[activity(retry = POLICY)]
async fn undo(number: u32) -> Result<u32, Failure> {
    Ok(number)
}

#[workflow]
async fn everything(ctx: WorkflowContext) -> Result<u32, Failure> {
    let both = ctx.join_all((0..3).map(|number| ctx.call(flaky(number)))).await?;
    ctx.call(flaky(7)).compensate_with(|number| undo(*number)).await?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    let more: u32 = ctx.signal("more").await?;
    let child = ctx.child(small(more)).await?;
    match child {
        9 => Err(Failure::terminal("nine is too many")),
        child => Ok(both.iter().sum::<u32>() + child),
    }
}

#[workflow]
async fn small(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(flaky(number)).await
}

#[workflow]
async fn chain(ctx: WorkflowContext) -> Result<u32, Failure> {
    let mut sum = 0;
    for number in 2..7 {
        sum += ctx.call(flaky(number)).await?;
    }
    Ok(sum)
}

#[workflow]
async fn listen(ctx: WorkflowContext) -> Result<Vec<u32>, Failure> {
    let mut heard = Vec::new();
    while heard.len() < 3 {
        heard.push(ctx.signal("number").await?);
    }
    Ok(heard)
}

fn app() -> TestBuilder {
    TestApp::builder()
        .workflow(everything)
        .workflow(small)
        .workflow(chain)
        .workflow(listen)
        .activity(undo)
        // At different times: what ends at the same time comes in any order.
        .stub(flaky, |call, attempt| match call.number {
            0 | 1 if attempt <= call.number + 1 => Err(Failure::new("down")),
            _ => Ok(call.number),
        })
}

/// What becomes of a run of everything.
async fn run_everything(app: &TestApp, more: u32) -> (String, String) {
    let run = app.start("everything-1", everything()).await;
    run.signal("more", &more).await.unwrap();
    let outcome = format!("{:?}", run.outcome().await);
    (outcome, run.history().await)
}

#[test]
async fn a_run_whose_turns_are_taken_elsewhere_has_the_same_history() {
    for more in [4, 9] {
        let here = run_everything(&app().start().await, more).await;
        let thread = Arc::new(Later::default());
        let elsewhere = run_everything(&app().turns_on(thread.clone()).start().await, more).await;
        assert_eq!(elsewhere, here);
        let cold = app().options(|options| options.hot_runs = 0).turns_on(thread);
        assert_eq!(run_everything(&cold.start().await, more).await, here);
    }
}

#[test]
async fn five_activities_are_six_commits_wherever_turns_are_taken() {
    let app = app().turns_on(Arc::new(Later::default())).start().await;
    let run = app.start("chain-1", chain()).await;
    assert_eq!((run.result().await.unwrap(), app.commits()), (20, 6));
}

#[test]
async fn a_crash_at_any_commit_changes_nothing_about_turns_that_are_taken_elsewhere() {
    let thread = Arc::new(Later::default());
    let whole = app().turns_on(thread.clone()).start().await;
    let expected = run_everything(&whole, 9).await;
    for crash in crashes(whole.commits()) {
        let app = app().turns_on(thread.clone()).start().await;
        app.faults().crash(crash);
        let (outcome, history) = run_everything(&app, 9).await;
        assert_eq!((outcome, undone(&history)), (expected.0.clone(), 1), "{crash:?}\n{history}");
    }
}

/// How often something was undone.
fn undone(history: &str) -> usize {
    history.lines().filter(|line| line.contains("ActivityScheduled undo")).count()
}

#[test]
async fn what_happens_to_a_run_that_is_away_waits_until_it_is_back() {
    let thread = Arc::new(Later::default());
    let app = app().turns_on(thread.clone()).start().await;
    let run = app.start("listen-1", listen()).await;
    thread.hold();
    let client = app.client();
    let sent = tokio::spawn(async move {
        for number in 1..=3_u32 {
            let told = client.signal_once("listen-1", "number", &number, number.to_string());
            told.await.unwrap();
        }
    });
    while thread.held() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(thread.held(), 1, "the second signal waits behind the first");
    thread.let_go();
    sent.await.unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
}

#[test]
async fn an_instance_exists_when_its_first_turn_is_back_and_not_before() {
    let thread = Arc::new(Later::default());
    let app = app().turns_on(thread.clone()).start().await;
    thread.hold();
    let begin = || {
        let client = app.client();
        tokio::spawn(async move { client.start("listen-1", listen()).await.map(drop) })
    };
    let first = begin();
    while thread.held() == 0 {
        tokio::task::yield_now().await;
    }
    let second = begin();
    assert!(app.client().instance::<()>("listen-1").await.unwrap().is_none());
    thread.let_go();
    first.await.unwrap().unwrap();
    assert!(second.await.unwrap().unwrap_err().is_already_exists());
}

#[test]
async fn a_history_is_gone_through_in_slices_and_others_take_turns_between_them() {
    let thread = Arc::new(Later::default());
    let app = app().turns_on(thread.clone()).start().await;
    let run = app.start("listen-1", listen()).await;
    for number in 1..=2 {
        run.signal("number", &number).await.unwrap();
    }
    app.restart().await;
    thread.hold();
    let client = app.client();
    let told = tokio::spawn(async move { client.signal_once("listen-1", "number", &3, "3").await });
    while thread.held() == 0 {
        tokio::task::yield_now().await;
    }
    let client = app.client();
    let begun = tokio::spawn(async move { client.start("listen-2", listen()).await.map(drop) });
    while thread.held() == 1 {
        tokio::task::yield_now().await;
    }
    thread.slice(); // the beginning of the history; the first turn of the other one is next
    assert_eq!(thread.held(), 2);
    thread.slice();
    begun.await.unwrap().unwrap();
    // What is left of the history: a slice for each of the two signals.
    thread.slice();
    assert_eq!(thread.held(), 1, "the second signal is left");
    thread.let_go();
    told.await.unwrap().unwrap();
    assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
}

#[test]
async fn a_stop_waits_for_turns_that_are_taken_elsewhere() {
    let thread = Arc::new(Later::default());
    let app = app().turns_on(thread.clone()).start().await;
    let run = app.start("listen-1", listen()).await;
    thread.hold();
    for number in 1..=2 {
        let client = app.client();
        tokio::spawn(async move {
            client.signal_once("listen-1", "number", &number, number.to_string()).await
        });
    }
    while thread.held() == 0 {
        tokio::task::yield_now().await;
    }
    let client = app.client();
    let stopping = tokio::spawn(async move { client.handle().stop().await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    thread.let_go();
    stopping.await.unwrap().unwrap();
    app.restart().await;
    run.signal("number", &3).await.unwrap();
    assert_eq!(run.result().await.unwrap().len(), 3);
}
