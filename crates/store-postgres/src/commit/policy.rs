//! Policies: each text once, however many tasks name it; and what operators set for all calls of an
//! activity.

use super::plan::Plan;
use crate::encode::prose;
use crate::sql::Piece::{Names, Rows, Text};
use crate::sql::{Column, Sql};
use crate::statement::Statement;

const POLICY: &[Column] = &[Column::text("hash"), Column::text("text")];

/// In the order of their hashes, so that two commits with the same new policies cannot wait for
/// each other.
static INSERT: Sql = Sql::new(&[
    Text("INSERT INTO @policy ("),
    Names(POLICY),
    Text(") SELECT * FROM "),
    Rows(POLICY),
    Text(" ON CONFLICT (hash) DO NOTHING"),
]);

const OVERRIDE: &[Column] = &[
    Column::text("activity"),
    Column::text("policy"),
    Column::text("by"),
    Column::text("reason"),
    Column::bigint("at"),
    Column::bigint("revision"),
];

static SET: Sql = Sql::new(&[
    Text("INSERT INTO @policy_override AS o ("),
    Names(OVERRIDE),
    Text(") SELECT * FROM "),
    Rows(OVERRIDE),
    Text(
        " ON CONFLICT (activity) DO UPDATE SET policy = excluded.policy, by = excluded.by,
          reason = excluded.reason, at = excluded.at, revision = o.revision + 1",
    ),
]);

/// Adds the statement for what operators set for activities.
pub(super) fn overrides<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    if plan.policy_overrides.is_empty() {
        return;
    }
    let rows = || plan.policy_overrides.values();
    add.push(
        Statement::rows("set the policies of activities", &SET)
            .texts(rows().map(|row| &*row.activity))
            .maybe_texts(rows().map(|row| row.policy.as_deref()))
            .texts(rows().map(|row| prose(&row.by)))
            .maybe_texts(rows().map(|row| row.reason.as_deref().map(prose)))
            .bigs(rows().map(|row| row.at.as_millis()))
            .bigs(rows().map(|_| 1)),
    );
}

/// Adds the statement for the policies of a batch that are not `known` to be there.
pub(super) fn statements<'p>(
    plan: &'p Plan<'_>,
    known: impl Fn(&str) -> bool,
    add: &mut Vec<Statement<'p>>,
) {
    let new: Vec<(&str, &str)> =
        plan.policies.iter().filter(|(hash, _)| !known(hash)).map(|(a, b)| (*a, *b)).collect();
    if new.is_empty() {
        return;
    }
    add.push(
        Statement::rows("insert policies", &INSERT)
            .texts(new.iter().map(|(hash, _)| *hash))
            .texts(new.iter().map(|(_, text)| *text)),
    );
}
