//! `resurgam list`: instances, the newest first.

use comfy_table::{Table, presets};
use resurgam::{Client, InstanceCursor, InstanceFilter, InstanceRow, Status, Timestamp};

use super::forms;
use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::moment::{Moment, TimeArgs};
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
    /// Only of this status: running, completed, failed, cancelled, terminated or blocked; more than
    /// once for several
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
    /// Go on behind this place: the one that a list ends with, or the `cursor` of a row in JSON
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    after: Option<InstanceCursor>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    db: DbArgs,
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
        let limit = self.limit as usize;
        let filter = InstanceFilter {
            status: self.status,
            workflow: self.workflow,
            retrying: self.retrying,
            after: self.after,
            // One more tells whether there are more.
            limit: limit + 1,
            ..InstanceFilter::default()
        };
        let list = async |client: &Client| {
            let now = client.handle().now();
            let since = self.since.map(|since| since.before(now));
            Ok((client.list(InstanceFilter { since, ..filter }).await?, now))
        };
        let (mut rows, now) = self.db.look(list).await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        if self.json {
            let list: Vec<Form> = rows.iter().map(forms::listed).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        let more = rows.last().filter(|_| has_more).map(|row| {
            let cursor = InstanceCursor::of(row);
            format!("there are more: the same with --after {cursor} lists the next ones\n")
        });
        let stdout = text(&rows, now, self.times);
        Ok(Output { stderr: more.unwrap_or_default(), ..Output::done(stdout) })
    }
}

fn text(rows: &[InstanceRow], now: Timestamp, times: TimeArgs) -> String {
    if rows.is_empty() {
        return "no instances\n".to_string();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let started = if times.utc { "STARTED" } else { "AGE" };
    table.set_header(["ID", "WORKFLOW", "STATUS", started, ""]);
    for row in rows {
        let note = row.error.as_deref().map(beginning).unwrap_or_default();
        table.add_row([
            printable(&row.id),
            printable(&row.workflow),
            row.status.name().to_string(),
            times.age(row.created_at, now),
            printable(&note),
        ]);
    }
    table.to_string() + "\n"
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

    use super::*;

    #[test]
    fn a_row_has_as_much_of_a_reason_as_fits_into_it() {
        let (now, input) = (Timestamp::from_millis(60_000), Payload::from_text("null"));
        let noted = |reason: &str| {
            let mut row = InstanceRow::new(Uid(1), "o-1", "order", input.clone(), now);
            row.error = Some(reason.to_string());
            let text = text(&[row], now, TimeArgs { utc: false });
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
