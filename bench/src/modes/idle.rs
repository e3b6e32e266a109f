//! An app with nothing to do: what that costs.
//!
//! `statements_per_s` counts on SQLite what the engine asks of the store, which is all that touches
//! a table; looking whether other processes have committed touches none. On PostgreSQL the server
//! counts the transactions of the database, so nobody else should use it meanwhile.

use std::time::{Duration, Instant};

use crate::Result;
use crate::bed::{Bed, Location, Place};
use crate::modes::chain;
use crate::report::Report;
use crate::watched::Watched;
use crate::{server, usage};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to look.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    bed: Bed,
}

/// What beginning leaves to do is done by then.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { seconds, bed } = arguments;
    let place = bed.place()?;
    let store = place.store().await?;
    let watched = Watched::new(store.shared());
    let app = place.app(chain::builder(), watched.clone()).await?;
    tokio::time::sleep(SETTLE).await;

    let statements = statements(&place, &watched).await?;
    let (began, cpu) = (Instant::now(), usage::cpu());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (took, cpu) = (began.elapsed(), usage::cpu().saturating_sub(cpu));
    let statements = self::statements(&place, &watched).await?.saturating_sub(statements);

    let report = Report::default()
        .number("cpu_percent", cpu.as_secs_f64() / took.as_secs_f64() * 100.0)
        .rate("statements_per_s", statements, took)
        .number("rss_mb", usage::peak_rss_mb());
    app.stop().await?;
    store.close().await;
    bed.print(&place, "idle", &report).await?;
    place.remove().await
}

/// How many statements there were so far; on PostgreSQL, transactions.
pub(super) async fn statements(place: &Place, watched: &Watched) -> Result<u64> {
    match &place.location {
        Location::Sqlite(_) => Ok(watched.calls()),
        Location::Postgres(url) => {
            let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database
                       WHERE datname = current_database()";
            Ok(server::ask(url, sql).await?.parse()?)
        }
    }
}
