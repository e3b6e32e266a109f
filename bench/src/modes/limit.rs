//! The rows of `chain` written by the bare database: the limit on this machine.
//!
//! First `chain` runs on the store, watched: every batch is kept. Then the same batches are written
//! twice more, each into a database of its own. `store_steps_per_s`: through the store, without
//! an engine. `floor_steps_per_s`: by rusqlite or tokio-postgres, with the same tables, settings,
//! batches and rows, the values ready before the clock starts, and nothing looked at or looked up.

use std::time::{Duration, Instant};

use crate::bed::{Bed, Location, Place};
use crate::modes::chain::{self, Size};
use crate::report::Report;
use crate::watched::{Batch, Watched};
use crate::{Result, floor};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    size: Size,
    #[command(flatten)]
    bed: Bed,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { size, bed } = arguments;
    let place = bed.place()?;
    let (engine, batches) = by_engine(&place, size).await?;
    let store = by_store(&place.another("store")?, &batches).await?;
    let bare = by_itself(&place.another("floor")?, &batches).await?;

    let steps: usize = batches.iter().map(|batch| batch.steps.len()).sum();
    let rows: usize =
        batches.iter().flat_map(|batch| batch.steps.iter()).map(|step| step.rows()).sum();
    let report = Report::default()
        .rate("steps_per_s", size.steps(), engine)
        .rate("store_steps_per_s", size.steps(), store)
        .rate("floor_steps_per_s", size.steps(), bare)
        .number("ratio", bare.as_secs_f64() / engine.as_secs_f64())
        .number("batch", steps as f64 / batches.len() as f64)
        .count("commits", batches.len() as u64)
        .count("rows", rows as u64);
    bed.print(&place, "floor", &report).await?;
    place.remove().await
}

/// The engine's own time, and what it wrote.
async fn by_engine(place: &Place, size: Size) -> Result<(Duration, Vec<Batch>)> {
    let store = place.store().await?;
    let watched = Watched::new(store.shared());
    let app = place.app(chain::builder(), watched.clone()).await?;
    let done = chain::all(&app, "chain", size).await?;
    let batches = watched.batches();
    app.stop().await?;
    store.close().await;
    Ok((done.took, batches))
}

/// The time that the store alone takes for what the engine wrote.
async fn by_store(place: &Place, batches: &[Batch]) -> Result<Duration> {
    let store = place.store().await?;
    let shared = store.shared();
    let lanes = shared.lanes();
    let began = Instant::now();
    floor::in_order(batches, lanes, |batch| {
        let (shared, steps) = (shared.clone(), batches[batch].steps.clone());
        async move {
            shared.commit(steps).await?;
            Ok(())
        }
    })
    .await?;
    let took = began.elapsed();
    store.close().await;
    place.remove().await?;
    Ok(took)
}

/// The time that the bare database takes for what the engine wrote.
async fn by_itself(place: &Place, batches: &[Batch]) -> Result<Duration> {
    // The store makes the tables.
    let store = place.store().await?;
    let lanes = store.shared().lanes();
    store.close().await;
    let took = match &place.location {
        Location::Sqlite(file) => floor::sqlite::write(file, place.sync, batches)?,
        Location::Postgres(url) => {
            floor::postgres::write(url, &place.schema, lanes, batches).await?
        }
    };
    place.remove().await?;
    Ok(took)
}
