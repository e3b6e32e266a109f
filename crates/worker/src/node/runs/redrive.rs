//! Dead letters that are redriven in their run: it is reset to just before the call, and the call
//! is made again as the same call, with a fresh budget and the idempotency key that it had.
//!
//! Only a run that the call has failed can be redriven: one that went on, or failed by something
//! else, has done things since that would be done again.
//!
//! Calls of the same turn as the redriven one keep their keys too: their code asks for them at the
//! same places. What was called in later turns may be called in another order this time, so those
//! are new calls, and the answer names them.

use std::time::Duration;

use resurgam_core::action::{RedriveCall, Reset, ResetTo};
use resurgam_core::duration::Human;
use resurgam_core::event::{ActivityFailed, ActivityScheduled, Delayed, Lineage, RunStarted};
use resurgam_core::{Event, EventKind, Failure, RunKey, Seq};
use resurgam_store::rows::{ActionRequest, RunRecord, Status};
use resurgam_store::{LetterState, LetterWrite, Settled};

use super::instance_info::InstanceInfo;
use super::reset::{GoBack, NAMED, ResetRun, first_of, may_be_reset};
use crate::node::Node;
use crate::node::input::ActedOn;

impl Node {
    /// A call that was given up, and failed its run, is made again. The error says why not.
    pub(crate) fn redrive_run(
        &mut self,
        asked_of: RunKey,
        redrive: &RedriveCall,
        asked: &ActionRequest,
        found: &ActedOn,
    ) -> Result<ResetRun, String> {
        let (record, seq) = (&found.record, redrive.call);
        let call = may_be_redriven(asked_of, redrive, found)?;
        let (first, id) = (first_of(record)?, &record.instance.id);
        if self.is_out_of_time(record, first) {
            return Err(format!(
                "the total timeout of {id} has passed, and goes on after a redrive"
            ));
        }
        let delay = redrive.delay_ms.map(Duration::from_millis).filter(|delay| !delay.is_zero());
        let mut lineage = kept_keys(first, record, redrive);
        lineage.delayed =
            delay.map(|delay| Delayed { call: seq, until: self.now.saturating_add(delay) });
        let mut done =
            self.go_back(found, first, GoBack { cut: seq, lineage, drop_signals: false });
        let key = if redrive.new_key { "a new" } else { "the same" };
        let begins = delay.map(|delay| format!(", in {}", Human(delay))).unwrap_or_default();
        done.text = format!(
            "redriven {}#{seq} of {id} with {key} idempotency key{begins}; run {} goes on from \
             there{}{}",
            call.name,
            done.run.run,
            done.text,
            later_calls(&record.events, seq)
        );
        let settled = Settled {
            at: self.now,
            by: asked.by.clone(),
            reason: asked.reason.clone(),
            redriven_as: Some(id.clone()),
        };
        let state = LetterState::Redriven;
        done.step.letters.push(LetterWrite::Settle { call: asked_of.call(seq), state, settled });
        Ok(done)
    }

    /// True when the time of the whole instance is over, so that its next run would end at once.
    fn is_out_of_time(&self, record: &RunRecord, first: &RunStarted) -> bool {
        let began = first.chain.began.unwrap_or(record.instance.created_at);
        let end = InstanceInfo::new(&record.instance, first).total_end(began);
        end.is_some_and(|end| end <= self.now)
    }
}

/// The call that is redriven; the error says why it is refused.
fn may_be_redriven<'f>(
    asked_of: RunKey,
    redrive: &RedriveCall,
    found: &'f ActedOn,
) -> Result<&'f ActivityScheduled, String> {
    let (record, seq) = (&found.record, redrive.call);
    let (row, id) = (&record.instance, &record.instance.id);
    match &found.letter {
        Some(letter) if letter.state == LetterState::Open => {}
        Some(letter) => {
            return Err(format!("{}#{seq} was {}", letter.activity, letter.decision()));
        }
        None => return Err(format!("there is no dead letter of call #{seq} of {id}")),
    }
    if asked_of.run != row.run {
        return Err(format!(
            "run {} of {id} is over, and run {} came after it; only a call of the current run is \
             redriven",
            asked_of.run, row.run
        ));
    }
    let scheduled = record.events.iter().find(|event| event.seq == seq);
    let Some(EventKind::ActivityScheduled(call)) = scheduled.map(|event| &event.kind) else {
        return Err(format!("{id} has no call #{seq}"));
    };
    let name = format!("{}#{seq}", call.name);
    if call.compensates.is_some() {
        return Err(format!("{name} undoes another call, and {id} is over"));
    }
    match (row.status, run_failure(&record.events)) {
        (Status::Failed, Some(failure)) => failed_by(&record.events, seq, failure)
            .map_err(|other| format!("{id} failed, but not by {name}: {other}"))?,
        (Status::Failed, None) => return Err(format!("{id} failed without a failure of {name}")),
        (Status::Completed, _) => {
            return Err(format!("{id} is completed: its code went on after the failure of {name}"));
        }
        (status, _) => {
            return Err(format!("{id} is {}: {name} has not failed it", status.name()));
        }
    }
    may_be_reset(asked_of, &Reset::to(ResetTo::Event(seq)), found)?;
    Ok(call)
}

/// What a run failed with.
fn run_failure(events: &[Event]) -> Option<&Failure> {
    match &events.last()?.kind {
        EventKind::RunFailed { failure, .. } => Some(failure),
        _ => None,
    }
}

/// Whether a run failed by the failure of this call; the error says by what instead. Where
/// several calls failed in the same way, the last one of them counts: those before were caught.
/// Code may add to the details of a failure, as programs do when several calls beside each other
/// fail, so a call whose failure is the same but for its details counts when there is no better
/// one.
fn failed_by(events: &[Event], seq: Seq, failure: &Failure) -> Result<(), String> {
    let last_with = |is_it: fn(&Failure, &Failure) -> bool| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::ActivityFailed(ActivityFailed { activity, failure: of, .. })
                if is_it(failure, of) =>
            {
                Some(*activity)
            }
            _ => None,
        })
    };
    match last_with(Failure::comes_from).or_else(|| last_with(comes_from_one_like)) {
        Some(last) if last == seq => Ok(()),
        Some(last) => Err(format!("call #{last} failed in the same way after it")),
        None => Err(failure.to_string()),
    }
}

/// True when it is like another failure in all but its details, or was caused by one that is.
fn comes_from_one_like(failure: &Failure, other: &Failure) -> bool {
    let is_like = |it: &Failure| {
        (it.kind, &it.type_name, &it.code, &it.message)
            == (other.kind, &other.type_name, &other.code, &other.message)
    };
    std::iter::successors(Some(failure), |it| it.cause.as_ref()).any(is_like)
}

/// The records of the turn that made a call, from that call on.
fn of_turn(events: &[Event], call: Seq) -> impl Iterator<Item = &Event> {
    let from = events.iter().skip_while(move |event| event.seq < call);
    from.take_while(|event| !event.kind.is_input())
}

/// What the next run has of one whose call is redriven.
fn kept_keys(first: &RunStarted, record: &RunRecord, redrive: &RedriveCall) -> Lineage {
    let (run, seq) = (record.instance.run, redrive.call);
    let mut lineage = first.lineage.before(run, seq);
    for event in of_turn(&record.events, seq) {
        if let EventKind::ActivityScheduled(call) = &event.kind
            && !(redrive.new_key && event.seq == seq)
        {
            let key_run = first.lineage.run_of_call(run, event.seq, &call.name);
            lineage.keep(event.seq, &call.name, key_run);
        }
    }
    lineage
}

/// Calls that were made in later turns, for people.
fn later_calls(events: &[Event], call: Seq) -> String {
    let end = of_turn(events, call).last().map_or(call, |event| event.seq);
    let names: Vec<String> = events
        .iter()
        .filter(|event| event.seq > end)
        .filter_map(|event| match &event.kind {
            EventKind::ActivityScheduled(call) => Some(format!("{}#{}", call.name, event.seq)),
            _ => None,
        })
        .collect();
    match names.len() {
        0 => String::new(),
        many => {
            let named = names[..many.min(NAMED)].join(", ");
            let more = match many.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "; what it called after that has new keys when it calls it again: {named}{more}"
            )
        }
    }
}
