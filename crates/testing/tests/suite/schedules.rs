//! Schedules fire once each, whatever happens around them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::schedule::{Overlap, Rule};
use resurgam::{InstanceFilter, InstanceRow, ScheduleDescription, Status, Timestamp};
use resurgam_core::schedule::time_text;
use resurgam_store_sqlite::{Options as SqliteOptions, SqliteStore};
use resurgam_testing::{Crash, StoreCall, TestApp, TestBuilder};
use resurgam_watchdog::test;
use tempfile::TempDir;

use crate::common::{at_once, crashes, many};

/// Takes as long as it is told.
#[workflow]
async fn report(ctx: WorkflowContext, seconds: u64) -> Result<u64, Failure> {
    ctx.sleep(Duration::from_secs(seconds)).await?;
    Ok(seconds)
}

/// Fails until its third run.
#[workflow]
async fn fragile(ctx: WorkflowContext) -> Result<u32, Failure> {
    let attempt = ctx.call(tried()).await?;
    if attempt < 3 { Err(Failure::new("not yet")) } else { Ok(attempt) }
}

#[activity]
async fn tried() -> Result<u32, Failure> {
    Ok(0)
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn builder() -> TestBuilder {
    TestBuilder::default().workflow(report)
}

async fn app() -> TestApp {
    builder().start().await
}

/// Tests begin on the first of January 2026, at midnight.
fn every_minute() -> Rule {
    Rule::cron("* * * * *")
}

async fn described(app: &TestApp, id: &str) -> ScheduleDescription {
    app.client().describe_schedule(id).await.unwrap().unwrap()
}

/// The instances of a schedule, the earliest first.
async fn rows(app: &TestApp, schedule: &str) -> Vec<InstanceRow> {
    let filter = InstanceFilter {
        schedule: Some(schedule.to_string()),
        limit: 100_000,
        ..InstanceFilter::default()
    };
    let mut rows = app.client().list(filter).await.unwrap();
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    rows
}

/// What comes after the name of the schedule in the ids of its instances, without the date.
async fn fired(app: &TestApp, schedule: &str) -> Vec<String> {
    let rows = rows(app, schedule).await;
    let time = |row: InstanceRow| row.id.split_once('T').unwrap().1.to_string();
    rows.into_iter().map(time).collect()
}

fn minutes(range: impl IntoIterator<Item = u32>) -> Vec<String> {
    range.into_iter().map(|minute| format!("{:02}:{:02}:00Z", minute / 60, minute % 60)).collect()
}

#[test]
async fn each_firing_starts_the_instance_called_after_its_time() {
    let app = app().await;
    app.client()
        .schedule("nightly", Rule::cron("0 3 * * *").in_zone("Europe/Berlin"), report(7))
        .tag("kind", "report")
        .queue("reports")
        .priority(3)
        .await
        .unwrap();
    app.advance(DAY * 3).await;
    let rows = rows(&app, "nightly").await;
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let expected = ["01", "02", "03"].map(|day| format!("nightly/2026-01-{day}T02:00:00Z"));
    assert_eq!(ids, expected);
    for row in rows {
        assert_eq!((row.status, row.schedule.as_deref()), (Status::Completed, Some("nightly")));
        assert_eq!((row.queue.as_str(), row.priority), ("reports", 3));
        assert_eq!(row.tags.into_iter().next(), Some(("kind".into(), "report".into())));
        assert_eq!(row.outcome.unwrap().as_str(), "7");
        assert!(row.id.ends_with(&time_text(row.created_at)), "{}", row.id);
    }
    let description = described(&app, "nightly").await;
    assert_eq!((description.started, description.missed, description.skipped), (3, 0, 0));
    assert_eq!(description.last.as_deref(), Some("nightly/2026-01-03T02:00:00Z"));
    assert!(!description.last_open);
    let next: Vec<String> = description.next.into_iter().map(time_text).collect();
    assert_eq!(next.len(), 5);
    assert_eq!(next[0], "2026-01-04T02:00:00Z");
}

#[test]
async fn the_settings_of_a_schedule_hold_for_its_instances() {
    let builder = TestApp::builder().workflow(fragile);
    let app = builder
        .stub(tried, {
            let calls = std::sync::atomic::AtomicU32::new(0);
            move |_, _| Ok(1 + calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        })
        .start()
        .await;
    let policy = RetryPolicy::fixed(Duration::from_secs(10)).max_attempts(3);
    app.client().schedule("f", Rule::cron("0 1 * * *"), fragile()).retry(&policy).await.unwrap();
    app.advance(HOUR * 2).await;
    let rows = rows(&app, "f").await;
    assert_eq!((rows[0].status, rows[0].run), (Status::Completed, 3));
}

#[test]
async fn overlap_is_judged_on_the_last_instance() {
    // Each takes two minutes and twenty seconds, and six firings come, none as another ends.
    let stories = [
        (Overlap::Skip, minutes([1, 4]), (2, 4), None),
        (Overlap::BufferOne, minutes([1, 2, 4]), (3, 2), Some("2026-01-01T00:06:00Z")),
        (Overlap::Allow, minutes(1..=6), (6, 0), None),
    ];
    for (overlap, expected, counted, buffered) in stories {
        let app = app().await;
        let schedule = app.client().schedule("s", every_minute(), report(140));
        schedule.overlap(overlap).await.unwrap();
        app.advance(MINUTE * 6).await;
        assert_eq!(fired(&app, "s").await, expected, "{overlap:?}");
        let description = described(&app, "s").await;
        assert_eq!((description.started, description.skipped), counted, "{overlap:?}");
        assert_eq!(description.buffered.map(time_text).as_deref(), buffered, "{overlap:?}");
        assert!(description.last_open);
    }
}

#[test]
async fn a_schedule_skips_what_overlaps_unless_told_otherwise() {
    let app = app().await;
    app.client().schedule("s", every_minute(), report(150)).await.unwrap();
    app.advance(MINUTE * 6).await;
    assert_eq!(fired(&app, "s").await, minutes([1, 4]));
    assert_eq!(described(&app, "s").await.skipped, 4);
}

#[test]
async fn a_schedule_by_interval_fires_at_even_distances() {
    let app = app().await;
    app.client().schedule("s", Rule::every(MINUTE * 7), report(0)).await.unwrap();
    app.advance(HOUR).await;
    let times: Vec<_> = rows(&app, "s").await.iter().map(|row| row.created_at).collect();
    assert!((8..=9).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) == MINUTE * 7), "{times:?}");
}

#[test]
async fn a_buffered_firing_starts_when_the_last_instance_closes() {
    let app = app().await;
    let schedule = app.client().schedule("s", every_minute(), report(90));
    schedule.overlap(Overlap::BufferOne).await.unwrap();
    app.advance(Duration::from_secs(149)).await;
    assert_eq!(fired(&app, "s").await, minutes([1]));
    app.advance(Duration::from_secs(1)).await;
    let rows = rows(&app, "s").await;
    assert_eq!(fired(&app, "s").await, minutes([1, 2]));
    assert_eq!(time_text(rows[1].created_at), "2026-01-01T00:02:30Z");

    // However it closes, and in another process too.
    app.advance(Duration::from_secs(31)).await;
    app.cancel(&rows[1].id, "enough").await.unwrap();
    app.restart().await;
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(fired(&app, "s").await, minutes([1, 2, 3]));
}

#[test]
async fn a_buffered_firing_starts_on_the_next_start_when_the_close_was_all_that_was_written() {
    let quiet = buffered_by_a_close(None).await;
    for crash in crashes(quiet) {
        buffered_by_a_close(Some(crash)).await;
    }
}

/// The last instance closes while a firing is buffered. Answers with the commits that takes.
async fn buffered_by_a_close(crash: Option<Crash>) -> u64 {
    let app = app().await;
    let schedule = app.client().schedule("s", Rule::cron("1,2 0 1 1 *"), report(90));
    schedule.overlap(Overlap::BufferOne).await.unwrap();
    app.advance(Duration::from_secs(149)).await;
    let before = app.commits();
    match crash {
        Some(Crash::BeforeCommit(k)) => app.faults().crash(Crash::BeforeCommit(before + k)),
        Some(Crash::AfterCommit(k)) => app.faults().crash(Crash::AfterCommit(before + k)),
        None => {}
    }
    app.advance(MINUTE * 10).await;
    assert_eq!(fired(&app, "s").await, minutes([1, 2]), "{crash:?}");
    assert!(rows(&app, "s").await.iter().all(|row| row.status == Status::Completed), "{crash:?}");
    app.commits() - before
}

#[test]
async fn each_firing_starts_one_instance_with_a_crash_at_every_commit() {
    for overlap in [Overlap::Skip, Overlap::BufferOne, Overlap::Allow] {
        let (quiet, commits) = crashed(overlap, None).await;
        assert!(quiet.len() > 2 && commits > 5, "{quiet:?}");
        for crash in crashes(commits) {
            let (fired, _) = crashed(overlap, Some(crash)).await;
            assert_eq!(fired, quiet, "{overlap:?} {crash:?}");
        }
    }
}

/// What became of five minutes with one crash: the instances and the counters.
async fn crashed(overlap: Overlap, crash: Option<Crash>) -> (Vec<String>, u64) {
    let app = app().await;
    let schedule = app.client().schedule("s", every_minute(), report(90));
    schedule.overlap(overlap).await.unwrap();
    let before = app.commits();
    match crash {
        Some(Crash::BeforeCommit(k)) => app.faults().crash(Crash::BeforeCommit(before + k)),
        Some(Crash::AfterCommit(k)) => app.faults().crash(Crash::AfterCommit(before + k)),
        None => {}
    }
    app.advance(MINUTE * 5).await;
    let commits = app.commits() - before;
    // Commits are grouped as they come, so there may have been fewer than the last time.
    app.faults().no_crash();
    app.client().pause_schedule("s").await.unwrap();
    app.advance(MINUTE * 5).await;
    let rows = rows(&app, "s").await;
    assert!(rows.iter().all(|row| row.status == Status::Completed), "{crash:?}");
    let mut lines = fired(&app, "s").await;
    let ScheduleDescription { started, missed, skipped, .. } = described(&app, "s").await;
    assert_eq!(started, lines.len() as u64, "{crash:?}");
    lines.push(format!("{started} started, {missed} missed, {skipped} skipped"));
    (lines, commits)
}

#[test]
async fn after_downtime_firings_are_caught_up_within_the_window_and_others_counted_as_missed() {
    let app = app().await;
    let client = app.client();
    client.schedule("short", every_minute(), report(0)).await.unwrap();
    let long = client.schedule("long", every_minute(), report(0)).overlap(Overlap::Allow);
    long.catch_up(MINUTE * 10).await.unwrap();
    app.advance(MINUTE * 2).await;
    // Nobody works: the app without an engine lets the time pass.
    app.stop_working().await;
    app.advance(HOUR + Duration::from_secs(30)).await;
    app.restart().await;
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(fired(&app, "short").await, minutes([1, 2, 62]));
    assert_eq!(fired(&app, "long").await, minutes([1, 2].into_iter().chain(53..=62)));
    assert_eq!(described(&app, "short").await.missed, 59);
    assert_eq!(described(&app, "long").await.missed, 50);
    app.advance(MINUTE).await;
    assert_eq!(described(&app, "short").await.started, 4);
}

#[test]
async fn more_firings_than_one_commit_takes_are_caught_up_in_several() {
    let app = app().await;
    let schedule = app.client().schedule("s", Rule::every(Duration::from_secs(1)), report(0));
    schedule.overlap(Overlap::Allow).catch_up(DAY).await.unwrap();
    app.stop_working().await;
    app.advance(HOUR).await;
    app.restart().await;
    app.advance(Duration::from_millis(1)).await;
    assert_eq!(rows(&app, "s").await.len(), 3_600);
    assert_eq!(described(&app, "s").await.started, 3_600);
}

#[test]
async fn daylight_saving_a_time_that_does_not_exist_fires_at_the_next_and_one_that_comes_twice_once()
 {
    let app = app().await;
    let rule = Rule::cron("30 2 * * *").in_zone("Europe/Berlin");
    app.client().schedule("night", rule, report(0)).await.unwrap();
    app.advance(DAY * 365).await;
    let rows = rows(&app, "night").await;
    assert_eq!(rows.len(), 365);
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    for expected in [
        "night/2026-03-28T01:30:00Z",
        // 02:30 is left out, 03:00 comes at once.
        "night/2026-03-29T01:00:00Z",
        "night/2026-03-30T00:30:00Z",
        // 02:30 comes twice.
        "night/2026-10-25T00:30:00Z",
        "night/2026-10-26T01:30:00Z",
    ] {
        assert!(ids.contains(expected), "{expected}");
    }
}

#[test]
async fn jitter_delays_the_start_and_not_the_name() {
    let app = app().await;
    let schedule = app.client().schedule("j", Rule::every(HOUR), report(0));
    schedule.jitter(MINUTE * 10).await.unwrap();
    app.advance(HOUR * 10).await;
    let rows = rows(&app, "j").await;
    assert!(rows.len() >= 9);
    let mut delays = BTreeSet::new();
    for (hour, row) in (1..).zip(&rows) {
        assert_eq!(row.id, format!("j/2026-01-01T{hour:02}:00:00Z"));
        let nominal: i64 = 1_767_225_600_000 + hour * 3_600_000;
        let delay = row.created_at.as_millis() - nominal;
        assert!((0..600_000).contains(&delay), "{delay}");
        delays.insert(delay);
    }
    assert!(delays.len() > 5, "{delays:?}");
}

#[test]
async fn a_paused_schedule_forgets_and_a_resumed_one_goes_on() {
    let app = app().await;
    let client = app.client();
    client.schedule("s", every_minute(), report(0)).paused().await.unwrap();
    app.advance(MINUTE * 3).await;
    assert_eq!(fired(&app, "s").await, [""; 0]);
    let description = described(&app, "s").await;
    assert!(description.paused && description.next.is_empty());
    client.resume_schedule("s").await.unwrap();
    client.resume_schedule("s").await.unwrap();
    app.advance(MINUTE * 2).await;
    client.pause_schedule("s").await.unwrap();
    client.pause_schedule("s").await.unwrap();
    app.advance(HOUR).await;
    client.resume_schedule("s").await.unwrap();
    app.advance(MINUTE).await;
    assert_eq!(fired(&app, "s").await, minutes([4, 5, 66]));
    assert_eq!(described(&app, "s").await.missed, 0, "pausing is no downtime");
}

#[test]
async fn a_schedule_runs_now_when_it_is_told_to() {
    let app = app().await;
    let client = app.client();
    client.schedule("s", Rule::cron("0 12 * * *"), report(3600)).paused().await.unwrap();
    app.advance(Duration::from_millis(1_500)).await;
    let first = client.run_schedule_now("s").await.unwrap();
    let second = client.run_schedule_now("s").await.unwrap();
    assert_eq!(first, "s/2026-01-01T00:00:01.500Z");
    assert_eq!(second, "s/2026-01-01T00:00:01.501Z", "two in one moment are two");
    let description = described(&app, "s").await;
    assert_eq!((description.started, description.last_open), (2, true));
    assert_eq!(description.last, Some(second.clone()));
    app.advance(HOUR * 2).await;
    assert!(rows(&app, "s").await.iter().all(|row| row.status == Status::Completed));

    // It is the last instance, on which overlap is judged.
    client.resume_schedule("s").await.unwrap();
    app.advance(HOUR * 9 + MINUTE * 30).await;
    client.run_schedule_now("s").await.unwrap();
    app.advance(HOUR).await;
    let description = described(&app, "s").await;
    assert_eq!((description.started, description.skipped), (3, 1));
}

#[test]
async fn a_backfill_starts_a_past_range_and_nothing_twice() {
    let app = app().await;
    let client = app.client();
    client.schedule("s", Rule::every(HOUR), report(0)).await.unwrap();
    app.advance(HOUR * 2).await;
    let at = |hour: i64| Timestamp::from_millis(1_767_225_600_000 + hour * 3_600_000);
    // The hour at the end has fired already, and the second time all of them have.
    assert_eq!(client.backfill("s", at(-3), at(1)).await.unwrap(), 4);
    assert_eq!(client.backfill("s", at(-3), at(1)).await.unwrap(), 0);
    app.advance(Duration::from_secs(1)).await;
    let rows = rows(&app, "s").await;
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0].id, "s/2025-12-31T21:00:00Z");
    assert!(rows.iter().all(|row| row.status == Status::Completed));
    assert_eq!(described(&app, "s").await.started, 2);

    let error = client.backfill("s", at(1), at(0)).await.unwrap_err();
    assert!(error.to_string().contains("before it begins"), "{error}");
    let error = client.backfill("s", at(-1_000_000), at(0)).await.unwrap_err();
    assert!(error.to_string().contains("at most 10000"), "{error}");
    assert!(client.backfill("t", at(0), at(1)).await.unwrap_err().is_unknown());
    // Many are started in several commits.
    assert_eq!(client.backfill("s", at(-3_000), at(0)).await.unwrap(), 2_997);
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(self::rows(&app, "s").await.len(), 3_003);
}

#[test]
async fn the_same_schedule_again_is_fine_and_another_one_needs_to_say_replace() {
    let app = app().await;
    let client = app.client();
    let create = || client.schedule("s", every_minute(), report(0));
    create().await.unwrap();
    app.advance(MINUTE * 2).await;
    client.pause_schedule("s").await.unwrap();
    let revision = app.commits();
    create().await.unwrap();
    assert_eq!(app.commits(), revision, "nothing is written");
    assert!(described(&app, "s").await.paused, "an operator's pause is not undone");

    let others = [
        create().overlap(Overlap::Allow),
        create().tag("a", "b"),
        client.schedule("s", every_minute(), report(1)),
        client.schedule("s", Rule::every(MINUTE), report(0)),
    ];
    for other in others {
        let error = other.await.unwrap_err();
        assert!(error.is_already_exists(), "{error}");
    }
    let other = client.schedule("s", Rule::every(MINUTE * 2), report(0)).replace();
    other.await.unwrap();
    client.resume_schedule("s").await.unwrap();
    app.advance(MINUTE * 4).await;
    assert_eq!(fired(&app, "s").await, minutes([1, 2, 4, 6]));
    assert_eq!(described(&app, "s").await.started, 4, "what it remembers stays");
}

#[test]
async fn a_changed_rule_forgets_what_lies_between() {
    let app = app().await;
    let client = app.client();
    client.schedule("s", Rule::every(HOUR), report(0)).await.unwrap();
    app.advance(MINUTE * 30).await;
    client.schedule("s", every_minute(), report(0)).catch_up(DAY).replace().await.unwrap();
    app.advance(MINUTE * 2).await;
    assert_eq!(fired(&app, "s").await, minutes([31, 32]));
    assert_eq!(described(&app, "s").await.missed, 0);
}

#[test]
async fn a_deleted_schedule_fires_no_more_and_its_instances_go_on() {
    let app = app().await;
    let client = app.client();
    client.schedule("s", every_minute(), report(90)).await.unwrap();
    app.advance(MINUTE).await;
    client.delete_schedule("s").await.unwrap();
    app.advance(HOUR).await;
    let rows = rows(&app, "s").await;
    assert_eq!((rows.len(), rows[0].status), (1, Status::Completed));
    assert!(client.describe_schedule("s").await.unwrap().is_none());
    for error in [
        client.delete_schedule("s").await.unwrap_err(),
        client.pause_schedule("s").await.unwrap_err(),
        client.resume_schedule("s").await.unwrap_err(),
        client.run_schedule_now("s").await.unwrap_err(),
    ] {
        assert!(error.is_unknown(), "{error}");
        assert!(error.to_string().contains("schedule s: there is no schedule"), "{error}");
    }
}

#[test]
async fn what_cannot_work_is_refused_where_it_is_asked_for() {
    let app = app().await;
    let client = app.client();
    let error = client.schedule("", Rule::cron("61 * * * *"), report(0)).await.unwrap_err();
    for word in ["id: \"\" is empty", "61"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let error = client.schedule("s", every_minute(), fragile()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("schedule s: workflow fragile is unknown"), "{error}");
    let senseless = RetryPolicy::fixed(MINUTE).jitter(Jitter::Proportional(7.0));
    let error = client.schedule("s", every_minute(), report(0)).retry(&senseless).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("schedule s: its retry policy: ") && error.contains('7'), "{error}");
    assert_eq!(client.schedules().await.unwrap(), []);
}

#[test]
async fn a_schedule_of_an_unknown_workflow_waits_for_the_program_that_knows_it() {
    let app = app().await;
    app.client().schedule("s", every_minute(), report(0)).await.unwrap();
    app.client().schedule("other", Rule::every(HOUR), report(0)).await.unwrap();
    app.restart_with(TestApp::builder().workflow(fragile).activity(tried)).await;
    app.advance(MINUTE * 10 + MINUTE / 2).await;
    let error = described(&app, "s").await.error.unwrap();
    assert_eq!(error, "workflow report is not registered here");
    assert_eq!(described(&app, "other").await.error, None, "it is not its time yet");

    app.restart_with(builder()).await;
    app.advance(MINUTE).await;
    assert_eq!(fired(&app, "s").await, minutes([10, 11]));
    let description = described(&app, "s").await;
    assert_eq!((description.error, description.missed), (None, 9));
}

/// A file, and an app on it whose clock is at its beginning.
fn on_a_file() -> (TempDir, impl Fn() -> TestApp) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("app.db");
    let open = move || {
        let store = SqliteStore::open(&file, SqliteOptions::default()).unwrap();
        builder().start_on(Arc::new(store))
    };
    (folder, open)
}

#[test]
async fn a_schedule_that_cannot_be_read_is_set_aside_and_holds_up_no_other() {
    let damages = [
        "rule = '{'",
        "rule = '{\"v\":9,\"schedule\":{\"id\":\"a\",\"moon\":\"full\"}}'",
        "state = ''",
        "options = '7'",
        "options = '{'",
    ];
    for damage in damages {
        let (folder, open) = on_a_file();
        let app = open();
        for id in ["a", "b"] {
            app.client().schedule(id, every_minute(), report(0)).await.unwrap();
        }
        app.stop_working().await;
        let sql = rusqlite::Connection::open(folder.path().join("app.db")).unwrap();
        sql.execute_batch(&format!("UPDATE schedule SET {damage} WHERE id = 'a'")).unwrap();
        app.restart().await;
        app.advance(MINUTE * 2).await;
        let [a, b] = app.client().schedules().await.unwrap().try_into().unwrap();
        assert!(a.error.is_some(), "{damage}");
        assert_eq!((a.started, b.started, b.error), (0, 2, None), "{damage}");
        let error = app.client().pause_schedule("a").await.unwrap_err();
        assert!(error.to_string().contains("replace or delete it"), "{error}");
        // It is mended by writing it anew.
        let schedule = app.client().schedule("a", every_minute(), report(0));
        schedule.replace().await.unwrap();
        app.advance(MINUTE).await;
        let a = described(&app, "a").await;
        assert_eq!((a.started, a.error), (1, None), "{damage}");
    }
}

#[test]
async fn a_clock_that_goes_back_or_ahead_fires_nothing_twice() {
    let (_folder, open) = on_a_file();
    let app = open();
    let schedule = app.client().schedule("s", every_minute(), report(0));
    schedule.overlap(Overlap::Allow).await.unwrap();
    app.advance(MINUTE * 5).await;
    app.stop_working().await;
    // Another process, and it is the beginning of the year again.
    let app = open();
    app.advance(MINUTE * 4).await;
    assert_eq!(described(&app, "s").await.started, 5);
    app.advance(MINUTE * 3).await;
    assert_eq!(fired(&app, "s").await, minutes(1..=7));
    let description = described(&app, "s").await;
    assert_eq!((description.started, description.missed), (7, 0));
    app.stop_working().await;
    // And one that is an hour ahead at once.
    let app = open();
    app.stop_working().await;
    app.advance(HOUR).await;
    app.restart().await;
    app.advance(MINUTE / 2).await;
    assert_eq!(fired(&app, "s").await, minutes((1..=7).chain([59, 60])));
    assert_eq!(described(&app, "s").await.missed, 51);
}

#[test]
async fn large_arguments_are_caught_up_in_commits_of_bounded_size() {
    #[workflow]
    async fn heavy(ctx: WorkflowContext, text: String) -> Result<usize, Failure> {
        ctx.sleep(Duration::from_millis(1)).await?;
        Ok(text.len())
    }
    let app = TestApp::builder().workflow(heavy).start().await;
    let text = "x".repeat(1_500_000);
    let schedule = app.client().schedule("s", every_minute(), heavy(text));
    schedule.overlap(Overlap::Allow).catch_up(HOUR).await.unwrap();
    app.stop_working().await;
    app.advance(MINUTE * 20).await;
    app.restart().await;
    let before = app.commits();
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(rows(&app, "s").await.len(), 20);
    // Two fit one commit.
    assert!(app.commits() - before >= 10, "{}", app.commits() - before);
}

#[test]
async fn a_store_in_trouble_delays_a_firing_and_loses_none() {
    let app = app().await;
    app.client().schedule("s", every_minute(), report(0)).await.unwrap();
    app.advance(MINUTE).await;
    app.faults().refuse(StoreCall::Schedules, 20);
    app.faults().refuse(StoreCall::Commit, 5);
    app.advance(MINUTE * 2).await;
    assert_eq!(app.faults().refusals_left(StoreCall::Schedules), 0);
    assert_eq!(fired(&app, "s").await, minutes([1, 2, 3]));
    assert_eq!(described(&app, "s").await.missed, 0);
}

#[test]
async fn thousands_of_schedules_fire_in_the_same_minute() {
    let app = app().await;
    let (client, number) = (app.client(), many(3_000));
    let schedules = (0..number).map(|number| {
        // Spread over ten minutes but for the full hour.
        let rule = format!("0,{} * * * *", 1 + number % 10);
        client.schedule(format!("s{number:04}"), Rule::cron(rule), report(0))
    });
    assert!(at_once(schedules).await.iter().all(Result::is_ok));
    app.advance(MINUTE * 10).await;
    let commits = app.commits();
    app.advance(MINUTE * 49).await;
    assert_eq!(app.commits(), commits, "until the hour there is nothing to do");
    app.advance(MINUTE).await;
    let schedules = client.schedules().await.unwrap();
    assert_eq!(schedules.len() as u64, number);
    assert!(schedules.iter().all(|schedule| schedule.started == 2));
    assert!(schedules.windows(2).all(|pair| pair[0].id < pair[1].id));
}
