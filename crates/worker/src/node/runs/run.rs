//! Runs in memory: taking news, turn by turn. What the turns ask for is written down in
//! `record.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use resurgam_core::action::ActionAnswer;
use resurgam_core::command::Command;
use resurgam_core::turn::Blocked;
use resurgam_core::{CallKey, Event, EventKind, Failure, RunKey, Timestamp, Uid};
use resurgam_sdk::TurnThread;
use resurgam_store::rows::{Message as StoredMessage, MessageRow, Status};
use resurgam_store::{MessageWrite, Step};

use super::away::{Away, Then};
use super::away_turn::{AwayTurn, Turned};
use super::continuation::first_messages;
use super::draft::Draft;
use super::hot_run::{Disposition, HotRun};
use super::unloaded::held_up;
use super::unloaded_run::Tries;
use crate::error::Error;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::news::{News, Origin};
use crate::node::output::Output;
use crate::node::steps::effect::Effect;
use crate::node::steps::pending::Limits;
use crate::node::steps::refusal::too_late;

/// What a run is to take elsewhere.
struct Taking {
    news: News,
    event: Event,
    thread: Arc<dyn TurnThread>,
}

impl Node {
    /// Hands news to a run, wherever the run is.
    pub(crate) fn deliver(&mut self, key: RunKey, news: News) {
        if !self.owns(key.uid) {
            return self.pass_on(key, news);
        }
        match self.memory.runs.hot.get_mut(key.uid) {
            // What somebody asks for is for the instance, whichever run it has by now.
            Some(run) if matches!(news.origin, Origin::Request) => {
                run.requests.push_back((self.ticks, news));
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
    pub(crate) fn advance(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.hot.get_mut(uid) else { return };
        if run.committing || !run.has_news() {
            return;
        }
        let Some(run) = self.memory.runs.hot.remove(uid) else { return };
        self.go_on(run, Draft::default());
    }

    /// Lets a run take its news, behind what is in the draft.
    fn go_on(&mut self, mut run: Box<HotRun>, mut draft: Draft) {
        let uid = run.key.uid;
        let taken = self.take_news(&mut run, &mut draft);
        run.committing = true;
        match taken {
            Ok(Some(taking)) => self.turn_elsewhere(run, draft, taking),
            Ok(None) => {
                let closed = run.code.is_closed();
                run.gets_on = true;
                self.memory.runs.hot.insert(uid, run);
                if closed {
                    draft.effects.push(Effect::Closed(uid));
                }
                draft.effects.push(Effect::NextTurn(uid));
                self.outbox.push(draft.step, draft.effects);
            }
            Err(blocked) => self.block(run, draft, blocked),
        }
    }

    /// Sends the code of a run away with what it is to take.
    fn turn_elsewhere(&mut self, mut run: Box<HotRun>, draft: Draft, taking: Taking) {
        let Taking { news, event, thread } = taking;
        let (key, uid) = (run.key, run.key.uid);
        let turn = AwayTurn::of(key, run.leave(), event, thread);
        self.memory.runs.hot.insert(uid, run);
        let then = Then::News(Box::new(news));
        self.memory.runs.away.insert(uid, Away { draft, then });
        self.take_elsewhere(turn);
    }

    /// Has a turn taken elsewhere. What comes of it is worth nothing when the shard has changed
    /// hands meanwhile.
    pub(crate) fn take_elsewhere(&mut self, turn: AwayTurn) {
        let stamp = self.stamp_of(turn.run().uid);
        self.outputs.push(Output::Turn { turn: Box::new(turn), stamp });
    }

    /// A run is back with what it has taken, and goes on.
    pub(crate) fn news_turned(
        &mut self,
        mut run: Box<HotRun>,
        away: (Draft, News),
        turned: Turned,
    ) {
        let Turned { code, events, taken, .. } = turned;
        let (mut draft, news) = away;
        run.is_back(code);
        let event = events.into_iter().next();
        let recorded = taken.asks.and_then(|commands| match event {
            Some(event) => self.turn_taken(&mut run, &mut draft, event, commands),
            None => Ok(()),
        });
        match recorded {
            Ok(()) => {
                draft.consume(news);
                self.go_on(run, draft);
            }
            Err(blocked) => {
                run.news.push_front(news);
                self.block(run, draft, blocked);
            }
        }
    }

    /// One turn for each piece of news, all in one step. Answers with what is to be taken elsewhere
    /// before it can go on.
    fn take_news(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
    ) -> Result<Option<Taking>, Blocked> {
        self.clock_ticks(run);
        let limits = Limits::of(&self.options);
        while draft.has_room(limits) && !draft.continues {
            let Some(news) = run.next_news() else { break };
            if run.code.is_closed() && matches!(news.origin, Origin::Request) {
                draft.refuse(news, too_late());
                continue;
            }
            if let Some(taking) = self.take_one(run, draft, news)? {
                return Ok(Some(taking));
            }
        }
        draft.keep_awake(run);
        Ok(None)
    }

    fn take_one(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        mut news: News,
    ) -> Result<Option<Taking>, Blocked> {
        let disposition = run.disposition(&news.event);
        if disposition == Disposition::Keeping {
            self.keep_signal(run, draft, news);
            return Ok(None);
        }
        if let EventKind::ActivityCompleted(done) = &mut news.event {
            done.after_cancel = run.code.machine().lock().is_settling(done.activity);
            if matches!(news.origin, Origin::Stored { .. }) {
                self.then(FollowUp::ResultRead(run.key.call(done.activity)));
            }
        }
        if let Origin::Stored { id } = &news.origin
            && !matches!(news.event, EventKind::TimerFired { .. })
        {
            run.taken.insert(id.clone());
        }
        if let Origin::Call { call, action: Some(action), .. } = &mut news.origin
            && disposition != Disposition::Turn
        {
            action.answer = ActionAnswer::refused(format!("call #{} has ended", call.seq));
        }
        // Before the turn: should it close the run, this is not part of what is closed.
        draft.remove_source(run.key.uid, &news, disposition == Disposition::Turn);
        if let Origin::Call { call, stays: None, .. } = &news.origin {
            run.open_calls.remove(&call.seq);
        }
        if let EventKind::ChildFailed { child, failure } = &news.event
            && disposition == Disposition::Turn
            && run.is_detached(*child)
        {
            tracing::warn!(instance = %run.id, "a detached workflow was not started: {failure}");
        }
        if let EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. } =
            &news.event
        {
            run.children.remove(child);
        }
        if disposition == Disposition::Turn {
            if let Some(thread) = run.turns.clone() {
                let event = self.next_event(run, &news.event);
                return Ok(Some(Taking { news, event, thread }));
            }
            if let Err(blocked) = self.take_turn(run, draft, &news.event) {
                run.news.push_front(news);
                return Err(blocked);
            }
        }
        draft.consume(news);
        Ok(None)
    }

    /// A signal that nobody waits for stays where it is, or is stored, and wakes nobody.
    fn keep_signal(&mut self, run: &mut HotRun, draft: &mut Draft, news: News) {
        let EventKind::SignalReceived { name, value, id } = news.event.clone() else { return };
        let uid = run.key.uid;
        if let Origin::Stored { id } = &news.origin {
            let id = id.clone();
            draft.step.messages.push(MessageWrite::Defer { uid, id: id.clone() });
            run.unread_signals.keep(id, name, value);
            return draft.consume(news);
        }
        let repeatable = id.is_some();
        let row = self.signal_message(uid, id, name.clone(), value.clone());
        if repeatable && run.knows(&row.id) {
            return draft.consume(news);
        }
        let most = self.options.max_unread_signals;
        if run.unread_signals.len() >= most {
            return draft.refuse(news, Error::full(most));
        }
        run.unread_signals.keep(row.id.clone(), name, value);
        let row = MessageRow { due_at: MessageRow::NEVER, ..row };
        draft.step.messages.push(MessageWrite::Insert(row));
        draft.consume(news);
    }

    /// The first turn of a run, or what it waits for before that.
    pub(crate) fn begin_run(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        kind: &EventKind,
    ) -> Result<(), Blocked> {
        let event = self.next_event(run, kind);
        let commands = run.code.turn(&event)?;
        self.began(run, draft, event, commands)
    }

    /// A run has taken its first turn.
    pub(crate) fn began(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        event: Event,
        commands: Vec<Command>,
    ) -> Result<(), Blocked> {
        self.clock_ticks(run);
        let started = match &event.kind {
            EventKind::RunStarted(started) => Some(started.clone()),
            _ => None,
        };
        self.turn_taken(run, draft, event, commands)?;
        if let Some(started) = started.filter(|_| !run.code.is_closed()) {
            let now = self.now;
            for row in first_messages(run.key, &run.info, &started, now) {
                draft.keep_message(run, row);
            }
            draft.keep_awake(run);
        }
        Ok(())
    }

    /// One input, one turn.
    pub(crate) fn take_turn(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        kind: &EventKind,
    ) -> Result<(), Blocked> {
        let _span = tracing::debug_span!("turn", instance = %run.id, input = kind.name()).entered();
        let event = self.next_event(run, kind);
        let commands = run.code.turn(&event)?;
        self.turn_taken(run, draft, event, commands)
    }

    /// What a run takes next, as an event.
    fn next_event(&self, run: &HotRun, kind: &EventKind) -> Event {
        let at = self.now.max(run.code.last_at());
        Event { seq: run.code.next_seq(), at, kind: kind.clone() }
    }

    /// Writes down a turn.
    fn turn_taken(
        &mut self,
        run: &mut HotRun,
        draft: &mut Draft,
        event: Event,
        commands: Vec<Command>,
    ) -> Result<(), Blocked> {
        let (before, at) = (event.seq.0 - 1, event.at);
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
    pub(crate) fn passed_limit(&self, run: &HotRun) -> Option<Failure> {
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
    fn block(&mut self, mut run: Box<HotRun>, draft: Draft, blocked: Blocked) {
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
        let mut effects: Vec<Effect> = draft.effects.into_iter().filter(Effect::is_reply).collect();
        effects.push(Effect::Blocked(uid));
        for news in news {
            self.put_back(run.key, news, &mut step, &mut effects);
        }
        self.memory.runs.ids.remove(&run.id);
        self.memory.runs.blocked.insert(uid, Tries::after(run.tries));
        // Its attempts go on, and their outcomes are stored until the run can take them.
        self.outbox.push(step, effects);
    }

    /// Messages of a run whose time has come become news.
    pub(crate) fn messages_due(&mut self, uid: Uid, now: Timestamp) {
        let Some(run) = self.memory.runs.hot.get_mut(uid) else { return };
        while let Some(row) = run.pending_messages.pop_due(now) {
            run.news.extend(run.news_of(row));
        }
        self.advance(uid);
    }

    /// Remembers that something happened to a run.
    fn clock_ticks(&mut self, run: &mut HotRun) {
        self.ticks += 1;
        run.touched = self.ticks;
    }

    /// Lets runs go that nothing happened to for longest, while there are too many. That cancels
    /// nothing.
    pub(crate) fn evict(&mut self) {
        let over = self.memory.runs.hot.len().saturating_sub(self.options.hot_runs);
        if over == 0 {
            return;
        }
        let is_idle = |run: &HotRun| !run.committing && !run.has_news();
        let idle =
            self.memory.runs.hot.values().filter(|run| is_idle(run) && !run.hearing.is_reading());
        let mut idle: Vec<(u64, Uid)> = idle.map(|run| (run.touched, run.key.uid)).collect();
        idle.sort_unstable();
        // A few more than needed, so that the next run does not begin the search again.
        for (_, uid) in idle.into_iter().take(over + self.options.hot_runs / 16) {
            self.memory.runs.remove(uid);
        }
    }

    /// What a run had not heard of becomes news. A read for a run that left memory meanwhile says
    /// nothing about the one that came after it.
    pub(crate) fn messages_read(
        &mut self,
        uid: Uid,
        read: u64,
        found: resurgam_store::Result<Vec<MessageRow>>,
    ) {
        let run = self.memory.runs.hot.get_mut(uid).filter(|run| run.hearing.is(read));
        let Some(run) = run else { return };
        let rows = match found {
            Ok(rows) => rows,
            Err(error) => {
                self.tell("read messages", &uid, &error);
                return self.ask_store_later_of(uid, self.messages_of(uid, read));
            }
        };
        let again = run.hearing.end();
        let mut seen_again = false;
        for row in rows {
            seen_again |= run.taken.contains(&row.id);
            if !matches!(row.body, StoredMessage::Timer { .. }) && !run.knows(&row.id) {
                run.news.extend(run.news_of(row));
            }
        }
        run.requests_may_follow(read);
        // A message that is taken already: the read was older than that, or somebody sent it once
        // more. In the second case it is still there when it is read again.
        run.read_again = seen_again;
        if !run.committing {
            run.taken.clear();
        }
        self.advance(uid);
        match again {
            true => self.has_messages(uid),
            false => self.read_again(uid),
        }
    }

    /// Reads the messages of a run once more, as soon as what it has taken is gone from the store.
    pub(crate) fn read_again(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.hot.get_mut(uid).filter(|run| !run.committing) else {
            return;
        };
        if std::mem::take(&mut run.read_again) {
            self.has_messages(uid);
        }
    }

    /// What came for a run that is over is for the next one, unless only this one waited for it.
    pub(crate) fn hand_over(&mut self, run: Box<HotRun>) {
        let key = RunKey { uid: run.key.uid, run: run.key.run.saturating_add(1) };
        for news in run.into_news() {
            if matches!(news.origin, Origin::Request) {
                self.deliver(key, news);
            }
        }
    }

    /// Takes a run that is over out of memory.
    pub(crate) fn take_out(&mut self, uid: Uid) -> Option<Box<HotRun>> {
        self.memory.runs.remove(uid)
    }

    /// The run takes the next turn, if it is still ours.
    pub(crate) fn step_is_durable(&mut self, uid: Uid) {
        self.outputs.push(Output::Changed(uid));
        if let Some(run) = self.memory.runs.hot.get_mut(uid) {
            run.committing = false;
            if std::mem::take(&mut run.gets_on) {
                run.tries = 0;
            }
            if !run.hearing.is_reading() {
                run.taken.clear();
            }
        }
        if !self.owns(uid) {
            return self.let_go(uid);
        }
        if self.memory.runs.is_acted_on(uid) {
            return self.bring_to_rest(uid);
        }
        self.read_again(uid);
        self.advance(uid);
    }

    /// A step of a run is not stored, and never will be: the run leaves memory, to be loaded again
    /// from what is stored. Answers with its instance's id and what it had not taken.
    pub(crate) fn step_refused(&mut self, uid: Uid) -> Option<(String, Vec<News>)> {
        let mut run = self.memory.runs.remove(uid)?;
        // Loading it again is not getting anywhere: the wait grows all the same.
        self.memory.runs.blocked.insert(uid, Tries::after(run.tries));
        Some((std::mem::take(&mut run.id), run.into_news().collect()))
    }

    /// The store has ended a call together with a transaction of its attempt.
    pub(crate) fn call_ended_in_store(&mut self, call: CallKey, message: MessageRow) {
        match self.memory.runs.current_mut(call.run) {
            Some(run) => {
                run.open_calls.remove(&call.seq);
                run.news.extend(run.news_of(message));
                self.advance(call.run.uid);
            }
            None => self.has_messages(call.run.uid),
        }
    }
}
