//! Many workflows at once, each with a chain of activities: how many steps a second.
//!
//! All instances are started at the same time by tasks of their own, as the handlers of a busy
//! server would. `p50_ms` and `p99_ms` are per workflow, from the call of `start` to the result.

use std::time::{Duration, Instant};

use resurgam::{App, Client};
use tokio::task::JoinSet;

use crate::Result;
use crate::bed::Bed;
use crate::report::{Report, percentile};
use crate::usage;
use crate::work::{chain, tick};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many workflows.
    #[arg(long, default_value_t = 2_000)]
    instances: u64,
    /// How many activities each of them calls, one after another.
    #[arg(long, default_value_t = 5)]
    activities: u64,
    #[command(flatten)]
    bed: Bed,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { instances, activities, bed } = arguments;
    let opened = bed.open(App::builder().workflow(chain).activity(tick))?;

    let (began, cpu) = (Instant::now(), usage::cpu());
    let mut running = JoinSet::new();
    for number in 0..instances {
        running.spawn(one(opened.app.clone(), number, activities));
    }
    let mut times = Vec::new();
    while let Some(time) = running.join_next().await {
        times.push(time??);
    }
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));

    let steps = instances * activities;
    let report = Report::default()
        .rate("workflows_per_s", instances, took)
        .rate("steps_per_s", steps, took)
        .millis("p50_ms", percentile(&mut times, 0.5))
        .millis("p99_ms", percentile(&mut times, 0.99))
        .cost(steps, cpu, opened.commits());
    opened.close().await?;
    bed.print(&report)
}

/// One workflow from its start to its result.
async fn one(client: Client, number: u64, activities: u64) -> Result<Duration> {
    let began = Instant::now();
    let instance = client.start(format!("chain-{number}"), chain(activities)).await?;
    let last = instance.result().await?;
    match last == activities {
        true => Ok(began.elapsed()),
        false => Err(format!("chain-{number} made {last} of {activities} calls").into()),
    }
}
