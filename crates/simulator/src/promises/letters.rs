//! What is promised about dead letters: each is tried again at most once, and not when somebody has
//! discarded it. Whoever tries one again has its run go on just before the call, which has its key
//! unless somebody wants another one, and begins no sooner than they want. Or its activity runs
//! once more by itself, with the same arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::action::RedriveCall;
use resurgam_core::{CallKey, Event, EventKind, RunKey, Timestamp};
use resurgam_store::model::Model;
use resurgam_store::rows::Status;
use resurgam_store::{LetterState, LetterWrite, Step};
use resurgam_worker::{redriven_id, submit};

use super::Promises;

/// What became of each dead letter.
pub(super) type LettersSeen = BTreeMap<CallKey, LetterState>;

impl Promises {
    /// How many letters were tried again, and how many were discarded.
    pub(crate) fn settled_letters(&self) -> (u64, u64) {
        let count = |state| self.letters.values().filter(|found| **found == state).count() as u64;
        (count(LetterState::Redriven), count(LetterState::Discarded))
    }

    /// A step is written that changes dead letters.
    pub(super) fn letters_written(&mut self, model: &Model, step: &Step) {
        for write in &step.letters {
            let call = write.call();
            match write {
                LetterWrite::Insert(_) => {
                    self.letters.entry(call).or_insert(LetterState::Open);
                }
                LetterWrite::Settle { state: LetterState::Redriven, settled, .. } => {
                    // In its run it goes on under the id of that.
                    let again = redriven_id(call);
                    if settled.redriven_as.as_ref() == Some(&again) {
                        self.runs_again(model, call, &again);
                    }
                    match self.letters.insert(call, LetterState::Redriven) {
                        Some(LetterState::Open) => {}
                        found => {
                            let was = found.map(LetterState::name);
                            let what = format!("the letter of call {call} is redriven");
                            self.breaks(call.run.uid, format!("{what}, and was {was:?}"));
                        }
                    }
                }
                LetterWrite::Settle { state, .. } => {
                    let open = self.letters.get_mut(&call).filter(|it| **it == LetterState::Open);
                    open.into_iter().for_each(|it| *it = *state);
                }
            }
        }
    }

    /// The activity of a letter runs once more by itself, in an instance of this id.
    fn runs_again(&mut self, model: &Model, call: CallKey, id: &str) {
        let argument = model.find(id).and_then(|row| submit::read(&row.input));
        let same = model.dead_letter(call).map(|letter| (letter.activity, letter.input));
        if argument.is_none() || argument != same {
            let what = format!("the letter of call {call} is redriven as {id}");
            self.breaks(call.run.uid, format!("{what}, which does not make that call"));
        }
        self.run_again += 1;
    }

    /// How many letters were tried again by themselves.
    pub(crate) fn letters_run_again(&self) -> u64 {
        self.run_again
    }

    /// An operator is told that the activity of a letter runs once more, or that somebody has
    /// decided about it before: it is not open.
    pub(crate) fn run_again_acknowledged(&mut self, model: &Model, call: CallKey) {
        if model.dead_letter(call).is_some_and(|letter| letter.state == LetterState::Open) {
            let what = format!("the activity of the letter of call {call} was run again");
            self.breaks(call.run.uid, format!("{what}, and the letter is open"));
        }
    }

    /// A run goes on just before a call that is tried again.
    pub(super) fn redriven(
        &mut self,
        (from, next): (RunKey, RunKey),
        redrive: &RedriveCall,
        history: &[Event],
        at: Timestamp,
    ) {
        let (uid, seq) = (from.uid, redrive.call);
        let settles = self.letters.get(&from.call(seq)) == Some(&LetterState::Redriven);
        if !settles || !self.has_ended(uid, Status::Failed.name()) {
            let what = format!("call {} is redriven", from.call(seq));
            self.breaks(uid, format!("{what}; it has no letter, or its run has not failed"));
        }
        // Those of the same turn are asked for at the same places once more.
        let turn = history.iter().skip_while(|event| event.seq < seq);
        for event in turn.take_while(|event| !event.kind.is_input()) {
            let is_call = matches!(event.kind, EventKind::ActivityScheduled(_));
            if is_call && !(redrive.new_key && event.seq == seq) {
                let before = from.call(event.seq);
                let key = self.calls.get(&before).and_then(|seen| seen.key).unwrap_or(before);
                self.calls.entry(next.call(event.seq)).or_default().key = Some(key);
            }
        }
        let delay = redrive.delay_ms.map(Duration::from_millis).filter(|_| !self.is_clock_in_doubt);
        self.calls.entry(next.call(seq)).or_default().due =
            delay.map(|delay| at.saturating_add(delay));
    }

    /// An operator is told that a letter is discarded, or was settled before: it is not open.
    pub(crate) fn discard_acknowledged(&mut self, model: &Model, call: CallKey) {
        if model.dead_letter(call).is_some_and(|letter| letter.state == LetterState::Open) {
            let what = format!("the letter of call {call} was discarded, and is open");
            self.breaks(call.run.uid, what);
        }
    }
}
