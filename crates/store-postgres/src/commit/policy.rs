//! Policies: each text once, however many tasks name it.

use super::plan::Plan;
use crate::statement::Statement;

/// In the order of their hashes, so that two commits with the same new policies cannot wait for
/// each other.
const INSERT: &str = "
    INSERT INTO @policy (hash, text) SELECT * FROM unnest($1::text[], $2::text[])
    ON CONFLICT (hash) DO NOTHING";

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
        Statement::rows("insert policies", INSERT)
            .texts(new.iter().map(|(hash, _)| *hash))
            .texts(new.iter().map(|(_, text)| *text)),
    );
}
