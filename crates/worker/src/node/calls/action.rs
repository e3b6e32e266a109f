//! What operators do to calls.
//!
//! |              | waits         | unregistered | runs                | settling | paused      |
//! |--------------|---------------|--------------|---------------------|----------|-------------|
//! | `retry`      | due now       | refused      | refused             | refused  | refused     |
//! | `pause`      | paused        | paused       | when it has failed  | refused  | as it is    |
//! | `resume`     | refused       | refused      | takes a pause back  | refused  | goes on     |
//! | `complete`   | ends          | ends         | ends, it is told    | undone   | ends        |
//! | `fail`       | ends          | ends         | ends, it is told    | refused  | ends        |
//! | `set_policy` | decided again | from now on  | from now on         | refused  | from now on |
//!
//! A call runs while an attempt of it does, here or elsewhere. One that is settling was given up by
//! its workflow, which waits to hear how it ended. Whether the run is blocked, or not in memory,
//! changes nothing here. While a transaction of an attempt of this node is with the store,
//! `complete` and `fail` wait until the store has decided. From an attempt that runs on another
//! node they first take the claim away: its transaction has ended the call before that, or never
//! will.
//!
//! An action comes as a message, as reports of attempts elsewhere do, and goes with the step that
//! carries it out; that step keeps it together with its answer. So it happens once, whatever
//! crashes in between. A task that another node could claim at the same time is claimed before it
//! is changed (`remote_attempts.rs`).
//!
//! A call that is paused with its run goes on with it, and by `resume` like any other. Actions on
//! runs come the same way, and are carried out in `runs/acting.rs`.

use std::sync::Arc;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::duration::Human;
use resurgam_core::event::{ActivityCompleted, ActivityFailed};
use resurgam_core::retry::{Exhausted, Reason, StopWhy};
use resurgam_core::{CallKey, EventKind, Failure, Payload, Timestamp};
use resurgam_store::rows::{ActionRequest, ActionRow, MessageRow, Pause, TaskRecord, TaskRow};
use resurgam_store::{Step, TaskWrite};

use super::attempt_result::{decide_again, failed, fitting, given_up};
use super::hot_call::HotCall;
use super::timeouts::deadline;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::message::end_report;
use crate::node::news::{News, Origin};
use crate::node::pending_action::PendingAction;
use crate::node::steps::effect::Effect;
use crate::node::steps::refusal::Refusal;
use crate::policy::{Deciding, Replaced, Resolved};

/// Where a call stands, as far as operators are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// For its time, or for a slot.
    Waits,
    /// For a process that knows its activity.
    Unregistered,
    /// An attempt is claimed, or runs.
    Runs,
    /// Its workflow gave it up and waits to hear how it ended.
    Settling,
    Paused,
}

impl Standing {
    fn of(task: &TaskRow) -> Self {
        match &task.progress {
            progress if progress.cancelled => Standing::Settling,
            _ if task.claim.is_some() => Standing::Runs,
            progress if progress.paused.is_some() => Standing::Paused,
            progress if progress.unregistered => Standing::Unregistered,
            _ => Standing::Waits,
        }
    }
}

/// What an action comes to.
enum Change {
    /// The next attempt is due now, or when it says.
    Due {
        reset: bool,
        due: Option<Timestamp>,
    },
    Paused(Pause),
    /// The call is paused when the attempt that runs has failed.
    PauseAsked(Pause),
    PauseTakenBack,
    Resumed {
        reset: bool,
        due: Option<Timestamp>,
    },
    /// The call ends with this.
    Ends(EndsWith),
    /// Another policy decides from now on.
    Policy(Arc<Resolved>),
}

/// What an action comes to, by the table above; the error says why it changes nothing.
fn change(
    call: &HotCall,
    asked: &ActionRequest,
    policy: impl FnOnce(&str) -> Result<Arc<Resolved>, String>,
    check: impl FnOnce(&Payload) -> Result<(), String>,
) -> Result<Change, String> {
    let (task, name) = (&call.task, named(&call.task));
    let standing = Standing::of(task);
    let refused = |nothing: &str| Err(format!("{name} {}; {nothing}", told(task)));
    let once_only =
        || Err(format!("{name} must not run twice (at_most_once); complete or fail it"));
    let pause = |clock_runs| Pause {
        by: Some(asked.by.clone()),
        reason: asked.reason.clone(),
        clock_runs,
        ..Pause::default()
    };
    match (&asked.action, standing) {
        (_, Standing::Settling) if !matches!(asked.action, Action::Complete { .. }) => {
            refused(&format!("nothing to {}", verb(&asked.action)))
        }
        (Action::Retry { reset: true, .. }, Standing::Waits) if call.is_at_most_once() => {
            once_only()
        }
        (Action::Retry { reset, due }, Standing::Waits) => {
            Ok(Change::Due { reset: *reset, due: *due })
        }
        (Action::Retry { .. }, Standing::Paused) => refused("resume it instead"),
        (Action::Retry { .. }, _) => refused("nothing to retry"),
        (Action::Pause { clock_runs }, Standing::Waits | Standing::Unregistered) => {
            Ok(Change::Paused(pause(*clock_runs)))
        }
        (Action::PauseWithRun, Standing::Waits | Standing::Unregistered) => {
            Ok(Change::Paused(Pause { with_run: true, ..pause(false) }))
        }
        (Action::PauseWithRun, Standing::Runs) if task.progress.pause_asked.is_none() => {
            Ok(Change::PauseAsked(Pause { with_run: true, ..pause(false) }))
        }
        (Action::PauseWithRun, _) => refused("it stays so"),
        (Action::Pause { .. }, _) if task.progress.pause_asked.is_some() => {
            refused("a pause was asked for before")
        }
        (Action::Pause { clock_runs }, Standing::Runs) => {
            Ok(Change::PauseAsked(pause(*clock_runs)))
        }
        (Action::Pause { .. }, _) => refused("it stays so"),
        (Action::ResumeWithRun, Standing::Runs) if is_with_run(&task.progress.pause_asked) => {
            Ok(Change::PauseTakenBack)
        }
        (Action::ResumeWithRun, Standing::Paused) if is_with_run(&task.progress.paused) => {
            Ok(Change::Resumed { reset: false, due: None })
        }
        (Action::ResumeWithRun, _) => refused("it was not paused with its run"),
        (Action::Resume { .. }, Standing::Runs) if task.progress.pause_asked.is_some() => {
            Ok(Change::PauseTakenBack)
        }
        (Action::Resume { reset, due }, Standing::Paused) => match &task.progress.paused {
            Some(pause) if pause.stopped.is_some() && call.is_at_most_once() => once_only(),
            Some(_) if *reset && call.is_at_most_once() => once_only(),
            Some(pause) if pause.stopped.is_some() && !reset => refused(
                "resume it with a reset, so that failures are counted from 0, or complete or fail \
                 it",
            ),
            _ => Ok(Change::Resumed { reset: *reset, due: *due }),
        },
        (Action::Resume { .. }, _) => refused("nothing to resume"),
        (Action::Complete { value, unchecked }, _) => {
            if !unchecked {
                check(value)
                    .map_err(|error| format!("{name} cannot end with this value: {error}"))?;
            }
            Ok(Change::Ends(EndsWith::Value(value.clone())))
        }
        (Action::Fail { failure }, _) => Ok(Change::Ends(EndsWith::Failure(failure.clone()))),
        (Action::SetPolicy { policy: text }, _) => {
            let resolved = policy(text);
            Ok(Change::Policy(resolved.map_err(|error| format!("{name}: its policy: {error}"))?))
        }
        (
            Action::PauseRun { .. }
            | Action::ResumeRun
            | Action::Restart
            | Action::Reset(_)
            | Action::Redrive(_),
            _,
        ) => Err(format!("{name} is a call, and this is done to runs")),
        (Action::RedriveAsNew | Action::Discard, _) => {
            Err(format!("{name} is a call, and this is decided about dead letters"))
        }
    }
}

/// True when a call was paused with its run, or is to be.
fn is_with_run(pause: &Option<Box<Pause>>) -> bool {
    pause.as_ref().is_some_and(|pause| pause.with_run)
}

impl Node {
    /// Carries out what an operator asks for, or says why not. `found` is the task as the store has
    /// it, which counts when the call is not in memory; `ended` is how the call ended, if its
    /// history says so.
    pub(crate) fn take_action(
        &mut self,
        asked: PendingAction,
        found: Option<TaskRecord>,
        ended: Option<String>,
    ) {
        let key = asked.call;
        let in_memory = self.memory.calls.get(key);
        let given_up = in_memory.is_some_and(|call| call.is_given_up());
        if given_up || self.memory.runs.has_ended(key) {
            return self.refuse_action(asked, ended.unwrap_or_else(|| unheard(key)));
        }
        if in_memory.is_some() {
            return self.act_here(asked, false);
        }
        let Some(record) = found else {
            return self.refuse_action(asked, ended.unwrap_or_else(|| gone(key)));
        };
        let is_held = self.is_held(&record.task);
        match record.task.claim.is_some() && !is_held {
            true => self.act_elsewhere(asked, record),
            false => match self.keep_call(record) {
                Some(_) => {
                    if is_held {
                        self.take_claim_back(key);
                    }
                    self.act_here(asked, is_held);
                }
                None => {
                    let why = format!("call #{}: its policy cannot be read", key.seq);
                    self.refuse_action(asked, why);
                }
            },
        }
    }

    /// True when this node has claimed a task only so that nobody else runs it meanwhile.
    fn is_held(&self, task: &TaskRow) -> bool {
        let is_ours = task.claim.as_ref().is_some_and(|claim| claim.node == self.name);
        is_ours && task.progress.to_end
    }

    /// True when what an operator asks for would end a call.
    pub(crate) fn may_end(&mut self, found: &TaskRecord, asked: &ActionRequest) -> bool {
        let call = self.hot_call(found.clone());
        call.is_some_and(|call| matches!(self.change_of(&call, asked), Ok(Change::Ends(_))))
    }

    /// The call is in memory. In the store it may be claimed so that nobody else runs it.
    fn act_here(&mut self, asked: PendingAction, is_held: bool) {
        let key = asked.call;
        let Some(mut call) = self.memory.calls.hot.remove(key) else { return };
        let change = self.change_of(&call, &asked.request).and_then(|change| match change {
            Change::Due { .. } if self.memory.lingering.holds(key, self.elapsed).is_some() => {
                let name = named(&call.task);
                Err(format!("{name} waits for attempts of its run to end; nothing to retry"))
            }
            change => Ok(change),
        });
        if change.is_ok() {
            // Before its times change: it is found in there by them.
            self.memory.slots.dequeue(&call.task);
            self.memory.due.forget(&call.task);
        }
        self.call_changes(key);
        if let Ok(Change::Ends(end)) = change {
            // Its attempt, if one runs, hears of it when that is durable, and lingers until then.
            call.given_up = true;
            if let Some(token) = call.begun_token() {
                self.lingers(key.run, token);
            }
            let news = self.ended_by_operator(&mut call, asked, end);
            self.memory.calls.hot.insert(key, call);
            return self.then(FollowUp::Deliver(key.run, news));
        }
        self.memory.calls.hot.insert(key, call);
        match change {
            Ok(change) => self.change_here(asked, change),
            Err(why) => self.change_nothing(asked, why, is_held),
        }
    }

    /// Changes a call in memory that does not end.
    fn change_here(&mut self, asked: PendingAction, change: Change) {
        let (key, now) = (asked.call, self.now);
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let is_waiting = !call.is_claimed();
        let mut step = Step::default();
        let text = match change {
            Change::Policy(policy) => {
                if self.outbox.is_new_policy(key, &policy.row.hash) {
                    step.policies.push(policy.row.clone());
                }
                match follow_policy(call, policy, now) {
                    Ok(text) => text,
                    Err(why) => return self.policy_stops(asked, why, step),
                }
            }
            Change::Due { .. } => {
                let text = apply(call, change, now);
                let gates = self.memory.slots.gates_mut();
                match gates.puts_first(&call.task.gate, key).filter(|_| call.task.wake_at <= now) {
                    Some(stands) => {
                        format!("{} is first in line for gate {stands}", named(&call.task))
                    }
                    None => text,
                }
            }
            change => apply(call, change, now),
        };
        let task = call.task.clone();
        step.tasks.push(match is_waiting {
            true => TaskWrite::Update(task),
            // A transaction of its attempt may have ended it.
            false => TaskWrite::Amend(task),
        });
        let effect = is_waiting.then_some(Effect::Waiting(key));
        self.push_action(asked, ActionAnswer::done(text), step, effect);
    }

    /// An attempt of the call runs on another node.
    fn act_elsewhere(&mut self, asked: PendingAction, record: TaskRecord) {
        let (key, now) = (asked.call, self.now);
        let Some(mut call) = self.hot_call(record) else {
            let why = format!("call #{}: its policy cannot be read", key.seq);
            return self.refuse_action(asked, why);
        };
        let mut step = Step::default();
        self.call_changes(key);
        let text = match self.change_of(&call, &asked.request) {
            Err(why) => return self.refuse_action(asked, why),
            Ok(Change::Ends(end)) => {
                if let Some(token) = call.token() {
                    self.lingers_elsewhere(key.run, token);
                }
                let news = self.ended_by_operator(&mut call, asked, end);
                return self.then(FollowUp::Deliver(key.run, news));
            }
            Ok(Change::Policy(policy)) => {
                step.policies.push(policy.row.clone());
                adopt(&mut call, policy);
                format!("{} follows another policy from now on", named(&call.task))
            }
            Ok(change) => apply(&mut call, change, now),
        };
        self.memory.runs.call_is_elsewhere(call.task.clone());
        step.tasks.push(TaskWrite::Amend(call.into_task()));
        self.push_action(asked, ActionAnswer::done(text), step, None);
    }

    /// What an action comes to for a call.
    fn change_of(&mut self, call: &HotCall, asked: &ActionRequest) -> Result<Change, String> {
        if let Action::Complete { value, .. } = &asked.action {
            // As a result of an attempt: the workflow may return it, and would be blocked.
            fitting(value.clone(), self.options.max_payload).map_err(|error| {
                format!("{} cannot end with this value: {}", named(&call.task), error.message)
            })?;
        }
        let progress = &call.task.progress;
        let fallback_of = progress.fallback.as_ref().map(|of| of.activity.as_str());
        // What the workflow can read is what the activity that it called returns.
        let activity = self.registry.activity(fallback_of.unwrap_or(&call.task.name));
        let (policies, registry) = (&mut self.policies, &self.registry);
        let of = Replaced { policy: &call.policy.checked, undoes: progress.undoes, fallback_of };
        let policy = |text: &str| policies.in_place_of(registry, of, text);
        change(call, asked, policy, |value| match activity {
            Some(activity) => activity.check_output(value),
            None => Err("no worker knows the activity, so nobody can check it".to_string()),
        })
    }

    /// The end of a call by an operator, as news for its run.
    fn ended_by_operator(&self, call: &mut HotCall, asked: PendingAction, end: EndsWith) -> News {
        let (now, name) = (self.now, named(&call.task));
        let (event, text) = match end {
            EndsWith::Value(value) => {
                let event = EventKind::ActivityCompleted(call.completed(value, now));
                (event, format!("completed {name}"))
            }
            EndsWith::Failure(mut failure) => {
                let before = || call.failure_log.last_failure().cloned();
                failure.cause = failure.cause.take().or_else(before);
                let why = StopWhy::new(Reason::Operator, call.task.progress.failures);
                let failure = failed(call, failure.bounded(), &why, None, now);
                (EventKind::ActivityFailed(failure), format!("failed {name}"))
            }
        };
        let PendingAction { call, message, request } = asked;
        let action = ActionRow { call, at: now, request, answer: ActionAnswer::done(text) };
        News { event, origin: Origin::ended_by(action, message), reply: None }
    }

    /// Another policy, decided about again, ends the call, or has another activity go on.
    fn policy_stops(&mut self, asked: PendingAction, why: StopWhy, mut step: Step) {
        let (key, now) = (asked.call, self.now);
        let Some(call) = self.memory.calls.get(key) else { return };
        let wanted = call.on_stop(&why);
        let Exhausted::FallbackActivity(name) = &wanted else {
            return self.policy_ends(asked, why, &wanted);
        };
        let Ok(fallback) = self.fallback_of(key, name) else {
            return self.policy_ends(asked, why, &Exhausted::Fail);
        };
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        let before = named(&call.task);
        let failure = call.failure_log.last_failure().cloned().unwrap_or_default();
        let policy = fallback.policy.row.clone();
        call.falls_back(fallback, given_up(failure, call.task.attempt, &why), now);
        let text = format!("{before} falls back to {name} by its new policy: {why}");
        let task = call.task.clone();
        if self.outbox.is_new_policy(key, &policy.hash) {
            step.policies.push(policy);
        }
        if self.leaves(&task) {
            self.memory.runs.call_is_shared(key);
        }
        step.tasks.push(TaskWrite::Update(task));
        self.push_action(asked, ActionAnswer::done(text), step, Some(Effect::Waiting(key)));
    }

    /// Another policy, decided about again, ends the call.
    fn policy_ends(&mut self, asked: PendingAction, why: StopWhy, wanted: &Exhausted) {
        let (key, now) = (asked.call, self.now);
        let Some(mut call) = self.memory.calls.hot.remove(key) else { return };
        let mut letter = None;
        let event = match wanted {
            Exhausted::FallbackValue(value) => {
                let value = Payload::from_text(value.to_string());
                let completed = call.completed(value, now);
                EventKind::ActivityCompleted(ActivityCompleted { fallback: true, ..completed })
            }
            wanted => {
                let failure = call.failure_log.last_failure().cloned().unwrap_or_default();
                let ends_run = *wanted == Exhausted::Compensate;
                let record = failed(&mut call, failure, &why, None, now);
                let is_kept = *wanted == Exhausted::DeadLetter;
                letter = is_kept.then(|| self.dead_letter(&call, &record, now));
                EventKind::ActivityFailed(ActivityFailed { ends_run, ..record })
            }
        };
        let text = format!("{} ended by its new policy: {why}", named(&call.task));
        let PendingAction { call: of, message, request } = asked;
        let action = ActionRow { call: of, at: now, request, answer: ActionAnswer::done(text) };
        let origin = Origin::ended_by(action, message).with_letter(letter);
        let news = News { event, origin, reply: None };
        self.then(FollowUp::Deliver(key.run, news));
    }

    /// An action that changes nothing is kept with the reason.
    pub(crate) fn refuse_action(&mut self, asked: PendingAction, why: String) {
        self.push_action(asked, ActionAnswer::refused(why), Step::default(), None);
    }

    /// The store does not take a step that carries out actions: whoever asked for them hears of it.
    /// Answers with the messages that asked. Where even an answer was refused, its message is read
    /// again later.
    pub(crate) fn actions_not_done(&mut self, step: &Step, refusal: &Refusal) -> Vec<String> {
        let done = step.actions.iter().filter(|row| row.answer.changed);
        let rows: Vec<ActionRow> = done.cloned().collect();
        rows.into_iter()
            .map(|ActionRow { call, request, answer, .. }| {
                let message = MessageRow::action_id(&request.id);
                let why = format!("the store refused it ({}): {refusal}", answer.text);
                let asked = PendingAction { call, message: message.clone(), request };
                self.refuse_action(asked, why);
                message
            })
            .collect()
    }

    /// Stores what came of an action, together with what it changed.
    pub(crate) fn push_action(
        &mut self,
        asked: PendingAction,
        answer: ActionAnswer,
        mut step: Step,
        effects: impl IntoIterator<Item = Effect>,
    ) {
        let PendingAction { call, message, request } = asked;
        let uid = call.run.uid;
        step.actions.push(ActionRow { call, at: self.now, request, answer });
        let mut effects: Vec<Effect> = effects.into_iter().collect();
        effects.push(Effect::Acted(uid));
        end_report(uid, Some(message), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// An action changes nothing about a call in memory, which waits as it did, or runs. A claim
    /// that was made for the action goes.
    fn change_nothing(&mut self, asked: PendingAction, why: String, is_held: bool) {
        let key = asked.call;
        let waiting = self.memory.calls.get(key).filter(|call| !call.is_claimed());
        let mut step = Step::default();
        if let Some(call) = waiting.filter(|_| is_held) {
            step.tasks.push(TaskWrite::Update(call.task.clone()));
        }
        let effect = waiting.map(|_| Effect::Waiting(key));
        self.push_action(asked, ActionAnswer::refused(why), step, effect);
    }
}

/// How a call ends that an operator ends.
enum EndsWith {
    Value(Payload),
    Failure(Failure),
}

/// Changes a call that does not end. Answers with what changed.
fn apply(call: &mut HotCall, change: Change, now: Timestamp) -> String {
    let name = named(&call.task);
    match change {
        Change::Due { reset, due: wanted } => {
            let at = wanted.unwrap_or(now).max(now);
            call.waits(at, now);
            call.is_decided();
            if reset {
                call.starts_over(now);
            }
            match at > now {
                true => format!("retried {name}{} ({})", over(reset), due(&call.task, at, now)),
                false => format!("retried {name} now{}", over(reset)),
            }
        }
        Change::Paused(pause) => {
            let due = due(&call.task, call.task.wake_at, now);
            call.pauses(pause, now);
            format!("paused {name} ({due})")
        }
        Change::PauseAsked(pause) => {
            call.task.progress.pause_asked = Some(Box::new(pause));
            let attempt = call.task.attempt;
            format!("asked {name} to pause when attempt {attempt} has failed")
        }
        Change::PauseTakenBack => {
            call.task.progress.pause_asked = None;
            format!("took back that {name} is to pause")
        }
        Change::Resumed { reset, due: wanted } => {
            call.resumes(now, wanted);
            call.is_decided();
            if reset {
                call.starts_over(now);
            }
            let due = due(&call.task, call.task.wake_at, now);
            format!("resumed {name}{} ({due})", over(reset))
        }
        Change::Ends(_) | Change::Policy(_) => {
            unreachable!("it ends the call, or is about its policy")
        }
    }
}

/// Another policy decides about a call from now on. One that waits after a failure is decided about
/// again; the error says why that ends it.
fn follow_policy(
    call: &mut HotCall,
    policy: Arc<Resolved>,
    now: Timestamp,
) -> Result<String, StopWhy> {
    adopt(call, policy);
    let name = named(&call.task);
    let decided = match Standing::of(&call.task) {
        Standing::Waits => decide_again(call, now),
        _ => None,
    };
    match decided {
        None => Ok(format!("{name} follows another policy from now on")),
        Some(Err(why)) => stop_by_policy(call, why, now),
        Some(Ok(())) => {
            let due = due(&call.task, call.task.wake_at, now);
            Ok(format!("{name} follows another policy from now on ({due})"))
        }
    }
}

/// Another policy, asked again about the last failure, stops retrying. The error says why that ends
/// the call; the policy may want it to be paused.
fn stop_by_policy(call: &mut HotCall, why: StopWhy, now: Timestamp) -> Result<String, StopWhy> {
    let Exhausted::Pause { wait } = call.on_stop(&why) else { return Err(why) };
    call.waits(now, now);
    let (until, stopped) = (wait.map(|wait| now.saturating_add(wait)), why.reason.name());
    call.pauses(Pause { until, stopped: Some(stopped.to_string()), ..Pause::default() }, now);
    Ok(format!("{} is paused by its new policy: {why}", named(&call.task)))
}

/// Another policy, and what follows from it for its times.
fn adopt(call: &mut HotCall, policy: Arc<Resolved>) {
    call.task.policy.clone_from(&policy.row.hash);
    call.task.progress.policy_set = true;
    call.follows(Deciding { policy, revision: 0 });
    call.task.deadline_at = deadline(&call.task, &call.policy);
}

/// A call as people know it.
fn named(task: &TaskRow) -> String {
    format!("{}#{}", task.name, task.call.seq)
}

/// The end of a call is on its way to the store.
fn unheard(key: CallKey) -> String {
    format!("call #{} has ended, and its workflow has not heard of it yet", key.seq)
}

/// Nothing of a call can be read.
fn gone(key: CallKey) -> String {
    format!("call #{} has ended, or its task cannot be read and was set aside", key.seq)
}

/// Where a call stands, for people.
fn told(task: &TaskRow) -> String {
    match Standing::of(task) {
        Standing::Waits => "is not paused".to_string(),
        Standing::Unregistered => format!("waits for a worker that knows {}", task.name),
        Standing::Runs => format!("is running attempt {}", task.attempt),
        Standing::Settling => "was given up by its workflow and is ending".to_string(),
        Standing::Paused => {
            let pause = task.progress.paused.as_deref();
            match pause.and_then(|pause| pause.stopped.as_ref()) {
                Some(stopped) => format!("is paused ({stopped})"),
                None => "is paused".to_string(),
            }
        }
    }
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::SetPolicy { .. } => "decide about",
        Action::PauseWithRun => "pause",
        Action::ResumeWithRun => "resume",
        action => action.name(),
    }
}

fn over(reset: bool) -> &'static str {
    if reset { ", with failures counted from 0" } else { "" }
}

/// When the next attempt of a call is due, or would be.
fn due(task: &TaskRow, at: Timestamp, now: Timestamp) -> String {
    let next = task.attempt.saturating_add(1);
    match at > now {
        true => format!("attempt {next} is due in {}", Human(at.since(now))),
        false => format!("attempt {next} is due now"),
    }
}
