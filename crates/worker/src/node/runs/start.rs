//! An instance that begins in this process: its first turn, and the step that stores both.

use resurgam_core::turn::Blocked;
use resurgam_core::{Event, EventKind, RunKey, Seq};
use resurgam_sdk::WorkflowDefinition;
use resurgam_store::rows::{InstanceRow, Status};
use resurgam_store::{InstanceWrite, LetterWrite, MessageWrite, Replaces, Step};

use super::away::{Away, AwayStart, Then};
use super::away_turn::{AwayTurn, Turned};
use super::continuation::first_messages;
use super::draft::Draft;
use super::hot_run::HotRun;
use super::instance_info::InstanceInfo;
use super::load_run::begin_code_of;
use crate::node::Node;
use crate::node::steps::effect::Effect;

/// What came of the first turn of an instance that is not stored yet.
pub(crate) struct FirstTurn {
    draft: Draft,
    /// The run is over already.
    closed: bool,
    /// The turn is taken elsewhere, and the instance is stored when that is done.
    elsewhere: Option<Box<(HotRun, AwayTurn)>>,
}

impl FirstTurn {
    /// The same, with the dead letter that the instance tries again.
    pub(crate) fn redriving(mut self, letter: Option<LetterWrite>) -> Self {
        self.draft.step.letters.extend(letter);
        self
    }
}

impl Node {
    /// Takes the first turn of an instance. Fails when its code cannot read the argument.
    pub(crate) fn first_turn(
        &mut self,
        row: &InstanceRow,
        workflow: &WorkflowDefinition,
    ) -> std::result::Result<FirstTurn, String> {
        let key = RunKey::first(row.uid);
        let started = self.first_event(row, workflow.version);
        let code = begin_code_of(row, key, workflow, &row.input)?;
        let mut run = HotRun::new(key, row.id.clone(), code, InstanceInfo::new(row, &started));
        run.request_id.clone_from(&row.request_id);
        let mut draft = Draft::default();
        let event = EventKind::RunStarted(started);
        if let Some(thread) = self.registry.turn_thread(workflow) {
            let event = Event { seq: Seq::FIRST, at: self.now, kind: event };
            run.turns = Some(thread.clone());
            let turn = AwayTurn::of(key, run.leave(), event, thread);
            return Ok(FirstTurn { draft, closed: false, elsewhere: Some(Box::new((run, turn))) });
        }
        let begun = self.begin_run(&mut run, &mut draft, &event);
        Ok(self.first_turn_taken(row, run, draft, event, begun))
    }

    /// The first turn was taken, or cannot be.
    fn first_turn_taken(
        &mut self,
        row: &InstanceRow,
        mut run: HotRun,
        draft: Draft,
        event: EventKind,
        begun: std::result::Result<(), Blocked>,
    ) -> FirstTurn {
        match begun {
            Ok(()) => {
                let closed = run.code.is_closed();
                run.committing = true;
                self.memory.runs.insert(run);
                FirstTurn { draft, closed, elsewhere: None }
            }
            Err(blocked) => {
                self.take_back(&draft.effects);
                let draft = self.blocked_start(row, event, &blocked);
                FirstTurn { draft, closed: false, elsewhere: None }
            }
        }
    }

    /// A run is back that took a turn elsewhere.
    pub(crate) fn turned(&mut self, turned: Turned) {
        let uid = turned.run.uid;
        if self.memory.runs.current(turned.run).is_none() {
            return self.replayed(turned);
        }
        let Some(Away { draft, then }) = self.memory.runs.away.remove(&uid) else { return };
        let Some(run) = self.memory.runs.remove_for_now(uid) else { return };
        match then {
            Then::News(news) => self.news_turned(run, (draft, *news), turned),
            Then::Start(start) => self.started_elsewhere(*run, draft, *start, turned),
        }
    }

    /// The first turn of an instance was taken elsewhere: now the instance is stored.
    fn started_elsewhere(
        &mut self,
        mut run: HotRun,
        mut draft: Draft,
        start: AwayStart,
        turned: Turned,
    ) {
        let AwayStart { row, replaces, letter, started, others } = start;
        let Turned { code, events, taken, .. } = turned;
        run.is_back(code);
        self.memory.runs.forget_id(&run);
        let Some(event) = events.into_iter().next() else { return };
        let kind = event.kind.clone();
        let begun = taken.asks;
        let begun = begun.and_then(|commands| self.began(&mut run, &mut draft, event, commands));
        let first = self.first_turn_taken(&row, run, draft, kind, begun).redriving(letter);
        let uid = row.uid;
        self.store_start(row, replaces, first, started);
        for answer in others {
            self.outbox.behind_start(uid, answer);
        }
    }

    /// A run whose first turn cannot be taken exists all the same, and is tried again.
    fn blocked_start(&self, row: &InstanceRow, first: EventKind, blocked: &Blocked) -> Draft {
        tracing::warn!(instance = %row.id, "run is blocked: {blocked}");
        let (key, at) = (RunKey::first(row.uid), self.now);
        let mut draft = Draft::default();
        draft.error = Some(blocked.to_string());
        if let EventKind::RunStarted(started) = &first {
            // Its time runs out all the same.
            let messages = first_messages(key, &InstanceInfo::new(row, started), started, at);
            draft.step.messages.extend(messages.into_iter().map(MessageWrite::Insert));
        }
        draft.step.events.push((key, Event { seq: Seq::FIRST, at, kind: first }));
        draft
    }

    /// Stores an instance with what its first turn asked for.
    pub(crate) fn store_start(
        &mut self,
        mut row: InstanceRow,
        replaces: Replaces,
        first: FirstTurn,
        started: Effect,
    ) {
        let uid = row.uid;
        let FirstTurn { draft, closed, elsewhere } = first;
        if let Some(elsewhere) = elsewhere {
            let (run, turn) = *elsewhere;
            let Draft { step, .. } = draft;
            let letter = step.letters.into_iter().next();
            let start = AwayStart { row, replaces, letter, started, others: Vec::new() };
            let then = Then::Start(Box::new(start));
            self.memory.runs.insert(run);
            self.memory.runs.away.insert(uid, Away { draft: Draft::default(), then });
            return self.take_elsewhere(turn);
        }
        let Draft { mut step, mut effects, error, .. } = draft;
        // A workflow that is over after its first turn is stored as closed at once.
        let mut continues = false;
        match step.instance.take() {
            Some(InstanceWrite::Status { status, outcome, closed_at, compensation, .. }) => {
                row.status = status;
                row.outcome = outcome;
                row.compensation = compensation;
                row.closed_at = closed_at;
            }
            // So is one that continues as new in its first turn, in its next run.
            Some(InstanceWrite::Continue { run, input, .. }) => {
                row.run = run.run;
                row.input = input;
                continues = true;
            }
            _ => {}
        }
        let closed = closed && !continues;
        let follow_up = error.as_ref().map(|_| Effect::Blocked(uid));
        if let Some(error) = error {
            row.status = Status::Blocked;
            row.error = Some(error);
        }
        let step =
            Step { instance: Some(InstanceWrite::Insert { row: row.into(), replaces }), ..step };
        effects.insert(0, started);
        if closed {
            effects.push(Effect::Closed(uid));
        }
        effects.push(follow_up.unwrap_or(Effect::NextTurn(uid)));
        self.outbox.push(step, effects);
    }
}
