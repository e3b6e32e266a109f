//! Other work beside many calls that are retried at once: what a caller waits for meanwhile.
//!
//! Three runs are to be compared: beside nothing, beside calls that become due by themselves, and
//! beside as many that an operator retries with one bulk action over the same time. Another process
//! fills the store (`retries/fill.rs`), so that the memory of this one is what a node needs.
//!
//! `--beside both` compares the last two by itself: some rounds of each, in turn, since what else
//! a machine does comes and goes; what counts is the ratio of the medians. An action that falls
//! behind leaves a caller alone, so how many calls were tried in time is told with that, and when
//! all were.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use resurgam::CallFilter;
use tokio::time;

use super::retries::{Lags, builder, fill_elsewhere, peak_while};
use crate::Result;
use crate::bed::{Bed, Location, Place};
use crate::report::{Commits, Report, percentile};
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
    /// How many rounds of each are compared with `--beside both`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Another database, which is measured after the first one with `--beside both`.
    #[arg(long, value_name = "STORE")]
    and: Option<Location>,
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
    /// `due` and `retry` in turn, and how they compare.
    Both,
}

/// What a caller waited for, and what it cost.
struct Measured {
    reps: u64,
    p50: Duration,
    p99: Duration,
    asked: Duration,
    /// How many of the calls were tried in the time that they were to be spread over.
    in_time: u64,
    /// When the last of them was tried, or nobody waited for it any longer.
    all_tried: Duration,
    took: Duration,
    cpu: Duration,
    anonymous: f64,
    written: Commits,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let bed = &arguments.bed;
    let place = bed.place()?;
    if arguments.beside == Beside::Both {
        compare(&arguments, place.clone()).await?;
        if let Some(other) = &arguments.and {
            let mut elsewhere = place;
            elsewhere.location = other.clone();
            compare(&arguments, elsewhere).await?;
        }
        return Ok(());
    }
    let measured = measure(&arguments, &place, arguments.beside).await?;
    let Measured { reps, p50, p99, asked, in_time, all_tried, took, cpu, anonymous, written } =
        measured;
    let report = Report::default()
        .count("calls", arguments.calls)
        .count("reps", reps)
        .millis("p50_ms", p50)
        .millis("p99_ms", p99)
        .millis("asked_ms", asked)
        .count("tried_in_time", in_time)
        .number("all_tried_s", all_tried.as_secs_f64())
        .number("anonymous_mb", anonymous)
        .number("cpu_percent", cpu.as_secs_f64() / took.as_secs_f64() * 100.0)
        .count("commits", written.transactions)
        .count("rows", written.rows);
    bed.print(&place, "bulk", &report).await?;
    place.remove().await
}

/// Rounds of both, in turn, each on a store of its own.
async fn compare(arguments: &Arguments, place: Place) -> Result<()> {
    let (mut due, mut retry) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        // Who comes first changes from round to round.
        let order = match round % 2 {
            1 => [Beside::Due, Beside::Retry],
            _ => [Beside::Retry, Beside::Due],
        };
        for beside in order {
            let name = if beside == Beside::Due { "due" } else { "retry" };
            let store = place.another(&format!("{name}{round}"))?;
            let measured = measure(arguments, &store, beside).await?;
            let (p50, p99) = (measured.p50.as_secs_f64() * 1e3, measured.p99.as_secs_f64() * 1e3);
            let (in_time, all_tried) = (measured.in_time, measured.all_tried.as_secs_f64());
            eprintln!(
                "round {round} beside {name}: p50 {p50:.1} ms, p99 {p99:.1} ms; {in_time} tried in \
                 time, all after {all_tried:.1} s"
            );
            store.remove().await?;
            delete(&store)?;
            if beside == Beside::Due { due.push(measured) } else { retry.push(measured) }
        }
    }
    let median = |of: &[Measured], what: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = of.iter().map(what).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let mut report =
        Report::default().count("calls", arguments.calls).count("rounds", arguments.rounds.into());
    type Figure = (fn(&Measured) -> f64, [&'static str; 3]);
    // A caller has an easy time beside an action that has fallen behind, so both are told.
    let figures: [Figure; 6] = [
        (|it| it.p50.as_secs_f64() * 1e3, ["due_p50_ms", "retry_p50_ms", "p50_ratio"]),
        (|it| it.p99.as_secs_f64() * 1e3, ["due_p99_ms", "retry_p99_ms", "p99_ratio"]),
        (|it| it.in_time as f64, ["due_tried_in_time", "retry_tried_in_time", "in_time_ratio"]),
        (
            |it| it.all_tried.as_secs_f64(),
            ["due_all_tried_s", "retry_all_tried_s", "all_tried_ratio"],
        ),
        (|it| it.cpu.as_secs_f64(), ["due_cpu_s", "retry_cpu_s", "cpu_ratio"]),
        (|it| it.written.rows as f64, ["due_rows", "retry_rows", "rows_ratio"]),
    ];
    for (what, [of_due, of_retry, ratio]) in figures {
        let (due, retry) = (median(&due, what), median(&retry, what));
        report = report.number(of_due, due).number(of_retry, retry).number(ratio, retry / due);
    }
    report = report.number("retry_anonymous_mb", median(&retry, |it| it.anonymous));
    arguments.bed.print(&place, "bulk, retried against due by itself", &report).await
}

/// The file of a round has told what it had to tell, and goes with those beside it.
fn delete(place: &Place) -> Result<()> {
    let Location::Sqlite(file) = &place.location else { return Ok(()) };
    let Some(name) = file.file_name() else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

async fn measure(arguments: &Arguments, place: &Place, beside: Beside) -> Result<Measured> {
    let Arguments { calls, seconds, activities, page, .. } = *arguments;
    let due = if beside == Beside::Due { calls } else { 0 };
    fill_elsewhere(place, calls + 2, due, (calls / seconds).max(1)).await?;

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
    let expected = match beside {
        Beside::Nothing => 1,
        Beside::Due | Beside::Retry | Beside::Both => 1 + usize::try_from(calls)?,
    };
    let trying = async {
        let patience = Duration::from_secs(5 * seconds);
        let tried = time::timeout(patience, lags.until(expected)).await;
        (tried.is_ok(), began.elapsed())
    };
    let (in_time, anonymous, (all, all_tried)) = tokio::join!(
        async {
            let measured = measuring.await;
            measured.map(|()| lags.count().saturating_sub(1))
        },
        peak_while(async {
            let _ = ended.await;
        }),
        trying,
    );
    let in_time = u64::try_from(in_time?)?;
    if !all {
        eprintln!("only {} of {expected} calls were tried", lags.count());
    }
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));
    let written = opened.commits() - commits;
    opened.close().await?;
    Ok(Measured {
        reps: results.len() as u64,
        p50: percentile(&mut results, 0.5),
        p99: percentile(&mut results, 0.99),
        asked,
        in_time,
        all_tried,
        took,
        cpu,
        anonymous,
        written,
    })
}
