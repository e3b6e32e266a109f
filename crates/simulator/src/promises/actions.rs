//! What is promised about what operators do.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::action::Action;
use resurgam_core::event::ActivityCompleted;
use resurgam_core::retry::{Reason, RecordedWhy, RetryPolicy};
use resurgam_core::{CallKey, RunKey, Uid};
use resurgam_store::model::Model;
use resurgam_store::rows::{ActionRow, MessageRow, TaskRow};
use resurgam_store::{InstanceWrite, Step};

use super::Promises;
use crate::operators::Wanted;
use crate::program::{BY_HAND, FALLBACK};

/// What operators have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionsSeen {
    /// Actions that were carried out or refused, by their instance and id.
    pub(super) done: BTreeMap<(Uid, String), ActionRow>,
    /// Actions on instances that were acknowledged.
    acknowledged: BTreeSet<(Uid, String)>,
    /// What instances were restarted as, by instance and request.
    restarted: BTreeMap<(Uid, String), Uid>,
}

impl ActionsSeen {
    /// An instance is restarted as this one; another one that the same request restarted it as.
    pub(super) fn restarts(&mut self, of: Uid, request: &str, uid: Uid) -> Option<Uid> {
        let before = self.restarted.insert((of, request.to_string()), uid);
        before.filter(|before| *before != uid)
    }
}

impl Promises {
    /// The actions that changed something.
    pub(crate) fn actions_that_changed_something(&self) -> impl Iterator<Item = &Action> {
        let changed = self.actions.done.values().filter(|row| row.answer.changed);
        changed.map(|row| &row.request.action)
    }

    /// What operators did is in the database, with what it changed.
    pub(super) fn actions_written(&mut self, step: &Step) {
        for row in &step.actions {
            // An instance that another one was restarted as has the action as well.
            let is_new = matches!(&step.instance, Some(InstanceWrite::Insert { row: new, .. })
                if new.uid == row.call.run.uid);
            if !is_new {
                self.acted_for_job(row);
            }
            self.answered_once(row);
            let is_empty = step.events.is_empty()
                && step.instance.is_none()
                && step.policies.is_empty()
                && step.tasks.is_empty()
                && step.messages.iter().all(|write| !is_result(write));
            let uid = row.call.run.uid;
            match row.answer.changed {
                true if is_empty => {
                    let what = format!("action {} is said to change something", row.request.id);
                    self.breaks(uid, format!("{what}, and changes nothing"));
                }
                true => self.acted(row),
                false => {}
            }
        }
    }

    /// The first answer of an action is the one that is kept: whoever comes to it once more changes
    /// nothing.
    fn answered_once(&mut self, row: &ActionRow) {
        let (uid, id) = (row.call.run.uid, &row.request.id);
        match self.actions.done.get(&(uid, id.clone())) {
            None => {
                self.actions.done.insert((uid, id.clone()), row.clone());
            }
            Some(before) if row.answer.changed => {
                let what = match before.answer.changed {
                    true => "was carried out twice",
                    false => "was carried out after it had been refused",
                };
                self.breaks(uid, format!("action {id} on call {} {what}", row.call));
            }
            Some(_) => {}
        }
    }

    /// What an action allows from now on.
    fn acted(&mut self, row: &ActionRow) {
        // A call that another policy holds for since is decided about again, which may be sooner.
        let is_decided_again = self.is_clock_in_doubt || self.policies_change();
        let call = self.calls.entry(row.call).or_default();
        match &row.request.action {
            Action::Retry { reset, due } => {
                call.due = due.filter(|_| !is_decided_again);
                call.failures = if *reset { 0 } else { call.failures };
            }
            Action::Resume { reset, due } => {
                call.failures = if *reset { 0 } else { call.failures };
                call.due = call.due.filter(|_| due.is_none());
            }
            Action::Complete { value, .. } => call.by_hand = Some(value.clone()),
            Action::Fail { .. } => call.failed_by_hand = true,
            Action::SetPolicy { policy } => {
                call.due = None;
                call.policies.extend(RetryPolicy::from_stored(policy).ok());
            }
            Action::Pause { .. }
            | Action::PauseWithRun
            | Action::ResumeWithRun
            | Action::PauseRun { .. }
            | Action::ResumeRun
            | Action::Restart
            | Action::Reset(_)
            | Action::Redrive(_)
            | Action::RedriveAsNew
            | Action::Discard => {}
        }
    }

    /// A task is written: nobody claims what was paused.
    pub(super) fn pause_written(&mut self, row: &TaskRow, is_claimed: bool) {
        let is_paused = row.progress.paused.is_some();
        let call = self.calls.entry(row.call).or_default();
        let was_paused = std::mem::replace(&mut call.paused, is_paused);
        let (uid, key) = (row.call.run.uid, row.call);
        if was_paused && is_claimed && !row.progress.to_end {
            self.breaks(uid, format!("attempt {} of call {key}, which is paused", row.attempt));
        }
        if is_paused && row.claim.is_none() && row.wake_at != TaskRow::NEVER {
            self.breaks(uid, format!("call {key} is paused, and due at {}", row.wake_at));
        }
    }

    /// Whether a call was completed without an attempt: by an operator, or by its policy.
    pub(super) fn is_completed_otherwise(
        &mut self,
        key: CallKey,
        completed: &ActivityCompleted,
    ) -> bool {
        let call = self.calls.entry(key).or_default();
        let number = completed.result.decode::<(u32, u32)>().ok().map(|(_, number)| number);
        let is_by_hand = call.by_hand.as_ref() == Some(&completed.result);
        match number {
            Some(BY_HAND) if !is_by_hand => {
                let what = format!("call {key} was completed by an operator, and nobody did that");
                self.breaks(key.run.uid, what);
                true
            }
            Some(BY_HAND) => true,
            Some(FALLBACK) if !completed.fallback => {
                let what = format!("call {key} fell back to a value, and does not say so");
                self.breaks(key.run.uid, what);
                true
            }
            Some(FALLBACK) => true,
            _ => false,
        }
    }

    /// A call failed: an operator is named only where one did that.
    pub(super) fn failed_for(&mut self, key: CallKey, why: &str) {
        let is_by_hand = self.calls.entry(key).or_default().failed_by_hand;
        if RecordedWhy::read(why).stopped == Some(Reason::Operator) && !is_by_hand {
            let what = format!("call {key} was failed by an operator, and nobody did that");
            self.breaks(key.run.uid, what);
        }
    }

    /// An operator is told that what they want is stored: it is, or it is answered, or it came too
    /// late.
    pub(crate) fn action_acknowledged(&mut self, model: &Model, wanted: &Wanted) {
        let RunKey { uid, run } = wanted.call.run;
        let id = &wanted.request.id;
        let Some(row) = model.instance(uid) else { return };
        let message = MessageRow::action_id(id);
        let is_stored = model.messages(uid).iter().any(|row| row.id == message);
        let is_on_run = wanted.request.action.is_on_run();
        if is_on_run {
            self.actions.acknowledged.insert((uid, id.clone()));
        }
        if !is_stored
            && model.action(uid, id).is_none()
            && (is_on_run || row.run == run && !row.status.is_closed())
        {
            self.breaks(uid, format!("action {id} was acknowledged, and it is not there"));
        }
    }

    /// Everything is over: what somebody asked of an instance is answered.
    pub(super) fn actions_at_the_end(&mut self, model: &Model) {
        for (uid, id) in self.actions.acknowledged.clone() {
            if model.instance(uid).is_some() && model.action(uid, &id).is_none() {
                self.breaks(uid, format!("action {id} was acknowledged, and never answered"));
            }
        }
    }
}

/// Whether a call ends with a message.
fn is_result(write: &resurgam_store::MessageWrite) -> bool {
    use resurgam_store::MessageWrite::{Insert, InsertIfOpen};
    let (Insert(row) | InsertIfOpen(row)) = write else { return false };
    matches!(row.body, resurgam_store::rows::Message::Result { .. })
}
