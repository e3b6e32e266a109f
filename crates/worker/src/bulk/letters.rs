//! Bulk jobs about dead letters.
//!
//! | action           | what the commit of a page has                 | who carries it out      |
//! |------------------|-----------------------------------------------|-------------------------|
//! | `redrive`        | messages for the runs of the letters          | holders of their shards |
//! | `redrive_as_new` | bare activities started, letters settled      | that commit             |
//! | `discard`        | letters settled                               | that commit             |
//!
//! A commit that settles a letter which is not open any more writes nothing at all: somebody else
//! has decided about one since the page was read, so it is read anew, without that one.

use resurgam_core::action::{Action, RedriveCall};
use resurgam_core::{CallKey, Payload, Seq, Timestamp, Uid};
use resurgam_store::rows::InstanceRow;
use resurgam_store::{
    CallCursor, ChildStart, DeadLetter, DeadLetterFilter, LetterState, LetterWrite, Replaces,
    Settled,
};
use serde::{Deserialize, Serialize};

use super::{BulkJob, Sent, ToAsk, Trial};
use crate::node::start_message;
use crate::submit;

/// How many letters a page has at most whose activities run once more by themselves: each comes
/// with its arguments.
pub(super) const STARTED: usize = 100;

/// Which dead letters: open ones. Every field narrows it further.
///
/// ```
/// use resurgam_worker::LetterFilter;
///
/// let charges = LetterFilter { activity: Some("charge".into()), ..LetterFilter::default() };
/// assert_eq!(charges.fingerprint, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LetterFilter {
    /// Only of this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Only of this activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Only those that were given up at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only of the instances of these ids; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Only of this workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those that failed with this type, or with one that descends from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Only those that failed with this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
}

impl LetterFilter {
    /// What a list of letters is narrowed by, whatever it is a page of.
    pub fn of(list: DeadLetterFilter) -> Self {
        let DeadLetterFilter {
            fingerprint,
            activity,
            since,
            ids,
            workflow,
            queue,
            failure_type,
            failure_code,
            ..
        } = list;
        LetterFilter {
            fingerprint,
            activity,
            since,
            ids,
            workflow,
            queue,
            failure_type,
            failure_code,
        }
    }

    /// The list that it is, behind a place.
    pub(crate) fn letters(&self, after: Option<&str>, limit: usize) -> DeadLetterFilter {
        let LetterFilter {
            fingerprint,
            activity,
            since,
            ids,
            workflow,
            queue,
            failure_type,
            failure_code,
        } = self.clone();
        DeadLetterFilter {
            state: LetterState::Open,
            fingerprint,
            activity,
            since,
            ids,
            workflow,
            queue,
            failure_type,
            failure_code,
            after: after.and_then(|after| after.parse().ok()),
            limit,
        }
    }

    /// The place behind every letter that is written after this time.
    pub(crate) fn begins(now: Timestamp) -> String {
        CallCursor { at: now, ..CallCursor::FIRST }.to_string()
    }
}

/// An activity that is about to run once more by itself.
#[derive(Clone, Debug)]
pub struct RunAgain {
    id: String,
    queue: String,
    input: Payload,
}

impl RunAgain {
    /// What makes the call of a letter again; the error says why it cannot be made. `policy` is the
    /// one that it had.
    pub(crate) fn of(letter: &DeadLetter, policy: Option<String>) -> Result<Self, String> {
        let call = submit::call_of(letter.activity.clone(), &letter.input, policy);
        let input = call.and_then(|call| call.behind(&letter.gate).encoded());
        let input = input.map_err(|error| format!("its arguments cannot be read: {error}"))?;
        Ok(RunAgain { id: redriven_id(letter.call), queue: letter.queue.clone(), input })
    }
}

/// The id of the instance that runs the activity of a dead letter by itself: the same each time, so
/// that two who decide at once begin one.
pub fn redriven_id(call: CallKey) -> String {
    format!("redrive/{}", super::call_to_text(call))
}

/// What a page of decisions writes.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) letters: Vec<LetterWrite>,
    pub(crate) starts: Vec<ChildStart>,
}

impl BulkJob {
    /// True when a page is carried out by the commit that writes it.
    pub(crate) fn decides(&self) -> bool {
        matches!(self.action, Action::RedriveAsNew | Action::Discard)
    }

    /// What it is about was read, and this much of it is decided about.
    pub(crate) fn settles(
        &mut self,
        found: Vec<ToAsk>,
        go_on: Option<String>,
        now: Timestamp,
        mut uid: impl FnMut(&str) -> Uid,
    ) -> Decisions {
        self.passes(go_on);
        let (mut decisions, mut tried, mut refused) = (Decisions::default(), Vec::new(), None);
        for ToAsk { call, again, .. } in found {
            let due = self.draw(self.counts.matched, call);
            self.counts.matched += 1;
            let again = match again.transpose() {
                Ok(again) => again,
                Err(why) => {
                    self.refused(call, why.clone());
                    refused.get_or_insert(why);
                    continue;
                }
            };
            self.counts.changed += 1;
            let redriven_as = again.as_ref().map(|again| again.id.clone());
            if let Some(again) = again {
                let start = started(*again, uid(&redriven_id(call)), due, now);
                tried.push(Sent { call: submit::call_in(start.row.uid), failures: 0 });
                decisions.starts.push(start);
            }
            let (by, reason) = (self.by.clone(), self.reason.clone());
            let settled = Settled { at: now, by, reason, redriven_as };
            let state = match self.action {
                Action::Discard => LetterState::Discarded,
                _ => LetterState::Redriven,
            };
            decisions.letters.push(LetterWrite::Settle { call, state, settled });
        }
        if self.options.first.is_some() && self.counts.trial == Trial::Ahead {
            match (refused, tried.is_empty()) {
                (Some(why), _) => self.fails_first(&why),
                (None, true) => self.tried(),
                (None, false) => (self.counts.trial, self.page) = (Trial::Waits, tried),
            }
        }
        decisions
    }

    /// The call of a letter that a redrive asks for, as the run that it goes back in has it.
    pub(super) fn redrives(&self, call: CallKey, due: Option<Timestamp>, now: Timestamp) -> Action {
        let new_key = matches!(self.action, Action::Redrive(RedriveCall { new_key: true, .. }));
        let delay = due.map(|due| u64::try_from(due.since(now).as_millis()).unwrap_or(u64::MAX));
        let delay_ms = delay.filter(|delay| *delay > 0);
        Action::Redrive(RedriveCall { call: call.seq, new_key, delay_ms })
    }
}

/// The start of an instance that runs an activity once more.
fn started(again: RunAgain, uid: Uid, due: Option<Timestamp>, now: Timestamp) -> ChildStart {
    let mut row = InstanceRow::new(uid, again.id, submit::NAME, again.input, now);
    row.queue = again.queue;
    let delay = due.map(|due| u64::try_from(due.since(now).as_millis()).unwrap_or(u64::MAX));
    row.settings.delay_ms = delay.filter(|delay| *delay > 0);
    ChildStart { row, replaces: Replaces::Nobody, start: start_message(uid), otherwise: None }
}

/// The place of a message to a run, in place of that of a call.
pub(super) fn asked_of(action: &Action, call: CallKey) -> Seq {
    if action.is_on_run() { Seq::RUN } else { call.seq }
}
