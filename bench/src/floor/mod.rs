//! What is left when the engine and the store are taken away: the rows, written by the database.
//!
//! Only what `chain` writes is known here, in the order in which the engine writes it. Anything
//! else is an error, so that no row is left out unnoticed. Deletions that find nothing are no rows
//! and are left out: those of the messages and of further tasks of a run that never had any.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use resurgam_core::event::Stored;
use resurgam_core::{CallKey, Event, Payload, RunKey, Timestamp, Uid};
use resurgam_store::rows::{InstanceRow, Status, TaskRow};
use resurgam_store::{InstanceWrite, MessageWrite, Step, TaskWrite};
use tokio::sync::SetOnce;

use crate::Result;
use crate::watched::Batch;

/// What one step writes.
#[derive(Default)]
struct Written<'b> {
    start: Option<&'b InstanceRow>,
    end: Option<End<'b>>,
    events: Vec<(RunKey, &'b Event, Stored)>,
    policies: Vec<(&'b str, &'b str)>,
    task: Option<Task<'b>>,
}

/// What becomes of the task of a chain's call.
enum Task<'b> {
    /// It is the first one.
    First(&'b TaskRow),
    /// It waited for a slot, and has one.
    Claimed(&'b TaskRow),
    /// It follows the one of a call that is over.
    Next { done: CallKey, next: &'b TaskRow },
    /// It was the last one.
    Last(CallKey),
}

/// The end of an instance.
struct End<'b> {
    uid: Uid,
    status: Status,
    outcome: Option<&'b Payload>,
    closed_at: Option<Timestamp>,
}

/// What a step of `chain` writes.
fn written<'b>(step: &'b Step) -> Result<Written<'b>> {
    let Step { instance, events, policies, tasks, child_starts, messages, attempts, kv, .. } = step;
    let known = child_starts.is_empty() && attempts.is_empty() && kv.is_empty();
    if !known || step.schedule.is_some() || step.inbox.is_some() {
        return Err(unknown(step));
    }
    let mut all = Written::default();
    match instance {
        None => {}
        Some(InstanceWrite::Insert { row, .. }) => all.start = Some(row),
        Some(InstanceWrite::Status { uid, status, outcome, closed_at, .. }) => {
            let (uid, status, closed_at) = (*uid, *status, *closed_at);
            all.end = Some(End { uid, status, outcome: outcome.as_ref(), closed_at });
        }
        Some(_) => return Err(unknown(step)),
    }
    let stored = |(run, event): &'b (RunKey, Event)| (*run, event, event.kind.to_stored());
    all.events = events.iter().map(stored).collect();
    all.policies = policies.iter().map(|row| (&*row.hash, &*row.text)).collect();
    all.task = match tasks.as_slice() {
        [] => None,
        [TaskWrite::Insert(row)] => Some(Task::First(row)),
        [TaskWrite::Update(row)] => Some(Task::Claimed(row)),
        [TaskWrite::Delete(done), TaskWrite::Insert(next)] if done.run == next.call.run => {
            Some(Task::Next { done: *done, next })
        }
        [TaskWrite::Delete(done), TaskWrite::DeleteAll(_)] => Some(Task::Last(*done)),
        _ => return Err(unknown(step)),
    };
    let finds_nothing = |message: &MessageWrite| {
        matches!(message, MessageWrite::DeleteRun(_) | MessageWrite::Park(_))
    };
    match messages.iter().all(finds_nothing) {
        true => Ok(all),
        false => Err(unknown(step)),
    }
}

impl<'b> Task<'b> {
    /// The task that comes.
    fn inserted(&self) -> Option<&'b TaskRow> {
        match self {
            Task::First(row) | Task::Next { next: row, .. } => Some(row),
            Task::Claimed(_) | Task::Last(_) => None,
        }
    }

    /// The task that changes.
    fn claimed(&self) -> Option<&'b TaskRow> {
        match self {
            Task::Claimed(row) => Some(row),
            Task::First(_) | Task::Next { .. } | Task::Last(_) => None,
        }
    }

    /// The task that goes.
    fn done(&self) -> Option<CallKey> {
        match self {
            Task::Next { done, .. } | Task::Last(done) => Some(*done),
            Task::First(_) | Task::Claimed(_) => None,
        }
    }
}

fn unknown(step: &Step) -> Box<dyn std::error::Error + Send + Sync> {
    format!("floor: this is nothing that a chain writes: {step:?}").into()
}

/// Writes batches in the order in which they were written, as many at a time as there are lanes:
/// each when those are done that were done when it was sent.
pub(crate) async fn in_order<F>(
    batches: &[Batch],
    lanes: usize,
    write: impl Fn(usize) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let done: Vec<SetOnce<()>> = batches.iter().map(|_| SetOnce::new()).collect();
    let next = AtomicUsize::new(0);
    let lane = async || {
        // Everything before this place is done.
        let mut low = 0;
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(place) else { return Ok(()) };
            for (before, written) in done.iter().enumerate().take(place).skip(low) {
                if !batch.beside.contains(&before) {
                    written.wait().await;
                }
            }
            while done.get(low).is_some_and(SetOnce::initialized) {
                low += 1;
            }
            write(place).await?;
            // Nobody else writes this one.
            let _ = done[place].set(());
        }
    };
    together((0..lanes).map(|_| lane()).collect()).await
}

/// Waits for all; the first error ends it.
async fn together<F: Future<Output = Result<()>>>(futures: Vec<F>) -> Result<()> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        let mut failed = None;
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                failed = Some(error);
                false
            }
        });
        match (failed, waiting.is_empty()) {
            (Some(error), _) => Poll::Ready(Err(error)),
            (None, true) => Poll::Ready(Ok(())),
            (None, false) => Poll::Pending,
        }
    })
    .await
}
