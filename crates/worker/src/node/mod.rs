//! A node: everything that a process knows of the work, and decides about it.
//!
//! Pure: no async runtime, no clock, no random source, no calls of the store. It is told what
//! happens ([`Input`]) and when ([`At`]), and says what is to be done ([`Output`]); the driver
//! (`driver.rs`) does that, and brings the answers. The same inputs give the same outputs.
//!
//! ```text
//!            mod.rs: inputs go to a part, then what follows (follow_up.rs), until nothing does
//!                                         |
//!   clients/  what is asked    housekeeping/  schedules, inbox, bulk jobs      commit.rs  effects
//!                                         |
//!                    placement/  whether it works, on which shards
//!                                         |
//!                    runs/  news, turns, what they ask for, loading
//!                                         |
//!                    remote/  attempts for other holders, and theirs
//!                                         |
//!                    calls/  due times, slots, claims, results, deadlines
//!                                         |
//!                    gates/  what of a dependency's calls may begin
//!                                         |
//!                    steps/  effects, batches, the store's answers
//! ```
//!
//! A part calls those below it. What it has for one above, it puts on the work list. What a part
//! remembers is in files that know no node (`calls/hot_call.rs`, `remote/reports.rs`). Any part may
//! ask it; a part below may change it only by a notice, such as that what was read of a call is out
//! of date (`Runs::call_leaves`). No file depends on one that depends on it. Checks of the
//! repository see to all that, and have the list of the notices.
//!
//! The way of a step, and where it is written:
//!
//! 1. A request starts or wakes a run (`clients/request.rs`), or an attempt ends (`attempts.rs`):
//!    news.
//! 2. The run takes a turn for each piece of news (`runs/run.rs`); what the turns ask for becomes
//!    one [`Step`](resurgam_store::Step), with effects that must wait until it is durable
//!    (`runs/record.rs`).
//! 3. The committer (`commit.rs`) takes every step that is ready (`steps/outbox.rs`), writes them
//!    in one transaction, and hands them back. It never waits to fill a batch.
//! 4. Then the effects happen (`commit.rs`): attempts begin, callers get their answer.
//!
//! Tasks and timers that are due soon are kept by time (`calls/due.rs`); the rest stays in the
//! store. Runs and tasks that are not in memory are loaded when something happens to them
//! (`runs/load_run.rs`, `calls/load_tasks.rs`). What is asked of the store is in
//! `store_request.rs`. What a node knows as long as it has its role is one struct (`memory.rs`).
//!
//! While a step of a run is not yet durable, the run takes no further turn and stays in memory. So
//! does a call while a step of it is not durable after which it waits (`calls/waiting.rs`).

// An order that depends on a hasher would be another one in each process.
#![deny(clippy::iter_over_hash_type)]

mod answer_requests;
mod ask_store;
mod attempts;
mod calls;
mod clients;
mod coalesced_read;
mod commit;
mod follow_up;
mod gates;
mod housekeeping;
mod input;
mod logging;
mod memory;
mod message;
mod news;
mod output;
mod pending_action;
mod placement;
mod powers;
mod remote;
mod reply;
mod runs;
mod steps;
mod store_request;
mod transact;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Timestamp, Uid};
use resurgam_sdk::Registry;
use resurgam_store::{Assignment, PressureRow, StepResult};

use crate::options::Options;
use crate::policy::Policies;
use crate::random::Random;
pub use calls::attempt_result::fitting;
pub(crate) use calls::load_tasks::{ABANDONED, GONE, SCAN};
use calls::pressure::Pressure;
use clients::deferred::DeferredRequests;
use clients::stopping::Stopping;
pub use commit::AnsweredBatch;
use follow_up::FollowUp;
pub(crate) use gates::crowded::MOST as CROWD;
pub(crate) use housekeeping::bulk::JOBS;
pub(crate) use housekeeping::inbox::PAGE as INBOX_PAGE;
pub(crate) use housekeeping::policy_overrides::PAGE as OVERRIDES_PAGE;
pub(crate) use housekeeping::schedule::PAGE as SCHEDULES_PAGE;
pub use input::{
    ActedOn, Addressee, AttemptEnd, Claimed, Found, Input, PausedInstance, Request, RoleAnswer,
    Scan,
};
use memory::Memory;
pub(crate) use message::start_message;
pub use message::{now_due, result_id};
pub use output::{AttemptStart, Batch, Order, Output, Transaction, TransactionRequest};
pub(crate) use placement::role::DUE;
use powers::Role;
pub use reply::{Answer, Answered, Answers, Replies, Reply, Waiter};
pub use runs::away_turn::{AwayTurn, Turned};
pub(crate) use runs::reset::open_children;
use steps::outbox::Outbox;
use steps::pending::Limits;
pub use store_request::{InstanceActions, Stamp, StoreRequest};
pub use transact::FIRST_WAIT;

/// A clock that is behind by this much was set back. One that follows another is corrected by less,
/// time and again.
const SET_BACK: Duration = Duration::from_secs(1);

/// A clock that goes ahead by this much jumped: what is due since may be very much.
const SET_FORWARD: Duration = Duration::from_secs(60);

/// When something is handled.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The time.
    pub now: Timestamp,
    /// The time that has passed since some beginning, which nobody sets as clocks are set.
    pub elapsed: Duration,
    /// False while others may take this node for dead: it begins no attempt then.
    pub may_begin: bool,
}

/// What a node knows about its store.
#[derive(Debug)]
pub struct Facts {
    /// Many nodes can work at the same time.
    pub is_shared: bool,
    /// How many batches it takes at a time.
    pub lanes: usize,
    /// What it wants of the node at first.
    pub assignment: Assignment,
}

/// Everything that a process knows of the work, and decides about it.
pub struct Node {
    registry: Arc<Registry>,
    options: Options,
    /// The time of what is being handled.
    now: Timestamp,
    /// The time that had passed by then.
    elapsed: Duration,
    /// By how much the clock was set back since that was last followed.
    set_back: Duration,
    random: Random,
    /// Counts what happens: numbers of reads, and what happened to a run last.
    ticks: u64,
    /// Its name, which nobody had before.
    name: String,
    /// Many nodes can work on the store at the same time.
    is_shared: bool,
    /// Others do not take this node for dead.
    may_begin_now: bool,
    policies: Policies,
    /// What was logged lately about attempts, calls and runs that failed.
    lines: logging::Lines,
    /// How attempts ended, as far as it is not stored.
    pressure: Pressure,
    outbox: Outbox,
    waiters: BTreeMap<Uid, Vec<Reply<crate::handle::Outcome>>>,
    /// Workflows that people were told this process does not know.
    unknown: BTreeSet<String>,
    stopping: Option<Stopping>,
    role: Role,
    /// People were told who works instead of this node.
    knows_owner: bool,
    /// How often the role has changed: what was read before that is worth nothing.
    tenure: u64,
    /// What was asked before it was known whether this node works.
    deferred: DeferredRequests,
    /// What is known as long as the role does not change.
    memory: Memory,
    /// What is to be done about all this.
    outputs: Vec<Output>,
}

impl Node {
    /// A node that has not begun.
    pub fn new(
        registry: Arc<Registry>,
        options: Options,
        facts: Facts,
        seed: u64,
        now: Timestamp,
    ) -> Self {
        let mut random = Random::new(seed);
        Node {
            lines: logging::Lines::default(),
            pressure: Pressure::default(),
            policies: Policies::new(options.retry.clone()),
            name: random.name(now),
            now,
            elapsed: Duration::ZERO,
            set_back: Duration::ZERO,
            may_begin_now: true,
            random,
            ticks: 0,
            outbox: Outbox::new(facts.lanes, Limits::of(&options)),
            is_shared: facts.is_shared,
            memory: Memory::new(&options, &registry, facts.assignment, now),
            registry,
            options,
            waiters: BTreeMap::new(),
            unknown: BTreeSet::new(),
            stopping: None,
            role: Role::Asking,
            knows_owner: false,
            tenure: 0,
            deferred: DeferredRequests::default(),
            outputs: Vec::new(),
        }
    }

    /// Makes the tokens of its claims of a secret, so that nobody guesses them.
    pub fn keep_secret(&mut self, secret: [u8; 32]) {
        self.random.keep_secret(secret);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins: asks for the right to work.
    pub fn begin(&mut self) {
        self.ask_to_own();
        self.do_what_follows();
    }

    /// Does everything that follows from what was handled, and from that.
    fn do_what_follows(&mut self) {
        while let Some(follow_up) = self.memory.follow_ups.pop_front() {
            match follow_up {
                FollowUp::Deliver(run, news) => self.deliver(run, news),
                FollowUp::StoreAnswers => self.store_answers(),
                FollowUp::TaskDue(at, call, ticket) => self.task_due(at, call, ticket),
                FollowUp::FillSlots => self.fill_slots(),
                FollowUp::ActOnRun(asked) => self.act_on_run(asked),
                FollowUp::ResultRead(call) => self.result_read(call),
                FollowUp::HasReports(uid) => self.has_reports(uid),
                FollowUp::SlotForShared => self.slot_for_shared(),
                FollowUp::LookForShared => self.look_for_shared(),
                FollowUp::ShardsGained => self.shards_gained(),
                FollowUp::Request(request) => self.request(request),
                FollowUp::TakeDeferred => self.take_deferred(),
            }
        }
    }

    /// Everything in shards that were gained is looked at, as after a restart.
    fn shards_gained(&mut self) {
        if !self.knows_overrides() {
            return;
        }
        self.look_at_overridden();
        self.look_for_gone();
        self.recover();
        self.begin_schedules();
        self.look_into_inbox();
        self.begin_retention();
        self.look_at_bulk();
        self.look_for_ends();
    }

    fn at(&mut self, at: At) {
        let back = self.now.since(at.now);
        if back >= SET_BACK {
            self.set_back += back + at.elapsed.saturating_sub(self.elapsed);
        }
        let jump = at.now.since(self.now).saturating_sub(at.elapsed.saturating_sub(self.elapsed));
        (self.now, self.elapsed, self.may_begin_now) = (at.now, at.elapsed, at.may_begin);
        self.memory.slots.gates_mut().time_is(at.now);
        if jump >= SET_FORWARD {
            self.memory.slots.gates_mut().begins_after_outage();
        }
    }

    /// Does what the time brings, and what follows from everything that was handled since the last
    /// time.
    pub fn tick(&mut self, at: At) {
        self.at(at);
        self.follow_clock();
        self.follow_assignment();
        self.wake_gates();
        self.wake_what_is_due();
        self.wake_overrides();
        self.wake_schedules();
        self.wake_inbox();
        self.wake_retention();
        self.wake_bulk();
        self.wake_reports();
        self.wake_shared();
        self.settle_shards();
        self.do_what_follows();
        self.log_left_out();
        self.evict();
        self.commit();
    }

    /// When the clock was set back, waits that are this node's own, such as the one before
    /// something is read again, would take longer by as much as that: they are shortened.
    fn follow_clock(&mut self) {
        let by = std::mem::take(&mut self.set_back);
        if by.is_zero() {
            return;
        }
        self.memory.due.clock_was_set_back(by, self.now);
        self.memory.runs.clock_was_set_back(by);
        self.memory.reports.clock_was_set_back(by);
        self.memory.unserved.clock_was_set_back(by);
        if self.is_owner() {
            self.look();
        }
    }

    /// The store has answered what was sent on a lane. The next batch is among the outputs before
    /// anything follows from this one, so that the disk does not wait for that: see
    /// [`Node::effects`].
    pub fn batch_answered(
        &mut self,
        at: At,
        lane: usize,
        answer: resurgam_store::Result<Vec<StepResult>>,
    ) -> Option<AnsweredBatch> {
        self.at(at);
        let done = self.answered(lane, answer);
        self.commit();
        done
    }

    /// What follows from a batch whose fate is known.
    pub fn effects(&mut self, batch: AnsweredBatch) {
        let mut fenced = Vec::new();
        for (pending, fate) in batch.done {
            fenced.extend(self.fate_is_known(pending, fate));
            self.do_what_follows();
        }
        self.batch_is_done(batch.since, fenced);
        self.do_what_follows();
    }

    /// What is to be done, in order.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// True when nothing has changed hands since something was read, nor is about to: what leaves
    /// is brought to rest, and must not be woken by a read that began before.
    fn is_present(&self, stamp: Stamp) -> bool {
        let of_shard = |(shard, tenure)| {
            self.memory.shards.owns(shard) && self.memory.shards.tenure(shard) == tenure
        };
        stamp.tenure == self.tenure && stamp.shard.is_none_or(of_shard)
    }

    /// Takes notice of something, unless it was read in another tenure.
    pub fn handle(&mut self, at: At, input: Input, stamp: Option<Stamp>) {
        self.at(at);
        if let Some(stamp) = stamp.filter(|stamp| !self.is_present(*stamp)) {
            if let Input::OutcomeLost { found: Some(task), .. } = input
                && stamp.tenure == self.tenure
            {
                self.outcome_lost_elsewhere(&task.task);
            }
            return self.do_what_follows();
        }
        match input {
            Input::Request(request) => self.asked(request),
            Input::Role(answer) => self.role_known(answer),
            Input::SteppedDown => self.ask_to_own(),
            Input::DueMessagesRead { found } => self.due_messages_read(found),
            Input::MessagesRead { uid, read, found } => self.messages_read(uid, read, found),
            Input::Closed { found } => self.closed_read(found),
            Input::Missing { found } => self.missing_read(found),
            Input::AttemptEnded { call, token, end } => self.attempt_ended(call, token, end),
            Input::AttemptInterrupted { call, token, began, heartbeat } => {
                self.attempt_interrupted(call, token, began, heartbeat);
            }
            Input::Transact(ask) => self.transact(ask),
            Input::Transacted { ask, answer } => self.transacted(ask, answer),
            Input::Heartbeat { call, token, heartbeat } => {
                self.attempt_reports(call, token, heartbeat);
            }
            Input::ThreadFree { token } => self.thread_free(token),
            Input::TaskLoaded { call, loaded } => self.task_loaded(call, loaded),
            Input::RunLoaded { uid, loaded } => self.run_loaded(uid, loaded),
            Input::Turned(turned) => self.turned(*turned),
            Input::Scanned { found } => self.scanned(found),
            Input::WaitingTasksRead { found } => self.waiting_tasks_read(found),
            Input::AbandonedFound { found } => self.abandoned_found(found),
            Input::Abandoned { found, has_more } => self.abandoned(found, has_more),
            Input::OutcomeLost { call, found } => self.lost_task_read(call, found),
            Input::ShardsTaken(shards) => self.shards_taken(&shards),
            Input::ShardsReleased(shards) => self.shards_released(&shards),
            Input::RemoteTasksRead { attempts, found } => self.remote_tasks_read(&attempts, found),
            Input::SharedClaimed { asked, claimed } => self.shared_claimed(asked, claimed),
            Input::SharedLoaded { claimed } => self.shared_loaded(claimed),
            Input::Unanswered { request, error } => {
                tracing::debug!("read, again later: {error}");
                self.unanswered(*request, stamp);
            }
            Input::ClaimedToEnd { call, is_ours } => self.claimed_to_end(call, is_ours),
            Input::ClaimedToAct { call, claimed } => self.claimed_to_act(call, claimed),
            Input::SharedSettled { call, ours } => self.shared_settled(call, ours),
            Input::SharedFound { call, task } => self.shared_found(call, task),
            Input::ReportsFound { uid, found } => self.reports_found(uid, found),
            Input::ReportsRead { uid, found } => self.reports_read(uid, found),
            Input::RunToActOn { uid, found } => self.run_to_act_on(uid, found),
            Input::PausedRun { uid, found } => self.paused_run(uid, found),
            Input::HeldUp { after, found } => self.held_up(after, found),
            Input::NoInstance { uid } => self.no_instance(uid),
            Input::Finished { uid, outcome } => self.finished(uid, &outcome),
            Input::SchedulesDue { found } => self.schedules_due(found),
            Input::SchedulesWaiting { found } => self.schedules_waiting(found),
            Input::OverridesRead { found, gates, counts, offered } => {
                self.offers_read(&offered);
                self.gates_read(&gates);
                self.counts_read(counts);
                self.overrides_read(found);
            }
            Input::WaitingElsewhere { found } => self.waiting_elsewhere(found),
            Input::GatedCounted { found } => self.gated_counted(&found),
            Input::KeysRead { prefix, found } => self.keys_read(&prefix, &found),
            Input::BehindGatesRead { asked, found } => self.behind_gates_read(&asked, found),
            Input::WaitingCallsRead { activity, after, found } => {
                self.waiting_calls_read(activity, after, &found);
            }
            Input::ScheduleRead(record) => self.schedule_read(*record),
            Input::InboxRead { found } => self.inbox_read(found),
            Input::Signalled { row, found } => self.signalled(row, found),
            Input::Addressee { row, found } => self.addressee_found(row, found),
            Input::Swept(swept) => self.swept(swept),
            Input::ActionsRead { found } => self.actions_read(found),
            Input::BulkRead { found } => self.bulk_read(found),
            Input::BulkPage { job, found, go_on } => self.bulk_page_read(&job, found, go_on),
            Input::BulkAnswers { job, answers } => self.bulk_answers_read(&job, answers),
            Input::BulkTried { job, found } => self.bulk_tried(&job, &found),
        }
        self.do_what_follows();
    }

    /// The next time at which something is to be done.
    pub fn next_due(&self) -> Option<Timestamp> {
        let stop = self.stopping.as_ref().map(Stopping::next);
        // One that stops begins nothing new.
        let begins = [
            self.memory.overrides.next(),
            self.memory.slots.next_of_gates(self.decides_about_gates()),
            self.memory.schedules.next(),
            self.memory.inbox.next(),
            self.memory.sweeper.next(),
            self.memory.bulk.next(),
            self.memory.unserved.next(),
        ];
        let begins = begins.into_iter().flatten().filter(|_| self.stopping.is_none());
        let due = self.memory.due.next().into_iter().chain(begins).filter(|_| self.is_owner());
        // What leaves waits for attempts that linger.
        let lingers = match self.memory.shards.is_leaving() {
            true => self.next_lingering(),
            false => None,
        };
        let other = [self.memory.reports.next(), self.lines.next(), stop, lingers];
        due.chain(other.into_iter().flatten()).min()
    }

    /// When what was counted of attempts is to be stored. No part of [`Node::next_due`]: nothing
    /// follows from it.
    pub fn counts_due(&self) -> Option<Timestamp> {
        self.pressure.next()
    }

    /// What was counted of attempts since this was last asked for, when it is time to store that.
    pub fn due_counts(&mut self) -> Option<Vec<PressureRow>> {
        self.pressure.is_due(self.now).then(|| self.pressure.take())
    }

    /// What was counted of attempts since this was last asked for.
    pub fn counts(&mut self) -> Vec<PressureRow> {
        self.pressure.take()
    }

    /// Wakes tasks and runs whose time has come, and reads further ahead when it is time.
    fn wake_what_is_due(&mut self) {
        let now = self.now;
        self.memory.due.moves_to(now);
        for (at, call, ticket) in self.memory.due.due_tasks(now) {
            self.task_due(at, call, ticket);
        }
        for uid in self.memory.due.due_runs(now) {
            if self.memory.runs.has(uid) {
                self.messages_due(uid, now);
            } else {
                self.load_run(uid);
            }
        }
        if self.is_owner() && self.memory.due.begin_scan(now) {
            let (runnable, deadlines_after) = (self.runnable(), self.memory.due.passed());
            self.ask_store(StoreRequest::DueSoon { runnable, deadlines_after });
        }
        self.fill_slots();
        // Last: what has just got a slot does not wait any more.
        self.deadlines_due(now);
    }

    /// Somebody else has committed, or the right to work is gone.
    pub fn others_committed(&mut self, at: At, is_overtaken: bool) {
        self.at(at);
        if self.is_owner() && is_overtaken {
            return self.step_down(Vec::new());
        }
        self.look();
        self.do_what_follows();
    }

    /// Somebody else has committed: looks for what concerns this node.
    fn look(&mut self) {
        self.outputs.push(Output::AnythingChanged);
        match self.role {
            Role::Owner => {
                self.look_for_messages();
                self.memory.sweeper.others_committed(self.now);
                self.hear_of_overrides();
                self.hear_of_bulk();
                self.look_at_schedules();
                self.look_into_inbox();
                self.look_for_ends();
                self.look_for_shared();
            }
            _ => self.look_for_ends(),
        }
    }

    /// The store wants something else of this node.
    pub fn assignment(&mut self, at: At, assignment: Assignment) {
        self.at(at);
        self.memory.shards.wants(assignment);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("runs", &self.memory.runs.len())
            .field("calls", &self.memory.calls.len())
            .finish_non_exhaustive()
    }
}
