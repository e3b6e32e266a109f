//! Input that cannot be taken: a clear error each, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::schedule::Rule;
use resurgam::{Activity, Code, Error, InstanceFilter, Status, Workflow};
use resurgam_store_sqlite::SqliteStore;
use resurgam_testing::{TestApp, TestBuilder, TestInstance, assert_replays};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Level;

use crate::common::{log, wrapped};

/// Returns a text of this length.
#[activity]
async fn write(length: usize) -> Result<String, Failure> {
    Ok("x".repeat(length))
}

/// Takes a text and returns its length.
#[activity]
async fn read(text: String) -> Result<usize, Failure> {
    Ok(text.len())
}

/// Waits for a text and returns it.
#[workflow]
async fn echo(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.signal("text").await
}

#[workflow]
async fn greet(_ctx: WorkflowContext, name: String) -> Result<String, Failure> {
    Ok(format!("hello, {name}"))
}

fn app() -> TestBuilder {
    TestApp::builder().activity(write).activity(read).workflow(echo).workflow(greet)
}

/// An app that takes values of up to a hundred bytes.
fn small() -> TestBuilder {
    app().options(|options| options.max_payload = 100)
}

fn text<T>(answer: Result<T, Error>) -> String {
    wrapped(&answer.err().expect("an error").to_string())
}

async fn blocked(app: &TestApp, id: &str) -> String {
    app.advance(Duration::from_secs(1)).await;
    let instance = app.describe(id).await.instance;
    assert_eq!(instance.status, Status::Blocked, "{instance:?}");
    wrapped(&instance.error.unwrap())
}

/// Shows that a run that waits in `echo` goes on.
async fn goes_on(run: &TestInstance<String>) {
    run.signal("text", &"still here").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "still here");
}

// Ids, keys and names that no store can keep.

/// Two names that cannot be used.
fn bad_names() -> [String; 2] {
    ["a\0b".to_string(), "x".repeat(1_025)]
}

/// Does with a name what a workflow can do with one, and tells what it hears.
#[workflow]
async fn use_name(ctx: WorkflowContext, name: String) -> Result<Vec<String>, Failure> {
    let child = ctx.child(greet("Ada".into())).id(&name).await.unwrap_err();
    let detached = ctx.start_detached(&name, greet("Ada".into())).unwrap_err();
    let call = ctx.call(read("text".into())).queue(&name).await.unwrap_err();
    let signal = ctx.signal::<()>(&name).await.unwrap_err();
    let all = [child, detached, call, signal];
    assert!(all.iter().all(|failure| failure.type_name.as_deref() == Some("InvalidName")));
    Ok(all.iter().map(|failure| failure.message.clone()).collect())
}

#[workflow]
async fn use_key(ctx: WorkflowContext, key: String) -> Result<(), Failure> {
    ctx.set(&key, &1);
    ctx.sleep(Duration::from_secs(1)).await
}

#[test]
async fn names_that_no_store_can_keep_are_refused_where_they_are_given() {
    let app = app().start().await;
    let run = app.start("echo-1", echo()).await;
    let client = app.client();
    for name in bad_names() {
        let answers = [
            client.start(&name, echo()).await.map(drop),
            client.start("echo-2", echo()).request_id(&name).await.map(drop),
            client.start("echo-2", echo()).queue(&name).await.map(drop),
            client.start("echo-2", echo()).tag(&name, "").await.map(drop),
            client.start("echo-2", echo()).tag("name", &name).await.map(drop),
            client.signal("echo-1", &name, &"hi").await,
            client.signal(&name, "text", &"hi").await,
            client.signal_once("echo-1", "text", &"hi", &name).await,
            client.cancel(&name, "enough").await,
            client.terminate(&name, "enough").await,
        ];
        answers.into_iter().for_each(refused_for_a_name);
    }
    assert!(client.instance::<String>("echo-2").await.unwrap().is_none());
    goes_on(&run).await;
}

/// Shows that somebody was told what is wrong with a name.
fn refused_for_a_name(answer: Result<(), Error>) {
    let error = answer.unwrap_err();
    let text = error.to_string();
    let told = text.contains("holds a NUL character; leave it out")
        || text.contains("has 1025 bytes, 1024 are allowed");
    assert!(told && error.code() == Code::E9, "{error:?}");
}

#[test]
async fn a_schedule_with_a_name_that_no_store_can_keep_is_refused_where_it_is_given() {
    /// A workflow by hand, whose name is one byte too long.
    #[derive(Serialize, Deserialize)]
    struct LongName;

    impl Workflow for LongName {
        const NAME: &'static str = match str::from_utf8(&[b'x'; 1_025]) {
            Ok(name) => name,
            Err(_) => "",
        };
        type Output = ();

        async fn run(self, _ctx: WorkflowContext) -> Result<(), Failure> {
            Ok(())
        }
    }

    let app = app().start().await;
    let client = app.client();
    let echoes = || client.schedule("echoes", Rule::cron("* * * * *"), echo());
    for name in bad_names() {
        let answers = [
            echoes().queue(&name).await,
            echoes().tag(&name, "").await,
            echoes().tag("name", &name).await,
            client.describe_schedule(&name).await.map(drop),
            client.pause_schedule(&name).await,
            client.run_schedule_now(&name).await.map(drop),
            client.delete_schedule(&name).await,
        ];
        answers.into_iter().for_each(refused_for_a_name);
    }
    refused_for_a_name(client.schedule("echoes", Rule::cron("* * * * *"), LongName).await);
    assert!(client.schedules().await.unwrap().is_empty());
    app.advance(Duration::from_secs(120)).await;
    assert!(client.list(InstanceFilter::default()).await.unwrap().is_empty());
}

#[test]
async fn a_workflow_hears_that_a_name_cannot_be_used_and_goes_on() {
    let app = app().workflow(use_name).start().await;
    let [nul, long] = bad_names();
    let told = app.start("names-1", use_name(nul)).await.result().await.unwrap();
    expect![[r#"
        start greet: the id "a\0b" holds a NUL character; leave it out
        start greet: the id "a\0b" holds a NUL character; leave it out
        call read: the queue "a\0b" holds a NUL character; leave it out
        wait for a signal: the name "a\0b" holds a NUL character; leave it out"#]]
    .assert_eq(&told.join("\n"));
    let told = app.start("names-2", use_name(long)).await.result().await.unwrap();
    assert!(told.iter().all(|text| text.ends_with("has 1025 bytes, 1024 are allowed")), "{told:?}");
}

#[test]
async fn a_signal_from_before_its_name_was_refused_is_replayed() {
    #[workflow]
    async fn listen(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
        let heard = ctx.signal(&name).await?;
        ctx.call(read("text".into())).await?;
        Ok(heard)
    }
    let app = app().workflow(listen).start().await;
    let run = app.start("listen-1", listen("news".into())).await;
    run.signal("news", &"hi").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "hi");
    let history = app.client().export_history("listen-1").await.unwrap().unwrap();
    for name in bad_names() {
        let name = json!(name).to_string();
        assert_replays(&history.replace("\"news\"", &name), listen);
    }
}

#[test]
async fn a_key_that_cannot_be_used_ends_the_run_with_a_clear_failure() {
    let app = app().workflow(use_key).start().await;
    for (number, key) in bad_names().into_iter().enumerate() {
        let run = app.start(&format!("keys-{number}"), use_key(key)).await;
        let failure = run.failure().await;
        assert_eq!(failure.type_name.as_deref(), Some("InvalidName"));
        assert!(failure.message.starts_with("the key "), "{failure}");
    }
}

#[test]
async fn a_run_whose_step_is_refused_is_tried_again_after_growing_waits() {
    #[workflow]
    async fn tell(ctx: WorkflowContext) -> Result<String, Failure> {
        ctx.sleep(Duration::from_secs(1)).await?;
        ctx.set_status("awake");
        Ok("awake".to_string())
    }
    log::listen();
    let app = app().workflow(tell).start().await;
    let run = app.start("tell-1", tell()).await;
    app.faults().unwritable(Some("StatusSet"));
    let mut tries = Vec::new();
    for _ in 0..6 {
        app.advance(Duration::from_secs(60)).await;
        tries.push(app.faults().unwritten());
    }
    assert_eq!(tries, [6, 7, 8, 8, 9, 9]);
    let errors = log::lines().into_iter().filter(|line| line.level == Level::ERROR);
    let named: Vec<String> = errors.flat_map(|line| line.fields).map(|(_, id)| id).collect();
    assert_eq!(named, ["tell-1"; 9], "each line names the instance by its id");
    assert!(blocked(&app, "tell-1").await.contains("D5"));
    app.faults().unwritable(None);
    assert_eq!(run.result().await.unwrap(), "awake");
}

// Starting.

#[test]
async fn an_unknown_workflow_is_refused_and_the_known_ones_are_named() {
    let app = app().start().await;
    let started = app.client().start_named::<()>("order-1", "ordre", &json!({})).await;
    assert!(started.as_ref().err().unwrap().is_unknown());
    expect![[r#"
        start order-1: workflow ordre is unknown; known are echo, greet; add it with
        .workflow(..) where the app is built
    "#]]
    .assert_eq(&text(started));
    // The id is still free.
    let run = app.start("order-1", echo()).await;
    goes_on(&run).await;
}

#[test]
async fn an_id_that_is_taken_is_refused_and_its_run_is_left_alone() {
    let app = app().start().await;
    let run = app.start("echo-1", echo()).await;
    let again = app.try_start("echo-1", echo()).await;
    assert!(again.as_ref().err().unwrap().is_already_exists());
    expect![[r#"
        start echo-1: an instance of this id exists; choose another id
    "#]]
    .assert_eq(&text(again));
    // Also when the store and not the memory knows, and after the end.
    app.restart().await;
    assert!(app.try_start("echo-1", echo()).await.err().unwrap().is_already_exists());
    goes_on(&run).await;
    assert!(app.try_start("echo-1", echo()).await.err().unwrap().is_already_exists());
}

#[test]
async fn of_starts_at_the_same_moment_one_wins() {
    let app = app().start().await;
    let client = app.client();
    let start = |name: &str| client.start("greet-1", greet(name.to_string())).into_future();
    let (one, other) = tokio::join!(start("Ada"), start("Grace"));
    assert!(one.is_ok() != other.is_ok());
    let lost = one.err().or(other.err()).unwrap();
    assert!(lost.is_already_exists());
}

#[test]
async fn a_closed_instance_gives_up_its_id_when_asked_to_and_an_open_one_does_not() {
    let app = app().start().await;
    let run = app.start("echo-1", echo()).await;
    let replace = || async { app.client().start("echo-1", echo()).replace_closed().await };
    assert!(replace().await.unwrap_err().is_already_exists());
    goes_on(&run).await;
    let next = replace().await.unwrap();
    next.signal("text", &"next").await.unwrap();
    assert_eq!(next.result().await.unwrap(), "next");
}

#[test]
async fn a_start_that_is_repeated_with_its_request_id_gets_the_first_answer() {
    let app = app().start().await;
    let start = || async { app.client().start("echo-1", echo()).request_id("request-7").await };
    let first = start().await.unwrap();
    assert_eq!(start().await.unwrap().uid(), first.uid());
    app.restart().await;
    assert_eq!(start().await.unwrap().uid(), first.uid());
}

#[test]
async fn an_empty_id_is_refused() {
    let app = app().start().await;
    expect![[r#"
        start echo: an empty id is not allowed
    "#]]
    .assert_eq(&text(app.try_start("", echo()).await));
}

#[test]
async fn an_argument_that_the_workflow_cannot_read_is_refused() {
    let app = app().start().await;
    let started = app.client().start_named::<String>("greet-1", "greet", &json!({"nam": 1})).await;
    expect![[r#"
        start greet-1: the argument of greet cannot be read: missing field `name` at
        line 1 column 9
    "#]]
    .assert_eq(&text(started));
    let run = app.start("greet-1", greet("Ada".to_string())).await;
    assert_eq!(run.result().await.unwrap(), "hello, Ada");
}

#[test]
async fn an_argument_that_is_too_large_is_refused() {
    let app = small().start().await;
    let started = app.try_start("greet-1", greet("x".repeat(100))).await;
    assert!(started.as_ref().err().unwrap().is_too_large());
    expect![[r#"
        start greet-1: the argument has 111 bytes, 100 are allowed
    "#]]
    .assert_eq(&text(started));
    let run = app.start("greet-1", greet("x".repeat(80))).await;
    run.result().await.unwrap();
}

// Signals.

#[test]
async fn a_signal_to_nobody_is_refused() {
    let app = app().start().await;
    let sent = app.signal("nobody", "text", &"x").await;
    assert!(sent.as_ref().err().unwrap().is_unknown());
    expect![[r#"
        signal text to nobody: there is no instance of this id
    "#]]
    .assert_eq(&text(sent));
    expect![[r#"
        cancel nobody: there is no instance of this id
    "#]]
    .assert_eq(&text(app.cancel("nobody", "enough").await));
}

#[test]
async fn a_signal_to_an_instance_that_is_closed_is_refused() {
    let app = app().start().await;
    let run = app.start("greet-1", greet("Ada".to_string())).await;
    let sent = run.signal("text", &"x").await;
    assert!(sent.as_ref().err().unwrap().is_closed());
    expect![[r#"
        signal text to greet-1: the instance is closed (completed)
    "#]]
    .assert_eq(&text(sent));
    expect![[r#"
        cancel greet-1: the instance is closed (completed)
    "#]]
    .assert_eq(&text(run.cancel("enough").await));
}

#[test]
async fn a_signal_that_comes_as_the_run_ends_is_taken_or_refused_and_never_both() {
    let app = app().start().await;
    for number in 0..10 {
        let id = format!("echo-{number}");
        let run = app.start(&id, echo()).await;
        let client = app.client();
        let (one, other) =
            tokio::join!(client.signal(&id, "text", &"one"), client.signal(&id, "text", &"other"));
        let won = run.result().await.unwrap();
        let (winner, loser) = if won == "one" { (one, other) } else { (other, one) };
        winner.unwrap();
        let error = loser.unwrap_err();
        assert!(error.is_closed(), "{error}");
    }
}

#[test]
async fn a_signal_that_is_too_large_is_refused() {
    let app = small().start().await;
    let run = app.start("echo-1", echo()).await;
    let sent = run.signal("text", &"x".repeat(100)).await;
    assert!(sent.as_ref().err().unwrap().is_too_large());
    expect![[r#"
        signal text: the value has 102 bytes, 100 are allowed
    "#]]
    .assert_eq(&text(sent));
    goes_on(&run).await;
}

#[test]
async fn a_run_that_reads_none_of_its_signals_is_sent_no_more() {
    let app = app().options(|options| options.max_unread_signals = 3).start().await;
    let run = app.start("echo-1", echo()).await;
    for _ in 0..3 {
        run.signal("other", &()).await.unwrap();
    }
    expect![[r#"
        signal other to echo-1: 3 are unread already; send it again when some are read
    "#]]
    .assert_eq(&text(run.signal("other", &()).await));
    expect![[r#"
        1 +0ms RunStarted echo {}
    "#]]
    .assert_eq(&run.history().await);
}

// What a workflow asks for.

#[test]
async fn a_result_of_an_activity_that_is_too_large_is_a_failure_that_is_not_retried() {
    #[workflow]
    async fn call_write(ctx: WorkflowContext) -> Result<String, Failure> {
        let failure = ctx.call(write(100)).await.unwrap_err();
        let small = ctx.call(write(3)).await?;
        Ok(format!("{failure}; {small}"))
    }
    let app = small().workflow(call_write).start().await;
    let run = app.start("write-1", call_write()).await;
    expect![[r#"
        PayloadTooLarge: the result of 102 bytes is larger than the 100 allowed; xxx
    "#]]
    .assert_eq(&wrapped(&run.result().await.unwrap()));
    assert_eq!((app.attempts(write), app.ledger("write-1").await.len()), (2, 1));
}

/// Workflows that ask for too much, before and after they are mended.
mod large {
    use super::*;

    #[workflow(name = "call_read")]
    pub(super) async fn call_read(ctx: WorkflowContext) -> Result<usize, Failure> {
        ctx.call(read("x".repeat(100))).await
    }

    #[workflow(name = "tell")]
    pub(super) async fn tell(ctx: WorkflowContext) -> Result<String, Failure> {
        let text = ctx.call(write(90)).await?;
        ctx.set_status(&format!("{text}{text}"));
        Ok(text)
    }

    #[workflow(name = "answer")]
    pub(super) async fn answer(ctx: WorkflowContext) -> Result<String, Failure> {
        let text = ctx.call(write(90)).await?;
        Ok(format!("{text}{text}"))
    }
}

mod mended {
    use super::*;

    #[workflow(name = "call_read")]
    pub(super) async fn call_read(ctx: WorkflowContext) -> Result<usize, Failure> {
        ctx.call(read("x".repeat(10))).await
    }

    #[workflow(name = "tell")]
    pub(super) async fn tell(ctx: WorkflowContext) -> Result<String, Failure> {
        let text = ctx.call(write(90)).await?;
        ctx.set_status(&text);
        Ok(text)
    }

    #[workflow(name = "answer")]
    pub(super) async fn answer(ctx: WorkflowContext) -> Result<String, Failure> {
        ctx.call(write(90)).await
    }
}

#[test]
async fn a_value_of_a_workflow_that_is_too_large_blocks_it_until_it_is_mended() {
    let large = || small().workflow(large::call_read).workflow(large::tell).workflow(large::answer);
    let app = large().start().await;
    let argument = app.start("read-1", large::call_read()).await;
    let status = app.start("tell-1", large::tell()).await;
    let result = app.start("answer-1", large::answer()).await;
    expect![[r#"
        B4 the arguments of read: 111 bytes, 100 are allowed
    "#]]
    .assert_eq(&blocked(&app, "read-1").await);
    expect![[r#"
        B4 the status: 182 bytes, 100 are allowed
    "#]]
    .assert_eq(&blocked(&app, "tell-1").await);
    expect![[r#"
        B4 the result of the workflow: 182 bytes, 100 are allowed
    "#]]
    .assert_eq(&blocked(&app, "answer-1").await);

    let mended = small().workflow(mended::call_read).workflow(mended::tell);
    app.restart_with(mended.workflow(mended::answer)).await;
    assert_eq!(argument.result().await.unwrap(), 10);
    assert_eq!(status.result().await.unwrap(), "x".repeat(90));
    assert_eq!(result.result().await.unwrap(), "x".repeat(90));
    // What was done before was not done again.
    assert_eq!(app.attempts(write), 2);
}

#[test]
async fn a_larger_limit_helps_too() {
    let app = small().workflow(large::answer).start().await;
    let run = app.start("answer-1", large::answer()).await;
    blocked(&app, "answer-1").await;
    app.restart_with(self::app().workflow(large::answer)).await;
    assert_eq!(run.result().await.unwrap().len(), 180);
}

#[test]
async fn a_history_that_grows_too_long_ends_its_run() {
    #[workflow]
    async fn for_ever(ctx: WorkflowContext) -> Result<(), Failure> {
        loop {
            ctx.sleep(Duration::from_secs(1)).await?;
        }
    }
    let app = app().workflow(for_ever).options(|options| options.max_history = 6).start().await;
    let run = app.start("long-1", for_ever()).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("HistoryLimit"));
    expect![[r#"
        the history has 8 events, 6 are allowed; continue as new before that
    "#]]
    .assert_eq(&wrapped(&failure.message));
    expect![[r#"
        1 +0ms RunStarted for_ever {}
        2 +0ms TimerStarted until +1s
        3 +1s TimerFired #2
        4 +1s TimerStarted until +2s
        5 +2s TimerFired #4
        6 +2s TimerStarted until +3s
        7 +3s TimerFired #6
        8 +3s TimerStarted until +4s
        9 +3s LimitPassed HistoryLimit: as above
        10 +3s RunFailed HistoryLimit: as above
    "#]]
    .assert_eq(&run.history().await.replace(&failure.message, "as above"));
}

#[test]
async fn too_many_open_calls_end_their_run_before_any_of_them_is_attempted() {
    #[workflow]
    async fn fan_out(ctx: WorkflowContext, calls: usize) -> Result<usize, Failure> {
        Ok(ctx.join_all((0..calls).map(|length| ctx.call(write(length)))).await?.len())
    }
    let app = app().workflow(fan_out).options(|options| options.max_open_calls = 3).start().await;
    let run = app.start("fan-1", fan_out(4)).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("OpenCallsLimit"));
    expect![[r#"
        1 +0ms RunStarted fan_out {"calls":4}
        2 +0ms ActivityScheduled write {"length":0}
        3 +0ms ActivityScheduled write {"length":1}
        4 +0ms ActivityScheduled write {"length":2}
        5 +0ms ActivityScheduled write {"length":3}
        6 +0ms LimitPassed OpenCallsLimit: 4 activity calls are open at once, 3 are allowed
        7 +0ms RunFailed OpenCallsLimit: 4 activity calls are open at once, 3 are allowed
    "#]]
    .assert_eq(&run.history().await);
    assert_eq!((app.attempts(write), app.describe("fan-1").await.pending.len()), (0, 0));
    // As many as allowed, again and again, are fine.
    for number in 2..5 {
        let run = app.start(&format!("fan-{number}"), fan_out(3)).await;
        assert_eq!(run.result().await.unwrap(), 3);
    }
}

#[test]
async fn a_policy_of_a_call_that_makes_no_sense_blocks_the_run() {
    #[workflow]
    async fn call_badly(ctx: WorkflowContext) -> Result<usize, Failure> {
        let policy = RetryPolicy::exponential(Duration::from_secs(1)).multiplier(f64::NAN);
        ctx.call(read("x".to_string())).retry(policy).await
    }
    let app = app().workflow(call_badly).start().await;
    app.start("bad-1", call_badly()).await;
    expect![[r#"
        B4 the retry policy of read: backoff.multiplier: NaN is not a finite number
        greater than 0
    "#]]
    .assert_eq(&blocked(&app, "bad-1").await);
    assert_eq!(app.attempts(read), 0);
}

// What has no form.

/// JSON has no such keys.
type Formless = BTreeMap<(u32, u32), u32>;

fn formless() -> Formless {
    BTreeMap::from([((1, 2), 3)])
}

#[activity]
async fn return_formless() -> Result<Formless, Failure> {
    Ok(formless())
}

#[activity]
async fn take_formless(table: Formless) -> Result<usize, Failure> {
    Ok(table.len())
}

#[workflow]
async fn call_return_formless(ctx: WorkflowContext) -> Result<usize, Failure> {
    Ok(ctx.call(return_formless()).await?.len())
}

#[workflow]
async fn call_take_formless(ctx: WorkflowContext) -> Result<usize, Failure> {
    ctx.call(take_formless(formless())).await
}

#[workflow]
async fn begin_formless(_ctx: WorkflowContext, table: Formless) -> Result<usize, Failure> {
    Ok(table.len())
}

#[test]
async fn a_value_without_a_json_form_is_named_where_it_is_written() {
    let app = app()
        .workflow(call_return_formless)
        .workflow(call_take_formless)
        .workflow(begin_formless)
        .activity(return_formless)
        .activity(take_formless)
        .start()
        .await;
    expect![[r#"
        start begin-1 failed: the value has no JSON form: key must be a string
    "#]]
    .assert_eq(&text(app.try_start("begin-1", begin_formless(formless())).await));
    expect![[r#"
        start take-1 failed: the value has no JSON form: key must be a string
    "#]]
    .assert_eq(&text(app.client().submit("take-1", take_formless(formless())).await));
    let echo = app.start("echo-1", echo()).await;
    expect![[r#"
        signal text to echo-1 failed: the value has no JSON form: key must be a string
    "#]]
    .assert_eq(&text(echo.signal("text", &formless()).await));
    let run = app.start("return-1", call_return_formless()).await;
    expect![[r#"
        BadOutput: write the result of return_formless: key must be a string
    "#]]
    .assert_eq(&wrapped(&run.failure().await.to_string()));
    assert_eq!(app.attempts(return_formless), 1);
    app.start("take-1", call_take_formless()).await;
    expect![[r#"
        B2 the workflow's code panicked while taking RunStarted at 1: call
        take_formless: the arguments have no JSON form: key must be a string
    "#]]
    .assert_eq(&blocked(&app, "take-1").await);
}

#[test]
async fn arguments_that_an_activity_cannot_read_are_a_failure_that_is_not_retried() {
    mod renamed {
        use super::*;

        #[activity(name = "read")]
        pub(super) async fn read(words: String) -> Result<usize, Failure> {
            Ok(words.len())
        }

        #[workflow]
        pub(super) async fn call_renamed(ctx: WorkflowContext) -> Result<usize, Failure> {
            ctx.call(read("x".to_string())).await
        }
    }
    let app = app().workflow(renamed::call_renamed).start().await;
    let run = app.start("read-1", renamed::call_renamed()).await;
    let failure = run.failure().await;
    expect![[r#"
        BadInput: read the arguments of read: missing field `text` at line 1 column 13
    "#]]
    .assert_eq(&wrapped(&failure.to_string()));
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(1), Some("terminal")));
}

// Building an app.

#[derive(Serialize, Deserialize)]
struct Nameless {}

impl Activity for Nameless {
    const NAME: &'static str = " ";
    type Output = ();

    async fn run(self, _ctx: ActivityContext) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
async fn an_app_that_makes_no_sense_is_not_begun() {
    let on = |app: resurgam::AppBuilder| app.on(Arc::new(SqliteStore::in_memory().unwrap()));
    let builder = resurgam::App::builder;
    expect![[r#"
        build the app failed: register activity " ": an empty name is not allowed
    "#]]
    .assert_eq(&text(on(builder().activity_type::<Nameless>())));
    expect![[r#"
        build the app failed: register activity read: the name is taken; give one of
        them another with #[activity(name = "...")]
    "#]]
    .assert_eq(&text(on(builder().activity(read).activity(read))));
    expect![[r#"
        build the app failed: register workflow echo: version 1 of it is there already;
        give one of them another name or version with #[workflow(name = "...", version =
        2)]
    "#]]
    .assert_eq(&text(on(builder().workflow(echo).workflow(echo))));
    let endless = RetryPolicy::fixed(Duration::MAX);
    expect![[r#"
        build the app failed: the app's retry policy: backoff.delay:
        "18446744073709551615999.999999ms" is longer than 100 years; leave it out or
        give less
    "#]]
    .assert_eq(&text(on(builder().retry(endless))));
}
