//! `resurgam list`: instances, the newest first.

use resurgam::{InstanceCursor, InstanceRow, RunFilter, Status, Timestamp};

use super::bulk::Such;
use super::forms;
use super::listing::{List, Listed};
use crate::form::Form;
use crate::moment::{Moment, TimeArgs};
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::Trouble;

/// The most characters of a reason in a row.
const NOTE: usize = 60;

/// List instances, the newest first
///
/// Where there are more than --limit, standard error says so at the end and has the --after for the
/// next ones. What is started meanwhile changes nothing about them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only of this status: running, paused, blocked, completed, failed, cancelled or terminated;
    /// more than once for several
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Vec<Status>,
    /// Only of this workflow: the name of a function, or of a file without its ending
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only those with an action that waits to be tried again
    #[arg(long)]
    retrying: bool,
    /// Only those started since then: how long ago (2h), a day or a time (2026-11-15T09:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
    #[command(flatten)]
    such: Such,
    /// Go on behind this place: the one that a list ends with, or the `cursor` of a row in JSON
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    after: Option<InstanceCursor>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

fn status(name: &str) -> Result<Status, String> {
    let names = "write running, completed, failed, cancelled, terminated, blocked or paused";
    Status::named(name).ok_or_else(|| names.to_string())
}

fn cursor(text: &str) -> Result<InstanceCursor, String> {
    text.parse().map_err(|what| format!("this {what}"))
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let (limit, none) = (self.limit as usize, "no instances");
        let list = List { reach: &self.reach, limit, times: self.times, json: self.json, none };
        let read = async |operator: &Operator, now: Timestamp, limit| {
            let filter = RunFilter {
                status: self.status.clone(),
                workflow: self.workflow.clone(),
                retrying: self.retrying,
                started_since: self.since.map(|since| since.before(now)),
                ..RunFilter::default()
            };
            let filter = self.such.narrows(filter, now);
            Ok(operator.runs(filter, self.after, limit).await?)
        };
        list.page(read).await
    }
}

impl Listed for InstanceRow {
    fn columns(times: TimeArgs) -> Vec<&'static str> {
        vec!["ID", "WORKFLOW", "STATUS", if times.utc { "STARTED" } else { "AGE" }, ""]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        let note = self.error.as_deref().map(beginning).unwrap_or_default();
        vec![
            printable(&self.id),
            printable(&self.workflow),
            self.status.name().to_string(),
            times.age(self.created_at, now),
            printable(&note),
        ]
    }

    fn form(&self) -> Form {
        forms::listed(self)
    }

    fn cursor(&self) -> Option<String> {
        Some(InstanceCursor::of(self).to_string())
    }
}

/// The beginning of a reason, as much as fits into a row. All of it is for `show`.
fn beginning(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default().trim_end();
    if line.len() == reason.trim_end().len() && line.chars().count() <= NOTE {
        return line.to_string();
    }
    let start: String = line.chars().take(NOTE - 1).collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use resurgam::{Payload, Uid};
    use resurgam_watchdog::test;

    use super::super::listing;
    use super::*;

    #[test]
    fn a_row_has_as_much_of_a_reason_as_fits_into_it() {
        let (now, input) = (Timestamp::from_millis(60_000), Payload::from_text("null"));
        let noted = |reason: &str| {
            let mut row = InstanceRow::new(Uid(1), "o-1", "order", input.clone(), now);
            row.error = Some(reason.to_string());
            let text = listing::table(&[row], now, TimeArgs { utc: false }, "none");
            let row = text.lines().nth(1).unwrap_or_default().trim_end().to_string();
            row.strip_prefix(" o-1  order     running  0ms  ").map(str::to_string)
        };
        let sixty = "ü".repeat(60);
        assert_eq!(noted("no worker knows it"), Some("no worker knows it".to_string()));
        assert_eq!(noted(&sixty), Some(sixty.clone()));
        assert_eq!(noted(&format!("{sixty}ü")), Some(format!("{}…", "ü".repeat(59))));
        assert_eq!(noted("it differs\nfrom its history"), Some("it differs…".to_string()));
    }
}
