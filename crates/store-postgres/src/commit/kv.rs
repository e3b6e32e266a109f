//! An instance's own data: the last value of a key counts.

use super::plan::Plan;
use crate::encode::{encoding, text};
use crate::statement::Statement;

const PUT: &str = "
    INSERT INTO @kv (shard, uid, key, encoding, value)
    SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::text[])
    ON CONFLICT (shard, uid, key)
    DO UPDATE SET encoding = excluded.encoding, value = excluded.value";

/// Adds the statement for the data of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    let rows = || plan.kv.values();
    if plan.kv.is_empty() {
        return;
    }
    add.push(
        Statement::rows("write data of instances", PUT)
            .uids(rows().map(|row| row.uid))
            .texts(rows().map(|row| &*row.key))
            .texts(rows().map(|row| encoding(&row.value)))
            .texts(rows().map(|row| text(&row.value))),
    );
}
