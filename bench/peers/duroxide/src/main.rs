//! Duroxide on its SQLite provider.
//!
//! What is the same as ours: embedded in the process, one SQLite file, a workflow is an async
//! function, every result of an activity is on record before the workflow goes on. What differs:
//! its provider sets `synchronous` to NORMAL, where commits survive the death of the process and
//! not the loss of power; `--sync full` changes that on all of its connections, from outside.
//!
//! The defaults are Duroxide's own. `--poll-ms 1` and more workers are the best that was found.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use measure::{Error, Mode, Peer};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many connections its provider has.
const CONNECTIONS: usize = 5;

/// Measures Duroxide.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
    /// The file, which must not be there yet.
    #[arg(long, global = true, default_value = "duroxide.db")]
    file: PathBuf,
    /// What a commit survives.
    #[arg(long, global = true, value_enum, default_value_t = Sync::Normal)]
    sync: Sync,
    /// How long its dispatchers sleep when there is nothing to do.
    #[arg(long, global = true, default_value_t = 100)]
    poll_ms: u64,
    /// How many workflows and how many activities run at once.
    #[arg(long, global = true, default_value_t = 2)]
    workers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Sync {
    Full,
    Normal,
}

#[derive(Clone)]
struct Duroxide(Client);

impl Peer for Duroxide {
    type Started = String;

    /// Each one who waits reads the status every few milliseconds.
    const MANY_MAY_WAIT: bool = false;

    async fn start(&self, id: String, activities: u64) -> Result<String, Error> {
        self.0.start_orchestration(&id, "chain", activities.to_string()).await?;
        Ok(id)
    }

    async fn result(&self, id: String) -> Result<u64, Error> {
        match self.0.wait_for_orchestration(&id, Duration::from_secs(3_600)).await? {
            OrchestrationStatus::Completed { output, .. } => Ok(output.parse()?),
            other => Err(format!("{id} ended with {other:?}").into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    if arguments.file.exists() {
        return Err(format!("{} is there already", arguments.file.display()).into());
    }
    let url = format!("sqlite:{}?mode=rwc", arguments.file.display());
    let provider = Arc::new(SqliteProvider::new(&url, None).await?);
    if arguments.sync == Sync::Full {
        sync_fully(&provider).await?;
    }
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(arguments.poll_ms),
        orchestration_concurrency: arguments.workers,
        worker_concurrency: arguments.workers,
        ..RuntimeOptions::default()
    };
    let (activities, workflows) = (activities(), workflows());
    let runtime =
        Runtime::start_with_options(provider.clone(), activities, workflows, options).await;
    measure::run(&Duroxide(Client::new(provider)), arguments.mode).await?;
    runtime.shutdown(Some(1_000)).await;
    Ok(())
}

fn activities() -> ActivityRegistry {
    let tick = |_: ActivityContext, number: String| async move {
        measure::called();
        Ok(number)
    };
    ActivityRegistry::builder().register("tick", tick).build()
}

fn workflows() -> OrchestrationRegistry {
    let chain = |ctx: OrchestrationContext, activities: String| async move {
        let activities: u64 = activities.parse().map_err(|error| format!("{error}"))?;
        let mut last = String::from("0");
        for number in 1..=activities {
            last = ctx.schedule_activity("tick", number.to_string()).await?;
        }
        Ok(last)
    };
    OrchestrationRegistry::builder().register("chain", chain).build()
}

/// Sets `synchronous` on every connection, all held at once so that none is set twice.
async fn sync_fully(provider: &SqliteProvider) -> Result<(), Error> {
    let mut all = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = provider.get_pool().acquire().await?;
        sqlx::query("PRAGMA synchronous = FULL").execute(&mut *connection).await?;
        all.push(connection);
    }
    Ok(())
}
