//! `resurgam list`: instances, the newest first.

use comfy_table::{Table, presets};
use resurgam::{Client, InstanceFilter, InstanceRow, Status, Timestamp};
use resurgam_core::duration::Human;

use super::forms;
use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::Trouble;

/// The most characters of a reason in a row.
const NOTE: usize = 60;

/// List instances, the newest first
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
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

fn status(name: &str) -> Result<Status, String> {
    let names = "write running, completed, failed, cancelled, terminated or blocked";
    Status::named(name).ok_or_else(|| names.to_string())
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let filter = InstanceFilter {
            status: self.status,
            workflow: self.workflow,
            retrying: self.retrying,
            limit: self.limit as usize,
            ..InstanceFilter::default()
        };
        let list = async |client: &Client| Ok((client.list(filter).await?, client.handle().now()));
        let (rows, now) = self.db.look(list).await?;
        Ok(match self.json {
            true => {
                let list: Vec<Form> = rows.iter().map(forms::instance).collect();
                Output::json(line(&list), Exit::Done)
            }
            false => Output::done(text(&rows, now)),
        })
    }
}

fn text(rows: &[InstanceRow], now: Timestamp) -> String {
    if rows.is_empty() {
        return "no instances\n".to_string();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ID", "WORKFLOW", "STATUS", "AGE", ""]);
    for row in rows {
        let note = row.error.as_deref().map(beginning).unwrap_or_default();
        table.add_row([
            printable(&row.id),
            printable(&row.workflow),
            row.status.name().to_string(),
            age(row.created_at, now),
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

/// How long ago, as people say it.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    Human(std::time::Duration::from_secs(seconds)).to_string()
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
            let text = text(&[row], now);
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
