//! Many statements as one: a commit with one plan and one answer.
//!
//! Several queries in one `WITH` are one statement, and when nothing else is to be done it is a
//! transaction by itself: no `BEGIN`, no `COMMIT`, one message there and one back. Every part sees
//! the database as it was before the statement, so one that must see what another has written, or
//! has waited for, is the first of a statement of its own. What is wrong is said without saying
//! where; the careful way finds out.

use std::fmt::Write;

use crate::statement::{Form, Statement, is_count};

/// The text of a statement that does what all of these do. Its values are theirs, in this order.
pub(crate) fn text(statements: &[&Statement<'_>]) -> String {
    let mut queries: Vec<String> = Vec::new();
    let mut checks: Vec<String> = Vec::new();
    let mut values = 0;
    for (place, statement) in statements.iter().enumerate() {
        let shape = &statement.shape;
        let text = renumbered(&shape.sql(), values);
        if !shape.with.is_empty() {
            queries.push(renumbered(shape.with, values));
        }
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
    match (queries.is_empty(), checks.is_empty()) {
        (false, false) => format!("WITH {queries} SELECT {checks}"),
        (false, true) => format!("WITH {queries} SELECT 1"),
        (true, _) => format!("SELECT {checks}"),
    }
}

/// These statements in as few pieces as may be: each one begins with what must see the one before.
pub(crate) fn pieces<'s, 'v>(statements: &'s [&'v Statement<'v>]) -> Vec<&'s [&'v Statement<'v>]> {
    statements.chunk_by(|_, next| !next.follows).collect()
}

/// A text whose values come after this many others.
fn renumbered(text: &str, after: usize) -> String {
    let mut pieces = text.split('$');
    let mut new = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        let _ = match number.parse::<usize>() {
            Ok(number) => write!(new, "${}{rest}", number + after),
            Err(_) => write!(new, "${piece}"),
        };
    }
    new
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use crate::statement::Part;

    #[test]
    fn parts_keep_their_values_and_their_checks() {
        let count = Statement::rows("count", "UPDATE a SET n = $1 WHERE n = $2").big(1).big(2);
        let look = Statement::check(Part::Fence, "SELECT 1 / (count(*) = $1)::int FROM b").big(3);
        let ledger = Statement::rows("add", "DELETE FROM c USING new WHERE n > $2")
            .made_from("new AS (INSERT INTO c SELECT $1 RETURNING n)")
            .big(4)
            .big(5);
        assert_eq!(
            text(&[&count.exactly(1), &look, &ledger]),
            "WITH part0 AS (UPDATE a SET n = $1 WHERE n = $2 RETURNING 1),\n\
             new AS (INSERT INTO c SELECT $5 RETURNING n),\n\
             part2 AS (DELETE FROM c USING new WHERE n > $6) \
             SELECT (SELECT 1 / (count(*) = $3::bigint)::int FROM part0),\n\
             (SELECT 1 / (count(*) = $4)::int FROM b)"
        );
    }
}
