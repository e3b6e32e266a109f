//! Other work beside many calls that are retried at once: what a caller waits for meanwhile.
//!
//! Three runs are to be compared: beside nothing, beside calls that become due by themselves, and
//! beside as many that an operator retries with one bulk action over the same time. Another process
//! fills the store (`retries/fill.rs`), so that the memory of this one is what a node needs.

use std::time::{Duration, Instant};

use resurgam::CallFilter;
use tokio::time;

use super::retries::{Lags, builder, fill_elsewhere, peak_while};
use crate::Result;
use crate::bed::Bed;
use crate::report::{Report, percentile};
use crate::usage;
use crate::work::{chain, tick};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many calls wait.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..))]
    calls: u64,
    /// Over how many seconds they become due, or are retried.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// What happens beside the work that is measured.
    #[arg(long, value_enum, default_value_t = Beside::Retry)]
    beside: Beside,
    /// How many activities a workflow calls, one after another.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    activities: u64,
    /// How many calls the action asks for in one commit, at most; as the engine has it unless set.
    #[arg(long)]
    page: Option<usize>,
    #[command(flatten)]
    bed: Bed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    /// Nothing: the calls wait.
    Nothing,
    /// The calls become due by themselves, evenly.
    Due,
    /// One bulk action retries all of them, evenly.
    Retry,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { calls, seconds, beside, activities, page, bed } = arguments;
    let place = bed.place()?;
    let due = if beside == Beside::Due { calls } else { 0 };
    fill_elsewhere(&place, calls + 2, due, (calls / seconds).max(1)).await?;

    let lags = Lags::default();
    let app = builder(lags.clone()).workflow(chain).activity(tick);
    let app = page.into_iter().fold(app, |app, page| app.options(|it| it.bulk_page = page));
    let opened = place.open(app).await?;
    lags.until(1).await;
    if beside == Beside::Due {
        // The first of them.
        lags.until(2).await;
    }
    let (began, cpu, commits) = (Instant::now(), usage::cpu(), opened.commits());
    if beside == Beside::Retry {
        let again = CallFilter { activity: Some("again".to_string()), ..CallFilter::default() };
        let retry = opened.app.calls(again).retry();
        retry.spread(Duration::from_secs(seconds)).start().await?;
    }
    let asked = began.elapsed();
    let mut results = Vec::new();
    let measured = async {
        while began.elapsed() < Duration::from_secs(seconds) {
            let id = format!("beside-{}", results.len());
            let start = Instant::now();
            opened.app.start(id, chain(activities)).await?.result().await?;
            results.push(start.elapsed());
            // A caller comes now and then, whatever else is going on.
            time::sleep(Duration::from_millis(20)).await;
        }
        Result::Ok(())
    };
    let (sender, ended) = tokio::sync::oneshot::channel();
    let measuring = async {
        let measured = measured.await;
        let _ = sender.send(());
        measured
    };
    let (measured, anonymous) = tokio::join!(
        measuring,
        peak_while(async {
            let _ = ended.await;
        })
    );
    measured?;
    let expected = match beside {
        Beside::Nothing => 1,
        Beside::Due | Beside::Retry => 1 + usize::try_from(calls)?,
    };
    let patience = time::timeout(Duration::from_secs(4 * seconds), lags.until(expected)).await;
    if patience.is_err() {
        eprintln!("only {} of {expected} calls were tried", lags.count());
    }
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));
    let written = opened.commits() - commits;
    let report = Report::default()
        .count("calls", calls)
        .count("reps", results.len() as u64)
        .millis("p50_ms", percentile(&mut results, 0.5))
        .millis("p99_ms", percentile(&mut results, 0.99))
        .millis("asked_ms", asked)
        .number("all_tried_s", took.as_secs_f64())
        .number("anonymous_mb", anonymous)
        .number("cpu_percent", cpu.as_secs_f64() / took.as_secs_f64() * 100.0)
        .count("commits", written.transactions)
        .count("rows", written.rows);
    opened.close().await?;
    bed.print(&place, "bulk", &report).await?;
    place.remove().await
}
