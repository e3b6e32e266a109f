//! A few rows without `unnest`.
//!
//! For each array the server sets up a store for thousands of rows, and a task has nineteen of
//! them. That pays for a large batch and takes longer than all the rest for a small one, whose
//! values are therefore picked out of their arrays one by one.

/// More rows than this are many. Each number makes statements of its own, which are prepared and
/// planned for themselves: so it is what one step of one workflow writes.
pub(crate) const MOST: usize = 2;

/// A text in which `unnest` of columns with this many rows is written as a list of them.
pub(crate) fn listed(text: &str, rows: usize) -> String {
    let Some((before, columns, after)) = unnested(text) else {
        return text.to_string();
    };
    let columns: Vec<&str> = columns.split(',').map(str::trim).collect();
    let row = |nth: usize| {
        let values: Vec<String> =
            columns.iter().map(|column| format!("({column})[{nth}]")).collect();
        format!("({})", values.join(", "))
    };
    let list: Vec<String> = (1..=rows).map(row).collect();
    let name = if after.trim_start().starts_with("AS ") { "" } else { " AS u" };
    format!("{before}(VALUES {}){name}{after}", list.join(", "))
}

/// What stands before `unnest`, in it and after it. Not where rows are numbered.
fn unnested(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("unnest(")?;
    let (columns, after) = rest.split_once(')')?;
    (!after.trim_start().starts_with("WITH ORDINALITY")).then_some((before, columns, after))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn one_row_and_two_are_listed() {
        let text = "INSERT INTO a SELECT * FROM unnest($1::smallint[], $2::text[])";
        assert_eq!(
            listed(text, 1),
            "INSERT INTO a SELECT * FROM (VALUES (($1::smallint[])[1], ($2::text[])[1])) AS u"
        );
        let text = "DELETE FROM a USING unnest($1::bigint[]) AS u(n) WHERE a.n = u.n";
        assert_eq!(
            listed(text, 2),
            "DELETE FROM a USING (VALUES (($1::bigint[])[1]), (($1::bigint[])[2])) AS u(n) \
             WHERE a.n = u.n"
        );
    }

    #[test]
    fn numbered_rows_and_arrays_that_stay_arrays_are_left_alone() {
        for text in ["SELECT * FROM unnest($1::text[]) WITH ORDINALITY AS u(a, n)", "a = ANY($1)"] {
            assert_eq!(listed(text, 1), text);
        }
    }
}
