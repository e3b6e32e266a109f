//! Reading recorded calls.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam::event::{ActivityCompleted, ActivityFailed, ActivityScheduled};
use resurgam::{
    AttemptOutcome, AttemptRow, Client, Event, EventKind, InstanceCursor, InstanceFilter,
    InstanceRow, Seq, Timestamp,
};

use super::{Recorded, Tried};

/// How many instances are read at a time.
const PAGE: usize = 500;

/// Where calls are recorded: a database, or a server before one.
pub trait Records: Sync {
    /// The time there.
    fn now(&self) -> Timestamp;

    /// Instances, the newest first.
    fn list(&self, filter: InstanceFilter) -> impl Future<Output = Found<InstanceRow>> + Send;

    /// The history of an instance's current run.
    fn events(&self, of: &InstanceRow) -> impl Future<Output = Found<Event>> + Send;

    /// The attempts in that.
    fn attempts(&self, of: &InstanceRow) -> impl Future<Output = Found<AttemptRow>> + Send;
}

/// What was found.
type Found<T> = resurgam::Result<Vec<T>>;

impl Records for Client {
    fn now(&self) -> Timestamp {
        self.handle().now()
    }

    async fn list(&self, filter: InstanceFilter) -> Found<InstanceRow> {
        Client::list(self, filter).await
    }

    async fn events(&self, of: &InstanceRow) -> Found<Event> {
        Client::events(self, &of.id).await
    }

    async fn attempts(&self, of: &InstanceRow) -> Found<AttemptRow> {
        Client::attempts(self, &of.id).await
    }
}

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
    pub async fn recorded(&self, records: &impl Records) -> resurgam::Result<Vec<Recorded>> {
        let now = records.now();
        let since = i64::try_from(self.since.as_millis()).unwrap_or(i64::MAX);
        let since = now.as_millis().saturating_sub(since);
        let (mut calls, mut after, mut left) = (Vec::new(), None, self.limit);
        while left > 0 {
            let limit = PAGE.min(left);
            let filter = InstanceFilter {
                since: Some(Timestamp::from_millis(since)),
                after,
                limit,
                ..InstanceFilter::default()
            };
            let page = records.list(filter).await?;
            for row in &page {
                let events = records.events(row).await?;
                if !events.iter().any(|event| self.is_call(event)) {
                    continue;
                }
                let ledger = records.attempts(row).await?;
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
