//! Recorded histories, which stay in the repository and must replay.
//!
//! `histories/*.json` are runs of the workflows in this file, as `client.export_history` wrote
//! them. Two things are checked: that today's code takes the way that each of them says, and that
//! the same scenario recorded today gives the same file, so that no change of the stored form goes
//! unnoticed. CONTRIBUTING.md says how to add one, and what to ask when one has changed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{expect, expect_file};
use resurgam::ParentClose;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{Replayer, TestApp, TestBuilder, assert_replays, replay};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Delays are drawn from the uid of an instance, which is another one each time: these are not.
const STEADY: RetryPolicy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(4);

// What the workflows call.

#[derive(Debug, PartialEq, Serialize, Deserialize, FailureType)]
enum PaymentError {
    #[failure(code = 503, parent = "NetworkError")]
    Unreachable { attempt: u32 },
    #[failure(terminal, code = 402)]
    Declined,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaymentError::Unreachable { .. } => f.write_str("the gateway does not answer"),
            PaymentError::Declined => f.write_str("the bank declined the card"),
        }
    }
}

impl std::error::Error for PaymentError {}

#[activity]
async fn reserve(item: String) -> Result<u32, Failure> {
    u32::try_from(item.len()).map_err(Failure::from)
}

#[activity]
async fn release(hold: u32) -> Result<u32, Failure> {
    Ok(hold)
}

/// The gateway answers the third attempt, and declines large sums.
#[activity(retry = STEADY)]
async fn charge(ctx: ActivityContext, cents: u64) -> Result<u64, PaymentError> {
    match ctx.attempt() {
        _ if cents > 10_000 => Err(PaymentError::Declined),
        attempt @ 1..3 => Err(PaymentError::Unreachable { attempt }),
        _ => Ok(cents),
    }
}

#[activity(retry = STEADY)]
async fn refund(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

#[activity(retry = STEADY)]
async fn ship(order: String, address: Option<String>) -> Result<String, Failure> {
    let address = address.ok_or_else(|| Failure::of_type("UnknownAddress", "where to?"));
    Ok(format!("{order} goes to {}", address.terminal()?))
}

#[activity(timeout = HOUR)]
async fn hang(ctx: ActivityContext) -> Result<(), Failure> {
    resurgam_testing::never(&ctx).await;
    Ok(())
}

// The workflows.

#[workflow]
async fn order(ctx: WorkflowContext, id: String, items: Vec<String>) -> Result<String, Failure> {
    ctx.set_status("reserving");
    ctx.join_all(items.into_iter().map(|item| ctx.call(reserve(item)))).await?;
    ctx.set_status(&serde_json::json!({"step": "paying", "of": 3}));
    ctx.call(charge(4_200)).await?;
    ctx.sleep(HOUR).await?;
    ctx.call(ship(id, Some("1 Harbour Street".to_string()))).await
}

#[workflow]
async fn pay_somehow(ctx: WorkflowContext, cents: u64) -> Result<String, Failure> {
    let hurried = ctx.call(charge(cents)).retry(STEADY.max_attempts(2)).await;
    let failure = hurried.unwrap_err();
    let first: Option<PaymentError> = failure.as_error();
    let why = failure.why.clone().unwrap_or_default();
    let declined = ctx.call(charge(1_000_000)).await.unwrap_err();
    let second: Option<PaymentError> = declined.as_error();
    let paid = ctx.call(charge(cents)).await?;
    Ok(format!("{first:?} ({why}), {second:?}, then {paid}"))
}

#[workflow]
async fn approve(ctx: WorkflowContext, limit: Duration) -> Result<String, Failure> {
    let first = ctx.timeout(limit, ctx.signal::<String>("approval")).await;
    ctx.set("first", &first.is_ok());
    let second = ctx.timeout(limit, ctx.signal::<String>("approval")).await;
    match second {
        Ok(name) => Ok(format!("approved by {}", name?)),
        Err(elapsed) => Err(elapsed.into()),
    }
}

#[workflow]
async fn cancelled(ctx: WorkflowContext) -> Result<(), Failure> {
    let work = ctx.race([ctx.call(hang()), ctx.call(hang())]).await.1;
    ctx.shielded().call(release(1)).await?;
    work
}

#[workflow]
async fn undone(ctx: WorkflowContext, id: String) -> Result<String, Failure> {
    for item in ["lamp", "bulb"] {
        let hold = ctx.call(reserve(item.to_string()));
        hold.compensate_with(|hold| release(*hold)).await?;
    }
    ctx.call(charge(4_200)).compensate_with(|cents| refund(*cents)).await?;
    ctx.call(ship(id, None)).await
}

/// Starts one instance twice, and fails while a call that it gave up still works.
#[workflow]
async fn hurried(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(reserve("lamp".to_string())).compensate_with(|hold| release(*hold)).await?;
    let _started = ctx.start_detached("hurried-leaf", leaf(0));
    let _refused = ctx.start_detached("hurried-leaf", leaf(0));
    let late = ctx.timeout(SECOND, ctx.call(hang())).await;
    late.map_err(|_| Failure::terminal("no time"))?
}

#[workflow]
async fn family(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    ctx.start_detached("stranger", leaf(0))?;
    let good = ctx.child(leaf(1)).await?;
    let patient = ctx.child(leaf(2)).id("patient").retry(STEADY.max_attempts(2)).await;
    let lost = ctx.timeout(SECOND, ctx.child(order("o-1".to_string(), vec![]))).await;
    Ok(vec![good, patient.unwrap_err().to_string(), lost.unwrap_err().to_string()])
}

#[workflow]
async fn leaving(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.child(approve(HOUR)).parent_close(ParentClose::Abandon).id("left").await
}

/// Starts children with handles: one is awaited late, one ended, one forgotten, one abandoned.
#[workflow]
async fn sending(ctx: WorkflowContext) -> Result<String, Failure> {
    let mut slow = ctx.child(approve(2 * HOUR)).id("slow").start();
    let ended = ctx.child(approve(HOUR)).id("ended").start();
    ctx.child(leaf(3)).id("forgotten").start();
    ctx.child(approve(24 * HOUR)).id("abandoned").parent_close(ParentClose::Abandon).start();
    let early = ctx.timeout(SECOND, &mut slow).await;
    ended.cancel();
    let ended = ended.await.unwrap_err();
    Ok(format!("{}; {ended}; {}", early.unwrap_err(), slow.await.unwrap_err()))
}

#[workflow]
async fn leaf(ctx: WorkflowContext, number: u32) -> Result<String, Failure> {
    match number {
        2 => Err(Failure::new(format!("leaf {} fell", ctx.call(reserve("leaf".into())).await?))),
        _ => Ok(format!("leaf {number}")),
    }
}

/// Went a way of its own before the change `check-first` was made, which is version 2 of it.
#[workflow(version = 2)]
async fn changed(ctx: WorkflowContext) -> Result<u32, Failure> {
    if ctx.version("check-first", 2) >= 2 {
        ctx.call(reserve("lamp".to_string())).await?;
    }
    ctx.sleep(SECOND).await?;
    Ok(ctx.version("check-first", 2) + ctx.version("check-again", 3))
}

#[workflow]
async fn poll_inbox(ctx: WorkflowContext, cursor: u32) -> Result<u32, Failure> {
    ctx.set("cursor", &cursor);
    ctx.sleep(HOUR).await?;
    if cursor == 3 {
        return ctx.signal("stop").await;
    }
    ctx.continue_as_new(poll_inbox(cursor + 1))
}

// The recordings.

fn builder() -> TestBuilder {
    TestApp::builder()
        .workflow(order)
        .workflow(pay_somehow)
        .workflow(approve)
        .workflow(cancelled)
        .workflow(undone)
        .workflow(hurried)
        .workflow(family)
        .workflow(leaf)
        .workflow(leaving)
        .workflow(sending)
        .workflow(changed)
        .workflow(poll_inbox)
        .activity(reserve)
        .activity(release)
        .activity(charge)
        .activity(refund)
        .activity(ship)
        .activity(hang)
}

fn replayer() -> Replayer {
    Replayer::new()
        .workflow(order)
        .workflow(pay_somehow)
        .workflow(approve)
        .workflow(cancelled)
        .workflow(undone)
        .workflow(hurried)
        .workflow(family)
        .workflow(leaf)
        .workflow(leaving)
        .workflow(sending)
        .workflow(changed)
        .workflow(poll_inbox)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}

/// The history of an instance, without what is random about it.
async fn recorded(app: &TestApp, id: &str) -> String {
    let history = app.client().export_history(id).await.unwrap().unwrap();
    let mut text = String::new();
    for line in history.lines() {
        text.push_str(&without(&without(line, "\"uid\":\"", '"'), "\"seed\":", ','));
        text.push('\n');
    }
    replayer().replay(&text).unwrap_or_else(|error| panic!("{id} as recorded today: {error}"));
    text
}

/// A line with the value behind `name` replaced by a zero. The last one of a head ends with it.
fn without(line: &str, name: &str, end: char) -> String {
    let Some((before, rest)) = line.split_once(name) else { return line.to_string() };
    let length = rest.find([end, '}']).unwrap();
    format!("{before}{name}0{}", &rest[length..])
}

/// Compares what was recorded today with the file. `UPDATE_EXPECT=1` writes the file.
async fn check(app: &TestApp, id: &str, file: &str) {
    let path = folder().join(format!("{file}.json"));
    expect_file![path].assert_eq(&recorded(app, id).await);
}

#[test]
async fn an_order() {
    let app = builder().start().await;
    let items = vec!["lamp".to_string(), "bulb".to_string()];
    let run = app.start("order-42", order("order-42".to_string(), items)).await;
    app.advance(60 * SECOND).await;
    check(&app, "order-42", "order_open").await;
    run.result().await.unwrap();
    check(&app, "order-42", "order").await;
}

#[test]
async fn retries() {
    let app = builder().start().await;
    app.start("pay-1", pay_somehow(4_200)).await.result().await.unwrap();
    check(&app, "pay-1", "retries").await;
}

#[test]
async fn signals_and_timers() {
    let app = builder().start().await;
    let run = app.start("approve-1", approve(HOUR)).await;
    app.advance(2 * HOUR - SECOND).await;
    run.signal("other", &7).await.unwrap();
    run.signal("approval", &"Ada").await.unwrap();
    run.result().await.unwrap();
    check(&app, "approve-1", "signals_and_timers").await;
    app.start("approve-2", approve(HOUR)).await.failure().await;
    check(&app, "approve-2", "timers").await;
}

#[test]
async fn a_cancelled_run() {
    let app = builder().start().await;
    let run = app.start("cancelled-1", cancelled()).await;
    app.advance(SECOND).await;
    run.cancel("changed my mind").await.unwrap();
    run.failure().await;
    check(&app, "cancelled-1", "cancel").await;
}

#[test]
async fn a_terminated_run() {
    let app = builder().start().await;
    let run = app.start("cancelled-1", cancelled()).await;
    app.advance(SECOND).await;
    app.client().terminate("cancelled-1", "enough").await.unwrap();
    run.failure().await;
    check(&app, "cancelled-1", "terminate").await;
}

#[test]
async fn compensation() {
    let app = builder().start().await;
    app.start("undone-1", undone("order-42".to_string())).await.failure().await;
    check(&app, "undone-1", "compensation").await;
}

/// Version 0.1 did not wait for the call (`hurried_0_1`), and recorded the second start.
#[test]
async fn undoing_waits() {
    let app = builder().start().await;
    app.start("hurried-1", hurried()).await.result().await.unwrap_err();
    check(&app, "hurried-1", "hurried").await;
}

#[test]
async fn children() {
    let app = builder().start().await;
    app.start("family-1", family()).await.result().await.unwrap();
    check(&app, "family-1", "children").await;
    // Its child was tried again: two runs.
    check(&app, "patient", "child_tried_again").await;
}

#[test]
async fn a_child_that_is_left() {
    let app = builder().start().await;
    let run = app.start("leaving-1", leaving()).await;
    app.advance(SECOND).await;
    app.client().terminate("leaving-1", "enough").await.unwrap();
    run.failure().await;
    app.advance(SECOND).await;
    check(&app, "leaving-1", "parent_terminated").await;
    check(&app, "left", "child_left_open").await;
}

#[test]
async fn children_with_handles() {
    let app = builder().start().await;
    let run = app.start("sending-1", sending()).await;
    app.advance(60 * SECOND).await;
    check(&app, "sending-1", "child_handles_open").await;
    run.result().await.unwrap();
    check(&app, "sending-1", "child_handles").await;
}

#[test]
async fn versions() {
    let app = builder().start().await;
    app.start("changed-1", changed()).await.result().await.unwrap();
    check(&app, "changed-1", "versions").await;
}

#[test]
async fn continued_as_new() {
    let app = builder().start().await;
    let run = app.start("inbox-1", poll_inbox(1)).await;
    run.signal("stop", &9).await.unwrap();
    run.result().await.unwrap();
    check(&app, "inbox-1", "continued_as_new").await;
}

// What is done with them.

/// The name of each file and its text.
fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn todays_code_takes_the_way_of_every_recorded_history() {
    let files = files();
    assert!(files.len() >= 13, "{} files", files.len());
    for (file, history) in files {
        replayer().replay(&history).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

fn file(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap()
}

#[test]
fn a_history_can_be_cut_after_every_turn() {
    use resurgam_core::export::Export;
    for (file, history) in files() {
        let whole = Export::from_json(&history).unwrap();
        for (place, run) in whole.runs.iter().enumerate() {
            for cut in 1..run.events.len() {
                let mut part = whole.clone();
                part.runs[place].events.truncate(cut);
                let replayed = replayer().replay(&part.to_json());
                replayed.unwrap_or_else(|error| panic!("{file}, {cut} events: {error}"));
            }
        }
    }
}

/// Today's code, if somebody had changed it.
mod edited {
    use super::*;

    /// Ships before it waits.
    #[workflow]
    pub(super) async fn order(
        ctx: WorkflowContext,
        id: String,
        items: Vec<String>,
    ) -> Result<String, Failure> {
        ctx.set_status("reserving");
        ctx.join_all(items.into_iter().map(|item| ctx.call(reserve(item)))).await?;
        ctx.set_status(&serde_json::json!({"step": "paying", "of": 3}));
        ctx.call(charge(4_200)).await?;
        ctx.call(ship(id, Some("1 Harbour Street".to_string()))).await
    }

    /// Undoes nothing.
    #[workflow]
    pub(super) async fn undone(ctx: WorkflowContext, id: String) -> Result<String, Failure> {
        for item in ["lamp", "bulb"] {
            ctx.call(reserve(item.to_string())).await?;
        }
        ctx.call(ship(id, None)).await
    }

    /// Expects an argument that was not there.
    #[workflow]
    pub(super) async fn approve(ctx: WorkflowContext, limit: u8) -> Result<String, Failure> {
        ctx.timeout(SECOND * u32::from(limit), ctx.signal::<String>("approval")).await?
    }

    #[workflow]
    pub(super) async fn poll_inbox(ctx: WorkflowContext, cursor: u32) -> Result<u32, Failure> {
        assert!(cursor < 2, "no such cursor: {cursor}");
        ctx.set("cursor", &cursor);
        ctx.sleep(HOUR).await?;
        ctx.continue_as_new(poll_inbox(cursor + 1))
    }
}

#[test]
fn code_that_takes_another_way_is_shown_both_sides() {
    let error = replay(&file("order"), edited::order).unwrap_err();
    assert!(error.is_nondeterminism());
    expect![[r#"
        replay order-42, run 1: B1 the workflow's code has changed under this run: at event 10 its history says
          TimerStarted until 1767229202000ms
        but the code asks for
          ActivityScheduled ship {"order":"order-42","address":"1 Harbour Street"}
        Deploy code that takes the old way for old runs, or restore the old code; the run then goes on by itself. `resurgam explain B1` lists what else it may be
        What came before:
          5 ActivityCompleted #3 4
          6 ActivityCompleted #4 4
          7 StatusSet {"of":3,"step":"paying"}
          8 ActivityScheduled charge {"cents":4200}
          9 ActivityCompleted #8 (attempt 3) 4200"#]].assert_eq(&error.to_string());
    let error = replay(&file("compensation"), edited::undone).unwrap_err();
    expect![[r#"
        replay undone-1, run 1: B1 the workflow's code has changed under this run: at event 4 its history says
          CompensationRecorded #2 release {"hold":4}
        but the code asks for
          ActivityScheduled reserve {"item":"bulb"}
        Deploy code that takes the old way for old runs, or restore the old code; the run then goes on by itself. `resurgam explain B1` lists what else it may be
        What came before:
          1 RunStarted undone {"id":"order-42"}
          2 ActivityScheduled reserve {"item":"lamp"}
          3 ActivityCompleted #2 4"#]].assert_eq(&error.to_string());
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let error = replay(&file("timers"), edited::approve).unwrap_err();
    expect!["replay approve-2, run 1: the argument of approve cannot be read: invalid type: map, expected u8 at line 1 column 9"].assert_eq(&error.to_string());
    let error = replay(&file("continued_as_new"), edited::poll_inbox).unwrap_err();
    assert!(error.is_panic());
    expect!["replay inbox-1, run 2: B2 the workflow's code panicked while taking RunStarted at 1: no such cursor: 2"].assert_eq(&error.to_string());
    let error = replay(&file("order"), undone).unwrap_err();
    expect!["replay order-42, run 1: the run is of workflow order; given is undone"]
        .assert_eq(&error.to_string());
    let error = replay("{}", order).unwrap_err();
    expect!["replay: read a history: missing field `format` at line 1 column 2"]
        .assert_eq(&error.to_string());
}

#[test]
fn a_run_is_replayed_with_the_version_it_is_on() {
    #[workflow(name = "changed", version = 3)]
    async fn changed_v3(_ctx: WorkflowContext) -> Result<u32, Failure> {
        Ok(3)
    }
    let history = file("versions");
    let error = replay(&history, changed_v3).unwrap_err();
    expect!["replay changed-1, run 1: the run is on version 2 of changed; given is version 3"]
        .assert_eq(&error.to_string());
    Replayer::new().workflow(changed).workflow(changed_v3).replay(&history).unwrap();
}

#[test]
fn a_change_under_a_version_takes_the_old_way_for_old_runs() {
    /// Before the change, and with it.
    #[workflow(name = "order")]
    async fn careful(
        ctx: WorkflowContext,
        id: String,
        items: Vec<String>,
    ) -> Result<String, Failure> {
        ctx.set_status("reserving");
        ctx.join_all(items.into_iter().map(|item| ctx.call(reserve(item)))).await?;
        ctx.set_status(&serde_json::json!({"step": "paying", "of": 3}));
        ctx.call(charge(4_200)).await?;
        if ctx.version("no-wait", 2) == 1 {
            ctx.sleep(HOUR).await?;
        }
        ctx.call(ship(id, Some("1 Harbour Street".to_string()))).await
    }
    assert_replays(&file("order"), careful);
    assert_replays(&file("order_open"), careful);
}

#[test]
#[should_panic(expected = "the workflow's code has changed under this run")]
fn the_assertion_panics_with_the_mismatch() {
    assert_replays(&file("order"), edited::order);
}

#[test]
async fn there_is_nothing_to_export_of_nobody() {
    let app = builder().start().await;
    assert_eq!(app.client().export_history("nobody").await.unwrap(), None);
}

#[test]
async fn a_run_that_a_limit_ended_replays() {
    let app = builder().options(|options| options.max_history = 5).start().await;
    let items = vec!["lamp".to_string(), "bulb".to_string(), "wire".to_string()];
    let run = app.start("order-42", order("order-42".to_string(), items)).await;
    assert_eq!(run.failure().await.type_name.as_deref(), Some("HistoryLimit"));
    let history = app.client().export_history("order-42").await.unwrap().unwrap();
    assert_replays(&history, order);
}
