//! Rows that cannot be read, and how they are marked.
//!
//! What the marks are for is in [`resurgam_store::quarantine`]. Only the writer writes, so a reader
//! that steps over such a row hands it to the writer.

use resurgam_core::Uid;
use resurgam_store::quarantine::{BadRow, Table};
use rusqlite::{Connection, Result, params};

/// A row to set aside.
#[derive(Debug)]
pub(crate) struct Quarantined {
    pub(crate) table: Table,
    pub(crate) rowid: i64,
    pub(crate) why: String,
}

/// What a table is called here. Those that came late are named so that they meet none of the
/// user's.
const fn name(table: Table) -> &'static str {
    match table {
        Table::Action => "resurgam_action",
        Table::DeadLetter => "resurgam_dead_letter",
        table => table.name(),
    }
}

/// Marks rows, all in one transaction. A row that went away or changed its number meanwhile is
/// found again by a reader.
pub(crate) fn mark(connection: &Connection, rows: &[Quarantined]) -> Result<()> {
    let transaction = connection.unchecked_transaction()?;
    for row in rows {
        let (table, reason) = (name(row.table), row.table.reason());
        let sql = format!("UPDATE {table} SET {reason} = ?2 WHERE rowid = ?1 AND {reason} IS NULL");
        connection.prepare_cached(&sql)?.execute(params![row.rowid, row.why])?;
    }
    transaction.commit()
}

/// The rows that are marked, at most `limit` of each table.
pub(crate) fn marked(connection: &Connection, limit: u32) -> Result<Vec<BadRow>> {
    let mut found = Vec::new();
    for table in Table::MARKED {
        let (uid, table) = (if table.has_uid() { "uid" } else { "NULL" }, name(table));
        let sql = format!("SELECT {uid}, bad FROM {table} WHERE bad IS NOT NULL LIMIT ?1");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([limit], |row| {
            let uid = row.get::<_, [u8; 16]>(0).ok().map(Uid::from_bytes);
            Ok(BadRow { table, uid, why: row.get(1)? })
        })?;
        found.extend(rows.collect::<Result<Vec<BadRow>>>()?);
    }
    Ok(found)
}

/// Clears all marks, without writing when there are none.
pub(crate) fn clear(connection: &Connection) -> Result<()> {
    for table in Table::MARKED.map(name) {
        let marked = format!("SELECT 1 FROM {table} WHERE bad IS NOT NULL LIMIT 1");
        if connection.prepare(&marked)?.exists([])? {
            connection
                .execute_batch(&format!("UPDATE {table} SET bad = NULL WHERE bad IS NOT NULL"))?;
        }
    }
    Ok(())
}
