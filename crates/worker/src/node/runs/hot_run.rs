//! A run in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use resurgam_core::turn::Run;
use resurgam_core::{EventKind, RunKey, Seq, Uid};
use resurgam_sdk::TurnThread;
use resurgam_store::rows::{Message as StoredMessage, MessageRow, TaskRow};

use super::instance_info::InstanceInfo;
use super::pending_messages::PendingMessages;
use super::settling::Settling;
use super::unread_signals::UnreadSignals;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::message::news_of;
use crate::node::news::{News, Origin};

/// A run in memory.
#[derive(Debug)]
pub(crate) struct HotRun {
    pub(super) key: RunKey,
    pub(super) id: String,
    pub(super) code: Run,
    /// Where its turns are taken, when that is elsewhere.
    pub(super) turns: Option<Arc<dyn TurnThread>>,
    /// Its code is away; this is what it wanted to hear before that.
    pub(super) away: Option<Settling>,
    /// True while it is away or a step of it is not durable.
    pub(super) committing: bool,
    /// What it has not taken yet, in order.
    pub(super) news: VecDeque<News>,
    /// What senders in this process ask for, each with the number of the last read that began
    /// before it. Another process may have stored a message earlier: that one comes first, so these
    /// wait until a later read has found it.
    pub(super) requests: VecDeque<(u64, News)>,
    /// How calls that it gave up have ended: what follows from its own history comes first.
    pub(super) settled: VecDeque<News>,
    /// Messages that are stored and not due yet.
    pub(super) pending_messages: PendingMessages,
    /// Signals that are stored and that nobody waits for.
    pub(super) unread_signals: UnreadSignals,
    /// Its activity calls that have not ended.
    pub(super) open_calls: BTreeSet<Seq>,
    /// Those of them whose attempt was claimed by another node when the run was read.
    pub(super) elsewhere: BTreeMap<Seq, TaskRow>,
    /// Those of them that are left to others: another node may run them.
    pub(super) left_to_others: BTreeSet<Seq>,
    /// The children it has started that have not told how they ended.
    pub(super) children: BTreeMap<Seq, Uid>,
    /// What makes a repeated start the same one, until the first is durable.
    pub(super) request_id: Option<String>,
    pub(super) info: InstanceInfo,
    /// When something last happened to it, on the engine's own count.
    pub(super) touched: u64,
    /// How often it was tried again since it last got anywhere.
    pub(super) tries: u32,
    /// It has taken a turn that is not durable yet.
    pub(super) gets_on: bool,
    /// Its messages are being read, because somebody else may have stored some.
    pub(super) hearing: CoalescedRead,
    /// Stored messages that it has taken: a read that began before may still find them.
    pub(super) taken: BTreeSet<String>,
    /// Its messages are to be read once more when its step is durable.
    pub(super) read_again: bool,
}

impl HotRun {
    /// A run that has taken nothing yet.
    pub(crate) fn new(key: RunKey, id: String, code: Run, info: InstanceInfo) -> Self {
        HotRun {
            key,
            id,
            code,
            turns: None,
            away: None,
            committing: false,
            news: VecDeque::new(),
            requests: VecDeque::new(),
            settled: VecDeque::new(),
            pending_messages: PendingMessages::default(),
            unread_signals: UnreadSignals::default(),
            open_calls: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            left_to_others: BTreeSet::new(),
            children: BTreeMap::new(),
            request_id: None,
            info,
            touched: 0,
            tries: 0,
            gets_on: false,
            hearing: CoalescedRead::default(),
            taken: BTreeSet::new(),
            read_again: false,
        }
    }

    /// Its number among the runs of its instance.
    pub(crate) fn number(&self) -> u32 {
        self.key.run
    }

    /// True when its instance was started by this request, and that may not be durable yet.
    pub(crate) fn is_of_request(&self, request: &str) -> bool {
        self.request_id.as_deref() == Some(request)
    }

    /// Its code leaves, to take a turn elsewhere.
    pub(super) fn leave(&mut self) -> Run {
        self.away = Some(Settling::of(&self.code));
        self.committing = true;
        std::mem::replace(&mut self.code, Run::without_code(self.key, &[]))
    }

    /// Its code is back.
    pub(super) fn is_back(&mut self, code: Run) {
        self.away = None;
        self.code = code;
    }

    /// True when it gave a call up and wants to hear how the call ended.
    pub(crate) fn is_settling(&self, call: Seq) -> bool {
        match &self.away {
            Some(before) => before.is_settling(call),
            None => self.code.machine().lock().is_settling(call),
        }
    }

    /// True when the end of such a call has a bound in time.
    pub(crate) fn settles_in_grace(&self, call: Seq) -> bool {
        match &self.away {
            Some(before) => before.settles_in_grace(call),
            None => self.code.machine().lock().settles_in_grace(call),
        }
    }

    /// True when it wants to hear how a call ends whose time is up.
    pub(crate) fn wants_late_end(&self, call: Seq) -> bool {
        match &self.away {
            Some(before) => before.wants_late_end(call),
            None => self.code.machine().lock().wants_late_end(call),
        }
    }

    /// What it has not taken, when it leaves memory.
    pub(crate) fn into_news(self) -> impl Iterator<Item = News> {
        self.news.into_iter().chain(self.requests.into_iter().map(|(_, news)| news))
    }

    /// True when somebody in this process waits for stored messages to be read first.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// A read has found what was stored before it began: what was asked for before that is next.
    pub(crate) fn requests_may_follow(&mut self, read: u64) {
        while let Some((_, news)) = self.requests.pop_front_if(|(before, _)| *before < read) {
            self.news.push_back(news);
        }
    }

    /// The news in a stored message. A child that was started before its parent was reset knows the
    /// run that started it, and tells this one.
    pub(crate) fn news_of(&self, mut row: MessageRow) -> Option<News> {
        if let StoredMessage::Result {
            run,
            event: EventKind::ChildCompleted { child, .. } | EventKind::ChildFailed { child, .. },
        } = &mut row.body
            && self.info.key_of(self.key, *child).run == *run
        {
            *run = self.key.run;
        }
        news_of(self.key, row)
    }

    /// Keeps a stored message until its time.
    pub(crate) fn remember(&mut self, row: MessageRow) {
        match row.body {
            // It was taken notice of before, and nobody waited for it.
            StoredMessage::Signal { name, value } if row.due_at == MessageRow::NEVER => {
                self.unread_signals.keep(row.id, name, value);
            }
            _ => self.pending_messages.keep(row),
        }
    }

    /// True when a stored message is known, taken or not.
    pub(crate) fn knows(&self, id: &str) -> bool {
        let is = |news: &News| matches!(&news.origin, Origin::Stored { id: known } if known == id);
        self.taken.contains(id)
            || self.unread_signals.has(id)
            || self.news.iter().any(is)
            || self.pending_messages.has(id)
    }

    /// The next thing to take notice of: a signal that somebody waits for by now came before
    /// everything else.
    pub(crate) fn next_news(&mut self) -> Option<News> {
        let mut next = self.settled.pop_front();
        if next.is_none() && !self.unread_signals.is_empty() && !self.code.is_closed() {
            next = self.unread_signals.take(&self.code.machine().lock().wanted_signals());
        }
        next.or_else(|| self.news.pop_front())
    }

    /// True when there is anything to take notice of.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.settled.is_empty() || self.has_wanted_signals()
    }

    pub(crate) fn has_wanted_signals(&self) -> bool {
        !self.unread_signals.is_empty()
            && !self.code.is_closed()
            && self.unread_signals.has_any(&self.code.machine().lock().wanted_signals())
    }

    /// True when an instance was started to be left alone.
    pub(crate) fn is_detached(&self, child: Seq) -> bool {
        self.code.machine().lock().is_detached(child)
    }

    /// What news is to a run.
    pub(crate) fn disposition(&self, news: &EventKind) -> Disposition {
        let machine = self.code.machine().lock();
        match news {
            EventKind::SignalReceived { name, .. } => match machine.expects(news) {
                false => Disposition::Nothing,
                true if machine.is_closed() || !machine.wants_signal(name) => Disposition::Keeping,
                true => Disposition::Turn,
            },
            _ if !machine.is_closed() && machine.expects(news) => Disposition::Turn,
            _ => Disposition::Nothing,
        }
    }
}

/// What news is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It causes a turn.
    Turn,
    /// It is a signal, and nobody waits for it yet.
    Keeping,
    /// It came too late, or before.
    Nothing,
}
