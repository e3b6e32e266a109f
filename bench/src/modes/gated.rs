//! Other work beside many calls that wait behind a gate that is shut.
//!
//! Another process fills the store (`retries/fill.rs`) with calls that are all overdue, behind one
//! gate that somebody has shut. Then the app begins, and runs what `chain` and `latency` run. With
//! `--waiting 0` nothing waits: what is to be compared.

use std::time::{Duration, Instant};

use resurgam::App;

use super::chain::{self, Size};
use super::idle::statements;
use super::retries::{fill_gated, peak_while};
use crate::Result;
use crate::bed::{Bed, Location, Place};
use crate::report::{Report, percentile};
use crate::usage;
use crate::watched::Watched;
use crate::work::chain as workflow;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many calls wait behind the gate.
    #[arg(long, default_value_t = 1_000_000)]
    waiting: u64,
    #[command(flatten)]
    size: Size,
    /// How many workflows are run one after another.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    #[command(flatten)]
    bed: Bed,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { waiting, size, reps, bed } = &arguments;
    let place = bed.place()?;
    if *waiting > 0 {
        fill_gated(&place, *waiting).await?;
    }
    let (began, store) = (Instant::now(), place.store().await?);
    let watched = Watched::new(store.shared());
    let app = place.app(chain::builder(), watched.clone()).await?;
    app.start("first", workflow(1)).await?.result().await?;
    let start_up = began.elapsed();

    let (before, stated) = (watched.calls(), settled(&place, &watched).await?);
    let mut done = Ok((Duration::ZERO, Duration::ZERO));
    let anonymous = peak_while(async { done = chained(&app, *size).await }).await;
    let (took, cpu) = done?;
    let calls = watched.calls() - before;
    let between = settled(&place, &watched).await?;
    let mut times = Vec::new();
    let before = watched.calls();
    for number in 0..*reps {
        let began = Instant::now();
        app.start(format!("latency-{number}"), workflow(size.activities())).await?.result().await?;
        times.push(began.elapsed());
    }
    let latency_calls = watched.calls() - before;
    let last = settled(&place, &watched).await?;
    let report = Report::default()
        .count("waiting", *waiting)
        .millis("start_up_ms", start_up)
        .number("anonymous_mb", anonymous)
        .rate("steps_per_s", size.steps(), took)
        .number("cpu_us_per_step", cpu.as_secs_f64() * 1e6 / size.steps() as f64)
        .number("asked_per_step", calls as f64 / size.steps() as f64)
        .number("statements_per_step", (between - stated) as f64 / size.steps() as f64)
        .millis("latency_p50_ms", percentile(&mut times, 0.5))
        .number("asked_per_workflow", latency_calls as f64 / *reps as f64)
        .number("statements_per_workflow", (last - between) as f64 / *reps as f64)
        .number("store_mb", place.megabytes().await?);
    app.stop().await?;
    store.close().await;
    bed.print(&place, "gated", &report).await?;
    place.remove().await
}

/// How many statements there were so far. A server of PostgreSQL tells what a session did up to a
/// second later.
async fn settled(place: &Place, watched: &Watched) -> Result<u64> {
    if matches!(place.location, Location::Postgres(_)) {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    statements(place, watched).await
}

/// Many workflows at once: how long they took, and how much of the processor.
async fn chained(app: &App, size: Size) -> Result<(Duration, Duration)> {
    let (began, cpu) = (Instant::now(), usage::cpu());
    chain::all(app, "chain", size).await?;
    Ok((began.elapsed(), usage::cpu().saturating_sub(cpu)))
}
