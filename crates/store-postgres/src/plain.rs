//! Statements of `commit/lane.rs`, which are text and no pieces, as parts of a larger one.
//!
//! They are two, and they are in every batch: the number of the lane, and the fence.

use std::fmt::Write;

use crate::small_batch;

/// A text after this many values of others, with so many rows listed; 0 for any number of them.
pub(crate) fn after(text: &str, values: usize, rows: usize) -> String {
    match (rows, unnested(text)) {
        (0, _) | (_, None) => renumbered(text, values),
        (_, Some((before, columns, after))) => {
            let columns: Vec<String> = columns.split(", ").map(str::to_string).collect();
            let list = small_batch::listed(&columns, rows);
            renumbered(&format!("{before}({list}){after}"), values)
        }
    }
}

/// What stands before `unnest`, in it and after it.
fn unnested(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("unnest(")?;
    let (columns, after) = rest.split_once(')')?;
    Some((before, columns, after))
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

    #[test]
    fn values_are_numbered_anew_and_a_few_rows_listed() {
        let text = "JOIN unnest($1::smallint[], $2::bigint[]) AS u(shard, epoch) WHERE n = $3";
        assert_eq!(
            after(text, 4, 0),
            "JOIN unnest($5::smallint[], $6::bigint[]) AS u(shard, epoch) WHERE n = $7"
        );
        assert_eq!(
            after(text, 4, 1),
            "JOIN (VALUES (($5::smallint[])[1], ($6::bigint[])[1])) AS u(shard, epoch) WHERE n = $7"
        );
    }
}
