//! One long workflow: whether its last steps take longer than its first.
//!
//! The activity notes when it is called. A step is from one call to the next, so it holds the
//! activity, the turn it causes and the commit of both. With `--sync normal` the disk does not hide
//! what the engine adds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use resurgam::prelude::*;

use crate::bed::Bed;
use crate::report::Report;
use crate::usage;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many activities the workflow calls, one after another.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(4..))]
    activities: u64,
    /// How many of them are averaged at each end.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(2..))]
    ends: u64,
    #[command(flatten)]
    bed: Bed,
}

/// When the activity was called.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<Mutex<Vec<Instant>>>);

impl Calls {
    fn note(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }

    fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[activity]
async fn note(ctx: ActivityContext) -> Result<(), Failure> {
    ctx.state::<Calls>().note();
    Ok(())
}

#[workflow]
async fn long(ctx: WorkflowContext, activities: u64) -> Result<(), Failure> {
    for _ in 0..activities {
        ctx.call(note()).await?;
    }
    Ok(())
}

pub(crate) async fn run(arguments: Arguments) -> crate::Result<()> {
    let Arguments { activities, ends, bed } = arguments;
    let calls = Calls::default();
    let place = bed.place()?;
    let builder = App::builder().workflow(long).activity(note).state(calls.clone());
    let opened = place.open(builder.options(|options| options.max_history = u64::MAX)).await?;

    let (began, cpu) = (Instant::now(), usage::cpu());
    opened.app.start("growth", long(activities)).await?.result().await?;
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));

    let calls = calls.take();
    let ends = usize::try_from(ends)?.min(calls.len() / 2);
    let (first, last) = (mean_step(&calls[..ends]), mean_step(&calls[calls.len() - ends..]));
    let report = Report::default()
        .millis("first_step_ms", first)
        .millis("last_step_ms", last)
        .number("growth", last.as_secs_f64() / first.as_secs_f64())
        .rate("steps_per_s", activities, took)
        .cost(activities, cpu, opened.commits());
    opened.close().await?;
    bed.print(&place, "growth", &report).await?;
    place.remove().await
}

/// The mean time from one call to the next.
fn mean_step(calls: &[Instant]) -> Duration {
    match calls {
        [first, .., last] => (*last - *first) / (calls.len() as u32 - 1),
        _ => Duration::ZERO,
    }
}
