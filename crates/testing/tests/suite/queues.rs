//! Nodes that serve chosen queues: what the holder of a shard does not serve is run by others. Each
//! test has a quarter of an hour: the server may have to be installed first.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Exhausted;
use resurgam::{
    Act, AppBuilder, AttemptOutcome, CallHandle, Kind, Payload, PostgresOptions, Status,
};
use resurgam_postgres_server::{Database, Server};
use resurgam_sdk::{ActivityDefinition, ActivitySource};
use resurgam_watchdog::test;

use crate::common::until;

const STEADY: RetryPolicy = RetryPolicy::fixed(Duration::from_millis(50)).max_attempts(5);

/// What happened where, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Which node an attempt runs on.
struct Place(&'static str, Log);

#[activity(retry = STEADY)]
async fn render(ctx: ActivityContext, fails: u32) -> Result<String, Failure> {
    let Place(name, log) = &*ctx.state::<Place>();
    log.add(format!("{name} {}", ctx.attempt()));
    match ctx.attempt() <= fails {
        true => Err(Failure::new("not yet")),
        false => Ok((*name).to_string()),
    }
}

#[workflow]
async fn film(ctx: WorkflowContext, fails: u32) -> Result<(String, String), Failure> {
    let here = ctx.call(render(0)).await?;
    Ok((here, ctx.call(render(fails)).queue("gpu").await?))
}

#[activity]
async fn reserve(ctx: ActivityContext) -> Result<u32, Failure> {
    let log = &ctx.state::<Place>().1;
    log.add("reserve begins");
    ctx.cancelled().await;
    log.add("reserve is told");
    Ok(7)
}

/// Returns when it is told that its time is up: long after it has begun, on any machine.
#[activity(total_timeout = Duration::from_secs(10))]
async fn reserve_late(ctx: ActivityContext) -> Result<u32, Failure> {
    let log = &ctx.state::<Place>().1;
    log.add("reserve begins");
    ctx.cancelled().await;
    log.add("time is up");
    Ok(8)
}

#[workflow]
async fn hold_late(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(reserve_late()).queue("gpu").compensate_with(|hold| release(*hold)).await
}

#[activity]
async fn release(ctx: ActivityContext, hold: u32) -> Result<(), Failure> {
    ctx.state::<Place>().1.add(format!("release {hold}"));
    Ok(())
}

#[workflow]
async fn hold(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.call(reserve()).queue("gpu").compensate_with(|hold| release(*hold)).await
}

async fn node(database: &Database<'_>, name: &'static str, queues: &[&str], log: &Log) -> App {
    node_with(App::builder(), database, name, queues, log).await
}

async fn node_with(
    builder: AppBuilder,
    database: &Database<'_>,
    name: &'static str,
    queues: &[&str],
    log: &Log,
) -> App {
    // Short, and long enough that a node on a busy machine does not miss it.
    let options = PostgresOptions::default().lease(Duration::from_secs(5));
    builder
        .workflow(film)
        .workflow(hold)
        .workflow(hold_late)
        .workflow(develop)
        .activity(render)
        .activity(reserve)
        .activity(reserve_late)
        .activity(release)
        .state(Place(name, log.clone()))
        .queues(queues.iter().copied())
        .postgres_options(options)
        .postgres(&database.url())
        .await
        .unwrap()
}

#[test(minutes = 15, threads = 2)]
async fn tasks_of_a_queue_that_the_holder_does_not_serve_run_where_it_is_served() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    for number in 0..20 {
        let film = office.start(format!("film-{number}"), film(number % 3)).await.unwrap();
        let (here, there) = film.result().await.unwrap();
        assert_eq!((here.as_str(), there.as_str()), ("office", "farm"));
    }
    // Every attempt that did not succeed is in the ledger of who decides, wherever it ran.
    let ledger = office.attempts("film-2").await.unwrap();
    let outcomes: Vec<_> = ledger.iter().map(|row| (row.attempt, row.outcome)).collect();
    assert_eq!(outcomes, [(1, AttemptOutcome::Failed), (2, AttemptOutcome::Failed)]);
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn a_task_waits_until_a_node_comes_that_serves_its_queue() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let run = office.start("film-1", film(0)).await.unwrap();
    until("the call to wait", async || {
        let description = office.describe("film-1").await.unwrap().unwrap();
        description.pending.iter().any(|call| call.queue == "gpu")
    })
    .await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    assert_eq!(run.result().await.unwrap().1, "farm");
    assert_eq!(log.lines(), ["office 1", "farm 1"]);
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn a_call_that_is_given_up_while_it_runs_elsewhere_is_undone_when_it_completes() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    let run = office.start("hold-1", hold()).await.unwrap();
    until("the attempt to begin", async || !log.lines().is_empty()).await;
    office.cancel("hold-1", "changed our minds").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().failure().unwrap().kind, Kind::Cancelled);
    assert_eq!(log.lines(), ["reserve begins", "reserve is told", "release 7"]);
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn what_an_attempt_elsewhere_returns_after_its_time_was_up_is_undone() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    let run = office.start("hold-1", hold_late()).await.unwrap();
    assert_eq!(run.result().await.unwrap_err().failure().unwrap().kind, Kind::TotalTimeout);
    assert_eq!(log.lines(), ["reserve begins", "time is up", "release 8"]);
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

/// Develops films with a chemical that not every node has.
#[derive(Debug)]
struct Lab(bool);

impl ActivitySource for Lab {
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let (is_it, has_it) = (name == "develop_film", self.0);
        let develop = ActivityDefinition::new(name, |ctx, _| {
            let Place(name, log) = &*ctx.state::<Place>();
            log.add(format!("{name} {}", ctx.attempt()));
            Box::pin(async { Ok(Payload::null()) })
        });
        let develop = develop.lacking(move |_| (!has_it).then(|| "fixer".to_string()));
        is_it.then(|| Arc::new(develop))
    }

    fn names(&self) -> Vec<String> {
        vec!["develop_film".to_string()]
    }
}

#[activity(name = "develop_film")]
async fn develop_film() -> Result<(), Failure> {
    Ok(())
}

#[workflow]
async fn develop(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(develop_film()).queue("gpu").await
}

#[test(minutes = 15, threads = 2)]
async fn a_node_that_lacks_what_a_call_of_its_queue_takes_leaves_the_call_to_one_that_has_it() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let lab = |has_it| App::builder().activities_in(Arc::new(Lab(has_it)));
    let farm = node_with(lab(false), &database, "farm", &["gpu"], &log).await;
    let run = office.start("develop-1", develop()).await.unwrap();
    until("what is missing to be written down", async || {
        let described = office.describe("develop-1").await.unwrap().unwrap();
        described.pending.iter().any(|call| call.lacks.as_deref() == Some("fixer"))
    })
    .await;
    let has_it = lab(true).options(|options| options.provides = Arc::new(["fixer".to_string()]));
    let barn = node_with(has_it, &database, "barn", &["gpu"], &log).await;
    run.result().await.unwrap();
    // No attempt began where it could not be made.
    assert_eq!(log.lines(), ["barn 1"]);
    for app in [barn, farm, office] {
        app.stop().await.unwrap();
    }
}

#[test(minutes = 15, threads = 2)]
async fn a_call_that_nobody_has_taken_is_given_up_at_once() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let run = office.start("hold-1", hold()).await.unwrap();
    office.cancel("hold-1", "changed our minds").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().failure().unwrap().kind, Kind::Cancelled);
    assert_eq!(log.lines(), [""; 0]);
    office.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn an_attempt_of_a_node_that_dies_runs_again_on_another_one() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    office.start("hold-1", hold()).await.unwrap();
    until("the attempt to begin", async || !log.lines().is_empty()).await;
    drop(farm);
    let barn = node(&database, "barn", &["gpu"], &log).await;
    until("the next attempt", async || log.lines().len() == 2).await;
    let ledger = office.attempts("hold-1").await.unwrap();
    assert_eq!(ledger[0].outcome, AttemptOutcome::Lost);
    barn.stop().await.unwrap();
    office.stop().await.unwrap();
}

const FARM: Exhausted = Exhausted::FallbackActivity(std::borrow::Cow::Borrowed("render"));

/// Cannot draw, and leaves that to the farm.
#[activity(retry = STEADY.max_attempts(2).on_exhausted(FARM))]
async fn sketch(ctx: ActivityContext, fails: u32) -> Result<String, Failure> {
    ctx.state::<Place>().1.add(format!("sketch {}", ctx.attempt()));
    Err(Failure::new(format!("no pencil, {fails}")))
}

#[workflow]
async fn drawing(ctx: WorkflowContext, fails: u32) -> Result<String, Failure> {
    ctx.call(sketch(fails)).queue("gpu").await
}

#[test(minutes = 15, threads = 2)]
async fn a_call_that_runs_elsewhere_falls_back_there_and_follows_what_operators_set() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let with = || App::builder().workflow(drawing).activity(sketch);
    let office = node_with(with(), &database, "office", &["default"], &log).await;
    let farm = node_with(with(), &database, "farm", &["gpu"], &log).await;
    let drawn = office.start("drawing-1", drawing(3)).await.unwrap();
    assert_eq!(drawn.result().await.unwrap(), "farm");
    assert_eq!(log.lines(), ["sketch 1", "sketch 2", "farm 3", "farm 4"]);
    let history = office.history("drawing-1").await.unwrap().unwrap();
    assert!(history.contains("(attempt 4) fallback \"farm\""), "{history}");

    // An hour long wait on a queue that the holder does not serve is decided about again.
    let hourly = RetryPolicy::fixed(Duration::from_secs(3_600)).max_attempts(2).on_exhausted(FARM);
    farm.set_policy("sketch", hourly).by("ana").await.unwrap();
    let status = vec![resurgam::Status::Running];
    let open = || resurgam::InstanceFilter { status: status.clone(), ..Default::default() };
    until("the holder to follow it", async || {
        // Those that were decided about before it knew fall back at once.
        let id = format!("later-{}", log.lines().len());
        let _known = office.start(id, drawing(0)).await;
        for row in office.list(open()).await.unwrap() {
            let Some(described) = office.describe(&row.id).await.unwrap() else { continue };
            let (now, due) = (office.handle().now(), described.pending.first());
            let due = due.filter(|call| call.attempt == 1).and_then(|call| call.next_due);
            if due.is_some_and(|due| due.since(now).as_secs() > 60) {
                return true;
            }
        }
        false
    })
    .await;
    farm.unset_policy("sketch").by("ana").await.unwrap();
    let nobody = async || office.list(open()).await.unwrap().is_empty();
    until("nobody to wait for an hour", nobody).await;
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

#[test(minutes = 15, threads = 2)]
async fn a_call_that_runs_elsewhere_is_completed_by_hand_and_its_attempt_is_told() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    let run = office.start("hold-1", hold()).await.unwrap();
    until("the attempt to begin", async || !log.lines().is_empty()).await;
    let call = office.call("hold-1", "reserve");
    assert!(call.complete(&9).by("ana").await.unwrap().changed());
    assert_eq!(run.result().await.unwrap(), 9);
    until("the attempt to hear of it", async || log.lines().len() == 2).await;
    assert_eq!(log.lines(), ["reserve begins", "reserve is told"]);
    farm.stop().await.unwrap();
    office.stop().await.unwrap();
}

/// What an operator does, and whether it changes anything about an attempt that runs.
type Verb = (&'static str, fn(&CallHandle) -> Act, bool);

const VERBS: [Verb; 6] = [
    ("retry", |call| call.retry(), false),
    ("pause", |call| call.pause(), true),
    ("resume", |call| call.resume(), false),
    ("complete", |call| call.complete(&9), true),
    ("fail", |call| call.fail("enough"), true),
    ("set-policy", |call| call.set_policy(RetryPolicy::once()), true),
];

#[test(minutes = 15, threads = 2)]
async fn what_is_asked_of_calls_that_run_elsewhere_is_done_once_when_their_holder_dies() {
    let (database, log) = (Server::shared().database().await, Log::default());
    let office = node(&database, "office", &["default"], &log).await;
    let farm = node(&database, "farm", &["gpu"], &log).await;
    // Several of each, so that both nodes hold the shards of some.
    let ids = |name: &str| (0..3).map(|n| format!("{name}-{n}")).collect::<Vec<String>>();
    for id in VERBS.iter().flat_map(|(name, ..)| ids(name)) {
        office.start(id, hold()).await.unwrap();
    }
    until("the attempts to begin", async || log.lines().len() == 3 * VERBS.len()).await;
    // What was asked of the one that dies is done by the one that comes.
    drop(office);
    let mut asked = Vec::new();
    for (name, verb, changes) in VERBS {
        for id in ids(name) {
            let act = verb(&farm.call(id.as_str(), "reserve")).by("ana");
            asked.push((id, changes, tokio::spawn(act.into_future())));
        }
    }
    let barn = node(&database, "barn", &["default"], &log).await;
    for (id, changes, answer) in asked {
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.changed(), changes, "{id}: {answer}");
        let history = farm.history(&id).await.unwrap().unwrap();
        assert_eq!(history.matches("operator ana").count(), 1, "{history}");
        let expected = match id.split_once('-').unwrap().0 {
            "complete" => Status::Completed,
            "fail" => Status::Failed,
            _ => {
                barn.cancel(&id, "enough").await.unwrap();
                Status::Cancelled
            }
        };
        let run = barn.instance::<u32>(&id).await.unwrap().unwrap();
        let _however = run.result().await;
        assert_eq!(barn.find(&id).await.unwrap().unwrap().status, expected, "{id}");
    }
    farm.stop().await.unwrap();
    barn.stop().await.unwrap();
}
