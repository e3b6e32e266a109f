//! The dbos crate on PostgreSQL.
//!
//! What is the same as ours: embedded in the process, a workflow is an async function, every result
//! of a step is committed before the workflow goes on. What differs: its attempts are not recorded,
//! so that a crash gives a step its whole budget again, and a workflow belongs to the process that
//! started it until that process starts again.
//!
//! What a commit survives is what the server says: `synchronous_commit` and `fsync`.

use clap::Parser;
use dbos::{Config, DBOS, StartOptions, WorkflowHandle, WorkflowRef, step};
use measure::{Error, Mode, Peer};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures the dbos crate.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
    /// The database, in which the schema `dbos_bench` is made.
    #[arg(long, global = true, default_value = "postgres://localhost/postgres")]
    url: String,
    /// How many connections it has.
    #[arg(long, global = true, default_value_t = 10)]
    connections: u32,
}

#[derive(Clone)]
struct Dbos(WorkflowRef<u64, u64>);

impl Peer for Dbos {
    type Started = WorkflowHandle<u64>;

    const MANY_MAY_WAIT: bool = true;

    async fn start(&self, id: String, activities: u64) -> Result<Self::Started, Error> {
        let options = StartOptions { workflow_id: Some(&id), ..StartOptions::default() };
        Ok(self.0.start_with(activities, options).await?)
    }

    async fn result(&self, started: Self::Started) -> Result<u64, Error> {
        Ok(started.result().await?)
    }
}

async fn tick(number: u64) -> dbos::Result<u64> {
    measure::called();
    Ok(number)
}

async fn chain(activities: u64) -> dbos::Result<u64> {
    let mut last = 0;
    for number in 1..=activities {
        last = step("tick", || tick(number)).await?;
    }
    Ok(last)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let dbos = DBOS::new(Config {
        max_connections: arguments.connections,
        schema: "dbos_bench".to_string(),
        app_version: Some("1".to_string()),
        ..Config::new("resurgam-peers", arguments.url)
    });
    let chain = dbos.register_workflow("chain", chain)?;
    dbos.launch().await?;
    measure::run(&Dbos(chain), arguments.mode).await?;
    dbos.shutdown().await;
    Ok(())
}
