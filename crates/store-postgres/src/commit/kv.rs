//! An instance's own data: the last value of a key counts.

use resurgam_core::Uid;
use resurgam_store::rows::KvRow;

use super::plan::Plan;
use crate::encode::{encoding, text};
use crate::sql::Piece::{Matches, Names, Rows, Text};
use crate::sql::{Column, SHARD, Sql, UID};
use crate::statement::Statement;

const KV: &[Column] =
    &[SHARD, UID, Column::text("key"), Column::text("encoding"), Column::text("value")];

const KEY: &[Column] = KV.split_at(3).0;

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

static DELETE: Sql =
    Sql::new(&[Text("DELETE FROM @kv k USING "), Rows(KEY), Text(" WHERE "), Matches("k", KEY)]);

/// Adds the statements for the data of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    let forgotten = || plan.kv.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| *key);
    if forgotten().next().is_some() {
        let gone: Vec<(Uid, &str)> = forgotten().collect();
        add.push(
            Statement::rows("forget data of instances", &DELETE)
                .uids(gone.iter().map(|(uid, _)| *uid))
                .texts(gone.iter().map(|(_, key)| (*key).to_string())),
        );
    }
    let rows: Vec<&KvRow> = plan.kv.values().filter_map(|row| *row).collect();
    if rows.is_empty() {
        return;
    }
    let rows = || rows.iter();
    add.push(
        Statement::rows("write data of instances", &PUT)
            .uids(rows().map(|row| row.uid))
            .texts(rows().map(|row| &*row.key))
            .texts(rows().map(|row| encoding(&row.value)))
            .texts(rows().map(|row| text(&row.value))),
    );
}
