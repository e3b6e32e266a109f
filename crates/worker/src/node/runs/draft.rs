//! A step in the making: what turns ask for, and what happens once that is durable.

use std::collections::{BTreeSet, VecDeque};

use resurgam_core::{CallKey, Uid};
use resurgam_store::rows::MessageRow;
use resurgam_store::{LetterWrite, MessageWrite, Step, TaskWrite};

use super::hot_run::HotRun;
use crate::error::Error;
use crate::node::message::{end_report, keep_action, wake_id, wake_message};
use crate::node::news::{News, Origin};
use crate::node::steps::effect::Effect;
use crate::node::steps::pending::Limits;

/// A step in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(super) step: Step,
    pub(super) effects: Vec<Effect>,
    /// The news that is in it, in case the run turns out to be blocked.
    pub(super) consumed: VecDeque<News>,
    /// Tasks that are deleted already: a call can be given up and end in the same step.
    deleted: BTreeSet<CallKey>,
    /// The run is over, and all its tasks with it.
    pub(super) closed: bool,
    /// Another run follows, and takes the rest of the news.
    pub(super) continues: bool,
    /// Why the run is blocked from the start.
    pub(super) error: Option<String>,
    /// How many of its events are weighed, and what they weigh.
    weighed: usize,
    event_bytes: usize,
}

impl Draft {
    /// True when it can take further news.
    pub(crate) fn has_room(&mut self, limits: Limits) -> bool {
        // Hundreds of results may come at once, each with a turn of its own: what was weighed
        // before one of them is not weighed again before the next.
        self.event_bytes += self.step.event_bytes(self.weighed);
        self.weighed = self.step.events.len();
        limits.leave_room(self.step.rows(), self.event_bytes + self.step.other_bytes())
    }

    /// Stores a message that the run itself is to read later.
    pub(crate) fn keep_message(&mut self, run: &mut HotRun, row: MessageRow) {
        run.remember(row.clone());
        self.effects.push(Effect::TimerStarted(row.due_at, run.key.uid));
        self.step.messages.push(MessageWrite::Insert(row));
    }

    /// Wakes the run after a crash, when it has something to take that nothing stored tells of.
    pub(crate) fn keep_awake(&mut self, run: &mut HotRun) {
        let has_more = !run.settled.is_empty() || run.has_wanted_signals();
        if has_more && !run.code.is_closed() && !run.knows(&wake_id(run.key)) {
            self.keep_message(run, wake_message(run.key));
        }
    }

    pub(crate) fn delete_task(&mut self, call: CallKey, write: fn(CallKey) -> TaskWrite) {
        if !self.closed && self.deleted.insert(call) {
            self.step.tasks.push(write(call));
        }
    }

    /// Tells a sender why not, once that is durable.
    pub(crate) fn refuse(&mut self, news: News, why: Error) {
        self.effects.extend(news.reply.map(|reply| Effect::Refuse(reply, why)));
    }

    /// Removes what the news came from. The task of a call that was given up is gone already.
    pub(crate) fn remove_source(&mut self, uid: Uid, news: &News, expected: bool) {
        match &news.origin {
            Origin::Stored { id } => {
                self.step.messages.push(MessageWrite::Delete { uid, id: id.clone() });
            }
            Origin::Call { call, row, report, stays, action, letter } => {
                self.step.attempts.extend(row.clone());
                end_report(uid, report.clone(), &mut self.step, &mut self.effects);
                keep_action(action.clone(), &mut self.step, &mut self.effects);
                let letter = letter.clone().filter(|_| expected);
                self.step.letters.extend(letter.map(LetterWrite::Insert));
                match stays {
                    Some(task) if expected => {
                        self.step.tasks.push(TaskWrite::Amend((**task).clone()));
                    }
                    Some(_) => {}
                    None => {
                        // A transaction of the attempt may have ended what an operator ends.
                        let is_there = expected && action.is_none();
                        let write = if is_there { TaskWrite::Delete } else { TaskWrite::Discard };
                        self.delete_task(*call, write);
                    }
                }
            }
            Origin::Request | Origin::History => {}
        }
    }

    /// Notes that the news is in the step.
    pub(crate) fn consume(&mut self, mut news: News) {
        if let Some(reply) = news.reply.take() {
            self.effects.push(Effect::Reply(reply));
        }
        self.consumed.push_back(news);
    }
}

impl Draft {
    /// Takes messages of a run that have served their purpose.
    pub(crate) fn receive(&mut self, run: &mut HotRun, has_served: impl Fn(&MessageRow) -> bool) {
        let served = run.pending_messages.take(has_served).into_iter();
        let delete = |MessageRow { uid, id, .. }| MessageWrite::Delete { uid, id };
        self.step.messages.extend(served.map(delete));
    }
}
