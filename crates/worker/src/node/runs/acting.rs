//! What operators do to runs.
//!
//! |           | running, blocked          | paused                   | closed              |
//! |-----------|---------------------------|--------------------------|---------------------|
//! | `pause`   | takes no turn from now on | refused                  | refused             |
//! | `resume`  | refused                   | goes on                  | refused             |
//! | `restart` | refused                   | refused                  | begins again        |
//! | `reset`   | goes on from before       | goes on from before      | goes on from before |
//! | `redrive` | refused                   | refused                  | goes on from before |
//! | cancel    | hears of it               | goes on, and hears of it | refused             |
//! | terminate | ends                      | goes on, and ends        | refused             |
//!
//! An action comes as a message (`calls/action.rs`). The run is brought to rest (`resting.rs`), so
//! that what was read of it is all there is, and one step changes it, removes the message and keeps
//! the action with its answer.
//!
//! While a run is paused its own timeouts stand still: their messages are moved when it goes on.
//! Timers go on, and those that fired meanwhile are taken then. Its calls go on too, unless they
//! are paused with it: each of them is asked by a message of its own, stored with the pause, and
//! those go on with the run and no others.

use std::time::Duration;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::command::Settings;
use resurgam_core::{EventKind, RunKey, Seq, Uid};
use resurgam_store::rows::{
    ActionRequest, ActionRow, InstanceRow, Message as StoredMessage, MessageRow, Pause, RunPause,
    RunRecord, Status, TaskRow,
};
use resurgam_store::{InstanceWrite, MessageWrite, Replaces, Step};

use super::acts::RunAct;
use super::paused_run::{Look, PausedRun};
use super::reset::ResetRun;
use crate::node::Node;
use crate::node::input::{ActedOn, PausedInstance};
use crate::node::message::{end_report, now_due, start_message};
use crate::node::pending_action::PendingAction;
use crate::node::steps::effect::Effect;
use crate::node::steps::refusal::Refusal;

impl Node {
    /// An operator acts on a run: the run is brought to rest first.
    pub(crate) fn act_on_run(&mut self, asked: PendingAction) {
        let uid = asked.run().uid;
        self.act_at_rest(uid, RunAct::Asked(Box::new(asked)));
    }

    fn act_at_rest(&mut self, uid: Uid, act: RunAct) {
        // Its message stays for the next holder of the shard.
        if !self.owns(uid) {
            return;
        }
        self.memory.runs.acted_on.entry(uid).or_default().add(act);
        self.bring_to_rest(uid);
    }

    /// A run that is acted on was read: one step does what is asked for, or says why not.
    pub(crate) fn run_to_act_on(&mut self, uid: Uid, found: Result<Option<Box<ActedOn>>, String>) {
        let acts = self.memory.runs.acted_on.get_mut(&uid);
        let Some(act) = acts.and_then(|acts| acts.take_first()) else { return };
        match (act, found) {
            (RunAct::Asked(asked), Ok(Some(found))) => self.carry_out_on_run(*asked, *found),
            (RunAct::Asked(asked), Ok(None)) => self.drop_action(uid, *asked),
            (RunAct::Asked(asked), Err(error)) => {
                let why = format!("the run cannot be read: {error}");
                self.answer_on_run(*asked, Err(why));
            }
            (RunAct::ResumeToEnd, Ok(Some(found))) => match found.record.instance.status {
                Status::Paused => {
                    let (step, effects) = self.resume(&found.record, None);
                    self.outbox.push(step, effects);
                }
                _ => self.outbox.after(uid, Effect::RunActed(uid)),
            },
            (RunAct::ResumeToEnd, _) => self.outbox.after(uid, Effect::RunActed(uid)),
        }
    }

    fn carry_out_on_run(&mut self, asked: PendingAction, found: ActedOn) {
        let record = &found.record;
        let done = match &asked.request.action {
            Action::PauseRun { calls } => self.pause(record, &asked.request, *calls),
            Action::ResumeRun => self.resume_asked(record, &asked.request),
            Action::Restart => return self.restart(asked, found),
            Action::Reset(reset) => match self.reset_run(asked.run(), reset, &found) {
                Ok(reset) => return self.store_reset(asked, reset),
                Err(why) => Err(why),
            },
            Action::Redrive(redrive) => {
                match self.redrive_run(asked.run(), redrive, &asked.request, &found) {
                    Ok(reset) => return self.store_reset(asked, reset),
                    Err(why) => Err(why),
                }
            }
            _ => Err("nothing of this kind is done to runs".to_string()),
        };
        self.answer_on_run(asked, done);
    }

    /// The next run of an instance begins, unless the store refuses that.
    fn store_reset(&mut self, asked: PendingAction, reset: ResetRun) {
        let ResetRun { run, text, step, mut effects } = reset;
        effects.insert(0, Effect::ActsOnRun(Box::new(asked.clone())));
        // Whoever looks at the instance sees its new run.
        self.answer_on_run(asked.on_run(run), Ok(Done { text, step, effects }));
    }

    /// A closed instance begins again: another one takes over its id.
    fn restart(&mut self, asked: PendingAction, found: ActedOn) {
        if let Some(why) = refuses_restart(&found) {
            return self.answer_on_run(asked, Err(why));
        }
        let before = found.record.instance;
        let of = before.uid;
        let uid = self.random.uid(&before.id, self.now);
        let mut row =
            InstanceRow::new(uid, before.id, before.workflow, found.first_input, self.now);
        row.queue = before.queue;
        row.priority = before.priority;
        row.tags = before.tags;
        // It begins now, and is nobody's child.
        row.settings = Settings { delay_ms: None, parent_close: None, ..before.settings };
        let text = format!("restarted {}", row.id);
        let action = ActionRow {
            call: RunKey::first(uid).call(Seq::RUN),
            at: self.now,
            request: asked.request.clone(),
            answer: ActionAnswer::done(&text),
        };
        let step = Step {
            instance: Some(InstanceWrite::Insert {
                row: Box::new(row),
                replaces: Replaces::Only(of),
            }),
            messages: vec![MessageWrite::Insert(start_message(uid))],
            // Whoever asks again by the id finds the new one.
            actions: vec![action],
            ..Step::default()
        };
        let acts = Effect::ActsOnRun(Box::new(asked.clone()));
        let effects = vec![acts, Effect::RunActed(of), Effect::Wake(uid)];
        self.push_action(asked, ActionAnswer::done(text), step, effects);
    }

    /// The store did not take a step by which an instance was to begin again, or to go on.
    pub(crate) fn run_act_refused(&mut self, asked: PendingAction, refusal: &Refusal) {
        let why = match refusal {
            // Somebody else settled the letter, took the id over, or deleted the instance: what it
            // was is known when it is read again.
            Refusal::Missed | Refusal::Duplicate => return self.act_on_run(asked),
            refusal => format!("the store refused it: {refusal}"),
        };
        self.answer_on_run(asked, Err(why));
    }

    /// Stores what came of an action on a run.
    fn answer_on_run(&mut self, asked: PendingAction, done: Result<Done, String>) {
        let uid = asked.run().uid;
        match done {
            Ok(Done { text, step, effects }) => {
                self.push_action(asked, ActionAnswer::done(text), step, effects);
            }
            Err(why) => {
                let acted = [Effect::RunActed(uid)];
                self.push_action(asked, ActionAnswer::refused(why), Step::default(), acted);
            }
        }
    }

    /// The instance is gone, and what somebody asked of it with it.
    fn drop_action(&mut self, uid: Uid, asked: PendingAction) {
        let (mut step, mut effects) = (Step::default(), vec![Effect::RunActed(uid)]);
        end_report(uid, Some(asked.message), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// What was done to a run is durable, or the store refused it: the run goes on, unless it is
    /// paused.
    pub(crate) fn run_acted(&mut self, uid: Uid) {
        let Some(acts) = self.memory.runs.acted_on.get_mut(&uid) else { return };
        if acts.done() {
            return self.bring_to_rest(uid);
        }
        self.memory.runs.acted_on.remove(&uid);
        self.load_run(uid);
    }

    /// A paused instance was looked at.
    pub(crate) fn paused_run(
        &mut self,
        uid: Uid,
        found: Result<Option<Box<PausedInstance>>, String>,
    ) {
        let Some(paused) = self.memory.runs.paused.get_mut(&uid) else { return };
        let found = found.unwrap_or_else(|error| {
            tracing::error!(instance = %uid, "a paused instance cannot be read: {error}");
            None
        });
        let Some(found) = found else {
            self.memory.runs.paused.remove(&uid);
            return;
        };
        let (look, again) = paused.looked_at(&found.messages);
        if found.row.status != Status::Paused {
            self.memory.runs.paused.remove(&uid);
            return self.load_run(uid);
        }
        match look {
            Look::End => return self.act_at_rest(uid, RunAct::ResumeToEnd),
            Look::Messages => {
                let step = Step { messages: vec![MessageWrite::Park(uid)], ..Step::default() };
                self.outbox.push(step, vec![Effect::Wake(uid)]);
            }
            Look::NothingNew => {}
        }
        if again {
            self.look_at_paused(uid);
        }
    }

    /// The run takes no turn until somebody resumes it.
    fn pause(
        &mut self,
        record: &RunRecord,
        request: &ActionRequest,
        calls: bool,
    ) -> Result<Done, String> {
        let (row, key) = (&record.instance, record.key());
        match row.status {
            Status::Paused => return Err(format!("{} is paused; it stays so", row.id)),
            status if status.is_closed() => return Err(nothing_to("pause", row)),
            _ => {}
        }
        let pause = RunPause {
            since: Some(self.now),
            by: Some(request.by.clone()),
            reason: request.reason.clone(),
            calls,
            ..row.pause.clone()
        };
        let open = record.tasks.iter().filter(|task| calls && can_be_paused(task));
        let asked: Vec<MessageWrite> =
            open.map(|task| with_run(key, task, request, Action::PauseWithRun)).collect();
        let text = match asked.len() {
            0 => format!("paused {}", row.id),
            1 => format!("paused {} and its open call", row.id),
            many => format!("paused {} and its {many} open calls", row.id),
        };
        let instance = InstanceWrite::Pause { uid: row.uid, status: Status::Paused, pause };
        let mut step = Step { instance: Some(instance), ..Step::default() };
        step.messages.push(MessageWrite::Park(row.uid));
        step.messages.extend(asked);
        self.memory.runs.blocked.remove(&row.uid);
        self.memory.runs.paused.insert(row.uid, PausedRun::default());
        Ok(Done { text, step, effects: acted(row.uid) })
    }

    fn resume_asked(
        &mut self,
        record: &RunRecord,
        request: &ActionRequest,
    ) -> Result<Done, String> {
        let row = &record.instance;
        if row.status != Status::Paused {
            return Err(nothing_to("resume", row));
        }
        let since = row.pause.since.unwrap_or(self.now);
        let after = resurgam_core::duration::Human(self.now.since(since));
        let text = format!("resumed {} after {after}", row.id);
        let (step, effects) = self.resume(record, Some(request));
        Ok(Done { text, step, effects })
    }

    /// A paused run goes on.
    fn resume(
        &mut self,
        record: &RunRecord,
        request: Option<&ActionRequest>,
    ) -> (Step, Vec<Effect>) {
        let (row, key) = (&record.instance, record.key());
        let pause = row.pause.resumed(self.now);
        let stood_still = pause.stood_still().saturating_sub(row.pause.stood_still());
        let instance = InstanceWrite::Pause { uid: row.uid, status: Status::Running, pause };
        let mut step = Step { instance: Some(instance), ..Step::default() };
        step.messages.push(MessageWrite::Unpark(row.uid));
        for message in record.messages.iter().filter(|message| is_deadline(message, key)) {
            step.messages.extend(moved(message, stood_still));
        }
        let own = ActionRequest {
            id: format!("resumed/{}", self.random.name(self.now)),
            by: "resurgam".to_string(),
            reason: Some("somebody wants the run to end".to_string()),
            action: Action::ResumeRun,
        };
        let request = request.unwrap_or(&own);
        let calls = record.tasks.iter().filter(|task| goes_on_with_run(task, record));
        step.messages.extend(calls.map(|task| with_run(key, task, request, Action::ResumeWithRun)));
        self.memory.runs.paused.remove(&row.uid);
        (step, acted(row.uid))
    }
}

/// What an action on a run comes to.
struct Done {
    text: String,
    step: Step,
    effects: Vec<Effect>,
}

/// What follows when an action on a run is durable. Calls may have been asked for something.
fn acted(uid: Uid) -> Vec<Effect> {
    vec![Effect::RunActed(uid), Effect::Reported(uid)]
}

/// Why an instance does not begin again.
fn refuses_restart(found: &ActedOn) -> Option<String> {
    let row = &found.record.instance;
    let id = &row.id;
    if !row.status.is_closed() {
        return Some(format!("{id} is {}; only what is closed is restarted", row.status.name()));
    }
    if !found.is_current {
        return Some(format!("the id {id} was taken over by a later start; restart that one"));
    }
    let parent = found.parent.as_ref().filter(|parent| !parent.status.is_closed())?;
    Some(format!(
        "{id} was started by {0}, which is open and was told how it ended; restart it when {0} is \
         closed, or reset {0}",
        parent.id
    ))
}

fn nothing_to(verb: &str, row: &InstanceRow) -> String {
    format!("{} is {}; nothing to {verb}", row.id, row.status.name())
}

/// True when a call that is open can be paused, and is not.
fn can_be_paused(task: &TaskRow) -> bool {
    let progress = &task.progress;
    !progress.cancelled && progress.paused.is_none() && progress.pause_asked.is_none()
}

/// True when a call was paused with its run, or is about to be.
fn goes_on_with_run(task: &TaskRow, record: &RunRecord) -> bool {
    let is_with_run =
        |pause: &Option<Box<Pause>>| pause.as_ref().is_some_and(|pause| pause.with_run);
    let is_asked = |row: &MessageRow| match &row.body {
        StoredMessage::Action { run, activity, request } => {
            (*run, *activity) == (task.call.run.run, task.call.seq)
                && request.action == Action::PauseWithRun
        }
        _ => false,
    };
    let progress = &task.progress;
    is_with_run(&progress.paused)
        || is_with_run(&progress.pause_asked)
        || record.messages.iter().any(is_asked)
}

/// The message that asks a call to be paused, or to go on, with its run.
fn with_run(key: RunKey, task: &TaskRow, asked: &ActionRequest, action: Action) -> MessageWrite {
    let seq: Seq = task.call.seq;
    let request = ActionRequest { id: format!("{}/{seq}", asked.id), action, ..asked.clone() };
    let id = MessageRow::action_id(&request.id);
    let body = StoredMessage::Action { run: key.run, activity: seq, request: Box::new(request) };
    MessageWrite::Insert(now_due(key.uid, id, body))
}

/// True for the end of the time that a run has, or its instance.
fn is_deadline(row: &MessageRow, key: RunKey) -> bool {
    matches!(&row.body, StoredMessage::Result { run, event: EventKind::RunTimedOut { .. } }
        if *run == key.run)
}

/// What makes a message due later.
fn moved(row: &MessageRow, by: Duration) -> [MessageWrite; 2] {
    let (uid, id) = (row.uid, row.id.clone());
    let later = MessageRow { due_at: row.due_at.saturating_add(by), ..row.clone() };
    [MessageWrite::Delete { uid, id }, MessageWrite::Insert(later)]
}
