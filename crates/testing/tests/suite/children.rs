//! Workflows of workflows: who hears what of whom, and what becomes of them.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Jitter, Timeouts};
use resurgam::{InstanceFilter, Outcome, ParentClose, Status};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Works for this long; a zero is refused.
#[workflow]
async fn worker(ctx: WorkflowContext, seconds: u64) -> Result<u64, Failure> {
    if seconds == 0 {
        return Err(Failure::of_type("Idle", "nothing to do").into_terminal());
    }
    ctx.sleep(Duration::from_secs(seconds)).await?;
    Ok(seconds)
}

#[workflow]
async fn team(ctx: WorkflowContext, seconds: Vec<u64>) -> Result<Vec<u64>, Failure> {
    ctx.join_all(seconds.into_iter().map(|seconds| ctx.child(worker(seconds)))).await
}

fn app() -> TestBuilder {
    TestApp::builder().workflow(worker).workflow(team)
}

/// Begins to wait for something that nobody drops: it is left when the run ends.
async fn leave_open<F: IntoFuture>(wait: F)
where
    F::IntoFuture: 'static,
{
    let wait = Box::leak(Box::new(Box::pin(wait.into_future())));
    poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_ready())).await;
}

async fn status(app: &TestApp, id: &str) -> Status {
    app.describe(id).await.instance.status
}

#[test]
async fn a_parent_waits_for_its_children_and_sees_only_their_outcome() {
    let app = app().start().await;
    let run = app.start("team-1", team(vec![3, 1, 2])).await;
    assert_eq!(run.result().await.unwrap(), [3, 1, 2]);
    expect![[r#"
        1 +0ms RunStarted team {"seconds":[3,1,2]}
        2 +0ms ChildStarted team-1/2 worker {"seconds":3}
        3 +0ms ChildStarted team-1/3 worker {"seconds":1}
        4 +0ms ChildStarted team-1/4 worker {"seconds":2}
        5 +1s ChildCompleted #3 1
        6 +2s ChildCompleted #4 2
        7 +3s ChildCompleted #2 3
        8 +3s RunCompleted [3,1,2]
    "#]]
    .assert_eq(&run.history().await);
    // Each has a history of its own.
    expect![[r#"
        1 +0ms RunStarted worker {"seconds":1}
        2 +0ms TimerStarted until +1s
        3 +1s TimerFired #2
        4 +1s RunCompleted 1
    "#]]
    .assert_eq(&app.history("team-1/3").await);
}

#[test]
async fn a_child_that_fails_is_a_failure_that_its_parent_can_handle() {
    #[workflow]
    async fn lenient(ctx: WorkflowContext) -> Result<String, Failure> {
        let failure = ctx.child(worker(0)).await.unwrap_err();
        let value = ctx.child(worker(1)).await?;
        Ok(format!("{failure}; {value}"))
    }
    let app = app().workflow(lenient).start().await;
    let run = app.start("lenient-1", lenient()).await;
    assert_eq!(run.result().await.unwrap(), "Idle: nothing to do; 1");
}

#[test]
async fn a_child_that_is_cancelled_by_somebody_else_is_a_failure_of_that_kind() {
    let app = app().start().await;
    let run = app.start("team-1", team(vec![3_600])).await;
    app.advance(SECOND).await;
    app.cancel("team-1/2", "not you").await.unwrap();
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.message.as_str()), (resurgam::Kind::Cancelled, "not you"));
    // The parent was not cancelled: it failed.
    assert_eq!(status(&app, "team-1").await, Status::Failed);
}

#[test]
async fn cancelling_a_parent_cancels_its_children_and_theirs() {
    #[workflow]
    async fn company(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.child(team(vec![3_600, 7_200])).id("team").await.map(drop)
    }
    let app = app().workflow(company).start().await;
    let run = app.start("company", company()).await;
    app.advance(SECOND).await;
    run.cancel("bankrupt").await.unwrap();
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    app.advance(SECOND).await;
    for id in ["company", "team", "team/2", "team/3"] {
        assert_eq!(status(&app, id).await, Status::Cancelled, "{id}");
    }
    expect![[r#"
        1 +0ms RunStarted team {"seconds":[3600,7200]}
        2 +0ms ChildStarted team/2 worker {"seconds":3600}
        3 +0ms ChildStarted team/3 worker {"seconds":7200}
        4 +1s CancelRequested the workflow that started it ended it
        5 +1s ChildCancelRequested #2
        6 +1s ChildCancelRequested #3
        7 +1s RunCancelled Cancelled: the workflow that started it ended it
    "#]]
    .assert_eq(&app.history("team").await);
}

/// Starts a child under a policy, and ends before it.
#[workflow]
async fn leave(ctx: WorkflowContext, policy: String, fails: bool) -> Result<(), Failure> {
    let policy = match policy.as_str() {
        "cancel" => ParentClose::Cancel,
        "terminate" => ParentClose::Terminate,
        _ => ParentClose::Abandon,
    };
    let child = ctx.child(worker(3_600)).id("child").parent_close(policy);
    leave_open(child).await;
    ctx.sleep(SECOND).await?;
    if fails { Err(Failure::new("no")) } else { Ok(()) }
}

#[test]
async fn a_parent_that_ends_takes_its_children_with_it_as_they_were_told() {
    for fails in [false, true] {
        let cases = [
            ("cancel", Status::Cancelled, "Cancelled"),
            ("terminate", Status::Terminated, "Terminated"),
            ("abandon", Status::Completed, ""),
        ];
        for (policy, expected, why) in cases {
            let app = app().workflow(leave).start().await;
            let run = app.start("leave-1", leave(policy.to_string(), fails)).await;
            run.outcome().await;
            app.advance(2 * HOUR).await;
            let child = app.describe("child").await.instance;
            assert_eq!(child.status, expected, "{policy}");
            if !why.is_empty() {
                let failure: Failure = child.outcome.unwrap().decode().unwrap();
                assert_eq!(failure.type_name.as_deref(), Some(why));
            }
        }
    }
    let app = app().workflow(leave).start().await;
    let run = app.start("leave-1", leave("terminate".to_string(), false)).await;
    run.outcome().await;
    expect![[r#"
        1 +0ms RunStarted leave {"policy":"terminate","fails":false}
        2 +0ms ChildStarted child worker {"seconds":3600}
        3 +0ms TimerStarted until +1s
        4 +1s TimerFired #3
        5 +1s ChildCancelRequested #2 terminate
        6 +1s RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_child_is_cancelled_when_its_parent_ends_unless_told_otherwise() {
    #[workflow]
    async fn leave_at_once(ctx: WorkflowContext) -> Result<(), Failure> {
        leave_open(ctx.child(worker(3_600)).id("child")).await;
        ctx.sleep(SECOND).await
    }
    let app = app().workflow(leave_at_once).start().await;
    app.start("leave-1", leave_at_once()).await.result().await.unwrap();
    app.advance(SECOND).await;
    expect![[r#"
        1 +0ms RunStarted worker {"seconds":3600}
        2 +0ms TimerStarted until +1h
        3 +1s CancelRequested the workflow that started it ended it
        4 +1s TimerCancelled #2
        5 +1s RunCancelled Cancelled: the workflow that started it ended it
    "#]]
    .assert_eq(&app.history("child").await);
}

/// Starts a child with a handle under a policy, and ends at once, or when it hears a signal.
#[workflow]
async fn go_on(ctx: WorkflowContext, policy: String, waits: bool) -> Result<(), Failure> {
    let policy = match policy.as_str() {
        "cancel" => ParentClose::Cancel,
        "terminate" => ParentClose::Terminate,
        "detached" => ParentClose::Detached,
        _ => ParentClose::Abandon,
    };
    ctx.child(worker(3_600)).id("child").parent_close(policy).start();
    if waits { ctx.signal("end").await } else { Ok(()) }
}

#[test]
async fn a_child_with_a_handle_goes_on_while_nobody_waits_and_its_parent_close_policy_holds() {
    let cases = [
        ("cancel", Status::Cancelled),
        ("terminate", Status::Terminated),
        ("abandon", Status::Completed),
        ("detached", Status::Completed),
    ];
    for (policy, expected) in cases {
        for waits in [false, true] {
            let app = app().workflow(go_on).start().await;
            let run = app.start("go-1", go_on(policy.to_string(), waits)).await;
            app.advance(SECOND).await;
            if waits {
                assert_eq!(status(&app, "child").await, Status::Running, "{policy}");
                app.restart().await; // and it is the same after a replay
                run.signal("end", &()).await.unwrap();
            }
            run.result().await.unwrap();
            app.advance(2 * HOUR).await;
            assert_eq!(status(&app, "child").await, expected, "{policy} {waits}");
        }
    }
    let app = app().workflow(go_on).start().await;
    let run = app.start("go-1", go_on("abandon".to_string(), false)).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted go_on {"policy":"abandon","waits":false}
        2 +0ms ChildStarted child worker {"seconds":3600}
        3 +0ms RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn cancelling_a_parent_leaves_a_child_with_a_handle_to_its_parent_close_policy() {
    for (policy, expected) in [("cancel", Status::Cancelled), ("abandon", Status::Completed)] {
        let app = app().workflow(go_on).start().await;
        let run = app.start("go-1", go_on(policy.to_string(), true)).await;
        app.advance(SECOND).await;
        run.cancel("enough").await.unwrap();
        assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
        app.advance(2 * HOUR).await;
        assert_eq!(status(&app, "child").await, expected, "{policy}");
    }
}

/// Starts two children, does something else, and then hears of them.
#[workflow]
async fn later(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let mut long = ctx.child(worker(7_200)).id("long").start();
    let short = ctx.child(worker(60)).id("short").start();
    let forgotten = ctx.child(worker(120)).id("forgotten").start();
    let endless = ctx.child(worker(1_000_000)).id("endless").start();
    drop(forgotten);
    let early = ctx.timeout(HOUR, &mut long).await.is_err();
    endless.cancel();
    endless.cancel(); // a repeat is nothing
    let endless = endless.await.unwrap_err();
    Ok(vec![
        early.to_string(),
        short.await?.to_string(),
        long.await?.to_string(),
        endless.message.clone(),
    ])
}

#[test]
async fn a_handle_is_awaited_later_also_when_the_child_was_done_by_then() {
    for restarts in [false, true] {
        let app = app().workflow(later).start().await;
        let run = app.start("later-1", later()).await;
        if restarts {
            for _ in 0..4 {
                app.advance(45 * 60 * SECOND).await;
                app.restart().await;
            }
        }
        let told = run.result().await.unwrap();
        assert_eq!(told, ["true", "60", "7200", "the workflow that started it ended it"]);
        assert_eq!(status(&app, "forgotten").await, Status::Completed);
        expect![[r#"
            1 +0ms RunStarted later {}
            2 +0ms ChildStarted long worker {"seconds":7200}
            3 +0ms ChildStarted short worker {"seconds":60}
            4 +0ms ChildStarted forgotten worker {"seconds":120}
            5 +0ms ChildStarted endless worker {"seconds":1000000}
            6 +0ms TimerStarted until +1h
            7 +1m ChildCompleted #3 60
            8 +2m ChildCompleted #4 120
            9 +1h TimerFired #6
            10 +1h ChildCancelRequested #5
            11 +1h ChildFailed #5 Cancelled: the workflow that started it ended it
            12 +2h ChildCompleted #2 7200
            13 +2h RunCompleted ["true","60","7200","the workflow that started it ended it"]
        "#]]
        .assert_eq(&run.history().await);
    }
}

#[test]
async fn in_a_cancelled_run_no_child_is_started_unless_it_is_shielded() {
    #[workflow]
    async fn late(ctx: WorkflowContext) -> Result<u64, Failure> {
        let cancelled = ctx.sleep(HOUR).await.unwrap_err();
        assert_eq!(ctx.child(worker(1)).id("refused").start().await.unwrap_err(), cancelled);
        ctx.shielded().child(worker(2)).id("shielded").start().await
    }
    let app = app().workflow(late).start().await;
    let run = app.start("late-1", late()).await;
    app.advance(SECOND).await;
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    assert!(app.client().find("refused").await.unwrap().is_none());
}

#[test]
async fn a_detached_child_that_is_awaited_blocks_its_parent_with_the_remedy() {
    #[workflow]
    async fn confused(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.child(worker(1)).id("child").parent_close(ParentClose::Detached).start().await
    }
    let app = app().workflow(confused).start().await;
    app.start("confused-1", confused()).await;
    app.advance(Duration::ZERO).await;
    let instance = app.describe("confused-1").await.instance;
    assert_eq!(instance.status, Status::Blocked);
    assert!(instance.error.unwrap().contains("use ParentClose::Abandon"));
}

// In boxes.

#[test]
async fn waits_of_different_kinds_are_joined_and_raced_in_boxes() {
    #[activity]
    async fn count(to: u64) -> Result<u64, Failure> {
        Ok(to)
    }
    #[workflow]
    async fn mixed(ctx: WorkflowContext) -> Result<(Vec<u64>, usize), Failure> {
        let handle = ctx.child(worker(1)).start();
        let all = vec![
            ctx.call(count(7)).boxed(),
            ctx.child(worker(2)).boxed(),
            handle.boxed(),
            Box::pin(async { Ok(4) }),
        ];
        let all = ctx.join_all(all).await?;
        let (first, _) =
            ctx.race([ctx.signal::<()>("never").boxed(), ctx.sleep(SECOND).boxed()]).await;
        Ok((all, first))
    }
    let app = app().workflow(mixed).activity(count).start().await;
    let run = app.start("mixed-1", mixed()).await;
    assert_eq!(run.result().await.unwrap(), (vec![7, 2, 1, 4], 1));
}

#[test]
async fn a_child_that_is_blocked_is_terminated_with_its_parent_at_once() {
    #[workflow]
    async fn broken(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.sleep(SECOND).await?;
        panic!("a mistake of the code");
    }
    #[workflow]
    async fn strict(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.child(broken()).id("broken-1").parent_close(ParentClose::Terminate).await
    }
    let app = app().workflow(broken).workflow(strict).start().await;
    app.start("strict-1", strict()).await;
    app.advance(HOUR).await;
    assert_eq!(app.describe("broken-1").await.instance.status, Status::Blocked);
    app.terminate("strict-1", "enough").await.unwrap();
    app.advance(Duration::ZERO).await;
    assert_eq!(app.describe("broken-1").await.instance.status, Status::Terminated);
}

#[test]
async fn a_child_that_is_dropped_in_the_turn_that_starts_it_is_cancelled_all_the_same() {
    #[workflow]
    async fn fickle(ctx: WorkflowContext) -> Result<(), Failure> {
        let children = [ctx.child(worker(3_600)).id("slow"), ctx.child(worker(7_200)).id("slower")];
        let futures: Vec<Wait> = children
            .into_iter()
            .map(|child| Box::pin(child.into_future()) as Wait)
            .chain([Box::pin(async { Ok(0_u64) }) as Wait])
            .collect();
        ctx.race(futures).await.1.map(drop)
    }
    type Wait = Pin<Box<dyn Future<Output = Result<u64, Failure>> + Send>>;
    let app = app().workflow(fickle).start().await;
    let run = app.start("fickle-1", fickle()).await;
    run.result().await.unwrap();
    app.advance(SECOND).await;
    assert_eq!(status(&app, "slow").await, Status::Cancelled);
    assert_eq!(status(&app, "slower").await, Status::Cancelled);
    expect![[r#"
        1 +0ms RunStarted fickle {}
        2 +0ms ChildStarted slow worker {"seconds":3600}
        3 +0ms ChildStarted slower worker {"seconds":7200}
        4 +0ms ChildCancelRequested #2
        5 +0ms ChildCancelRequested #3
        6 +0ms RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
    expect![[r#"
        1 +0ms RunStarted worker {"seconds":3600}
        2 +0ms TimerStarted until +1h
        3 +0ms CancelRequested the workflow that started it ended it
        4 +0ms TimerCancelled #2
        5 +0ms RunCancelled Cancelled: the workflow that started it ended it
    "#]]
    .assert_eq(&app.history("slow").await);
}

#[test]
async fn an_id_that_is_taken_is_a_failure_of_the_child() {
    #[workflow]
    async fn second(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.child(worker(1)).id("taken").await
    }
    let app = app().workflow(second).start().await;
    app.start("taken", worker(5)).await;
    for number in 1..=2 {
        let run = app.start(&format!("second-{number}"), second()).await;
        let failure = run.failure().await;
        assert_eq!(failure.type_name.as_deref(), Some("AlreadyExists"), "{failure}");
        // A closed one keeps its id too.
        app.advance(HOUR).await;
    }
}

#[test]
async fn children_without_an_id_do_not_get_in_the_way_of_those_of_an_earlier_instance() {
    let app = app().start().await;
    for _ in 0..2 {
        let run = app.start_with("team-1", team(vec![1, 2]), |start| start.replace_closed()).await;
        assert_eq!(run.result().await.unwrap(), [1, 2]);
    }
}

#[test]
async fn a_child_has_a_retry_policy_and_timeouts_of_its_own() {
    #[workflow]
    async fn flaky(ctx: WorkflowContext) -> Result<u32, Failure> {
        let runs = ctx.get::<u32>("runs").unwrap_or(0) + 1;
        ctx.set("runs", &runs);
        if runs < 3 { Err(Failure::new("not yet")) } else { Ok(runs) }
    }
    #[workflow]
    async fn patient(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let policy = RetryPolicy::fixed(HOUR).jitter(Jitter::None).max_attempts(5);
        let runs = ctx.child(flaky()).id("flaky").retry(&policy).await?;
        let late = ctx.child(worker(3_600)).run_timeout(60 * SECOND).await.unwrap_err();
        let total = ctx.child(worker(3_600)).total_timeout(90 * SECOND).await.unwrap_err();
        Ok(vec![runs.to_string(), late.to_string(), total.to_string()])
    }
    let app = app().workflow(flaky).workflow(patient).start().await;
    let run = app.start("patient-1", patient()).await;
    let told = run.result().await.unwrap();
    expect![[r#"
        3
        RunTimeout: the run was not done in time, after 1m
        TotalTimeout: the instance was not done in time, after 1m 30s"#]]
    .assert_eq(&told.join("\n"));
    // The parent sees only the final outcome.
    expect![[r#"
        1 +0ms RunStarted patient {}
        2 +0ms ChildStarted flaky flaky {}
        3 +2h ChildCompleted #2 3
        4 +2h ChildStarted patient-1/4 worker {"seconds":3600}
        5 +2h 1m ChildFailed #4 RunTimeout: the run was not done in time, after 1m
        6 +2h 1m ChildStarted patient-1/6 worker {"seconds":3600}
        7 +2h 2m ChildFailed #6 TotalTimeout: the instance was not done in time, after 1m 30s
        8 +2h 2m RunCompleted ["3","RunTimeout: the run was not done in time, after 1m","TotalTimeout: the instance was not done in time, after 1m 30s... (122 bytes)
    "#]].assert_eq(&run.history().await);
    assert_eq!(app.describe("flaky").await.instance.run, 3);
}

#[test]
async fn a_child_whose_policy_makes_no_sense_blocks_its_parent() {
    #[workflow]
    async fn confused(ctx: WorkflowContext) -> Result<u64, Failure> {
        let policy = RetryPolicy::exponential(SECOND).multiplier(f64::NAN);
        ctx.child(worker(1)).retry(&policy).await
    }
    let app = app().workflow(confused).start().await;
    app.start("confused-1", confused()).await;
    app.advance(Duration::ZERO).await;
    let instance = app.describe("confused-1").await.instance;
    assert_eq!(instance.status, Status::Blocked);
    assert_eq!(
        instance.error.unwrap(),
        "B4 the retry policy of worker: backoff.multiplier: null is not a finite number greater \
         than 0"
    );
}

#[test]
async fn a_child_with_an_empty_id_blocks_its_parent() {
    #[workflow]
    async fn nameless(ctx: WorkflowContext, detached: bool) -> Result<u64, Failure> {
        if detached {
            ctx.start_detached("", worker(1))?;
        }
        ctx.child(worker(1)).id("").await
    }
    let app = app().workflow(nameless).start().await;
    for detached in [false, true] {
        let id = format!("nameless-{detached}");
        app.start(&id, nameless(detached)).await;
        app.advance(Duration::ZERO).await;
        let instance = app.describe(&id).await.instance;
        expect!["B4 the id of a worker to start: an empty id is not allowed"]
            .assert_eq(&instance.error.unwrap());
    }
    assert!(app.client().find("").await.unwrap().is_none());
}

#[test]
async fn a_child_of_an_unknown_workflow_waits_for_a_process_that_knows_it() {
    let app = TestApp::builder().workflow(team).start().await;
    let run = app.start("team-1", team(vec![1])).await;
    app.advance(SECOND).await;
    let child = app.describe("team-1/2").await.instance;
    assert_eq!(child.status, Status::Running);
    let error = child.error.unwrap();
    assert!(error.starts_with("B5 workflow worker is not registered in this process; "), "{error}");
    app.restart_with(self::app()).await;
    assert_eq!(run.result().await.unwrap(), [1]);
}

#[test]
async fn a_detached_start_is_nobodys_child() {
    #[workflow]
    async fn launch(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.start_detached("rocket", worker(3_600)).map(drop)
    }
    let app = app().workflow(launch).start().await;
    let run = app.start("launch-1", launch()).await;
    run.result().await.unwrap();
    app.restart().await;
    app.advance(2 * HOUR).await;
    let rocket = app.describe("rocket").await.instance;
    assert_eq!((rocket.status, rocket.parent), (Status::Completed, None));
    assert_eq!(rocket.outcome.unwrap().as_str(), "3600");
    expect![[r#"
        1 +0ms RunStarted launch {}
        2 +0ms ChildStarted rocket worker {"seconds":3600}
        3 +0ms RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_second_detached_start_of_one_id_is_an_error_of_the_workflow() {
    #[workflow]
    async fn launch(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.start_detached("rocket", worker(3_600))?;
        ctx.start_detached("rocket", worker(1)).map(drop)
    }
    let app = app().workflow(launch).start().await;
    let run = app.start("launch-1", launch()).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("AlreadyExists"));
    assert_eq!(failure.message, r#"start worker: this run has started "rocket" before"#);
    app.restart().await;
    assert_eq!(run.history().await.lines().count(), 3);
}

#[test]
async fn a_workflow_hears_that_another_instance_has_the_id_of_a_detached_start() {
    #[workflow]
    async fn launch(ctx: WorkflowContext) -> Result<Option<String>, Failure> {
        let rocket = ctx.start_detached("rocket", worker(3_600))?;
        ctx.sleep(SECOND).await?;
        Ok(rocket.failure().map(|failure| failure.to_string()))
    }
    let app = app().workflow(launch).start().await;
    assert_eq!(app.start("launch-1", launch()).await.result().await.unwrap(), None);
    let run = app.start("launch-2", launch()).await;
    app.advance(SECOND / 2).await;
    app.restart().await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted launch {}
        2 +0ms ChildStarted rocket worker {"seconds":3600}
        3 +0ms TimerStarted until +1s
        4 +0ms ChildFailed #2 AlreadyExists: start worker: an instance of the id "rocket" exists
        5 +1s TimerFired #3
        6 +1s RunCompleted "AlreadyExists: start worker: an instance of the id \"rocket\" exists"
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_parent_that_is_restarted_still_hears_of_its_children() {
    let app = app().start().await;
    let run = app.start("team-1", team(vec![60, 3_600])).await;
    app.advance(30 * SECOND).await;
    app.restart().await;
    app.advance(HOUR / 2).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), [60, 3_600]);
}

#[test]
async fn a_parent_that_is_not_in_memory_is_woken_by_its_child() {
    let app = app().options(|options| options.hot_runs = 0).start().await;
    let run = app.start("team-1", team(vec![1, 2, 3])).await;
    assert_eq!(run.result().await.unwrap(), [1, 2, 3]);
}

#[test]
async fn a_result_for_a_run_that_is_over_is_dropped_and_leaves_nothing_behind() {
    #[workflow]
    async fn rounds(ctx: WorkflowContext, round: u32) -> Result<u32, Failure> {
        if round == 2 {
            ctx.sleep(HOUR).await?;
            return Ok(round);
        }
        let child = ctx.child(worker(60)).id("child").parent_close(ParentClose::Abandon);
        leave_open(child).await;
        ctx.sleep(SECOND).await?;
        ctx.continue_as_new(rounds(2))
    }
    let app = app().workflow(rounds).start().await;
    let run = app.start("rounds-1", rounds(1)).await;
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(status(&app, "child").await, Status::Completed);
    expect![[r#"
        1 +0ms RunStarted rounds {"round":2}
        2 +0ms TimerStarted until +1h
        3 +1h TimerFired #2
        4 +1h RunCompleted 2
    "#]]
    .assert_eq(&run.history().await);
    // The message is gone.
    let uid = app.describe("rounds-1").await.instance.uid;
    assert_eq!(app.client().handle().store().messages(uid).await.unwrap(), []);
}

#[test]
async fn thousands_of_children_are_started_and_heard_of() {
    let app = app().start().await;
    let run = app.start("team-1", team((0..3_000).map(|number| number % 10 + 1).collect())).await;
    app.advance(SECOND / 2).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap().len(), 3_000);
    let filter = InstanceFilter { limit: 10_000, ..InstanceFilter::default() };
    let rows = app.client().list(filter).await.unwrap();
    assert!(rows.iter().all(|row| row.status == Status::Completed));
    assert_eq!(rows.len(), 3_001);
}

#[test]
async fn a_child_that_cannot_be_started_as_asked_for_is_refused_with_a_handle_too() {
    #[workflow]
    async fn ask(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let named = ctx.child(worker(1)).id("a\0b").start();
        let timeouts = Timeouts { attempt: Some(SECOND), ..Timeouts::default() };
        let timed = RetryPolicy::fixed(SECOND).timeouts(timeouts);
        let timed = ctx.child(worker(1)).retry(timed).start();
        let kinds = [named.await, timed.await].map(|it| it.unwrap_err().type_name.clone());
        Ok(kinds.into_iter().flatten().collect())
    }
    let app = app().workflow(ask).start().await;
    let run = app.start("ask-1", ask()).await;
    assert_eq!(run.result().await.unwrap(), ["InvalidName", "InvalidPolicy"]);
}

#[test]
async fn a_childs_snooze_that_is_not_honoured_is_a_plain_failure_of_its_parent() {
    #[workflow]
    async fn sleepy(_ctx: WorkflowContext) -> Result<(), Failure> {
        Err(Failure::snooze(10 * SECOND))
    }
    #[workflow]
    async fn parent(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.child(sleepy()).total_timeout(SECOND).await
    }
    let app = app().workflow(sleepy).workflow(parent).start().await;
    let run = app.start("parent-1", parent()).await;
    assert_eq!(run.failure().await.snooze, None);
    assert_eq!(app.describe("parent-1").await.instance.run, 1);
}
