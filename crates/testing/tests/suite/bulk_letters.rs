//! One decision about many dead letters: each is decided about once, whatever crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Exhausted;
use resurgam::{
    BulkAct, BulkJob, BulkState, Client, ClosedFilter, DeadLetterFilter, LetterState, Status,
};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::common::{crashes, later};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

const KEPT: RetryPolicy = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter);

/// Whether the bank answers.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicBool>);

#[activity(retry = KEPT)]
async fn charge(ctx: ActivityContext, order: u32) -> Result<u32, Failure> {
    match ctx.state::<Bank>().0.load(Ordering::SeqCst) && order != 13 {
        true => Ok(order),
        false => Err(Failure::of_type("BankDown", format!("no answer to order {order}"))),
    }
}

/// Order 7 goes on without its money.
#[workflow]
async fn order(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    match ctx.call(charge(number)).await {
        Err(_) if number == 7 => Ok(0),
        charged => charged,
    }
}

/// Orders whose charges were given up, the last one first in the list of letters. The bank is back.
/// Pages of a job have two letters.
async fn given_up(numbers: impl IntoIterator<Item = u32>) -> TestApp {
    let bank = Bank::default();
    let builder = TestApp::builder().workflow(order).activity(charge).state(bank.clone());
    let app = builder.options(|options| options.bulk_page = 2).start().await;
    for number in numbers {
        app.start(&format!("order-{number}"), order(number)).await;
        app.advance(SECOND).await;
    }
    bank.0.store(true, Ordering::SeqCst);
    app
}

fn all() -> DeadLetterFilter {
    DeadLetterFilter::default()
}

async fn done(app: &TestApp, act: impl Fn(&Client) -> BulkAct) -> BulkJob {
    app.ask("a decision about letters", act).await.unwrap()
}

async fn in_state(app: &TestApp, state: LetterState) -> Vec<String> {
    let filter = DeadLetterFilter { state, ..all() };
    let letters = app.client().dead_letters(filter).await.unwrap();
    letters.into_iter().map(|letter| letter.instance).collect()
}

async fn status(app: &TestApp, number: u32) -> (u32, Status) {
    let row = app.client().find(&format!("order-{number}")).await.unwrap().unwrap();
    (row.run, row.status)
}

/// Decides about five letters with a crash at each commit from there on, and without one. Whoever
/// decides asks again where a crash cut it short: the id makes it one job.
async fn with_crashes(decide: impl AsyncFn(&TestApp)) {
    let app = given_up(5..=9).await;
    let before = app.commits();
    decide(&app).await;
    for crash in crashes(app.commits() - before) {
        let app = given_up(5..=9).await;
        app.faults().crash(later(crash, before));
        decide(&app).await;
    }
}

#[test]
async fn letters_are_redriven_in_their_runs_once_each_whatever_crashes() {
    with_crashes(async |app| {
        let redrive = |client: &Client| client.redrive_all(all()).request_id("j").by("ana");
        let job = done(app, redrive).await;
        let counts = &job.counts;
        assert_eq!((counts.matched, counts.changed, counts.refused), (5, 4, 1), "{job:?}");
        let why = "order-7 is completed: its code went on after the failure of charge#2";
        assert_eq!((counts.listed.len(), &*counts.listed[0].why), (1, why));
        assert_eq!(job.to_string(), "4 dead letters redriven; 1 refused");
        app.advance(HOUR).await;
        assert_eq!(in_state(app, LetterState::Open).await, ["order-7"]);
        for number in [5, 6, 8, 9] {
            assert_eq!(status(app, number).await, (2, Status::Completed), "order {number}");
        }
    })
    .await;
}

#[test]
async fn letters_are_redriven_as_new_once_each_whatever_crashes() {
    with_crashes(async |app| {
        let began = app.attempts(charge);
        let redrive = |client: &Client| client.redrive_all(all()).as_new().request_id("j");
        let job = done(app, redrive).await;
        assert_eq!((job.state(), job.counts.changed), (BulkState::Done, 5), "{job:?}");
        app.advance(HOUR).await;
        assert_eq!(in_state(app, LetterState::Open).await, [""; 0]);
        // Attempts that a crash cuts off run again.
        assert!((5..=10).contains(&(app.attempts(charge) - began)));
        let filter = DeadLetterFilter { state: LetterState::Redriven, ..all() };
        for letter in app.client().dead_letters(filter).await.unwrap() {
            let id = letter.settled.unwrap().redriven_as.unwrap();
            let row = app.client().find(&id).await.unwrap().unwrap();
            assert_eq!((row.status, row.queue), (Status::Completed, letter.queue));
        }
    })
    .await;
}

#[test]
async fn letters_are_discarded_page_by_page_once_each_whatever_crashes() {
    with_crashes(async |app| {
        let discard = |client: &Client| client.discard(all()).request_id("j").by("ana");
        let job = done(app, discard).await;
        assert_eq!(job.to_string(), "5 dead letters discarded");
        assert_eq!(in_state(app, LetterState::Discarded).await.len(), 5);
        assert_eq!(done(app, discard).await.counts, job.counts, "it is the same job");
    })
    .await;
}

#[test]
async fn of_two_who_decide_about_the_same_letters_each_gets_those_that_the_other_has_not() {
    let app = given_up(5..=9).await;
    let client = app.client();
    let one = app.client().discard(all()).by("ana").start().await.unwrap();
    let other = client.redrive_all(all()).as_new().by("bob").start().await.unwrap();
    app.advance(HOUR).await;
    let mut changed = 0;
    for id in [one.id, other.id] {
        let job = client.bulk_job(&id).await.unwrap().unwrap();
        assert_eq!((job.state(), job.counts.refused), (BulkState::Done, 0), "{job:?}");
        changed += job.counts.changed;
    }
    assert_eq!(changed, 5);
    assert_eq!(in_state(&app, LetterState::Open).await, [""; 0]);
}

#[test]
async fn the_others_follow_when_the_first_ones_that_are_redriven_succeed() {
    for as_new in [false, true] {
        let app = given_up([1, 2, 3, 4]).await;
        let job = done(&app, |client| {
            let redrive = client.redrive_all(all()).first(1).by("ana");
            if as_new { redrive.as_new() } else { redrive }
        })
        .await;
        assert_eq!((job.state(), job.counts.changed), (BulkState::Done, 4), "{as_new} {job:?}");
        assert_eq!(in_state(&app, LetterState::Redriven).await.len(), 4);
    }
}

#[test]
async fn the_others_are_left_alone_when_the_first_one_that_is_redriven_fails_again() {
    for as_new in [false, true] {
        let app = given_up([1, 2, 13]).await;
        let job = done(&app, |client| {
            let redrive = client.redrive_all(all()).first(1).by("ana");
            if as_new { redrive.as_new() } else { redrive }
        })
        .await;
        assert_eq!((job.state(), job.counts.matched), (BulkState::Failed, 1), "{as_new} {job:?}");
        let error = job.error.unwrap();
        assert!(error.starts_with("of the first 1, not all succeeded: BankDown"), "{error}");
        // The letter of the second failure is a new one.
        assert_eq!(in_state(&app, LetterState::Open).await.len(), 3);
        assert_eq!(in_state(&app, LetterState::Redriven).await, ["order-13"]);
    }
}

#[test]
async fn a_limit_and_a_stop_leave_the_others_open() {
    let app = given_up(1..=6).await;
    let newest = done(&app, |client| client.discard(all()).limit(3).by("ana")).await;
    assert_eq!(newest.counts.changed, 3);
    assert_eq!(in_state(&app, LetterState::Open).await, ["order-3", "order-2", "order-1"]);
    let client = app.client();
    let slow = client.redrive_all(all()).as_new().spread(30 * SECOND).by("ana");
    let id = slow.start().await.unwrap().id;
    app.advance(15 * SECOND).await;
    assert!(app.wait_for("a stop", client.stop_bulk(&id, "bob")).await.unwrap());
    app.advance(HOUR).await;
    let stopped = client.bulk_job(&id).await.unwrap().unwrap();
    assert_eq!((stopped.state(), stopped.counts.changed), (BulkState::Stopped, 2));
    assert_eq!(in_state(&app, LetterState::Open).await, ["order-1"]);
}

#[test]
async fn a_dry_run_counts_letters_and_lists_the_newest() {
    let app = given_up(1..=12).await;
    let commits = app.commits();
    let found = app.client().redrive_all(all()).dry_run().await.unwrap();
    assert_eq!((found.count, found.letters.len()), (12, 10));
    assert_eq!(found.letters[0].instance, "order-12");
    let none = DeadLetterFilter { activity: Some("refund".to_string()), ..all() };
    assert_eq!(app.client().discard(none).dry_run().await.unwrap().count, 0);
    assert_eq!((app.commits(), in_state(&app, LetterState::Open).await.len()), (commits, 12));
}

#[test]
async fn letters_whose_instances_are_gone_are_refused_unless_they_are_redriven_as_new() {
    let app = given_up(1..=3).await;
    assert_eq!(app.delete_closed(ClosedFilter::default()).await.unwrap(), 3);
    let job = done(&app, |client| client.redrive_all(all()).by("ana")).await;
    assert_eq!((job.counts.changed, job.counts.refused), (0, 3));
    assert_eq!(job.counts.listed[0].why, "its instance was deleted");
    let job = done(&app, |client| client.redrive_all(all()).as_new().by("ana")).await;
    assert_eq!((job.counts.changed, job.counts.refused), (3, 0));
}

#[test]
async fn what_is_for_letters_is_done_to_nothing_else() {
    let app = given_up([]).await;
    let client = app.client();
    let refused = [
        client.discard(all()).as_new(),
        client.redrive_all(all()).as_new().new_key(),
        client.redrive_all(all()).new_key().as_new(),
        client.calls(resurgam::CallFilter::default()).retry().as_new(),
        client.discard(all()).reset(),
    ];
    for act in refused {
        let error = act.start().await.unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
}
