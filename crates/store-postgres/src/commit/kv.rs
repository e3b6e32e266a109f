//! An instance's own data: the last value of a key counts.

use super::plan::Plan;
use crate::encode::{encoding, text};
use crate::sql::Piece::{Names, Rows, Text};
use crate::sql::{Column, SHARD, Sql, UID};
use crate::statement::Statement;

const KV: &[Column] =
    &[SHARD, UID, Column::text("key"), Column::text("encoding"), Column::text("value")];

static PUT: Sql = Sql::new(&[
    Text("INSERT INTO @kv ("),
    Names(KV),
    Text(") SELECT * FROM "),
    Rows(KV),
    Text(
        " ON CONFLICT (shard, uid, key)
          DO UPDATE SET encoding = excluded.encoding, value = excluded.value",
    ),
]);

/// Adds the statement for the data of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    let rows = || plan.kv.values();
    if plan.kv.is_empty() {
        return;
    }
    add.push(
        Statement::rows("write data of instances", &PUT)
            .uids(rows().map(|row| row.uid))
            .texts(rows().map(|row| &*row.key))
            .texts(rows().map(|row| encoding(&row.value)))
            .texts(rows().map(|row| text(&row.value))),
    );
}
