//! A test that hangs fails by itself and says what it waits for. Those that hang here are ignored,
//! and started as processes of their own, with two seconds of patience in place of twenty.

use std::process::Command;
use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::{StoreCall, TestApp, TestStore};
use resurgam_watchdog::test;

/// Runs a test of this binary that hangs, in memory, and compares what it says when it panics or,
/// if nobody can make it panic, when its process is aborted.
#[track_caller]
fn check(name: &str, says: Expect) {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", &format!("hanging::{name}"), "--ignored"]);
    test.env(TestStore::VARIABLE, "memory").env("RESURGAM_TEST_PATIENCE", "2");
    let output = test.env("RUST_BACKTRACE", "0").output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!output.status.success(), "{text}");
    let report = text.lines().skip_while(|line| !line.contains("nothing has moved for 2 s"));
    let report: Vec<&str> = report.take_while(|line| !line.starts_with("note: ")).collect();
    says.assert_eq(report.join("\n").trim_end());
}

#[activity(retry = RetryPolicy::fixed(Duration::from_secs(60)).jitter(Jitter::None))]
async fn knock(ctx: ActivityContext) -> Result<(), Failure> {
    match ctx.attempt() {
        1 => Err(Failure::new("nobody is there")),
        _ => Ok(()),
    }
}

#[activity]
async fn read_a_book() -> Result<(), Failure> {
    std::future::pending().await
}

#[workflow]
async fn visit(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(knock()).await?;
    ctx.signal("come in").await
}

#[workflow]
async fn evening(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(read_a_book()).await
}

async fn app() -> TestApp {
    let app = TestApp::builder().workflow(visit).workflow(evening);
    app.activity(knock).activity(read_a_book).start().await
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn awaits_a_signal_that_never_comes_outside_of_virtual_time() {
    let app = app().await;
    app.start("visit-1", visit()).await;
    app.advance(Duration::from_secs(60)).await;
    let instance = app.client().instance::<u32>("visit-1").await.unwrap().unwrap();
    let _never = instance.result().await;
}

#[test]
fn a_test_that_awaits_a_signal_outside_of_virtual_time_is_told_what_waits_for_it() {
    check(
        "awaits_a_signal_that_never_comes_outside_of_virtual_time",
        expect![[r#"
            nothing has moved for 2 s of wall time, and nothing is under way: the test awaits something that only time can bring, and time passes only in methods of TestApp and its instances, such as app.advance(..) and run.result().
            Awaited: wait for the outcome of instance visit-1.
            The clock is at +1m, and nothing is due.
            Instance visit-1 of visit waits for a signal, a child, or something that is not the engine's."#]],
    );
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn awaits_a_backoff_outside_of_virtual_time() {
    let app = app().await;
    app.start("visit-1", visit()).await;
    app.advance(Duration::from_secs(1)).await;
    app.signal("visit-1", "come in", &7).await.unwrap();
    let instance = app.client().instance::<u32>("visit-1").await.unwrap().unwrap();
    let _never = instance.result().await;
}

#[test]
fn a_test_that_awaits_a_backoff_outside_of_virtual_time_is_told_when_it_ends() {
    check(
        "awaits_a_backoff_outside_of_virtual_time",
        expect![[r#"
            nothing has moved for 2 s of wall time, and nothing is under way: the test awaits something that only time can bring, and time passes only in methods of TestApp and its instances, such as app.advance(..) and run.result().
            Awaited: wait for the outcome of instance visit-1.
            The clock is at +1s; the next thing is due at +30s.
            Instance visit-1 of visit waits for knock, whose next attempt is due at +1m."#]],
    );
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn awaits_refused_commits_outside_of_virtual_time() {
    let app = app().await;
    app.start("visit-1", visit()).await;
    app.advance(Duration::from_secs(1)).await;
    app.faults().refuse(StoreCall::Commit, u32::MAX);
    let _never = app.client().cancel("visit-1", "nobody is at home").await;
}

#[test]
fn a_test_that_awaits_a_refused_commit_outside_of_virtual_time_is_told_which_answer_is_missing() {
    check(
        "awaits_refused_commits_outside_of_virtual_time",
        expect![[r#"
            nothing has moved for 2 s of wall time, and nothing is under way: the test awaits something that only time can bring, and time passes only in methods of TestApp and its instances, such as app.advance(..) and run.result().
            Awaited: cancel visit-1.
            The clock is at +1s; the next thing is due at +1.01s.
            Instance visit-1 of visit waits for knock, whose next attempt is due at +1m."#]],
    );
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn waits_for_an_attempt_that_does_not_wait_through_its_context() {
    let app = app().await;
    let _never = app.start("evening-1", evening()).await.result().await;
}

#[test]
fn a_test_whose_activity_never_returns_is_told_which_one() {
    check(
        "waits_for_an_attempt_that_does_not_wait_through_its_context",
        expect![[r#"
            waited for the end of evening-1, but nothing has moved for 2 s of wall time, and these hold the clock: attempt 1 of read_a_book in evening-1. (An activity under test waits through ctx, or with resurgam_testing::never.)
            Awaited: the end of evening-1; wait for the outcome of instance evening-1.
            The clock is at +0ms, and nothing is due.
            Instance evening-1 of evening waits for attempt 1 of read_a_book, which runs."#]],
    );
}

/// As users write their tests: nobody can make this one fail but the process.
#[::core::prelude::v1::test]
#[ignore = "it hangs: another test starts it"]
fn awaits_what_never_comes_in_a_test_that_nobody_watches() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = app().await;
        app.start("visit-1", visit()).await;
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_hanging_test_that_nobody_watches_ends_its_process_with_a_report() {
    check(
        "awaits_what_never_comes_in_a_test_that_nobody_watches",
        expect![[r#"
            hanging::awaits_what_never_comes_in_a_test_that_nobody_watches: nothing has moved for 2 s of wall time, and nothing is under way: the test awaits something that only time can bring, and time passes only in methods of TestApp and its instances, such as app.advance(..) and run.result().
            The clock is at +0ms; the next thing is due at +30s.
            Instance visit-1 of visit waits for knock, whose next attempt is due at +1m."#]],
    );
}
