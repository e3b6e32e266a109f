//! The committer: takes every step that is ready, writes them in one transaction, and lets their
//! effects happen (`effect.rs`).
//!
//! Alone a step pays for its own fsync; under load everybody shares one. A batch is never waited
//! for: while one is on its way to the disk, the next gathers by itself.
//!
//! What follows from the store's answers is in `writing.rs`. A step that the store does not take is
//! refused here: a start is an error for whoever asked, a run is blocked.
//!
//! Storage trouble never decides the fate of a run: it waits. A client decides about nothing, so
//! its requests are not tried again here: whoever asked hears of the trouble.

use std::fmt;

use resurgam_core::{Code, Timestamp};
use resurgam_store::{Step, StepResult, TaskWrite};

use super::Node;
use super::effect::Effect;
use super::outbox::Answered;
use super::output::Output;
use super::revive::Tries;
use super::run::{News, Origin};
use super::writing::Done;
use crate::error::Error;

/// The most rows of one transaction.
pub(super) const ROWS: usize = 5_000;

/// The most bytes of one transaction.
pub(super) const BYTES: usize = 8 << 20;

/// A step with its effects.
#[derive(Debug)]
pub(super) struct Pending {
    /// Where it goes.
    pub(super) lane: usize,
    /// Usually one; a wide turn comes in several parts, written one after another. Empty while
    /// they are with the store.
    pub(super) parts: Vec<Step>,
    pub(super) effects: Vec<Effect>,
    /// The policies in it.
    pub(super) policies: Vec<String>,
}

/// Tells those who wait for steps of a node that has stepped down. Nothing else follows.
fn tell_fate(done: Vec<(Pending, Fate)>) {
    for (pending, fate) in done {
        for effect in pending.effects {
            match fate {
                Fate::Written => effect.answers(),
                _ => effect.fails(&Refusal::Fenced),
            }
        }
    }
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Fate {
    Written,
    /// Its id is taken.
    Duplicate,
    /// Its instance is not open.
    Closed,
    /// What it changes has changed meanwhile.
    Missed,
    /// Too many signals wait for its instance.
    Full,
    /// The store does not take it; the text says why.
    Refused(String),
    /// The store is in trouble that may pass, and whoever asked is told so.
    Trouble(String),
    /// Another node is the owner by now.
    Fenced,
}

/// A batch whose fate is known, which was with the store since then.
#[derive(Debug)]
pub struct Durable {
    since: Timestamp,
    done: Done,
}

/// Why a step is not written.
#[derive(Debug)]
pub(super) enum Refusal {
    Duplicate,
    Closed,
    Missed,
    /// This many signals wait for the instance.
    Full(usize),
    Fenced,
    /// The store is in trouble that may pass.
    Trouble(String),
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Duplicate => "its id is taken",
            Refusal::Closed => "the instance is closed",
            Refusal::Missed => "somebody else changed it meanwhile",
            Refusal::Full(_) => "too many signals are unread",
            Refusal::Fenced => "another process works on the store by now; ask again",
            Refusal::Trouble(text) | Refusal::Other(text) => text,
        })
    }
}

impl Node {
    /// Sends what is ready to the disk, on every lane that has no batch on its way.
    pub(super) fn commit(&mut self) {
        let patient = self.is_owner();
        while let Some((lane, count, next)) = self.outbox.next_batch(self.now) {
            let rows: usize = next.steps.iter().map(Step::rows).sum();
            metrics::histogram!("resurgam.commit_steps").record(count as f64);
            metrics::histogram!("resurgam.commit_rows").record(rows as f64);
            self.outputs.push(Output::Commit { lane, next, patient });
        }
    }

    /// The store has answered what was sent on a lane. Answers with the steps whose fate is known.
    pub(super) fn answered(
        &mut self,
        lane: usize,
        answer: resurgam_store::Result<Vec<StepResult>>,
    ) -> Option<Durable> {
        let patient = self.is_owner();
        match self.outbox.answered(lane, answer, patient) {
            Answered::Go(next) => {
                self.outputs.push(Output::Commit { lane, next, patient });
                None
            }
            Answered::Done(since, done) => Some(Durable { since, done }),
            Answered::TooLate(done) => {
                tell_fate(done);
                None
            }
        }
    }

    /// A batch is done that was with the store since then: its effects happen.
    pub(super) fn committed(&mut self, durable: Durable) {
        let Durable { since, done } = durable;
        let mut fenced = Vec::new();
        for (pending, fate) in done {
            match fate {
                Fate::Written => self.written(pending),
                Fate::Duplicate => self.refused(pending, &Refusal::Duplicate),
                Fate::Closed => self.refused(pending, &Refusal::Closed),
                Fate::Missed => self.refused(pending, &Refusal::Missed),
                Fate::Full => {
                    let most = self.options.max_unread_signals;
                    self.refused(pending, &Refusal::Full(most));
                }
                Fate::Refused(error) => self.refused(pending, &Refusal::Other(error)),
                Fate::Trouble(error) => self.refused(pending, &Refusal::Trouble(error)),
                Fate::Fenced => fenced.push(pending),
            }
        }
        if !fenced.is_empty() {
            return self.step_down(fenced);
        }
        self.fill_slots();
        self.store_took(since);
    }

    fn written(&mut self, pending: Pending) {
        self.outbox.knows_policies(pending.lane, pending.policies);
        for effect in pending.effects {
            self.happen(effect);
        }
    }

    /// A step that the store does not take. A start is refused; a run is blocked, and loaded again
    /// later from what is stored.
    fn refused(&mut self, pending: Pending, refusal: &Refusal) {
        for step in &pending.parts {
            self.outcomes_lost(step);
        }
        for effect in &pending.effects {
            if let Some(call) = effect.call() {
                self.forget_call(call);
            }
        }
        let text = refusal.to_string();
        let run = pending.effects.iter().find_map(Effect::run);
        let noted = pending.effects.iter().any(|effect| matches!(effect, Effect::Blocked(_)));
        let mut name = run.map(|uid| uid.to_string()).unwrap_or_default();
        if let Some(run) = run.and_then(|uid| self.memory.runs.remove(&uid)) {
            self.memory.ids.remove(&run.id);
            // Loading it again is not getting anywhere: the wait grows all the same.
            self.memory.blocked.insert(run.key.uid, Tries::after(run.tries));
            name.clone_from(&run.id);
            self.news_lost(run.into_news(), &text);
        }
        let mut was_start = false;
        for effect in pending.effects {
            was_start |= matches!(effect, Effect::Started(..));
            match effect {
                Effect::NewsStored(uid) => self.news_stored(uid),
                Effect::ScheduleDecided(record) => self.schedule_refused(*record, refusal),
                Effect::ScheduleAside(id) => self.schedule_aside_refused(&id, refusal),
                Effect::RowTaken(row) => self.row_not_taken(&row, refusal),
                Effect::RowRefused(instance) => self.row_routed(&instance),
                effect => effect.fails(refusal),
            }
        }
        if let Some(uid) = run.filter(|_| !was_start) {
            tracing::error!(instance = %name, "a step was refused, the run is blocked: {text}");
            match noted {
                true => self.try_blocked_later(uid),
                false => {
                    self.stay_blocked(uid, &format!("{} {text}", Code::D5), Vec::new());
                }
            }
        }
    }

    /// What a step that cannot be written says about tasks is gone with it. They are read again:
    /// a claim counts as lost, the others wait, so that the calls go on.
    fn outcomes_lost(&mut self, step: &Step) {
        for write in &step.tasks {
            match write {
                TaskWrite::Delete(call) | TaskWrite::Discard(call) => self.read_lost(*call),
                TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                    self.forget_call(row.call);
                    self.read_lost(row.call);
                }
                TaskWrite::Insert(_) | TaskWrite::DeleteAll(_) => {}
            }
        }
    }

    /// So is what the run had not taken yet; those who wait for it hear of it.
    fn news_lost(&mut self, news: impl IntoIterator<Item = News>, text: &str) {
        for news in news {
            if let Origin::Call { call, .. } = news.origin {
                self.read_lost(call);
            }
            news.reply.into_iter().for_each(|reply| reply.send(Err(Error::rejected(text))));
        }
    }
}
