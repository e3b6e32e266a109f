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
        let (rows, now) = self.db.ask(list).await?;
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
        // The rest of it is for `show`.
        let note = row.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default();
        table.add_row([
            printable(&row.id),
            printable(&row.workflow),
            row.status.name().to_string(),
            age(row.created_at, now),
            printable(note),
        ]);
    }
    table.to_string() + "\n"
}

/// How long ago, as people say it.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    Human(std::time::Duration::from_secs(seconds)).to_string()
}
