//! `resurgam watch`: looks on until what is watched has ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use resurgam::{InstanceFilter, InstanceRow, Status};

use super::ended::{self, Ended};
use super::forms;
use super::screen::{Screen, number, waits};
use super::wait::{self, answered};
use crate::exit::Exit;
use crate::form::line;
use crate::moment::tenths;
use crate::operator::{Operator, Reach};
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
    reach: Reach,
    /// Print one JSON value at the end
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let mut signals = Signals::new()?;
        let screen = Screen::new(self.json);
        let watch = async |operator: &Operator| match &self.id {
            Some(id) => {
                self.say_that_it_is_open(operator, id, &screen).await?;
                let ended = wait::until_closed(operator, id, &screen, &mut signals).await?;
                let ended = match ended {
                    Ended::Interrupted => Ended::Unwatched,
                    ended => ended,
                };
                ended::output(operator, id, ended, &screen, self.json).await
            }
            None => self.all(operator, &screen, &mut signals).await,
        };
        self.reach.ask(watch).await
    }

    /// Says in what state the watched instance is, where no screen shows it.
    async fn say_that_it_is_open(
        &self,
        operator: &Operator,
        id: &str,
        screen: &Screen,
    ) -> Result<(), Trouble> {
        if screen.is_live() || self.json {
            return Ok(());
        }
        let found = answered(operator, screen, async || operator.find(id).await).await?;
        if let Some(row) = found.filter(|row| !row.status.is_closed()) {
            screen.say(&format!("{} is {}\n", printable(id), row.status.name()));
        }
        Ok(())
    }

    /// Watches all instances that are open now, and those that are started meanwhile.
    async fn all(
        &self,
        operator: &Operator,
        screen: &Screen,
        signals: &mut Signals,
    ) -> Result<Output, Trouble> {
        let mut known = Known::new();
        let exit = tokio::select! {
            ended = self.until_none_is_open(operator, screen, &mut known) => {
                ended?;
                Exit::Done
            }
            () = signals.wait() => Exit::Stopped,
        };
        screen.clear();
        let mut list = Vec::new();
        // Who was told to end waits for nothing any more: what was seen last is told then.
        for (id, seen) in known {
            let found = match exit {
                Exit::Stopped => operator.find(&id).await.unwrap_or(Some(seen)),
                _ => answered(operator, screen, async || operator.find(&id).await).await?,
            };
            list.extend(found);
        }
        list.sort_by_key(|row| std::cmp::Reverse(row.created_at));
        let stdout = match self.json {
            true => line(&list.iter().map(forms::instance).collect::<Vec<_>>()) + "\n",
            false => String::new(),
        };
        Ok(Output { stdout, stderr: String::new(), exit })
    }

    /// Shows what is open until nothing is.
    async fn until_none_is_open(
        &self,
        operator: &Operator,
        screen: &Screen,
        known: &mut Known,
    ) -> Result<(), Trouble> {
        let mut is_first = true;
        loop {
            let open = answered(operator, screen, async || open(operator).await).await?;
            if std::mem::take(&mut is_first) && !screen.is_live() {
                screen.say(&format!("{}\n", counted(open.len())));
            }
            known.extend(open.iter().map(|row| (row.id.clone(), row.clone())));
            if screen.is_live() {
                let lines =
                    answered(operator, screen, async || lines(operator, &open).await).await?;
                screen.draw(&lines);
            } else if !self.json {
                tell_ends(operator, known, &open, screen).await?;
            }
            if open.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

/// The instances that were open at some time, as they were seen last.
type Known = HashMap<String, InstanceRow>;

/// The instances that are open, and one more than are watched when there are so many.
async fn open(operator: &Operator) -> resurgam::Result<Vec<InstanceRow>> {
    let (status, limit) = (vec![Status::Running, Status::Blocked, Status::Paused], MOST + 1);
    operator.list(InstanceFilter { status, limit, ..InstanceFilter::default() }).await
}

/// How many are open, as far as that is known.
fn counted(open: usize) -> String {
    match open > MOST {
        true => format!("more than {MOST} open"),
        false => format!("{open} open"),
    }
}

/// A line for each instance, as many as fit: the action that was tried most often.
async fn lines(operator: &Operator, open: &[InstanceRow]) -> resurgam::Result<Vec<String>> {
    let (width, height) = terminal::size(std::io::stderr());
    let now = operator.now();
    let head = (anstyle::Style::new(), counted(open.len()));
    let mut lines = vec![terminal::painted(&[head], width)];
    for row in open.iter().take(height.saturating_sub(3).max(1)) {
        // It closed and was deleted in between.
        let Some(found) = operator.describe(&row.id).await? else { continue };
        let call = found.pending.iter().max_by_key(|call| call.attempt);
        let does = match (call, row.status) {
            (_, Status::Blocked) => "blocked".to_string(),
            (_, Status::Paused) => "paused".to_string(),
            (None, _) => waits(&found),
            (Some(call), _) => match call.next_due.filter(|due| *due > now) {
                Some(due) => {
                    let next = number(call);
                    format!("{}: {next} in {}", call.activity, tenths(due.since(now)))
                }
                None if call.running => {
                    format!("{}: {} runs", call.activity, number(call))
                }
                None => format!("{}: waits", call.activity),
            },
        };
        let parts = [(anstyle::Style::new(), format!("  {:<30} {does}", row.id))];
        lines.push(terminal::painted(&parts, width));
    }
    Ok(lines)
}

/// Says what has ended since the last look. What is missing from the list may as well be open, when
/// there are more than the list holds.
async fn tell_ends(
    operator: &Operator,
    known: &mut Known,
    open: &[InstanceRow],
    screen: &Screen,
) -> Result<(), Trouble> {
    let open: HashSet<&str> = open.iter().map(|row| row.id.as_str()).collect();
    let is_missing =
        |row: &&InstanceRow| !row.status.is_closed() && !open.contains(row.id.as_str());
    let missing: Vec<String> =
        known.values().filter(is_missing).map(|row| row.id.clone()).collect();
    for id in missing {
        match answered(operator, screen, async || operator.find(&id).await).await? {
            Some(row) if row.status.is_closed() => {
                screen.say(&format!("{} {}\n", printable(&id), row.status.name()));
                known.insert(id, row);
            }
            Some(_) => {}
            // It was deleted after it closed.
            None => drop(known.remove(&id)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn more_than_are_watched_are_not_said_to_be_as_many_as_are_watched() {
        assert_eq!(counted(0), "0 open");
        assert_eq!(counted(1_000), "1000 open");
        assert_eq!(counted(1_001), "more than 1000 open");
    }
}
