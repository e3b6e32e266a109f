//! Runs in memory: taking news, turn by turn, and writing down what the turns ask for.

use std::collections::{BTreeMap, HashSet, VecDeque};

use resurgam_core::command::{ChildCall, Command, CommandKind, DEFAULT_QUEUE};
use resurgam_core::event::{ActivityFailed, Compensation, ParentClose};
use resurgam_core::retry::Reason;
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{CallKey, Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{
    AttemptRow, InstanceRow, KvRow, Message as StoredMessage, MessageRow, Status,
};
use resurgam_store::{Birth, InstanceWrite, MessageWrite, Step, TaskWrite};

use super::Engine;
use super::commit::{BYTES, Effect};
use super::load::Tries;
use super::next::{About, first_messages};
use super::open::OpenCalls;
use super::own::Hearing;
use super::request::Reply;
use crate::error::Error;
use crate::handle::Outcome;

/// A run in memory.
#[derive(Debug)]
pub(super) struct HotRun {
    pub(super) key: RunKey,
    pub(super) id: String,
    pub(super) code: Run,
    /// True while a step of it is not durable.
    pub(super) committing: bool,
    /// What it has not taken yet, in order.
    pub(super) news: VecDeque<News>,
    /// Messages that are stored and not due yet, by time and arrival.
    pub(super) later: BTreeMap<(Timestamp, u64), MessageRow>,
    pub(super) arrivals: u64,
    pub(super) calls: OpenCalls,
    /// What makes a repeated start the same one, until the first is durable.
    pub(super) request_id: Option<String>,
    pub(super) about: About,
    /// When something last happened to it, on the engine's own count.
    pub(super) touched: u64,
    /// How often it was tried again since it last got anywhere.
    pub(super) tries: u32,
    /// Its messages are being read, because somebody else may have stored some.
    pub(super) hearing: Hearing,
    /// Stored messages that it has taken: a read that began before may still find them.
    pub(super) taken: HashSet<String>,
    /// Its messages are to be read once more when its step is durable.
    pub(super) read_again: bool,
}

impl HotRun {
    /// True when a stored message is known, taken or not.
    pub(super) fn knows(&self, id: &str) -> bool {
        let is = |news: &News| matches!(&news.origin, Origin::Stored { id: known } if known == id);
        self.taken.contains(id)
            || self.news.iter().any(is)
            || self.later.values().any(|row| row.id == id)
    }
}

/// Something that a run has to take notice of.
#[derive(Debug)]
pub(super) struct News {
    /// The input it becomes.
    pub(super) event: EventKind,
    /// Where it came from.
    pub(super) origin: Origin,
    /// Who waits for it to be durable.
    pub(super) reply: Option<Reply<()>>,
}

/// Where news came from: what is to be removed when it becomes an event, or to be stored when it
/// cannot become one now.
#[derive(Debug)]
pub(super) enum Origin {
    /// A message in the store.
    Stored { id: String },
    /// An activity call that ended in this process.
    Call { call: CallKey, row: Option<AttemptRow> },
    /// A request in this process.
    Request,
    /// The run itself: it follows from its history.
    History,
}

/// A run that is not in memory, with news on its way.
#[derive(Debug, Default)]
pub(super) struct Asleep {
    /// How many pieces of news are on their way to the store.
    pub(super) storing: usize,
    /// The run is being read.
    pub(super) loading: bool,
    /// News that came while it was being read.
    pub(super) held: Vec<News>,
}

/// How many rows the turns of one step may come to before it takes no further news. Small, so that
/// all inputs are in the first part when the last turn is wide.
const STEP_ROWS: usize = 1_000;

/// And how many bytes.
const STEP_BYTES: usize = BYTES / 4;

impl Engine {
    /// Hands news to a run, wherever the run is.
    pub(super) fn deliver(&mut self, key: RunKey, news: News) {
        match self.runs.get_mut(&key.uid) {
            Some(run) if run.key == key => {
                run.news.push_back(news);
                self.advance(key.uid);
            }
            _ => self.keep_news(key, news),
        }
    }

    /// Lets a run take its news, unless a step of it is still on the way to the disk.
    pub(super) fn advance(&mut self, uid: Uid) {
        let Some(run) = self.runs.get_mut(&uid) else { return };
        if run.committing || run.news.is_empty() {
            return;
        }
        let Some(mut run) = self.runs.remove(&uid) else { return };
        let mut draft = Draft::default();
        let blocked = self.take_news(&mut run, &mut draft).err();
        run.committing = true;
        match blocked {
            None => {
                let closed = run.code.is_closed();
                run.tries = 0;
                self.runs.insert(uid, run);
                if closed {
                    draft.effects.push(Effect::Closed(uid));
                }
                draft.effects.push(Effect::Durable(uid));
                self.outbox.push(draft.step, draft.effects);
            }
            Some(blocked) => self.block(run, draft, blocked),
        }
    }

    /// One turn for each piece of news, all in one step.
    fn take_news(&mut self, run: &mut HotRun, draft: &mut Draft) -> Result<(), Blocked> {
        self.clock_ticks(run);
        while draft.step.rows() < STEP_ROWS && draft.step.bytes() < STEP_BYTES {
            if draft.continues {
                break;
            }
            let Some(news) = run.news.pop_front() else { break };
            if run.code.is_closed() && matches!(news.origin, Origin::Request) {
                draft.refuse(news);
                continue;
            }
            let expected = !run.code.is_closed() && run.code.machine().lock().expects(&news.event);
            if let Origin::Stored { id } = &news.origin
                && !matches!(news.event, EventKind::TimerFired { .. })
            {
                run.taken.insert(id.clone());
            }
            // Before the turn: should it close the run, this is not part of what is closed.
            draft.remove_source(run.key.uid, &news, expected);
            if let Origin::Call { call, .. } = &news.origin {
                run.calls.remove(call.seq);
            }
            if expected && let Err(blocked) = self.take_turn(run, draft, &news.event) {
                run.news.push_front(news);
                return Err(blocked);
            }
            draft.consume(news);
        }
        Ok(())
    }

    /// The first turn of a run, or what it waits for before that.
    pub(super) fn begin_run(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        event: &EventKind,
    ) -> Result<(), Blocked> {
        self.clock_ticks(run);
        self.take_turn(run, draft, event)?;
        if let EventKind::RunStarted(started) = event
            && !run.code.is_closed()
        {
            let now = self.clock.now();
            for row in first_messages(run.key, &run.about.settings, started, now) {
                draft.keep_message(run, row);
            }
        }
        Ok(())
    }

    /// One input, one turn.
    fn take_turn(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        kind: &EventKind,
    ) -> Result<(), Blocked> {
        let at = self.clock.now().max(run.code.last_at());
        let event = Event { seq: run.code.next_seq(), at, kind: kind.clone() };
        let _span = tracing::debug_span!("turn", instance = %run.id, input = kind.name()).entered();
        let mut commands = run.code.turn(&event)?;
        metrics::counter!("resurgam.turns").increment(1);
        draft.step.events.push((run.key, event));
        if let Some(failure) = self.passed_limit(run, &commands) {
            commands.extend(run.code.fail(failure));
        }
        self.record(run, draft, commands, at)
    }

    /// The limit that a run passes with these commands: it fails with it.
    pub(super) fn passed_limit(&self, run: &HotRun, commands: &[Command]) -> Option<Failure> {
        if run.code.is_closed() || run.code.machine().lock().is_ending() {
            return None;
        }
        let (events, most) = (run.code.next_seq().0 - 1, self.options.max_history);
        if events > most {
            let message = format!(
                "the history has {events} events, {most} are allowed; continue as new before that"
            );
            return Some(Failure::terminal(message).with_type("HistoryLimit"));
        }
        let (open, most) =
            (run.code.machine().lock().open_activities(), self.options.max_open_calls);
        if open > most {
            let message = format!("{open} activity calls are open at once, {most} are allowed");
            return Some(Failure::terminal(message).with_type("OpenCallsLimit"));
        }
        let (bytes, most) = (run.calls.bytes_after(commands), self.options.max_open_input);
        (bytes > most).then(|| {
            let message =
                format!("the arguments of open calls have {bytes} bytes, {most} are allowed");
            Failure::terminal(message).with_type("OpenInputLimit")
        })
    }

    /// Writes down what a turn asks for.
    pub(super) fn record(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        commands: Vec<Command>,
        at: Timestamp,
    ) -> Result<(), Blocked> {
        for Command { seq, mut kind } in commands {
            let key = run.key.call(seq);
            self.fill_in(run, seq, &mut kind);
            let record = kind.record();
            self.check_size(&record)?;
            draft.step.events.push((run.key, Event { seq, at, kind: record }));
            match kind {
                CommandKind::ScheduleActivity(call) => {
                    run.calls.insert(seq, call.input.len());
                    let name = call.name.clone();
                    self.schedule_call(key, call, run, at, draft).map_err(|error| {
                        Blocked::Unreadable(format!("the retry policy of {name}: {error}"))
                    })?;
                }
                CommandKind::CancelActivity { activity, settle: false } => {
                    // One that ended while the run could not take notice has no task any more.
                    if run.calls.remove(activity) {
                        self.cancel_call(run.key.call(activity), draft);
                    }
                }
                CommandKind::CancelActivity { activity, settle: true } => {
                    if run.calls.contains(activity) {
                        self.settle_call(run, activity, draft);
                    }
                }
                // They are in the history, and in the memory of the run.
                CommandKind::RecordCompensation { .. } | CommandKind::MarkVersion { .. } => {}
                CommandKind::StartChild(child) => self.start_child(run, seq, *child, at, draft),
                CommandKind::CancelChild { child, terminate } => {
                    end_child(run.key, child, terminate, draft);
                }
                CommandKind::StartTimer { fire_at } => {
                    draft.keep_message(run, timer_message(run.key, seq, fire_at));
                }
                CommandKind::CancelTimer { timer } => {
                    let id = timer_id(run.key, timer);
                    run.later.retain(|_, row| row.id != id);
                    let uid = run.key.uid;
                    draft.step.messages.push(MessageWrite::Delete { uid, id });
                }
                CommandKind::SetStatus { value } => {
                    let uid = run.key.uid;
                    draft.step.kv.push(KvRow { uid, key: "status".to_string(), value });
                }
                CommandKind::SetKv { key, value } => {
                    draft.step.kv.push(KvRow { uid: run.key.uid, key, value });
                }
                CommandKind::Complete { result } => {
                    self.close(run, draft, Outcome::Completed(result), None, at);
                }
                CommandKind::Fail { failure, compensation, carried } => {
                    match self.run_again(run, &failure, compensation, &carried, at) {
                        Some(again) => {
                            draft.step.events.pop();
                            self.try_run_again(run, draft, seq, again, at);
                        }
                        None => {
                            self.close(run, draft, Outcome::Failed(failure), compensation, at);
                        }
                    }
                }
                CommandKind::EndCancelled { failure, compensation } => {
                    self.close(run, draft, Outcome::Cancelled(failure), compensation, at);
                }
                CommandKind::ContinueAsNew { input, carried } => {
                    draft.step.events.pop();
                    self.continue_as_new(run, draft, seq, input, *carried, at);
                }
            }
        }
        Ok(())
    }

    /// A value that is too large is a mistake of the code: nothing of it is written down.
    fn check_size(&self, record: &EventKind) -> Result<(), Blocked> {
        let (size, most) = (record.payload_len(), self.options.max_payload);
        let what = match record {
            _ if size <= most => return Ok(()),
            EventKind::ActivityScheduled(call) => format!("the arguments of {}", call.name),
            EventKind::ChildStarted(child) => format!("the argument of {}", child.workflow),
            EventKind::RunContinued(_) => "the argument of the next run".to_string(),
            EventKind::KvSet { key, .. } => format!("the value of {key:?}"),
            EventKind::StatusSet { .. } => "the status".to_string(),
            EventKind::RunCompleted { .. } => "the result of the workflow".to_string(),
            _ => return Ok(()),
        };
        Err(Blocked::Unreadable(format!("{what}: {size} bytes, {most} are allowed")))
    }

    /// What a command leaves open: a call that names no queue goes to its activity's, or else to
    /// its instance's; a child without an id is called after its parent. What it says at too great
    /// length is cut: that ends the run, so no replay compares it with what the code says.
    fn fill_in(&self, run: &HotRun, seq: Seq, kind: &mut CommandKind) {
        match kind {
            CommandKind::ScheduleActivity(call) if call.options.queue.is_none() => {
                let activity = self.registry.activity(&call.name);
                let queue = activity.and_then(|activity| activity.options.queue.clone());
                let own = Some(&run.about.queue).filter(|queue| *queue != DEFAULT_QUEUE);
                call.options.queue = queue.or_else(|| own.cloned());
            }
            CommandKind::Fail { failure, .. } | CommandKind::EndCancelled { failure, .. } => {
                *failure = std::mem::take(failure).bounded();
            }
            CommandKind::StartChild(child) => {
                let place = match run.key.run {
                    1 => seq.to_string(),
                    run => format!("{run}.{seq}"),
                };
                child.id.get_or_insert_with(|| format!("{}/{place}", run.id));
            }
            _ => {}
        }
    }

    /// Starts an instance together with the step that asks for it.
    fn start_child(
        &mut self,
        run: &HotRun,
        seq: Seq,
        child: ChildCall,
        at: Timestamp,
        draft: &mut Draft,
    ) {
        let ChildCall { id, workflow, input, parent_close, mut settings } = child;
        let uid = Uid::of_child(run.key, seq);
        let detached = parent_close == ParentClose::Detached;
        settings.parent_close = Some(parent_close).filter(|_| !detached);
        let mut row = InstanceRow::new(uid, id.unwrap_or_default(), workflow, input, at);
        row.queue.clone_from(&run.about.queue);
        row.priority = run.about.priority;
        row.parent = (!detached).then(|| run.key.call(seq));
        row.settings = settings;
        let taken = Failure::terminal(format!("an instance of the id {:?} exists", row.id))
            .with_type("AlreadyExists");
        let refused = EventKind::ChildFailed { child: seq, failure: taken };
        draft.step.births.push(Birth {
            start: start_message(uid, Timestamp::EPOCH),
            otherwise: (!detached).then(|| child_message(run.key.call(seq), refused)),
            row,
        });
        draft.effects.push(Effect::Wake(uid));
        draft.effects.push(Effect::Wake(run.key.uid));
    }

    /// The workflow no longer wants a call's result, but wants to hear how it ended.
    fn settle_call(&mut self, run: &mut HotRun, activity: Seq, draft: &mut Draft) {
        let key = run.key.call(activity);
        let transacting = self.transactions.is_under_way(key);
        let begun = self.calls.get_mut(&key).filter(|call| call.task.claim.is_some());
        let Some(call) = begun else {
            // No attempt runs, and those before have failed: it cannot have taken effect.
            let attempt = self.calls.get(&key).map_or(0, |call| call.task.attempt);
            run.calls.remove(activity);
            self.cancel_call(key, draft);
            return run.news.push_front(cancelled_call(activity, attempt));
        };
        call.task.progress.cancelled = true;
        call.running.iter().for_each(crate::attempt::Running::tell);
        let of_this_step = draft.step.tasks.iter_mut().find_map(|write| match write {
            TaskWrite::Insert(row) if row.call == key => Some(row),
            _ => None,
        });
        match of_this_step {
            Some(row) => row.progress.cancelled = true,
            // It may be over by now, with a result that this run has not heard of yet.
            None if transacting => draft.step.tasks.push(TaskWrite::Amend(call.task.clone())),
            None => draft.step.tasks.push(TaskWrite::Update(call.task.clone())),
        }
    }

    /// The workflow no longer wants a call's result.
    fn cancel_call(&mut self, key: CallKey, draft: &mut Draft) {
        // A call of this same step is not stored yet: it is taken back.
        let fresh = |write: &TaskWrite| matches!(write, TaskWrite::Insert(row) if row.call == key);
        let of_this_step = draft.step.events.first().is_some_and(|(_, first)| key.seq > first.seq);
        let inserted = if of_this_step { draft.step.tasks.iter().position(fresh) } else { None };
        match inserted {
            Some(place) => {
                draft.step.tasks.remove(place);
                draft.effects.retain(|effect| !effect.is_about(key));
            }
            // It may have ended meanwhile, with an outcome that nobody wants.
            None => draft.delete_task(key, TaskWrite::Discard),
        }
        self.forget_call(key);
    }

    /// Ends the run: nothing of it stays open.
    fn close(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        outcome: Outcome,
        compensation: Option<Compensation>,
        at: Timestamp,
    ) {
        self.end_run(run, draft);
        if let Some(parent) = run.about.parent {
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
        draft.effects.extend(run.about.schedule.clone().map(Effect::ScheduleMayGoOn));
        draft.effects.push(Effect::Finished(run.key.uid, outcome));
    }

    /// A run that cannot go on: its news is stored, and it is tried again later.
    fn block(&mut self, mut run: HotRun, draft: Draft, blocked: Blocked) {
        let uid = run.key.uid;
        tracing::warn!(instance = %run.id, "run is blocked: {blocked}");
        // What the good turns before it asked for is lost with them: their news comes first again.
        let mut news: VecDeque<News> = draft.consumed;
        news.append(&mut run.news);
        for call in draft.effects.iter().filter_map(Effect::call) {
            self.forget_call(call);
        }
        let mut step = Step {
            instance: Some(InstanceWrite::Status {
                uid,
                status: Status::Blocked,
                outcome: None,
                compensation: None,
                error: Some(blocked.to_string()),
                closed_at: None,
            }),
            messages: vec![MessageWrite::Park(uid)],
            ..Step::default()
        };
        let is_reply = |effect: &Effect| matches!(effect, Effect::Reply(_));
        let mut effects: Vec<Effect> = draft.effects.into_iter().filter(is_reply).collect();
        effects.push(Effect::Blocked(uid));
        for news in news {
            put_back(run.key, news, &mut step, &mut effects);
        }
        self.ids.remove(&run.id);
        self.blocked.insert(uid, Tries::after(run.tries));
        // Its attempts go on, and their outcomes are stored until the run can take them.
        self.outbox.push(step, effects);
    }

    /// Keeps news for a run that is not in memory, and has the run loaded. News that comes while
    /// the run is being read is held back: stored now, it could be missed by the read. So is what
    /// somebody asks for: the run may be over by now, and then they are to hear of it.
    fn keep_news(&mut self, key: RunKey, news: News) {
        let loadable = !self.blocked.contains_key(&key.uid) && !self.runs.contains_key(&key.uid);
        let asleep = self.asleep.entry(key.uid).or_default();
        let asked = matches!(news.origin, Origin::Request) && asleep.storing == 0 && loadable;
        if asleep.loading || asked {
            asleep.held.push(news);
            return self.load_run(key.uid);
        }
        self.store_news(key, news);
    }

    /// Stores news for a run that is not in memory, and has the run loaded after that.
    pub(super) fn store_news(&mut self, key: RunKey, news: News) {
        self.asleep.entry(key.uid).or_default().storing += 1;
        let mut step = Step::default();
        let mut effects = vec![Effect::NewsStored(key.uid)];
        put_back(key, news, &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// News of a run that is not in memory is durable: the run is loaded to take it.
    pub(super) fn news_stored(&mut self, uid: Uid) {
        let Some(asleep) = self.asleep.get_mut(&uid) else { return };
        asleep.storing = asleep.storing.saturating_sub(1);
        if asleep.storing > 0 {
            return;
        }
        self.asleep.remove(&uid);
        self.load_run(uid);
    }

    /// Messages of a run whose time has come become news.
    pub(super) fn messages_due(&mut self, uid: Uid, now: Timestamp) {
        let Some(run) = self.runs.get_mut(&uid) else { return };
        while let Some(entry) = run.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let row = entry.remove();
            if let Some(news) = news_of(run.key, row) {
                run.news.push_back(news);
            }
        }
        self.advance(uid);
    }

    /// Remembers that something happened to a run.
    fn clock_ticks(&mut self, run: &mut HotRun) {
        self.outbox.ticks += 1;
        run.touched = self.outbox.ticks;
    }

    /// Lets runs go that nothing happened to for longest, while there are too many. That cancels
    /// nothing.
    pub(super) fn evict(&mut self) {
        let over = self.runs.len().saturating_sub(self.options.hot_runs);
        if over == 0 {
            return;
        }
        let is_idle = |run: &HotRun| !run.committing && run.news.is_empty();
        let idle = self.runs.iter().filter(|(_, run)| is_idle(run) && !run.hearing.is_reading());
        let mut idle: Vec<(u64, Uid)> = idle.map(|(uid, run)| (run.touched, *uid)).collect();
        idle.sort_unstable();
        // A few more than needed, so that the next run does not begin the search again.
        for (_, uid) in idle.into_iter().take(over + self.options.hot_runs / 16) {
            if let Some(run) = self.runs.remove(&uid) {
                self.ids.remove(&run.id);
            }
        }
    }
}

/// A step in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) step: Step,
    pub(super) effects: Vec<Effect>,
    /// The news that is in it, in case the run turns out to be blocked.
    consumed: VecDeque<News>,
    /// Tasks that are deleted already: a call can be given up and end in the same step.
    deleted: HashSet<CallKey>,
    /// The run is over, and all its tasks with it.
    pub(super) closed: bool,
    /// Another run follows, and takes the rest of the news.
    pub(super) continues: bool,
    /// Why the run is blocked from the start.
    pub(super) error: Option<String>,
}

impl Draft {
    /// Stores a message that the run itself is to read later.
    fn keep_message(&mut self, run: &mut HotRun, row: MessageRow) {
        run.later.insert((row.due_at, run.arrivals), row.clone());
        run.arrivals += 1;
        self.effects.push(Effect::TimerStarted(row.due_at, run.key.uid));
        self.step.messages.push(MessageWrite::Insert(row));
    }

    fn delete_task(&mut self, call: CallKey, write: fn(CallKey) -> TaskWrite) {
        if !self.closed && self.deleted.insert(call) {
            self.step.tasks.push(write(call));
        }
    }

    /// Tells a sender that the run is over, once it is.
    fn refuse(&mut self, news: News) {
        let Some(reply) = news.reply else { return };
        let refused = Reply::call(move |written: crate::error::Result<()>| {
            reply.send(written.and(Err(too_late())));
        });
        self.effects.push(Effect::Reply(refused));
    }

    /// Removes what the news came from. The task of a call that was given up is gone already.
    fn remove_source(&mut self, uid: Uid, news: &News, expected: bool) {
        match &news.origin {
            Origin::Stored { id } => {
                self.step.messages.push(MessageWrite::Delete { uid, id: id.clone() });
            }
            Origin::Call { call, row } => {
                self.step.attempts.extend(row.clone());
                let write = if expected { TaskWrite::Delete } else { TaskWrite::Discard };
                self.delete_task(*call, write);
            }
            Origin::Request | Origin::History => {}
        }
    }

    /// Notes that the news is in the step.
    fn consume(&mut self, mut news: News) {
        if let Some(reply) = news.reply.take() {
            self.effects.push(Effect::Reply(reply));
        }
        self.consumed.push_back(news);
    }
}

/// News for a run that is over by now: its senders are told.
pub(super) fn refuse_news(news: impl IntoIterator<Item = News>) {
    for reply in news.into_iter().filter_map(|news| news.reply) {
        reply.send(Err(too_late()));
    }
}

pub(super) fn too_late() -> Error {
    Error::closed("the instance closed before the news reached it")
}

/// Stores news that cannot become an event now.
pub(super) fn put_back(key: RunKey, news: News, step: &mut Step, effects: &mut Vec<Effect>) {
    let uid = key.uid;
    match (news.origin, news.event) {
        // It is still there.
        (Origin::Stored { .. }, _) => {}
        (Origin::Call { call, row }, event) => {
            // A call that was given up has no task any more.
            step.tasks.push(TaskWrite::Discard(call));
            step.attempts.extend(row);
            let id = result_id(key, call.seq);
            let body = StoredMessage::Result { run: key.run, event };
            step.messages.push(MessageWrite::Insert(now_due(uid, id, body)));
        }
        (Origin::Request, EventKind::SignalReceived { name, value, id }) => {
            let row = signal_message(uid, id, fresh_signal_id, name, value);
            step.messages.push(MessageWrite::Insert(row));
        }
        (Origin::Request, EventKind::TerminateRequested { reason }) => {
            let body = StoredMessage::Terminate { reason };
            step.messages.push(MessageWrite::Insert(now_due(uid, "terminate".to_string(), body)));
        }
        (Origin::Request, EventKind::CancelRequested { reason }) => {
            let body = StoredMessage::Cancel { reason };
            step.messages.push(MessageWrite::Insert(now_due(uid, "cancel".to_string(), body)));
        }
        (Origin::Request | Origin::History, _) => {}
    }
    effects.extend(news.reply.map(Effect::Reply));
}

/// The news in a stored message; `None` when it is for an earlier run.
pub(super) fn news_of(key: RunKey, row: MessageRow) -> Option<News> {
    let event = match row.body {
        StoredMessage::Timer { run, timer } => {
            (run == key.run).then_some(EventKind::TimerFired { timer })?
        }
        StoredMessage::Result { run, event } => (run == key.run).then_some(event)?,
        StoredMessage::Signal { name, value } => {
            let id = row.id.strip_prefix(REPEATABLE).map(str::to_string);
            EventKind::SignalReceived { name, value, id }
        }
        StoredMessage::Cancel { reason } => EventKind::CancelRequested { reason },
        StoredMessage::Terminate { reason } => EventKind::TerminateRequested { reason },
        // It is taken when the run is read for the first time.
        StoredMessage::Start => return None,
    };
    Some(News { event, origin: Origin::Stored { id: row.id }, reply: None })
}

/// The message that tells how a call ended.
pub(super) fn result_id(key: RunKey, call: Seq) -> String {
    format!("result/{}/{call}", key.run)
}

pub(super) fn timer_id(key: RunKey, timer: Seq) -> String {
    format!("timer/{}/{timer}", key.run)
}

pub(super) fn timer_message(key: RunKey, timer: Seq, due_at: Timestamp) -> MessageRow {
    let body = StoredMessage::Timer { run: key.run, timer };
    MessageRow { uid: key.uid, id: timer_id(key, timer), due_at, body }
}

/// A signal that waits to be read.
pub(super) fn signal_message(
    uid: Uid,
    id: Option<String>,
    fresh: impl FnOnce() -> String,
    name: String,
    value: Payload,
) -> MessageRow {
    let id = id.map_or_else(fresh, |id| format!("{REPEATABLE}{id}"));
    now_due(uid, id, StoredMessage::Signal { name, value })
}

/// What became of a child, for the run that started it.
fn child_message(parent: CallKey, event: EventKind) -> MessageRow {
    let CallKey { run, seq } = parent;
    let id = format!("child/{}/{seq}", run.run);
    now_due(run.uid, id, StoredMessage::Result { run: run.run, event })
}

/// Has a child end.
fn end_child(parent: RunKey, child: Seq, terminate: bool, draft: &mut Draft) {
    let uid = Uid::of_child(parent, child);
    let reason = "the workflow that started it ended it".to_string();
    let (id, body) = match terminate {
        true => ("terminate", StoredMessage::Terminate { reason }),
        false => ("cancel", StoredMessage::Cancel { reason }),
    };
    let row = now_due(uid, id.to_string(), body);
    draft.step.messages.push(MessageWrite::InsertIfOpen(row));
    draft.effects.push(Effect::Wake(uid));
}

/// The end of a call that was given up before it took effect.
pub(super) fn cancelled_call(activity: Seq, attempt: u32) -> News {
    let event = EventKind::ActivityFailed(ActivityFailed {
        activity,
        failure: Failure::of_kind(resurgam_core::Kind::Cancelled, "the workflow gave it up"),
        attempt,
        started_at: Timestamp::EPOCH,
        why: Reason::Cancelled.name().to_string(),
        retry_metadata: None,
    });
    News { event, origin: Origin::History, reply: None }
}

/// What begins an instance that was started by a process that does not work on it.
pub(super) fn start_message(uid: Uid, due_at: Timestamp) -> MessageRow {
    MessageRow { uid, id: "start".to_string(), due_at, body: StoredMessage::Start }
}

pub(super) fn now_due(uid: Uid, id: String, body: StoredMessage) -> MessageRow {
    MessageRow { uid, id, due_at: Timestamp::EPOCH, body }
}

/// What the id of a message begins with when its sender gave the signal an id.
const REPEATABLE: &str = "signal/id/";

/// An id for a signal that came without one.
pub(super) fn fresh_signal_id() -> String {
    format!("signal/{}", uuid::Uuid::now_v7())
}
