//! The load that every peer is put under, the same as that of Resurgam's own benchmark: workflows
//! that call activities which do nothing, one after another.
//!
//! A peer says how it runs one workflow ([`Peer`]); everything else is here, so that all are
//! measured in the same way. One JSON object comes out.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::json;

/// What keeps a measurement from being made.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// An engine.
pub trait Peer: Clone + Send + 'static {
    /// A workflow that was started.
    type Started: Send;

    /// Starts a workflow; it is durable when this returns.
    fn start(
        &self,
        id: String,
        activities: u64,
    ) -> impl Future<Output = Result<Self::Started, Error>> + Send;

    /// Waits for its result, which must be the number of its activities.
    fn result(&self, started: Self::Started) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Whether many may wait at once. An engine that looks again and again for each who waits is
    /// kept from its work by two thousand of them; then one waits for all, in their order.
    const MANY_MAY_WAIT: bool;
}

/// What is measured.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Mode {
    /// Many workflows at once, each with a chain of activities.
    Chain {
        /// How many workflows.
        #[arg(long, default_value_t = 2_000)]
        instances: u64,
        /// How many activities each of them calls.
        #[arg(long, default_value_t = 5)]
        activities: u64,
        /// How many are run first, which do not count.
        #[arg(long, default_value_t = 0)]
        warm: u64,
    },
    /// One workflow at a time.
    Latency {
        /// How many activities a workflow calls.
        #[arg(long, default_value_t = 5)]
        activities: u64,
        /// How many workflows, one after another.
        #[arg(long, default_value_t = 200)]
        reps: u64,
    },
    /// One long workflow.
    Growth {
        /// How many activities it calls.
        #[arg(long, default_value_t = 10_000)]
        activities: u64,
        /// How many of them are averaged at each end.
        #[arg(long, default_value_t = 1_000)]
        ends: usize,
    },
}

/// When activities were called.
static CALLS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

/// Every activity says so when it is called.
pub fn called() {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
}

/// Measures a peer and prints the figures.
pub async fn run<P: Peer>(peer: &P, mode: Mode) -> Result<(), Error> {
    let figures = match mode {
        Mode::Chain { instances, activities, warm } => {
            chain(peer, "warm", warm, activities).await?;
            chain(peer, "chain", instances, activities).await?
        }
        Mode::Latency { activities, reps } => latency(peer, activities, reps).await?,
        Mode::Growth { activities, ends } => growth(peer, activities, ends).await?,
    };
    println!("{figures}");
    Ok(())
}

async fn chain<P: Peer>(
    peer: &P,
    name: &'static str,
    instances: u64,
    activities: u64,
) -> Result<serde_json::Value, Error> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..instances)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move {
                let started = peer.start(format!("{name}-{number}"), activities).await?;
                match P::MANY_MAY_WAIT {
                    true => check(peer.result(started).await?, activities).map(|()| None),
                    false => Ok(Some(started)),
                }
            })
        })
        .collect();
    for task in tasks {
        if let Some(started) = task.await?? {
            check(peer.result(started).await?, activities)?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({
        "workflows_per_s": instances as f64 / seconds,
        "steps_per_s": (instances * activities) as f64 / seconds,
    }))
}

async fn latency<P: Peer>(
    peer: &P,
    activities: u64,
    reps: u64,
) -> Result<serde_json::Value, Error> {
    let mut times = Vec::new();
    for number in 0..reps {
        let began = Instant::now();
        let started = peer.start(format!("latency-{number}"), activities).await?;
        check(peer.result(started).await?, activities)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (times.len() as f64 * share).ceil() as usize;
        times[rank.saturating_sub(1)].as_secs_f64() * 1e3
    };
    Ok(json!({ "p50_ms": at(0.5), "p99_ms": at(0.99) }))
}

async fn growth<P: Peer>(
    peer: &P,
    activities: u64,
    ends: usize,
) -> Result<serde_json::Value, Error> {
    let started = peer.start("growth".to_string(), activities).await?;
    check(peer.result(started).await?, activities)?;
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let ends = ends.min(calls.len() / 2);
    let (first, last) = (mean_step(&calls[..ends]), mean_step(&calls[calls.len() - ends..]));
    Ok(json!({
        "first_step_ms": first.as_secs_f64() * 1e3,
        "last_step_ms": last.as_secs_f64() * 1e3,
        "growth": last.as_secs_f64() / first.as_secs_f64(),
    }))
}

/// The mean time from one call to the next.
fn mean_step(calls: &[Instant]) -> Duration {
    match calls {
        [first, .., last] => (*last - *first) / (calls.len() as u32 - 1),
        _ => Duration::ZERO,
    }
}

fn check(result: u64, activities: u64) -> Result<(), Error> {
    match result == activities {
        true => Ok(()),
        false => Err(format!("a workflow made {result} of {activities} calls").into()),
    }
}
