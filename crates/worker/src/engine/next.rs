//! The way from one run of an instance to the next, and how an instance's time is bounded.
//!
//! A run is followed by another one when its code continues as new, or when it failed and the
//! policy of the workflow lets it try again. The step that closes the one begins the other: the
//! next run exists at once, with its first event, and takes its first turn when it is loaded.

use std::time::Duration;

use resurgam_core::command::{Next, Settings, UnreadSignal};
use resurgam_core::event::{Chain, Compensation, Initiator, RunContinued, RunStarted};
use resurgam_core::retry::{self, Decision, State};
use resurgam_core::{CallKey, Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp};
use resurgam_store::rows::{InstanceRow, Message as StoredMessage, MessageRow};
use resurgam_store::{InstanceWrite, MessageWrite, TaskWrite};

use super::Engine;
use super::call::millis;
use super::commit::Effect;
use super::run::{Draft, HotRun, Origin, signal_message, timer_message};

/// What an engine knows about the instance of a run in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) parent: Option<CallKey>,
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) settings: Settings,
    pub(super) chain: Chain,
    /// The schedule that started it.
    pub(super) schedule: Option<String>,
    workflow: String,
    version: u32,
    /// The argument, where a run that fails is tried again with it.
    input: Option<Payload>,
}

impl About {
    pub(super) fn new(row: &InstanceRow, started: &RunStarted) -> Self {
        About {
            parent: row.parent,
            queue: row.queue.clone(),
            priority: row.priority,
            settings: row.settings.clone(),
            chain: started.chain.clone(),
            schedule: row.schedule.clone(),
            workflow: row.workflow.clone(),
            version: started.version,
            input: row.settings.retry.as_ref().map(|_| row.input.clone()),
        }
    }
}

/// The first event of an instance.
pub(super) fn first_event(row: &InstanceRow, version: u32, now: Timestamp) -> RunStarted {
    let mut started = RunStarted::new(&row.workflow, row.input.clone(), fastrand::u64(..));
    let delay = row.settings.delay_ms.map(Duration::from_millis);
    started.version = version;
    started.first_turn_at = delay.map(|delay| now.saturating_add(delay));
    if row.settings != Settings::default() {
        let begins = started.first_turn_at.unwrap_or(now);
        started.chain.began = Some(now);
        started.chain.first_attempt = Some(begins);
    }
    started
}

/// The messages that a run begins with: the one that wakes it, and the ends of its time.
pub(super) fn first_messages(
    key: RunKey,
    settings: &Settings,
    started: &RunStarted,
    now: Timestamp,
) -> Vec<MessageRow> {
    let begins = started.first_turn_at.unwrap_or(now);
    let began = started.chain.began.unwrap_or(now);
    let wake = started.first_turn_at.map(|at| timer_message(key, Seq::FIRST, at));
    let end = |from: Timestamp, after: Option<u64>, total| {
        let due_at = from.saturating_add(Duration::from_millis(after?));
        let id = format!("deadline/{}/{}", key.run, if total { "total" } else { "run" });
        let event = EventKind::RunTimedOut { total };
        let body = StoredMessage::Result { run: key.run, event };
        Some(MessageRow { uid: key.uid, id, due_at, body })
    };
    let run = end(begins, settings.run_timeout_ms, false);
    let total = end(began, settings.total_timeout_ms, true);
    [wake, run, total].into_iter().flatten().collect()
}

/// A failed run that is tried again.
pub(super) struct Again {
    failure: Failure,
    delay: Duration,
    carried: Box<Next>,
}

impl Engine {
    /// A run failed: what follows by the policy of its workflow, if anything does.
    pub(super) fn run_again(
        &mut self,
        run: &HotRun,
        failure: &Failure,
        compensation: Option<Compensation>,
        carried: &Next,
        at: Timestamp,
    ) -> Option<Again> {
        let about = &run.about;
        let policy = about.settings.retry.as_ref()?;
        let over = matches!(failure.type_name.as_deref(), Some("TotalTimeout" | "HistoryLimit"));
        if over || compensation == Some(Compensation::Incomplete) {
            return None;
        }
        let policy = self.policies.parse(policy).ok()?;
        let Chain { attempt, began, first_attempt, previous_delay_ms } = about.chain;
        let first_scheduled = began.unwrap_or(at);
        let state = State {
            failures: attempt,
            first_scheduled,
            first_started: first_attempt,
            previous_delay: previous_delay_ms.map(Duration::from_millis),
        };
        let u = retry::uniform(run.key.uid.0, run.key.run, 0, attempt);
        let Decision::Retry { delay, .. } = retry::decide(&policy.checked, &state, failure, at, u)
        else {
            return None;
        };
        let total = about.settings.total_timeout_ms.map(Duration::from_millis);
        let end = total.map(|total| first_scheduled.saturating_add(total));
        if end.is_some_and(|end| at.saturating_add(delay) >= end) {
            return None;
        }
        Some(Again { failure: failure.clone(), delay, carried: Box::new(carried.clone()) })
    }

    /// Writes down that a run failed and is followed by another one.
    pub(super) fn try_run_again(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        seq: Seq,
        again: Again,
        at: Timestamp,
    ) {
        let Again { failure, delay, carried } = again;
        let input = run.about.input.clone().unwrap_or_else(Payload::null);
        let chain = Chain {
            attempt: run.about.chain.attempt.saturating_add(1),
            previous_delay_ms: Some(millis(delay)),
            ..run.about.chain.clone()
        };
        let first_turn_at = Some(at.saturating_add(delay)).filter(|_| !delay.is_zero());
        let continued = RunContinued {
            initiator: Initiator::RetryPolicy,
            input,
            failure: Some(failure),
            backoff_ms: millis(delay),
        };
        metrics::counter!("resurgam.run_retries").increment(1);
        self.next_run(run, draft, seq, continued, chain, first_turn_at, *carried, at);
    }

    /// Writes down that a run continues as new.
    pub(super) fn continue_as_new(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        seq: Seq,
        input: Payload,
        carried: Next,
        at: Timestamp,
    ) {
        let continued =
            RunContinued { initiator: Initiator::Workflow, input, failure: None, backoff_ms: 0 };
        // A run that got so far begins to count its attempts anew.
        let chain = Chain { attempt: 1, previous_delay_ms: None, ..run.about.chain.clone() };
        self.next_run(run, draft, seq, continued, chain, None, carried, at);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    fn next_run(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        seq: Seq,
        continued: RunContinued,
        chain: Chain,
        first_turn_at: Option<Timestamp>,
        carried: Next,
        at: Timestamp,
    ) {
        let key = RunKey { uid: run.key.uid, run: run.key.run.saturating_add(1) };
        let Next { carried, signals } = carried;
        let mut started =
            RunStarted::new(&run.about.workflow, continued.input.clone(), fastrand::u64(..));
        // A run that is tried again stays on its version; one that continues takes the newest.
        started.version = match continued.initiator {
            Initiator::RetryPolicy => run.about.version,
            Initiator::Workflow => self.newest_version(&run.about.workflow),
        };
        started.first_turn_at = first_turn_at;
        started.chain = chain;
        started.carried = carried;
        self.end_run(run, draft);
        let input = continued.input.clone();
        let kind = EventKind::RunContinued(continued);
        draft.step.events.push((run.key, Event { seq, at, kind }));
        for row in first_messages(key, &run.about.settings, &started, at) {
            draft.step.messages.push(MessageWrite::Insert(row));
        }
        for (place, signal) in signals.into_iter().enumerate() {
            let UnreadSignal { name, value, id } = signal;
            let fresh = || format!("signal/carried/{}/{place:05}", key.run);
            let row = signal_message(key.uid, id, fresh, name, value);
            draft.step.messages.push(MessageWrite::Insert(row));
        }
        let kind = EventKind::RunStarted(started);
        draft.step.events.push((key, Event { seq: Seq::FIRST, at, kind }));
        draft.step.instance = Some(InstanceWrite::Continue { run: key, input });
        draft.continues = true;
        draft.effects.push(Effect::NextRun(key.uid));
    }

    /// What came for a run that is over is for the next one, unless only this one waited for it.
    pub(super) fn hand_over(&mut self, run: HotRun) {
        let key = RunKey { uid: run.key.uid, run: run.key.run.saturating_add(1) };
        for news in run.news {
            if matches!(news.origin, Origin::Request) {
                self.deliver(key, news);
            }
        }
    }

    /// Nothing of a run that is over stays open.
    pub(super) fn end_run(&mut self, run: &mut HotRun, draft: &mut Draft) {
        for seq in run.calls.drain() {
            self.forget_call(run.key.call(seq));
        }
        draft.closed = true;
        let step = &mut draft.step;
        step.tasks.retain(|write| !matches!(write, TaskWrite::Insert(_)));
        step.tasks.push(TaskWrite::DeleteAll(run.key));
        step.messages.retain(|write| !write.belongs_to(run.key));
        step.messages.push(MessageWrite::DeleteRun(run.key));
        draft.effects.retain(|effect| !matches!(effect, Effect::Begin(_) | Effect::Waiting(_)));
        run.later.clear();
    }

    /// The newest version of a workflow that is registered here.
    pub(super) fn newest_version(&self, workflow: &str) -> u32 {
        self.registry.workflow(workflow).map_or(1, |definition| definition.version)
    }
}
