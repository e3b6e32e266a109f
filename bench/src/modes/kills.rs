//! Many calls that are retried by one bulk action while the process that works on it is killed
//! again and again: each call is asked for once, and none is left out.
//!
//! Another process fills the store (`retries/fill.rs`), and others work, one after the other, until
//! they are killed; each of them asks for the same action again. This one looks how far it is, and
//! at the end what was done to each call.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam::{BulkCounts, CallFilter, InstanceFilter, RunKey, Status};
use resurgam_store::Store;
use resurgam_store::rows::InstanceCursor;
use tokio::process::{Child, Command};
use tokio::time;

use super::retries::{Lags, builder, fill_elsewhere};
use crate::Result;
use crate::bed::{Bed, Place};
use crate::report::Report;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many calls wait.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..))]
    calls: u64,
    /// How often the process is killed that works, evenly over the calls.
    #[arg(long, default_value_t = 3)]
    kills: u64,
    /// Over how many seconds the calls are retried.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    #[command(flatten)]
    bed: Bed,
}

/// A process that works until the action is over, for [`run`].
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// Over how many seconds the calls are retried.
    #[arg(long)]
    seconds: u64,
    /// The schema, on PostgreSQL.
    #[arg(long)]
    schema: String,
    #[command(flatten)]
    bed: Bed,
}

/// The id of the action.
const JOB: &str = "kills";

/// How often this process looks how far the action is.
const LOOK: Duration = Duration::from_millis(2);

/// How many instances are audited at a time.
const PAGE: usize = 1_000;

/// Asks for the action, unless somebody has, and works until it is over.
pub(crate) async fn work(arguments: Worker) -> Result<()> {
    let Worker { seconds, schema, bed } = arguments;
    let opened = bed.at(schema).open(builder(Lags::default())).await?;
    let again = CallFilter { activity: Some("again".to_string()), ..CallFilter::default() };
    let retry = opened.app.calls(again).retry().spread(Duration::from_secs(seconds));
    retry.request_id(JOB).start().await?;
    opened.app.bulk_over(JOB).await?;
    opened.close().await
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { calls, kills, seconds, bed } = arguments;
    let place = bed.place()?;
    fill_elsewhere(&place, calls + 2, 0, 1).await?;
    let kept = place.store().await?;
    let store = kept.shared();
    let began = Instant::now();
    let mut worker = begin(&place, seconds)?;
    let mut killed = 0;
    for kill in 1..=kills {
        let until = calls * kill / (kills + 1);
        if !is_asked_for(&store, until, &mut worker).await? {
            break;
        }
        // The signal that nobody hears coming.
        worker.kill().await?;
        killed += 1;
        worker = begin(&place, seconds)?;
    }
    if !worker.wait().await?.success() {
        return Err("work on the action: see above".into());
    }
    let took = began.elapsed();
    let counts = counts(&store).await?.ok_or("the action is not stored")?;
    let audit = Audit::of(&store).await?;
    kept.close().await;
    let report = Report::default()
        .count("calls", calls)
        .count("killed", killed)
        .number("took_s", took.as_secs_f64())
        .count("matched", counts.matched)
        .count("changed", counts.changed)
        .count("refused", counts.refused)
        .count("once", audit.once)
        .count("more_than_once", audit.more)
        .count("left_out", audit.left_out);
    bed.print(&place, "kills", &report).await?;
    place.remove().await?;
    let is_exact = audit.more == 0 && audit.left_out == 0 && counts.changed == audit.once;
    if is_exact { Ok(()) } else { Err("not every call was retried exactly once".into()) }
}

fn begin(place: &Place, seconds: u64) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["kills-worker", "--store", &place.location.to_string()]);
    command.args(["--schema", &place.schema, "--seconds", &seconds.to_string()]);
    Ok(command.stdout(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// Waits until the action has asked for so many. False when the process has ended before.
async fn is_asked_for(store: &Arc<dyn Store>, count: u64, worker: &mut Child) -> Result<bool> {
    loop {
        if counts(store).await?.is_some_and(|counts| counts.matched >= count) {
            return Ok(true);
        }
        if worker.try_wait()?.is_some() {
            return Ok(false);
        }
        time::sleep(LOOK).await;
    }
}

/// How far the action is.
async fn counts(store: &Arc<dyn Store>) -> Result<Option<BulkCounts>> {
    let job = store.bulk(JOB).await?;
    Ok(job.map(|job| serde_json::from_str(&job.row.counts)).transpose()?)
}

/// What was done to the calls.
#[derive(Default)]
struct Audit {
    once: u64,
    more: u64,
    /// Those that wait, and to which nothing was done.
    left_out: u64,
}

impl Audit {
    async fn of(store: &Arc<dyn Store>) -> Result<Self> {
        let (mut audit, mut after) = (Audit::default(), None);
        let prefix = format!("bulk/{JOB}/");
        loop {
            let filter = InstanceFilter { after, limit: PAGE, ..InstanceFilter::default() };
            let page = store.list(filter).await?;
            let Some(last) = page.last() else { return Ok(audit) };
            after = Some(InstanceCursor::of(last));
            for row in &page {
                let actions = store.actions(RunKey { uid: row.uid, run: row.run }).await?;
                let of_job = actions.iter().filter(|row| row.request.id.starts_with(&prefix));
                match of_job.map(|row| row.answer.changed).collect::<Vec<_>>()[..] {
                    // The one that shows that a node is at work was due by itself: it had ended, or
                    // was running.
                    [] if row.status != Status::Running => {}
                    [false] => {}
                    [] => audit.left_out += 1,
                    [true] => audit.once += 1,
                    [_, ..] => audit.more += 1,
                }
            }
        }
    }
}
