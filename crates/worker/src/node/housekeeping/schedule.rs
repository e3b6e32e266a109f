//! Firing schedules.
//!
//! The store knows which schedule is to be looked at when; in memory is only the next of these
//! times. When it comes, the schedules that are due are read, a page at a time, and for each of
//! them `core` decides; one commit starts the instances and keeps what the schedule remembers. The
//! commit names the revision that was read, so that a decision about a schedule that somebody has
//! changed meanwhile is dropped and made again. A firing's instance is called after its time, so
//! even a decision that is made twice starts it once.
//!
//! | what happens                            | what follows                                      |
//! |-----------------------------------------|---------------------------------------------------|
//! | a schedule's time comes                 | it is decided                                     |
//! | an instance of a schedule closes        | decided if a firing waits for that                |
//! | somebody changes schedules              | the next time is read again                       |
//! | this node begins to work                | all of that, and those with an error once more    |
//! | its workflow is unknown here            | an error that people see; again in a few minutes  |
//! | it cannot be read                       | an error that people see; again on the next start |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::schedule::{BATCH, decide_at_most};
use resurgam_core::{Payload, RunKey, Timestamp, Uid};
use resurgam_sdk::WorkflowDefinition;
use resurgam_store::{DueSchedules, Result, ScheduleRecord, ScheduleRow, ScheduleWrite, Step};

use crate::error::Error;
use crate::node::Node;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::reply::Reply;
use crate::node::runs::load_run::begin_code;
use crate::node::steps::effect::Effect;
use crate::node::steps::refusal::Refusal;
use crate::node::store_request::StoreRequest;
use crate::plan::Plan;

/// How many schedules are decided at once.
pub(crate) const PAGE: usize = 250;

/// The wait before schedules that could not be read are read again.
const AGAIN: Duration = Duration::from_secs(1);

/// The wait before a schedule is tried again whose workflow is unknown here.
const UNKNOWN: Duration = Duration::from_secs(300);

/// What an engine knows about schedules.
#[derive(Debug, Default)]
pub(crate) struct ScheduleState {
    /// When to look at them next.
    next: Option<Timestamp>,
    hearing: CoalescedRead,
    /// Those whose decision is on its way to the disk.
    deciding: BTreeSet<String>,
    /// Those of them whose last instance closed meanwhile.
    again: BTreeSet<String>,
}

impl ScheduleState {
    /// When to look next, unless that is being done.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| self.deciding.is_empty() && !self.hearing.is_reading())
    }
}

impl Node {
    /// This node begins to work: looks at what is due, and at what the process before left waiting.
    pub(crate) fn begin_schedules(&mut self) {
        self.look_at_schedules();
        self.read_waiting_schedules(String::new());
    }

    /// Looks at the schedules when it is time.
    pub(crate) fn wake_schedules(&mut self) {
        let now = self.now;
        if self.memory.schedules.next().is_some_and(|at| at <= now) {
            self.look_at_schedules();
        }
    }

    /// Reads which schedules are due, and when the next one is. While decisions are on their way
    /// that waits: it follows the last of them.
    pub(crate) fn look_at_schedules(&mut self) {
        if !self.is_owner() || self.stopping.is_some() || !self.memory.schedules.deciding.is_empty()
        {
            return;
        }
        if self.memory.schedules.hearing.begin(&mut self.ticks).is_none() {
            return;
        }
        self.ask_store(StoreRequest::DueSchedules { now: self.now });
    }

    /// What is due is decided.
    pub(crate) fn schedules_due(&mut self, found: Result<DueSchedules>) {
        let again = self.memory.schedules.hearing.end();
        if !self.is_owner() {
            return;
        }
        match found {
            Ok(DueSchedules { due, next }) => {
                self.memory.schedules.next = next;
                due.into_iter().for_each(|record| self.decide_schedule(record));
            }
            Err(_) => {
                self.memory.schedules.next = Some(self.now.saturating_add(AGAIN));
            }
        }
        if again {
            self.look_at_schedules();
        }
    }

    /// Reads schedules that wait for something else than the time, from an id on.
    pub(crate) fn read_waiting_schedules(&mut self, after: String) {
        self.ask_store(StoreRequest::WaitingSchedules { after });
    }

    /// Schedules that waited are decided, a page at a time.
    pub(crate) fn schedules_waiting(&mut self, found: Vec<ScheduleRecord>) {
        if !self.is_owner() {
            return;
        }
        let last = found.last().filter(|_| found.len() == PAGE).map(|record| record.row.id.clone());
        found.into_iter().for_each(|record| self.decide_schedule(record));
        if let Some(after) = last {
            self.outbox.after_all(Effect::ReadWaiting(after));
        }
    }

    /// An instance of a schedule closed: a firing may have waited for that.
    pub(crate) fn schedule_may_go_on(&mut self, id: String) {
        if self.memory.schedules.deciding.contains(&id) {
            self.memory.schedules.again.insert(id);
            return;
        }
        self.ask_store(StoreRequest::Schedule(id));
    }

    pub(crate) fn schedule_read(&mut self, record: ScheduleRecord) {
        if self.is_owner() && record.row.waits {
            self.decide_schedule(record);
        }
    }

    /// Decides what a schedule does now.
    fn decide_schedule(&mut self, record: ScheduleRecord) {
        if self.memory.schedules.deciding.contains(&record.row.id) {
            self.memory.schedules.again.insert(record.row.id);
            return;
        }
        let plan = match Plan::read(&record.row) {
            Ok(plan) => plan,
            Err(error) => return self.set_schedule_aside(record, &error, None),
        };
        if self.registry.workflow(&record.row.workflow).is_none() && !record.row.paused {
            let error = format!("workflow {} is not registered here", record.row.workflow);
            let again = self.now.saturating_add(UNKNOWN);
            return self.set_schedule_aside(record, &error, Some(again));
        }
        self.fire(record, &plan);
    }

    /// Starts what is to be started and keeps what is to be remembered, in one commit.
    fn fire(&mut self, record: ScheduleRecord, plan: &Plan) {
        let now = self.now;
        let fitting = self.options.max_batch_bytes / 2 / record.row.input.len().max(1);
        let decision = decide_at_most(
            &plan.schedule,
            &plan.state,
            now,
            record.last_open,
            fitting.clamp(1, BATCH),
        );
        let row = plan.decided(&record.row, &decision);
        let is_due = record.row.next_at.is_some_and(|at| at <= now);
        if row == record.row && !is_due {
            return;
        }
        metrics::counter!("resurgam.schedule_starts").increment(decision.start.len() as u64);
        metrics::counter!("resurgam.schedule_missed").increment(decision.missed);
        metrics::counter!("resurgam.schedule_skipped").increment(decision.skipped);
        if decision.missed > 0 {
            tracing::warn!(schedule = %row.id, "{} firings were missed", decision.missed);
        }
        let start = decision.start.iter();
        let child_starts: Vec<_> = start
            .map(|nominal| plan.child_start(&record.row, *nominal, now, &mut self.random))
            .collect();
        let mut effects: Vec<Effect> =
            child_starts.iter().map(|child| Effect::Wake(child.row.uid)).collect();
        let schedule = Some(ScheduleWrite::Update { row, revision: record.revision }.into());
        self.memory.schedules.deciding.insert(record.row.id.clone());
        effects.push(Effect::ScheduleDecided(Box::new(record)));
        self.outbox.push(Step { schedule, child_starts, ..Step::default() }, effects);
    }

    /// Notes why a schedule does not fire, where people look for it.
    fn set_schedule_aside(
        &mut self,
        record: ScheduleRecord,
        error: &str,
        next_at: Option<Timestamp>,
    ) {
        let ScheduleRecord { row, revision, .. } = record;
        if row.error.as_deref() != Some(error) {
            tracing::error!(schedule = %row.id, "a schedule does not fire: {error}");
        }
        let row = ScheduleRow { error: Some(error.to_string()), next_at, waits: true, ..row };
        let effects = vec![Effect::ScheduleAside(row.id.clone())];
        self.memory.schedules.deciding.insert(row.id.clone());
        let schedule = Some(ScheduleWrite::Update { row, revision }.into());
        self.outbox.push(Step { schedule, ..Step::default() }, effects);
    }

    /// A decision is durable, or was overtaken by a change: what is due now is read.
    pub(crate) fn schedule_decided(&mut self, id: &str) {
        self.memory.schedules.deciding.remove(id);
        if self.memory.schedules.again.remove(id) {
            self.schedule_may_go_on(id.to_string());
        }
        self.look_at_schedules();
    }

    /// The store did not take a decision.
    pub(crate) fn schedule_refused(&mut self, record: ScheduleRecord, refusal: &Refusal) {
        let id = record.row.id.clone();
        match refusal {
            Refusal::Missed => self.schedule_decided(&id),
            refusal => {
                self.memory.schedules.deciding.remove(&id);
                let again = self.now.saturating_add(UNKNOWN);
                self.set_schedule_aside(record, &refusal.to_string(), Some(again));
            }
        }
    }

    /// The note why a schedule does not fire was not written. Others are not held up for long.
    pub(crate) fn schedule_aside_refused(&mut self, id: &str, refusal: &Refusal) {
        if matches!(refusal, Refusal::Missed) {
            return self.schedule_decided(id);
        }
        tracing::error!(schedule = %id, "a schedule cannot be written: {refusal}");
        self.memory.schedules.deciding.remove(id);
        self.memory.schedules.next = Some(self.now.saturating_add(UNKNOWN));
    }

    /// Writes what somebody wants of a schedule.
    pub(crate) fn write_schedule(&mut self, step: Step, is_new: bool, reply: Reply<()>) {
        let refused = match step.schedule.as_deref() {
            Some(ScheduleWrite::Insert(row) | ScheduleWrite::Update { row, .. }) if is_new => {
                self.refuses_schedule(row)
            }
            _ => None,
        };
        let stopped = || Error::stopped("change a schedule");
        if let Some(error) = refused.or_else(|| self.stopping.as_ref().map(|_| stopped())) {
            return self.answer(reply, Err(error));
        }
        let mut effects = vec![Effect::Reply(reply)];
        // Whoever works hears of it: this node, if it does when that is durable, hears it so.
        effects.extend(step.child_starts.iter().map(|child| Effect::Wake(child.row.uid)));
        effects.push(Effect::LookAtSchedules);
        self.outbox.push(step, effects);
    }

    /// Why a schedule cannot be created. A process that only asks does not know which workflows
    /// there are.
    fn refuses_schedule(&mut self, row: &ScheduleRow) -> Option<Error> {
        let what = format!("schedule {}", row.id);
        let plan = Plan::read(row);
        if let Err(error) = plan.and_then(|plan| self.refuses_settings(&plan.start.settings)) {
            return Some(Error::invalid(format!("{what}: its retry policy: {error}")));
        }
        let (size, most) = (row.input.len(), self.options.max_payload);
        if size > most {
            let error = format!("{what}: the argument has {size} bytes, {most} are allowed");
            return Some(Error::too_large(error));
        }
        if !self.options.work {
            return None;
        }
        self.cannot_begin(&row.workflow, &row.input).map(|error| match error {
            CannotBegin::Unknown(error) => Error::unregistered(format!("{what}: {error}")),
            CannotBegin::Unreadable(error) => Error::invalid(format!("{what}: {error}")),
        })
    }

    /// Why a workflow cannot begin with this argument.
    pub(crate) fn cannot_begin(&self, workflow: &str, input: &Payload) -> Option<CannotBegin> {
        let reads = |definition: &&Arc<WorkflowDefinition>| definition.reads(input);
        let Some(definition) = self.registry.workflow(workflow).filter(reads) else {
            return Some(CannotBegin::Unknown(self.unknown_workflow(workflow)));
        };
        let begun = begin_code(RunKey::first(Uid(0)), definition, input);
        begun.err().map(CannotBegin::Unreadable)
    }

    /// What is said about a workflow that nobody registered, which is forgotten easily.
    pub(crate) fn unknown_workflow(&self, workflow: &str) -> String {
        let known = match &self.registry.workflow_names()[..] {
            [] => "none".to_string(),
            known => known.join(", "),
        };
        format!(
            "workflow {workflow} is unknown; known are {known}; add it with .workflow(..) where the \
             app is built"
        )
    }
}

/// Why a workflow cannot begin.
pub(crate) enum CannotBegin {
    /// Nobody here knows it.
    Unknown(String),
    /// It cannot read its argument.
    Unreadable(String),
}
