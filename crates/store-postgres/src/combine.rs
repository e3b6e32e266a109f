//! Many statements as one: a commit with one plan and one answer.
//!
//! Several queries in one `WITH` are one statement, and when nothing else is to be done it is a
//! transaction by itself: no `BEGIN`, no `COMMIT`, one message there and one back. Every part sees
//! the database as it was before the statement, so one that must see what another has written, or
//! has waited for, is the first of a statement of its own. What is wrong is said without saying
//! where; the careful way finds out.

use crate::sql::is_count;
use crate::statement::{Form, Statement};

/// The text of a statement that does what all of these do. Its values are theirs, in this order.
/// None when one of them is plain text, which is sent alone.
pub(crate) fn text(statements: &[&Statement<'_>]) -> Option<String> {
    let mut queries: Vec<String> = Vec::new();
    let mut checks: Vec<String> = Vec::new();
    let mut values = 0;
    for (place, statement) in statements.iter().enumerate() {
        statement.assert_types();
        let shape = &statement.shape;
        let text = shape.after(values)?;
        queries.extend(shape.with_after(values));
        values += statement.values().len();
        match shape.form {
            Form::Check => checks.push(format!("({text})")),
            Form::Rows => queries.push(format!("part{place} AS ({text})")),
            Form::Exactly => {
                queries.push(format!("part{place} AS ({text} RETURNING 1)"));
                checks.push(format!("(SELECT {} FROM part{place})", is_count(values)));
            }
        }
    }
    let (queries, checks) = (queries.join(",\n"), checks.join(",\n"));
    Some(match (queries.is_empty(), checks.is_empty()) {
        (false, false) => format!("WITH {queries} SELECT {checks}"),
        (false, true) => format!("WITH {queries} SELECT 1"),
        (true, _) => format!("SELECT {checks}"),
    })
}

/// These statements in as few pieces as may be: each one begins with what must see the one before.
pub(crate) fn pieces<'s, 'v>(statements: &'s [&'v Statement<'v>]) -> Vec<&'s [&'v Statement<'v>]> {
    statements.chunk_by(|_, next| !next.follows).collect()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use crate::sql::Piece::{IsCount, Text, Value};
    use crate::sql::Sql;
    use crate::statement::Part;

    static COUNT: Sql =
        Sql::new(&[Text("UPDATE a SET n = "), Value(1), Text(" WHERE n = "), Value(2)]);
    static LOOK: Sql = Sql::new(&[Text("SELECT "), IsCount(1), Text(" FROM b")]);
    static NEW: Sql =
        Sql::new(&[Text("new AS (INSERT INTO c SELECT "), Value(1), Text(" RETURNING n)")]);
    static LEDGER: Sql = Sql::new(&[Text("DELETE FROM c USING new WHERE n > "), Value(2)]);

    #[test]
    fn parts_keep_their_values_and_their_checks() {
        let count = Statement::rows("count", &COUNT).big(1).big(2);
        let look = Statement::check(Part::Fence, &LOOK).big(3);
        let ledger = Statement::rows("add", &LEDGER).made_from(&NEW).big(4).big(5);
        assert_eq!(
            text(&[&count.exactly(1), &look, &ledger]).unwrap(),
            "WITH part0 AS (UPDATE a SET n = $1 WHERE n = $2 RETURNING 1),\n\
             new AS (INSERT INTO c SELECT $5 RETURNING n),\n\
             part2 AS (DELETE FROM c USING new WHERE n > $6) \
             SELECT (SELECT 1 / (count(*) = $3::bigint)::int FROM part0),\n\
             (SELECT 1 / (count(*) = $4::bigint)::int FROM b)"
        );
    }
    #[test]
    fn plain_text_is_no_part_of_another_statement() {
        let count = Statement::rows("count", &COUNT).big(1).big(2);
        let plain = Statement::rows("look", "SELECT $1").big(3);
        assert_eq!(text(&[&count, &plain]), None);
    }
}
