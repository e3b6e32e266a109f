//! Heartbeats: what an attempt reports while it runs, who gets to see it, and what its silence
//! means.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{Match, Rule};
use resurgam::{AttemptOutcome, Kind};
use resurgam_testing::{Crash, StoreCall, TestApp, never};
use resurgam_watchdog::test;

use crate::common::attempts::{MINUTE, SECOND, STEADY, log, logging, pending, story};

/// What the only call of an instance has reported, as far as it is stored.
async fn reported(app: &TestApp, id: &str) -> Option<String> {
    pending(app, id).await.heartbeat.map(|heartbeat| heartbeat.details.to_string())
}

/// Counts the seconds, and says so each time. A first attempt fails after as many as it is told.
#[activity(retry = STEADY)]
async fn count(ctx: ActivityContext, to: u32, fail_at: u32) -> Result<String, Failure> {
    let begin: u32 = ctx.last_heartbeat().unwrap_or(0);
    for second in begin + 1..=to {
        ctx.sleep(SECOND).await;
        ctx.heartbeat(&second)?;
        if second == fail_at && ctx.attempt() == 1 {
            return Err(Failure::new("out of breath"));
        }
    }
    Ok(format!("from {begin} to {to}"))
}

#[test]
async fn an_attempt_goes_on_where_the_one_before_has_reported_to_be() {
    let app = TestApp::builder().activity(count).start().await;
    let run = app.submit("count-1", count(10, 7)).await.unwrap();
    // Of seven heartbeats only the first was stored by itself: the last came with the failure.
    assert_eq!(run.result().await.unwrap(), "from 7 to 10");
    expect![[r#"
          +7s count#2 attempt 1 failed: out of breath; again in 1s
        3 +11s ActivityCompleted #2 (attempt 2) "from 7 to 10"
        4 +11s RunCompleted "from 7 to 10"
    "#]]
    .assert_eq(&story(&app, "count-1").await);
}

#[test]
async fn the_first_heartbeat_is_written_at_once_and_later_ones_after_80_percent_of_the_timeout() {
    #[activity(heartbeat_timeout = 10 * SECOND)]
    async fn steps(ctx: ActivityContext) -> Result<(), Failure> {
        for second in 1..=60 {
            ctx.sleep(SECOND).await;
            ctx.heartbeat(&second)?;
        }
        Ok(())
    }
    let app = TestApp::builder().activity(steps).start().await;
    let began = app.now();
    app.submit("steps-1", steps()).await.unwrap();
    let commits = app.commits();
    app.advance(Duration::from_millis(500)).await;
    let mut stored: Vec<u32> = Vec::new();
    for _ in 0..30 {
        app.advance(SECOND).await;
        let told = pending(&app, "steps-1").await.heartbeat.unwrap();
        assert_eq!(told.at.since(began), told.details.decode::<u32>().unwrap() * SECOND);
        stored.push(told.details.decode().unwrap());
    }
    stored.dedup();
    assert_eq!(stored, [1, 9, 17, 25]);
    assert_eq!(app.commits() - commits, 4);
}

#[test]
async fn without_a_heartbeat_timeout_heartbeats_are_written_every_30_seconds() {
    let app = TestApp::builder().activity(count).start().await;
    app.submit("count-1", count(1_000, 0)).await.unwrap();
    app.advance(Duration::from_millis(1_500)).await;
    assert_eq!(reported(&app, "count-1").await.as_deref(), Some("1"));
    app.advance(29 * SECOND).await;
    assert_eq!(reported(&app, "count-1").await.as_deref(), Some("1"));
    app.advance(SECOND).await;
    assert_eq!(reported(&app, "count-1").await.as_deref(), Some("31"));
}

#[test]
async fn a_heartbeat_that_nothing_follows_is_written_when_its_time_has_come() {
    #[activity(heartbeat_timeout = 10 * SECOND)]
    async fn twice(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.heartbeat("first")?;
        ctx.sleep(SECOND).await;
        ctx.heartbeat("second")?;
        ctx.sleep(9 * SECOND).await;
        Ok(())
    }
    let app = TestApp::builder().activity(twice).start().await;
    app.submit("twice-1", twice()).await.unwrap();
    app.advance(Duration::from_millis(7_999)).await;
    assert_eq!(reported(&app, "twice-1").await.as_deref(), Some("\"first\""));
    app.advance(Duration::from_millis(1)).await;
    assert_eq!(reported(&app, "twice-1").await.as_deref(), Some("\"second\""));
}

#[test]
async fn a_heartbeat_survives_a_crash_as_far_as_it_was_written() {
    let app = TestApp::builder().activity(count).start().await;
    let run = app.submit("count-1", count(100, 0)).await.unwrap();
    app.advance(Duration::from_millis(45_500)).await;
    app.restart().await;
    // The heartbeat after 31 s was the last that was written.
    assert_eq!(run.result().await.unwrap(), "from 31 to 100");
}

#[test]
async fn no_crash_around_a_heartbeat_loses_more_than_the_heartbeat() {
    for (crash, expected) in [
        (Crash::BeforeCommit(2), "from 0 to 40"),
        (Crash::AfterCommit(2), "from 1 to 40"),
        (Crash::BeforeCommit(3), "from 1 to 40"),
        (Crash::AfterCommit(3), "from 31 to 40"),
    ] {
        let app = TestApp::builder().activity(count).start().await;
        let run = app.submit("count-1", count(40, 0)).await.unwrap();
        app.faults().crash(crash);
        assert_eq!(run.result().await.unwrap(), expected, "{crash:?}");
        let ledger = app.ledger("count-1").await;
        assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Lost), "{crash:?}");
    }
}

#[test]
async fn the_last_heartbeat_is_written_with_the_outcome_however_an_attempt_ends() {
    /// Says two things, of which the throttle lets the first one through, and ends.
    #[activity(retry = STEADY, timeout = 10 * SECOND)]
    async fn twice(ctx: ActivityContext, end: String) -> Result<Option<u32>, Failure> {
        if ctx.attempt() == 2 {
            return Ok(ctx.last_heartbeat());
        }
        ctx.heartbeat(&1)?;
        ctx.sleep(SECOND).await;
        ctx.heartbeat(&2)?;
        match end.as_str() {
            "fails" => return Err(Failure::new("out of breath")),
            "asks for more time" => return Err(Failure::snooze(MINUTE)),
            "panics" => panic!("out of breath"),
            _ => never(&ctx).await,
        }
        Ok(None)
    }
    let app = TestApp::builder().activity(twice).start().await;
    for end in ["fails", "asks for more time", "panics", "runs out of time"] {
        let run = app.submit(end, twice(end.to_string())).await.unwrap();
        app.advance(SECOND / 2).await;
        assert_eq!(reported(&app, end).await.as_deref(), Some("1"), "{end}");
        assert_eq!(run.result().await.unwrap(), Some(2), "{end}");
    }
}

#[test]
async fn a_graceful_stop_writes_the_last_heartbeat_down() {
    let app = TestApp::builder()
        .activity(deaf_count)
        .options(|options| options.grace = 5 * SECOND)
        .start()
        .await;
    /// Does not listen when it is told to stop.
    #[activity(retry = STEADY)]
    async fn deaf_count(ctx: ActivityContext) -> Result<String, Failure> {
        let begin: u32 = ctx.last_heartbeat().unwrap_or(0);
        for second in begin + 1..=60 {
            ctx.sleep(SECOND).await;
            let _told_to_stop = ctx.heartbeat(&second);
        }
        Ok(format!("from {begin}"))
    }
    let run = app.submit("count-1", deaf_count()).await.unwrap();
    app.advance(Duration::from_millis(12_500)).await;
    app.stop().await;
    assert_eq!(reported(&app, "count-1").await.as_deref(), Some("17"));
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), "from 17");
    expect![[r#"
          +17.5s deaf_count#2 attempt 1 interrupted: worker_lost: a graceful stop cut it short; again in 0ms
        3 +1m 1s ActivityCompleted #2 (attempt 2) "from 17"
        4 +1m 1s RunCompleted "from 17"
    "#]]
    .assert_eq(&story(&app, "count-1").await);
}

#[test]
async fn a_stop_is_told_by_the_heartbeat_and_an_attempt_that_obeys_is_interrupted() {
    let app = TestApp::builder().activity(count).start().await;
    let run = app.submit("count-1", count(60, 0)).await.unwrap();
    app.advance(Duration::from_millis(12_500)).await;
    app.stop().await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), "from 13 to 60");
    let ledger = app.ledger("count-1").await;
    assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Interrupted));
}

#[test]
async fn an_attempt_that_reports_and_dies_with_its_process_is_not_given_up() {
    #[activity(retry = STEADY)]
    async fn long(ctx: ActivityContext) -> Result<u32, Failure> {
        let times = ctx.last_heartbeat().unwrap_or(0) + 1;
        ctx.heartbeat(&times)?;
        if times < 30 {
            never(&ctx).await;
        }
        Ok(times)
    }
    let app = TestApp::builder().activity(long).start().await;
    let run = app.submit("long-1", long()).await.unwrap();
    for _ in 1..30 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    assert_eq!(run.result().await.unwrap(), 30);
    let ledger = app.ledger("long-1").await;
    assert_eq!(ledger.len(), 29);
    assert!(ledger.iter().all(|row| row.outcome == AttemptOutcome::Lost));
    // Each of them was the first in a row: the shortest delay.
    assert!(ledger.iter().all(|row| row.delay_ms == Some(100)));
}

// Silence.

/// Says something every so many seconds, and nothing after as many times as it is told.
#[activity(retry = STEADY.max_attempts(2), heartbeat_timeout = 10 * SECOND)]
async fn fall_silent(ctx: ActivityContext, every: u64, times: u32) -> Result<u32, Failure> {
    for time in 1..=times {
        ctx.sleep(Duration::from_secs(every)).await;
        ctx.heartbeat(&time)?;
    }
    ctx.sleep(MINUTE).await;
    log(&ctx).add(format!("attempt {} returns after all", ctx.attempt()));
    Ok(ctx.attempt())
}

#[test]
async fn an_attempt_that_is_silent_for_too_long_fails_and_is_retried() {
    let (app, _) = logging();
    let app = app.activity(fall_silent).start().await;
    let run = app.submit("silent-1", fall_silent(4, 2)).await.unwrap();
    let failure = run.failure().await;
    assert_eq!(failure.kind, Kind::HeartbeatTimeout);
    // From the start or the last heartbeat: 4 + 4 + 10.
    expect![[r#"
          +18s fall_silent#2 attempt 1 failed: heartbeat_timeout: no heartbeat within 10s; again in 1s
          +37s fall_silent#2 attempt 2 failed: heartbeat_timeout: no heartbeat within 10s
        3 +37s ActivityFailed #2 (attempt 2) max_attempts: heartbeat_timeout: no heartbeat within 10s
        4 +37s RunFailed heartbeat_timeout: no heartbeat within 10s
    "#]]
    .assert_eq(&story(&app, "silent-1").await);
}

#[test]
async fn an_attempt_that_never_reports_is_silent_from_its_start() {
    let (app, _) = logging();
    let app = app.activity(fall_silent).start().await;
    app.submit("silent-1", fall_silent(0, 0)).await.unwrap().failure().await;
    let ledger = app.ledger("silent-1").await;
    assert_eq!(ledger[0].ended_at.since(ledger[0].started_at), 10 * SECOND);
}

#[test]
async fn a_heartbeat_at_the_last_moment_is_in_time() {
    let (app, log) = logging();
    let app = app.activity(fall_silent).start().await;
    let run = app.submit("silent-1", fall_silent(10, 6)).await.unwrap();
    run.failure().await;
    let ledger = app.ledger("silent-1").await;
    assert_eq!(ledger[0].ended_at.since(ledger[0].started_at), 70 * SECOND);
    assert_eq!(log.text(), "");
}

#[test]
async fn what_an_attempt_returns_after_it_was_silent_for_too_long_is_refused() {
    let (app, log) = logging();
    let app = app.activity(fall_silent).options(|options| options.grace = 2 * MINUTE);
    let app = app.start().await;
    let run = app.submit("silent-1", fall_silent(1, 1)).await.unwrap();
    assert_eq!(run.failure().await.kind, Kind::HeartbeatTimeout);
    let (history, commits) = (run.history().await, app.commits());
    app.advance(5 * MINUTE).await;
    assert_eq!(log.text(), "attempt 1 returns after all\nattempt 2 returns after all");
    assert_eq!((run.history().await, app.commits()), (history, commits));
}

#[test]
async fn a_rule_can_forbid_another_attempt_after_silence() {
    const RULES: &[Rule] = &[Rule::fail(Match::kinds(&[Kind::HeartbeatTimeout]))];
    #[activity(retry = STEADY.rules(RULES), heartbeat_timeout = SECOND)]
    async fn mute(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(mute).start().await;
    let failure = app.submit("mute-1", mute()).await.unwrap().failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::HeartbeatTimeout, Some(1)));
    assert_eq!(failure.why.as_deref(), Some("non_retryable"));
}

#[test]
async fn a_store_that_takes_nothing_makes_nobody_silent() {
    #[activity(retry = RetryPolicy::once(), heartbeat_timeout = 2 * SECOND)]
    async fn steps(ctx: ActivityContext) -> Result<u32, Failure> {
        for second in 1..=60 {
            ctx.sleep(SECOND).await;
            ctx.heartbeat(&second)?;
        }
        Ok(60)
    }
    let app = TestApp::builder().activity(steps).start().await;
    let run = app.submit("steps-1", steps()).await.unwrap();
    app.advance(Duration::from_millis(10_500)).await;
    // About forty seconds, for waits of up to a second.
    app.faults().refuse(StoreCall::Commit, 45);
    app.advance(20 * SECOND).await;
    assert_eq!(reported(&app, "steps-1").await.as_deref(), Some("9"));
    assert_eq!(run.result().await.unwrap(), 60);
    assert_eq!(app.faults().refusals_left(StoreCall::Commit), 0);
    assert_eq!(app.ledger("steps-1").await, []);
}

// What the reply says.

/// Reports every second until it is told that nobody wants to hear of it.
#[activity(retry = RetryPolicy::once())]
async fn until_told(ctx: ActivityContext) -> Result<(), Failure> {
    loop {
        ctx.sleep(SECOND).await;
        if let Err(failure) = ctx.heartbeat(&()) {
            log(&ctx).add(format!("{failure}"));
            return Err(failure);
        }
    }
}

#[workflow]
async fn give_up(ctx: WorkflowContext, after: u64) -> Result<String, Failure> {
    let time = Duration::from_secs(after);
    let answer = ctx.timeout(time, ctx.call(until_told())).await;
    ctx.sleep(MINUTE).await?;
    Ok(answer.map_or_else(|elapsed| elapsed.to_string(), |_| "done".to_string()))
}

#[test]
async fn the_reply_tells_an_attempt_that_its_call_was_cancelled() {
    let (app, log) = logging();
    let app = app.workflow(give_up).activity(until_told).start().await;
    let run = app.start("give-up-1", give_up(5)).await;
    assert_eq!(run.result().await.unwrap(), "not done within 5s");
    expect!["cancelled: the attempt is to end: it was cancelled, it ran out of time, or its process stops"]
        .assert_eq(&log.text());
}

#[test]
async fn the_reply_tells_an_attempt_that_it_ran_out_of_time() {
    #[activity(retry = RetryPolicy::once(), timeout = Duration::from_millis(2_500))]
    async fn too_slow(ctx: ActivityContext) -> Result<(), Failure> {
        for second in 1..=3 {
            ctx.sleep(SECOND).await;
            log(&ctx).add(format!("{second}: {:?}", ctx.heartbeat(&second).map_err(|e| e.kind)));
        }
        Ok(())
    }
    let (app, log) = logging();
    let app = app.activity(too_slow).start().await;
    let run = app.submit("slow-1", too_slow()).await.unwrap();
    assert_eq!(run.failure().await.kind, Kind::Timeout);
    app.advance(SECOND).await;
    expect![[r#"
        1: Ok(())
        2: Ok(())
        3: Err(Cancelled)"#]]
    .assert_eq(&log.text());
}

#[test]
async fn a_plain_function_reports_and_is_told_too() {
    #[activity(retry = STEADY, heartbeat_timeout = 10 * SECOND)]
    fn import(ctx: ActivityContext, rows: u32) -> Result<String, Failure> {
        let begin: u32 = ctx.last_heartbeat().unwrap_or(0);
        for row in begin + 1..=rows {
            tokio::runtime::Handle::current().block_on(ctx.sleep(7 * SECOND));
            ctx.heartbeat(&row).inspect_err(|failure| log(&ctx).add(failure.to_string()))?;
        }
        Ok(format!("from {begin} to {rows}"))
    }
    let (app, log) = logging();
    let app = app.activity(import).start().await;
    let run = app.submit("import-1", import(20)).await.unwrap();
    app.advance(33 * SECOND).await;
    // Written after 7, 15, 23 and 31 s.
    assert_eq!(reported(&app, "import-1").await.as_deref(), Some("4"));
    app.stop().await;
    assert!(log.text().starts_with("cancelled: the attempt is to end"), "{}", log.text());
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), "from 5 to 20");
    assert_eq!(app.ledger("import-1").await[0].outcome, AttemptOutcome::Interrupted);
}

#[test]
async fn a_plain_function_whose_process_was_taken_from_it_is_told() {
    #[activity(retry = STEADY)]
    fn stubborn(ctx: ActivityContext) -> Result<u32, Failure> {
        let wait = |time| tokio::runtime::Handle::current().block_on(ctx.sleep(time));
        if ctx.attempt() == 1 {
            wait(10 * SECOND);
            log(&ctx).add(format!("{:?}", ctx.heartbeat(&1).map_err(|failure| failure.kind)));
        }
        wait(MINUTE);
        Ok(ctx.attempt())
    }
    let (app, log) = logging();
    let app = app.activity(stubborn).start().await;
    let run = app.submit("stubborn-1", stubborn()).await.unwrap();
    app.advance(SECOND).await;
    app.restart().await;
    assert_eq!(run.result().await.unwrap(), 2);
    // The thread of a plain function that nobody lets return would outlive the test.
    app.advance(MINUTE).await;
    assert_eq!(log.text(), "Err(Cancelled)");
}

// What can be told.

#[test]
async fn details_that_cannot_be_kept_are_an_error_with_the_reason() {
    #[activity(heartbeat_timeout = 10 * SECOND)]
    async fn odd(ctx: ActivityContext) -> Result<(), Failure> {
        let say = |told: Result<(), Failure>| {
            let text =
                |failure: Failure| format!("{failure} (terminal: {})", failure.is_terminal());
            log(&ctx).add(told.map_or_else(text, |()| "fine".to_string()));
        };
        say(ctx.heartbeat(&"x".repeat(98)));
        ctx.sleep(9 * SECOND).await;
        say(ctx.heartbeat(&"x".repeat(99)));
        ctx.sleep(9 * SECOND).await;
        say(ctx.heartbeat(&std::collections::BTreeMap::from([((1, 2), 3)])));
        // It was alive all the time.
        ctx.sleep(9 * SECOND).await;
        Ok(())
    }
    let (app, log) = logging();
    let app = app.activity(odd).options(|options| options.max_payload = 100).start().await;
    let run = app.submit("odd-1", odd()).await.unwrap();
    app.advance(20 * SECOND).await;
    // What was told before stays.
    assert_eq!(reported(&app, "odd-1").await.unwrap().len(), 100);
    run.result().await.unwrap();
    assert_eq!(app.ledger("odd-1").await, []);
    expect![[r#"
        fine
        PayloadTooLarge: heartbeat of odd: the details have 101 bytes, 100 are allowed (terminal: true)
        BadHeartbeat: heartbeat of odd: no JSON form: key must be a string (terminal: true)"#]]
    .assert_eq(&log.text());
}

#[test]
async fn details_of_another_type_count_as_none() {
    #[activity(retry = STEADY)]
    async fn changed(ctx: ActivityContext) -> Result<String, Failure> {
        if ctx.attempt() == 1 {
            ctx.heartbeat(&("row", 17))?;
            return Err(Failure::new("down"));
        }
        let number = ctx.last_heartbeat::<u64>();
        let anything = ctx.last_heartbeat::<serde_json::Value>();
        Ok(format!("{number:?}, {}", anything.unwrap()))
    }
    let app = TestApp::builder().activity(changed).start().await;
    let run = app.submit("changed-1", changed()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "None, [\"row\",17]");
}

#[test]
async fn what_an_earlier_attempt_told_stays_until_a_later_one_tells_something() {
    #[activity(retry = STEADY)]
    async fn mostly_mute(ctx: ActivityContext) -> Result<Option<u32>, Failure> {
        match ctx.attempt() {
            1 => ctx.heartbeat(&7)?,
            2 | 3 => {}
            _ => return Ok(ctx.last_heartbeat()),
        }
        // What this attempt tells is not what one before it told.
        assert_eq!(ctx.last_heartbeat::<u32>().is_some(), ctx.attempt() > 1);
        Err(Failure::new("down"))
    }
    let app = TestApp::builder().activity(mostly_mute).start().await;
    let run = app.submit("mute-1", mostly_mute()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), Some(7));
}

#[test]
async fn the_next_call_does_not_get_what_this_one_told() {
    #[activity]
    async fn tell(ctx: ActivityContext) -> Result<Option<u32>, Failure> {
        ctx.heartbeat(&1)?;
        Ok(ctx.last_heartbeat())
    }
    #[workflow]
    async fn tell_twice(ctx: WorkflowContext) -> Result<[Option<u32>; 2], Failure> {
        Ok([ctx.call(tell()).await?, ctx.call(tell()).await?])
    }
    let app = TestApp::builder().workflow(tell_twice).activity(tell).start().await;
    let run = app.start("tell-1", tell_twice()).await;
    assert_eq!(run.result().await.unwrap(), [None, None]);
}
