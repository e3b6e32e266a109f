//! The committer: takes every step that is ready, writes them in one transaction, and lets their
//! effects happen (`effect.rs`).
//!
//! Alone a step pays for its own fsync; under load everybody shares one. A batch is never waited
//! for: while one is on its way to the disk, the next gathers by itself.
//!
//! | trouble                                | what follows                                      |
//! |----------------------------------------|---------------------------------------------------|
//! | connection, disk, lock                 | the same batch again, without end                 |
//! | an id that is taken                    | that start is refused, the rest is written        |
//! | a row that the database refuses        | the batch is split until the culprit is alone     |
//! | another node is the owner by now       | this one steps down (`own.rs`)                    |
//!
//! Storage trouble never decides the fate of a run: it waits. A client decides about nothing, so
//! its requests are not tried again here: whoever asked hears of the trouble.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Code, Timestamp};
use resurgam_store::outage::{Asked, OutageLog};
use resurgam_store::{Step, StepResult, Store, TaskWrite};
use tracing::Instrument;

use super::Engine;
use super::effect::Effect;
use super::outbox::Done;
use super::revive::Tries;
use super::run::{News, Origin};
use crate::clock::{Busy, Clock};
use crate::error::Error;

/// The most rows of one transaction.
pub(super) const ROWS: usize = 5_000;

/// The most bytes of one transaction.
pub(super) const BYTES: usize = 8 << 20;

/// The wait after the first refused batch; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A step with its effects.
#[derive(Debug)]
pub(super) struct Pending {
    /// Usually one; a wide turn comes in several parts, written one after another. Empty while
    /// they are with the store.
    pub(super) parts: Vec<Step>,
    pub(super) effects: Vec<Effect>,
    /// The policies in it.
    pub(super) policies: Vec<String>,
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

impl Engine {
    /// Sends what is ready to the disk, on every lane that has no batch on its way.
    pub(super) fn commit(&mut self) {
        while let Some((lane, batch)) = self.outbox.next_batch() {
            let rows: usize = batch.iter().flat_map(|pending| &pending.parts).map(Step::rows).sum();
            metrics::histogram!("resurgam.commit_steps").record(batch.len() as f64);
            metrics::histogram!("resurgam.commit_rows").record(rows as f64);
            let span = tracing::debug_span!("commit", steps = batch.len(), rows);
            // Busy from now on, and not only once the future is polled.
            let busy = Some(self.clock.busy(&"a commit"));
            let patient = self.is_owner();
            let (store, clock) = (self.store.clone(), self.clock.clone());
            let (log, asked) = (self.outage_log.clone(), ("commit", lane as u64));
            let press = Press { store, clock, patient, busy, log, asked };
            let commit = Box::pin(press.write(batch).instrument(span));
            self.outbox.sent(lane, self.now, commit);
        }
    }

    /// A batch is done that was with the store since then: its effects happen.
    pub(super) fn committed(&mut self, done: Done, since: Timestamp) {
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
        self.outbox.knows_policies(pending.policies);
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
        if let Some(run) = run.and_then(|uid| self.runs.remove(&uid)) {
            self.ids.remove(&run.id);
            self.news_lost(run.news, &text);
            // Loading it again is not getting anywhere: the wait grows all the same.
            self.blocked.insert(run.key.uid, Tries::after(run.tries));
            name = run.id;
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

/// Writes a batch: an owner's whatever it takes, a client's once.
struct Press {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    patient: bool,
    busy: Option<Busy>,
    log: Arc<OutageLog>,
    asked: Asked,
}

impl Press {
    async fn write(mut self, batch: Vec<Pending>) -> Vec<(Pending, Fate)> {
        let mut done = Vec::with_capacity(batch.len());
        // Parts of the batch that are to be written each for itself, the first on top.
        let mut open = vec![batch];
        while let Some(mut batch) = open.pop() {
            if let [wide] = batch.as_mut_slice()
                && wide.parts.len() > 1
            {
                let fate = self.write_parts(&wide.parts).await;
                done.extend(batch.into_iter().map(|pending| (pending, fate_of(&fate))));
                continue;
            }
            let steps: Arc<[Step]> =
                batch.iter_mut().flat_map(|pending| std::mem::take(&mut pending.parts)).collect();
            match self.write_once(steps.clone()).await {
                Ok(results) => {
                    let fates = results.into_iter().map(|result| fate_of(&Ok(result)));
                    done.extend(batch.into_iter().zip(fates));
                }
                Err(error) => {
                    for (pending, step) in batch.iter_mut().zip(&*steps) {
                        pending.parts.push(step.clone());
                    }
                    if batch.len() == 1 || !error.is_data() {
                        let refused = |pending| (pending, refusal(&error));
                        done.extend(batch.into_iter().map(refused));
                        continue;
                    }
                    let second = batch.split_off(batch.len() / 2);
                    open.push(second);
                    open.push(batch);
                }
            }
        }
        done
    }

    /// Writes the parts of a wide turn in order. A crash in between leaves a prefix, which replay
    /// accepts.
    async fn write_parts(&mut self, parts: &[Step]) -> Result<StepResult, resurgam_store::Error> {
        for part in parts {
            let results = self.write_once(Arc::new([part.clone()])).await?;
            if let Some(result) = results.first().filter(|result| **result != StepResult::Written) {
                return Ok(*result);
            }
        }
        Ok(StepResult::Written)
    }

    /// Writes one transaction, an owner's again and again while the store is in trouble.
    async fn write_once(
        &mut self,
        steps: Arc<[Step]>,
    ) -> Result<Vec<StepResult>, resurgam_store::Error> {
        let mut wait = FIRST_WAIT;
        loop {
            let began = self.clock.now();
            let answer = self.store.commit(steps.clone()).await;
            if self.patient {
                self.log.heard(self.asked, &answer);
            }
            let error = match answer {
                Ok(results) => {
                    let took = self.clock.now().since(began);
                    metrics::histogram!("resurgam.commit_ms").record(took.as_secs_f64() * 1e3);
                    return Ok(results);
                }
                Err(error) if error.is_data() || error.is_fenced() || error.is_rewound() => {
                    return Err(error);
                }
                Err(error) if !self.patient => {
                    return Err(with_owner(&*self.store, error).await);
                }
                Err(error) => error,
            };
            tracing::debug!("commit of {} steps, again in {wait:?}: {error}", steps.len());
            metrics::counter!("resurgam.commit_retries").increment(1);
            let moment = self.clock.sleep(wait);
            drop(self.busy.take());
            self.busy = Some(moment.await);
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        }
    }
}

/// A client that cannot write wants to know who is in its way.
async fn with_owner(store: &dyn Store, error: resurgam_store::Error) -> resurgam_store::Error {
    match store.owner().await {
        Ok(Some(owner)) if error.is_transient() => {
            resurgam_store::Error::transient(format!("{error}; the store is owned by {owner}"))
        }
        _ => error,
    }
}

fn fate_of(result: &Result<StepResult, resurgam_store::Error>) -> Fate {
    match result {
        Ok(StepResult::Written) => Fate::Written,
        Ok(StepResult::Duplicate) => Fate::Duplicate,
        Ok(StepResult::Closed) => Fate::Closed,
        Ok(StepResult::Missed) => Fate::Missed,
        Ok(StepResult::Full) => Fate::Full,
        Err(error) => refusal(error),
    }
}

fn refusal(error: &resurgam_store::Error) -> Fate {
    // A database that went back in time knows nothing of what is in memory.
    match error {
        _ if error.is_fenced() || error.is_rewound() => Fate::Fenced,
        _ if error.is_transient() => Fate::Trouble(error.to_string()),
        _ => Fate::Refused(error.to_string()),
    }
}
