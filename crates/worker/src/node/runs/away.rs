//! Turns that are taken elsewhere: on a thread of whoever interprets a workflow
//! ([`TurnThread`](resurgam_sdk::TurnThread)), so that the engine's loop waits for nobody.
//!
//! The code of a run leaves with one event and comes back with what it asks for (`away_turn.rs`).
//! One event is still one turn, and its time is that of the hand-over. In between the run is
//! *away*:
//!
//! - it is committing, as a run is whose step is on its way: its news queues, and it stays in
//!   memory;
//! - what the loop asks about calls that it gave up is answered as it was before (`settling.rs`);
//! - a stop waits for it, as it waits for steps;
//! - when its shard is lost, or the node steps down, what it had taken is stored or refused, and
//!   its answer is dropped by its tenure.
//!
//! A run that is loaded is away for the replay of its history, and counts as being read until then.
//! Its first turn is taken before its instance is stored.

use resurgam_store::rows::InstanceRow;
use resurgam_store::{LetterWrite, Replaces};

use super::draft::Draft;
use crate::node::news::News;
use crate::node::steps::effect::Effect;

/// What a run that is away goes on with when it is back.
#[derive(Debug)]
pub(crate) struct Away {
    pub(super) draft: Draft,
    pub(super) then: Then,
}

/// Why a run is away.
#[derive(Debug)]
pub(crate) enum Then {
    /// It takes this.
    News(Box<News>),
    /// It is an instance that begins.
    Start(Box<AwayStart>),
}

/// An instance that is not stored before its first turn is back.
#[derive(Debug)]
pub(crate) struct AwayStart {
    pub(super) row: InstanceRow,
    pub(super) replaces: Replaces,
    pub(super) letter: Option<LetterWrite>,
    /// The answer to whoever starts it.
    pub(super) started: Effect,
    /// Answers to others who start it meanwhile.
    pub(super) others: Vec<Effect>,
}

impl Away {
    /// What had been taken and is not stored, and those who wait for an answer.
    pub(super) fn into_parts(self) -> (Vec<News>, Vec<Effect>, Option<Box<AwayStart>>) {
        let Away { draft, then } = self;
        let mut news: Vec<News> = draft.consumed.into();
        let start = match then {
            Then::News(taking) => {
                news.push(*taking);
                None
            }
            Then::Start(start) => Some(start),
        };
        (news, draft.effects, start)
    }
}
