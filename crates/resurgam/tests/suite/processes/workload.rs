//! Work for processes that are about to die: a workflow with everything that has to survive, whose
//! activities fail by a seed and write in the journal.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use resurgam::AppBuilder;
use resurgam::prelude::*;
use resurgam::retry::{Idempotency, LostWorker};
use serde::{Deserialize, Serialize};

use super::Ground;
use super::journal::{Ending, Journal, What};

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Worker {
    pub(crate) file: PathBuf,
    pub(crate) journal: PathBuf,
    /// Which process this is, counted by the test.
    pub(crate) process: u32,
    /// What decides which attempts fail.
    pub(crate) seed: u64,
    /// How many instances are kept open; 0 to finish what is there, and end.
    pub(crate) open: usize,
    /// Which workflow they are of.
    pub(crate) errand: Errand,
    /// How many calls each of them makes side by side.
    pub(crate) width: u32,
    pub(crate) slots: usize,
    pub(crate) hot_runs: usize,
    pub(crate) grace_ms: u64,
}

impl Worker {
    /// A worker that keeps a few journeys going.
    pub(crate) fn new(ground: &Ground, seed: u64) -> Self {
        Worker {
            file: ground.file(),
            journal: ground.journal(),
            process: 0,
            seed,
            open: 8,
            errand: Errand::Journey,
            width: 4,
            slots: 1_000,
            hot_runs: 20_000,
            grace_ms: 2,
        }
    }
}

/// Which workflow is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Errand {
    Journey,
    Trip,
    Vigil,
}

/// What the attempts share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) seed: u64,
    /// Now and then an attempt takes up to this much longer.
    pub(crate) lingers: Duration,
}

impl World {
    /// Where attempts are short.
    pub(crate) fn new(journal: Journal, seed: u64) -> Self {
        World { journal, seed, lingers: Duration::ZERO }
    }
}

const fn lost(max: u32) -> LostWorker {
    let (initial, max_delay) = (Duration::from_millis(5), Duration::from_millis(20));
    LostWorker { max, initial, max_delay }
}

/// Lost attempts that are followed by another, however often the process dies.
const FLAKY: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(5))
    .max_attempts(5)
    .max_delay(Duration::from_millis(40))
    .lost_worker(lost(1_000));

/// One lost attempt may be tried again, the second in a row ends the call.
const FRAGILE: RetryPolicy =
    RetryPolicy::fixed(Duration::from_millis(10)).max_attempts(3).lost_worker(lost(1));

/// An attempt in doubt ends the call.
const ONCE: RetryPolicy = RetryPolicy::once().idempotency(Idempotency::AtMostOnce);

/// Waits that outlive a process or two.
const PATIENT: RetryPolicy = RetryPolicy::fixed(VIGIL).max_attempts(2).lost_worker(LostWorker {
    max: 10,
    initial: VIGIL,
    max_delay: VIGIL,
});

/// How long a vigil takes.
pub(crate) const VIGIL: Duration = Duration::from_secs(3);

/// How long an attempt asks to be left alone, when it does.
pub(crate) const SNOOZE: Duration = Duration::from_millis(7);

/// The policy of an activity.
pub(crate) fn policy(activity: &str) -> RetryPolicy {
    match activity {
        "flaky" | "plain" => FLAKY,
        "fragile" => FRAGILE,
        "once" => ONCE,
        "patient" => PATIENT,
        unknown => panic!("{unknown} is no activity"),
    }
}

#[activity(retry = FLAKY)]
async fn flaky(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    attempt(&ctx, number).await
}

#[activity(retry = FRAGILE)]
async fn fragile(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    attempt(&ctx, number).await
}

#[activity(retry = ONCE)]
async fn once(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    attempt(&ctx, number).await
}

#[activity(retry = FLAKY)]
fn plain(ctx: ActivityContext, number: u32) -> Result<u32, Failure> {
    let plan = Plan::of(&ctx, number);
    begin(&ctx);
    // The work itself: a plain function has no other way to take its time.
    std::thread::sleep(plan.work);
    end(&ctx, plan.ending, number)
}

/// The first attempt fails, or is lost with its process.
#[activity(retry = PATIENT)]
async fn patient(ctx: ActivityContext, fails: bool) -> Result<u32, Failure> {
    begin(&ctx);
    match ctx.attempt() {
        1 if fails => end(&ctx, Ending::Failed, 0),
        1 => std::future::pending().await,
        _ => end(&ctx, Ending::Succeeded, 0),
    }
}

async fn attempt(ctx: &ActivityContext, number: u32) -> Result<u32, Failure> {
    let plan = Plan::of(ctx, number);
    begin(ctx);
    ctx.sleep(plan.work).await;
    end(ctx, plan.ending, number)
}

/// Writes down that an attempt begins.
pub(crate) fn begin(ctx: &ActivityContext) {
    let (key, activity, attempt) =
        (ctx.idempotency_key(), ctx.activity().to_string(), ctx.attempt());
    ctx.state::<World>().journal.write(What::Begin { key, activity, attempt });
}

/// Writes down how an attempt ends, and ends it so.
pub(crate) fn end<T>(ctx: &ActivityContext, ending: Ending, value: T) -> Result<T, Failure> {
    let (key, attempt) = (ctx.idempotency_key(), ctx.attempt());
    ctx.state::<World>().journal.write(What::End { key, attempt, ending });
    match ending {
        Ending::Succeeded => Ok(value),
        Ending::Failed => Err(Failure::new(format!("attempt {attempt} fails"))),
        Ending::Snoozed => Err(Failure::snooze(SNOOZE)),
    }
}

/// What an attempt is going to do.
struct Plan {
    work: Duration,
    ending: Ending,
}

impl Plan {
    /// Depends on nothing but the seed and what identifies the attempt.
    fn of(ctx: &ActivityContext, number: u32) -> Self {
        let mut hasher = DefaultHasher::new();
        let World { seed, lingers, .. } = *ctx.state::<World>();
        (seed, ctx.instance(), ctx.activity(), number, ctx.attempt()).hash(&mut hasher);
        let mut random = fastrand::Rng::with_seed(hasher.finish());
        let mut work = Duration::from_micros(random.u64(0..8_000));
        let ending = match random.u32(0..100) {
            0..40 => Ending::Failed,
            // A snooze is an attempt too, which `once` may not have a second of.
            40..47 if ctx.activity() != "once" => Ending::Snoozed,
            _ => Ending::Succeeded,
        };
        if !lingers.is_zero() && random.u32(0..50) == 0 {
            work += lingers * random.u32(0..100) / 100;
        }
        Plan { work, ending }
    }
}

/// What an instance tells about itself: how its calls ended, in the order in which they were made,
/// and the value of the signal it waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) calls: Vec<String>,
    pub(crate) signal: String,
}

#[workflow]
pub(crate) async fn journey(ctx: WorkflowContext, width: u32) -> Result<Report, Failure> {
    let mut calls = vec![settled(ctx.call(flaky(0)).await)];
    let side_by_side = (1..=width).map(|number| {
        let call = ctx.call(flaky(number));
        async move { Ok::<_, Failure>(settled(call.await)) }
    });
    calls.extend(ctx.join_all(side_by_side).await?);
    ctx.sleep(Duration::from_millis(15)).await?;
    calls.push(settled(ctx.call(once(0)).await));
    let hasty = ctx.timeout(Duration::from_millis(12), ctx.call(flaky(width + 1))).await;
    calls.push(hasty.map_or_else(|_elapsed| "cancelled".to_string(), settled));
    let signal = ctx.signal("go").await?;
    calls.push(settled(ctx.call(fragile(0)).await));
    calls.push(settled(ctx.call(plain(0)).await));
    Ok(Report { calls, signal })
}

/// A short one, of which there can be many. Some wait for a signal.
#[workflow]
pub(crate) async fn trip(ctx: WorkflowContext, waits: bool) -> Result<Report, Failure> {
    let flaky = settled(ctx.call(flaky(0)).await);
    let signal = if waits { ctx.signal("go").await? } else { String::new() };
    let fragile = settled(ctx.call(fragile(0)).await);
    Ok(Report { calls: vec![flaky, fragile], signal })
}

/// Waits in every way there is: a backoff after a failure, one after a lost attempt, a timer.
#[workflow]
pub(crate) async fn vigil(ctx: WorkflowContext) -> Result<Report, Failure> {
    type Wait = Pin<Box<dyn Future<Output = Result<Option<String>, Failure>> + Send>>;
    let signal = ctx.signal("go").await?;
    let call = |fails| -> Wait {
        let call = ctx.call(patient(fails));
        Box::pin(async move { Ok(Some(settled(call.await))) })
    };
    let timer = ctx.sleep(VIGIL);
    let timer: Wait = Box::pin(async move { timer.await.map(|()| None) });
    let ended = ctx.join_all([call(true), call(false), timer]).await?;
    Ok(Report { calls: ended.into_iter().flatten().collect(), signal })
}

/// How a call ended, in words: what the workflow got must be what its history says.
pub(crate) fn settled(outcome: Result<u32, Failure>) -> String {
    match outcome {
        Ok(_) => "completed".to_string(),
        Err(failure) => {
            let why = failure.why.as_deref().unwrap_or("unknown");
            format!("failed as {} because of {why}", failure.kind.name())
        }
    }
}

/// An app with all of this, on no store yet.
pub(crate) fn builder(world: World) -> AppBuilder {
    App::builder()
        .workflow(journey)
        .workflow(trip)
        .workflow(vigil)
        .activity(flaky)
        .activity(fragile)
        .activity(once)
        .activity(plain)
        .activity(patient)
        .state(world)
}

/// How a process ends whose store took nothing for so long that its stop did not wait any more.
pub(crate) const GAVE_UP: i32 = 4;

/// Stops an app. On a machine whose disk takes nothing for seconds, that ends as a kill does.
pub(crate) async fn stop(app: App) {
    if let Err(error) = app.stop().await {
        let text = error.to_string();
        assert!(text.contains("the store does not take what was to be written last"), "{text}");
        std::process::exit(GAVE_UP);
    }
}

/// An app with all of this on a file.
pub(crate) async fn app(worker: &Worker, world: World) -> resurgam::Result<App> {
    builder(world)
        .slots(worker.slots)
        .grace(Duration::from_millis(worker.grace_ms))
        .options(|options| options.hot_runs = worker.hot_runs)
        .sqlite(&worker.file)
        .await
}
