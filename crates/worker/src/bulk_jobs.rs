//! Bulk jobs: what a handle can be asked.
//!
//! A job is a row that a node works on, in this process or in another. Whoever asked for it may
//! wait until it is over, look how far it has come, or stop it.

use resurgam_core::Timestamp;
use resurgam_core::action::Action;
use resurgam_store::rows::{InstanceCursor, InstanceRow};
use resurgam_store::{BulkCursor, BulkRecord, BulkWrite, DeadLetter, MatchedCall};

use crate::bulk::{
    BulkJob, BulkTarget, LetterFilter, MOST_FIRST, RunFilter, call_of_text, call_to_text,
    statuses_for,
};
use crate::bulk_reads::matching_runs;
use crate::error::{Error, Result};
use crate::handle::{Handle, given};
use crate::node::Request;
use crate::random::Random;

/// How many calls, or runs, are counted at a time.
const COUNTED: usize = 1_000;

/// How many dead letters are listed at most: each has its arguments.
const LISTED_LETTERS: usize = 10;

/// What a bulk job would be about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BulkPreview {
    /// How many match.
    pub count: u64,
    /// The first calls among them.
    pub calls: Vec<MatchedCall>,
    /// The first instances among them, where it is about runs.
    pub runs: Vec<InstanceRow>,
    /// The first dead letters among them, at most ten.
    pub letters: Vec<DeadLetter>,
}

impl Handle {
    /// A job that nobody has asked for yet: with an id and a seed of its own, and about what the
    /// action is for where the filter leaves that open.
    pub fn new_bulk(&self, mut target: BulkTarget, action: Action) -> BulkJob {
        let now = self.now();
        let (of_calls, of_runs) = statuses_for(&action);
        match &mut target {
            BulkTarget::Calls(filter) => {
                filter.status = filter.status.or(of_calls.filter(|_| filter.fingerprint.is_none()));
                // What is paused, or started, meanwhile is left alone.
                filter.until = filter.until.or(Some(now));
            }
            BulkTarget::Runs(filter) if filter.status.is_empty() => filter.status = of_runs,
            BulkTarget::Runs(_) | BulkTarget::Letters(_) => {}
        }
        let mut random = Random::from_entropy();
        let begins = begins(&target, now);
        let mut job = BulkJob::new(random.name(now), target, action, now);
        job.cursor = begins;
        job.options.seed = random.number();
        job
    }

    /// Counts what a job would be about, and lists the first of it.
    pub async fn preview_bulk(&self, target: &BulkTarget, list: usize) -> Result<BulkPreview> {
        let _busy = self.busy();
        let trouble = |error| Error::store("look what matches", error);
        let store = &**self.store();
        let mut preview = BulkPreview::default();
        let mut after: Option<String> = begins(target, self.now());
        loop {
            let (count, go_on) = match target {
                BulkTarget::Calls(filter) => {
                    let from = after.as_deref().and_then(call_of_text);
                    let page = store.matching_calls(filter.clone(), from, COUNTED).await;
                    let page = page.map_err(trouble)?;
                    let (count, room) =
                        (page.calls.len(), list.saturating_sub(preview.calls.len()));
                    preview.calls.extend(page.calls.into_iter().take(room));
                    (count, page.go_on.map(call_to_text))
                }
                BulkTarget::Runs(filter) => {
                    let page = matching_runs(store, filter, after.as_deref(), COUNTED).await;
                    let (rows, go_on) = page.map_err(trouble)?;
                    let (count, room) = (rows.len(), list.saturating_sub(preview.runs.len()));
                    preview.runs.extend(rows.into_iter().take(room));
                    (count, go_on)
                }
                BulkTarget::Letters(filter) => {
                    let first = preview.count == 0 && list > 0;
                    if let Some(list) = first.then(|| list.min(LISTED_LETTERS)) {
                        let page = store.dead_letters(filter.letters(after.as_deref(), list)).await;
                        preview.letters = page.map_err(trouble)?;
                    }
                    let page = filter.letters(after.as_deref(), COUNTED);
                    let places = store.dead_letter_places(page).await.map_err(trouble)?;
                    let last = places.last().filter(|_| places.len() == COUNTED);
                    (places.len(), last.map(ToString::to_string))
                }
            };
            preview.count += count as u64;
            after = go_on;
            if after.is_none() {
                return Ok(preview);
            }
        }
    }

    /// Runs that match, those behind a place in their list: the newest first, at most `limit`.
    pub async fn list_runs(
        &self,
        filter: &RunFilter,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<Vec<InstanceRow>> {
        let _busy = self.busy();
        let (mut found, mut after) = (Vec::new(), after.map(|after| after.to_string()));
        loop {
            let left = limit - found.len();
            let page = matching_runs(&**self.store(), filter, after.as_deref(), left).await;
            let (rows, go_on) = page.map_err(|error| Error::store("list instances", error))?;
            found.extend(rows);
            after = go_on;
            if found.len() >= limit || after.is_none() {
                return Ok(found);
            }
        }
    }

    /// As many of them as there are among a bounded number of instances, and where to go on; none
    /// when that was the last of the list.
    pub async fn run_page(
        &self,
        filter: &RunFilter,
        after: Option<InstanceCursor>,
        limit: usize,
    ) -> Result<(Vec<InstanceRow>, Option<InstanceCursor>)> {
        let _busy = self.busy();
        let after = after.map(|after| after.to_string());
        let page = matching_runs(&**self.store(), filter, after.as_deref(), limit).await;
        let (rows, go_on) = page.map_err(|error| Error::store("list instances", error))?;
        Ok((rows, go_on.and_then(|at| at.parse().ok())))
    }

    /// Stores a job, for the node that holds its shard. It is durable when this returns.
    pub async fn start_bulk(&self, mut job: BulkJob) -> Result<BulkJob> {
        let what = "start a bulk job";
        given(what, "the id", &job.id)?;
        if let Some(why) = refuses(&job) {
            return Err(Error::invalid(format!("{what}: {why}")));
        }
        job.options.expected = self.preview_bulk(&job.target, 0).await?.count;
        let write = Box::new(BulkWrite::Insert(job.to_row()));
        match self.ask(what, |reply| Request::Bulk { write, reply }).await {
            // Somebody asks once more.
            Err(error) if error.is_overtaken() => self.bulk_job(&job.id).await?.ok_or(error),
            asked => asked.map(|()| job),
        }
    }

    /// The job of this id.
    pub async fn bulk_job(&self, id: &str) -> Result<Option<BulkJob>> {
        let _busy = self.busy();
        let found = self.store().bulk(id).await;
        let found = found.map_err(|error| Error::store(format!("read bulk job {id}"), error))?;
        found.map(readable).transpose()
    }

    /// Jobs, the newest first, those that were asked for before this one.
    pub async fn bulk_jobs(
        &self,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<BulkJob>> {
        let _busy = self.busy();
        let after = after.map(|(at, id)| BulkCursor { at, id });
        let found = self.store().bulk_list(after, limit).await;
        let found = found.map_err(|error| Error::store("list bulk jobs", error))?;
        // One that cannot be read is closed by whoever works on it, and is in nobody's way.
        Ok(found.into_iter().filter_map(|record| readable(record).ok()).collect())
    }

    /// Has a job ask for nothing more. What it has asked for is carried out. False when it was
    /// over, or stopped before.
    pub async fn stop_bulk(&self, id: &str, by: &str) -> Result<bool> {
        let what = format!("stop bulk job {id}");
        let missing = || Error::unknown(format!("{what}: there is no job of this id"));
        let job = self.bulk_job(id).await?.ok_or_else(missing)?;
        if job.state().is_over() || job.stopped_by.is_some() {
            return Ok(false);
        }
        let write = Box::new(BulkWrite::Stop { id: id.to_string(), by: by.to_string() });
        match self.ask(&what, |reply| Request::Bulk { write, reply }).await {
            Err(error) if error.is_overtaken() => Ok(false),
            stopped => stopped.map(|()| true),
        }
    }

    /// Waits until a job is over; answers with how it stands where nobody works who could go on
    /// with it.
    pub async fn bulk_over(&self, id: &str) -> Result<BulkJob> {
        let what = format!("wait for bulk job {id}");
        let mut changed = self.watch(BulkJob::watched_as(id)).await?;
        loop {
            changed.borrow_and_update();
            let missing = || Error::unknown(format!("{what}: there is no job of this id"));
            let job = self.bulk_job(id).await?.ok_or_else(missing)?;
            if job.state().is_over() || self.owner().await?.is_none() {
                return Ok(job);
            }
            changed.changed().await.map_err(|_| Error::stopped(&what))?;
        }
    }
}

/// Where a job begins. What was given up after that is left alone.
fn begins(target: &BulkTarget, now: Timestamp) -> Option<String> {
    matches!(target, BulkTarget::Letters(_)).then(|| LetterFilter::begins(now))
}

fn readable(record: BulkRecord) -> Result<BulkJob> {
    BulkJob::read(&record.row).map_err(|error| {
        Error::invalid(format!("bulk job {} cannot be read: {error}", record.row.id))
    })
}

/// Why a job cannot be done.
fn refuses(job: &BulkJob) -> Option<String> {
    let is_on_run = job.action.is_on_run();
    match (&job.action, &job.target) {
        (Action::Complete { .. }, _) => {
            return Some("a completion is for one call, and has its value".to_string());
        }
        (Action::PauseWithRun | Action::ResumeWithRun, _) => {
            return Some("this is done by runs".to_string());
        }
        (action, BulkTarget::Letters(_)) if action.is_on_letter() => {}
        (action, _) if action.is_on_letter() => {
            return Some("the action is for dead letters, and the filter is not".to_string());
        }
        (_, BulkTarget::Letters(_)) => {
            return Some("the filter is for dead letters, and the action is not".to_string());
        }
        (_, BulkTarget::Calls(_)) if is_on_run => {
            return Some("the action is for runs, and the filter for calls".to_string());
        }
        (_, BulkTarget::Runs(_)) if !is_on_run => {
            return Some("the action is for calls, and the filter for runs".to_string());
        }
        _ => {}
    }
    let is_wrong = |first: u32| first == 0 || first > MOST_FIRST;
    if job.options.first.is_some_and(is_wrong) {
        return Some(format!("1 to {MOST_FIRST} can be tried first"));
    }
    if job.id.is_empty() {
        return Some("an empty id is not allowed".to_string());
    }
    (job.options.limit == Some(0)).then(|| "a limit of 0 leaves nothing to do".to_string())
}
