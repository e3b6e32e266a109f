//! Reading recorded calls.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam::event::{ActivityCompleted, ActivityFailed, ActivityScheduled};
use resurgam::{
    AttemptOutcome, AttemptRow, Client, Event, EventKind, InstanceCursor, InstanceFilter, Seq,
};

use super::{Recorded, Tried};

/// How many instances are read at a time.
const PAGE: usize = 500;

/// Which calls are looked at.
#[derive(Clone, Debug)]
pub struct Range {
    /// Those of this activity.
    pub activity: String,
    /// Of instances that were started within this time.
    pub since: Duration,
    /// How many instances are looked at, the newest first.
    pub limit: usize,
}

impl Range {
    /// The calls of the instances that were started lately.
    pub async fn recorded(&self, client: &Client) -> resurgam::Result<Vec<Recorded>> {
        let now = client.handle().now();
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
            let page = client.list(filter).await?;
            for row in &page {
                let events = client.events(&row.id).await?;
                if !events.iter().any(|event| self.is_call(event)) {
                    continue;
                }
                let ledger = client.attempts(&row.id).await?;
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
