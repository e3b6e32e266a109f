//! `resurgam policy what-if`: reads recorded calls of an activity and has them follow another
//! policy.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use resurgam::event::{ActivityCompleted, ActivityFailed, ActivityScheduled};
use resurgam::{AttemptOutcome, AttemptRow, Event, EventKind, InstanceCursor, InstanceFilter, Seq};
use resurgam_core::duration;
use resurgam_core::retry::dialect::Dialect;

use crate::exit::Exit;
use crate::form::line;
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::source;
use crate::policy::what_if::{Compared, Recorded, Tried, draw};
use crate::trouble::Trouble;

/// How many instances are read at a time.
const PAGE: usize = 500;

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
        let calls =
            self.reach.look(async |operator: &Operator| Ok(self.recorded(operator).await?)).await?;
        if calls.is_empty() && !self.json && !self.svg {
            let note = format!("no call of {} was recorded since then\n", self.activity);
            return Ok(Output { stderr: note, ..Output::done(String::new()) });
        }
        let compared = Compared::of(&self.activity, &calls, &policy);
        Ok(match (self.json, self.svg) {
            (true, _) => Output::json(line(&compared), Exit::Done),
            (_, true) => Output::done(draw(&compared)),
            _ => Output::done(compared.text()),
        })
    }

    /// The calls of the instances that were started lately.
    async fn recorded(&self, operator: &Operator) -> resurgam::Result<Vec<Recorded>> {
        let now = operator.now();
        let since = i64::try_from(self.since.as_millis()).unwrap_or(i64::MAX);
        let since = now.as_millis().saturating_sub(since);
        let (mut calls, mut after, mut left) = (Vec::new(), None, self.limit);
        while left > 0 {
            let limit = PAGE.min(left);
            let filter = InstanceFilter {
                since: Some(resurgam::Timestamp::from_millis(since)),
                after,
                limit,
                ..InstanceFilter::default()
            };
            let page = operator.list(filter).await?;
            for row in &page {
                let events = operator.events(row.uid, None).await?;
                if !events.iter().any(|event| self.is_call(event)) {
                    continue;
                }
                let ledger = operator.attempts(row.uid, None).await?;
                calls.extend(self.calls(&events, &ledger, !row.status.is_closed()));
            }
            if page.len() < limit {
                break;
            }
            left -= page.len();
            after = page.last().map(InstanceCursor::of);
        }
        Ok(calls)
    }

    fn is_call(&self, event: &Event) -> bool {
        matches!(&event.kind, EventKind::ActivityScheduled(ActivityScheduled { name, .. })
            if *name == self.activity)
    }

    /// The calls of a run that have ended an attempt.
    fn calls(&self, events: &[Event], ledger: &[AttemptRow], is_running: bool) -> Vec<Recorded> {
        let mut calls: BTreeMap<Seq, Recorded> = BTreeMap::new();
        for event in events.iter().filter(|event| self.is_call(event)) {
            let call = Recorded { scheduled: event.at, attempts: Vec::new(), is_open: is_running };
            calls.insert(event.seq, call);
        }
        for row in ledger.iter().filter(|row| row.outcome == AttemptOutcome::Failed) {
            if let (Some(call), Some(failure)) = (calls.get_mut(&row.call.seq), &row.failure) {
                let (at, took) = (row.started_at, row.ended_at.since(row.started_at));
                call.attempts.push(Tried { at, took, failure: Some(failure.clone()) });
            }
        }
        for event in events {
            if let Some(call) = ended(&event.kind).and_then(|call| calls.get_mut(&call)) {
                call.is_open = false;
            }
            if let EventKind::ActivityCompleted(done) = &event.kind
                && let ActivityCompleted { activity, started_at, fallback: false, .. } = done
                && let Some(call) = calls.get_mut(activity)
            {
                let took = event.at.since(*started_at);
                call.attempts.push(Tried { at: *started_at, took, failure: None });
            }
        }
        let tried = calls.into_values().filter(|call| !call.attempts.is_empty());
        tried
            .map(|mut call| {
                call.attempts.sort_by_key(|tried| tried.at);
                call
            })
            .collect()
    }
}

/// The call that is over with this event.
fn ended(kind: &EventKind) -> Option<Seq> {
    match kind {
        EventKind::ActivityCompleted(ActivityCompleted { activity, .. })
        | EventKind::ActivityFailed(ActivityFailed { activity, .. })
        | EventKind::ActivityCancelled { activity } => Some(*activity),
        _ => None,
    }
}
