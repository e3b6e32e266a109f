//! A few rows without `unnest`.
//!
//! For each array the server sets up a store for thousands of rows, and a task has nineteen of
//! them. That pays for a large batch and takes longer than all the rest for a small one, whose
//! values are therefore picked out of their arrays one by one.

/// More rows than this are many. Each number makes statements of its own, which are prepared and
/// planned for themselves: so it is what one step of one workflow writes.
pub(crate) const MOST: usize = 2;

/// A list of so many rows, each with a value of every one of these arrays.
pub(crate) fn listed(arrays: &[String], rows: usize) -> String {
    let row = |nth: usize| {
        let values: Vec<String> = arrays.iter().map(|array| format!("({array})[{nth}]")).collect();
        format!("({})", values.join(", "))
    };
    let list: Vec<String> = (1..=rows).map(row).collect();
    format!("VALUES {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn one_row_and_two_are_listed() {
        let arrays = ["$1::smallint[]".to_string(), "$2::text[]".to_string()];
        assert_eq!(listed(&arrays, 1), "VALUES (($1::smallint[])[1], ($2::text[])[1])");
        assert_eq!(listed(&arrays[..1], 2), "VALUES (($1::smallint[])[1]), (($1::smallint[])[2])");
    }
}
