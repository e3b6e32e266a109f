//! What a workflow waits for: time, calls, signals, and the end; and what happens to one that
//! cannot go on.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{Kind, Outcome, Status};
use resurgam_core::RunKey;
use resurgam_testing::{TestApp, TestBuilder, never};
use resurgam_watchdog::test;

use crate::common::wrapped;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Takes as long as the call says.
#[activity]
async fn take(ctx: ActivityContext, seconds: u64) -> Result<u64, Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Ok(seconds)
}

/// Ends when it is told to.
#[activity]
async fn hang(ctx: ActivityContext, name: String) -> Result<String, Failure> {
    ctx.cancelled().await;
    Ok(name)
}

/// Takes as long as the call says, and fails.
#[activity(retry = RetryPolicy::once())]
async fn fail_after(ctx: ActivityContext, seconds: u64) -> Result<u64, Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Err(Failure::new(format!("failed after {seconds} s")))
}

/// Something that a workflow waits for.
type Wait<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

fn app() -> TestBuilder {
    TestApp::builder().activity(take).activity(hang).activity(fail_after)
}

// Time.

#[workflow]
async fn nap(ctx: WorkflowContext) -> Result<String, Failure> {
    ctx.sleep(HOUR).await?;
    ctx.sleep(Duration::ZERO).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok("rested".to_string())
}

#[test]
async fn a_sleep_ends_at_its_time_and_a_restart_does_not_prolong_it() {
    let app = app().workflow(nap).start().await;
    let run = app.start("nap-1", nap()).await;
    app.advance(HOUR / 2).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), "rested");
    expect![[r#"
        1 +0ms RunStarted nap {}
        2 +0ms TimerStarted until +1h
        3 +1h TimerFired #2
        4 +1h TimerStarted until +1h
        5 +1h TimerFired #4
        6 +1h TimerStarted until +1h
        7 +1h TimerFired #6
        8 +1h RunCompleted "rested"
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn runs_that_are_not_in_memory_wake_up_on_time() {
    let app = app().workflow(nap).options(|options| options.hot_runs = 2).start().await;
    let mut runs = Vec::new();
    for number in 0..20 {
        runs.push(app.start(&format!("nap-{number}"), nap()).await);
    }
    for run in &runs {
        assert_eq!(run.result().await.unwrap(), "rested");
    }
    expect![[r#"
        1 +0ms RunStarted nap {}
        2 +0ms TimerStarted until +1h
        3 +1h TimerFired #2
        4 +1h TimerStarted until +1h
        5 +1h TimerFired #4
        6 +1h TimerStarted until +1h
        7 +1h TimerFired #6
        8 +1h RunCompleted "rested"
    "#]]
    .assert_eq(&runs[0].history().await);
}

#[workflow]
async fn wait_in_vain(ctx: WorkflowContext) -> Result<String, Failure> {
    let in_time = ctx.timeout(10 * SECOND, ctx.call(take(1))).await;
    let late = ctx.timeout(10 * SECOND, ctx.call(hang("never".to_string()))).await;
    let signal = ctx.timeout(10 * SECOND, ctx.signal::<()>("nobody sends this")).await;
    Ok(format!("{in_time:?}, {late:?}, {signal:?}"))
}

#[test]
async fn a_timeout_cancels_what_it_gave_up_and_its_timer_when_it_is_not_needed() {
    let app = app().workflow(wait_in_vain).start().await;
    let run = app.start("vain-1", wait_in_vain()).await;
    expect!["Ok(Ok(1)), Err(Elapsed(10s)), Err(Elapsed(10s))"]
        .assert_eq(&run.result().await.unwrap());
    expect![[r#"
        1 +0ms RunStarted wait_in_vain {}
        2 +0ms ActivityScheduled take {"seconds":1}
        3 +0ms TimerStarted until +10s
        4 +1s ActivityCompleted #2 1
        5 +1s TimerCancelled #3
        6 +1s ActivityScheduled hang {"name":"never"}
        7 +1s TimerStarted until +11s
        8 +11s TimerFired #7
        9 +11s ActivityCancelled #6
        10 +11s TimerStarted until +21s
        11 +21s TimerFired #10
        12 +21s RunCompleted "Ok(Ok(1)), Err(Elapsed(10s)), Err(Elapsed(10s))"
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_timer_that_is_dropped_is_gone_from_the_store() {
    #[workflow]
    async fn change_of_mind(ctx: WorkflowContext) -> Result<(), Failure> {
        let _late = ctx.timeout(SECOND, ctx.sleep(DAY)).await;
        ctx.signal("end").await
    }
    let app = app().workflow(change_of_mind).start().await;
    let run = app.start("change-1", change_of_mind()).await;
    let uid = app.describe("change-1").await.instance.uid;
    let timers = async || app.client().handle().store().messages(uid).await.unwrap().len();
    assert_eq!(timers().await, 2);
    app.advance(SECOND).await;
    assert_eq!(timers().await, 0);
    run.signal("end", &()).await.unwrap();
    run.result().await.unwrap();
}

#[test]
async fn an_attempt_whose_call_was_given_up_is_told() {
    #[activity]
    async fn listen(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.cancelled().await;
        ctx.state::<AtomicU32>().fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    #[workflow]
    async fn give_up(ctx: WorkflowContext) -> Result<u32, Failure> {
        let _given_up = ctx.timeout(SECOND, ctx.call(listen())).await;
        ctx.call(told()).await
    }
    #[activity]
    async fn told(ctx: ActivityContext) -> Result<u32, Failure> {
        Ok(ctx.state::<AtomicU32>().load(Ordering::Relaxed))
    }
    let app = TestApp::builder()
        .workflow(give_up)
        .activity(listen)
        .activity(told)
        .state(AtomicU32::new(0))
        .start()
        .await;
    let run = app.start("give-up-1", give_up()).await;
    assert_eq!(run.result().await.unwrap(), 1);
}

#[test]
async fn a_call_that_is_never_awaited_is_never_made() {
    #[workflow]
    async fn change_plans(ctx: WorkflowContext) -> Result<(), Failure> {
        drop(ctx.call(take(1)));
        drop(ctx.call(take(2)).into_future());
        drop(ctx.sleep(HOUR));
        drop(ctx.signal::<()>("go"));
        Ok(())
    }
    let app = app().workflow(change_plans).start().await;
    let run = app.start("change-1", change_plans()).await;
    run.result().await.unwrap();
    expect![[r#"
        1 +0ms RunStarted change_plans {}
        2 +0ms RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

// Several things at once.

#[test]
async fn a_race_has_one_winner_and_cancels_the_others() {
    #[workflow]
    async fn run_race(ctx: WorkflowContext) -> Result<(usize, u64), Failure> {
        let calls = [3, 1, 2].map(|seconds| ctx.call(take(seconds)));
        let (place, seconds) = ctx.race(calls).await;
        Ok((place, seconds?))
    }
    let app = app().workflow(run_race).start().await;
    let run = app.start("race-1", run_race()).await;
    assert_eq!(run.result().await.unwrap(), (1, 1));
    expect![[r#"
        1 +0ms RunStarted run_race {}
        2 +0ms ActivityScheduled take {"seconds":3}
        3 +0ms ActivityScheduled take {"seconds":1}
        4 +0ms ActivityScheduled take {"seconds":2}
        5 +1s ActivityCompleted #3 1
        6 +1s ActivityCancelled #2
        7 +1s ActivityCancelled #4
        8 +1s RunCompleted [1,1]
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn joined_calls_answer_in_the_order_given() {
    #[workflow]
    async fn join(ctx: WorkflowContext) -> Result<Vec<u64>, Failure> {
        ctx.join_all([3, 1, 2].map(|seconds| ctx.call(take(seconds)))).await
    }
    let app = app().workflow(join).start().await;
    let run = app.start("join-1", join()).await;
    assert_eq!(run.result().await.unwrap(), [3, 1, 2]);
    expect![[r#"
        1 +0ms RunStarted join {}
        2 +0ms ActivityScheduled take {"seconds":3}
        3 +0ms ActivityScheduled take {"seconds":1}
        4 +0ms ActivityScheduled take {"seconds":2}
        5 +1s ActivityCompleted #3 1
        6 +2s ActivityCompleted #4 2
        7 +3s ActivityCompleted #2 3
        8 +3s RunCompleted [3,1,2]
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn joined_calls_all_end_before_the_first_failure_in_their_order_is_returned() {
    #[workflow]
    async fn join(ctx: WorkflowContext) -> Result<Vec<u64>, Failure> {
        let calls: [Wait<u64>; 4] = [
            Box::pin(ctx.call(take(1)).into_future()),
            Box::pin(ctx.call(fail_after(3)).into_future()),
            Box::pin(ctx.call(fail_after(2)).into_future()),
            Box::pin(ctx.call(take(4)).into_future()),
        ];
        ctx.join_all(calls).await
    }
    let app = app().workflow(join).start().await;
    let run = app.start("join-1", join()).await;
    assert_eq!(run.failure().await.message, "failed after 3 s");
    expect![[r#"
        1 +0ms RunStarted join {}
        2 +0ms ActivityScheduled take {"seconds":1}
        3 +0ms ActivityScheduled fail_after {"seconds":3}
        4 +0ms ActivityScheduled fail_after {"seconds":2}
        5 +0ms ActivityScheduled take {"seconds":4}
        6 +1s ActivityCompleted #2 1
          +2s fail_after#4 attempt 1 failed: failed after 2 s
        7 +2s ActivityFailed #4 max_attempts: failed after 2 s
          +3s fail_after#3 attempt 1 failed: failed after 3 s
        8 +3s ActivityFailed #3 max_attempts: failed after 3 s
        9 +4s ActivityCompleted #5 4
        10 +4s RunFailed failed after 3 s
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_thousand_calls_are_joined_across_a_restart() {
    #[workflow]
    async fn fan_out(ctx: WorkflowContext) -> Result<u64, Failure> {
        let nothing: [u64; 0] = [];
        ctx.join_all(nothing.map(|seconds| ctx.call(take(seconds)))).await?;
        let all = ctx.join_all((0..1_000).map(|number| ctx.call(take(number % 10)))).await?;
        Ok(all.iter().sum())
    }
    let app = app().workflow(fan_out).options(|options| options.slots = 100).start().await;
    let run = app.start("fan-1", fan_out()).await;
    app.advance(5 * SECOND).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 4_500);
}

#[test]
async fn futures_can_be_polled_by_hand_as_select_does() {
    #[workflow]
    async fn select(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let mut said = Vec::new();
        let call = ctx.call(hang("slow".to_string())).into_future();
        let sleep = ctx.sleep(HOUR);
        tokio::pin!(call, sleep);
        loop {
            tokio::select! {
                biased;
                word = ctx.signal::<String>("word") => said.push(word?),
                answer = &mut call => said.push(answer?),
                woken = &mut sleep => return woken.map(|()| said),
            }
        }
    }
    let app = app().workflow(select).start().await;
    let run = app.start("select-1", select()).await;
    run.signal("word", &"one").await.unwrap();
    app.restart().await;
    run.signal("word", &"two").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
    expect![[r#"
        1 +0ms RunStarted select {}
        2 +0ms ActivityScheduled hang {"name":"slow"}
          +0ms hang#2 attempt 1 lost: worker_lost: the process that ran it died; again in 100ms
        3 +0ms TimerStarted until +1h
        4 +0ms SignalReceived word "one"
        5 +0ms SignalReceived word "two"
        6 +1h TimerFired #3
        7 +1h ActivityCancelled #2
        8 +1h RunCompleted ["one","two"]
    "#]]
    .assert_eq(&run.history().await);
}

// Signals.

#[workflow]
async fn listen(ctx: WorkflowContext, signals: u32) -> Result<Vec<String>, Failure> {
    let mut heard = Vec::new();
    for _ in 0..signals {
        heard.push(ctx.signal::<String>("word").await?);
    }
    Ok(heard)
}

#[test]
async fn signals_are_read_in_the_order_they_came_across_restarts() {
    let app = app().workflow(listen).start().await;
    let run = app.start("listen-1", listen(4)).await;
    run.signal("word", &"one").await.unwrap();
    run.signal("other", &"not for me").await.unwrap();
    app.restart().await;
    run.signal("word", &"two").await.unwrap();
    run.signal("word", &"three").await.unwrap();
    app.restart().await;
    run.signal("word", &"four").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two", "three", "four"]);
    expect![[r#"
        1 +0ms RunStarted listen {"signals":4}
        2 +0ms SignalReceived word "one"
        3 +0ms SignalReceived word "two"
        4 +0ms SignalReceived word "three"
        5 +0ms SignalReceived word "four"
        6 +0ms RunCompleted ["one","two","three","four"]
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn signals_that_come_before_anybody_waits_are_kept() {
    #[workflow]
    async fn sleep_then_listen(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        ctx.sleep(HOUR).await?;
        let first = ctx.signal("word").await?;
        Ok(vec![first, ctx.signal("word").await?])
    }
    let app = app().workflow(sleep_then_listen).start().await;
    let run = app.start("listen-1", sleep_then_listen()).await;
    run.signal("word", &"one").await.unwrap();
    app.restart().await;
    run.signal("word", &"two").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
}

#[test]
async fn those_who_wait_for_the_same_signal_get_one_each_in_their_order() {
    #[workflow]
    async fn listen_twice(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        ctx.join_all([ctx.signal("word"), ctx.signal("word")]).await
    }
    let app = app().workflow(listen_twice).start().await;
    let run = app.start("listen-1", listen_twice()).await;
    run.signal("word", &"one").await.unwrap();
    run.signal("word", &"two").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
}

#[test]
async fn a_waiter_that_is_dropped_gives_its_signal_back() {
    #[workflow]
    async fn change_of_mind(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let mut first = Box::pin(ctx.signal::<String>("word"));
        // It stands in line from here on, and nobody looks at it again.
        poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_ready())).await;
        ctx.signal::<()>("drop it").await?;
        drop(first);
        let again = ctx.signal("word").await?;
        Ok(vec![again, ctx.signal("word").await?])
    }
    let app = app().workflow(change_of_mind).start().await;
    let run = app.start("listen-1", change_of_mind()).await;
    run.signal("word", &"one").await.unwrap();
    run.signal("word", &"two").await.unwrap();
    run.signal("drop it", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
}

#[test]
async fn a_signal_that_cannot_be_read_is_a_failure_that_the_workflow_can_handle() {
    #[workflow]
    async fn listen_carefully(ctx: WorkflowContext) -> Result<String, Failure> {
        let first = ctx.signal::<u32>("number").await.unwrap_err();
        let second = ctx.signal::<u32>("number").await?;
        Ok(format!("{first}; then {second}"))
    }
    let app = app().workflow(listen_carefully).start().await;
    let run = app.start("listen-1", listen_carefully()).await;
    run.signal("number", &"seven").await.unwrap();
    run.signal("number", &7).await.unwrap();
    expect![[r#"
        BadSignal: read a signal: invalid type: string "seven", expected u32 at line 1
        column 7; then 7
    "#]]
    .assert_eq(&wrapped(&run.result().await.unwrap()));
}

#[test]
async fn a_signal_just_before_the_timeout_is_in_time() {
    #[workflow]
    async fn hurry(ctx: WorkflowContext) -> Result<String, Failure> {
        let first = ctx.timeout(HOUR, ctx.signal::<String>("word")).await;
        first.unwrap_or_else(|elapsed| Ok(elapsed.to_string()))
    }
    let app = app().workflow(hurry).start().await;
    let run = app.start("hurry-1", hurry()).await;
    app.advance(HOUR - Duration::from_millis(1)).await;
    run.signal("word", &"just in time").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "just in time");
}

// What a workflow says and draws.

#[workflow]
async fn report(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.set_status("packing");
    ctx.set_status(&("packed", 3));
    ctx.signal::<()>("go").await?;
    ctx.set_status("gone");
    Ok(())
}

#[test]
async fn a_status_is_readable_from_outside_and_the_last_one_counts() {
    let app = app().workflow(report).start().await;
    let run = app.start("report-1", report()).await;
    let status = app.client().status::<(String, u32)>("report-1").await.unwrap();
    assert_eq!(status, Some(("packed".to_string(), 3)));
    app.restart().await;
    run.signal("go", &()).await.unwrap();
    run.result().await.unwrap();
    let status = app.client().status::<String>("report-1").await.unwrap();
    assert_eq!(status.as_deref(), Some("gone"));
    expect![[r#"
        1 +0ms RunStarted report {}
        2 +0ms StatusSet "packing"
        3 +0ms StatusSet ["packed",3]
        4 +0ms SignalReceived go null
        5 +0ms StatusSet "gone"
        6 +0ms RunCompleted null
    "#]]
    .assert_eq(&run.history().await);
}

#[workflow]
async fn draw(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let draw = || format!("{} {} {}", ctx.now(), ctx.random(), ctx.uuid());
    let mut drawn = vec![draw(), draw()];
    ctx.sleep(HOUR).await?;
    drawn.push(draw());
    // A replay that draws something else would not be let through here.
    ctx.set_status(&drawn);
    ctx.signal::<()>("go").await?;
    drawn.push(draw());
    Ok(drawn)
}

#[test]
async fn time_and_chance_are_the_same_on_replay() {
    let app = app().workflow(draw).start().await;
    let run = app.start("draw-1", draw()).await;
    app.advance(2 * HOUR).await;
    let before: Vec<String> = app.client().status("draw-1").await.unwrap().unwrap();
    app.restart().await;
    run.signal("go", &()).await.unwrap();
    let drawn = run.result().await.unwrap();
    assert_eq!(drawn[..3], before);
    // The clock stands still within a turn; chance does not.
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let (first, second) = (words(&drawn[0]), words(&drawn[1]));
    assert_eq!(first[0], second[0]);
    assert_ne!(first[1..], second[1..]);
    let other = app.start("draw-2", draw()).await;
    other.signal("go", &()).await.unwrap();
    assert_ne!(words(&other.result().await.unwrap()[0])[1..], first[1..]);
}

// The end.

#[test]
async fn cancelling_ends_every_open_wait_once_and_later_ones_at_once() {
    #[workflow]
    async fn wait_for_all(ctx: WorkflowContext) -> Result<(), Failure> {
        let (sleep, signal) = (ctx.sleep(HOUR), ctx.signal::<String>("word"));
        let waits: [Wait<String>; 3] = [
            Box::pin(ctx.call(hang("call".to_string())).into_future()),
            Box::pin(async { sleep.await.map(|()| "slept".to_string()) }),
            Box::pin(signal),
        ];
        let joined = ctx.join_all(waits).await;
        ctx.set_status(&joined.unwrap_err().to_string());
        let later = [
            ctx.call(take(1)).await.unwrap_err(),
            ctx.sleep(HOUR).await.unwrap_err(),
            ctx.signal::<String>("word").await.unwrap_err(),
        ];
        assert!(later.iter().all(|failure| failure.kind == Kind::Cancelled));
        assert_eq!(ctx.cancelled().as_ref(), later.first());
        Err(later[0].clone())
    }
    let app = app().workflow(wait_for_all).start().await;
    let run = app.start("wait-1", wait_for_all()).await;
    app.advance(SECOND).await;
    run.cancel("not needed any more").await.unwrap();
    let Outcome::Cancelled(failure) = run.outcome().await else { panic!() };
    assert_eq!((failure.kind, failure.message.as_str()), (Kind::Cancelled, "not needed any more"));
    expect![[r#"
        1 +0ms RunStarted wait_for_all {}
        2 +0ms ActivityScheduled hang {"name":"call"}
        3 +0ms TimerStarted until +1h
        4 +1s CancelRequested not needed any more
        5 +1s ActivityCancelled #2
        6 +1s TimerCancelled #3
        7 +1s StatusSet "Cancelled: not needed any more"
        8 +1s RunCancelled Cancelled: not needed any more
    "#]]
    .assert_eq(&run.history().await);
    let description = app.describe("wait-1").await;
    assert_eq!((description.instance.status, description.pending.len()), (Status::Cancelled, 0));
}

#[test]
async fn a_run_that_is_cancelled_twice_at_once_ends_once() {
    #[workflow]
    async fn tidy_up(ctx: WorkflowContext) -> Result<(), Failure> {
        let failure = ctx.sleep(DAY).await.unwrap_err();
        // What is left to do for a run that ends cannot be waited for.
        ctx.set_status("tidied up");
        Err(failure)
    }
    let app = app().workflow(tidy_up).start().await;
    let run = app.start("tidy-1", tidy_up()).await;
    let client = app.client();
    let both =
        async { tokio::join!(client.cancel("tidy-1", "end"), client.cancel("tidy-1", "end")) };
    let (one, other) = app.wait_for("both answers", both).await;
    assert!(one.is_ok() || other.is_ok());
    let told = |answer: Result<(), resurgam::Error>| answer.err().is_none_or(|e| e.is_closed());
    assert!(told(one) && told(other));
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted tidy_up {}
        2 +0ms TimerStarted until +1d
        3 +0ms CancelRequested end
        4 +0ms TimerCancelled #2
        5 +0ms StatusSet "tidied up"
        6 +0ms RunCancelled Cancelled: end
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_call_is_cancelled_in_the_middle_of_its_backoff() {
    #[activity(retry = RetryPolicy::fixed(DAY).jitter(Jitter::None))]
    async fn hopeless() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    #[workflow]
    async fn try_hopeless(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(hopeless()).await
    }
    async fn told(restart: bool) -> String {
        let app = TestApp::builder().workflow(try_hopeless).activity(hopeless).start().await;
        let run = app.start("try-1", try_hopeless()).await;
        app.advance(HOUR).await;
        if restart {
            app.restart().await;
        }
        run.cancel("enough").await.unwrap();
        assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
        app.advance(10 * DAY).await;
        assert_eq!(app.attempts(hopeless), 1);
        run.history().await
    }
    expect![[r#"
        1 +0ms RunStarted try_hopeless {}
        2 +0ms ActivityScheduled hopeless {}
          +0ms hopeless#2 attempt 1 failed: down; again in 1d
        3 +1h CancelRequested enough
        4 +1h ActivityCancelled #2
        5 +1h RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&told(false).await);
    assert_eq!(told(true).await, told(false).await);
}

#[test]
async fn what_a_run_leaves_open_ends_with_it() {
    #[workflow]
    async fn leave(ctx: WorkflowContext) -> Result<(), Failure> {
        let call = Box::pin(ctx.call(hang("left".to_string())).into_future());
        let sleep = Box::pin(ctx.sleep(DAY));
        let mut open = (call, sleep);
        poll_fn(|context| {
            let polled = open.0.as_mut().poll(context).is_ready();
            Poll::Ready(polled || open.1.as_mut().poll(context).is_ready())
        })
        .await;
        ctx.sleep(SECOND).await?;
        // Nobody drops them: they end because the run does.
        std::mem::forget(open);
        Ok(())
    }
    let app = app().workflow(leave).start().await;
    let run = app.start("leave-1", leave()).await;
    run.result().await.unwrap();
    let (history, commits) = (run.history().await, app.commits());
    expect![[r#"
        1 +0ms RunStarted leave {}
        2 +0ms ActivityScheduled hang {"name":"left"}
        3 +0ms TimerStarted until +1d
        4 +0ms TimerStarted until +1s
        5 +1s TimerFired #4
        6 +1s RunCompleted null
    "#]]
    .assert_eq(&history);
    assert_eq!(app.describe("leave-1").await.pending, []);
    app.advance(2 * DAY).await;
    assert_eq!((run.history().await, app.commits()), (history, commits));
}

#[test]
async fn what_a_run_leaves_open_ends_in_the_commit_that_closes_it() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    #[activity]
    async fn listen(ctx: ActivityContext) -> Result<u32, Failure> {
        ctx.cancelled().await;
        Ok(TOLD.fetch_add(1, Ordering::Relaxed))
    }
    #[workflow]
    async fn leave(ctx: WorkflowContext) -> Result<(), Failure> {
        let call = Box::leak(Box::new(Box::pin(ctx.call(listen()).into_future())));
        let sleep = Box::leak(Box::new(Box::pin(ctx.sleep(DAY))));
        poll_fn(|context| {
            let polled = call.as_mut().poll(context).is_ready();
            Poll::Ready(polled || sleep.as_mut().poll(context).is_ready())
        })
        .await;
        ctx.sleep(SECOND).await
    }
    let app = TestApp::builder().workflow(leave).activity(listen).start().await;
    let run = app.start("leave-1", leave()).await;
    let (description, store) =
        (app.describe("leave-1").await, app.client().handle().store().clone());
    let key = RunKey { uid: description.instance.uid, run: 1 };
    assert_eq!((description.pending.len(), app.commits()), (1, 1));
    assert_eq!(store.messages(key.uid).await.unwrap().len(), 2);
    run.result().await.unwrap();
    assert_eq!((store.tasks(key).await.unwrap(), app.commits()), (Vec::new(), 2));
    assert_eq!(store.messages(key.uid).await.unwrap(), []);
    app.advance(SECOND).await;
    assert_eq!((TOLD.load(Ordering::Relaxed), app.commits()), (1, 2));
}

// What cannot go on.

/// Why an instance is blocked.
async fn blocked(app: &TestApp, id: &str) -> String {
    held_up(app, id, Status::Blocked).await
}

/// Why an instance waits for another process.
async fn waits(app: &TestApp, id: &str) -> String {
    held_up(app, id, Status::Running).await
}

async fn held_up(app: &TestApp, id: &str, status: Status) -> String {
    app.advance(Duration::ZERO).await;
    let instance = app.describe(id).await.instance;
    assert_eq!(instance.status, status, "{instance:?}");
    instance.error.unwrap()
}

#[test]
async fn waiting_for_something_that_is_not_durable_is_found_out() {
    #[workflow]
    async fn doze(_ctx: WorkflowContext) -> Result<(), Failure> {
        // What is not to be done; nobody waits for it.
        tokio::time::sleep(SECOND).await;
        Ok(())
    }
    #[workflow]
    async fn forever(_ctx: WorkflowContext) -> Result<(), Failure> {
        std::future::pending().await
    }
    #[workflow]
    async fn doze_later(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(take(1)).await?;
        // The same mistake after a turn; nobody waits for it either.
        tokio::time::sleep(SECOND).await;
        Ok(())
    }
    let app = app().workflow(doze).workflow(forever).workflow(doze_later).start().await;
    app.start("doze-1", doze()).await;
    let reason = blocked(&app, "doze-1").await;
    expect![[r#"
        B3 the workflow awaits something that is not durable (a socket, a channel,
        tokio's sleep): wait through ctx, or move the work into an activity
    "#]]
    .assert_eq(&wrapped(&reason));
    app.start("forever-1", forever()).await;
    assert_eq!(blocked(&app, "forever-1").await, reason);
    app.start("later-1", doze_later()).await;
    app.advance(HOUR).await;
    assert_eq!(blocked(&app, "later-1").await, reason);
    // The result is kept for when the code is mended.
    assert_eq!(app.attempts(take), 1);
    expect![[r#"
        1 +0ms RunStarted doze_later {}
        2 +0ms ActivityScheduled take {"seconds":1}
    "#]]
    .assert_eq(&app.history("later-1").await);
}

/// The same workflow in several versions.
mod v1 {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        let reserved = ctx.call(take(1)).await?;
        ctx.sleep(HOUR).await?;
        Ok(reserved + ctx.call(take(2)).await?)
    }
}

mod another_argument {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.call(take(7)).await
    }
}

mod no_sleep {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        Ok(ctx.call(take(1)).await? + ctx.call(take(2)).await?)
    }
}

mod less {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.signal("answer").await
    }
}

mod more {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.set_status("new here");
        let reserved = ctx.call(take(1)).await?;
        ctx.sleep(HOUR).await?;
        Ok(reserved)
    }
}

#[test]
async fn code_that_changed_under_a_run_blocks_it_and_both_sides_are_shown() {
    let app = app().workflow(v1::order).start().await;
    let run = app.start("order-1", v1::order()).await;
    app.advance(10 * SECOND).await;
    let history = run.history().await;

    app.restart_with(self::app().workflow(another_argument::order)).await;
    app.advance(2 * HOUR).await;
    expect![[r#"
        B1 the workflow's code has changed under this run: at event 2 its history says
          ActivityScheduled take {"seconds":1}
        but the code asks for
          ActivityScheduled take {"seconds":7}
        Deploy code that takes the old way for old runs, or restore the old code; the
        run then goes on by itself. `resurgam explain B1` lists what else it may be
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "order-1").await));

    app.restart_with(self::app().workflow(no_sleep::order)).await;
    expect![[r#"
        B1 the workflow's code has changed under this run: at event 4 its history says
          TimerStarted until 1767229201000ms
        but the code asks for
          ActivityScheduled take {"seconds":2}
        Deploy code that takes the old way for old runs, or restore the old code; the
        run then goes on by itself. `resurgam explain B1` lists what else it may be
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "order-1").await));

    app.restart_with(self::app().workflow(less::order)).await;
    expect![[r#"
        B1 the workflow's code has changed under this run: at event 2 its history says
          ActivityScheduled take {"seconds":1}
        but the code asks for
          nothing
        Deploy code that takes the old way for old runs, or restore the old code; the
        run then goes on by itself. `resurgam explain B1` lists what else it may be
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "order-1").await));

    app.restart_with(self::app().workflow(more::order)).await;
    expect![[r#"
        B1 the workflow's code has changed under this run: at event 2 its history says
          ActivityScheduled take {"seconds":1}
        but the code asks for
          StatusSet "new here"
        Deploy code that takes the old way for old runs, or restore the old code; the
        run then goes on by itself. `resurgam explain B1` lists what else it may be
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "order-1").await));

    app.restart_with(self::app()).await;
    expect![[r#"
        B5 workflow order is not registered in this process; add it with .workflow(..)
        where the app is built
    "#]]
    .assert_eq(&wrapped(&waits(&app, "order-1").await));

    // Nothing was done meanwhile, and nothing is lost.
    assert_eq!((run.history().await, app.attempts(take)), (history, 1));
    app.restart_with(self::app().workflow(v1::order)).await;
    assert_eq!(run.result().await.unwrap(), 3);
    expect![[r#"
        1 +0ms RunStarted order {}
        2 +0ms ActivityScheduled take {"seconds":1}
        3 +1s ActivityCompleted #2 1
        4 +1s TimerStarted until +1h
        5 +2h TimerFired #4
        6 +2h ActivityScheduled take {"seconds":2}
        7 +2h ActivityCompleted #6 2
        8 +2h RunCompleted 3
    "#]]
    .assert_eq(&run.history().await);
}

mod panics {
    use super::*;

    #[workflow(name = "count")]
    pub(super) async fn count(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let first = ctx.signal::<String>("word").await?;
        panic!("cannot stand {first:?}");
    }
}

mod mended {
    use super::*;

    #[workflow(name = "count")]
    pub(super) async fn count(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        let first = ctx.signal("word").await?;
        Ok(vec![first, ctx.signal("word").await?])
    }
}

#[test]
async fn a_workflow_that_panics_is_blocked_and_goes_on_when_it_is_mended() {
    let app = app().workflow(panics::count).start().await;
    let run = app.start("count-1", panics::count()).await;
    run.signal("word", &"one").await.unwrap();
    expect![[r#"
        B2 the workflow's code panicked while taking SignalReceived at 2: cannot stand
        "one"
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "count-1").await));
    expect![[r#"
        1 +0ms RunStarted count {}
    "#]]
    .assert_eq(&run.history().await);
    // What comes meanwhile is kept, in order.
    run.signal("word", &"two").await.unwrap();
    app.advance(HOUR).await;
    app.restart_with(self::app().workflow(mended::count)).await;
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
    let instance = app.describe("count-1").await.instance;
    assert_eq!((instance.status, instance.error), (Status::Completed, None));
}

mod panics_at_once {
    use super::*;

    #[workflow(name = "count")]
    pub(super) async fn count(_ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
        panic!("cannot begin");
    }
}

#[test]
async fn a_run_that_never_began_is_found_again_after_a_restart() {
    let app = app().workflow(panics_at_once::count).start().await;
    let run = app.start("count-1", panics_at_once::count()).await;
    expect![[r#"
        B2 the workflow's code panicked while taking RunStarted at 1: cannot begin
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "count-1").await));
    app.restart_with(self::app().workflow(mended::count)).await;
    app.advance(Duration::ZERO).await;
    assert_eq!(app.describe("count-1").await.instance.status, Status::Running);
    run.signal("word", &"one").await.unwrap();
    run.signal("word", &"two").await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["one", "two"]);
}

#[test]
async fn a_blocked_run_can_be_cancelled_and_ends_when_it_is_mended() {
    let app = app().workflow(panics::count).start().await;
    let run = app.start("count-1", panics::count()).await;
    run.signal("word", &"one").await.unwrap();
    run.cancel("enough").await.unwrap();
    blocked(&app, "count-1").await;
    app.restart_with(self::app().workflow(mended::count)).await;
    assert!(matches!(run.outcome().await, Outcome::Cancelled(_)));
    expect![[r#"
        1 +0ms RunStarted count {}
        2 +0ms SignalReceived word "one"
        3 +0ms CancelRequested enough
        4 +0ms RunCancelled Cancelled: enough
    "#]]
    .assert_eq(&run.history().await);
}

mod stumbles_after_the_race {
    use super::*;

    #[workflow(name = "run_race")]
    pub(super) async fn run_race(ctx: WorkflowContext) -> Result<usize, Failure> {
        let _winner = ctx.race([1, 2].map(|seconds| ctx.call(take(seconds)))).await;
        panic!("tired");
    }
}

mod wins_the_race {
    use super::*;

    #[workflow(name = "run_race")]
    pub(super) async fn run_race(ctx: WorkflowContext) -> Result<usize, Failure> {
        let (place, _) = ctx.race([1, 2].map(|seconds| ctx.call(take(seconds)))).await;
        ctx.sleep(SECOND).await?;
        Ok(place)
    }
}

#[test]
async fn results_that_wait_for_a_blocked_run_are_given_up_like_others() {
    let app = app().workflow(stumbles_after_the_race::run_race).start().await;
    let run = app.start("race-1", stumbles_after_the_race::run_race()).await;
    // Both calls are done before the run can take notice of either.
    app.advance(HOUR).await;
    blocked(&app, "race-1").await;
    app.restart_with(self::app().workflow(wins_the_race::run_race)).await;
    assert_eq!(run.result().await.unwrap(), 0);
    expect![[r#"
        1 +0ms RunStarted run_race {}
        2 +0ms ActivityScheduled take {"seconds":1}
        3 +0ms ActivityScheduled take {"seconds":2}
        4 +1h ActivityCompleted #2 1
        5 +1h ActivityCancelled #3
        6 +1h TimerStarted until +1h
        7 +1h TimerFired #6
        8 +1h RunCompleted 0
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn a_result_of_another_type_than_the_code_expects_blocks_the_run() {
    mod texts {
        use super::*;

        #[activity(name = "take")]
        pub(super) async fn take(seconds: u64) -> Result<String, Failure> {
            Ok(format!("{seconds}"))
        }

        #[workflow(name = "order")]
        pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
            ctx.call(take(1)).await?.parse::<u64>().terminal()
        }
    }
    let app = app().workflow(texts::order).start().await;
    let run = app.start("order-1", texts::order()).await;
    app.advance(SECOND).await;
    expect![[r#"
        B2 the workflow's code panicked while taking ActivityCompleted at 3: the
        recorded result of call #2 does not fit the code's type: invalid type: integer
        `1`, expected a string at line 1 column 1
    "#]]
    .assert_eq(&wrapped(&blocked(&app, "order-1").await));
    app.restart_with(self::app().workflow(another_argument_of_one::order)).await;
    assert_eq!(run.result().await.unwrap(), 1);
}

mod another_argument_of_one {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: WorkflowContext) -> Result<u64, Failure> {
        ctx.call(take(1)).await
    }
}

#[test]
async fn a_blocked_run_is_tried_again_by_itself_after_longer_and_longer_waits() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    #[workflow]
    async fn stumble(ctx: WorkflowContext) -> Result<u32, Failure> {
        ctx.call(take(0)).await?;
        match TRIES.fetch_add(1, Ordering::Relaxed) + 1 {
            tries @ 1..6 => panic!("stumbled {tries} times"),
            tries => Ok(tries),
        }
    }
    let app = app().workflow(stumble).start().await;
    let run = app.start("stumble-1", stumble()).await;
    assert_eq!(run.result().await.unwrap(), 6);
    // After 1, 2, 4, 8 and 16 seconds.
    expect![[r#"
        1 +0ms RunStarted stumble {}
        2 +0ms ActivityScheduled take {"seconds":0}
        3 +31s ActivityCompleted #2 0
        4 +31s RunCompleted 6
    "#]]
    .assert_eq(&run.history().await);
}

#[test]
async fn one_run_that_is_blocked_holds_up_nobody() {
    let app = app().workflow(panics::count).workflow(nap).start().await;
    let run = app.start("count-1", panics::count()).await;
    run.signal("word", &"one").await.unwrap();
    let other = app.start("nap-1", nap()).await;
    assert_eq!(other.result().await.unwrap(), "rested");
    blocked(&app, "count-1").await;
}

#[test]
async fn an_activity_that_hangs_holds_up_nobody() {
    #[activity]
    async fn stuck(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    #[workflow]
    async fn wait_for_stuck(ctx: WorkflowContext) -> Result<(), Failure> {
        ctx.call(stuck()).await
    }
    let app = app().workflow(wait_for_stuck).activity(stuck).workflow(nap).start().await;
    app.start("stuck-1", wait_for_stuck()).await;
    let other = app.start("nap-1", nap()).await;
    assert_eq!(other.result().await.unwrap(), "rested");
}

#[test]
#[should_panic(expected = "the end of count-1: B2 the workflow's code panicked")]
async fn a_test_that_waits_for_the_end_of_a_blocked_run_is_told_why() {
    let app = app().workflow(panics_at_once::count).start().await;
    let run = app.start("count-1", panics_at_once::count()).await;
    let _there_is_none = run.outcome().await;
}
