//! Reading: what the owner needs to work, and what people want to see.
//!
//! Every read runs on a thread of the store, inside one read transaction, and sees all that was
//! acknowledged before it began. A row that cannot be read is an error where somebody asked for
//! that very row, and is set aside where it is one of many: the reader collects it here, the writer
//! marks it (see [`Quarantined`]).

mod bulk;
mod gates;
mod inspect;
mod schedules;
mod unresolved;
mod work;

pub(crate) use bulk::*;
pub(crate) use gates::*;
pub(crate) use inspect::*;
pub(crate) use schedules::*;
pub(crate) use unresolved::*;
pub(crate) use work::*;

use resurgam_store::decode::{Decoded, Unreadable};
use resurgam_store::quarantine::{BadRow, MARKED_AT_ONCE, Table};
use resurgam_store::{Error, Result};
use rusqlite::{CachedStatement, Connection, Params, Statement, StatementStatus};

use crate::decode::Fetched;
use crate::errors::Attempted;
use crate::quarantine::{self, Quarantined};

/// One read.
pub(crate) struct Reading<'c> {
    connection: &'c Connection,
    set_aside: Vec<Quarantined>,
    /// The steps of SQLite's machine so far.
    #[cfg(test)]
    steps: std::cell::Cell<i64>,
}

impl<'c> Reading<'c> {
    /// Runs a read in a transaction of its own. The rows to set aside come back with its answer.
    pub(crate) fn run<T>(
        connection: &'c Connection,
        read: impl FnOnce(&mut Reading<'c>) -> Result<T>,
    ) -> (Result<T>, Vec<Quarantined>) {
        let mut reading = Reading {
            connection,
            set_aside: Vec::new(),
            #[cfg(test)]
            steps: std::cell::Cell::default(),
        };
        let answer = reading.in_transaction(read);
        reading.set_aside.truncate(MARKED_AT_ONCE);
        (answer, reading.set_aside)
    }

    fn in_transaction<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let transaction = self.connection.unchecked_transaction();
        let transaction = transaction.attempted(|| "begin to read".into())?;
        let answer = read(self);
        transaction.finish().attempted(|| "finish reading".into())?;
        answer
    }

    /// What `PRAGMA data_version` says on this connection.
    pub(crate) fn data_version(&self) -> Result<i64> {
        self.prepare("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
            .attempted(|| "read the data version".into())
    }

    /// Rows that were set aside.
    pub(crate) fn bad_rows(&self, limit: u32) -> Result<Vec<BadRow>> {
        quarantine::marked(self.connection, limit).attempted(|| "read the marks".into())
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'c>> {
        self.connection.prepare_cached(sql).attempted(|| "prepare a query".into())
    }

    /// No read walks through a whole table, however it is asked. Tests see to it that each is
    /// asked.
    fn has_read(&self, statement: &Statement<'_>, sql: &str) {
        let steps = || statement.get_status(StatementStatus::FullscanStep);
        debug_assert_eq!(steps(), 0, "rows walked through by: {sql}");
        #[cfg(test)]
        {
            let steps = i64::from(statement.reset_status(StatementStatus::VmStep));
            self.steps.set(self.steps.get() + steps);
        }
    }

    #[cfg(test)]
    fn steps(&self) -> i64 {
        self.steps.get()
    }

    /// One row, or none. `what` names it when it cannot be read.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        decode: impl FnOnce(Fetched<'_>) -> Decoded<T>,
        what: impl Fn() -> String,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(values).attempted(&what)?;
        let found = match rows.next().attempted(&what)? {
            None => Ok(None),
            Some(row) => decode(Fetched(row)).map(Some).map_err(|why| unreadable(what(), why)),
        };
        drop(rows);
        self.has_read(&statement, sql);
        found
    }

    /// Every row of a query. One that cannot be read is an error.
    pub(crate) fn every<T>(
        &self,
        sql: &str,
        values: impl Params,
        decode: impl Fn(Fetched<'_>) -> Decoded<T>,
        what: impl Fn() -> String,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(values).attempted(&what)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().attempted(&what)? {
            found.push(decode(Fetched(row)).map_err(|why| unreadable(what(), why))?);
        }
        drop(rows);
        self.has_read(&statement, sql);
        Ok(found)
    }

    /// At most `limit` rows of a table. The query also has a column `rowid`; rows that cannot be
    /// read are stepped over and set aside.
    pub(crate) fn many<T>(
        &mut self,
        table: Table,
        sql: &str,
        values: impl Params,
        limit: usize,
        decode: impl Fn(Fetched<'_>) -> Decoded<T>,
    ) -> Result<Vec<T>> {
        let attempted = || format!("read rows of {}", table.name());
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(values).attempted(attempted)?;
        let mut found = Vec::new();
        while found.len() < limit {
            let Some(row) = rows.next().attempted(attempted)? else { break };
            match decode(Fetched(row)) {
                Ok(value) => found.push(value),
                Err(why) => {
                    let rowid = row.get("rowid").attempted(attempted)?;
                    self.set_aside.push(Quarantined { table, rowid, why: why.0 });
                }
            }
        }
        drop(rows);
        self.has_read(&statement, sql);
        Ok(found)
    }

    /// Rows of which every one is needed: one that cannot be read is an error, and still marked.
    fn whole<T>(
        &mut self,
        what: impl Fn() -> String,
        read: impl FnOnce(&mut Self) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let before = self.set_aside.len();
        let rows = read(self)?;
        match self.set_aside.get(before..).and_then(<[_]>::first) {
            None => Ok(rows),
            Some(bad) => Err(Error::data(format!(
                "{}: {}; the row is marked in table {}",
                what(),
                bad.why,
                bad.table.name()
            ))),
        }
    }
}

/// The error for a row that somebody asked for.
fn unreadable(what: String, why: Unreadable) -> Error {
    Error::data(what).because(why)
}
