//! What operators do to many calls at once, and to what was given up: they start bulk jobs and stop
//! some of them, and try dead letters again or discard them. They ask again when nobody answers.

use std::time::Duration;

use resurgam_core::action::{Action, RedriveCall, Reset, ResetTo};
use resurgam_core::{CallKey, Failure, Payload, Seq};
use resurgam_store::model::ShardSet;
use resurgam_store::rows::{InstanceFilter, PolicyOverride, Status};
use resurgam_store::{
    BulkRow, BulkWrite, CallCursor, CallFilter, CallStatus, DeadLetter, DeadLetterFilter,
    GateWrite, LetterState, LetterWrite, Settled,
};
use resurgam_worker::node::Request;
use resurgam_worker::{
    BulkCounts, BulkOptions, BulkTarget, LetterFilter, Redrive, Result, RunFilter, StartOptions,
    Started, redriven_id, submit,
};
use serde::Serialize;

use crate::program::{Maker, OTHER_QUEUE, WORK};
use crate::users::{Answer, Answers, Told};
use crate::world::World;

/// Something that operators want to have stored, beside what they do to single calls and runs.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// A bulk job begins, or is to stop.
    Bulk(BulkWrite),
    /// A dead letter is discarded.
    Discard(LetterWrite),
    /// A gate is set by hand, or a kind of calls is paused or resumed.
    Gate(GateWrite),
    /// A policy is set for all calls of an activity, or removed.
    Policy(PolicyOverride),
    /// The activity of a dead letter runs once more by itself.
    RunAgain(RunAgain),
}

/// An activity that is to run once more by itself.
#[derive(Clone, Debug)]
pub(crate) struct RunAgain {
    /// The call that was given up.
    pub(crate) call: CallKey,
    /// What its workflow is started with.
    pub(crate) input: Payload,
    /// Where it runs.
    pub(crate) queue: String,
    /// After how long.
    pub(crate) delay_ms: Option<u64>,
}

impl RunAgain {
    /// What makes the call of a letter again, with the policy that it had.
    fn of(letter: &DeadLetter, policy: Option<String>, delay_ms: Option<u64>) -> Option<Self> {
        let bare = submit::call_of(letter.activity.clone(), &letter.input, policy);
        let input = bare.and_then(|bare| bare.encoded()).ok()?;
        Some(RunAgain { call: letter.call, input, queue: letter.queue.clone(), delay_ms })
    }

    fn options(self) -> (StartOptions, Payload) {
        let redrives = Redrive { call: self.call, by: "ana".to_string(), reason: None };
        let mut options = StartOptions {
            id: redriven_id(self.call),
            queue: Some(self.queue),
            redrives: Some(Box::new(redrives)),
            ..StartOptions::default()
        };
        options.settings.delay_ms = self.delay_ms;
        (options, self.input)
    }
}

impl Order {
    /// What a process is asked for; who asked is told under this number.
    pub(crate) fn request(self, answers: &Answers, asked: u64) -> Request {
        let told = answers.clone();
        let tell = move |answer| {
            told.push(Told { user: 0, asked, answer: Answer::Acted(answer) });
        };
        match self {
            Order::Bulk(write) => {
                Request::Bulk { write: Box::new(write), reply: answers.reply(tell) }
            }
            Order::Gate(write) => {
                Request::WriteGates { writes: vec![write], reply: answers.reply(tell) }
            }
            Order::Discard(letter) => {
                Request::SettleLetter { letter: Box::new(letter), reply: answers.reply(tell) }
            }
            Order::Policy(row) => {
                Request::SetPolicy { row: Box::new(row), reply: answers.reply(tell) }
            }
            Order::RunAgain(again) => {
                let (options, input) = again.options();
                let reply = answers.reply(move |answer: Result<Started>| tell(answer.map(|_| ())));
                Request::Start { workflow: submit::NAME.to_string(), input, options, reply }
            }
        }
    }
}

impl World {
    /// An operator starts a bulk job, and now and then stops one.
    pub(crate) fn operator_runs_job(&mut self) {
        if self.random.one_in(4) {
            let jobs = self.database.model.bulk_list(None, 10);
            if let Some(job) = self.random.pick(&jobs) {
                let (id, by) = (job.row.id.clone(), "bob".to_string());
                self.counts.note("bulk job stopped");
                return self.orders(Order::Bulk(BulkWrite::Stop { id, by }));
            }
        }
        let action = self.some_bulk_action();
        let target = self.some_target(&action);
        let options = self.some_options(&target, &action);
        let begins = CallCursor { at: self.database_time(), ..CallCursor::FIRST };
        let begins = matches!(target, BulkTarget::Letters(_)).then(|| begins.to_string());
        self.counts.note(match begins {
            Some(_) => "bulk job about letters started",
            None => "bulk job started",
        });
        let row = BulkRow {
            id: format!("job-{}", self.operators.next()),
            filter: text(&target),
            action: action.to_stored().0,
            options: text(&options),
            cursor: begins,
            counts: text(&BulkCounts::default()),
            page: "[]".to_string(),
            by: "ana".to_string(),
            reason: None,
            stopped_by: None,
            error: None,
            created_at: self.database_time(),
            closed_at: None,
        };
        self.orders(Order::Bulk(BulkWrite::Insert(row)));
    }

    fn some_bulk_action(&mut self) -> Action {
        let (reset, other) = (self.random.one_in(3), self.random.one_in(3));
        match self.random.below(21) {
            0..=3 => Action::Retry { reset, due: None },
            4..=5 => Action::Pause { clock_runs: other },
            6..=8 => Action::Resume { reset, due: None },
            9 => Action::Fail { failure: Failure::terminal("an operator gave all of them up") },
            10 => {
                let policy = Maker::new(self.taste, self.random.fork()).policy();
                Action::SetPolicy { policy: policy.to_stored() }
            }
            11 => Action::PauseRun { calls: other },
            12 => Action::ResumeRun,
            13..=15 => {
                Action::Redrive(RedriveCall { call: Seq::RUN, new_key: other, delay_ms: None })
            }
            16 => Action::Discard,
            17..=18 => Action::RedriveAsNew,
            19 => Action::Restart,
            _ => Action::Reset(Reset { even_if_undone: other, ..Reset::to(ResetTo::LastFailure) }),
        }
    }

    /// What an action is for: everything, or some instances, or one queue.
    fn some_target(&mut self, action: &Action) -> BulkTarget {
        if action.is_on_letter() {
            let activity = self.random.one_in(2).then(|| WORK.to_string());
            return BulkTarget::Letters(LetterFilter { activity, ..LetterFilter::default() });
        }
        let instances = self.database.model.list(&crate::promises::everything());
        let some = if self.random.one_in(3) { self.random.between(1, 4) } else { 0 };
        let ids = (0..some).filter_map(|_| self.random.pick(&instances));
        let ids: Vec<String> = ids.map(|row| row.id.clone()).collect();
        let status = match action {
            Action::PauseRun { .. } => vec![Status::Running, Status::Blocked],
            Action::ResumeRun => vec![Status::Paused],
            Action::Reset(_) => vec![Status::Failed],
            Action::Restart => vec![Status::Completed, Status::Failed, Status::Cancelled],
            _ => {
                return BulkTarget::Calls(CallFilter {
                    ids,
                    activity: self.random.one_in(2).then(|| WORK.to_string()),
                    status: match action {
                        Action::Retry { .. } => Some(CallStatus::Waiting),
                        Action::Resume { .. } => Some(CallStatus::Paused),
                        _ => None,
                    },
                    queue: self.random.one_in(4).then(|| OTHER_QUEUE.to_string()),
                    until: Some(self.database_time()),
                    ..CallFilter::default()
                });
            }
        };
        BulkTarget::Runs(RunFilter { ids, status, ..RunFilter::default() })
    }

    fn some_options(&mut self, target: &BulkTarget, action: &Action) -> BulkOptions {
        let model = &self.database.model;
        let expected = match target {
            BulkTarget::Calls(filter) => model.matching_calls(filter, None, 1_000).calls.len(),
            BulkTarget::Runs(RunFilter { status, .. }) => {
                let status = status.clone();
                model.list(&InstanceFilter { status, limit: 1_000, ..Default::default() }).len()
            }
            BulkTarget::Letters(LetterFilter { activity, .. }) => {
                let activity = activity.clone();
                let open = DeadLetterFilter { activity, limit: 1_000, ..Default::default() };
                model.dead_letters(&open).len()
            }
        };
        // What cannot be taken back is done to few.
        let is_final = matches!(action, Action::Fail { .. } | Action::Reset(_) | Action::Restart);
        let few = is_final || action.is_on_letter() || self.random.one_in(4);
        let spread = if self.random.one_in(2) { self.random.between(1, 20_000) } else { 0 };
        BulkOptions {
            limit: few.then(|| self.random.between(1, 4)),
            spread: Duration::from_millis(spread),
            first: self.random.one_in(3).then(|| self.random.between(1, 3) as u32),
            resets_exhausted: self.random.one_in(2),
            seed: self.random.number(),
            expected: expected as u64,
        }
    }

    /// An operator tries a dead letter again, or discards it; now and then both at the same time.
    pub(crate) fn operator_settles_letter(&mut self) {
        let states = [LetterState::Open, LetterState::Redriven, LetterState::Discarded];
        let some = if self.random.one_in(4) { self.random.pick(&states).copied() } else { None };
        let state = some.unwrap_or(LetterState::Open);
        let filter = DeadLetterFilter { state, limit: 100, ..DeadLetterFilter::default() };
        let letters = self.database.model.dead_letters(&filter);
        let Some(letter) = self.random.pick(&letters).cloned() else { return };
        match self.random.below(10) {
            8 => self.runs_again(&letter),
            9 => {
                self.runs_again(&letter);
                self.redrives(&letter);
            }
            0 => self.discards(&letter),
            1 => {
                self.redrives(&letter);
                self.discards(&letter);
            }
            2 => (0..2).for_each(|_| self.redrives(&letter)),
            _ => self.redrives(&letter),
        }
    }

    fn redrives(&mut self, letter: &DeadLetter) {
        let redrive = RedriveCall {
            call: letter.call.seq,
            new_key: self.random.one_in(3),
            delay_ms: self.random.one_in(3).then(|| self.random.between(1, 10_000)),
        };
        self.wants(letter.call.run.call(Seq::RUN), Action::Redrive(redrive));
    }

    /// An operator has the activity of a letter run once more by itself.
    fn runs_again(&mut self, letter: &DeadLetter) {
        self.counts.note("letter redriven as new");
        let policy = self.database.model.policy(&letter.policy).map(|row| row.text);
        let delay = self.random.one_in(3).then(|| self.random.between(1, 10_000));
        let again = RunAgain::of(letter, policy, delay);
        again.into_iter().for_each(|again| self.orders(Order::RunAgain(again)));
    }

    fn discards(&mut self, letter: &DeadLetter) {
        self.counts.note("letter discarded");
        let settled = Settled {
            at: self.database_time(),
            by: "bob".to_string(),
            reason: None,
            redriven_as: None,
        };
        let state = LetterState::Discarded;
        let discard = LetterWrite::Settle { call: letter.call, state, settled };
        self.orders(Order::Discard(discard));
    }

    /// Counts what became of jobs and letters.
    pub(crate) fn note_ends(&mut self) {
        let promises = &self.database.promises;
        for end in promises.ends_of_jobs() {
            self.counts.note(match end {
                "done" => "bulk job done",
                "stopped" => "bulk job ended early, as asked",
                "failed" => "bulk job ended early, as the first failed",
                _ => "bulk job left open",
            });
        }
        for (what, count) in promises.at_gates() {
            self.counts.note_all(what, count);
        }
        self.counts.note_all("letter redriven as new in the end", promises.letters_run_again());
        let (redriven, discarded) = promises.settled_letters();
        (0..redriven).for_each(|_| self.counts.note("letter redriven in the end"));
        (0..discarded).for_each(|_| self.counts.note("letter discarded in the end"));
    }

    /// Whether a bulk job goes on.
    pub(crate) fn has_open_jobs(&self) -> bool {
        !self.database.model.open_bulk(ShardSet::ALL, 1).is_empty()
    }
}

/// The stored form of something.
fn text(value: &impl Serialize) -> String {
    Payload::encode(value).map(|text| text.as_str().to_string()).unwrap_or_default()
}
