//! `resurgam watch`: looks on until what is watched has ended.

use std::collections::HashMap;
use std::time::Duration;

use resurgam::{Client, InstanceFilter, InstanceRow, Status};

use super::screen::{Screen, number, tenths};
use super::{ended, forms, wait};
use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::line;
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::signals::Signals;
use crate::terminal;
use crate::trouble::Trouble;

/// How often is looked.
const TICK: Duration = Duration::from_millis(200);

/// The most instances that are watched.
const MOST: usize = 1_000;

/// Watch an instance, or all that are open, until they end
///
/// The exit code is that of `run` for one instance. Nothing is changed by watching.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The instance; all that are open unless given
    id: Option<String>,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value at the end
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let mut signals = Signals::new()?;
        let client = self.db.client().await?;
        let screen = Screen::new(self.json);
        match &self.id {
            Some(id) => {
                let ended = wait::until_closed(&client, id, &screen, &mut signals).await?;
                ended::output(&client, id, ended, self.json).await
            }
            None => self.all(&client, &screen, &mut signals).await,
        }
    }

    /// Watches all instances that are open now, and those that are started meanwhile.
    async fn all(
        &self,
        client: &Client,
        screen: &Screen,
        signals: &mut Signals,
    ) -> Result<Output, Trouble> {
        let mut known: HashMap<String, InstanceRow> = HashMap::new();
        let mut is_first = true;
        let exit = loop {
            let open = open(client).await?;
            if std::mem::take(&mut is_first) && !screen.is_live() {
                screen.say(&format!("{} open\n", open.len()));
            }
            for row in &open {
                known.insert(row.id.clone(), row.clone());
            }
            if screen.is_live() {
                screen.draw(&lines(client, &open).await?);
            } else if !self.json {
                tell_ends(client, &mut known, &open, screen).await?;
            }
            if open.is_empty() {
                break Exit::Done;
            }
            tokio::select! {
                () = signals.wait() => break Exit::Stopped,
                () = tokio::time::sleep(TICK) => {}
            }
        };
        screen.clear();
        let mut list = Vec::new();
        for id in known.keys() {
            list.extend(client.find(id).await?);
        }
        list.sort_by_key(|row| std::cmp::Reverse(row.created_at));
        let stdout = match self.json {
            true => line(&list.iter().map(forms::instance).collect::<Vec<_>>()) + "\n",
            false => String::new(),
        };
        Ok(Output { stdout, stderr: String::new(), exit })
    }
}

async fn open(client: &Client) -> Result<Vec<InstanceRow>, Trouble> {
    let status = vec![Status::Running, Status::Blocked];
    Ok(client.list(InstanceFilter { status, limit: MOST, ..InstanceFilter::default() }).await?)
}

/// A line for each instance, as many as fit: the action that was tried most often.
async fn lines(client: &Client, open: &[InstanceRow]) -> Result<Vec<String>, Trouble> {
    let (width, height) = terminal::size(std::io::stderr());
    let now = client.handle().now();
    let head = (anstyle::Style::new(), format!("{} open", open.len()));
    let mut lines = vec![terminal::painted(&[head], width)];
    for row in open.iter().take(height.saturating_sub(3).max(1)) {
        let pending = client.describe(&row.id).await?.map(|found| found.pending);
        let call = pending.unwrap_or_default().into_iter().max_by_key(|call| call.attempt);
        let does = match (&call, row.status) {
            (_, Status::Blocked) => "blocked".to_string(),
            (None, _) => "waits for no action".to_string(),
            (Some(call), _) => match call.next_due.filter(|due| *due > now) {
                Some(due) => {
                    let next = number(call, call.attempt + 1);
                    format!("{}: {next} in {}", call.activity, tenths(due.since(now)))
                }
                None if call.running => {
                    format!("{}: {} runs", call.activity, number(call, call.attempt))
                }
                None => format!("{}: waits", call.activity),
            },
        };
        let parts = [(anstyle::Style::new(), format!("  {:<30} {does}", row.id))];
        lines.push(terminal::painted(&parts, width));
    }
    Ok(lines)
}

/// Says what has ended since the last look.
async fn tell_ends(
    client: &Client,
    known: &mut HashMap<String, InstanceRow>,
    open: &[InstanceRow],
    screen: &Screen,
) -> Result<(), Trouble> {
    let is_open = |id: &String| open.iter().any(|row| row.id == *id);
    let ended: Vec<String> = known
        .values()
        .filter(|row| !row.status.is_closed() && !is_open(&row.id))
        .map(|row| row.id.clone())
        .collect();
    for id in ended {
        if let Some(row) = client.find(&id).await? {
            screen.say(&format!("{} {}\n", printable(&id), row.status.name()));
            known.insert(id, row);
        }
    }
    Ok(())
}
