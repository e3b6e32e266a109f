//! Rows that cannot be read, and what becomes of them.
//!
//! A reader that steps over such a row hands it to the writer, which marks it in the column `bad`.
//! Marked rows are left out where work is looked for, so they cost nothing and hold up nobody; an
//! operator sees them with the reason. Marks are cleared on opening: what this version cannot read,
//! another may. For the same reason a store that only looks marks nothing. Rows of the inbox are
//! refused instead: they have a column for the reason, and whoever inserted them looks there.

use resurgam_core::Uid;
use rusqlite::{Connection, Result, params};

/// A row that could not be read, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its table.
    pub table: &'static str,
    /// The instance it belongs to, when that much can be read.
    pub uid: Option<Uid>,
    /// Why it could not be read.
    pub why: String,
}

/// A table whose rows can be set aside. Events cannot: a run without one of its events is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Instance,
    Message,
    Task,
    Attempt,
    Schedule,
    Inbox,
}

/// A row to set aside.
#[derive(Debug)]
pub(crate) struct SetAside {
    pub(crate) table: Table,
    pub(crate) rowid: i64,
    pub(crate) why: String,
}

impl Table {
    /// Those with a column `bad`.
    const MARKED: [Table; 5] =
        [Table::Instance, Table::Message, Table::Task, Table::Attempt, Table::Schedule];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::Instance => "instance",
            Table::Message => "message",
            Table::Task => "task",
            Table::Attempt => "attempt",
            Table::Schedule => "schedule",
            Table::Inbox => "inbox",
        }
    }

    /// Where the reason goes.
    const fn reason(self) -> &'static str {
        match self {
            Table::Inbox => "error",
            _ => "bad",
        }
    }

    /// The instance that a row belongs to.
    const fn uid(self) -> &'static str {
        match self {
            Table::Schedule | Table::Inbox => "NULL",
            _ => "uid",
        }
    }
}

/// Marks rows, all in one transaction. A row that went away or changed its number meanwhile is
/// found again by a reader.
pub(crate) fn mark(connection: &Connection, rows: &[SetAside]) -> Result<()> {
    let transaction = connection.unchecked_transaction()?;
    for row in rows {
        let (table, reason) = (row.table.name(), row.table.reason());
        let sql = format!("UPDATE {table} SET {reason} = ?2 WHERE rowid = ?1 AND {reason} IS NULL");
        connection.prepare_cached(&sql)?.execute(params![row.rowid, row.why])?;
    }
    transaction.commit()
}

/// The rows that are marked, at most `limit` of each table.
pub(crate) fn marked(connection: &Connection, limit: u32) -> Result<Vec<BadRow>> {
    let mut found = Vec::new();
    for table in Table::MARKED {
        let (uid, table) = (table.uid(), table.name());
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
    for table in Table::MARKED.map(Table::name) {
        let marked = format!("SELECT 1 FROM {table} WHERE bad IS NOT NULL LIMIT 1");
        if connection.prepare(&marked)?.exists([])? {
            connection
                .execute_batch(&format!("UPDATE {table} SET bad = NULL WHERE bad IS NOT NULL"))?;
        }
    }
    Ok(())
}
