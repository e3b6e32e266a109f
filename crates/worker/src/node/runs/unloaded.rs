//! Runs that are not in memory: news for them is stored or held back until they are read, and
//! messages that others stored are looked for.

use std::time::Duration;

use resurgam_core::{EventKind, RunKey, Uid};
use resurgam_store::rows::{InstanceRow, Status};
use resurgam_store::{InstanceWrite, LetterWrite, MessageWrite, Replaces, Step};

use super::away::{Away, AwayStart};
use super::unloaded_run::Tries;
use crate::node::Node;
use crate::node::message::start_message;
use crate::node::news::{News, Origin};
use crate::node::steps::effect::Effect;
use crate::node::store_request::{AGAIN, StoreRequest};

/// The longest wait before a blocked run is tried again.
const BLOCKED: Duration = Duration::from_secs(300);

/// Notes why an instance does not go on.
pub(crate) fn held_up(uid: Uid, status: Status, error: &str) -> InstanceWrite {
    InstanceWrite::Status {
        uid,
        status,
        outcome: None,
        compensation: None,
        error: Some(error.to_string()),
        closed_at: None,
    }
}

impl Node {
    /// Has a run read that is not in memory. A blocked one is tried again in its own time.
    pub(crate) fn load_run(&mut self, uid: Uid) {
        if self.memory.runs.paused.contains_key(&uid) {
            return self.look_at_paused(uid);
        }
        let now = self.now;
        let waits = self.memory.runs.is_acted_on(uid)
            || self.memory.runs.blocked.get(&uid).is_some_and(|tries| tries.next > now);
        if waits || !self.owns(uid) || self.memory.runs.hot.contains(uid) {
            return;
        }
        let unloaded = self.memory.runs.unloaded.entry(uid).or_default();
        // What is on its way to the store comes first; then the run is loaded anyway.
        if unloaded.loading || unloaded.storing > 0 {
            return;
        }
        unloaded.loading = true;
        self.ask_store_of(uid, StoreRequest::Run(uid));
    }

    /// A blocked run is tried again at the next occasion.
    fn try_blocked_now(&mut self, uid: Uid) {
        if let Some(tries) = self.memory.runs.blocked.get_mut(&uid) {
            tries.now();
        }
    }

    /// A blocked run is tried again after a while, each time a longer one: deploying mended code is
    /// enough, and so is mending the data.
    pub(crate) fn try_blocked_later(&mut self, uid: Uid) {
        let tries = self.memory.runs.blocked.entry(uid).or_insert(Tries::after(0));
        let wait = AGAIN.saturating_mul(1 << tries.count.min(12)).min(BLOCKED);
        tries.count = tries.count.saturating_add(1);
        tries.next = self.now.saturating_add(wait);
        self.memory.due.wake_run(tries.next, uid);
    }

    /// Keeps news for a run that is not in memory, and has the run loaded. News that comes while
    /// the run is being read is held back: stored now, it could be missed by the read. So is what
    /// somebody asks for: the run may be over by now, and then they are to hear of it.
    pub(crate) fn keep_news(&mut self, key: RunKey, news: News) {
        if matches!(news.event, EventKind::TerminateRequested { .. }) {
            self.try_blocked_now(key.uid);
        }
        let runs = &self.memory.runs;
        let loadable = !runs.blocked.contains_key(&key.uid)
            && !runs.hot.contains(key.uid)
            && !runs.paused.contains_key(&key.uid)
            && !runs.is_acted_on(key.uid);
        let unloaded = self.memory.runs.unloaded.entry(key.uid).or_default();
        let asked = matches!(news.origin, Origin::Request) && unloaded.storing == 0 && loadable;
        if unloaded.loading || asked {
            unloaded.held.push(news);
            return self.load_run(key.uid);
        }
        self.store_news(key, news);
    }

    /// Stores news for a run that is not in memory, and has the run loaded after that.
    pub(crate) fn store_news(&mut self, key: RunKey, news: News) {
        self.memory.runs.unloaded.entry(key.uid).or_default().storing += 1;
        let mut step = Step::default();
        let mut effects = vec![Effect::NewsStored(key.uid)];
        step.instance = self.needs_room(key.uid, &news);
        self.put_back(key, news, &mut step, &mut effects);
        self.outbox.push(step, effects);
    }

    /// Signals are stored for a run that takes no notice of them as long as there is room.
    fn needs_room(&self, uid: Uid, news: &News) -> Option<InstanceWrite> {
        let is_signal = matches!(news.event, EventKind::SignalReceived { .. });
        let signals_below = Some(self.options.max_unread_signals);
        (is_signal && matches!(news.origin, Origin::Request))
            .then_some(InstanceWrite::Open { uid, signals_below })
    }

    /// News of a run that is not in memory is durable: the run is loaded to take it.
    pub(crate) fn news_stored(&mut self, uid: Uid) {
        let Some(unloaded) = self.memory.runs.unloaded.get_mut(&uid) else { return };
        unloaded.storing = unloaded.storing.saturating_sub(1);
        if unloaded.storing > 0 {
            return;
        }
        let to_look_at = std::mem::take(&mut unloaded.to_look_at);
        self.memory.runs.unloaded.remove(&uid);
        match self.memory.runs.hot.contains(uid) {
            true => self.has_messages(uid),
            false => self.load_run(uid),
        }
        to_look_at.into_iter().for_each(|key| self.look_at_call(key));
    }

    /// There are messages for an instance that this engine may not know of.
    pub(crate) fn has_messages(&mut self, uid: Uid) {
        // One that is acted on is loaded, or looked at, when that is done.
        if !self.owns(uid) || self.memory.runs.is_acted_on(uid) {
            return;
        }
        match self.memory.runs.blocked.get_mut(&uid) {
            // Looking costs little, and somebody may want to end it.
            Some(tries) if tries.waits_for_code => tries.now(),
            Some(_) => return self.park(uid),
            None => {}
        }
        if self.memory.runs.hot.contains(uid) {
            return self.read_messages(uid);
        }
        match self.memory.runs.unloaded.get_mut(&uid).filter(|unloaded| unloaded.loading) {
            Some(unloaded) => unloaded.missed = true,
            None => self.load_run(uid),
        }
    }

    /// Reads the messages of a run in memory, once more if they are being read.
    pub(crate) fn read_messages(&mut self, uid: Uid) {
        let Some(run) = self.memory.runs.hot.get_mut(uid) else { return };
        if let Some(read) = run.hearing.begin(&mut self.ticks) {
            self.ask_store_of(uid, self.messages_of(uid, read));
        }
    }

    pub(crate) fn messages_of(&self, uid: Uid, read: u64) -> StoreRequest {
        StoreRequest::MessagesOf {
            uid,
            read,
            until: self.now.saturating_add(Duration::from_millis(1)),
        }
    }

    /// Stored messages of an instance no longer come up where work is looked for.
    pub(crate) fn park(&mut self, uid: Uid) {
        let step = Step { messages: vec![MessageWrite::Park(uid)], ..Step::default() };
        self.outbox.push(step, Vec::new());
    }

    /// A client's news for an instance: stored, if the instance is open. The shard may be this
    /// node's by the time that is durable, and nobody else would tell it: what others have
    /// committed is heard of, what this node has is not.
    fn tell_owner(&mut self, key: RunKey, news: News) {
        debug_assert!(matches!(news.origin, Origin::Request));
        let mut effects = Vec::new();
        let open = InstanceWrite::Open { uid: key.uid, signals_below: None };
        let instance = self.needs_room(key.uid, &news).or(Some(open));
        let mut step = Step { instance, ..Step::default() };
        self.put_back(key, news, &mut step, &mut effects);
        effects.push(Effect::Wake(key.uid));
        self.outbox.push(step, effects);
    }

    /// News for an instance that this node does not work on, or will not any more.
    pub(crate) fn pass_on(&mut self, key: RunKey, news: News) {
        match news.origin {
            Origin::Request => self.tell_owner(key, news),
            Origin::Call { .. } => self.store_news(key, news),
            Origin::Stored { .. } | Origin::History => {}
        }
    }

    pub(crate) fn wake_to_end(&mut self, uid: Uid) {
        self.try_blocked_now(uid);
        match self.memory.runs.blocked.contains_key(&uid) {
            true => self.load_run(uid),
            false => self.has_messages(uid),
        }
    }

    /// A run leaves memory because its shard goes, unless a step of it is on its way to the disk.
    /// What it has not taken is stored.
    pub(crate) fn let_go(&mut self, uid: Uid) {
        if let Some(away) = self.memory.runs.away.remove(&uid) {
            return self.let_away_go(uid, away);
        }
        let is_idle = self.memory.runs.get(uid).is_some_and(|run| !run.committing);
        let Some(run) = is_idle.then(|| self.memory.runs.remove(uid)).flatten() else { return };
        let key = run.key;
        for news in run.into_news() {
            self.pass_on(news.run(key), news);
        }
    }

    /// A run leaves memory while it takes a turn elsewhere: as if it had not taken what is not
    /// stored. An instance that was about to begin does so where its shard is.
    fn let_away_go(&mut self, uid: Uid, away: Away) {
        let Some(run) = self.memory.runs.remove(uid) else { return };
        let key = run.key;
        let (taken, effects, start) = away.into_parts();
        self.take_back(&effects);
        if let Some(start) = start {
            let AwayStart { row, replaces, letter, started, others } = *start;
            self.start_for_owner(row, replaces, letter, started);
            others.into_iter().for_each(|answer| self.outbox.behind_start(uid, answer));
        }
        for news in taken.into_iter().chain(run.into_news()) {
            self.pass_on(news.run(key), news);
        }
        let replies = effects.into_iter().filter(Effect::is_reply);
        replies.for_each(|reply| self.outbox.after(uid, reply));
    }

    /// A run that is acted on leaves memory, and is read when nothing of it is on its way.
    pub(crate) fn bring_to_rest(&mut self, uid: Uid) {
        let is_committing = self.memory.runs.get(uid).is_some_and(|run| run.committing);
        let unloaded = self.memory.runs.unloaded.get(&uid);
        if is_committing || unloaded.is_some_and(|unloaded| unloaded.loading) {
            return;
        }
        let Some(acts) = self.memory.runs.acted_on.get_mut(&uid) else { return };
        if !acts.begin() {
            return;
        }
        self.let_go(uid);
        match self.outbox.is_idle_for(uid) {
            true => self.read_run_to_act_on(uid),
            false => self.outbox.after(uid, Effect::ReadRunToActOn(uid)),
        }
    }

    /// A run goes with its shard, wherever it is.
    pub(crate) fn forget_run(&mut self, uid: Uid) {
        self.memory.runs.acted_on.remove(&uid);
        self.memory.runs.paused.remove(&uid);
        self.memory.runs.blocked.remove(&uid);
        self.let_go(uid);
        self.let_unloaded_go(uid);
    }

    /// A run that is not in memory goes with its shard. What was held for it is stored.
    fn let_unloaded_go(&mut self, uid: Uid) {
        let Some(unloaded) = self.memory.runs.unloaded.get_mut(&uid) else { return };
        unloaded.loading = false;
        let held = std::mem::take(&mut unloaded.held);
        if unloaded.storing == 0 {
            self.memory.runs.unloaded.remove(&uid);
        }
        for news in held {
            self.pass_on(news.run(RunKey::first(uid)), news);
        }
    }

    /// A client's start: the row of the instance, and a message that has the owner begin it.
    pub(crate) fn start_for_owner(
        &mut self,
        row: InstanceRow,
        replaces: Replaces,
        redrives: Option<LetterWrite>,
        started: Effect,
    ) {
        let uid = row.uid;
        let start = start_message(uid);
        let step = Step {
            instance: Some(InstanceWrite::Insert { row: row.into(), replaces }),
            messages: vec![MessageWrite::Insert(start)],
            letters: redrives.into_iter().collect(),
            ..Step::default()
        };
        self.outbox.push(step, vec![started, Effect::Wake(uid)]);
    }

    /// A step is not written after all: calls that it makes were never made, and calls that it
    /// gives up go on.
    pub(crate) fn take_back(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Begin(call) | Effect::Resume(call) | Effect::Waiting(call) => {
                    self.forget_call(*call);
                }
                Effect::Tell(call) => {
                    if let Some(call) = self.memory.calls.get_mut(*call) {
                        call.is_cancelled(false, false);
                    }
                }
                Effect::GivenUp(call) => self.keep_up_call(*call),
                Effect::TimerStarted(..)
                | Effect::NextTurn(..)
                | Effect::Closed(..)
                | Effect::NextRun(..)
                | Effect::Wake(..)
                | Effect::WakeToEnd(..)
                | Effect::Finished(..)
                | Effect::Blocked(..)
                | Effect::NewsStored(..)
                | Effect::ReportTaken(..)
                | Effect::SettleShared(..)
                | Effect::ReadReports(..)
                | Effect::ReadRunToActOn(..)
                | Effect::ActsOnRun(..)
                | Effect::RunActed(..)
                | Effect::Reported(..)
                | Effect::Acted(..)
                | Effect::AtRest
                | Effect::Part(..)
                | Effect::ReadAbandoned
                | Effect::ScheduleDecided(..)
                | Effect::ScheduleAside(..)
                | Effect::ScheduleMayGoOn(..)
                | Effect::ReadWaiting(..)
                | Effect::LookAtSchedules
                | Effect::LookAtOverrides
                | Effect::ReadActions(..)
                | Effect::BulkWritten(..)
                | Effect::LookAtBulk
                | Effect::RowTaken(..)
                | Effect::RowRefused(..)
                | Effect::Reply(..)
                | Effect::Refuse(..)
                | Effect::AlreadyExists(..)
                | Effect::Started(..) => {}
            }
        }
    }
}
