//! What is not in memory: runs with news, tasks that are due, claims of a process that died.
//!
//! Reading happens beside the loop and comes back as a message. Trouble with the store means
//! trying again later, never a decision.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::event::RunStarted;
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{CallKey, EventKind, Payload, RunKey, Timestamp, Uid};
use resurgam_sdk::WorkflowDefinition;
use resurgam_store::rows::{
    InstanceFilter, InstanceRow, Message as StoredMessage, MessageRow, RunRecord, Status,
    TaskRecord,
};
use resurgam_store::{InstanceWrite, MessageWrite, Result, Step, Store};

use super::call::HotCall;
use super::commit::Effect;
use super::next::{About, first_event};
use super::open::OpenCalls;
use super::own::Hearing;
use super::run::{Draft, HotRun, News, cancelled_call, refuse_news, result_id};
use super::slots::{Slot, Ticket};
use super::story::Story;
use super::{Engine, LoadedTask, Mailbox, Message, Scan};

/// How many due things are read at once.
const SCAN: usize = 10_000;

/// How many abandoned claims are read at once.
const ABANDONED: usize = 1_000;

/// The wait before something that could not be read is read again.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest wait before a blocked run is tried again.
const BLOCKED: Duration = Duration::from_secs(300);

/// How often a blocked run was tried again, and when it is to be tried next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    count: u32,
    next: Timestamp,
}

impl Tries {
    /// The next one is not before it is known when.
    pub(super) fn after(count: u32) -> Self {
        Tries { count, next: Timestamp::from_millis(i64::MAX) }
    }
}

impl Engine {
    /// What the process before this one left behind: claims that nobody works on any more, and
    /// runs that were blocked and may have nothing that would wake them.
    pub(super) fn recover(&mut self) {
        self.read_abandoned();
        let store = self.store.clone();
        self.read(async move { Message::LeftBlocked { found: left_blocked(&*store).await } });
    }

    /// Runs that were blocked are tried again: this process may know better.
    pub(super) fn left_blocked(&mut self, found: Result<Vec<InstanceRow>>) {
        match found {
            Ok(rows) => rows.into_iter().for_each(|row| self.load_run(row.uid)),
            Err(error) => {
                tracing::warn!("read blocked runs, again later: {error}");
                let store = self.store.clone();
                self.read_later(async move {
                    Message::LeftBlocked { found: left_blocked(&*store).await }
                });
            }
        }
    }

    pub(super) fn read_abandoned(&self) {
        let (store, node) = (self.store.clone(), self.node.clone());
        self.read(async move { Message::Abandoned { found: abandoned(&*store, &node).await } });
    }

    /// Runs a read beside the loop.
    pub(super) fn read(&self, work: impl Future<Output = Message> + Send + 'static) {
        let busy = self.clock.busy(&"a read");
        let mailbox = self.mailbox_of_tenure();
        tokio::spawn(async move {
            mailbox.send(work.await);
            drop(busy);
        });
    }

    /// Runs a read beside the loop, later.
    pub(super) fn read_later(&self, work: impl Future<Output = Message> + Send + 'static) {
        let moment = self.clock.sleep_until(self.clock.now().saturating_add(AGAIN));
        let mailbox = self.mailbox_of_tenure();
        tokio::spawn(async move {
            let busy = moment.await;
            mailbox.send(work.await);
            drop(busy);
        });
    }

    /// Attempts that died with their process are recorded, counted apart and tried again.
    pub(super) fn abandoned(&mut self, found: Result<Vec<LoadedTask>>) {
        let tasks = match found {
            Ok(tasks) => tasks,
            Err(error) => {
                tracing::warn!("read abandoned claims, again later: {error}");
                let (store, node) = (self.store.clone(), self.node.clone());
                return self.read_later(async move {
                    Message::Abandoned { found: abandoned(&*store, &node).await }
                });
            }
        };
        let full = tasks.len() == ABANDONED;
        let mut kept = false;
        for loaded in tasks {
            let claimed = loaded.record.task.claim.is_some();
            match self.keep_call(loaded) {
                Some(key) if claimed => self.attempt_lost(key),
                Some(key) => self.task_waits(key),
                None => continue,
            }
            kept = true;
        }
        // A page of which nothing could be read would only be read again.
        if full && kept {
            // The ones that were read are no longer claimed once what precedes this is durable.
            self.outbox.push(Step::default(), vec![Effect::ReadAbandoned]);
        }
    }

    /// Has a task read whose outcome was lost in this process, as soon as the store answers.
    pub(super) fn read_lost(&self, call: CallKey) {
        let store = self.store.clone();
        self.read_until_answered(
            self.mailbox_of_tenure(),
            move || {
                let store = store.clone();
                async move { load_task(&*store, call).await }
            },
            |task| Some(Message::Abandoned { found: Ok(task.into_iter().collect()) }),
        );
    }

    /// Where what is read now goes: it is worth nothing when the role has changed meanwhile.
    pub(super) fn mailbox_of_tenure(&self) -> Mailbox {
        self.mailbox.of_tenure(self.tenure)
    }

    /// Runs a read beside the loop, again and again until the store answers. What the answer says
    /// comes back as a message, if it says anything.
    pub(super) fn read_until_answered<T, A>(
        &self,
        mailbox: Mailbox,
        ask: impl Fn() -> A + Send + 'static,
        say: impl FnOnce(T) -> Option<Message> + Send + 'static,
    ) where
        T: Send + 'static,
        A: Future<Output = Result<T>> + Send,
    {
        let clock = self.clock.clone();
        let mut busy = clock.busy(&"a read");
        tokio::spawn(async move {
            let answer = loop {
                match ask().await {
                    Ok(answer) => break answer,
                    Err(error) => tracing::warn!("read, again later: {error}"),
                }
                let moment = clock.sleep_until(clock.now().saturating_add(AGAIN));
                drop(busy);
                busy = moment.await;
                if mailbox.is_closed() {
                    return;
                }
            };
            say(answer).into_iter().for_each(|message| mailbox.send(message));
            drop(busy);
        });
    }

    /// Keeps a task that was read. `None` when its policy cannot be read: it waits, and the log
    /// says why.
    fn keep_call(&mut self, loaded: LoadedTask) -> Option<CallKey> {
        let LoadedTask { record, policy } = loaded;
        let TaskRecord { task, input, instance, ledger } = record;
        let key = task.call;
        let known = self.policies.known(&task.policy);
        let read = || policy.ok_or_else(|| format!("policy {} is missing", task.policy));
        let policy = match known.map_or_else(|| read().and_then(|row| self.policies.read(&row)), Ok)
        {
            Ok(policy) => policy,
            Err(error) => {
                tracing::error!(%instance, activity = %task.name, "a task waits: {error}");
                return None;
            }
        };
        let mut call = HotCall::new(task, input, instance, policy);
        call.story = Story::of(&ledger, call.task.progress.counters());
        self.calls.insert(key, call);
        Some(key)
    }

    /// Wakes tasks and runs whose time has come, and reads further ahead when it is time.
    pub(super) fn wake_what_is_due(&mut self) {
        let now = self.clock.now();
        self.due.moves_to(now);
        for (at, call, ticket) in self.due.due_tasks(now) {
            self.task_due(at, call, ticket);
        }
        for uid in self.due.due_runs(now) {
            if self.runs.contains_key(&uid) {
                self.messages_due(uid, now);
            } else {
                self.load_run(uid);
            }
        }
        if self.is_owner() && self.due.begin_scan(now) {
            let (store, known) = (self.store.clone(), self.registry.activity_names());
            self.read(async move { Message::Scanned { found: scan(&*store, known).await } });
        }
        self.fill_slots();
        // Last: what has just got a slot does not wait any more.
        self.deadlines_due(now);
    }

    /// What is due first is known. What is near is kept, the rest stays in the store.
    pub(super) fn scanned(&mut self, found: Result<Scan>) {
        let now = self.clock.now();
        let scan = match found {
            Ok(scan) => scan,
            Err(error) => {
                tracing::warn!("read what is due, again later: {error}");
                self.outages.begin(now);
                return self.due.scan_failed(now.saturating_add(AGAIN));
            }
        };
        self.store_answers();
        let tasks = scan.tasks.iter().map(|task| task.wake_at);
        let deadlines = scan.deadlines.iter().map(|task| task.deadline_at);
        let messages = scan.messages.iter().map(|message| message.due_at);
        let ahead = self.due.ahead(now);
        // A full page ends in the middle of a moment: that moment is read again.
        let cut = |page: usize, last: Option<Timestamp>| last.filter(|_| page == SCAN);
        let ends = [
            cut(scan.tasks.len(), tasks.clone().next_back()),
            cut(scan.deadlines.len(), deadlines.clone().next_back()),
            cut(scan.messages.len(), messages.clone().next_back()),
        ];
        let end = ends.into_iter().flatten().min();
        let until =
            end.map_or(ahead, |end| end.saturating_add(Duration::from_millis(1)).min(ahead));
        let beyond =
            tasks.chain(deadlines).chain(messages).filter(|at| *at >= until).chain(end).min();
        self.due.scanned(until, beyond, now);
        for task in scan.tasks.into_iter().filter(|task| task.wake_at < until) {
            let claimed = self.calls.get(&task.call).is_some_and(|call| call.task.claim.is_some());
            if !claimed && self.registry.activity(&task.name).is_some() {
                let ticket = self.slots.ticket(&task.name, &task.queue, task.priority);
                self.due.add_task(task.wake_at, task.call, ticket);
            }
        }
        for task in scan.deadlines.into_iter().filter(|task| task.deadline_at < until) {
            self.due.add_deadline(task.deadline_at, task.call);
        }
        for message in scan.messages.into_iter().filter(|message| message.due_at < until) {
            self.due.add_run(message.due_at, message.uid);
        }
    }

    /// A task is durable and waits for its time.
    pub(super) fn task_waits(&mut self, key: CallKey) {
        if self.has_waited_too_long(key) {
            return;
        }
        let waits = |call: &&HotCall| call.task.claim.is_none();
        let Some(call) = self.calls.get(&key).filter(waits) else { return };
        let (at, ticket) = (call.task.wake_at, self.slots.ticket_of(&call.task));
        if self.registry.activity(&call.task.name).is_none() {
            tracing::warn!(instance = %call.instance, activity = %call.task.name,
                "an activity is not registered here; its call waits");
            self.calls.remove(&key);
        } else if at <= self.clock.now() {
            self.task_due(at, key, ticket);
        } else if !self.due.add_task(at, key, ticket) {
            self.calls.remove(&key);
        }
    }

    /// A task's time has come: it waits for a slot, wherever it is.
    fn task_due(&mut self, at: Timestamp, key: CallKey, ticket: Ticket) {
        // A read that was overtaken: the task runs, or waits for another time by now.
        let is_stale = |call: &HotCall| call.task.claim.is_some() || call.task.wake_at != at;
        if !self.calls.get(&key).is_some_and(is_stale) {
            self.slots.enqueue(ticket, at, key);
        }
    }

    /// A task that is not in memory has got a slot, which it holds while it is read.
    pub(super) fn load_for_slot(&mut self, key: CallKey, slot: Slot) {
        if let Some(another) = self.loading.insert(key, slot) {
            return self.slots.free(another);
        }
        let store = self.store.clone();
        self.read(async move { Message::task_loaded(key, load_task(&*store, key).await) });
    }

    pub(super) fn task_loaded(&mut self, key: CallKey, loaded: Result<Option<Box<LoadedTask>>>) {
        let slot = self.loading.remove(&key);
        match loaded {
            Ok(loaded) => {
                self.store_answers();
                let kept = self.calls.contains_key(&key);
                let waits = |loaded: &LoadedTask| loaded.record.task.claim.is_none();
                let loaded = loaded.filter(|loaded| !kept && waits(loaded));
                if kept || loaded.is_some_and(|loaded| self.keep_call(*loaded).is_some()) {
                    return self.task_waits_with(key, slot);
                }
            }
            Err(error) => {
                tracing::warn!(call = %key, "read a task, again later: {error}");
                self.outages.begin(self.clock.now());
                let store = self.store.clone();
                self.read_later(
                    async move { Message::task_loaded(key, load_task(&*store, key).await) },
                );
            }
        }
        slot.into_iter().for_each(|slot| self.slots.free(slot));
    }

    /// A task was read, perhaps because there is a slot for it.
    fn task_waits_with(&mut self, key: CallKey, slot: Option<Slot>) {
        let now = self.clock.now();
        let is_due = self.calls.get(&key).is_some_and(|call| {
            call.task.claim.is_none() && call.task.wake_at <= now && self.stopping.is_none()
        });
        match slot {
            Some(slot) if is_due && !self.has_waited_too_long(key) => self.claim_next(key, slot),
            slot => {
                slot.into_iter().for_each(|slot| self.slots.free(slot));
                self.task_waits(key);
            }
        }
    }

    /// Has a run read that is not in memory. A blocked one is tried again in its own time.
    pub(super) fn load_run(&mut self, uid: Uid) {
        let now = self.clock.now();
        let waits = self.blocked.get(&uid).is_some_and(|tries| tries.next > now);
        if waits || self.runs.contains_key(&uid) {
            return;
        }
        let asleep = self.asleep.entry(uid).or_default();
        // What is on its way to the store comes first; then the run is loaded anyway.
        if asleep.loading || asleep.storing > 0 {
            return;
        }
        asleep.loading = true;
        let store = self.store.clone();
        self.read(async move {
            let loaded = store.load_run(uid).await;
            Message::RunLoaded { uid, loaded: loaded.map(|record| record.map(Box::new)) }
        });
    }

    pub(super) fn run_loaded(&mut self, uid: Uid, loaded: Result<Option<Box<RunRecord>>>) {
        let held = self.asleep.remove(&uid).map(|asleep| asleep.held).unwrap_or_default();
        let record = match loaded {
            Ok(Some(record)) if !record.instance.status.is_closed() => record,
            Ok(record) => {
                // One that is gone may have left some too, which came late.
                if record.is_none_or(|record| !record.messages.is_empty()) {
                    self.park(uid);
                }
                return refuse_news(held);
            }
            Err(error) if error.is_data() => {
                tracing::error!(instance = %uid, "a run cannot be read: {error}");
                return self.stay_blocked(uid, &error.to_string(), held);
            }
            Err(error) => {
                tracing::warn!(instance = %uid, "read a run, again later: {error}");
                let at = self.clock.now().saturating_add(AGAIN);
                self.due.wake_run(at, uid);
                return self.store_held(uid, held);
            }
        };
        if let Some(at) = self.begins_later(&record) {
            self.due.wake_run(at, uid);
            return self.store_held(uid, held);
        }
        match self.revive(&record) {
            Ok((run, draft)) => self.revived(&record, run, draft, held),
            Err(error) => {
                tracing::warn!(instance = %record.instance.id, "run is blocked: {error}");
                self.stay_blocked(uid, &error.to_string(), held);
            }
        }
    }

    /// Notes why a run cannot go on. Its news is stored; it is tried again later.
    pub(super) fn stay_blocked(&mut self, uid: Uid, error: &str, held: Vec<News>) {
        let messages = vec![MessageWrite::Park(uid)];
        let step = Step { instance: Some(blocked(uid, error)), messages, ..Step::default() };
        let tries = self.blocked.get(&uid).map_or(0, |tries| tries.count);
        self.blocked.insert(uid, Tries::after(tries));
        self.outbox.push(step, vec![Effect::Blocked(uid)]);
        self.store_held(uid, held);
    }

    /// Stores news that was held back while a run was read, now that it was not loaded after all.
    fn store_held(&mut self, uid: Uid, held: Vec<News>) {
        for news in held {
            let run = match &news.origin {
                super::run::Origin::Call { call, .. } => call.run,
                _ => RunKey::first(uid),
            };
            self.store_news(run, news);
        }
    }

    /// Replays a run. What its last turn asked for and a crash kept from the disk is in the draft.
    fn revive(&mut self, record: &RunRecord) -> std::result::Result<(HotRun, Draft), Blocked> {
        let row = &record.instance;
        let started = match record.events.first().map(|event| &event.kind) {
            Some(EventKind::RunStarted(started)) => started.clone(),
            _ => first_event(row, self.newest_version(&row.workflow), self.clock.now()),
        };
        let workflow = self.version_of(&row.workflow, started.version)?;
        let key = record.key();
        let begun = begin_code(key, &workflow, &started.input);
        let code = begun.map_err(Blocked::Unreadable)?;
        let mut run = new_run(key, row.id.clone(), code, About::new(row, &started));
        run.calls = OpenCalls::of(record);
        for row in &record.messages {
            run.later.insert((row.due_at, run.arrivals), row.clone());
            run.arrivals += 1;
        }
        if record.events.is_empty() {
            return self.begin_started(run, record, started);
        }
        let mut rest = run.code.replay(&record.events)?;
        self.settle_what_ended(&mut run, record);
        // A limit that the last turn passed ends the run now, if a crash kept it from that.
        if let Some(failure) = self.passed_limit(&run, &rest) {
            rest.extend(run.code.fail(failure));
        }
        let mut draft = Draft::default();
        let at = record.events.last().map_or(self.clock.now(), |event| event.at);
        let recorded = self.record(&mut run, &mut draft, rest, at);
        if recorded.is_err() {
            draft.effects.iter().filter_map(Effect::call).for_each(|call| self.forget_call(call));
        }
        recorded.map(|()| (run, draft))
    }

    /// The code of a workflow in the version that a run is on.
    fn version_of(
        &self,
        workflow: &str,
        version: u32,
    ) -> std::result::Result<Arc<WorkflowDefinition>, Blocked> {
        let found = self.registry.workflow_version(workflow, version).cloned();
        found.ok_or_else(|| {
            let which = match self.registry.workflow(workflow) {
                Some(_) => format!("version {version} of workflow {workflow}"),
                None => format!("workflow {workflow}"),
            };
            Blocked::Unreadable(format!("{which} is not registered in this process"))
        })
    }

    /// Calls that the run gave up before the crash and that were not running: they have ended.
    fn settle_what_ended(&self, run: &mut HotRun, record: &RunRecord) {
        for seq in run.code.machine().lock().settling() {
            let is_result = |row: &MessageRow| row.id == result_id(run.key, seq);
            if !run.calls.contains(seq) && !record.messages.iter().any(is_result) {
                run.news.push_back(cancelled_call(seq, 0));
            }
        }
    }

    /// When a run begins that was started by a process that does not work on it, if not now.
    fn begins_later(&self, record: &RunRecord) -> Option<Timestamp> {
        let mut starts = record.messages.iter().filter(|row| is_start(row));
        let due_at = starts.next().filter(|_| record.events.is_empty())?.due_at;
        (due_at > self.clock.now()).then_some(due_at)
    }

    /// The first turn of a run that was started by a process that does not work on it.
    fn begin_started(
        &mut self,
        mut run: HotRun,
        record: &RunRecord,
        started: RunStarted,
    ) -> std::result::Result<(HotRun, Draft), Blocked> {
        let mut draft = Draft::default();
        for start in record.messages.iter().filter(|row| is_start(row)) {
            run.later.retain(|_, row| row.id != start.id);
            let (uid, id) = (start.uid, start.id.clone());
            draft.step.messages.push(MessageWrite::Delete { uid, id });
        }
        let event = EventKind::RunStarted(started);
        match self.begin_run(&mut run, &mut draft, &event) {
            Ok(()) => Ok((run, draft)),
            Err(blocked) => {
                let calls = draft.effects.iter().filter_map(Effect::call);
                calls.for_each(|call| self.forget_call(call));
                Err(blocked)
            }
        }
    }

    fn revived(&mut self, record: &RunRecord, mut run: HotRun, mut draft: Draft, held: Vec<News>) {
        let uid = record.instance.uid;
        run.tries = self.blocked.remove(&uid).map_or(0, |tries| tries.count);
        if record.instance.status == Status::Blocked {
            draft.step.messages.push(MessageWrite::Unpark(uid));
        }
        if record.instance.status == Status::Blocked && draft.step.instance.is_none() {
            draft.step.instance = Some(InstanceWrite::Status {
                uid,
                status: Status::Running,
                outcome: None,
                compensation: None,
                error: None,
                closed_at: None,
            });
        }
        run.committing = !draft.step.is_empty();
        let closed = run.code.is_closed();
        self.ids.insert(run.id.clone(), uid);
        // What is due already is taken below, and must not wake the run again if that blocks it.
        let now = self.clock.now();
        for (at, _) in run.later.keys().filter(|(at, _)| *at > now) {
            self.due.add_run(*at, uid);
        }
        self.runs.insert(uid, run);
        if closed {
            draft.effects.push(Effect::Closed(uid));
        }
        if !draft.step.is_empty() {
            draft.effects.push(Effect::Durable(uid));
            self.outbox.push(draft.step, draft.effects);
        }
        self.messages_due(uid, now);
        for news in held {
            self.deliver(record.key(), news);
        }
    }

    /// A blocked run is tried again after a while, each time a longer one: deploying mended code is
    /// enough, and so is mending the data.
    pub(super) fn try_blocked_later(&mut self, uid: Uid) {
        let tries = self.blocked.entry(uid).or_insert(Tries::after(0));
        let wait = AGAIN.saturating_mul(1 << tries.count.min(12)).min(BLOCKED);
        tries.count = tries.count.saturating_add(1);
        tries.next = self.clock.now().saturating_add(wait);
        self.due.wake_run(tries.next, uid);
    }
}

fn is_start(row: &MessageRow) -> bool {
    matches!(row.body, StoredMessage::Start)
}

fn blocked(uid: Uid, error: &str) -> InstanceWrite {
    InstanceWrite::Status {
        uid,
        status: Status::Blocked,
        outcome: None,
        compensation: None,
        error: Some(error.to_string()),
        closed_at: None,
    }
}

async fn scan(store: &dyn Store, known: Arc<[String]>) -> Result<Scan> {
    let end = Timestamp::from_millis(i64::MAX);
    let tasks = store.due_tasks(Some(known), end, SCAN).await?;
    let deadlines = store.due_deadlines(end, SCAN).await?;
    let messages = store.due_messages(end, SCAN).await?;
    Ok(Scan { tasks, deadlines, messages })
}

async fn left_blocked(store: &dyn Store) -> Result<Vec<InstanceRow>> {
    let status = vec![Status::Blocked];
    store.list(InstanceFilter { status, limit: SCAN, ..InstanceFilter::default() }).await
}

pub(super) async fn load_task(store: &dyn Store, key: CallKey) -> Result<Option<LoadedTask>> {
    let Some(record) = store.load_task(key).await? else { return Ok(None) };
    let policy = store.policy(&record.task.policy).await?;
    Ok(Some(LoadedTask { record, policy }))
}

async fn abandoned(store: &dyn Store, node: &str) -> Result<Vec<LoadedTask>> {
    let mut tasks = Vec::new();
    for task in store.claimed_by_others(node, ABANDONED).await? {
        tasks.extend(load_task(store, task.call).await?);
    }
    Ok(tasks)
}

/// The code of a run, before its first turn. The error says why its argument cannot be read.
pub(super) fn begin_code(
    key: RunKey,
    workflow: &WorkflowDefinition,
    input: &Payload,
) -> std::result::Result<Run, String> {
    let mut begun = Ok(());
    let code = Run::new(key, |machine| {
        workflow.begin(machine, input).unwrap_or_else(|error| {
            begun = Err(error);
            Box::pin(std::future::pending())
        })
    });
    begun.map(|()| code)
}

/// A run that is not begun yet.
pub(super) fn new_run(key: RunKey, id: String, code: Run, about: About) -> HotRun {
    HotRun {
        key,
        id,
        about,
        code,
        committing: false,
        news: VecDeque::new(),
        later: BTreeMap::new(),
        arrivals: 0,
        calls: OpenCalls::default(),
        request_id: None,
        touched: 0,
        tries: 0,
        hearing: Hearing::default(),
        taken: HashSet::new(),
        read_again: false,
    }
}
