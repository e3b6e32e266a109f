//! The committer: takes every step that is ready, writes them in one transaction, and lets their
//! effects happen (`effect.rs`).
//!
//! Alone a step pays for its own fsync; under load everybody shares one. A batch is never waited
//! for: while one is on its way to the disk, the next gathers by itself.
//!
//! What follows from the store's answers is in `batch_writer.rs`. A step that the store does not
//! take is refused here: a start is an error for whoever asked, a run is blocked.
//!
//! Storage trouble never decides the fate of a run: it waits. A client decides about nothing, so
//! its requests are not tried again here: whoever asked hears of the trouble.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use resurgam_core::{Code, Timestamp};
use resurgam_store::{Step, StepResult, TaskWrite};

use super::Node;
use super::news::{News, Origin};
use super::output::Output;
use super::steps::batch_writer::Done;
use super::steps::effect::Effect;
use super::steps::outbox::Answered;
use super::steps::pending::{Fate, Pending};
use super::steps::refusal::Refusal;
use super::store_request::StoreRequest;
use crate::error::Error;

/// A batch whose fate is known, which was with the store since then.
#[derive(Debug)]
pub struct AnsweredBatch {
    pub(crate) since: Timestamp,
    pub(crate) done: Done,
}

impl Node {
    /// Sends what is ready to the disk, on every lane that has no batch on its way.
    pub(crate) fn commit(&mut self) {
        let patient = self.is_owner();
        while let Some((lane, count, batch)) = self.outbox.next_batch(self.now) {
            let rows: usize = batch.steps.iter().map(Step::rows).sum();
            metrics::histogram!("resurgam.commit_steps").record(count as f64);
            metrics::histogram!("resurgam.commit_rows").record(rows as f64);
            self.memory.sweeper.hear_of(&batch.steps, self.now);
            self.outputs.push(Output::Commit { lane, batch, patient });
        }
    }

    /// Tells those who wait for steps of a node that has stepped down. Nothing else follows.
    fn tell_fates(&mut self, done: Vec<(Pending, Fate)>) {
        for (pending, fate) in done {
            for effect in pending.into_effects() {
                let fate =
                    if matches!(fate, Fate::Written) { Ok(()) } else { Err(&Refusal::Fenced) };
                self.tell_fate(effect, fate);
            }
        }
    }

    /// The store has answered what was sent on a lane. Answers with the steps whose fate is known.
    pub(crate) fn answered(
        &mut self,
        lane: usize,
        answer: resurgam_store::Result<Vec<StepResult>>,
    ) -> Option<AnsweredBatch> {
        let patient = self.is_owner();
        match self.outbox.answered(lane, answer, patient) {
            Answered::Go(batch) => {
                self.outputs.push(Output::Commit { lane, batch, patient });
                None
            }
            Answered::Done(since, done) => Some(AnsweredBatch { since, done }),
            Answered::TooLate(done) => {
                self.tell_fates(done);
                None
            }
        }
    }

    /// Applies the outcome of one step. Returns the step if the fence refused it.
    pub(crate) fn fate_is_known(&mut self, pending: Pending, fate: Fate) -> Option<Pending> {
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
            Fate::Fenced => return Some(pending),
        }
        None
    }

    /// Everything that follows from a batch has happened, which was with the store since then.
    pub(crate) fn batch_is_done(&mut self, since: Timestamp, fenced: Vec<Pending>) {
        if !fenced.is_empty() {
            return self.step_down(fenced);
        }
        self.fill_slots();
        self.store_took(since);
    }

    fn written(&mut self, mut pending: Pending) {
        self.outbox.knows_policies(&mut pending);
        for effect in pending.into_effects() {
            self.happen(effect);
        }
    }

    /// A step that the store does not take. A start is refused; a run is blocked, and loaded again
    /// later from what is stored.
    fn refused(&mut self, pending: Pending, refusal: &Refusal) {
        // What is done to a run is answered below, or done again.
        let on_run = pending.effects().iter().find_map(Effect::acts_on_run);
        let mut told: BTreeSet<String> = on_run.map(str::to_string).into_iter().collect();
        let is_on_run = on_run.is_some();
        for step in pending.steps() {
            self.outcomes_lost(step);
            if !is_on_run {
                told.extend(self.actions_not_done(step, refusal));
            }
        }
        for effect in pending.effects() {
            match effect {
                Effect::GivenUp(call) => self.is_not_given_up(*call),
                effect => effect.call().into_iter().for_each(|call| self.forget_call(call)),
            }
        }
        let text = refusal.to_string();
        let run = pending.effects().iter().find_map(Effect::run);
        let noted = pending.effects().iter().any(|effect| matches!(effect, Effect::Blocked(_)));
        let mut name = run.map(|uid| uid.to_string()).unwrap_or_default();
        if let Some((id, news)) = run.and_then(|uid| self.step_refused(uid)) {
            name = id;
            self.news_lost(news, &text);
        }
        let mut was_start = false;
        for effect in pending.into_effects() {
            was_start |= matches!(effect, Effect::Started(..));
            match effect {
                Effect::NewsStored(uid) => self.news_stored(uid),
                Effect::ScheduleDecided(record) => self.schedule_refused(*record, refusal),
                Effect::ScheduleAside(id) => self.schedule_aside_refused(&id, refusal),
                Effect::RowTaken(row) => self.row_not_taken(&row, refusal),
                Effect::RowRefused(instance) => self.row_routed(&instance),
                // Whoever asked hears of it instead.
                Effect::ReportTaken(_, id) if told.contains(&id) => {}
                Effect::ReportTaken(uid, id) => self.report_not_taken(uid, id),
                Effect::ActsOnRun(asked) => self.run_act_refused(*asked, refusal),
                Effect::BulkWritten(page) => self.bulk_refused(&page.job, refusal),
                // They waited for the fate of what came before, and that is known.
                effect @ (Effect::Part(_)
                | Effect::ReadActions(_)
                | Effect::ReadReports(_)
                | Effect::ReadRunToActOn(_)
                | Effect::RunActed(_)) => self.happen(effect),
                effect => self.tell_fate(effect, Err(refusal)),
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
            self.bring_to_rest(uid);
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

    /// What a run had not taken is lost with it; those who wait for it hear of it.
    fn news_lost(&mut self, news: impl IntoIterator<Item = News>, text: &str) {
        for news in news {
            if let Origin::Call { call, report, .. } = news.origin {
                self.is_not_given_up(call);
                report.into_iter().for_each(|id| self.report_not_taken(call.run.uid, id));
            }
            if let Some(reply) = news.reply {
                self.answer(reply, Err(Error::rejected(text)));
            }
        }
    }

    /// A step is durable: now this may be.
    fn happen(&mut self, effect: Effect) {
        match effect {
            Effect::Begin(call) => self.begin_attempt(call),
            Effect::Resume(call) => self.resume_attempt(call),
            Effect::Tell(call) => self.tell_attempt(call),
            Effect::GivenUp(call) => self.forget_call(call),
            Effect::Waiting(call) => self.task_waits(call),
            Effect::TimerStarted(at, uid) => self.memory.due.add_run(at, uid),
            Effect::NextTurn(uid) => self.step_is_durable(uid),
            Effect::Closed(uid) => {
                if let Some(run) = self.take_out(uid) {
                    self.refuse_news(run.into_news());
                }
                self.run_is_over(uid);
            }
            Effect::NextRun(uid) => {
                if let Some(run) = self.take_out(uid) {
                    self.hand_over(run);
                }
                self.run_is_over(uid);
                self.load_run(uid);
            }
            Effect::Wake(uid) => self.has_messages(uid),
            Effect::WakeToEnd(uid) => self.wake_to_end(uid),
            Effect::Finished(uid, outcome) => {
                self.finished(uid, &outcome);
                self.will_be_deleted(outcome.status());
            }
            Effect::Blocked(uid) => self.try_blocked_later(uid),
            Effect::NewsStored(uid) => self.news_stored(uid),
            Effect::ReportTaken(uid, id) => {
                self.bulk_carried_out(uid, &id);
                self.report_taken(uid, id);
            }
            Effect::SettleShared(call) => self.settle_shared(call),
            Effect::ReadReports(uid) => self.read_reports(uid),
            Effect::ReadRunToActOn(uid) => self.read_run_to_act_on(uid),
            Effect::ActsOnRun(_) => {}
            Effect::RunActed(uid) => self.run_acted(uid),
            Effect::Reported(uid) => self.has_reports(uid),
            Effect::Acted(uid) => self.outputs.push(Output::Changed(uid)),
            Effect::AtRest => self.at_rest(),
            Effect::Part(parts) => {
                if let Some(effect) = Arc::into_inner(parts) {
                    self.happen(effect.into_inner().unwrap_or_else(PoisonError::into_inner));
                }
            }
            Effect::ReadAbandoned => self.read_abandoned(),
            Effect::ScheduleDecided(record) => self.schedule_decided(&record.row.id),
            Effect::ScheduleAside(id) => self.schedule_decided(&id),
            Effect::ScheduleMayGoOn(id) => self.schedule_may_go_on(id),
            Effect::ReadWaiting(after) => self.read_waiting_schedules(after),
            Effect::LookAtSchedules => self.look_at_schedules(),
            Effect::LookAtOverrides => self.overrides_written(),
            Effect::ReadActions(asked) => self.ask_store(StoreRequest::Actions { asked }),
            Effect::BulkWritten(page) => self.bulk_written(*page),
            Effect::LookAtBulk => self.look_at_bulk(),
            Effect::RowTaken(row) => self.row_taken(&row),
            Effect::RowRefused(instance) => self.row_routed(&instance),
            effect @ (Effect::Reply(_)
            | Effect::Started(..)
            | Effect::Refuse(..)
            | Effect::AlreadyExists(..)) => self.tell_fate(effect, Ok(())),
        }
    }
}
