//! A batch that is with the store, and what follows from the store's answer.
//!
//! | the answer                              | what follows                                       |
//! |-----------------------------------------|----------------------------------------------------|
//! | a result for each step                  | that is their fate                                 |
//! | trouble, and this node works            | the same batch again, after a growing while        |
//! | trouble, and this node is a client      | whoever asked hears of it                          |
//! | a row that the database refuses         | the batch is split until the culprit is alone      |
//! | another node is the owner by now        | nothing of the batch is written, nor ever will be  |
//! | the database went back in time          | so it is, and what was written of it may be gone   |
//! | anything, and the node has stepped down | whoever asked hears of it; nothing more is written |
//!
//! The parts of a wide turn are written one after another. A crash in between leaves a prefix,
//! which replay accepts.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::{Error, Result, Step, StepResult};

use super::pending::{Fate, Pending};
use crate::node::output::Batch;

/// The wait after the first refused batch; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What became of the steps of a batch.
pub(crate) type Done = Vec<(Pending, Fate)>;

/// A batch that is with the store.
#[derive(Debug)]
pub(crate) struct BatchWriter {
    pub(super) since: Timestamp,
    /// What is with the store.
    batch: Vec<Pending>,
    steps: Arc<[Step]>,
    /// How many parts of a wide turn are written.
    part: usize,
    /// What is to be written after it, each for itself, the first on top.
    open: Vec<Vec<Pending>>,
    /// How long to wait when the store is in trouble.
    wait: Duration,
    done: Done,
    /// The node has stepped down since, and knows nothing of it any more.
    pub(super) abandoned: bool,
}

impl BatchWriter {
    /// Begins to write a batch.
    pub(crate) fn new(batch: Vec<Pending>, since: Timestamp) -> (Self, Batch) {
        let mut writing = BatchWriter {
            since,
            batch,
            steps: Arc::new([]),
            part: 0,
            open: Vec::new(),
            wait: FIRST_WAIT,
            done: Vec::new(),
            abandoned: false,
        };
        let next = writing.write();
        (writing, next)
    }

    /// The store has answered. `None` when everything is written, or never will be. A node that
    /// works is patient.
    pub(crate) fn answered(
        &mut self,
        answer: Result<Vec<StepResult>>,
        patient: bool,
    ) -> Option<Batch> {
        if answer.as_ref().is_err_and(Error::is_rewound) {
            self.written_in_vain();
        }
        match answer {
            Err(error) if patient && may_pass(&error) => return Some(self.again(&error)),
            answer if self.is_wide() => {
                if let Some(next) = self.part_answered(answer) {
                    return Some(next);
                }
            }
            Ok(results) => {
                let fates = results.into_iter().map(fate_of);
                self.done.extend(std::mem::take(&mut self.batch).into_iter().zip(fates));
            }
            Err(error) => self.refused(&error),
        }
        (self.batch, self.part, self.wait) = (self.open.pop()?, 0, FIRST_WAIT);
        Some(self.write())
    }

    /// How many steps it is not known of what becomes of them.
    pub(crate) fn len(&self) -> usize {
        self.batch.len() + self.open.iter().map(Vec::len).sum::<usize>()
    }

    /// The steps, whether it is known what became of them or not.
    pub(crate) fn steps_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        let done = self.done.iter_mut().map(|(pending, _)| pending);
        self.batch.iter_mut().chain(self.open.iter_mut().flatten()).chain(done)
    }

    /// The store has answered what was sent before the node stepped down. Nothing more of it is
    /// sent: what it was decided on is worth nothing.
    pub(crate) fn answered_too_late(&mut self, answer: Result<Vec<StepResult>>) {
        if answer.is_err() {
            // The node may have stepped down because the database went back in time.
            self.written_in_vain();
        }
        let is_whole =
            !self.is_wide() || self.batch.iter().all(|it| it.parts.len() == self.part + 1);
        let results = answer.ok().filter(|_| is_whole).unwrap_or_default();
        let fates = results.into_iter().map(fate_of).chain(iter::repeat_with(|| Fate::Fenced));
        self.done.extend(std::mem::take(&mut self.batch).into_iter().zip(fates));
        let open = std::mem::take(&mut self.open).into_iter().flatten();
        self.done.extend(open.map(|pending| (pending, Fate::Fenced)));
    }

    /// What was written of a batch that was split may be gone: nobody is told that it is there.
    fn written_in_vain(&mut self) {
        self.done.iter_mut().for_each(|(_, fate)| *fate = Fate::Fenced);
    }

    /// What became of the steps.
    pub(crate) fn into_done(self) -> Done {
        self.done
    }

    fn is_wide(&self) -> bool {
        matches!(self.batch.as_slice(), [wide] if wide.parts.len() > 1)
    }

    /// What goes to the store now.
    fn write(&mut self) -> Batch {
        self.steps = match self.batch.as_mut_slice() {
            [wide] if wide.parts.len() > 1 => Arc::new([wide.parts[self.part].clone()]),
            // Of a known length, so that each step is moved to its place once.
            batch => batch.iter_mut().map(Pending::take_only_part).collect(),
        };
        Batch { steps: self.steps.clone(), after: Duration::ZERO }
    }

    /// Has the store asked once more for what it did not take, after a while.
    fn again(&mut self, error: &Error) -> Batch {
        let after = self.wait;
        tracing::debug!("commit of {} steps, again in {after:?}: {error}", self.steps.len());
        metrics::counter!("resurgam.commit_retries").increment(1);
        self.wait = self.wait.saturating_mul(2).min(LONGEST_WAIT);
        Batch { steps: self.steps.clone(), after }
    }

    /// A part of a wide turn was answered: the next one follows, or it is known what became of it.
    fn part_answered(&mut self, answer: Result<Vec<StepResult>>) -> Option<Batch> {
        let result = answer.map(|results| results.first().copied().unwrap_or(StepResult::Written));
        self.part += 1;
        self.wait = FIRST_WAIT;
        let is_last = self.batch.iter().all(|wide| wide.parts.len() == self.part);
        let fate = match result {
            Ok(StepResult::Written) if !is_last => return Some(self.write()),
            Ok(result) => fate_of(result),
            Err(error) => refusal(&error),
        };
        self.done.extend(self.batch.pop().map(|pending| (pending, fate)));
        None
    }

    /// The store took nothing of the batch.
    fn refused(&mut self, error: &Error) {
        let mut batch = std::mem::take(&mut self.batch);
        for (pending, step) in batch.iter_mut().zip(&*self.steps) {
            pending.parts.push(step.clone());
        }
        if batch.len() == 1 || !error.is_data() {
            return self.done.extend(batch.into_iter().map(|pending| (pending, refusal(error))));
        }
        let second = batch.split_off(batch.len() / 2);
        self.open.push(second);
        self.open.push(batch);
    }
}

/// True when the same batch may be taken later.
fn may_pass(error: &Error) -> bool {
    !error.is_data() && !error.is_fenced() && !error.is_rewound()
}

fn fate_of(result: StepResult) -> Fate {
    match result {
        StepResult::Written => Fate::Written,
        StepResult::Duplicate => Fate::Duplicate,
        StepResult::Closed => Fate::Closed,
        StepResult::Missed => Fate::Missed,
        StepResult::Full => Fate::Full,
    }
}

fn refusal(error: &Error) -> Fate {
    // A database that went back in time knows nothing of what is in memory.
    match error {
        _ if error.is_fenced() || error.is_rewound() => Fate::Fenced,
        _ if error.is_transient() => Fate::Trouble(error.to_string()),
        _ => Fate::Refused(error.to_string()),
    }
}
