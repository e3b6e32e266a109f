//! Reading: what the owner needs to work, and what people want to see.
//!
//! Every read is one round trip. A row that cannot be read is an error where somebody asked for
//! that very row, and is set aside where it is one of many. What the owner reads names its shards,
//! and is bounded in each of them before it is put in order.

mod bulk;
mod gates;
mod inbox;
mod inspect;
mod runs;
mod schedules;
mod shared;
mod staleness;
mod tasks;
mod unresolved;
mod work;

pub(crate) use bulk::*;
pub(crate) use gates::*;
pub(crate) use inbox::*;
pub(crate) use inspect::*;
pub(crate) use runs::*;
pub(crate) use schedules::*;
pub(crate) use shared::*;
pub(crate) use staleness::*;
pub(crate) use tasks::*;
pub(crate) use unresolved::*;
pub(crate) use work::*;

use resurgam_core::Shard;
use resurgam_store::quarantine::{MARKED_AT_ONCE, Table};
use resurgam_store::{Error, Result};
use tokio_postgres::Row;

use crate::decode::{Decoded, Fetched};
use crate::pool::Pool;
use crate::quarantine::{self, Quarantined, readable};
use crate::statement::Statement;

/// Shards as a column.
fn shards(shards: &[Shard]) -> impl Iterator<Item = i16> {
    shards.iter().map(|shard| shard.0.cast_signed())
}

/// One row, or none. `what` names it when it cannot be read.
fn one<T>(
    rows: &[Row],
    decode: impl FnOnce(Fetched<'_>) -> Decoded<T>,
    what: impl FnOnce() -> String,
) -> Result<Option<T>> {
    let found = rows.first().map(|row| decode(Fetched(row))).transpose();
    found.map_err(|why| Error::data(what()).because(why))
}

/// The rows that can be read. The others are marked.
pub(crate) async fn many<T>(
    pool: &Pool,
    table: Table,
    statement: Statement<'_>,
    decode: impl Fn(Fetched<'_>) -> Decoded<T>,
) -> Result<Vec<T>> {
    let rows = pool.ask_widely(statement).await?;
    let mut bad = Vec::new();
    let found = readable(table, &rows, &mut bad, decode);
    set_aside(pool, bad).await;
    Ok(found)
}

async fn set_aside(pool: &Pool, mut rows: Vec<Quarantined>) {
    rows.truncate(MARKED_AT_ONCE);
    if pool.marks && !rows.is_empty() {
        quarantine::mark(pool, rows).await;
    }
}
