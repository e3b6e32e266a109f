//! Writing down what a turn asks for: each command becomes an event, and rows and effects with it.

use resurgam_core::command::{
    ActivityCall, ChildCall, Command, CommandKind, DEFAULT_QUEUE, Hear, Settings,
};
use resurgam_core::event::{Carried, Compensation, ParentClose};
use resurgam_core::retry::{NO_TIMEOUTS, Timeouts};
use resurgam_core::turn::Blocked;
use resurgam_core::{CallKey, Event, EventKind, Failure, Seq, Timestamp, Uid};
use resurgam_store::rows::{InstanceRow, KvRow};
use resurgam_store::{ChildStart, InstanceWrite, MessageWrite, Replaces, TaskWrite};

use super::continuation::Handover;
use super::draft::Draft;
use super::hot_run::HotRun;
use crate::handle::Outcome;
use crate::node::Node;
use crate::node::calls::claim::Caller;
use crate::node::message::{child_message, end_message, start_message, timer_id, timer_message};
use crate::node::news::cancelled_call;
use crate::node::steps::effect::Effect;

/// Why a workflow's policy is refused that wants something else than that the run fails.
const ONLY_FAILS: &str = "on_exhausted: a workflow's policy knows \"fail\" only; the others are for \
                          activities";

impl Node {
    /// Writes down what a turn asks for.
    pub(crate) fn record(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        commands: Vec<Command>,
        at: Timestamp,
    ) -> Result<(), Blocked> {
        for Command { seq, mut kind } in commands {
            self.fill_in(run, seq, &mut kind);
            let record = kind.record();
            self.check_size(&record)?;
            draft.step.events.push((run.key, Event { seq, at, kind: record }));
            self.carry_out(run, draft, seq, kind, at)?;
        }
        Ok(())
    }

    /// Adds to the step what a command means beside its event: rows, and effects.
    fn carry_out(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        seq: Seq,
        kind: CommandKind,
        at: Timestamp,
    ) -> Result<(), Blocked> {
        match kind {
            CommandKind::ScheduleActivity(call) => {
                self.schedule_activity(run, draft, seq, call, at)?;
            }
            CommandKind::CancelActivity { activity, hear } => {
                self.cancel_activity(run, draft, activity, hear);
            }
            // They are in the history, and in the memory of the run.
            CommandKind::RecordCompensation { .. } | CommandKind::MarkVersion { .. } => {}
            CommandKind::StartChild(child) => {
                self.check_child(&child)?;
                start_child(run, seq, *child, at, draft);
            }
            CommandKind::CancelChild { child, terminate } => {
                end_child(run, child, terminate, draft);
            }
            CommandKind::StartTimer { fire_at } => {
                draft.keep_message(run, timer_message(run.key, seq, fire_at));
            }
            CommandKind::CancelTimer { timer } => cancel_timer(run, timer, draft),
            CommandKind::SetStatus { value } => {
                let uid = run.key.uid;
                draft.step.kv.push(KvRow { uid, key: KvRow::STATUS.to_string(), value });
            }
            CommandKind::SetKv { key, value } => {
                draft.step.kv.push(KvRow { uid: run.key.uid, key, value });
            }
            CommandKind::Complete { result } => {
                self.close(run, draft, Outcome::Completed(result), None, at);
            }
            CommandKind::Fail { failure, compensation, carried } => {
                self.fail(run, draft, failure, compensation, *carried, at);
            }
            CommandKind::EndCancelled { failure, compensation, terminated } => {
                let outcome = match terminated {
                    true => Outcome::Terminated(failure),
                    false => Outcome::Cancelled(failure),
                };
                self.close(run, draft, outcome, compensation, at);
            }
            CommandKind::ContinueAsNew { input, carried } => {
                let continued = Handover::by_workflow(run, input, *carried, at);
                self.next_run(run, draft, continued, at);
            }
        }
        Ok(())
    }

    /// Adds the task of a new call to the step.
    pub(crate) fn schedule_activity(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        seq: Seq,
        call: ActivityCall,
        at: Timestamp,
    ) -> Result<(), Blocked> {
        run.open_calls.insert(seq);
        let (key, name) = (run.key.call(seq), call.name.clone());
        let lineage = &run.info.lineage;
        let mut caller = Caller::new(&run.id, run.info.priority).due(lineage.due(seq, at));
        let key_run = lineage.run_of_call(run.key.run, seq, &name);
        if key_run != run.key.run {
            caller = caller.of_run(key_run);
        }
        let scheduled = self
            .schedule_call(key, call, caller, at)
            .map_err(|error| Blocked::Unreadable(format!("the retry policy of {name}: {error}")))?;
        if self.leaves(scheduled.task()) {
            run.left_to_others.insert(seq);
        }
        scheduled.add_to(&mut draft.step, &mut draft.effects);
        Ok(())
    }

    /// The workflow no longer wants a call, or wants to hear only how it ended.
    fn cancel_activity(&mut self, run: &mut HotRun, draft: &mut Draft, activity: Seq, hear: Hear) {
        if hear == Hear::Nothing {
            // One that ended while the run could not take notice has no task any more.
            if run.open_calls.remove(&activity) {
                self.cancel_call(run.key.call(activity), draft);
            }
        } else if run.open_calls.contains(&activity) {
            self.settle_call(run, activity, hear, draft);
        }
    }

    /// The run has failed: another one follows, or the instance ends.
    fn fail(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        mut failure: Failure,
        compensation: Option<Compensation>,
        carried: Carried,
        at: Timestamp,
    ) {
        if let Some(delay) = Node::snoozes(run, &failure, compensation, at) {
            let snoozed = Handover::after_snooze(run, delay, carried);
            return self.next_run(run, draft, snoozed, at);
        }
        match self.tries_again(run, &failure, compensation, at) {
            Some(delay) => {
                let next = Some(at.saturating_add(delay));
                self.log_run(&run.id, &run.info.workflow, &failure, next);
                let failed = Handover::after_failure(run, failure, delay, carried);
                self.next_run(run, draft, failed, at);
            }
            None => {
                // It is not run again, and who hears of its failure must not be either.
                failure.snooze = None;
                self.close(run, draft, Outcome::Failed(failure), compensation, at);
            }
        }
    }

    /// A value that is too large is a mistake of the code: nothing of it is written down.
    fn check_size(&self, record: &EventKind) -> Result<(), Blocked> {
        let (size, most) = (record.payload_len(), self.options.max_payload);
        let what = match record {
            _ if size <= most => return Ok(()),
            EventKind::ActivityScheduled(call) => format!("the arguments of {}", call.name),
            EventKind::CompensationRecorded { name, .. } => format!("the arguments of {name}"),
            EventKind::ChildStarted(child) => format!("the argument of {}", child.workflow),
            EventKind::RunContinued(_) => "the argument of the next run".to_string(),
            EventKind::KvSet { key, .. } => format!("the value of {key:?}"),
            EventKind::StatusSet { .. } => "the status".to_string(),
            EventKind::RunCompleted { .. } => "the result of the workflow".to_string(),
            _ => return Ok(()),
        };
        Err(Blocked::Unreadable(format!("{what}: {size} bytes, {most} are allowed")))
    }

    /// What no child can be started with is a mistake of the code, too.
    fn check_child(&mut self, child: &ChildCall) -> Result<(), Blocked> {
        if child.id.as_deref() == Some("") {
            let error =
                format!("the id of a {} to start: an empty id is not allowed", child.workflow);
            return Err(Blocked::Unreadable(error));
        }
        self.refuses_settings(&child.settings).map_err(|error| {
            Blocked::Unreadable(format!("the retry policy of {}: {error}", child.workflow))
        })
    }

    /// The error says why a workflow's policy makes no sense.
    pub(crate) fn refuses_settings(&mut self, settings: &Settings) -> Result<(), String> {
        match &settings.retry {
            Some(policy) => match &self.policies.parse(policy)?.checked {
                policy if !policy.only_fails() => Err(ONLY_FAILS.to_string()),
                policy if policy.timeouts == Timeouts::default() => Ok(()),
                _ => Err(NO_TIMEOUTS.to_string()),
            },
            None => Ok(()),
        }
    }

    /// What a command leaves open: a call that names no queue goes to its activity's, or else to
    /// its instance's; one that names no gate is behind its activity's; a child
    /// without an id is called after its parent.
    fn fill_in(&self, run: &HotRun, seq: Seq, kind: &mut CommandKind) {
        match kind {
            CommandKind::ScheduleActivity(call) => {
                let activity = self.registry.activity(&call.name);
                if call.options.queue.is_none() {
                    let queue = activity.as_ref().and_then(|found| found.options.queue.clone());
                    let own = Some(&run.info.queue).filter(|queue| *queue != DEFAULT_QUEUE);
                    call.options.queue = queue.or_else(|| own.cloned());
                }
                if call.options.gate.is_none() {
                    call.options.gate = activity.map(|activity| activity.gate_of(&call.input));
                }
            }
            // That ends the run, so no replay compares it with what the code says.
            CommandKind::Fail { failure, .. } | CommandKind::EndCancelled { failure, .. } => {
                *failure = std::mem::take(failure).bounded();
            }
            CommandKind::StartChild(child) => {
                child.id.get_or_insert_with(|| child_id(run, seq));
            }
            _ => {}
        }
    }

    /// The workflow no longer wants a call's result, but wants to hear how it ended.
    fn settle_call(&mut self, run: &mut HotRun, activity: Seq, hear: Hear, draft: &mut Draft) {
        let (key, in_grace) = (run.key.call(activity), hear == Hear::End);
        let transacting = self.memory.transactions.is_under_way(key);
        let begun = self.memory.calls.get_mut(key).filter(|call| call.is_claimed());
        let Some(call) = begun else {
            if let Some(task) = run.elsewhere.get_mut(&activity) {
                // Its node tells how it ended, or is found to be gone.
                task.progress.cancelled = true;
                task.progress.in_grace = in_grace;
                return draft.step.tasks.push(TaskWrite::Amend(task.clone()));
            }
            // On a store of one node nobody else could have claimed it. One that is about to leave
            // memory is with the others as soon as it is stored.
            let call = self.memory.calls.get(key);
            let is_leaving = call.is_some_and(|call| self.leaves(call.task()));
            if self.is_shared && (is_leaving || run.left_to_others.contains(&activity)) {
                return draft.effects.push(Effect::SettleShared(key));
            }
            // No attempt runs, and those before have failed: it cannot have taken effect.
            let attempt = self.memory.calls.get(key).map_or(0, |call| call.task().attempt);
            run.open_calls.remove(&activity);
            self.cancel_call(key, draft);
            return run.settled.push_back(cancelled_call(activity, attempt));
        };
        call.is_cancelled(true, in_grace);
        draft.effects.push(Effect::Tell(key));
        let of_this_step = draft.step.tasks.iter_mut().find_map(|write| match write {
            TaskWrite::Insert(row) if row.call == key => Some(row),
            _ => None,
        });
        match of_this_step {
            Some(row) => row.progress = call.task().progress.clone(),
            // It may be over by now, with a result that this run has not heard of yet.
            None if transacting => draft.step.tasks.push(TaskWrite::Amend(call.task().clone())),
            None => draft.step.tasks.push(TaskWrite::Update(call.task().clone())),
        }
    }

    /// The workflow no longer wants a call's result.
    pub(super) fn cancel_call(&mut self, key: CallKey, draft: &mut Draft) {
        // A call of this same step is not stored yet: it is taken back.
        let fresh = |write: &TaskWrite| matches!(write, TaskWrite::Insert(row) if row.call == key);
        let of_this_step = draft.step.events.first().is_some_and(|(_, first)| key.seq > first.seq);
        let inserted = if of_this_step { draft.step.tasks.iter().position(fresh) } else { None };
        match inserted {
            Some(place) => {
                draft.step.tasks.remove(place);
                draft.effects.retain(|effect| !effect.is_about(key));
                self.forget_call(key);
            }
            // It may have ended meanwhile, with an outcome that nobody wants.
            None => {
                draft.delete_task(key, TaskWrite::Discard);
                draft.effects.extend(self.give_up_call(key));
            }
        }
    }

    /// Ends the instance: nothing of it stays open.
    fn close(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        outcome: Outcome,
        compensation: Option<Compensation>,
        at: Timestamp,
    ) {
        if let Outcome::Failed(failure) = &outcome {
            self.log_run(&run.id, &run.info.workflow, failure, None);
        }
        self.end_run(run, draft);
        if let Some(parent) = run.info.parent {
            let news = child_message(parent, outcome.for_parent(parent.seq));
            draft.step.messages.push(MessageWrite::InsertIfOpen(news));
            draft.effects.push(Effect::Wake(parent.run.uid));
        }
        draft.step.instance = Some(InstanceWrite::Status {
            uid: run.key.uid,
            status: outcome.status(),
            outcome: Some(outcome.to_payload()),
            compensation,
            error: None,
            closed_at: Some(at),
        });
        draft.effects.extend(run.info.schedule.clone().map(Effect::ScheduleMayGoOn));
        draft.effects.push(Effect::Finished(run.key.uid, outcome));
    }
}

/// The id of a child that was given none.
fn child_id(run: &HotRun, seq: Seq) -> String {
    match run.key.run {
        1 => format!("{}/{seq}", run.id),
        number => format!("{}/{number}.{seq}", run.id),
    }
}

/// Takes a timer back.
fn cancel_timer(run: &mut HotRun, timer: Seq, draft: &mut Draft) {
    let (uid, id) = (run.key.uid, timer_id(run.key, timer));
    run.pending_messages.remove(&id);
    draft.step.messages.push(MessageWrite::Delete { uid, id });
}

/// Starts an instance together with the step that asks for it.
fn start_child(run: &mut HotRun, seq: Seq, child: ChildCall, at: Timestamp, draft: &mut Draft) {
    let ChildCall { id, workflow, input, parent_close, mut settings } = child;
    let id = id.unwrap_or_default();
    let uid = Uid::of_child(run.key, seq, &id);
    run.children.insert(seq, uid);
    let detached = parent_close == ParentClose::Detached;
    settings.parent_close = Some(parent_close).filter(|_| !detached);
    let mut row = InstanceRow::new(uid, id, workflow, input, at);
    row.queue.clone_from(&run.info.queue);
    row.priority = run.info.priority;
    row.parent = (!detached).then(|| run.key.call(seq));
    row.settings = settings;
    let taken = format!("start {}: an instance of the id {:?} exists", row.workflow, row.id);
    let taken = Failure::terminal(taken).with_type("AlreadyExists");
    let refused = EventKind::ChildFailed { child: seq, failure: taken };
    draft.step.child_starts.push(ChildStart {
        // The child of an earlier instance of the parent's id may have had the same.
        replaces: match row.id == child_id(run, seq) {
            true => Replaces::Closed,
            false => Replaces::Nobody,
        },
        start: start_message(uid),
        otherwise: Some(child_message(run.key.call(seq), refused)),
        row,
    });
    draft.effects.push(Effect::Wake(uid));
    draft.effects.push(Effect::Wake(run.key.uid));
}

/// Has a child end.
fn end_child(run: &HotRun, child: Seq, terminate: bool, draft: &mut Draft) {
    let Some(uid) = run.children.get(&child).copied() else { return };
    let reason = "the workflow that started it ended it".to_string();
    let row = end_message(uid, terminate, reason);
    draft.step.messages.push(MessageWrite::InsertIfOpen(row));
    draft.effects.push(if terminate { Effect::WakeToEnd(uid) } else { Effect::Wake(uid) });
}
