//! One workflow at a time: what a caller waits for when nobody else is there.
//!
//! Nothing is shared here: a workflow of K activities pays for K + 1 commits, each alone. Beside it
//! stands what the disk under a SQLite file takes for one write that is to last.

use std::time::{Duration, Instant};

use resurgam::App;

use crate::Result;
use crate::bed::Bed;
use crate::report::{Report, percentile};
use crate::usage;
use crate::work::{Before, chain, tick};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many activities a workflow calls, one after another.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    activities: u64,
    /// How many workflows, one after another.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    #[command(flatten)]
    before: Before,
    #[command(flatten)]
    bed: Bed,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { activities, reps, before, bed } = arguments;
    let place = bed.place()?;
    let fsync = place.fsync()?;
    let builder = before.tick(App::builder().workflow(chain).activity(tick));
    let opened = place.open(builder).await?;

    let cpu = usage::cpu();
    let (mut starts, mut results) = (Vec::new(), Vec::new());
    for number in 0..reps {
        let began = Instant::now();
        let instance = opened.app.start(format!("latency-{number}"), chain(activities)).await?;
        starts.push(began.elapsed());
        instance.result().await?;
        results.push(began.elapsed());
    }
    let cpu = usage::cpu().saturating_sub(cpu);

    let steps = reps * activities;
    let total: Duration = results.iter().sum();
    let report = Report::default()
        .millis("start_p50_ms", percentile(&mut starts, 0.5))
        .millis("p50_ms", percentile(&mut results, 0.5))
        .millis("p99_ms", percentile(&mut results, 0.99))
        .maybe_millis("fsync_ms", fsync)
        .number("step_ms", total.as_secs_f64() * 1e3 / steps as f64)
        .cost(steps, cpu, opened.commits());
    opened.close().await?;
    bed.print(&place, "latency", &report).await?;
    place.remove().await
}
