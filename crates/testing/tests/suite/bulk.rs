//! One action on many calls, or on many runs: each is touched at most once, whatever crashes.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::{
    BulkAct, BulkJob, BulkState, CallFilter, CallStatus, Client, PostgresOptions, ResetTo,
    RunFilter, Status,
};
use resurgam_postgres_server::{Database, Server};
use resurgam_testing::{Crash, TestApp, TestBuilder};
use resurgam_watchdog::test;

use crate::common::{crashes, later, until};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Fails, and waits for a day.
const DAILY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(86_400)).max_attempts(5).jitter(Jitter::None);

#[activity(retry = DAILY)]
async fn charge(order: u32) -> Result<u32, Failure> {
    Ok(order)
}

#[activity(retry = DAILY)]
async fn print(ctx: ActivityContext, pages: u32) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await;
    Ok(pages)
}

#[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None }))]
async fn notify(order: u32) -> Result<u32, Failure> {
    Ok(order)
}

#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(charge(number)).await
}

#[workflow]
async fn page(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(print(number)).await
}

#[workflow]
async fn mail(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(notify(number)).await
}

/// The first attempt of every charge fails, and the second of order 13 too. Pages of a job have two
/// calls.
fn builder() -> TestBuilder {
    TestApp::builder()
        .workflow(order)
        .workflow(page)
        .workflow(mail)
        .activity(print)
        .stub(charge, |call, attempt| match (call.order, attempt) {
            (order @ 1..=9, 1) => Err(Failure::of_type("BankDown", format!("order {order}"))),
            (13, 1..=2) => Err(Failure::of_type("CardStolen", "call the police").with_code("07")),
            (order, _) => Ok(order),
        })
        .stub(notify, |call, attempt| match attempt {
            1 => Err(Failure::of_type("MailDown", format!("mail {}", call.order))),
            _ => Ok(call.order),
        })
        .options(|options| options.bulk_page = 2)
}

/// Orders whose first charge has failed.
async fn waiting(numbers: impl IntoIterator<Item = u32>) -> TestApp {
    let app = builder().start().await;
    for number in numbers {
        app.start(&format!("order-{number}"), order(number)).await;
    }
    app.advance(60 * SECOND).await;
    app
}

fn charges() -> CallFilter {
    CallFilter { activity: Some("charge".to_string()), ..CallFilter::default() }
}

async fn done(app: &TestApp, act: impl Fn(&Client) -> BulkAct) -> BulkJob {
    app.ask("a bulk action", act).await.unwrap()
}

async fn job(app: &TestApp, id: &str) -> BulkJob {
    app.client().bulk_job(id).await.unwrap().expect("it is there")
}

/// How often somebody acted on each order.
async fn acted_on(app: &TestApp, numbers: impl IntoIterator<Item = u32>) -> Vec<usize> {
    let mut counts = Vec::new();
    for number in numbers {
        let history = app.history(&format!("order-{number}")).await;
        counts.push(history.matches("operator ana").count());
    }
    counts
}

#[test]
async fn each_call_is_retried_once_whatever_crashes() {
    let play = async |crash: Option<Crash>| {
        let app = waiting(1..=5).await;
        let before = app.commits();
        match crash {
            Some(Crash::BeforeCommit(k)) => app.faults().crash(Crash::BeforeCommit(before + k)),
            Some(Crash::AfterCommit(k)) => app.faults().crash(Crash::AfterCommit(before + k)),
            None => {}
        }
        // Asked again where a crash cut it short: the id makes it one job.
        let retry = |client: &Client| client.calls(charges()).retry().request_id("j").by("ana");
        let job = done(&app, retry).await;
        assert_eq!(job.state(), BulkState::Done, "{crash:?}");
        let counts = &job.counts;
        assert_eq!((counts.matched, counts.changed, counts.refused), (5, 5, 0), "{crash:?}");
        assert_eq!(acted_on(&app, 1..=5).await, [1; 5], "{crash:?}");
        app.advance(2 * Duration::from_secs(86_400)).await;
        let completed = RunFilter { status: vec![Status::Completed], ..RunFilter::default() };
        let found = app.client().runs(completed).restart().dry_run().await.unwrap();
        assert_eq!(found.count, 5, "{crash:?}");
        assert!(app.client().bulk_jobs(None, 10).await.unwrap().len() == 1, "{crash:?}");
        app.commits() - before
    };
    for crash in crashes(play(None).await) {
        play(Some(crash)).await;
    }
}

#[test]
async fn a_spread_retry_is_evenly_due_and_can_be_stopped_half_way() {
    let app = waiting(1..=6).await;
    let client = app.client();
    let began = app.attempts(charge);
    let retry = client.calls(charges()).retry().spread(60 * SECOND).by("ana");
    let id = retry.reason("the bank is back").start().await.unwrap().id;
    app.advance(25 * SECOND).await;
    let so_far = job(&app, &id).await;
    assert_eq!((so_far.state(), so_far.counts.matched), (BulkState::Running, 3), "{so_far:?}");
    let attempts = app.attempts(charge) - began;
    assert!((2..=3).contains(&attempts), "each has ten seconds of its own, not {attempts}");
    let client = app.client();
    assert!(app.wait_for("a stop", client.stop_bulk(&id, "bob")).await.unwrap());
    app.advance(SECOND).await;
    let stopped = job(&app, &id).await;
    assert_eq!((stopped.state(), stopped.counts.changed), (BulkState::Stopped, 3));
    assert_eq!(stopped.to_string(), "3 calls changed; stopped by bob");
    app.advance(HOUR).await;
    let touched: usize = acted_on(&app, 1..=6).await.into_iter().sum();
    assert_eq!(touched, 3, "the others are left alone");
    assert!(!app.wait_for("a stop", client.stop_bulk(&id, "bob")).await.unwrap(), "it is over");
    let missing = client.stop_bulk("none", "bob").await.unwrap_err();
    assert!(missing.is_unknown(), "{missing}");
}

#[test]
async fn a_limit_bounds_a_job() {
    let app = waiting(1..=5).await;
    let job = done(&app, |client| client.calls(charges()).retry().limit(3).by("ana")).await;
    assert_eq!((job.state(), job.counts.matched, job.counts.changed), (BulkState::Done, 3, 3));
    assert_eq!(acted_on(&app, 1..=5).await.into_iter().sum::<usize>(), 3);
}

#[test]
async fn the_others_follow_when_the_first_ones_succeed() {
    let app = waiting(1..=5).await;
    let job = done(&app, |client| client.calls(charges()).retry().first(2).by("ana")).await;
    assert_eq!((job.state(), job.counts.changed), (BulkState::Done, 5), "{job:?}");
    assert_eq!(app.attempts(charge), 10);
}

#[test]
async fn the_others_are_left_alone_when_one_of_the_first_fails_again() {
    let app = waiting([13]).await;
    let stolen = CallFilter { failure_type: Some("CardStolen".into()), ..CallFilter::default() };
    for number in 14..=16 {
        app.start(&format!("order-{number}"), order(13)).await;
    }
    app.advance(60 * SECOND).await;
    let first = |client: &Client| client.calls(stolen.clone()).retry().first(1).by("ana");
    let job = done(&app, first).await;
    assert_eq!((job.state(), job.counts.matched), (BulkState::Failed, 1));
    let error = job.error.unwrap();
    assert_eq!(error, "of the first 1, not all succeeded: charge#2 failed again");
    let numbers = [13, 14, 15, 16];
    assert_eq!(acted_on(&app, numbers).await.into_iter().sum::<usize>(), 1);
}

#[test]
async fn a_dry_run_counts_and_lists_and_changes_nothing() {
    let app = waiting(1..=5).await;
    let commits = app.commits();
    let found = app.client().calls(charges()).fail("no").limit(4).dry_run().await.unwrap();
    assert_eq!((found.count, found.calls.len()), (4, 4));
    assert_eq!(found.calls[0].task.name, "charge");
    let none = CallFilter { failure_type: Some("CardStolen".into()), ..charges() };
    assert_eq!(app.client().calls(none).retry().dry_run().await.unwrap().count, 0);
    assert_eq!(app.commits(), commits);
    app.start("order-13", order(13)).await;
    app.advance(SECOND).await;
    let commits = app.commits();
    for (code, count) in [("07", 1), ("7", 0)] {
        let coded = CallFilter { failure_code: Some(code.into()), ..charges() };
        let found = app.client().calls(coded).retry().dry_run().await.unwrap();
        assert_eq!(found.count, count, "{code}");
    }
    let started = CallFilter { started_since: Some(app.now()), ..charges() };
    assert_eq!(app.client().calls(started).retry().dry_run().await.unwrap().count, 0);
    assert_eq!((app.commits(), app.client().bulk_jobs(None, 9).await.unwrap()), (commits, vec![]));
}

#[test]
async fn what_is_refused_is_counted_and_listed_with_the_reason() {
    let app = builder().start().await;
    for number in 1..=3 {
        app.start(&format!("page-{number}"), page(number)).await;
    }
    app.advance(60 * SECOND).await;
    let running = CallFilter { status: Some(CallStatus::Running), ..CallFilter::default() };
    let job = done(&app, |client| client.calls(running.clone()).retry().by("ana")).await;
    assert_eq!((job.state(), job.counts.changed, job.counts.refused), (BulkState::Done, 0, 3));
    assert_eq!(job.counts.listed.len(), 3);
    assert_eq!(job.counts.listed[0].why, "print#2 is running attempt 1; nothing to retry");
    // Calls that end in the meantime are not found, or refused.
    let job = done(&app, |client| client.calls(running.clone()).fail("enough")).await;
    assert_eq!((job.counts.changed, job.counts.refused), (3, 0));
    let job = done(&app, |client| client.calls(running.clone()).pause()).await;
    assert_eq!(job.counts.matched, 0);
}

#[test]
async fn calls_are_paused_resumed_failed_and_given_another_policy_together() {
    let app = waiting(1..=3).await;
    let job = done(&app, |client| client.calls(charges()).pause().clock_runs().by("ana")).await;
    assert_eq!(job.to_string(), "3 calls changed");
    let job = done(&app, |client| client.calls(charges()).retry()).await;
    assert_eq!(job.counts.matched, 0, "a retry is for calls that wait");
    let job = done(&app, |client| client.calls(charges()).resume().reset().by("ana")).await;
    assert_eq!(job.counts.changed, 3);
    let once = RetryPolicy::once();
    let waits = CallFilter { status: Some(CallStatus::Retrying), ..charges() };
    let set = |client: &Client| client.calls(waits.clone()).set_policy(once.clone());
    let job = done(&app, set).await;
    assert!(job.counts.changed <= 3, "{job:?}");
    app.advance(2 * Duration::from_secs(86_400)).await;
    let job = done(&app, |client| client.calls(CallFilter::default()).fail("no")).await;
    assert_eq!(job.counts.matched, 0, "everything has ended");
}

#[test]
async fn exhausted_calls_of_one_group_are_resumed_with_failures_counted_from_0() {
    let app = builder().start().await;
    for number in 1..=3 {
        app.start(&format!("mail-{number}"), mail(number)).await;
    }
    app.advance(60 * SECOND).await;
    let all = resurgam::PausedFilter::default;
    let group = app.client().paused_groups(all()).await.unwrap().remove(0);
    assert_eq!(group.count, 3);
    let of = resurgam::PausedFilter { fingerprint: Some(group.fingerprint), ..all() };
    let job = done(&app, |client| client.resume_paused(of.clone()).first(1).by("ana")).await;
    assert_eq!((job.state(), job.counts.changed), (BulkState::Done, 3), "{job:?}");
    app.advance(SECOND).await;
    assert_eq!(app.client().paused_calls(all()).await.unwrap(), vec![]);
}

#[test]
async fn runs_are_paused_resumed_restarted_and_reset_together() {
    let app = waiting(1..=4).await;
    let orders = RunFilter { workflow: Some("order".to_string()), ..RunFilter::default() };
    let runs = |client: &Client| client.runs(orders.clone());
    let job = done(&app, |client| runs(client).pause().calls().by("ana")).await;
    assert_eq!(job.to_string(), "4 runs changed");
    let two = RunFilter {
        ids: vec!["order-1".into(), "order-3".into(), "none".into()],
        ..RunFilter::default()
    };
    let job = done(&app, |client| client.runs(two.clone()).resume().by("ana")).await;
    assert_eq!(job.counts.changed, 2);
    let job = done(&app, |client| runs(client).resume().by("ana")).await;
    assert_eq!(job.counts.changed, 2);
    let job = done(&app, |client| client.calls(charges()).fail("enough").by("ana")).await;
    assert_eq!(job.counts.changed, 4);
    app.advance(SECOND).await;
    let job = done(&app, |client| runs(client).reset(ResetTo::LastFailure).limit(1)).await;
    assert_eq!((job.counts.changed, job.counts.refused), (1, 0), "{job:?}");
    let job = done(&app, |client| runs(client).restart().by("ana")).await;
    assert_eq!((job.counts.changed, job.counts.refused), (3, 0), "{job:?}");
}

#[test(minutes = 15)]
async fn each_run_is_reset_once_whatever_crashes() {
    let play = async |crash: Option<Crash>| {
        let app = waiting(1..=5).await;
        done(&app, |client| client.calls(charges()).fail("enough").by("bob")).await;
        app.advance(SECOND).await;
        let before = app.commits();
        if let Some(crash) = crash {
            app.faults().crash(later(crash, before));
        }
        let failed = RunFilter { status: vec![Status::Failed], ..RunFilter::default() };
        let reset = |client: &Client| {
            let act = client.runs(failed.clone()).reset(ResetTo::LastFailure);
            act.request_id("j").by("ana")
        };
        let job = done(&app, reset).await;
        assert_eq!(job.state(), BulkState::Done, "{crash:?}");
        let counts = &job.counts;
        assert_eq!((counts.matched, counts.changed, counts.refused), (5, 5, 0), "{crash:?}");
        app.advance(2 * Duration::from_secs(86_400)).await;
        for number in 1..=5 {
            let row = app.client().find(&format!("order-{number}")).await.unwrap().unwrap();
            assert_eq!((row.run, row.status), (2, Status::Completed), "{number} {crash:?}");
        }
        assert_eq!(acted_on(&app, 1..=5).await, [1; 5], "{crash:?}");
        app.commits() - before
    };
    for crash in crashes(play(None).await) {
        play(Some(crash)).await;
    }
}

#[test]
async fn runs_are_chosen_by_what_failed_last_in_them() {
    let app = waiting([1, 2, 13]).await;
    let page_of = app.start("page-1", page(1)).await;
    let count = async |filter: RunFilter| {
        let listed = app.client().runs(filter.clone()).list(None, 9).await.unwrap().len() as u64;
        let found = app.client().runs(filter).pause().dry_run().await.unwrap();
        assert_eq!(found.count, listed);
        found.count
    };
    let all = RunFilter::default;
    let of = |name: &str| RunFilter { activity: Some(name.to_string()), ..all() };
    let failed = |name: &str| RunFilter { failure_type: Some(name.to_string()), ..all() };
    let since = |at| RunFilter { failed_since: Some(at), ..all() };
    let on = |name: &str| RunFilter { queue: Some(name.to_string()), ..all() };
    assert_eq!([count(of("charge")).await, count(of("print")).await], [3, 1]);
    assert_eq!([count(failed("BankDown")).await, count(failed("CardStolen")).await], [2, 1]);
    let coded = |code: &str| RunFilter { failure_code: Some(code.to_string()), ..all() };
    assert_eq!([count(coded("07")).await, count(coded("7")).await], [1, 0]);
    let (early, now) = (app.now().saturating_sub(HOUR), app.now());
    assert_eq!([count(since(early)).await, count(since(now)).await], [3, 0]);
    assert_eq!([count(on("default")).await, count(on("other")).await], [4, 0]);

    // Of a run that failed it is its own failure, and the call that failed last.
    let stolen = failed("CardStolen");
    let fail = |client: &Client| {
        client.calls(CallFilter { ids: vec!["order-13".into()], ..charges() }).fail("enough")
    };
    assert_eq!(done(&app, fail).await.counts.changed, 1);
    app.advance(SECOND).await;
    assert_eq!(count(RunFilter { status: vec![Status::Failed], ..stolen.clone() }).await, 0);
    let operator = RunFilter { activity: Some("charge".into()), ..failed("FailedByOperator") };
    let restart = |client: &Client| client.runs(operator.clone()).restart().by("ana");
    assert_eq!(done(&app, restart).await.counts.changed, 1);
    let pause = |client: &Client| client.runs(of("print")).pause().first(1).by("ana");
    assert_eq!(done(&app, pause).await.counts.changed, 1);
    assert_eq!(app.describe("page-1").await.instance.status, Status::Paused);
    drop(page_of);
}

#[test]
async fn what_cannot_be_done_to_many_is_refused() {
    let app = builder().start().await;
    let client = app.client();
    let refused = [
        client.calls(charges()).retry().first(101),
        client.calls(charges()).retry().limit(0),
        client.calls(charges()).pause().reset(),
        client.runs(RunFilter::default()).restart().calls(),
        client.calls(charges()).fail("no").clock_runs(),
        client.calls(charges()).retry().request_id(""),
    ];
    for act in refused {
        let error = act.start().await.unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
}

#[test]
async fn a_job_that_is_over_goes_after_thirty_days() {
    let app = waiting(1..=1).await;
    let job = done(&app, |client| client.calls(charges()).retry()).await;
    app.advance(Duration::from_secs(29 * 86_400)).await;
    assert!(app.client().bulk_job(&job.id).await.unwrap().is_some());
    app.advance(Duration::from_secs(2 * 86_400)).await;
    assert_eq!(app.client().bulk_job(&job.id).await.unwrap(), None);
}

#[activity(retry = DAILY)]
async fn deliver(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::of_type("VanBroken", format!("parcel {number}"))),
        _ => Ok(number),
    }
}

#[workflow]
async fn parcel(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(deliver(number)).await
}

async fn node(database: &Database<'_>) -> App {
    // Short, and long enough that a node on a busy machine does not miss it.
    let options = PostgresOptions::default().lease(Duration::from_secs(5));
    let builder = App::builder().workflow(parcel).activity(deliver).postgres_options(options);
    let builder = builder.options(|options| options.bulk_page = 7);
    builder.postgres(&database.url()).await.unwrap()
}

#[test(minutes = 15, threads = 2)]
async fn nodes_that_share_the_calls_carry_out_one_job_each_call_once() {
    let database = Server::shared().database().await;
    let (one, other) = (node(&database).await, node(&database).await);
    for number in 0..60 {
        one.start(format!("parcel-{number}"), parcel(number)).await.unwrap();
    }
    let broken = CallFilter {
        failure_type: Some("VanBroken".to_string()),
        status: Some(CallStatus::Retrying),
        ..CallFilter::default()
    };
    until("every first attempt to fail", async || {
        one.calls(broken.clone()).retry().dry_run().await.unwrap().count == 60
    })
    .await;
    let job = other.calls(broken.clone()).retry().by("ana").await.unwrap();
    let counts = &job.counts;
    assert_eq!((job.state(), counts.changed, counts.refused), (BulkState::Done, 60, 0), "{job:?}");
    for number in 0..60 {
        let id = format!("parcel-{number}");
        until("a parcel to arrive", async || {
            one.find(&id).await.unwrap().is_some_and(|row| row.status == Status::Completed)
        })
        .await;
        let history = one.history(&id).await.unwrap().unwrap();
        assert_eq!(history.matches("operator ana: retried deliver#2").count(), 1, "{history}");
    }
    one.stop().await.unwrap();
    other.stop().await.unwrap();
}
