//! How columns are fetched from PostgreSQL. What becomes of them is in [`resurgam_store::decode`].

use resurgam_core::{Payload, Uid};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::encode::{PERCENT, from_percent};

pub(crate) use resurgam_store::decode::{Columns, Decoded, Unreadable};

/// The columns of an instance, in the order in which they are read.
pub(crate) const INSTANCE: &str = "instance.uid, instance.id, workflow, status, run, queue,
     request_id, input_encoding, input, outcome_encoding, outcome, error, created_at, closed_at,
     priority, parent, parent_run, parent_seq, schedule, settings, compensation,
     (SELECT json_object_agg(tag.name, tag.value)::text FROM @tag tag
      WHERE tag.shard = instance.shard AND tag.uid = instance.uid), pause";

/// The columns of a schedule, in the order in which they are read.
pub(crate) const SCHEDULE: &str = "id, workflow, encoding, input, rule, options, state, paused,
     next_at, waits, last, error, created_at, revision,
     EXISTS (SELECT 1 FROM @instance i
             WHERE i.id = schedule.last AND i.current AND i.closed_at IS NULL)";

/// A row that PostgreSQL has answered with.
pub(crate) struct Fetched<'r>(pub(crate) &'r Row);

impl Columns for Fetched<'_> {
    fn maybe_uid(&self, column: usize) -> Decoded<Option<Uid>> {
        Ok(get::<Option<Uuid>>(self.0, column)?.map(|uuid| Uid(uuid.as_u128())))
    }

    fn maybe_text(&self, column: usize) -> Decoded<Option<&str>> {
        get(self.0, column)
    }

    fn maybe_number(&self, column: usize) -> Decoded<Option<i64>> {
        get(self.0, column)
    }

    fn int(&self, column: usize) -> Decoded<i32> {
        get(self.0, column)
    }

    fn flag(&self, column: usize) -> Decoded<bool> {
        get(self.0, column)
    }

    fn payload_of(encoding: &str, text: &str) -> Option<Payload> {
        match encoding {
            Payload::ENCODING => Some(Payload::from_text(text)),
            PERCENT => Some(from_percent(text)),
            _ => None,
        }
    }

    fn name_of(&self, column: usize) -> String {
        name_of(self.0, column).to_string()
    }
}

/// Any column as a value of ours.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Decoded<T> {
    row.try_get(column).map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(String::new, |why| why.to_string());
        Unreadable(format!("column {}: {error}: {why}", name_of(row, column)))
    })
}

fn name_of(row: &Row, column: usize) -> &str {
    row.columns().get(column).map_or("?", |column| column.name())
}
