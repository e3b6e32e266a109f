//! How columns are fetched from SQLite. What becomes of them is in [`resurgam_store::decode`].

use resurgam_core::Uid;
use resurgam_store::decode::{Columns, Decoded, Unreadable};
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, ValueRef};

/// The columns of an instance, in the order in which they are read.
pub(crate) const INSTANCE: &str = "uid, id, workflow, status, run, queue, request_id, \
     input_encoding, input, outcome_encoding, outcome, error, created_at, closed_at, priority, \
     parent, parent_run, parent_seq, schedule, settings, compensation, \
     (SELECT json_group_object(name, value) FROM tag WHERE tag.uid = instance.uid), pause";

/// The columns of a schedule, in the order in which they are read.
pub(crate) const SCHEDULE: &str = "id, workflow, encoding, input, rule, options, state, paused, \
     next_at, waits, last, error, created_at, revision, \
     EXISTS (SELECT 1 FROM instance WHERE instance.id = schedule.last AND current = 1 \
                                      AND closed_at IS NULL)";

/// A row that SQLite has answered with.
pub(crate) struct Fetched<'r>(pub(crate) &'r Row<'r>);

impl Columns for Fetched<'_> {
    fn maybe_uid(&self, column: usize) -> Decoded<Option<Uid>> {
        let bytes = match self.value(column)? {
            ValueRef::Null => return Ok(None),
            ValueRef::Blob(bytes) => bytes,
            other => return Err(Unreadable(format!("the uid is {}", other.data_type()))),
        };
        let sixteen = <[u8; 16]>::try_from(bytes);
        let sixteen = sixteen.map_err(|_| format!("the uid has {} bytes", bytes.len()))?;
        Ok(Some(Uid::from_bytes(sixteen)))
    }

    fn maybe_text(&self, column: usize) -> Decoded<Option<&str>> {
        self.value(column)?.as_str_or_null().map_err(self.wrong_type(column))
    }

    fn maybe_number(&self, column: usize) -> Decoded<Option<i64>> {
        self.value(column)?.as_i64_or_null().map_err(self.wrong_type(column))
    }

    fn int(&self, column: usize) -> Decoded<i32> {
        self.get(column)
    }

    fn flag(&self, column: usize) -> Decoded<bool> {
        self.get(column)
    }

    /// A query has no names for what it works out, so people are told which column it is.
    fn name_of(&self, column: usize) -> String {
        (column + 1).to_string()
    }
}

impl Fetched<'_> {
    /// The number of the row, which is the column of that name.
    pub(crate) fn rowid(&self) -> Decoded<i64> {
        self.0.get("rowid").map_err(|error| Unreadable(error.to_string()))
    }

    fn value(&self, column: usize) -> Decoded<ValueRef<'_>> {
        self.0.get_ref(column).map_err(|error| Unreadable(error.to_string()))
    }

    fn get<T: FromSql>(&self, column: usize) -> Decoded<T> {
        T::column_result(self.value(column)?).map_err(self.wrong_type(column))
    }

    fn wrong_type(&self, column: usize) -> impl FnOnce(FromSqlError) -> Unreadable {
        move |error| Unreadable(format!("column {}: {error}", self.name_of(column)))
    }
}
