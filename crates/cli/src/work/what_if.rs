//! `resurgam policy what-if`: reads recorded calls of an activity and has them follow another
//! policy.

use std::path::PathBuf;
use std::time::Duration;

use resurgam::{AttemptRow, Event, InstanceFilter, InstanceRow, Timestamp};
use resurgam_core::duration;
use resurgam_core::retry::dialect::Dialect;
use resurgam_policy::what_if::{Compared, Range, Records};

use crate::exit::Exit;
use crate::form::line;
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::source;
use crate::policy::what_if::{draw, text};
use crate::trouble::Trouble;

/// Have recorded calls of an activity follow another policy: how many attempts there would have
/// been, and how many calls would have succeeded
///
/// The calls are those of instances that were started within the time of `--since`, and that are
/// still in the database. What is assumed about the dependency is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The policy: a file, - for standard input, or the name of a preset
    policy: PathBuf,
    /// The activity whose calls are looked at
    #[arg(long, value_name = "NAME")]
    activity: String,
    /// How far back
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "7d")]
    since: Duration,
    /// How many instances are looked at, the newest first
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    limit: usize,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
    /// Print a drawing of the load as SVG
    #[arg(long, conflicts_with = "json")]
    svg: bool,
}

impl Arguments {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let policy = source::load(&self.policy, Dialect::Canonical)?.policy;
        let (activity, since, limit) = (self.activity.clone(), self.since, self.limit);
        let range = Range { activity, since, limit };
        let recorded = async |operator: &Operator| Ok(range.recorded(operator).await?);
        let calls = self.reach.look(recorded).await?;
        if calls.is_empty() && !self.json && !self.svg {
            let note = format!("no call of {} was recorded since then\n", self.activity);
            return Ok(Output { stderr: note, ..Output::done(String::new()) });
        }
        let compared = Compared::of(&self.activity, &calls, &policy);
        Ok(match (self.json, self.svg) {
            (true, _) => Output::json(line(&compared), Exit::Done),
            (_, true) => Output::done(draw(&compared)),
            _ => Output::done(text(&compared)),
        })
    }
}

impl Records for Operator {
    fn now(&self) -> Timestamp {
        Operator::now(self)
    }

    async fn list(&self, filter: InstanceFilter) -> resurgam::Result<Vec<InstanceRow>> {
        Operator::list(self, filter).await
    }

    async fn events(&self, of: &InstanceRow) -> resurgam::Result<Vec<Event>> {
        Operator::events(self, of.uid, None).await
    }

    async fn attempts(&self, of: &InstanceRow) -> resurgam::Result<Vec<AttemptRow>> {
        Operator::attempts(self, of.uid, None).await
    }
}
