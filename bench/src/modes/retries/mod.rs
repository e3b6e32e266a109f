//! Many calls that wait for their next attempt: what they cost, and how late the due ones are.
//!
//! Another process fills the store (`fill`), so that the memory of this one is what a node needs.
//! Then the app begins, while one call is overdue: when its attempt runs, the node is at work. From
//! then on `--rate` calls a second become due, and each attempt notes how late it is.

pub(crate) mod fill;

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use resurgam::prelude::*;
use tokio::sync::Notify;
use tokio::time;

use crate::bed::{Bed, Place};
use crate::report::{Report, percentile};
use crate::usage;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many calls wait.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(3..))]
    pending: u64,
    /// How many become due in a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rate: u64,
    /// For how many seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    bed: Bed,
}

/// How long before the next attempt; nobody waits for one that was made by the engine itself.
const BACKOFF: RetryPolicy = RetryPolicy::fixed(Duration::from_secs(86_400));

/// How late attempts were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lags(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    lags: Mutex<Vec<Duration>>,
    more: Notify,
}

impl Lags {
    fn note(&self, due: i64) {
        let lag = Duration::from_micros(u64::try_from(micros() - due * 1_000).unwrap_or(0));
        self.lags().push(lag);
        self.0.more.notify_one();
    }

    pub(crate) async fn until(&self, count: usize) {
        while self.lags().len() < count {
            self.0.more.notified().await;
        }
    }

    /// How many attempts were made.
    pub(crate) fn count(&self) -> usize {
        self.lags().len()
    }

    fn lags(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.0.lags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time as a number.
fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Fails at first. The second attempt notes how late it is.
#[activity(retry = BACKOFF)]
async fn again(ctx: ActivityContext, due: i64) -> Result<(), Failure> {
    match ctx.attempt() {
        1 => Err(Failure::new("not yet")),
        _ => {
            ctx.state::<Lags>().note(due);
            Ok(())
        }
    }
}

#[workflow]
async fn patient(ctx: WorkflowContext, due: i64) -> Result<(), Failure> {
    ctx.call(again(due)).await
}

pub(crate) fn builder(lags: Lags) -> resurgam::AppBuilder {
    App::builder().workflow(patient).activity(again).state(lags)
}

pub(crate) async fn run(arguments: Arguments) -> crate::Result<()> {
    let place = arguments.bed.place()?;
    let filled = Instant::now();
    let Arguments { pending, rate, .. } = arguments;
    fill_elsewhere(&place, pending, arguments.due(), rate).await?;
    let filled = filled.elapsed();

    let (due, lags) = (usize::try_from(arguments.due())?, Lags::default());
    let (began, cpu) = (Instant::now(), usage::cpu());
    let opened = place.open(builder(lags.clone())).await?;
    lags.until(1).await;
    let start_up = began.elapsed();
    let anonymous = peak_while(lags.until(1 + due)).await;
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));

    let mut late = lags.lags().split_off(1);
    let report = Report::default()
        .count("pending", arguments.pending)
        .millis("start_up_ms", start_up)
        .number("anonymous_mb", anonymous)
        .millis("lag_p50_ms", percentile(&mut late, 0.5))
        .millis("lag_p99_ms", percentile(&mut late, 0.99))
        .number("cpu_percent", cpu.as_secs_f64() / took.as_secs_f64() * 100.0)
        .number("store_mb", place.megabytes().await?)
        .number("fill_s", filled.as_secs_f64());
    opened.close().await?;
    arguments.bed.print(&place, "retries", &report).await?;
    place.remove().await
}

impl Arguments {
    /// How many become due while it is measured.
    fn due(&self) -> u64 {
        (self.rate * self.seconds).min(self.pending - 2)
    }
}

/// Runs this program again to fill the store.
pub(crate) async fn fill_elsewhere(
    place: &Place,
    pending: u64,
    due: u64,
    rate: u64,
) -> crate::Result<()> {
    let numbers = [("pending", pending), ("due", due), ("rate", rate)];
    let numbers = numbers.map(|(name, number)| [format!("--{name}"), number.to_string()]);
    fill(place, numbers.concat()).await
}

/// Runs this program again to fill the store with calls that wait behind a gate that is shut.
pub(crate) async fn fill_gated(place: &Place, waiting: u64) -> crate::Result<()> {
    let waiting = (waiting + 1).to_string();
    let arguments = ["--pending", &waiting, "--due", "0", "--rate", "1", "--gate", "down"];
    fill(place, arguments.map(str::to_string).into()).await
}

async fn fill(place: &Place, arguments: Vec<String>) -> crate::Result<()> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["fill", "--store", &place.location.to_string(), "--schema", &place.schema]);
    command.args(arguments).stdout(Stdio::null());
    let status = tokio::task::spawn_blocking(move || command.status()).await??;
    match status.success() {
        true => Ok(()),
        false => Err("fill the store: see above".into()),
    }
}

/// The most anonymous memory that there was until something happened.
pub(crate) async fn peak_while(something: impl Future<Output = ()>) -> f64 {
    let mut peak = usage::anonymous_mb();
    let mut looks = time::interval(Duration::from_millis(50));
    tokio::pin!(something);
    loop {
        tokio::select! {
            () = &mut something => return peak.max(usage::anonymous_mb()),
            _ = looks.tick() => peak = peak.max(usage::anonymous_mb()),
        }
    }
}
