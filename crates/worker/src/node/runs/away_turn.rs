//! A turn that is taken elsewhere: the code of a run with what it is to take, and how it comes
//! back. What the node remembers meanwhile is in `away.rs`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use resurgam_core::command::{ActivityCall, Command};
use resurgam_core::event::RunStarted;
use resurgam_core::turn::{Blocked, Replay, Run};
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
    /// A history, and how far it is gone through. The calls in it are wanted when the run was
    /// reset.
    Replay {
        events: Vec<Event>,
        keeps_calls: bool,
        replay: Replay,
        calls: BTreeMap<Seq, ActivityCall>,
    },
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
        let (replay, calls) = (Replay::default(), BTreeMap::new());
        AwayTurn { run, code, work: Work::Replay { events, keeps_calls, replay, calls }, thread }
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
        let mut turn = self;
        loop {
            match turn.take_while(|| true) {
                ControlFlow::Break(turned) => return turned,
                ControlFlow::Continue(rest) => turn = rest,
            }
        }
    }

    /// Takes it, or so much of a history as `more` lets it: the rest goes on where that has ended.
    pub fn take_while(self, more: impl FnMut() -> bool) -> ControlFlow<Turned, AwayTurn> {
        let AwayTurn { run, mut code, work, thread } = self;
        match work {
            Work::Turn(event) => {
                let taken = Taken { asks: code.turn(&event), calls: BTreeMap::new() };
                let events = vec![event];
                ControlFlow::Break(Turned { run, code, is_replay: false, events, taken })
            }
            Work::Replay { events, keeps_calls, mut replay, mut calls } => {
                let keep = |seq, call| {
                    if keeps_calls {
                        calls.insert(seq, call);
                    }
                };
                let asks = code.replay_while(&mut replay, &events, keep, more).transpose();
                let Some(asks) = asks else {
                    let work = Work::Replay { events, keeps_calls, replay, calls };
                    return ControlFlow::Continue(AwayTurn { run, code, work, thread });
                };
                let taken = Taken { asks, calls };
                ControlFlow::Break(Turned { run, code, is_replay: true, events, taken })
            }
        }
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
