//! What the engine wrote down about the calls of a batch: its histories and its ledger.

use std::collections::BTreeMap;

use resurgam::{AttemptOutcome, AttemptRow, Client, InstanceRow};
use resurgam_core::{Event, EventKind, RunKey, Seq};

use super::trouble::Trouble;

/// An activity call with its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) key: String,
    pub(super) activity: String,
    pub(super) instance: String,
    /// How each attempt ended, by number. A number that was written down twice has two entries.
    pub(super) attempts: BTreeMap<u32, Vec<How>>,
    /// The attempt that settled the call, when it is settled.
    pub(super) settled_by: Option<u32>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Completed,
    Failed,
    /// Its process died.
    Lost,
    /// A graceful stop cut it short.
    Interrupted,
}

/// The calls of these instances.
pub(super) async fn calls(client: &Client, orders: &[InstanceRow]) -> Result<Vec<Call>, Trouble> {
    let mut calls = Vec::new();
    for row in orders {
        let events = client.events(&row.id).await?;
        let ledger = client.attempts(&row.id).await?;
        calls.extend(calls_of(row, &events, &ledger));
    }
    Ok(calls)
}

fn calls_of(row: &InstanceRow, events: &[Event], ledger: &[AttemptRow]) -> Vec<Call> {
    let run = RunKey { uid: row.uid, run: row.run };
    let mut calls: BTreeMap<Seq, Call> = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityScheduled(scheduled) => {
                let call = Call {
                    key: run.call(event.seq).to_string(),
                    activity: scheduled.name.clone(),
                    instance: row.id.clone(),
                    attempts: BTreeMap::new(),
                    settled_by: None,
                };
                calls.insert(event.seq, call);
            }
            EventKind::ActivityCompleted(done) => {
                if let Some(call) = calls.get_mut(&done.activity) {
                    call.settled_by = Some(done.attempt);
                    call.attempts.entry(done.attempt).or_default().push(How::Completed);
                }
            }
            EventKind::ActivityFailed(failed) => {
                if let Some(call) = calls.get_mut(&failed.activity) {
                    call.settled_by = Some(failed.attempt);
                }
            }
            _ => {}
        }
    }
    for attempt in ledger {
        if let Some(call) = calls.get_mut(&attempt.call.seq) {
            call.attempts.entry(attempt.attempt).or_default().push(How::of(attempt.outcome));
        }
    }
    calls.into_values().collect()
}

impl How {
    fn of(outcome: AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Lost => How::Lost,
            AttemptOutcome::Interrupted => How::Interrupted,
            // Nothing in the demo snoozes or is cancelled.
            AttemptOutcome::Failed | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled => {
                How::Failed
            }
        }
    }

    /// True for an attempt that may have ended before its first line ran: it was claimed, which is
    /// durable, and then the process was gone.
    pub(super) fn may_not_have_begun(self) -> bool {
        matches!(self, How::Lost | How::Interrupted)
    }
}
