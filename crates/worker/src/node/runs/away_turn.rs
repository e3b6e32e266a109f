//! A turn that is taken elsewhere: the code of a run with what it is to take, and how it comes
//! back. What the node remembers meanwhile is in `away.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_core::command::{ActivityCall, Command};
use resurgam_core::event::RunStarted;
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{Event, EventKind, RunKey, Seq};
use resurgam_sdk::TurnThread;

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
