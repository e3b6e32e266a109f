//! Turns that are taken elsewhere: on a thread of whoever interprets a workflow
//! ([`TurnThread`](resurgam_sdk::TurnThread)), so that the engine's loop waits for nobody.
//!
//! The code of a run leaves with one event ([`AwayTurn`]) and comes back with what it asks for
//! ([`Turned`]). One event is still one turn, and its time is that of the hand-over. In between the
//! run is *away*:
//!
//! - it is committing, as a run is whose step is on its way: its news queues, and it stays in memory;
//! - what the loop asks about calls that it gave up is answered as it was before (`settling.rs`);
//! - a stop waits for it, as it waits for steps;
//! - when its shard is lost, or the node steps down, what it had taken is stored or refused, and its
//!   answer is dropped by its tenure.
//!
//! A run that is loaded is away for the replay of its history, and counts as being read until then.
//! Its first turn is taken before its instance is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::command::{ActivityCall, Command};
use resurgam_core::event::RunStarted;
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{Event, EventKind, RunKey, Seq};
use resurgam_sdk::TurnThread;
use resurgam_store::LetterWrite;
use resurgam_store::rows::InstanceRow;

use super::draft::Draft;
use crate::node::news::News;
use crate::node::steps::effect::Effect;

/// The code of a run, and what it is to take elsewhere.
#[derive(Debug)]
pub struct AwayTurn {
    run: RunKey,
    code: Run,
    work: Work,
    thread: Arc<dyn TurnThread>,
}

#[derive(Debug)]
enum Work {
    /// One input.
    Turn(Event),
    /// A history. The calls in it are wanted when the run was reset.
    Replay { events: Vec<Event>, keeps_calls: bool },
}

impl AwayTurn {
    /// A run takes an input.
    pub(crate) fn of(run: RunKey, code: Run, event: Event, thread: Arc<dyn TurnThread>) -> Self {
        AwayTurn { run, code, work: Work::Turn(event), thread }
    }

    /// A run goes through its history.
    pub(crate) fn replay(
        run: RunKey,
        code: Run,
        events: Vec<Event>,
        keeps_calls: bool,
        thread: Arc<dyn TurnThread>,
    ) -> Self {
        AwayTurn { run, code, work: Work::Replay { events, keeps_calls }, thread }
    }

    /// Which run.
    pub fn run(&self) -> RunKey {
        self.run
    }

    /// Where it is taken.
    pub fn thread(&self) -> Arc<dyn TurnThread> {
        self.thread.clone()
    }

    /// Takes it.
    pub fn take(self) -> Turned {
        let AwayTurn { run, mut code, work, .. } = self;
        let mut calls = BTreeMap::new();
        let is_replay = matches!(work, Work::Replay { .. });
        let (events, asks) = match work {
            Work::Turn(event) => {
                let asks = code.turn(&event);
                (vec![event], asks)
            }
            Work::Replay { events, keeps_calls } => {
                let asks = code.replay_keeping(&events, |seq, call| {
                    if keeps_calls {
                        calls.insert(seq, call);
                    }
                });
                (events, asks)
            }
        };
        Turned { run, code, is_replay, events, taken: Taken { asks, calls } }
    }
}

/// A run is back.
#[derive(Debug)]
pub struct Turned {
    pub(super) run: RunKey,
    pub(super) code: Run,
    pub(super) is_replay: bool,
    /// What it has taken: the one input, or its history.
    pub(super) events: Vec<Event>,
    pub(super) taken: Taken,
}

/// What a turn that was taken elsewhere asks for.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Or why it could not be taken.
    pub(super) asks: Result<Vec<Command>, Blocked>,
    /// The calls in the history, by their places.
    pub(super) calls: BTreeMap<Seq, ActivityCall>,
}

impl Turned {
    /// Which run.
    pub fn run(&self) -> RunKey {
        self.run
    }

    /// The first event of the run, when that was taken.
    pub(super) fn started(&self) -> Option<&RunStarted> {
        match self.events.first().map(|event| &event.kind) {
            Some(EventKind::RunStarted(started)) => Some(started),
            _ => None,
        }
    }
}

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
    pub(super) replace_closed: bool,
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
