//! Attempts that run here while another node holds their shard, and reports of those elsewhere.
//!
//! Only the holder of a shard decides what follows an attempt, and, apart from claims and
//! transactions, only it writes the tasks. The node that runs the attempt leaves a message with the
//! token of its claim:
//!
//! | what happens here                       | what is stored                                     |
//! |-----------------------------------------|----------------------------------------------------|
//! | the attempt ends                        | how, for the holder to decide                      |
//! | its time is up, and its code goes on    | that; how it ends is stored too                    |
//! | it tells how far it has come            | that; the holder keeps it on the task              |
//! | this node stops before its code began   | that it never began                                |
//!
//! | what a holder finds                     | what follows                                       |
//! |-----------------------------------------|----------------------------------------------------|
//! | a report with the token of the claim    | what follows the end of an attempt here            |
//! | another token, or no task               | the report goes: the attempt was over before       |
//! | another report of the call is not done  | it stays, and is read again after that one         |
//!
//! What operators ask for comes in the same way, and for the same reason (`calls/action.rs`).
//!
//! An attempt that runs elsewhere is lost when its node is gone, and not before. Whether a call is
//! still wanted is asked every second as long as such attempts run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::action::Action;
use resurgam_core::{CallKey, Failure, Kind, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{Heartbeat, Message as StoredMessage, MessageRow, TaskRecord, TaskRow};
use resurgam_store::{MessageWrite, Report, Reported, Result, Step, TaskWrite};

use super::reports::Taken;
use crate::node::Node;
use crate::node::calls::attempt_result::{Ended, fitting, was_interrupted};
use crate::node::calls::call::end_order;
use crate::node::calls::hot_call::HotCall;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::follow_up::FollowUp;
use crate::node::input::{AttemptEnd, Found};
use crate::node::message::end_report;
use crate::node::output::{Order, Output};
use crate::node::pending_action::PendingAction;
use crate::node::steps::effect::Effect;
use crate::node::store_request::{AGAIN, InstanceActions, StoreRequest};

/// How often it is asked whether calls are still wanted whose attempts run here.
const WANTED: Duration = Duration::from_secs(1);

impl Node {
    /// The shard of a call goes: one that waits is forgotten, one that runs goes on.
    pub(crate) fn send_away(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get(key) else { return };
        if call.is_given_up() || !call.is_claimed() {
            return self.forget_call(key);
        }
        // A claim that is not durable yet is handed back when it is.
        if call.begun_token().is_some() {
            self.away(key);
        }
    }

    fn away(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.remove(key) else { return };
        self.keep_away(call);
    }

    /// An attempt runs here, and its shard is another node's.
    pub(crate) fn keep_away(&mut self, call: Box<HotCall>) {
        self.memory.reports.away.insert(call.key(), call);
        let ask_at = self.now.saturating_add(WANTED);
        self.memory.reports.ask_at.get_or_insert(ask_at);
    }

    /// An attempt reports that runs for another node.
    pub(crate) fn away_ended(&mut self, key: CallKey, end: AttemptEnd) {
        let AttemptEnd { result, lingers, heartbeat } = end;
        let Some(mut call) = self.memory.reports.away.remove(&key) else { return };
        if self.stopping.is_some() && result.as_ref().is_err_and(Failure::is_left_running) {
            // It goes on without this process: the holder waits for it from now on.
            return call.take_slot().into_iter().for_each(|slot| self.memory.slots.free(slot));
        }
        let stopped = self.stopping.is_some() && !call.task().progress.cancelled;
        let stopped = stopped && !call.outlives_process();
        let fitting = |result| fitting(result, self.options.max_payload);
        let outcome = match result.and_then(fitting).map_err(Failure::bounded) {
            Ok(result) => Reported::Completed(result),
            // Whether its run wants to hear how it ends is for the holder of its shard to say.
            Err(failure) if lingers => Reported::TimeUp(failure),
            Err(failure) if failure.is_never_begun() => Reported::NeverBegan,
            Err(failure) if stopped && was_interrupted(&failure, call.is_at_most_once()) => {
                Reported::Interrupted
            }
            Err(failure) if failure.is_interrupted() => Reported::Interrupted,
            Err(failure) => Reported::Failed(failure),
        };
        self.report(&mut call, outcome, heartbeat);
        if lingers {
            self.memory.reports.away.insert(key, call);
        }
        self.then(FollowUp::SlotForShared);
    }

    /// This node stops: an attempt that ran for another one was cut short, or never began.
    pub(crate) fn away_interrupted(
        &mut self,
        key: CallKey,
        began: bool,
        heartbeat: Option<Heartbeat>,
    ) {
        let Some(mut call) = self.memory.reports.away.remove(&key) else { return };
        if call.goes_on_elsewhere(began) {
            return call.take_slot().into_iter().for_each(|slot| self.memory.slots.free(slot));
        }
        let outcome = if began { Reported::Interrupted } else { Reported::NeverBegan };
        self.report(&mut call, outcome, heartbeat);
    }

    /// An attempt tells how far it has come. False when none of this token runs for another node.
    pub(crate) fn away_reports(&mut self, key: CallKey, token: u64, told: &Heartbeat) -> bool {
        if self.memory.reports.get(key, token).is_none() {
            return false;
        }
        let report = Report {
            activity: key.seq,
            token,
            at: told.at,
            outcome: Reported::GoesOn,
            heartbeat: Some(told.clone()),
        };
        self.send_report(key.run, report);
        true
    }

    /// Stores how an attempt ended that ran for another node.
    pub(crate) fn report(
        &mut self,
        call: &mut HotCall,
        outcome: Reported,
        heartbeat: Option<Heartbeat>,
    ) {
        call.take_slot().into_iter().for_each(|slot| self.memory.slots.free(slot));
        let CallKey { run, seq } = call.key();
        let Some(token) = call.token() else { return };
        let at = self.now;
        let report = Report { activity: seq, token, at, outcome, heartbeat };
        self.send_report(run, report);
    }

    /// Stores a report for the holder of its shard. Nobody wants it when the instance is closed.
    pub(crate) fn send_report(&mut self, run: RunKey, report: Report) {
        let (id, report) = (report.id(run.run), Box::new(report));
        let body = StoredMessage::Report { run: run.run, report };
        let row = MessageRow { uid: run.uid, id, due_at: Timestamp::EPOCH, body };
        let messages = vec![MessageWrite::InsertIfOpen(row)];
        let step = Step { messages, ..Step::default() };
        self.outbox.push(step, vec![Effect::Reported(run.uid)]);
    }

    /// The shard of a call went while the call was claimed: whoever holds it now settles it.
    pub(crate) fn return_claim(&mut self, task: TaskRow) {
        let Some(claim) = task.claim else { return };
        let (activity, at) = (task.call.seq, self.now);
        let outcome = Reported::NeverBegan;
        let report = Report { activity, token: claim.token, at, outcome, heartbeat: None };
        self.send_report(task.call.run, report);
    }

    /// The outcome of an attempt could not be stored, or its call was claimed to end it, and the
    /// shard went meanwhile. As long as this node lives nobody else finds that out: the holder
    /// hears that the attempt was cut short, or never began.
    pub(crate) fn outcome_lost_elsewhere(&mut self, task: &TaskRow) {
        let key = task.call;
        if self.owns(key.run.uid) {
            // It came back: what was read may be out of date.
            return self.read_lost(key);
        }
        let ours = task.claim.as_ref().filter(|claim| claim.node == self.name);
        let Some(token) = ours.map(|claim| claim.token) else { return };
        if self.memory.reports.get(key, token).is_some() {
            return;
        }
        let outcome = match task.progress.to_end {
            true => Reported::NeverBegan,
            false => Reported::Interrupted,
        };
        let (activity, at) = (key.seq, self.now);
        let report = Report { activity, token, at, outcome, heartbeat: None };
        self.send_report(key.run, report);
    }

    /// A claim of a node that is gone is this node's, and its attempt goes on: it is waited for.
    pub(crate) fn resume_attempt(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get(key) else { return };
        if call.is_given_up() {
            // That is about to be durable.
            return self.free_slot(key);
        }
        if self.stopping.is_some() {
            return self.leave_running(key);
        }
        let Some(activity) = self.registry.resumed(&call.task().name) else {
            return self.attempt_lost(key);
        };
        self.wait_for_attempt(key, activity);
        if !self.owns(key.run.uid) {
            self.send_away(key);
        }
    }

    /// Asks whether the calls are still wanted whose attempts run for other nodes.
    pub(crate) fn wake_reports(&mut self) {
        let now = self.now;
        if self.memory.reports.ask_at.is_none_or(|at| at > now) {
            return;
        }
        self.memory.reports.ask_at = None;
        if self.memory.reports.away.is_empty() {
            return;
        }
        let away = self.memory.reports.away.iter();
        let attempts = away.filter_map(|(key, call)| Some((*key, call.token()?))).collect();
        self.ask_store(StoreRequest::RemoteTasks { attempts });
    }

    /// Attempts are told when nobody wants their result any more. The answer says nothing about
    /// those that have begun since it was asked for.
    pub(crate) fn remote_tasks_read(
        &mut self,
        asked: &[(CallKey, u64)],
        found: Result<Vec<TaskRow>>,
    ) {
        let ask_at = self.now.saturating_add(WANTED);
        self.memory.reports.ask_at = Some(ask_at).filter(|_| !self.memory.reports.away.is_empty());
        let rows = match found {
            Ok(rows) => rows,
            Err(_) => return,
        };
        let rows: BTreeMap<CallKey, TaskRow> =
            rows.into_iter().map(|row| (row.call, row)).collect();
        let asked: BTreeMap<CallKey, u64> = asked.iter().copied().collect();
        let (mut over, mut told) = (Vec::new(), Vec::new());
        for (key, call) in &mut self.memory.reports.away {
            if !asked.get(key).is_some_and(|token| call.has_token(*token)) {
                continue;
            }
            let row = rows.get(key).filter(|row| row.claim == call.task().claim);
            match row {
                Some(row) if row.progress.cancelled => {
                    call.is_cancelled(true, call.task().progress.in_grace);
                    told.extend(row.claim.as_ref().map(|claim| (claim.token, end_order(row))));
                }
                Some(_) => {}
                None => over.push(*key),
            }
        }
        for mut call in
            over.iter().filter_map(|key| self.memory.reports.away.remove(key)).collect::<Vec<_>>()
        {
            call.take_slot().into_iter().for_each(|slot| self.memory.slots.free(slot));
            // Whoever runs an attempt that outlives this process hears of it when it speaks.
            let order = if call.outlives_process() { Order::Cut } else { Order::GiveUp };
            self.order_attempt(&call, order);
        }
        for (token, order) in told {
            self.outputs.push(Output::OrderAttempt { token, order });
        }
        self.then(FollowUp::FillSlots);
    }

    /// There are reports for an instance.
    pub(crate) fn has_reports(&mut self, uid: Uid) {
        if !self.owns(uid) {
            return;
        }
        let hearing = self.memory.reports.heard.entry(uid).or_default();
        if hearing.begin(&mut self.ticks).is_none() {
            return;
        }
        // What is on its way may be about the same calls: a read would find them as they were.
        match self.outbox.is_idle_for(uid) {
            true => self.read_reports(uid),
            false => self.outbox.after(uid, Effect::ReadReports(uid)),
        }
    }

    /// Actions are asked for, and what they are is known: only the tasks are read, in one go for
    /// all of them. Instances of which more is being read wait for that.
    pub(crate) fn has_actions(&mut self, rows: Vec<MessageRow>) {
        let mut of: BTreeMap<Uid, Vec<MessageRow>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| self.owns(row.uid)).collect::<Vec<_>>() {
            of.entry(row.uid).or_default().push(row);
        }
        let mut asked = Vec::new();
        for (uid, messages) in of {
            let hearing = self.memory.reports.heard.entry(uid).or_default();
            let number = hearing.begin(&mut self.ticks);
            asked.extend(number.map(|number| InstanceActions { uid, number, messages }));
        }
        if !asked.is_empty() {
            // What is on its way may be about the same calls: a read would find them as they were.
            self.outbox.after_all(Effect::ReadActions(asked.into()));
        }
    }

    /// The tasks of calls that actions are asked for were read.
    pub(crate) fn actions_read(&mut self, found: Vec<(Uid, u64, Vec<Found>)>) {
        for (uid, number, found) in found {
            // Its shard may have gone meanwhile, and come back.
            if self.memory.reports.heard.get(&uid).is_some_and(|hearing| hearing.is(number)) {
                self.reports_read(uid, found);
            }
        }
    }

    /// Reads the reports for an instance. What changes about its calls from here on is noted.
    pub(crate) fn read_reports(&mut self, uid: Uid) {
        let until = self.now.saturating_add(Duration::from_millis(1));
        self.ask_store_of(uid, StoreRequest::Reports { uid, until });
    }

    /// Messages for an instance were read: what follows from reports needs their tasks.
    pub(crate) fn reports_found(&mut self, uid: Uid, found: Vec<MessageRow>) {
        let is_report = |row: &MessageRow| row.body.is_for_holder();
        let reports: Arc<[MessageRow]> = found.into_iter().filter(is_report).collect();
        // An end that its run has not taken is in no step, or on its way: the read finds the call
        // as it was.
        let runs = &self.memory.runs;
        let is_old = |call: &CallKey| runs.is_storing(uid) || runs.has_end(*call);
        let old = reports.iter().filter_map(of_call).filter(is_old);
        self.memory.reports.changed.extend(old);
        match reports.is_empty() {
            true => self.reports_read(uid, Vec::new()),
            false => self.ask_store_of(uid, StoreRequest::ReportedTasks { uid, reports }),
        }
    }

    pub(crate) fn reports_read(&mut self, uid: Uid, found: Vec<Found>) {
        let acted_on: BTreeSet<CallKey> =
            found.iter().filter_map(|found| acts_on(&found.row)).collect();
        for Found { row, task, is_answered, ended } in found {
            if is_answered {
                // Somebody asked once more.
                self.push_report_end(uid, row.id, Vec::new());
                continue;
            }
            if let Some(call) = acts_on(&row).filter(|call| self.memory.runs.has_ended(*call)) {
                // It has ended, whatever was read of it: whoever asked hears that.
                self.memory.reports.changed.remove(&call);
            }
            if self.waits_for_transaction(&row)
                || self.waits_for_claim(&row, task.as_ref())
                || !self.memory.reports.take(&row)
            {
                continue;
            }
            match row.body {
                StoredMessage::Action { run, activity, request } => {
                    let call = RunKey { uid, run }.call(activity);
                    let asked = PendingAction { call, message: row.id, request: *request };
                    self.memory.reports.claimed.remove(&call);
                    match activity {
                        Seq::RUN => self.then(FollowUp::ActOnRun(asked)),
                        _ => self.take_action(asked, task, ended),
                    }
                }
                _ => self.take_report(row, task),
            }
        }
        self.release_unused(uid, &acted_on);
        self.memory.reports.taken.retain(|(of, _), taken| *of != uid || !taken.gone);
        self.memory.reports.changed.retain(|call| call.run.uid != uid);
        self.read_postponed(uid);
        match self.memory.reports.heard.get_mut(&uid).is_some_and(CoalescedRead::end) {
            true => self.has_reports(uid),
            false => drop(self.memory.reports.heard.remove(&uid)),
        }
    }

    /// True when an operator ends a call of which a transaction is with the store: the store
    /// decides first. The message is read again then.
    fn waits_for_transaction(&mut self, row: &MessageRow) -> bool {
        let StoredMessage::Action { run, activity, request } = &row.body else { return false };
        let ends = matches!(request.action, Action::Complete { .. } | Action::Fail { .. });
        let call = RunKey { uid: row.uid, run: *run }.call(*activity);
        ends && self.memory.transactions.holds_up(call)
    }

    /// True when an operator acts on a call that another node may claim in this very moment: this
    /// node claims it first. So it is when another node has claimed it for such a purpose, and
    /// hands it back. The message is read again then.
    fn waits_for_claim(&mut self, row: &MessageRow, task: Option<&TaskRecord>) -> bool {
        let is_action = matches!(row.body, StoredMessage::Action { .. });
        if is_action && task.is_some_and(|record| self.is_handed_back(&record.task)) {
            return true;
        }
        if self.ends_elsewhere(row, task) {
            return true;
        }
        let may_be_claimed = |task: &TaskRow| {
            task.claim.is_none() && self.is_shared && self.leaves(task) && self.owns(row.uid)
        };
        let task = task.map(|record| &record.task).filter(|task| may_be_claimed(task));
        let Some(call) = task.map(|task| task.call).filter(|_| is_action) else { return false };
        if self.memory.reports.claiming.insert(call) {
            let (node, now) = (self.name.clone(), self.now);
            self.ask_store(StoreRequest::ClaimToAct { node, call, now });
        }
        true
    }

    /// True when an operator ends a call of which an attempt runs on another node: its claim is
    /// taken away first. What a transaction of that attempt has recorded by then counts, and
    /// nothing after.
    fn ends_elsewhere(&mut self, row: &MessageRow, found: Option<&TaskRecord>) -> bool {
        let StoredMessage::Action { run, activity, request } = &row.body else { return false };
        let call = RunKey { uid: row.uid, run: *run }.call(*activity);
        let ends = matches!(request.action, Action::Complete { .. } | Action::Fail { .. });
        let is_here = self.memory.calls.has(call) || self.memory.runs.has_ended(call);
        let Some(found) = found.filter(|_| ends && self.is_shared && !is_here) else {
            return false;
        };
        let other = found.task.claim.as_ref().filter(|claim| claim.node != self.name);
        let Some(token) = other.map(|claim| claim.token) else { return false };
        if self.memory.reports.changed.contains(&call) || !self.may_end(found, request) {
            return false;
        }
        if self.memory.reports.claiming.insert(call) {
            // Its code goes on until it hears of that, and for the grace period then.
            self.lingers_elsewhere(call.run, token);
            let (node, now) = (self.name.clone(), self.now);
            self.ask_store(StoreRequest::TakeOver { node, call, token, now });
        }
        true
    }

    /// True when a node claimed a task only so that nobody runs it meanwhile, and is not this one.
    fn is_handed_back(&self, task: &TaskRow) -> bool {
        let is_other = task.claim.as_ref().is_some_and(|claim| claim.node != self.name);
        is_other && task.progress.to_end
    }

    /// Calls that were claimed so that somebody can act on them, and that nobody acts on any more,
    /// wait as before.
    fn release_unused(&mut self, uid: Uid, acted_on: &BTreeSet<CallKey>) {
        let is_unused = |call: &CallKey| call.run.uid == uid && !acted_on.contains(call);
        let claimed = self.memory.reports.claimed.keys();
        let unused: Vec<CallKey> = claimed.copied().filter(is_unused).collect();
        for call in unused {
            self.memory.reports.claimed.remove(&call);
            self.read_lost(call);
        }
    }

    /// Reads reports again that had to wait, when those are gone that they waited for.
    fn read_postponed(&mut self, uid: Uid) {
        let mut taken = self.memory.reports.taken.range((uid, String::new())..);
        let waits = taken.next().is_some_and(|((of, _), _)| *of == uid);
        if !waits && self.memory.reports.postponed.remove(&uid) {
            self.has_reports(uid);
        }
    }

    /// An attempt elsewhere has something to say.
    fn take_report(&mut self, row: MessageRow, task: Option<TaskRecord>) {
        let StoredMessage::Report { run, report } = row.body else { return };
        let Report { activity, token, at, outcome, heartbeat } = *report;
        let key = RunKey { uid: row.uid, run }.call(activity);
        let is_its =
            |task: &TaskRecord| task.task.claim.as_ref().is_some_and(|claim| claim.token == token);
        // What is in memory is newer than what was read; but not when another node has taken the
        // call before this one heard that it is stored.
        let calls = &self.memory.calls;
        let is_over = |task: &TaskRow| {
            let newer = |call: &HotCall| call.task().attempt >= task.attempt;
            calls.get(key).is_some_and(|call| !call.has_token(token) && newer(call))
        };
        let is_here =
            self.memory.calls.get(key).is_some_and(|call| call.begun_token() == Some(token));
        let kept = task.filter(|task| is_its(task) && !is_over(&task.task));
        let kept = match is_here {
            true => kept.map(|_| key),
            false => kept.and_then(|task| self.keep_call(task)),
        };
        if is_here && kept.is_some() && outcome != Reported::GoesOn {
            self.is_over_here(key);
        }
        match outcome {
            Reported::TimeUp(_) if kept.is_some() => self.lingers(key.run, token),
            Reported::TimeUp(_) | Reported::GoesOn => {}
            _ => self.stops_lingering(key.run, token),
        }
        let Some(call) = kept.and_then(|key| self.memory.calls.get_mut(key)) else {
            return self.push_report_end(row.uid, row.id, Vec::new());
        };
        call.is_reported(row.id.clone());
        call.note(heartbeat);
        let task = call.task().clone();
        match outcome {
            Reported::Completed(result) => self.attempt_succeeded(key, result),
            Reported::TimeUp(failure) if self.wants_late_end(key, &failure) => {
                self.time_is_up(key, failure, at);
                self.goes_on_elsewhere(key);
            }
            // It ran in a process of somebody else.
            Reported::Failed(failure) if failure.kind == Kind::WorkerLost => self.attempt_lost(key),
            Reported::Failed(failure) | Reported::TimeUp(failure) => {
                self.attempt_failed(key, Ended::Failed(failure), at);
            }
            Reported::Interrupted => self.attempt_failed(key, Ended::Interrupted, at),
            Reported::NeverBegan => self.hand_back(key),
            Reported::Lacks(what) => {
                if let Some(call) = self.memory.calls.get_mut(key) {
                    call.lacks(what);
                }
                self.hand_back(key);
            }
            Reported::GoesOn => {
                match is_here {
                    true => self.goes_on_here(key),
                    false => self.goes_on_elsewhere(key),
                }
                self.push_report_end(row.uid, row.id, vec![TaskWrite::Amend(task)]);
            }
        }
    }

    /// An attempt that is waited for here has told another process how it ended.
    fn is_over_here(&mut self, key: CallKey) {
        self.free_slot(key);
        if let Some(token) = self.memory.calls.get(key).and_then(HotCall::begun_token) {
            self.outputs.push(Output::OrderAttempt { token, order: Order::Cut });
        }
        if let Some(call) = self.memory.calls.get_mut(key) {
            call.is_cut_short();
        }
        self.then(FollowUp::FillSlots);
    }

    /// An attempt that is waited for here has told another process that it goes on.
    fn goes_on_here(&mut self, key: CallKey) {
        let Some(call) = self.memory.calls.get_mut(key) else { return };
        call.is_not_over();
        if let Some(token) = call.begun_token() {
            self.outputs.push(Output::OrderAttempt { token, order: Order::Alive });
        }
    }

    /// An attempt that has reported is not over: its node has more to tell.
    fn goes_on_elsewhere(&mut self, key: CallKey) {
        if let Some(call) = self.memory.calls.remove(key) {
            self.memory.runs.call_is_elsewhere(call.into_task());
        }
    }

    /// A report goes, with what it changes about tasks and nothing else.
    fn push_report_end(&mut self, uid: Uid, id: String, tasks: Vec<TaskWrite>) {
        let (mut step, mut effects) = (Step { tasks, ..Step::default() }, Vec::new());
        end_report(uid, Some(id), &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// A run is over, and what was told about its calls with it: what had to wait for that is read.
    pub(crate) fn run_is_over(&mut self, uid: Uid) {
        let reports = &mut self.memory.reports;
        // What somebody asks of the instance does not end with its run.
        let goes = |of: Uid, taken: &Taken| of == uid && taken.call.seq != Seq::RUN;
        let of_run = reports.taken.iter_mut().filter(|((of, _), taken)| goes(*of, taken));
        of_run.for_each(|(_, taken)| taken.gone = true);
        // What is being read may still find them.
        if !reports.heard.contains_key(&uid) {
            reports.taken.retain(|(of, _), taken| !goes(*of, taken));
        }
        self.read_postponed(uid);
    }

    /// The store did not take what followed from a report, which is there and is read again later.
    pub(crate) fn report_not_taken(&mut self, uid: Uid, id: String) {
        self.memory.reports.taken.remove(&(uid, id));
        if !self.owns(uid) {
            return;
        }
        let hearing = self.memory.reports.heard.entry(uid).or_default();
        if hearing.begin(&mut self.ticks).is_some() {
            let until = self.now.saturating_add(AGAIN).saturating_add(Duration::from_millis(1));
            self.ask_store_later_of(uid, StoreRequest::Reports { uid, until });
        }
    }

    /// A report is gone from the store.
    pub(crate) fn report_taken(&mut self, uid: Uid, id: String) {
        match self.memory.reports.heard.contains_key(&uid) {
            true => {
                if let Some(taken) = self.memory.reports.taken.get_mut(&(uid, id)) {
                    taken.gone = true;
                }
            }
            false => drop(self.memory.reports.taken.remove(&(uid, id))),
        }
        self.read_postponed(uid);
    }
}

/// The call that somebody acts on, if that is what a message is about.
/// The call that a message is about.
fn of_call(row: &MessageRow) -> Option<CallKey> {
    let (run, activity) = row.body.call()?;
    Some(RunKey { uid: row.uid, run }.call(activity))
}

fn acts_on(row: &MessageRow) -> Option<CallKey> {
    match row.body {
        StoredMessage::Action { run, activity, .. } => {
            Some(RunKey { uid: row.uid, run }.call(activity))
        }
        _ => None,
    }
}
