//! Many workflows at once, each with a chain of activities: how many steps a second.
//!
//! All instances are started at the same time by tasks of their own, as the handlers of a busy
//! server would. `p50_ms` and `p99_ms` are per workflow, from the call of `start` to the result.

use std::time::{Duration, Instant};

use resurgam::{App, AppBuilder, Client};
use tokio::task::JoinSet;

use crate::Result;
use crate::bed::Bed;
use crate::report::{Commits, Report, percentile};
use crate::usage;
use crate::work::{Before, carry, chain, heavy_chain, tick};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    size: Size,
    /// How many workflows of the same kind are run first, which do not count: fresh memory and the
    /// first use of everything cost more than the work itself.
    #[arg(long, default_value_t = 0)]
    warm: u64,
    #[command(flatten)]
    before: Before,
    #[command(flatten)]
    bed: Bed,
}

/// How much is done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Size {
    /// How many workflows.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    instances: u64,
    /// How many activities each of them calls, one after another.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    activities: u64,
    /// How many bytes every activity is given, and gives back, beside a number.
    #[arg(long, default_value_t = 0)]
    payload: usize,
}

/// What came of it.
pub(crate) struct Done {
    pub(crate) took: Duration,
    cpu: Duration,
    times: Vec<Duration>,
}

impl Size {
    /// How many activities each workflow calls.
    pub(crate) fn activities(self) -> u64 {
        self.activities
    }

    /// How many steps that is.
    pub(crate) fn steps(self) -> u64 {
        self.instances * self.activities
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { size, warm, before, bed } = arguments;
    let place = bed.place()?;
    let opened = place.open(before.tick(builder())).await?;
    all(&opened.app, "warm", Size { instances: warm, ..size }).await?;
    let warmed = opened.commits();
    let done = all(&opened.app, "chain", size).await?;
    let report = done.report(size, opened.commits() - warmed);
    opened.close().await?;
    bed.print(&place, "chain", &report).await?;
    place.remove().await
}

/// The app that runs them.
pub(crate) fn builder() -> AppBuilder {
    App::builder().workflow(chain).activity(tick).workflow(heavy_chain).activity(carry)
}

/// All of them, from the first start to the last result.
pub(crate) async fn all(client: &Client, name: &'static str, size: Size) -> Result<Done> {
    let (began, cpu) = (Instant::now(), usage::cpu());
    let mut running = JoinSet::new();
    for number in 0..size.instances {
        running.spawn(one(client.clone(), format!("{name}-{number}"), size));
    }
    let mut times = Vec::new();
    while let Some(time) = running.join_next().await {
        times.push(time??);
    }
    Ok(Done { took: began.elapsed(), cpu: usage::cpu().saturating_sub(cpu), times })
}

/// One workflow from its start to its result.
async fn one(client: Client, id: String, size: Size) -> Result<Duration> {
    let (began, Size { activities, payload, .. }) = (Instant::now(), size);
    let instance = match payload {
        0 => client.start(&*id, chain(activities)).await?,
        _ => client.start(&*id, heavy_chain(activities, "x".repeat(payload))).await?,
    };
    let last = instance.result().await?;
    match last == activities {
        true => Ok(began.elapsed()),
        false => Err(format!("{id} made {last} of {activities} calls").into()),
    }
}

impl Done {
    fn report(mut self, size: Size, commits: Commits) -> Report {
        Report::default()
            .rate("workflows_per_s", size.instances, self.took)
            .rate("steps_per_s", size.steps(), self.took)
            .millis("p50_ms", percentile(&mut self.times, 0.5))
            .millis("p99_ms", percentile(&mut self.times, 0.99))
            .cost(size.steps(), self.cpu, commits)
    }
}
