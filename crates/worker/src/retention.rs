//! How long closed instances stay, and deleting them piece by piece.
//!
//! A piece is one short transaction; while there is more to delete, a pause follows that is as long
//! as the piece took, so that whoever writes meanwhile waits for half of the time at most.

use std::time::Duration;

use resurgam_core::{Timestamp, Uid};
use resurgam_store::rows::{InstanceRow, Status};
use resurgam_store::{DeadLetterFilter, Deleted, Deletion, Store, Sweep};

use crate::clock::{Busy, Clock};
use crate::error::{Error, Result};
use crate::handle::Handle;

/// How long closed instances stay: for ever, unless set. And how long dead letters stay: for thirty
/// days, unless set.
///
/// ```
/// use resurgam_store::rows::Status;
/// use resurgam_worker::Retention;
/// use std::time::Duration;
///
/// let month = Duration::from_secs(30 * 86_400);
/// let retention = Retention { failed: None, ..Retention::all(month) }; // failures stay for ever
/// assert_eq!(retention.of(Status::Completed), Some(month));
/// assert_eq!(retention.of(Status::Failed), None);
/// assert_eq!(retention.dead_letters, Some(month)); // thirty days unless set
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Those that completed.
    pub completed: Option<Duration>,
    /// Those that failed.
    pub failed: Option<Duration>,
    /// Those that were cancelled.
    pub cancelled: Option<Duration>,
    /// Those that were terminated.
    pub terminated: Option<Duration>,
    /// Dead letters, which stay when their instance goes, from when they were written.
    pub dead_letters: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        let dead_letters = Some(Retention::DEAD_LETTERS);
        Retention { completed: None, failed: None, cancelled: None, terminated: None, dead_letters }
    }
}

impl Retention {
    /// How long dead letters stay, unless set.
    pub const DEAD_LETTERS: Duration = Duration::from_secs(30 * 86_400);

    /// How long bulk jobs stay when they are over.
    pub const BULK_JOBS: Duration = Duration::from_secs(30 * 86_400);

    /// One time for all closed instances.
    pub const fn all(time: Duration) -> Self {
        let time = Some(time);
        let dead_letters = Some(Retention::DEAD_LETTERS);
        Retention { completed: time, failed: time, cancelled: time, terminated: time, dead_letters }
    }

    /// How long those of a status stay.
    pub const fn of(&self, status: Status) -> Option<Duration> {
        match status {
            Status::Completed => self.completed,
            Status::Failed => self.failed,
            Status::Cancelled => self.cancelled,
            Status::Terminated => self.terminated,
            Status::Running | Status::Blocked | Status::Paused => None,
        }
    }

    /// Each status with a time.
    pub(crate) fn each(&self) -> Vec<(Status, Duration)> {
        CLOSED.into_iter().filter_map(|status| Some((status, self.of(status)?))).collect()
    }
}

/// Which closed instances to delete.
///
/// ```
/// use resurgam_store::rows::Status;
/// use resurgam_worker::ClosedFilter;
/// use std::time::Duration;
///
/// // What completed a week ago. `..` leaves the rest open.
/// let old = ClosedFilter {
///     status: vec![Status::Completed],
///     older_than: Some(Duration::from_secs(7 * 86_400)),
///     ..ClosedFilter::default()
/// };
/// assert_eq!(old.workflow, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedFilter {
    /// Only these statuses; empty for every way to close.
    pub status: Vec<Status>,
    /// Only those that closed longer ago than this.
    pub older_than: Option<Duration>,
    /// Only of this workflow.
    pub workflow: Option<String>,
    /// Only those with this tag.
    pub tag: Option<(String, String)>,
}

/// The ways to close.
const CLOSED: [Status; 4] =
    [Status::Completed, Status::Failed, Status::Cancelled, Status::Terminated];

/// The shortest and the longest pause between two pieces.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

impl Handle {
    /// Deletes closed instances with everything of theirs, and says how many.
    pub async fn delete_closed(&self, filter: ClosedFilter) -> Result<u64> {
        if let Some(open) = filter.status.iter().find(|status| !status.is_closed()) {
            let open = open.name();
            let error = format!("delete closed instances: what is {open} is not closed");
            return Err(Error::invalid(error));
        }
        let everything = Timestamp::from_millis(i64::MAX);
        let ago = |time| self.now().saturating_sub(time);
        let closed_before = filter.older_than.map_or(everything, ago);
        let mut pace = Pace::new(self.clock(), self.busy());
        let mut deleted = 0;
        for status in CLOSED {
            if !filter.status.is_empty() && !filter.status.contains(&status) {
                continue;
            }
            let (workflow, tag) = (filter.workflow.clone(), filter.tag.clone());
            let sweep = Sweep { status, closed_before, workflow, tag, after: None };
            let swept = sweep_all(&**self.store(), &mut pace, sweep).await;
            deleted += swept.map_err(|error| Error::store("delete closed instances", error))?.0;
        }
        Ok(deleted)
    }

    /// Deletes one closed instance with everything of it.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let what = format!("delete {id}");
        let trouble = |error| Error::store(&what, error);
        let busy = self.busy();
        let row = self.store().find(id).await.map_err(trouble)?;
        drop(busy);
        self.delete_row(&what, row).await
    }

    /// Deletes the closed instance of this uid, whoever has its id by now.
    pub async fn delete_instance(&self, uid: Uid) -> Result<()> {
        let what = format!("delete instance {uid}");
        let busy = self.busy();
        let row = self.store().instance(uid).await;
        let row = row.map_err(|error| Error::store(&what, error))?;
        drop(busy);
        self.delete_row(&what, row).await
    }

    async fn delete_row(&self, what: &str, row: Option<InstanceRow>) -> Result<()> {
        let Some(row) = row else {
            return Err(Error::unknown(format!("{what}: there is no instance of this id")));
        };
        if !row.status.is_closed() {
            let status = row.status.name();
            let error = format!("{what}: the instance is open ({status}); cancel it first");
            return Err(Error::open(error));
        }
        let mut pace = Pace::new(self.clock(), self.busy());
        loop {
            let piece = self.store().delete_closed(Deletion::One(row.uid));
            let piece = pace.piece(piece).await.map_err(|error| Error::store(what, error))?;
            if !piece.more {
                return Ok(());
            }
        }
    }
}

/// Deletes all that is wanted: how many went, and when the first closed that is too young.
async fn sweep_all(
    store: &dyn Store,
    pace: &mut Pace<'_>,
    mut sweep: Sweep,
) -> resurgam_store::Result<(u64, Option<Timestamp>)> {
    let mut deleted = 0;
    loop {
        let done = pace.piece(store.delete_closed(Deletion::Many(sweep.clone()))).await?;
        deleted += done.instances;
        metrics::counter!("resurgam.instances_deleted").increment(done.instances);
        if !done.more {
            return Ok((deleted, done.next));
        }
        sweep.after = done.go_on;
    }
}

/// What a sweep has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// When the next of what is kept has stayed long enough.
    pub next: Option<Timestamp>,
    /// How many calls are paused in the shards of this node.
    pub paused: u64,
    /// Dead letters are kept.
    pub letters: bool,
}

/// Deletes what has stayed long enough, and counts what waits for an operator.
pub async fn sweep(
    store: &dyn Store,
    pace: &mut Pace<'_>,
    retention: Retention,
    now: Timestamp,
) -> resurgam_store::Result<Swept> {
    let mut next: Option<Timestamp> = None;
    for (status, stays) in retention.each() {
        // What closed at that very moment has stayed for all of its time.
        let closed_before = now.saturating_sub(stays).saturating_add(Duration::from_millis(1));
        let sweep = Sweep { status, closed_before, workflow: None, tag: None, after: None };
        let (deleted, young) = sweep_all(store, pace, sweep).await?;
        if deleted > 0 {
            tracing::info!("{deleted} instances that {} are deleted", status.name());
        }
        let due = young.map(|closed_at| closed_at.saturating_add(stays));
        next = [next, due].into_iter().flatten().min();
    }
    let oldest = sweep_letters(store, pace, retention.dead_letters, now).await?;
    let due =
        oldest.zip(retention.dead_letters).map(|(oldest, stays)| oldest.saturating_add(stays));
    let jobs = sweep_bulk(store, pace, now).await?;
    let paused = store.paused_count().await?;
    metrics::gauge!("resurgam.paused_open").set(paused as f64);
    let letters = oldest.is_some();
    Ok(Swept { next: [next, due, jobs].into_iter().flatten().min(), paused, letters })
}

/// Deletes bulk jobs that were over long enough ago, and answers when the next one was.
async fn sweep_bulk(
    store: &dyn Store,
    pace: &mut Pace<'_>,
    now: Timestamp,
) -> resurgam_store::Result<Option<Timestamp>> {
    let stays = Retention::BULK_JOBS;
    let before = now.saturating_sub(stays).saturating_add(Duration::from_millis(1));
    // With nothing to delete, nothing is written.
    let mut oldest = store.oldest_bulk().await?;
    while oldest.is_some_and(|at| at < before) {
        let done = pace.piece(store.delete_closed(Deletion::Bulk { before })).await?;
        if !done.more {
            oldest = done.next;
        }
    }
    Ok(oldest.map(|at| at.saturating_add(stays)))
}

/// Deletes dead letters that have stayed long enough, and counts those that are open. Answers when
/// the oldest of those that stay was written.
async fn sweep_letters(
    store: &dyn Store,
    pace: &mut Pace<'_>,
    stays: Option<Duration>,
    now: Timestamp,
) -> resurgam_store::Result<Option<Timestamp>> {
    let mut oldest = store.oldest_dead_letter().await?;
    if let Some(stays) = stays {
        oldest = delete_letters(store, pace, stays, now, oldest).await?;
    }
    let mut open: u64 = 0;
    if oldest.is_some() {
        let groups = store.dead_letter_groups(DeadLetterFilter::default()).await?;
        open = groups.iter().map(|group| group.count).sum();
    }
    metrics::gauge!("resurgam.dead_letters_open").set(open as f64);
    Ok(oldest)
}

/// Deletes dead letters that have stayed long enough, and answers when the oldest of the others was
/// written.
async fn delete_letters(
    store: &dyn Store,
    pace: &mut Pace<'_>,
    stays: Duration,
    now: Timestamp,
    mut oldest: Option<Timestamp>,
) -> resurgam_store::Result<Option<Timestamp>> {
    let before = now.saturating_sub(stays).saturating_add(Duration::from_millis(1));
    let mut deleted = 0;
    // With nothing to delete, nothing is written.
    while oldest.is_some_and(|at| at < before) {
        let done = pace.piece(store.delete_closed(Deletion::Letters { before })).await?;
        deleted += done.rows;
        if !done.more {
            oldest = done.next;
        }
    }
    if deleted > 0 {
        tracing::info!("{deleted} dead letters are deleted");
        metrics::counter!("resurgam.dead_letters_deleted").increment(deleted);
    }
    Ok(oldest)
}

/// One piece after another, with a pause after each that leaves more to do.
#[derive(Debug)]
pub struct Pace<'a> {
    clock: &'a dyn Clock,
    busy: Option<Busy>,
    pause: Option<Duration>,
}

impl<'a> Pace<'a> {
    /// A pace by this clock; work is under way until it is dropped.
    pub fn new(clock: &'a dyn Clock, busy: Busy) -> Self {
        Pace { clock, busy: Some(busy), pause: None }
    }

    async fn piece(
        &mut self,
        piece: impl Future<Output = resurgam_store::Result<Deleted>>,
    ) -> resurgam_store::Result<Deleted> {
        if let Some(pause) = self.pause {
            let moment = self.clock.sleep(pause);
            drop(self.busy.take());
            self.busy = Some(moment.await);
        }
        let began = self.clock.now();
        let done = piece.await;
        let (shortest, longest) = PAUSE;
        let took = self.clock.now().since(began).clamp(shortest, longest);
        self.pause = done.as_ref().is_ok_and(|done| done.more).then_some(took);
        done
    }
}
