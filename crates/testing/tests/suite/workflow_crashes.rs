//! The engine is stopped before and after every commit of what workflows do with each other and
//! with their own ends: undoing, children, next runs, deadlines. The end is the one without a
//! crash, and nothing is left behind.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture, poll_fn};
use std::task::Poll;
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{InstanceFilter, Outcome, ParentClose, Start, Status};
use resurgam_core::RunKey;
use resurgam_testing::{TestApp, TestInstance};
use resurgam_watchdog::test;

use crate::common::crashes;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

const STEADY: RetryPolicy = RetryPolicy::fixed(MINUTE).jitter(Jitter::None);

#[activity(retry = STEADY)]
async fn book(item: u32) -> Result<u32, Failure> {
    Ok(item)
}

/// Books in ten seconds, whether or not anybody wants it.
#[activity(retry = STEADY)]
async fn book_slowly(ctx: ActivityContext, item: u32) -> Result<u32, Failure> {
    ctx.sleep(10 * SECOND).await;
    Ok(item)
}

/// Item 2 cannot be given back at first.
#[activity(retry = STEADY)]
async fn give_back(ctx: ActivityContext, item: u32) -> Result<(), Failure> {
    match (item, ctx.attempt()) {
        (2, 1) => Err(Failure::new("closed for lunch")),
        _ => Ok(()),
    }
}

#[workflow]
async fn undone(ctx: WorkflowContext) -> Result<(), Failure> {
    for item in 1..=3 {
        ctx.call(book(item)).compensate_with(|item| give_back(*item)).await?;
    }
    Err(Failure::new("no"))
}

#[workflow]
async fn undone_by_wish(ctx: WorkflowContext) -> Result<(), Failure> {
    for item in 1..=3 {
        ctx.call(book(item)).compensate_with(|item| give_back(*item)).await?;
    }
    ctx.sleep(HOUR).await
}

/// Gives up a call that then takes effect.
#[workflow]
async fn settling(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(book(1)).compensate_with(|item| give_back(*item)).await?;
    let slow = ctx.call(book_slowly(2)).compensate_with(|item| give_back(*item));
    ctx.timeout(5 * SECOND, slow).await.map_err(Failure::from)?.map(drop)
}

#[workflow]
async fn worker(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    let booked = ctx.call(book(number)).await?;
    ctx.sleep(Duration::from_secs(u64::from(number))).await?;
    match number {
        7 => Err(Failure::new("seven")),
        _ => Ok(booked),
    }
}

#[workflow]
async fn team(ctx: WorkflowContext, size: u32) -> Result<u32, Failure> {
    let children = (1..=size).map(|number| ctx.child(worker(number)));
    Ok(ctx.join_all(children).await?.len() as u32)
}

/// Leaves a child behind under each policy.
#[workflow]
async fn leave(ctx: WorkflowContext) -> Result<(), Failure> {
    let policies = [
        ("cancelled", ParentClose::Cancel),
        ("terminated", ParentClose::Terminate),
        ("abandoned", ParentClose::Abandon),
    ];
    for (id, policy) in policies {
        leave_open(ctx.child(worker(3_600)).id(id).parent_close(policy)).await;
    }
    ctx.start_detached("detached", worker(1))?;
    ctx.sleep(SECOND).await
}

/// Begins to wait for something that nobody drops: it is left when the run ends.
async fn leave_open<F: IntoFuture>(wait: F)
where
    F::IntoFuture: 'static,
{
    let wait = Box::leak(Box::new(Box::pin(wait.into_future())));
    poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_ready())).await;
}

/// More children than one transaction of 100 rows takes, all given up again.
#[workflow]
async fn crowd(ctx: WorkflowContext) -> Result<u32, Failure> {
    let children = (0..40).map(|_| ctx.child(napper()));
    let late = ctx.timeout(SECOND, ctx.join_all(children)).await;
    Ok(u32::from(late.is_err()))
}

#[workflow]
async fn napper(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.sleep(HOUR).await
}

#[workflow]
async fn rounds(ctx: WorkflowContext, round: u32) -> Result<Vec<String>, Failure> {
    let mut heard: Vec<String> = ctx.get("heard").unwrap_or_default();
    heard.push(ctx.signal("word").await?);
    ctx.set("heard", &heard);
    ctx.call(book(round)).await?;
    match heard.len() {
        4 => Ok(heard),
        _ => ctx.continue_as_new(rounds(round + 1)),
    }
}

#[workflow]
async fn stubborn(ctx: WorkflowContext) -> Result<u32, Failure> {
    let runs = ctx.get::<u32>("runs").unwrap_or(0) + 1;
    ctx.set("runs", &runs);
    ctx.call(book(runs)).compensate_with(|item| give_back(*item)).await?;
    match runs {
        1 | 2 => Err(Failure::new("not yet")),
        3 => ctx.sleep(2 * HOUR).await.map(|()| 0),
        _ => Ok(runs),
    }
}

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(undone)
        .workflow(undone_by_wish)
        .workflow(settling)
        .workflow(worker)
        .workflow(team)
        .workflow(leave)
        .workflow(crowd)
        .workflow(napper)
        .workflow(rounds)
        .workflow(stubborn)
        .activity(book)
        .activity(book_slowly)
        .activity(give_back)
        .options(|options| options.max_batch_rows = 100)
        .start()
        .await
}

/// What a scenario comes to.
#[derive(Debug, PartialEq)]
struct End {
    /// Each instance with its status, whether it was undone, its outcome and its data.
    instances: BTreeMap<String, String>,
    /// For each run of each instance, how many events of each kind it has.
    events: BTreeMap<String, BTreeMap<&'static str, usize>>,
    /// What is still stored to be done.
    left: Vec<String>,
}

async fn end(app: &TestApp) -> End {
    let (mut instances, mut events, mut left) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let client = app.client();
    let store = client.handle().store();
    let filter = InstanceFilter { limit: 10_000, ..InstanceFilter::default() };
    for row in client.list(filter).await.unwrap() {
        let outcome = row.outcome.as_ref().map(ToString::to_string);
        let told = format!("{:?} {:?} {outcome:?} run {}", row.status, row.compensation, row.run);
        instances.insert(row.id.clone(), told);
        for run in 1..=row.run {
            let key = RunKey { uid: row.uid, run };
            let kinds: &mut BTreeMap<_, _> = events.entry(format!("{} {run}", row.id)).or_default();
            for event in store.history(key).await.unwrap() {
                *kinds.entry(event.kind.name()).or_default() += 1;
            }
            left.extend(store.tasks(key).await.unwrap().iter().map(|task| format!("{task:?}")));
        }
        left.extend(store.messages(row.uid).await.unwrap().iter().map(|row| format!("{row:?}")));
    }
    End { instances, events, left }
}

async fn crash_everywhere<P: Future<Output = ()>>(name: &str, play: impl Fn(TestApp) -> P) {
    crash_everywhere_and(name, play, true).await;
}

async fn crash_everywhere_and<P: Future<Output = ()>>(
    name: &str,
    play: impl Fn(TestApp) -> P,
    same_events: bool,
) {
    let app = app().await;
    play(app.clone()).await;
    app.advance(3 * HOUR).await;
    let quiet = end(&app).await;
    assert_eq!(quiet.left, [""; 0], "{name}");
    let commits = app.commits();
    for crash in crashes(commits) {
        let app = self::app().await;
        app.faults().crash(crash);
        play(app.clone()).await;
        app.advance(3 * HOUR).await;
        let crashed = end(&app).await;
        assert_eq!(crashed.instances, quiet.instances, "{name} {crash:?}");
        assert_eq!(crashed.left, quiet.left, "{name} {crash:?}");
        if same_events {
            assert_eq!(crashed.events, quiet.events, "{name} {crash:?}");
        }
    }
}

/// Waits for the end, and says how it was.
async fn ends<T: serde::de::DeserializeOwned>(run: TestInstance<T>) -> Outcome {
    run.outcome().await
}

#[test]
async fn undoing_survives_a_crash_at_every_commit() {
    crash_everywhere("undone", async |app: TestApp| {
        drop(ends(app.start("run", undone()).await).await);
    })
    .await;
}

#[test]
async fn undoing_after_a_cancellation_survives_a_crash_at_every_commit() {
    crash_everywhere("undone by wish", async |app: TestApp| {
        let run = app.start("run", undone_by_wish()).await;
        app.advance(10 * SECOND).await;
        // The answer to an earlier wish may have been lost in a crash.
        let _closed_already = run.cancel("enough").await;
        drop(run.outcome().await);
    })
    .await;
}

#[test]
async fn a_call_that_settles_survives_a_crash_at_every_commit() {
    // An attempt that is lost while its call settles has nothing to undo: the histories differ.
    let play = async |app: TestApp| {
        drop(ends(app.start("run", settling()).await).await);
    };
    crash_everywhere_and("settling", play, false).await;
}

#[test]
async fn children_of_which_one_fails_survive_a_crash_at_every_commit() {
    crash_everywhere("team", async |app: TestApp| {
        drop(ends(app.start("run", team(10)).await).await);
    })
    .await;
}

#[test]
async fn cancelling_a_parent_survives_a_crash_at_every_commit() {
    // How far the children got when they were cancelled depends on when that was.
    let play = async |app: TestApp| {
        let run = app.start("run", team(4)).await;
        app.advance(SECOND / 2).await;
        let _closed_already = run.cancel("enough").await;
        drop(run.outcome().await);
    };
    crash_everywhere("cancelled team", play).await;
}

#[test]
async fn what_becomes_of_children_survives_a_crash_at_every_commit() {
    crash_everywhere("leave", async |app: TestApp| {
        drop(ends(app.start("run", leave()).await).await);
    })
    .await;
}

#[test]
async fn more_children_than_one_commit_takes_are_given_up_with_a_crash_at_every_commit() {
    crash_everywhere("crowd", async |app: TestApp| {
        drop(ends(app.start("run", crowd()).await).await);
        app.advance(HOUR).await;
        let rows = app.client().list(InstanceFilter::default()).await.unwrap();
        let cancelled = rows.iter().filter(|row| row.status == Status::Cancelled);
        assert_eq!(cancelled.count(), 40);
    })
    .await;
}

#[test]
async fn continuing_as_new_with_unread_signals_survives_a_crash_at_every_commit() {
    let heard = r#"["one","two","three","four"]"#;
    crash_everywhere("rounds", async |app: TestApp| {
        let run = app.start("run", rounds(1)).await;
        for word in ["one", "two", "three", "four"] {
            run.signal("word", &word).await.unwrap();
        }
        let Outcome::Completed(result) = run.outcome().await else { panic!("not completed") };
        assert_eq!(result.as_str(), heard);
        assert_eq!(
            app.client().value::<Vec<String>>("run", "heard").await.unwrap().unwrap().len(),
            4
        );
    })
    .await;
}

#[test]
async fn a_workflow_that_is_retried_after_a_delay_survives_a_crash_at_every_commit() {
    // It begins late, fails twice, takes too long once, and undoes each time what it did.
    let options = |start: Start<u32>| start.delay(HOUR / 4).retry(&STEADY).run_timeout(HOUR);
    crash_everywhere("stubborn", async |app: TestApp| {
        drop(ends(app.start_with("run", stubborn(), options).await).await);
    })
    .await;
}

#[test]
async fn a_total_timeout_survives_a_crash_at_every_commit() {
    let options = |start: Start<u32>| start.retry(&STEADY).total_timeout(HOUR / 2);
    crash_everywhere("total", async |app: TestApp| {
        drop(ends(app.start_with("run", stubborn(), options).await).await);
    })
    .await;
}
