//! One workflow that calls many activities at once: how fast all of them are done.
//!
//! The turn that schedules them is one, and is committed in several parts; every result is a turn
//! of its own.

use std::time::Instant;

use resurgam::prelude::*;

use crate::bed::Bed;
use crate::report::Report;
use crate::usage;
use crate::work::tick;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many activities.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    width: u64,
    #[command(flatten)]
    bed: Bed,
}

/// Calls activities all at once and counts those that answered.
#[workflow]
async fn fan(ctx: WorkflowContext, width: u64) -> Result<u64, Failure> {
    let calls = (1..=width).map(|number| ctx.call(tick(number)));
    let answers = ctx.join_all(calls).await?;
    Ok(answers.len() as u64)
}

pub(crate) async fn run(arguments: Arguments) -> crate::Result<()> {
    let Arguments { width, bed } = arguments;
    let place = bed.place()?;
    let builder = App::builder().workflow(fan).activity(tick).options(|options| {
        options.max_open_calls = options.max_open_calls.max(width as usize);
        options.max_history = u64::MAX;
    });
    let opened = place.open(builder).await?;

    let (began, cpu) = (Instant::now(), usage::cpu());
    let done = opened.app.start("fan", fan(width)).await?.result().await?;
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));
    if done != width {
        return Err(format!("{done} of {width} activities answered").into());
    }

    let report = Report::default().millis("took_ms", took).rate("steps_per_s", width, took).cost(
        width,
        cpu,
        opened.commits(),
    );
    opened.close().await?;
    bed.print(&place, "fanout", &report).await?;
    place.remove().await
}
