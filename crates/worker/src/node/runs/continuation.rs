//! The way from one run of an instance to the next, and how an instance's time is bounded.
//!
//! A run is followed by another one when its code continues as new, when it asks to be run again
//! later, or when it failed and the policy of the workflow lets it try again. The step that closes
//! the one begins the other: the next run exists at once, with its first event, and takes its first
//! turn when it is loaded.

use std::time::Duration;

use resurgam_core::command::Settings;
use resurgam_core::event::{Carried, Chain, Compensation, Initiator, RunContinued, RunStarted};
use resurgam_core::retry::{Decision, State};
use resurgam_core::{Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, retry};
use resurgam_store::rows::{InstanceRow, MessageRow};
use resurgam_store::{InstanceWrite, MessageWrite, TaskWrite};

use super::draft::Draft;
use super::hot_run::HotRun;
use super::instance_info::InstanceInfo;
use crate::node::Node;
use crate::node::calls::timeouts::millis;
use crate::node::message::{deadline_message, timer_message, wake_message};
use crate::node::steps::effect::Effect;

/// The messages that a run begins with: the one that wakes it, and the ends of its time.
pub(crate) fn first_messages(
    key: RunKey,
    info: &InstanceInfo,
    started: &RunStarted,
    now: Timestamp,
) -> Vec<MessageRow> {
    let begins = started.first_turn_at.unwrap_or(now);
    let began = started.chain.began.unwrap_or(now);
    let wake = started.first_turn_at.map(|at| timer_message(key, Seq::FIRST, at));
    let after = |from: Timestamp, ms| from.saturating_add(Duration::from_millis(ms));
    let run_timeout_ms = info.settings.run_timeout_ms;
    let run = run_timeout_ms.map(|ms| deadline_message(key, false, after(begins, ms)));
    let total = info.total_end(began).map(|end| deadline_message(key, true, end));
    [wake, run, total].into_iter().flatten().collect()
}

/// The end of a run that another one follows.
pub(crate) struct Handover {
    continued: RunContinued,
    chain: Chain,
    carried: Carried,
}

impl Handover {
    /// A run failed and is tried again.
    pub(crate) fn after_failure(
        run: &HotRun,
        failure: Failure,
        delay: Duration,
        carried: Carried,
    ) -> Self {
        metrics::counter!("resurgam.run_retries").increment(1);
        let chain = Chain {
            attempt: run.info.chain.attempt.saturating_add(1),
            previous_delay_ms: Some(millis(delay)),
            ..run.info.chain.clone()
        };
        let continued = RunContinued {
            initiator: Initiator::RetryPolicy,
            input: run.info.input.clone().unwrap_or_else(Payload::null),
            failure: Some(failure),
            backoff_ms: millis(delay),
        };
        Handover { continued, chain, carried }
    }

    /// A run asks to be run again later. That is no failure, and counts as none.
    pub(crate) fn after_snooze(run: &HotRun, delay: Duration, carried: Carried) -> Self {
        let continued = RunContinued {
            initiator: Initiator::Workflow,
            input: run.info.input.clone().unwrap_or_else(Payload::null),
            failure: None,
            backoff_ms: millis(delay),
        };
        Handover { continued, chain: run.info.chain.clone(), carried }
    }

    /// A run continues as new. It got so far: attempts, and the time for them, are counted anew.
    pub(crate) fn by_workflow(
        run: &HotRun,
        input: Payload,
        carried: Carried,
        at: Timestamp,
    ) -> Self {
        let Chain { began, first_attempt, .. } = run.info.chain;
        let chain = Chain { began, first_attempt: first_attempt.map(|_| at), ..Chain::default() };
        let initiator = Initiator::Workflow;
        let continued = RunContinued { initiator, input, failure: None, backoff_ms: 0 };
        Handover { continued, chain, carried }
    }
}

impl Node {
    /// The first event of an instance. Its time counts from when it was started, also when that
    /// was elsewhere and a while ago.
    pub(crate) fn first_event(&mut self, row: &InstanceRow, version: u32) -> RunStarted {
        let mut started = RunStarted::new(&row.workflow, row.input.clone(), self.random.number());
        started.version = version;
        if row.settings != Settings::default() {
            let delay = Duration::from_millis(row.settings.delay_ms.unwrap_or(0));
            let begins = row.created_at.saturating_add(delay);
            started.first_turn_at = Some(begins).filter(|begins| *begins > self.now);
            started.chain.began = Some(row.created_at);
            started.chain.first_attempt = Some(begins);
        }
        started
    }

    /// A run failed: how long until it is tried again by the policy of its workflow, if it is.
    pub(crate) fn tries_again(
        &mut self,
        run: &HotRun,
        failure: &Failure,
        compensation: Option<Compensation>,
        at: Timestamp,
    ) -> Option<Duration> {
        let InstanceInfo { settings, chain, .. } = &run.info;
        let policy = settings.retry.as_ref()?;
        if compensation == Some(Compensation::Incomplete) || failure.snooze.is_some() {
            return None;
        }
        let policy = self.policies.parse(policy).ok()?;
        let state = State {
            failures: chain.attempt,
            first_scheduled: chain.first_attempt.unwrap_or(at),
            first_started: chain.first_attempt,
            previous_delay: chain.previous_delay_ms.map(Duration::from_millis),
            total_since: None,
        };
        let u = retry::uniform(run.key.uid.0, run.key.run, 0, chain.attempt);
        let decision = retry::decide_run(&policy.checked, &state, failure, at, u);
        let Decision::Retry { delay, .. } = decision else { return None };
        run.info.has_time(delay, at).then_some(delay)
    }

    /// How long until a run that asks for it is run again, with or without a policy. Only the time
    /// that the whole instance has bounds that.
    pub(crate) fn snoozes(
        run: &HotRun,
        failure: &Failure,
        compensation: Option<Compensation>,
        at: Timestamp,
    ) -> Option<Duration> {
        let undone = compensation != Some(Compensation::Incomplete);
        failure.snooze.filter(|delay| undone && run.info.has_time(*delay, at))
    }

    /// Writes down that a run is over and the next one begins.
    pub(crate) fn next_run(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        handover: Handover,
        at: Timestamp,
    ) {
        let Handover { continued, chain, carried } = handover;
        let key = RunKey { uid: run.key.uid, run: run.key.run.saturating_add(1) };
        let input = continued.input.clone();
        let backoff = Some(Duration::from_millis(continued.backoff_ms)).filter(|it| !it.is_zero());
        let started = RunStarted {
            // Whichever way it came about: a deployed fix reaches a chain that keeps failing.
            version: self.newest_version(&run.info.workflow),
            first_turn_at: backoff.map(|backoff| at.saturating_add(backoff)),
            chain,
            carried,
            ..RunStarted::new(&run.info.workflow, input.clone(), self.random.number())
        };
        self.end_run(run, draft);
        // The command may have been to fail: what follows is what is recorded.
        if let Some((_, last)) = draft.step.events.last_mut() {
            last.kind = EventKind::RunContinued(continued);
        }
        let messages = first_messages(key, &run.info, &started, at);
        // After a crash, nobody else would know that it is to begin.
        let wake = started.first_turn_at.is_none().then(|| wake_message(key));
        draft.step.messages.extend(messages.into_iter().chain(wake).map(MessageWrite::Insert));
        let kind = EventKind::RunStarted(started);
        draft.step.events.push((key, Event { seq: Seq::FIRST, at, kind }));
        draft.step.instance = Some(InstanceWrite::Continue { run: key, input, pause: None });
        draft.continues = true;
        draft.effects.push(Effect::NextRun(key.uid));
    }

    /// Nothing of a run that is over stays open.
    pub(crate) fn end_run(&mut self, run: &mut HotRun, draft: &mut Draft) {
        draft.effects.retain(|effect| !matches!(effect, Effect::Begin(_) | Effect::Waiting(_)));
        for seq in std::mem::take(&mut run.open_calls) {
            draft.effects.extend(self.give_up_call(run.key.call(seq)));
        }
        draft.closed = true;
        let step = &mut draft.step;
        step.tasks.retain(|write| !matches!(write, TaskWrite::Insert(_)));
        step.tasks.push(TaskWrite::DeleteAll(run.key));
        step.messages.retain(|write| !write.belongs_to(run.key));
        step.messages.push(MessageWrite::DeleteRun(run.key));
        run.pending_messages.clear();
    }

    /// The newest version of a workflow that is registered here.
    pub(crate) fn newest_version(&self, workflow: &str) -> u32 {
        self.registry.workflow(workflow).map_or(1, |definition| definition.version)
    }
}
