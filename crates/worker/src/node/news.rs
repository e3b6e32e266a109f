//! News: what a run has to take notice of, and where it came from.

use resurgam_core::event::ActivityFailed;
use resurgam_core::retry::Reason;
use resurgam_core::{CallKey, EventKind, Failure, Kind, RunKey, Seq, Timestamp};
use resurgam_store::DeadLetter;
use resurgam_store::rows::{ActionRow, AttemptRow, TaskRow};

use super::Node;
use super::reply::Reply;
use super::steps::refusal::{Refusal, too_late};
use crate::error::Error;

/// Something that a run has to take notice of.
#[derive(Debug)]
pub(crate) struct News {
    /// The input it becomes.
    pub(crate) event: EventKind,
    /// Where it came from.
    pub(crate) origin: Origin,
    /// Who waits for it to be durable.
    pub(crate) reply: Option<Reply<()>>,
}

impl News {
    /// The run that it is for; what somebody asks for is for the current one.
    pub(crate) fn run(&self, current: RunKey) -> RunKey {
        match &self.origin {
            Origin::Call { call, .. } => call.run,
            _ => current,
        }
    }

    /// True when it is the end of this call.
    pub(crate) fn ends(&self, call: CallKey) -> bool {
        matches!(&self.origin, Origin::Call { call: of, .. } if *of == call)
    }
}

/// Where news came from: what is to be removed when it becomes an event, or to be stored when it
/// cannot become one now.
#[expect(clippy::large_enum_variant, reason = "nearly all news is of the large kind")]
#[derive(Debug)]
pub(crate) enum Origin {
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
        /// What an operator did, when that ended it.
        action: Option<Box<ActionRow>>,
        /// What is kept of it, when it was given up and its policy wants that.
        letter: Option<Box<DeadLetter>>,
    },
    /// A request in this process.
    Request,
    /// The run itself: it follows from its history.
    History,
}

impl Origin {
    /// A call that is over, with the row of its last attempt and what told of it.
    pub(crate) fn ended(call: CallKey, row: Option<AttemptRow>, report: Option<String>) -> Self {
        Origin::Call { call, row, report, stays: None, action: None, letter: None }
    }

    /// The same, with what is kept of the call.
    pub(crate) fn with_letter(mut self, kept: Option<Box<DeadLetter>>) -> Self {
        if let Origin::Call { letter, .. } = &mut self {
            *letter = kept;
        }
        self
    }

    /// A call that an operator ended, and the message that asked for it.
    pub(crate) fn ended_by(action: ActionRow, message: String) -> Self {
        let (call, report, action) = (action.call, Some(message), Some(Box::new(action)));
        Origin::Call { call, row: None, report, stays: None, action, letter: None }
    }
}

impl Node {
    /// News for a run that is over by now: its senders are told.
    pub(crate) fn refuse_news(&mut self, news: impl IntoIterator<Item = News>) {
        for reply in news.into_iter().filter_map(|news| news.reply) {
            self.answer(reply, Err(too_late()));
        }
    }

    /// What was asked of an owner that is none any more: whoever asked hears of it.
    pub(crate) fn fail_news(&mut self, news: impl IntoIterator<Item = News>) {
        for reply in news.into_iter().filter_map(|news| news.reply) {
            self.answer(reply, Err(Error::transient(Refusal::Fenced)));
        }
    }
}

/// The end of a call that was given up before it took effect.
pub(crate) fn cancelled_call(activity: Seq, attempt: u32) -> News {
    let event = EventKind::ActivityFailed(ActivityFailed {
        activity,
        failure: Failure::of_kind(Kind::Cancelled, "the workflow gave it up"),
        attempt,
        started_at: Timestamp::EPOCH,
        why: Reason::Cancelled.name().to_string(),
        settles: false,
        ends_run: false,
        retry_metadata: None,
    });
    News { event, origin: Origin::History, reply: None }
}
