//! Stored messages of a run: how they are made, and the news that they carry.

use resurgam_core::{CallKey, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{ActionRow, Message as StoredMessage, MessageRow};
use resurgam_store::{LetterWrite, MessageWrite, Step, TaskWrite};

use super::Node;
use super::news::{News, Origin};
use super::runs::unread_signals::signal_news;
use super::steps::effect::Effect;
use crate::error::Error;

/// The timer that no run has: its message wakes a run and means nothing to it.
pub(crate) const NO_TIMER: Seq = Seq(0);

/// Adds to a step the deletion of the report that it follows from.
pub(crate) fn end_report(
    uid: Uid,
    report: Option<String>,
    step: &mut Step,
    effects: &mut Vec<Effect>,
) {
    if let Some(id) = report {
        step.messages.push(MessageWrite::Delete { uid, id: id.clone() });
        effects.push(Effect::ReportTaken(uid, id));
    }
}

/// An action that ended a call is kept with the end. An attempt of the call is told then.
pub(crate) fn keep_action(
    action: Option<Box<ActionRow>>,
    step: &mut Step,
    effects: &mut Vec<Effect>,
) {
    if let Some(action) = action {
        effects.push(Effect::GivenUp(action.call));
        effects.push(Effect::Acted(action.call.run.uid));
        step.actions.push(*action);
    }
}

impl Node {
    /// Stores news that cannot become an event now.
    pub(crate) fn put_back(
        &mut self,
        key: RunKey,
        news: News,
        step: &mut Step,
        effects: &mut Vec<Effect>,
    ) {
        let uid = key.uid;
        let row = match (news.origin, news.event) {
            (Origin::Call { call, row, report, stays, action, letter }, event) => {
                let id = match &stays {
                    None => result_id(key, call.seq),
                    // Another message tells how the attempt ended.
                    Some(_) => format!("{}/cut", result_id(key, call.seq)),
                };
                // A call that was given up has no task any more.
                let gone = TaskWrite::Discard(call);
                step.tasks.push(stays.map_or(gone, |task| TaskWrite::Amend(*task)));
                step.attempts.extend(row);
                step.letters.extend(letter.map(LetterWrite::Insert));
                end_report(uid, report, step, effects);
                keep_action(action, step, effects);
                let body = StoredMessage::Result { run: key.run, event };
                Some(now_due(uid, id, body))
            }
            (Origin::Request, EventKind::SignalReceived { name, value, id }) => {
                Some(self.signal_message(uid, id, name, value))
            }
            (Origin::Request, EventKind::TerminateRequested { reason }) => {
                Some(end_message(uid, true, reason))
            }
            (Origin::Request, EventKind::CancelRequested { reason }) => {
                Some(end_message(uid, false, reason))
            }
            // It is still there, or follows from the history.
            (Origin::Request | Origin::Stored { .. } | Origin::History, _) => None,
        };
        step.messages.extend(row.map(MessageWrite::Insert));
        effects.extend(news.reply.map(Effect::Reply));
    }

    /// A signal that is to be taken notice of.
    pub(crate) fn signal_message(
        &mut self,
        uid: Uid,
        id: Option<String>,
        name: String,
        value: Payload,
    ) -> MessageRow {
        let id = match id {
            Some(id) => format!("{}{id}", MessageRow::REPEATABLE_SIGNAL),
            None => format!("signal/{}", self.random.name(self.now)),
        };
        now_due(uid, id, StoredMessage::Signal { name, value })
    }

    /// Why news cannot be taken from a sender.
    pub(crate) fn refuses(&self, event: &EventKind) -> Option<Error> {
        let EventKind::SignalReceived { name, value, .. } = event else { return None };
        let (size, most) = (value.len(), self.options.max_payload);
        (size > most).then(|| {
            let error = format!("signal {name}: the value has {size} bytes, {most} are allowed");
            Error::too_large(error)
        })
    }
}

/// The news in a stored message; `None` when it is no news but a beginning. What an earlier run
/// waited for means nothing to this one.
pub(crate) fn news_of(key: RunKey, row: MessageRow) -> Option<News> {
    let stale = EventKind::TimerFired { timer: NO_TIMER };
    let event = match row.body {
        StoredMessage::Timer { run, timer } if run == key.run => EventKind::TimerFired { timer },
        StoredMessage::Result { run, event } if run == key.run => event,
        StoredMessage::Timer { .. } | StoredMessage::Result { .. } => stale,
        StoredMessage::Signal { name, value } => return Some(signal_news(row.id, name, value)),
        StoredMessage::Cancel { reason } => EventKind::CancelRequested { reason },
        StoredMessage::Terminate { reason } => EventKind::TerminateRequested { reason },
        // It is taken when the run is read for the first time; the others are none of the run's.
        StoredMessage::Start | StoredMessage::Report { .. } | StoredMessage::Action { .. } => {
            return None;
        }
    };
    Some(News { event, origin: Origin::Stored { id: row.id }, reply: None })
}

/// The message that tells how a call ended.
pub fn result_id(key: RunKey, call: Seq) -> String {
    format!("result/{}/{call}", key.run)
}

pub(crate) fn timer_id(key: RunKey, timer: Seq) -> String {
    format!("timer/{}/{timer}", key.run)
}

pub(crate) fn timer_message(key: RunKey, timer: Seq, due_at: Timestamp) -> MessageRow {
    let body = StoredMessage::Timer { run: key.run, timer };
    MessageRow { uid: key.uid, id: timer_id(key, timer), due_at, body }
}

/// Wakes a run that has something to take and would not hear of it after a crash.
pub(crate) fn wake_message(key: RunKey) -> MessageRow {
    let body = StoredMessage::Timer { run: key.run, timer: NO_TIMER };
    now_due(key.uid, wake_id(key), body)
}

/// Has the calls and timers made again that were open where a run was reset, when it is loaded.
pub(crate) fn reopen_message(key: RunKey) -> MessageRow {
    let body = StoredMessage::Timer { run: key.run, timer: NO_TIMER };
    now_due(key.uid, reopen_id(key), body)
}

pub(crate) fn reopen_id(key: RunKey) -> String {
    format!("reopen/{}", key.run)
}

pub(crate) fn wake_id(key: RunKey) -> String {
    format!("wake/{}", key.run)
}

/// What became of a child, for the run that started it.
pub(crate) fn child_message(parent: CallKey, event: EventKind) -> MessageRow {
    let CallKey { run, seq } = parent;
    let id = format!("child/{}/{seq}", run.run);
    now_due(run.uid, id, StoredMessage::Result { run: run.run, event })
}

/// Has an instance end, at once or by itself.
pub(crate) fn end_message(uid: Uid, terminate: bool, reason: String) -> MessageRow {
    let (id, body) = match terminate {
        true => ("terminate", StoredMessage::Terminate { reason }),
        false => ("cancel", StoredMessage::Cancel { reason }),
    };
    now_due(uid, id.to_string(), body)
}

/// What begins an instance that was started by a process that does not work on it, or by a
/// workflow.
pub(crate) fn start_message(uid: Uid) -> MessageRow {
    now_due(uid, "start".to_string(), StoredMessage::Start)
}

/// The end of the time that a run has, or its instance.
pub(crate) fn deadline_message(key: RunKey, total: bool, due_at: Timestamp) -> MessageRow {
    let id = format!("deadline/{}/{}", key.run, if total { "total" } else { "run" });
    let body = StoredMessage::Result { run: key.run, event: EventKind::RunTimedOut { total } };
    MessageRow { uid: key.uid, id, due_at, body }
}

pub fn now_due(uid: Uid, id: String, body: StoredMessage) -> MessageRow {
    MessageRow { uid, id, due_at: Timestamp::EPOCH, body }
}
