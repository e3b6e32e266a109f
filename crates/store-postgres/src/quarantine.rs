//! Rows that cannot be read, and how they are marked.
//!
//! What the marks are for is in [`resurgam_store::quarantine`]. Columns have types here, so a key
//! can always be read, and the mark finds its row by it.

use resurgam_core::{Shard, Uid};
use resurgam_store::Result;
use resurgam_store::quarantine::{BadRow, Table};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::decode::{Decoded, Fetched, Unreadable};
use crate::encode::prose;
use crate::pool::Pool;
use crate::statement::{Statement, shard_of};

/// A row to set aside, by the columns of its key; those that its table has not are of no meaning.
#[derive(Debug)]
pub(crate) struct Quarantined {
    table: Table,
    shard: i16,
    uid: Uid,
    id: String,
    run: i64,
    seq: i64,
    attempt: i64,
    arrival: i64,
    pub(crate) why: String,
}

/// What finds a row.
const fn key(table: Table) -> &'static str {
    match table {
        Table::Instance => "t.shard = u.shard AND t.uid = u.uid",
        Table::Message | Table::Action => "t.shard = u.shard AND t.uid = u.uid AND t.id = u.id",
        Table::Task | Table::DeadLetter => {
            "t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq"
        }
        Table::Attempt => {
            "t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq
                 AND t.attempt = u.attempt"
        }
        Table::Schedule => "t.shard = u.shard AND t.id = u.id",
        Table::Inbox => "t.arrival = u.arrival",
    }
}

impl Quarantined {
    /// The row of a table that could not be read. Each query has the key in its first columns.
    pub(crate) fn new(table: Table, row: &Row, why: String) -> Self {
        let number = |column| row.try_get::<_, i64>(column).unwrap_or_default();
        let text = |column| row.try_get::<_, String>(column).unwrap_or_default();
        let uid = Uid(row.try_get::<_, Uuid>(0).unwrap_or_default().as_u128());
        let (id, shard) = match table {
            Table::Schedule => (text(0), Shard::of_id(&text(0)).0.cast_signed()),
            _ => (text(1), shard_of(uid)),
        };
        let (run, seq, attempt, arrival) = (number(1), number(2), number(4), number(0));
        Quarantined { table, shard, uid, id, run, seq, attempt, arrival, why }
    }
}

/// The rows that can be read; the others are set aside.
pub(crate) fn readable<T>(
    table: Table,
    rows: &[Row],
    bad: &mut Vec<Quarantined>,
    decode: impl Fn(Fetched<'_>) -> Decoded<T>,
) -> Vec<T> {
    let keep = |row| match decode(Fetched(row)) {
        Ok(value) => Some(value),
        Err(Unreadable(why)) => {
            bad.push(Quarantined::new(table, row, why));
            None
        }
    };
    rows.iter().filter_map(keep).collect()
}

/// Marks rows. It is a courtesy: when it fails, the next read steps over the rows again.
pub(crate) async fn mark(pool: &Pool, bad: Vec<Quarantined>) {
    for table in Table::ALL {
        let rows = || bad.iter().filter(|row| row.table == table);
        if rows().next().is_none() {
            continue;
        }
        let (name, reason, key) = (table.name(), table.reason(), key(table));
        let sql = format!(
            "UPDATE @{name} t SET {reason} = u.why
             FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[],
                         $6::bigint[], $7::bigint[], $8::text[])
                  AS u(shard, uid, id, run, seq, attempt, arrival, why)
             WHERE {key} AND t.{reason} IS NULL"
        );
        let mark = Statement::rows("set rows aside", sql)
            .shards(rows().map(|row| row.shard))
            .only_uids(rows().map(|row| Some(row.uid)))
            .texts(rows().map(|row| &*row.id))
            .bigs(rows().map(|row| row.run))
            .bigs(rows().map(|row| row.seq))
            .bigs(rows().map(|row| row.attempt))
            .bigs(rows().map(|row| row.arrival))
            .texts(rows().map(|row| prose(&row.why)));
        if let Err(error) = pool.ask(mark).await {
            tracing::warn!(%error, "rows that cannot be read could not be marked");
        }
    }
}

/// The rows that are marked, at most `limit` of each table.
pub(crate) async fn marked(pool: &Pool, limit: u32) -> Result<Vec<BadRow>> {
    let mut found = Vec::new();
    for table in Table::MARKED {
        let (uid, table) = (if table.has_uid() { "uid" } else { "NULL::uuid" }, table.name());
        let sql = format!("SELECT {uid}, bad FROM @{table} WHERE bad IS NOT NULL LIMIT $1");
        let look = Statement::rows("look for rows that were set aside", sql);
        for row in pool.ask(look.big(i64::from(limit))).await? {
            let uid = row.try_get::<_, Option<Uuid>>(0).unwrap_or_default();
            let uid = uid.map(|uid| Uid(uid.as_u128()));
            found.push(BadRow { table, uid, why: row.try_get(1).unwrap_or_default() });
        }
    }
    Ok(found)
}

/// Clears all marks. There are indexes over the marks alone, so this costs nothing without any.
pub(crate) async fn clear(pool: &Pool) -> Result<()> {
    for table in Table::MARKED.map(Table::name) {
        let sql = format!("UPDATE @{table} SET bad = NULL WHERE bad IS NOT NULL");
        pool.ask(Statement::rows("clear the marks of unreadable rows", sql)).await?;
    }
    Ok(())
}
