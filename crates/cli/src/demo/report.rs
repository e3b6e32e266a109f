//! The end of a run: what was done, by how many attempts, and whether the promise held.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use resurgam::{Failure, InstanceRow, Status};
use serde::Serialize;

use super::audit::Audit;
use super::records::{Call, How};
use super::screen::seconds;
use crate::style::{ERROR, FAINT, GOOD, STRONG, WARNING};

/// How many orders that failed, and how many problems, are printed for people.
const SHOWN: usize = 10;

/// A finished run. The names are those of the JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) db: PathBuf,
    pub(super) journal: PathBuf,
    /// How many orders an earlier run had left unfinished.
    pub(super) taken_up: usize,
    pub(super) elapsed_ms: u64,
    pub(super) orders: Orders,
    pub(super) attempts: Tally,
    pub(super) activities: Vec<Activity>,
    pub(super) audit: Audit,
}

#[derive(Debug, Serialize)]
pub(super) struct Orders {
    total: usize,
    completed: usize,
    failed: Vec<FailedOrder>,
}

#[derive(Debug, Serialize)]
struct FailedOrder {
    id: String,
    failure: String,
    /// How many of its items were given back.
    released: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Activity {
    activity: String,
    #[serde(flatten)]
    tally: Tally,
}

/// Attempts, counted from the histories and the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    calls: usize,
    attempts: usize,
    /// Attempts beyond the first of their call.
    retries: usize,
    failed: usize,
    /// Their process died.
    lost: usize,
    /// A graceful stop cut them short.
    interrupted: usize,
}

impl Orders {
    pub(super) fn of(rows: &[InstanceRow], calls: &[Call]) -> Self {
        let failed = rows.iter().filter(|row| row.status != Status::Completed).map(|row| {
            let release = |call: &&Call| call.instance == row.id && call.activity == "release";
            FailedOrder {
                id: row.id.clone(),
                failure: failure(row).map_or_else(String::new, |failure| failure.to_string()),
                released: calls.iter().filter(release).count(),
            }
        });
        let failed: Vec<FailedOrder> = failed.collect();
        Orders { total: rows.len(), completed: rows.len() - failed.len(), failed }
    }
}

/// What an instance failed with, if it did.
pub(super) fn failure(row: &InstanceRow) -> Option<Failure> {
    let outcome = row.outcome.as_ref().filter(|_| row.status != Status::Completed)?;
    outcome.decode().ok()
}

impl Tally {
    pub(super) fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut tally = Tally::default();
        for call in calls {
            let ends = || call.attempts.values().flatten();
            let count = |how: How| ends().filter(|end| **end == how).count();
            tally.calls += 1;
            tally.attempts += call.attempts.len();
            tally.retries += call.attempts.len().saturating_sub(1);
            tally.failed += count(How::Failed);
            tally.lost += count(How::Lost);
            tally.interrupted += count(How::Interrupted);
        }
        tally
    }
}

impl Activity {
    /// The activities in the order in which they are first called.
    pub(super) fn all(calls: &[Call]) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        for call in calls {
            if !names.contains(&&*call.activity) {
                names.push(&call.activity);
            }
        }
        let tally = |name: &str| Tally::of(calls.iter().filter(|call| call.activity == name));
        let activity = |name: &str| Activity { activity: name.to_string(), tally: tally(name) };
        names.into_iter().map(activity).collect()
    }
}

impl Report {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}{}{}", self.table(), self.outcome(), self.retries(), self.verdict())
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let stopped = self.attempts.interrupted > 0;
        let mut header = vec!["activity", "calls", "attempts", "failed", "lost"];
        header.extend(stopped.then_some("interrupted"));
        table.set_header(header);
        let all = Activity { activity: "all".to_string(), tally: self.attempts };
        for Activity { activity, tally } in self.activities.iter().chain([&all]) {
            let Tally { calls, attempts, failed, lost, interrupted, .. } = tally;
            let mut numbers = vec![calls, attempts, failed, lost];
            numbers.extend(stopped.then_some(interrupted));
            let numbers = numbers.into_iter().map(ToString::to_string);
            table.add_row(std::iter::once(activity.clone()).chain(numbers));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let text = table.trim_fmt();
        let (header, rows) = text.split_once('\n').unwrap_or((&text, ""));
        format!("{FAINT}{header}{FAINT:#}\n{rows}\n")
    }

    fn outcome(&self) -> String {
        let Orders { total, completed, failed } = &self.orders;
        let time = seconds(Duration::from_millis(self.elapsed_ms));
        let mut text = format!(
            "{STRONG}{}: {completed} completed, {} failed, in {time}.{STRONG:#}\n",
            count(*total, "order"),
            failed.len(),
        );
        for FailedOrder { id, failure, released } in failed.iter().take(SHOWN) {
            let released = count(*released, "item");
            let _infallible = writeln!(
                text,
                "{WARNING}{id}{WARNING:#} failed with {failure}; {released} released."
            );
        }
        text.push_str(&rest(failed.len()));
        text
    }

    fn retries(&self) -> String {
        let Tally { attempts, retries, lost, interrupted, .. } = self.attempts;
        let mut text = format!("{}, {retries} of them retries.\n", count(attempts, "attempt"));
        for (number, why) in
            [(lost, "lost with a killed process"), (interrupted, "interrupted by a stop")]
        {
            let were = if number == 1 { "was" } else { "were" };
            if number > 0 {
                let attempts = count(number, "attempt");
                let _infallible = writeln!(text, "{attempts} {were} {why}, and tried again.");
            }
        }
        text
    }

    /// Whether the promise held, with the numbers.
    fn verdict(&self) -> String {
        let Audit { begun, never_begun, problems } = &self.audit;
        if !problems.is_empty() {
            return self.problems();
        }
        let journal = self.journal.display();
        let attempts = match never_begun {
            0 => format!("the {begun} attempts"),
            _ => format!("{begun} of the {} attempts", self.attempts.attempts),
        };
        let unseen = match never_begun {
            0 => String::new(),
            unseen => format!(" ({unseen} ended before the first line)"),
        };
        format!(
            "{GOOD}Nothing that was done ran again.{GOOD:#} Checked: each attempt appends a line to\n\
             {journal} as it begins; its {begun} lines are {attempts} of the\n\
             histories{unseen}, each once, and none began after its call was done.\n"
        )
    }

    fn problems(&self) -> String {
        let journal = self.journal.display();
        let mut text = format!(
            "{ERROR}Something ran that should not have, or was not counted.{ERROR:#} Each attempt \
             appends a line\nto {journal} as it begins; it does not fit the histories:\n"
        );
        let problems = &self.audit.problems;
        for problem in problems.iter().take(SHOWN) {
            let _infallible = writeln!(text, "  {problem}");
        }
        text.push_str(&rest(problems.len()));
        text
    }
}

/// The line that stands for those that are not shown.
fn rest(number: usize) -> String {
    match number.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("  ... and {more} more\n"),
    }
}

/// `1 order`, `2 orders`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
