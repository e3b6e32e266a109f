//! What is counted about a call, what an attempt is known by, and what is kept for the next
//! decision, also across restarts.

use std::time::Duration;

use expect_test::expect;
use resurgam::prelude::*;
use resurgam::retry::{
    ClockFrom, Counters, Idempotency, Jitter, LostWorker, Match, Rule, schedule, uniform,
};
use resurgam::{AttemptOutcome, Kind};
use resurgam_core::RunKey;
use resurgam_store::rows::{AttemptRow, TaskRow};
use resurgam_testing::{Crash, TestApp, never};
use resurgam_watchdog::test;

use crate::common::attempts::{MINUTE, SECOND, STEADY, log, logging, pending, story};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The tasks of an instance as they are stored.
async fn tasks(app: &TestApp, id: &str) -> Vec<TaskRow> {
    let row = app.describe(id).await.instance;
    let key = RunKey { uid: row.uid, run: row.run };
    app.client().handle().store().tasks(key).await.unwrap()
}

/// Ends in another way each time: it fails, dies with its process, is cut short, asks for an hour.
#[activity(retry = STEADY.max_attempts(2))]
async fn by_turns(ctx: ActivityContext) -> Result<u32, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::new("down")),
        2 | 3 => {
            never(&ctx).await;
            Ok(0)
        }
        4 => Err(Failure::snooze(HOUR)),
        attempt => Ok(attempt),
    }
}

#[test]
async fn failures_losses_interruptions_and_snoozes_are_counted_apart() {
    let app = TestApp::builder().activity(by_turns).start().await;
    let run = app.submit("turns-1", by_turns()).await.unwrap();
    app.advance(2 * SECOND).await;
    app.restart().await;
    app.advance(SECOND).await;
    app.stop().await;
    app.restart().await;
    app.advance(SECOND).await;
    let call = pending(&app, "turns-1").await;
    assert_eq!(
        call.counters,
        Counters { failures: 1, lost: 1, interrupted: 1, snoozed: 1, probed: 0 }
    );
    assert_eq!(run.result().await.unwrap(), 5);
    expect![[r#"
          +0ms by_turns#2 attempt 1 failed: down; again in 1s
          +2s by_turns#2 attempt 2 lost: worker_lost: the process that ran it died; again in 100ms
          +13s by_turns#2 attempt 3 interrupted: worker_lost: a graceful stop cut it short; again in 0ms
          +13s by_turns#2 attempt 4 snoozed: snoozed; again in 1h
        3 +1h ActivityCompleted #2 (attempt 5) 5
        4 +1h RunCompleted 5
    "#]].assert_eq(&story(&app, "turns-1").await);
}

#[test]
async fn an_attempt_has_the_number_of_everything_that_began_before_it() {
    #[activity(retry = STEADY)]
    async fn tell(ctx: ActivityContext) -> Result<(), Failure> {
        log(&ctx).add(format!("attempt {}", ctx.attempt()));
        match ctx.attempt() {
            1 => Err(Failure::new("down")),
            2 | 3 => {
                never(&ctx).await;
                Ok(())
            }
            4 => Err(Failure::snooze(SECOND)),
            _ => Ok(()),
        }
    }
    let (app, log) = logging();
    let app = app.activity(tell).start().await;
    let run = app.submit("tell-1", tell()).await.unwrap();
    app.advance(2 * SECOND).await;
    app.restart().await;
    app.advance(SECOND).await;
    app.stop_and_restart().await;
    run.result().await.unwrap();
    assert_eq!(log.text(), "attempt 1\nattempt 2\nattempt 3\nattempt 4\nattempt 5");
}

#[test]
async fn every_change_of_a_call_is_one_commit() {
    #[activity(retry = STEADY)]
    async fn change(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(SECOND).await;
        match ctx.attempt() {
            1 => Err(Failure::new("down")),
            2 => Err(Failure::snooze(SECOND)),
            3 | 4 => {
                never(&ctx).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
    let app = TestApp::builder().activity(change).start().await;
    let mut said = Vec::new();
    let mut changed = |what: &str, commits: u64| said.push(format!("{what}: {commits}"));
    app.submit("change-1", change()).await.unwrap();
    changed("scheduled and claimed", app.commits());
    for what in ["failed", "claimed", "snoozed", "claimed"] {
        let before = app.commits();
        app.advance(SECOND).await;
        changed(what, app.commits() - before);
    }
    let before = app.commits();
    app.restart().await;
    app.advance(Duration::ZERO).await;
    changed("lost", app.commits() - before);
    let before = app.commits();
    app.advance(SECOND).await;
    changed("claimed", app.commits() - before);
    let before = app.commits();
    app.stop().await;
    changed("interrupted", app.commits() - before);
    let before = app.commits();
    app.restart().await;
    app.advance(Duration::ZERO).await;
    changed("claimed", app.commits() - before);
    let before = app.commits();
    app.advance(SECOND).await;
    changed("completed, and then the turn of a run that was not in memory", app.commits() - before);
    expect![[r#"
        scheduled and claimed: 1
        failed: 1
        claimed: 1
        snoozed: 1
        claimed: 1
        lost: 1
        claimed: 1
        interrupted: 1
        claimed: 1
        completed, and then the turn of a run that was not in memory: 2"#]]
    .assert_eq(&said.join("\n"));
}

// What an attempt is known by.

#[test]
async fn every_attempt_has_a_token_of_its_own() {
    #[activity(retry = STEADY)]
    async fn slow(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(SECOND).await;
        Err(Failure::new("down"))
    }
    let app = TestApp::builder().activity(slow).start().await;
    for number in 0..10 {
        app.submit(&format!("slow-{number}"), slow()).await.unwrap();
    }
    let mut tokens = Vec::new();
    for _ in 0..10 {
        for number in 0..10 {
            let task = tasks(&app, &format!("slow-{number}")).await.remove(0);
            tokens.push(task.claim.unwrap().token);
        }
        // It fails after a second, waits for another one, and is at work again.
        app.advance(2 * SECOND).await;
    }
    tokens.sort_unstable();
    let numbers = tokens.len();
    tokens.dedup();
    assert_eq!((tokens.len(), numbers), (100, 100));
    // Numbers that nobody guesses are not small and not next to each other.
    assert!(tokens.windows(2).all(|pair| pair[1] - pair[0] > 1), "{tokens:?}");
}

#[test]
async fn what_an_attempt_returns_after_its_process_was_taken_from_it_is_refused() {
    #[activity(retry = STEADY)]
    fn stubborn(ctx: ActivityContext) -> Result<u32, Failure> {
        let seconds = if ctx.attempt() == 1 { 10 } else { 60 };
        tokio::runtime::Handle::current().block_on(ctx.sleep(seconds * SECOND));
        log(&ctx).add(format!("attempt {} returns", ctx.attempt()));
        Ok(ctx.attempt())
    }
    let (app, log) = logging();
    let app = app.activity(stubborn).start().await;
    let run = app.submit("stubborn-1", stubborn()).await.unwrap();
    app.advance(SECOND).await;
    app.restart().await;
    app.advance(20 * SECOND).await;
    assert_eq!(log.text(), "attempt 1 returns");
    assert_eq!(run.result().await.unwrap(), 2);
    expect![[r#"
          +1s stubborn#2 attempt 1 lost: worker_lost: the process that ran it died; again in 100ms
        3 +1m 1s ActivityCompleted #2 (attempt 2) 2
        4 +1m 1s RunCompleted 2
    "#]]
    .assert_eq(&story(&app, "stubborn-1").await);
}

// Which count bounds what.

#[test]
async fn all_rules_share_one_count_of_failures() {
    const RULES: &[Rule] = &[
        Rule::retry(Match::types(&["Busy"])).max_attempts(3),
        Rule::retry(Match::types(&["Odd"])).max_attempts(5),
    ];
    #[activity(retry = STEADY.rules(RULES))]
    async fn moody(ctx: ActivityContext, types: Vec<String>) -> Result<(), Failure> {
        Err(Failure::of_type(&types[ctx.attempt() as usize - 1], "no"))
    }
    let app = TestApp::builder().activity(moody).start().await;
    // A rule asks how many failures there were, of whatever type.
    for (types, attempts) in
        [("Busy Busy Busy", 3), ("Odd Odd Busy", 3), ("Odd Busy Odd Odd Odd", 5)]
    {
        let names = types.split(' ').map(str::to_string).collect();
        let run = app.submit(types, moody(names)).await.unwrap();
        let failure = run.failure().await;
        let expected = (Some(attempts), Some("max_attempts"));
        assert_eq!((failure.attempts, failure.why.as_deref()), expected, "{types}");
    }
}

#[test]
async fn rules_are_not_asked_about_attempts_that_are_lost() {
    const RULES: &[Rule] = &[
        Rule::retry(Match::kinds(&[Kind::WorkerLost])).max_attempts(100),
        Rule::fail(Match::message(".")),
    ];
    const TWO: LostWorker = LostWorker { max: 2, ..LostWorker::DEFAULT };
    #[activity(retry = STEADY.rules(RULES).lost_worker(TWO))]
    async fn poison(ctx: ActivityContext) -> Result<(), Failure> {
        never(&ctx).await;
        Ok(())
    }
    let app = TestApp::builder().activity(poison).start().await;
    let run = app.submit("poison-1", poison()).await.unwrap();
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.why.as_deref()), (Kind::WorkerLost, Some("worker_lost")));
    // Neither did the rule that forbids end it, nor the one that retries go on.
    assert_eq!(app.attempts(poison), 3);
    let delays: Vec<_> = app.ledger("poison-1").await.iter().map(|row| row.delay_ms).collect();
    assert_eq!(delays, [Some(100), Some(200), None]);
}

#[test]
async fn an_attempt_that_fails_in_between_begins_the_count_of_lost_ones_anew() {
    const ONE: LostWorker = LostWorker { max: 1, ..LostWorker::DEFAULT };
    #[activity(retry = STEADY.lost_worker(ONE))]
    async fn unlucky(ctx: ActivityContext) -> Result<u32, Failure> {
        match ctx.attempt() {
            1 | 3 | 5 => never(&ctx).await,
            2 | 4 => return Err(Failure::new("down")),
            _ => {}
        }
        Ok(ctx.attempt())
    }
    let app = TestApp::builder().activity(unlucky).start().await;
    let run = app.submit("unlucky-1", unlucky()).await.unwrap();
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    assert_eq!(run.result().await.unwrap(), 6);
}

#[test]
async fn a_graceful_stop_in_between_begins_the_count_of_lost_ones_anew() {
    const ONE: LostWorker = LostWorker { max: 1, ..LostWorker::DEFAULT };
    #[activity(retry = STEADY.lost_worker(ONE))]
    async fn long(ctx: ActivityContext) -> Result<u32, Failure> {
        if ctx.attempt() <= 6 {
            never(&ctx).await;
        }
        Ok(ctx.attempt())
    }
    let app = TestApp::builder().activity(long).start().await;
    let run = app.submit("long-1", long()).await.unwrap();
    for _ in 0..3 {
        app.advance(MINUTE).await;
        app.restart().await;
        app.advance(MINUTE).await;
        app.stop_and_restart().await;
    }
    assert_eq!(run.result().await.unwrap(), 7);
}

#[test]
async fn a_claim_that_is_lost_before_its_code_began_ends_a_call_that_may_not_be_repeated() {
    const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);
    #[activity(retry = ONCE)]
    async fn launch() -> Result<(), Failure> {
        Ok(())
    }
    let app = TestApp::builder().activity(launch).start().await;
    // The claim is on the disk, and nobody knows whether the code has begun.
    app.faults().crash(Crash::AfterCommit(1));
    let run = app.submit("launch-1", launch()).await.unwrap();
    let failure = run.failure().await;
    assert_eq!((failure.kind, failure.attempts), (Kind::WorkerLost, Some(1)));
    assert_eq!(app.attempts(launch), 0);
}

// What is kept for the next decision.

#[test]
async fn what_a_decision_needs_is_in_one_column_with_a_version() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("app.db");
    let store = resurgam_store_sqlite::SqliteStore::open(&file, Default::default()).unwrap();
    let app = TestApp::builder().activity(by_turns).start_on(std::sync::Arc::new(store));
    let began = app.now().as_millis();
    app.submit("turns-1", by_turns()).await.unwrap();
    app.advance(SECOND / 2).await;
    let sql = rusqlite::Connection::open(&file).unwrap();
    let progress: String =
        sql.query_row("SELECT progress FROM task", [], |row| row.get(0)).unwrap();
    let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
    let expected = serde_json::json!({
        "v": 1, "failures": 1, "lost": 0, "lost_in_a_row": 0, "interrupted": 0, "snoozed": 0,
        "first_scheduled": began, "first_started": began, "previous_delay_ms": 1_000,
    });
    assert_eq!(progress, expected);
}

#[test]
async fn the_time_since_the_first_attempt_is_counted_across_restarts() {
    const FROM_START: RetryPolicy = STEADY.max_elapsed(MINUTE).clock_from(ClockFrom::FirstStarted);
    #[activity(retry = FROM_START)]
    async fn hopeless() -> Result<(), Failure> {
        Err(Failure::new("down"))
    }
    #[activity]
    async fn occupy(ctx: ActivityContext) -> Result<(), Failure> {
        ctx.sleep(HOUR).await;
        Ok(())
    }
    let app = TestApp::builder().activity(hopeless).activity(occupy);
    let app = app.options(|options| options.slots = 1).start().await;
    app.submit("occupy-1", occupy()).await.unwrap();
    let began = app.now();
    let run = app.submit("hopeless-1", hopeless()).await.unwrap();
    app.advance(HOUR).await;
    for _ in 0..5 {
        app.advance(10 * SECOND).await;
        app.restart().await;
    }
    let failure = run.failure().await;
    assert_eq!((failure.why.as_deref(), failure.attempts), (Some("max_elapsed"), Some(61)));
    assert_eq!(app.now().since(began), HOUR + MINUTE);
}

const SPREAD: RetryPolicy =
    RetryPolicy::exponential(MINUTE).jitter(Jitter::Decorrelated).max_delay(DAY);

/// Fails, but for the attempts that are to be lost.
#[activity(retry = SPREAD)]
async fn spread(ctx: ActivityContext, lost: Vec<u32>) -> Result<(), Failure> {
    if lost.contains(&ctx.attempt()) {
        never(&ctx).await;
    }
    Err(Failure::new("down"))
}

/// The delays that follow the failures of a ledger by the policy, each from the one before.
fn delays_by_policy(ledger: &[AttemptRow]) -> Vec<u64> {
    let failed = ledger.iter().filter(|row| row.outcome == AttemptOutcome::Failed);
    let mut before = None;
    let draw = |(failures, row): (u32, &AttemptRow)| {
        let u = uniform(row.call.run.uid.0, row.call.run.run, row.call.seq.0, failures);
        let delay = schedule::spread(&SPREAD.terms(None), failures, before).at(u);
        before = Some(Duration::from_millis(u64::try_from(delay.as_millis()).unwrap()));
        u64::try_from(delay.as_millis()).unwrap()
    };
    (1..).zip(failed).map(draw).collect()
}

fn delays(ledger: &[AttemptRow]) -> Vec<u64> {
    let failed = ledger.iter().filter(|row| row.outcome == AttemptOutcome::Failed);
    failed.filter_map(|row| row.delay_ms).collect()
}

#[test]
async fn a_delay_that_follows_from_the_one_before_does_so_across_a_restart() {
    let app = TestApp::builder().activity(spread).start().await;
    let run = app.submit("spread-1", spread(Vec::new())).await.unwrap();
    for _ in 0..20 {
        app.advance(MINUTE).await;
        app.restart().await;
    }
    run.failure().await;
    let ledger = app.ledger("spread-1").await;
    assert_eq!(ledger.len(), 10);
    assert_eq!(delays(&ledger), delays_by_policy(&ledger)[..9]);
}

#[test]
async fn a_lost_attempt_changes_nothing_about_the_delays_of_the_policy() {
    let app = TestApp::builder().activity(spread).start().await;
    let run = app.submit("spread-1", spread(vec![4])).await.unwrap();
    while app.attempts(spread) < 4 {
        app.advance(MINUTE).await;
    }
    app.restart().await;
    run.failure().await;
    let ledger = app.ledger("spread-1").await;
    assert_eq!(ledger.len(), 11);
    assert_eq!(delays(&ledger), delays_by_policy(&ledger)[..9]);
}
