//! What is promised about bulk jobs.
//!
//! - A job is stored once, and asks for its action at most once for each call, run or dead letter.
//! - A page follows when the one before is answered; of those that are tried first, when none is
//!   open any more. A job that was stopped asks for nothing more, and one that is over neither asks
//!   nor changes anything.
//! - The counts of a job that is over add up, and are those of what was done.
//! - A job ends when the faults stop.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::action::Action;
use resurgam_core::{CallKey, RunKey, Seq};
use resurgam_store::model::Model;
use resurgam_store::rows::{ActionRow, Message};
use resurgam_store::{BulkRow, BulkWrite, MessageWrite, Step};
use resurgam_worker::{BulkCounts, BulkOptions, LISTED, redriven_id};
use serde::de::DeserializeOwned;

use super::Promises;

/// The bulk jobs as they were last written, by id.
pub(super) type JobsSeen = BTreeMap<String, JobSeen>;

#[derive(Clone, Debug)]
pub(super) struct JobSeen {
    row: BulkRow,
    /// What it asked for, with the ids of the requests.
    asked: BTreeMap<CallKey, String>,
    /// Letters that it has settled by its own commits.
    settled: BTreeSet<CallKey>,
    /// Those of them that it asked for first.
    first: BTreeSet<CallKey>,
    /// Those of which something came that the database has lost, when it was set back.
    lost: BTreeSet<CallKey>,
}

impl JobSeen {
    /// How it ended.
    fn end(&self) -> &'static str {
        match (&self.row.closed_at, &self.row.error, &self.row.stopped_by) {
            (None, ..) => "open",
            (Some(_), Some(_), _) => "failed",
            (Some(_), None, Some(_)) => "stopped",
            (Some(_), None, None) => "done",
        }
    }
}

/// The call that a job tries: of one that is redriven, the one in the run that follows, or in the
/// instance that runs its activity once more, if that is there.
fn made_again(model: &Model, row: &BulkRow, call: CallKey) -> Option<CallKey> {
    match Action::from_stored(&row.action, None) {
        Ok(Action::Redrive(_)) => Some(RunKey { run: call.run.run + 1, ..call.run }.call(call.seq)),
        Ok(Action::RedriveAsNew) => {
            let again = model.find(&redriven_id(call))?;
            Some(RunKey::first(again.uid).call(Seq::FIRST.next()))
        }
        _ => Some(call),
    }
}

impl Promises {
    /// How each job ended.
    pub(crate) fn ends_of_jobs(&self) -> impl Iterator<Item = &'static str> {
        self.jobs.values().map(JobSeen::end)
    }

    /// A step is written that changes a bulk job.
    pub(super) fn bulk_written(&mut self, model: &Model, step: &Step) {
        match step.bulk.as_deref() {
            None => {}
            Some(BulkWrite::Insert(row)) => {
                let asked = BTreeMap::new();
                let settled = BTreeSet::new();
                let (first, lost) = (BTreeSet::new(), BTreeSet::new());
                let seen = JobSeen { row: row.clone(), asked, settled, first, lost };
                if self.jobs.insert(row.id.clone(), seen).is_some() {
                    self.breaks(None, format!("bulk job {} is stored twice", row.id));
                }
            }
            Some(BulkWrite::Stop { id, by }) => match self.jobs.get_mut(id) {
                Some(seen) if seen.row.closed_at.is_none() && seen.row.stopped_by.is_none() => {
                    seen.row.stopped_by = Some(by.clone());
                }
                _ => self.breaks(None, format!("bulk job {id} is stopped, and was over before")),
            },
            Some(BulkWrite::Update { row, .. }) => self.job_goes_on(model, row, step),
        }
    }

    fn job_goes_on(&mut self, model: &Model, row: &BulkRow, step: &Step) {
        let id = &row.id;
        let Some(mut seen) = self.jobs.remove(id) else {
            return self.breaks(None, format!("bulk job {id} is written, and is not there"));
        };
        let mut asked = asked_by(id, step);
        let settled = step.letters.iter().map(|write| write.call());
        for call in settled.clone() {
            asked.insert(call, format!("letter of {call}"));
        }
        if seen.row.closed_at.is_some() {
            self.breaks(None, format!("bulk job {id} is written after its end"));
        }
        if seen.row.stopped_by != row.stopped_by {
            self.breaks(None, format!("bulk job {id} forgets that it was stopped"));
        }
        if seen.row.stopped_by.is_some() && !asked.is_empty() {
            self.breaks(None, format!("bulk job {id} asks for more, and was stopped"));
        }
        let (Some(counts), Some(options)) =
            (self.json::<BulkCounts>(&row.counts), self.json::<BulkOptions>(&row.options))
        else {
            return;
        };
        self.check_trial(model, &seen, &options, &asked);
        let is_first = seen.asked.is_empty();
        for (call, request) in asked {
            if is_first {
                seen.first.insert(call);
            }
            if seen.asked.insert(call, request).is_some() {
                self.breaks(call.run.uid, format!("bulk job {id} touches call {call} twice"));
            }
        }
        seen.settled.extend(settled);
        seen.row = row.clone();
        self.check_counts(model, &seen, (&counts, &options), step);
        self.jobs.insert(id.clone(), seen);
    }

    fn json<T: DeserializeOwned>(&mut self, text: &str) -> Option<T> {
        let read = resurgam_core::Payload::from_text(text).decode();
        if let Err(error) = &read {
            self.breaks(None, format!("a bulk job cannot be read: {error}: {text}"));
        }
        read.ok()
    }

    /// Those that are tried first are tried, and have ended before the others follow.
    fn check_trial(
        &mut self,
        model: &Model,
        seen: &JobSeen,
        options: &BulkOptions,
        asked: &BTreeMap<CallKey, String>,
    ) {
        let (Some(most), id) = (options.first, &seen.row.id) else { return };
        let waits = matches!(
            Action::from_stored(&seen.row.action, None),
            Ok(Action::Retry { .. }
                | Action::Resume { .. }
                | Action::Redrive(_)
                | Action::RedriveAsNew)
        );
        if seen.asked.is_empty() && asked.len() > most as usize {
            self.breaks(None, format!("bulk job {id} tries {} first, not {most}", asked.len()));
        }
        if seen.asked.is_empty() || asked.is_empty() || !waits {
            return;
        }
        let first = seen.first.difference(&seen.lost).copied();
        let first: Vec<CallKey> =
            first.filter_map(|call| made_again(model, &seen.row, call)).collect();
        if let Some(task) = model.tasks_of(&first).first() {
            let call = task.call;
            self.breaks(call.run.uid, format!("bulk job {id} goes on, and call {call} is open"));
        }
    }

    fn check_counts(
        &mut self,
        model: &Model,
        seen: &JobSeen,
        (counts, options): (&BulkCounts, &BulkOptions),
        step: &Step,
    ) {
        let (id, is_over) = (&seen.row.id, seen.row.closed_at.is_some());
        let BulkCounts { matched, changed, refused, .. } = *counts;
        let new = asked_by(id, step).len() as u64;
        let is_wrong = matched != seen.asked.len() as u64
            || changed + refused + new != matched
            || options.limit.is_some_and(|most| matched > most)
            || counts.listed.len() as u64 != refused.min(LISTED as u64);
        let done = |(call, request): &(&CallKey, &String)| {
            let done = self.actions.done.get(&(call.run.uid, (*request).clone()));
            done.is_some_and(|row| row.answer.changed)
        };
        let done = seen.asked.iter().filter(done).map(|(call, _)| call);
        let done: BTreeSet<CallKey> = done.chain(&seen.settled).copied().collect();
        // What was done to an instance is forgotten with it.
        let is_known =
            |call: &&CallKey| !seen.lost.contains(call) && model.instance(call.run.uid).is_some();
        let known = done.iter().filter(is_known).count() as u64;
        let most = done.union(&seen.lost).count() as u64;
        let is_untrue = is_over && !(known..=most).contains(&changed);
        if is_wrong || is_untrue {
            let what =
                format!("bulk job {id} has asked for {}, {new} of them now", seen.asked.len());
            let what = format!("{what}, and {} have changed", done.len());
            self.breaks(None, format!("{what}; it counts {counts:?} of {options:?}"));
        }
    }

    /// An action of a job is carried out, or refused: the job has asked for it, and is not over.
    pub(super) fn acted_for_job(&mut self, row: &ActionRow) {
        let Some((id, _)) = row.request.id.strip_prefix("bulk/").and_then(|id| id.split_once('/'))
        else {
            return;
        };
        // Calls that are paused with their run are asked by the run.
        if matches!(row.request.action, Action::PauseWithRun | Action::ResumeWithRun) {
            return;
        }
        let (uid, request) = (row.call.run.uid, &row.request.id);
        let seen = self.jobs.get(id);
        let is_it = |(call, asked): &(&CallKey, &String)| call.run.uid == uid && *asked == request;
        let asked = seen.and_then(|seen| seen.asked.iter().find(is_it)).map(|(call, _)| *call);
        let is_open = |seen: &JobSeen| {
            seen.row.closed_at.is_none() || asked.is_some_and(|call| seen.lost.contains(&call))
        };
        if asked.is_none() {
            self.breaks(uid, format!("{request} is carried out, and nobody asked for it"));
        } else if !seen.is_some_and(is_open) && row.answer.changed {
            self.breaks(uid, format!("{request} is carried out after its job"));
        }
    }

    /// The database is what it was a while ago. What came of a call since then is lost, and a node
    /// that has read it and lost nothing of its own goes by it: it did come of it.
    pub(crate) fn jobs_were_set_back(&mut self, model: &Model, before: (&Model, &Promises)) {
        let Promises { jobs, actions, .. } = self;
        let (before, promises) = before;
        for (id, seen) in jobs {
            let was_lost = promises.jobs.get(id).map(|seen| seen.lost.clone());
            let is_lost = |(call, request): &(&CallKey, &String)| {
                let key = (call.run.uid, (*request).clone());
                let was_done = promises.actions.done.contains_key(&key);
                let made = |model: &Model| made_again(model, &seen.row, **call);
                let is_open = |model: &Model| {
                    made(model).is_some_and(|call| !model.tasks_of(&[call]).is_empty())
                };
                let (had_ended, is_open) = (!is_open(before), is_open(model));
                (was_done && !actions.done.contains_key(&key)) || (had_ended && is_open)
            };
            let lost = seen.asked.iter().filter(is_lost).map(|(call, _)| *call);
            seen.lost = lost.chain(was_lost.into_iter().flatten()).collect();
        }
    }

    /// An operator is told that a job is stored, or that it is to stop; or that this was so before,
    /// or that there is nothing to stop.
    pub(crate) fn bulk_acknowledged(&mut self, model: &Model, write: &BulkWrite, is_new: bool) {
        let found = model.bulk(write.id()).map(|record| record.row);
        let is_so = match write {
            BulkWrite::Insert(_) | BulkWrite::Update { .. } => found.is_some(),
            BulkWrite::Stop { .. } => {
                let ends = |row: BulkRow| row.stopped_by.is_some() || row.closed_at.is_some();
                found.map_or(!is_new, ends)
            }
        };
        if !is_so {
            let id = write.id();
            self.breaks(
                None,
                format!("bulk job {id} was acknowledged, and it is not so: {write:?}"),
            );
        }
    }

    /// Everything is over: so is every job.
    pub(super) fn bulk_at_the_end(&mut self) {
        let open = self.jobs.values().find(|seen| seen.row.closed_at.is_none());
        if let Some(row) = open.map(|seen| seen.row.clone()) {
            self.breaks(None, format!("bulk job {} did not end: {row:?}", row.id));
        }
    }
}

/// What a step of a job asks for, with the ids of the requests.
fn asked_by(job: &str, step: &Step) -> BTreeMap<CallKey, String> {
    let prefix = format!("bulk/{job}/");
    let asked = step.messages.iter().filter_map(|write| match write {
        MessageWrite::Insert(row) => match &row.body {
            Message::Action { run, activity, request } if request.id.starts_with(&prefix) => {
                let run = RunKey { uid: row.uid, run: *run };
                let place = match &request.action {
                    Action::Redrive(redrive) => redrive.call,
                    _ => *activity,
                };
                Some((run.call(place), request.id.clone()))
            }
            _ => None,
        },
        _ => None,
    });
    asked.collect()
}

#[cfg(test)]
mod tests {
    use resurgam_core::{Timestamp, Uid};
    use resurgam_store::TaskWrite;
    use resurgam_store::model::Sharing;
    use resurgam_store::rows::{Progress, TaskRow};
    use resurgam_watchdog::test;

    use super::*;

    fn task(call: CallKey) -> TaskRow {
        TaskRow {
            call,
            name: "work".to_string(),
            queue: "default".to_string(),
            gate: "work".to_string(),
            priority: 0,
            policy: String::new(),
            attempt: 0,
            wake_at: Timestamp::EPOCH,
            deadline_at: None,
            claim: None,
            progress: Progress::default(),
            heartbeat: None,
        }
    }

    /// A job that has asked for this call, to try it first.
    fn job(call: CallKey) -> JobSeen {
        let row = BulkRow {
            id: "job".to_string(),
            filter: String::new(),
            action: Action::Retry { reset: false, due: None }.to_stored().0,
            options: String::new(),
            cursor: None,
            counts: String::new(),
            page: String::new(),
            by: String::new(),
            reason: None,
            stopped_by: None,
            error: None,
            created_at: Timestamp::EPOCH,
            closed_at: None,
        };
        let asked = BTreeMap::from([(call, "bulk/job/1.2".to_string())]);
        let (first, lost) = (BTreeSet::from([call]), BTreeSet::new());
        JobSeen { row, asked, settled: BTreeSet::new(), first, lost }
    }

    /// What is wrong when the job goes on.
    fn goes_on(promises: &Promises, model: &Model, next: CallKey) -> Option<String> {
        let mut promises = promises.clone();
        let seen = promises.jobs["job"].clone();
        let options = BulkOptions { first: Some(1), ..BulkOptions::default() };
        let asked = BTreeMap::from([(next, "bulk/job/1.3".to_string())]);
        promises.check_trial(model, &seen, &options, &asked);
        promises.broken().map(ToString::to_string)
    }

    #[test]
    fn a_job_goes_on_by_what_it_has_read_before_the_database_was_set_back() {
        let run = RunKey::first(Uid(7));
        let (first, next) = (run.call(Seq(2)), run.call(Seq(3)));
        let mut model = Model::new(Sharing::ManyNodes);
        let step = Step { tasks: vec![TaskWrite::Insert(task(first))], ..Step::default() };
        model.commit(&[step]).expect("a new task");
        let promises =
            Promises { jobs: JobsSeen::from([("job".into(), job(first))]), ..Promises::default() };
        assert!(goes_on(&promises, &model, next).is_some(), "the first one is open");
        // It ends, and that is lost.
        let mut ended = model.clone();
        let step = Step { tasks: vec![TaskWrite::Delete(first)], ..Step::default() };
        ended.commit(&[step]).expect("its end");
        let mut restored = promises.clone();
        restored.jobs_were_set_back(&model, (&ended, &promises));
        assert_eq!(goes_on(&restored, &model, next), None);
        // One that had not ended is waited for.
        let mut restored = promises.clone();
        restored.jobs_were_set_back(&model, (&model, &promises));
        assert!(goes_on(&restored, &model, next).is_some());
    }
}
