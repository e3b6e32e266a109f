//! A run that is not in memory: how long it takes to rebuild it.
//!
//! Two instances make the same history and then wait for a signal. One gets it while its run is in
//! memory, the other one in a process that has just begun: what that takes longer is reading the
//! history and going through it.

use std::time::{Duration, Instant};

use resurgam::prelude::*;

use crate::bed::{Bed, Opened};
use crate::report::Report;
use crate::usage;
use crate::work::tick;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many events the history has, about.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(4..))]
    events: u64,
    #[command(flatten)]
    bed: Bed,
}

/// Makes a history, and then waits for somebody to end it.
#[workflow]
async fn long_story(ctx: WorkflowContext, activities: u64) -> Result<u64, Failure> {
    for number in 1..=activities {
        ctx.call(tick(number)).await?;
    }
    ctx.set_status("waits");
    ctx.signal("end").await
}

fn builder() -> resurgam::AppBuilder {
    let builder = App::builder().workflow(long_story).activity(tick);
    builder.options(|options| options.max_history = u64::MAX)
}

pub(crate) async fn run(arguments: Arguments) -> crate::Result<()> {
    let Arguments { events, bed } = arguments;
    let place = bed.place()?;
    let opened = place.open(builder()).await?;
    // Two events for each activity.
    for id in ["hot", "cold"] {
        opened.app.start(id, long_story(events / 2)).await?;
        opened.app.wait_for_status(id, |status: &String| status == "waits").await?;
    }
    let hot = ended(&opened, "hot").await?;
    opened.close().await?;

    let opened = place.open(builder()).await?;
    let cpu = usage::cpu();
    let cold = ended(&opened, "cold").await?;
    let cpu = usage::cpu().saturating_sub(cpu);
    opened.close().await?;

    let replay = cold.saturating_sub(hot);
    let report = Report::default()
        .millis("hot_ms", hot)
        .millis("cold_ms", cold)
        .millis("replay_ms", replay)
        // By all of it: of a short history the two may take the same time.
        .rate("events_per_s", events, cold)
        .millis("cpu_ms", cpu)
        .number("rss_mb", usage::peak_rss_mb());
    bed.print(&place, "replay", &report).await?;
    place.remove().await
}

/// From the signal to the result.
async fn ended(opened: &Opened, id: &str) -> crate::Result<Duration> {
    let began = Instant::now();
    opened.app.signal(id, "end", &7).await?;
    let instance = opened.app.instance::<u64>(id).await?.ok_or("the instance is gone")?;
    match instance.result().await? {
        7 => Ok(began.elapsed()),
        other => Err(format!("{id} ended with {other}").into()),
    }
}
