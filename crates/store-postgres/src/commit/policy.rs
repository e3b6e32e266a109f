//! Policies: each text once, however many tasks name it.

use super::plan::Plan;
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
