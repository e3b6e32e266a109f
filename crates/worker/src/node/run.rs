//! Runs in memory: taking news, turn by turn. What the turns ask for is written down in
//! `record.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{CallKey, Event, EventKind, Failure, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{AttemptRow, Message as StoredMessage, MessageRow, Status, TaskRow};
use resurgam_store::{InstanceWrite, MessageWrite, Step, TaskWrite};

use super::Node;
use super::commit::BYTES;
use super::effect::Effect;
use super::later::Later;
use super::message::{news_of, wake_id, wake_message};
use super::next::{About, first_messages};
use super::own::Hearing;
use super::report::end_report;
use super::request::Reply;
use super::revive::{Tries, held_up};
use super::unread::Unread;
use crate::error::Error;

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
    /// What senders in this process ask for, each with the number of the last read that began before
    /// it. Another process may have stored a message earlier: that one comes first, so these wait
    /// until a later read has found it.
    requests: VecDeque<(u64, News)>,
    /// How calls that it gave up have ended: what follows from its own history comes first.
    pub(super) settled: VecDeque<News>,
    /// Messages that are stored and not due yet.
    pub(super) later: Later,
    /// Signals that are stored and that nobody waits for.
    pub(super) unread: Unread,
    pub(super) calls: BTreeSet<Seq>,
    /// Those of them whose attempt was claimed by another node when the run was read.
    pub(super) elsewhere: BTreeMap<Seq, TaskRow>,
    /// Those of them that are left to others: another node may run them.
    pub(super) shared: BTreeSet<Seq>,
    /// The children it has started that have not told how they ended.
    pub(super) children: BTreeMap<Seq, Uid>,
    /// What makes a repeated start the same one, until the first is durable.
    pub(super) request_id: Option<String>,
    pub(super) about: About,
    /// When something last happened to it, on the engine's own count.
    pub(super) touched: u64,
    /// How often it was tried again since it last got anywhere.
    pub(super) tries: u32,
    /// It has taken a turn that is not durable yet.
    pub(super) gets_on: bool,
    /// Its messages are being read, because somebody else may have stored some.
    pub(super) hearing: Hearing,
    /// Stored messages that it has taken: a read that began before may still find them.
    pub(super) taken: BTreeSet<String>,
    /// Its messages are to be read once more when its step is durable.
    pub(super) read_again: bool,
}

impl HotRun {
    /// A run that has taken nothing yet.
    pub(super) fn new(key: RunKey, id: String, code: Run, about: About) -> Self {
        HotRun {
            key,
            id,
            code,
            committing: false,
            news: VecDeque::new(),
            requests: VecDeque::new(),
            settled: VecDeque::new(),
            later: Later::default(),
            unread: Unread::default(),
            calls: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            shared: BTreeSet::new(),
            children: BTreeMap::new(),
            request_id: None,
            about,
            touched: 0,
            tries: 0,
            gets_on: false,
            hearing: Hearing::default(),
            taken: BTreeSet::new(),
            read_again: false,
        }
    }

    /// What it has not taken, when it leaves memory.
    pub(super) fn into_news(self) -> impl Iterator<Item = News> {
        self.news.into_iter().chain(self.requests.into_iter().map(|(_, news)| news))
    }

    /// True when somebody in this process waits for stored messages to be read first.
    pub(super) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// A read has found what was stored before it began: what was asked for before that is next.
    pub(super) fn requests_may_follow(&mut self, read: u64) {
        while let Some((_, news)) = self.requests.pop_front_if(|(before, _)| *before < read) {
            self.news.push_back(news);
        }
    }

    /// Keeps a stored message until its time.
    pub(super) fn remember(&mut self, row: MessageRow) {
        match row.body {
            // It was taken notice of before, and nobody waited for it.
            StoredMessage::Signal { name, value } if row.due_at == MessageRow::NEVER => {
                self.unread.keep(row.id, name, value);
            }
            _ => self.later.keep(row),
        }
    }

    /// True when a stored message is known, taken or not.
    pub(super) fn knows(&self, id: &str) -> bool {
        let is = |news: &News| matches!(&news.origin, Origin::Stored { id: known } if known == id);
        self.taken.contains(id)
            || self.unread.has(id)
            || self.news.iter().any(is)
            || self.later.has(id)
    }

    /// The next thing to take notice of: a signal that somebody waits for by now came before
    /// everything else.
    fn next_news(&mut self) -> Option<News> {
        let mut next = self.settled.pop_front();
        if next.is_none() && !self.unread.is_empty() && !self.code.is_closed() {
            next = self.unread.take(&self.code.machine().lock().wanted_signals());
        }
        next.or_else(|| self.news.pop_front())
    }

    /// True when there is anything to take notice of.
    fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.settled.is_empty() || self.has_wanted_signals()
    }

    fn has_wanted_signals(&self) -> bool {
        !self.unread.is_empty()
            && !self.code.is_closed()
            && self.unread.has_any(&self.code.machine().lock().wanted_signals())
    }

    /// True when an instance was started to be left alone.
    fn is_detached(&self, child: Seq) -> bool {
        self.code.machine().lock().is_detached(child)
    }

    /// What news is to a run.
    fn judge(&self, news: &EventKind) -> Worth {
        let machine = self.code.machine().lock();
        match news {
            EventKind::SignalReceived { name, .. } => match machine.expects(news) {
                false => Worth::Nothing,
                true if machine.is_closed() || !machine.wants_signal(name) => Worth::Keeping,
                true => Worth::Turn,
            },
            _ if !machine.is_closed() && machine.expects(news) => Worth::Turn,
            _ => Worth::Nothing,
        }
    }
}

/// What news is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// It causes a turn.
    Turn,
    /// It is a signal, and nobody waits for it yet.
    Keeping,
    /// It came too late, or before.
    Nothing,
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

impl News {
    /// The run that it is for; what somebody asks for is for the current one.
    pub(super) fn run(&self, current: RunKey) -> RunKey {
        match &self.origin {
            Origin::Call { call, .. } => call.run,
            _ => current,
        }
    }
}

/// Where news came from: what is to be removed when it becomes an event, or to be stored when it
/// cannot become one now.
#[derive(Debug)]
pub(super) enum Origin {
    /// A message in the store.
    Stored { id: String },
    /// An activity call that ended in this process.
    Call {
        call: CallKey,
        /// The row of the attempt that ended with it.
        row: Option<AttemptRow>,
        /// The message that told of it, when the attempt ran on another node.
        report: Option<String>,
        /// The task, when it stays because its attempt has not ended yet.
        stays: Option<Box<TaskRow>>,
    },
    /// A request in this process.
    Request,
    /// The run itself: it follows from its history.
    History,
}

impl Origin {
    /// A call that is over, with the row of its last attempt and what told of it.
    pub(super) fn ended(call: CallKey, row: Option<AttemptRow>, report: Option<String>) -> Self {
        Origin::Call { call, row, report, stays: None }
    }
}

/// A run that is not in memory, with news on its way.
#[derive(Debug, Default)]
pub(super) struct Asleep {
    /// How many pieces of news are on their way to the store.
    pub(super) storing: usize,
    /// The run is being read.
    pub(super) loading: bool,
    /// Messages came while it was being read: the read may have missed them.
    pub(super) missed: bool,
    /// An attempt of it turned out to be over meanwhile: the read may say that it runs.
    pub(super) outdated: bool,
    /// News that came while it was being read.
    pub(super) held: Vec<News>,
    /// Calls to look at when everything is stored.
    pub(super) calls: Vec<CallKey>,
}

/// How many rows the turns of one step may come to before it takes no further news. Small, so that
/// all inputs are in the first part when the last turn is wide.
const STEP_ROWS: usize = 1_000;

/// And how many bytes.
const STEP_BYTES: usize = BYTES / 4;

impl Node {
    /// Hands news to a run, wherever the run is.
    pub(super) fn deliver(&mut self, key: RunKey, news: News) {
        if !self.owns(key.uid) {
            return self.pass_on(key, news);
        }
        match self.memory.runs.get_mut(&key.uid) {
            // What somebody asks for is for the instance, whichever run it has by now.
            Some(run) if matches!(news.origin, Origin::Request) => {
                run.requests.push_back((self.outbox.ticks, news));
                self.read_messages(key.uid);
            }
            Some(run) if run.key == key => {
                run.news.push_back(news);
                self.advance(key.uid);
            }
            // Only a run that is over waited for it.
            Some(run) if run.key.run > key.run => {}
            _ => self.keep_news(key, news),
        }
    }

    /// Lets a run take its news, unless a step of it is still on the way to the disk.
    pub(super) fn advance(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.get_mut(&uid) else { return };
        if run.committing || !run.has_news() {
            return;
        }
        let Some(mut run) = self.memory.runs.remove(&uid) else { return };
        let mut draft = Draft::default();
        let blocked = self.take_news(&mut run, &mut draft).err();
        run.committing = true;
        match blocked {
            None => {
                let closed = run.code.is_closed();
                run.gets_on = true;
                self.memory.runs.insert(uid, run);
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
        while draft.has_room() && !draft.continues {
            let Some(news) = run.next_news() else { break };
            if run.code.is_closed() && matches!(news.origin, Origin::Request) {
                draft.refuse(news, too_late());
                continue;
            }
            self.take_one(run, draft, news)?;
        }
        draft.keep_awake(run);
        Ok(())
    }

    fn take_one(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        mut news: News,
    ) -> Result<(), Blocked> {
        let worth = run.judge(&news.event);
        if worth == Worth::Keeping {
            self.keep_signal(run, draft, news);
            return Ok(());
        }
        if let EventKind::ActivityCompleted(done) = &mut news.event {
            done.after_cancel = run.code.machine().lock().is_settling(done.activity);
        }
        if let Origin::Stored { id } = &news.origin
            && !matches!(news.event, EventKind::TimerFired { .. })
        {
            run.taken.insert(id.clone());
        }
        // Before the turn: should it close the run, this is not part of what is closed.
        draft.remove_source(run.key.uid, &news, worth == Worth::Turn);
        if let Origin::Call { call, stays: None, .. } = &news.origin {
            run.calls.remove(&call.seq);
        }
        if let EventKind::ChildFailed { child, failure } = &news.event
            && worth == Worth::Turn
            && run.is_detached(*child)
        {
            tracing::warn!(instance = %run.id, "a detached workflow was not started: {failure}");
        }
        if let EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } =
            &news.event
        {
            run.children.remove(child);
        }
        if worth == Worth::Turn
            && let Err(blocked) = self.take_turn(run, draft, &news.event)
        {
            run.news.push_front(news);
            return Err(blocked);
        }
        draft.consume(news);
        Ok(())
    }

    /// A signal that nobody waits for stays where it is, or is stored, and wakes nobody.
    fn keep_signal(&mut self, run: &mut HotRun, draft: &mut Draft, news: News) {
        let EventKind::SignalReceived { name, value, id } = news.event.clone() else { return };
        let uid = run.key.uid;
        if let Origin::Stored { id } = &news.origin {
            let id = id.clone();
            draft.step.messages.push(MessageWrite::Defer { uid, id: id.clone() });
            run.unread.keep(id, name, value);
            return draft.consume(news);
        }
        let repeatable = id.is_some();
        let row = self.signal_message(uid, id, name.clone(), value.clone());
        if repeatable && run.knows(&row.id) {
            return draft.consume(news);
        }
        let most = self.options.max_unread_signals;
        if run.unread.len() >= most {
            return draft.refuse(news, Error::full(most));
        }
        run.unread.keep(row.id.clone(), name, value);
        let row = MessageRow { due_at: MessageRow::NEVER, ..row };
        draft.step.messages.push(MessageWrite::Insert(row));
        draft.consume(news);
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
            let now = self.now;
            for row in first_messages(run.key, &run.about.settings, started, now) {
                draft.keep_message(run, row);
            }
            draft.keep_awake(run);
        }
        Ok(())
    }

    /// One input, one turn.
    pub(super) fn take_turn(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        kind: &EventKind,
    ) -> Result<(), Blocked> {
        let at = self.now.max(run.code.last_at());
        let event = Event { seq: run.code.next_seq(), at, kind: kind.clone() };
        let _span = tracing::debug_span!("turn", instance = %run.id, input = kind.name()).entered();
        let before = event.seq.0 - 1;
        let commands = run.code.turn(&event)?;
        metrics::counter!("resurgam.turns").increment(1);
        draft.step.events.push((run.key, event));
        self.record(run, draft, commands, at)?;
        self.warn_of_length(run, before);
        match self.passed_limit(run) {
            Some(failure) => self.take_turn(run, draft, &EventKind::LimitPassed { failure }),
            None => Ok(()),
        }
    }

    /// Says once that a history grows long.
    fn warn_of_length(&self, run: &HotRun, before: u64) {
        let (events, many) = (run.code.next_seq().0 - 1, self.options.long_history);
        if before <= many && events > many && !run.code.is_closed() {
            let most = self.options.max_history;
            tracing::warn!(instance = %run.id,
                "the history has {events} events, {most} are allowed; continue as new before that \
                 (ctx.continue_as_new)");
        }
    }

    /// The limit that a run has passed: it fails with it.
    pub(super) fn passed_limit(&self, run: &HotRun) -> Option<Failure> {
        let machine = run.code.machine().lock();
        if machine.is_closed() || machine.is_ending() {
            return None;
        }
        if let Some(failure) = machine.refused() {
            return Some(failure.clone());
        }
        let (events, most) = (machine.next_seq().0 - 1, self.options.max_history);
        if events > most {
            let message = format!(
                "the history has {events} events, {most} are allowed; continue as new before that"
            );
            return Some(Failure::terminal(message).with_type("HistoryLimit"));
        }
        let (open, most) = (machine.open_activities(), self.options.max_open_calls);
        if open > most {
            let message = format!("{open} activity calls are open at once, {most} are allowed");
            return Some(Failure::terminal(message).with_type("OpenCallsLimit"));
        }
        let (open, most) = (machine.open_input(), self.options.max_open_input);
        (open > most).then(|| {
            let message =
                format!("the arguments of open calls have {open} bytes, {most} are allowed");
            Failure::terminal(message).with_type("OpenInputLimit")
        })
    }

    /// A run that cannot go on: its news is stored, and it is tried again later.
    fn block(&mut self, mut run: HotRun, draft: Draft, blocked: Blocked) {
        let uid = run.key.uid;
        tracing::warn!(instance = %run.id, "run is blocked: {blocked}");
        // What the good turns before it asked for is lost with them: their news comes first again.
        let mut news: VecDeque<News> = draft.consumed;
        news.append(&mut run.settled);
        news.append(&mut run.news);
        news.extend(run.requests.drain(..).map(|(_, news)| news));
        self.take_back(&draft.effects);
        let mut step = Step {
            instance: Some(held_up(uid, Status::Blocked, &blocked.to_string())),
            messages: vec![MessageWrite::Park(uid)],
            ..Step::default()
        };
        let is_reply = |effect: &Effect| matches!(effect, Effect::Reply(_));
        let mut effects: Vec<Effect> = draft.effects.into_iter().filter(is_reply).collect();
        effects.push(Effect::Blocked(uid));
        for news in news {
            self.put_back(run.key, news, &mut step, &mut effects);
        }
        self.memory.ids.remove(&run.id);
        self.memory.blocked.insert(uid, Tries::after(run.tries));
        // Its attempts go on, and their outcomes are stored until the run can take them.
        self.outbox.push(step, effects);
    }

    /// A step is not written after all: calls that it makes were never made, and calls that it
    /// gives up go on.
    pub(super) fn take_back(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Begin(call) | Effect::Waiting(call) => self.forget_call(*call),
                Effect::Tell(call) => {
                    if let Some(call) = self.memory.calls.get_mut(call) {
                        call.task.progress.cancelled = false;
                        call.task.progress.in_grace = false;
                    }
                }
                Effect::GivenUp(key) => {
                    let Some(call) = self.memory.calls.get_mut(key) else { continue };
                    call.given_up = false;
                    if call.task.claim.is_none() {
                        self.task_waits(*key);
                    }
                }
                _ => {}
            }
        }
    }

    /// Keeps news for a run that is not in memory, and has the run loaded. News that comes while
    /// the run is being read is held back: stored now, it could be missed by the read. So is what
    /// somebody asks for: the run may be over by now, and then they are to hear of it.
    fn keep_news(&mut self, key: RunKey, news: News) {
        if matches!(news.event, EventKind::TerminateRequested { .. }) {
            self.try_blocked_now(key.uid);
        }
        let loadable =
            !self.memory.blocked.contains_key(&key.uid) && !self.memory.runs.contains_key(&key.uid);
        let asleep = self.memory.asleep.entry(key.uid).or_default();
        let asked = matches!(news.origin, Origin::Request) && asleep.storing == 0 && loadable;
        if asleep.loading || asked {
            asleep.held.push(news);
            return self.load_run(key.uid);
        }
        self.store_news(key, news);
    }

    /// Stores news for a run that is not in memory, and has the run loaded after that.
    pub(super) fn store_news(&mut self, key: RunKey, news: News) {
        self.memory.asleep.entry(key.uid).or_default().storing += 1;
        let mut step = Step::default();
        let mut effects = vec![Effect::NewsStored(key.uid)];
        step.instance = self.needs_room(key.uid, &news);
        self.put_back(key, news, &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// Signals are stored for a run that takes no notice of them as long as there is room.
    pub(super) fn needs_room(&self, uid: Uid, news: &News) -> Option<InstanceWrite> {
        let is_signal = matches!(news.event, EventKind::SignalReceived { .. });
        let signals_below = Some(self.options.max_unread_signals);
        (is_signal && matches!(news.origin, Origin::Request))
            .then_some(InstanceWrite::Open { uid, signals_below })
    }

    /// News of a run that is not in memory is durable: the run is loaded to take it.
    pub(super) fn news_stored(&mut self, uid: Uid) {
        let Some(asleep) = self.memory.asleep.get_mut(&uid) else { return };
        asleep.storing = asleep.storing.saturating_sub(1);
        if asleep.storing > 0 {
            return;
        }
        let calls = std::mem::take(&mut asleep.calls);
        self.memory.asleep.remove(&uid);
        match self.memory.runs.contains_key(&uid) {
            true => self.has_messages(uid),
            false => self.load_run(uid),
        }
        calls.into_iter().for_each(|key| self.look_at_call(key));
    }

    /// Messages of a run whose time has come become news.
    pub(super) fn messages_due(&mut self, uid: Uid, now: Timestamp) {
        let Some(run) = self.memory.runs.get_mut(&uid) else { return };
        while let Some(row) = run.later.pop_due(now) {
            run.news.extend(news_of(run.key, row));
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
        let over = self.memory.runs.len().saturating_sub(self.options.hot_runs);
        if over == 0 {
            return;
        }
        let is_idle = |run: &HotRun| !run.committing && !run.has_news();
        let idle =
            self.memory.runs.iter().filter(|(_, run)| is_idle(run) && !run.hearing.is_reading());
        let mut idle: Vec<(u64, Uid)> = idle.map(|(uid, run)| (run.touched, *uid)).collect();
        idle.sort_unstable();
        // A few more than needed, so that the next run does not begin the search again.
        for (_, uid) in idle.into_iter().take(over + self.options.hot_runs / 16) {
            if let Some(run) = self.memory.runs.remove(&uid) {
                self.memory.ids.remove(&run.id);
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
    deleted: BTreeSet<CallKey>,
    /// The run is over, and all its tasks with it.
    pub(super) closed: bool,
    /// Another run follows, and takes the rest of the news.
    pub(super) continues: bool,
    /// Why the run is blocked from the start.
    pub(super) error: Option<String>,
}

impl Draft {
    /// True when it can take further news.
    fn has_room(&self) -> bool {
        self.step.rows() < STEP_ROWS && self.step.bytes() < STEP_BYTES
    }

    /// Stores a message that the run itself is to read later.
    pub(super) fn keep_message(&mut self, run: &mut HotRun, row: MessageRow) {
        run.remember(row.clone());
        self.effects.push(Effect::TimerStarted(row.due_at, run.key.uid));
        self.step.messages.push(MessageWrite::Insert(row));
    }

    /// Wakes the run after a crash, when it has something to take that nothing stored tells of.
    pub(super) fn keep_awake(&mut self, run: &mut HotRun) {
        let has_more = !run.settled.is_empty() || run.has_wanted_signals();
        if has_more && !run.code.is_closed() && !run.knows(&wake_id(run.key)) {
            self.keep_message(run, wake_message(run.key));
        }
    }

    pub(super) fn delete_task(&mut self, call: CallKey, write: fn(CallKey) -> TaskWrite) {
        if !self.closed && self.deleted.insert(call) {
            self.step.tasks.push(write(call));
        }
    }

    /// Tells a sender why not, once that is durable.
    fn refuse(&mut self, news: News, why: Error) {
        let Some(reply) = news.reply else { return };
        let refused = Reply::call(move |written: crate::error::Result<()>| {
            reply.send(written.and(Err(why)));
        });
        self.effects.push(Effect::Reply(refused));
    }

    /// Removes what the news came from. The task of a call that was given up is gone already.
    fn remove_source(&mut self, uid: Uid, news: &News, expected: bool) {
        match &news.origin {
            Origin::Stored { id } => {
                self.step.messages.push(MessageWrite::Delete { uid, id: id.clone() });
            }
            Origin::Call { call, row, report, stays } => {
                self.step.attempts.extend(row.clone());
                end_report(uid, report.clone(), &mut self.step, &mut self.effects);
                match stays {
                    Some(task) if expected => {
                        self.step.tasks.push(TaskWrite::Amend((**task).clone()));
                    }
                    Some(_) => {}
                    None => {
                        let write = if expected { TaskWrite::Delete } else { TaskWrite::Discard };
                        self.delete_task(*call, write);
                    }
                }
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
