//! Looking at instances: lists, descriptions, histories, attempts.

use resurgam_core::history::{self, AttemptLine};
use resurgam_core::{Event, RunKey, Seq, Timestamp, Uid};
use resurgam_store::rows::{AttemptRow, InstanceFilter, InstanceRow, TaskRow};
use resurgam_worker::{Error, Result};
use serde::de::DeserializeOwned;

use crate::Client;

/// An instance with what it is waiting for.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The instance.
    pub instance: InstanceRow,
    /// Its unfinished activity calls.
    pub pending: Vec<PendingCall>,
}

/// An unfinished activity call, and what an operator wants to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingCall {
    /// The activity.
    pub activity: String,
    /// Its place in the history.
    pub seq: Seq,
    /// The attempt that runs, or ran last; 0 before the first.
    pub attempt: u32,
    /// True while an attempt runs.
    pub running: bool,
    /// When the next attempt is due, while none runs.
    pub next_due: Option<Timestamp>,
    /// How the last attempt ended, when one did.
    pub last: Option<AttemptRow>,
    /// Why it waits although it is due: nobody here knows the activity.
    pub unknown_here: bool,
}

impl Client {
    /// Instances, the newest first.
    pub async fn list(&self, filter: InstanceFilter) -> Result<Vec<InstanceRow>> {
        let found = self.handle().store().list(filter).await;
        found.map_err(|error| Error::store("list instances", error))
    }

    /// The instance of this id.
    pub async fn find(&self, id: &str) -> Result<Option<InstanceRow>> {
        let _busy = self.handle().busy();
        let found = self.handle().store().find(id).await;
        found.map_err(|error| Error::store(format!("find {id}"), error))
    }

    /// What an instance is waiting for: what is retrying, why, and when next.
    pub async fn describe(&self, id: &str) -> Result<Option<Description>> {
        let Some(instance) = self.find(id).await? else { return Ok(None) };
        let run = RunKey { uid: instance.uid, run: instance.run };
        let what = format!("describe {id}");
        let store = self.handle().store();
        let tasks = store.tasks(run).await.map_err(|error| Error::store(&what, error))?;
        let ledger = store.attempts(run).await.map_err(|error| Error::store(&what, error))?;
        let pending = tasks.into_iter().map(|task| self.pending(task, &ledger)).collect();
        Ok(Some(Description { instance, pending }))
    }

    fn pending(&self, task: TaskRow, ledger: &[AttemptRow]) -> PendingCall {
        let running = task.claim.is_some();
        PendingCall {
            last: ledger.iter().rev().find(|row| row.call == task.call).cloned(),
            unknown_here: self.handle().works()
                && self.handle().registry().activity(&task.name).is_none(),
            activity: task.name,
            seq: task.call.seq,
            attempt: task.attempt,
            running,
            next_due: (!running).then_some(task.wake_at),
        }
    }

    /// The history of an instance with its attempts, one line each.
    pub async fn history(&self, id: &str) -> Result<Option<String>> {
        match self.find(id).await? {
            Some(row) => self.history_of(row.uid).await.map(Some),
            None => Ok(None),
        }
    }

    /// The events of an instance's current run.
    pub async fn events(&self, id: &str) -> Result<Vec<Event>> {
        let Some(row) = self.find(id).await? else { return Ok(Vec::new()) };
        let run = RunKey { uid: row.uid, run: row.run };
        let events = self.handle().store().history(run).await;
        events.map_err(|error| Error::store(format!("read the history of {id}"), error))
    }

    /// The attempts of an instance's current run that did not succeed at once.
    pub async fn attempts(&self, id: &str) -> Result<Vec<AttemptRow>> {
        let Some(row) = self.find(id).await? else { return Ok(Vec::new()) };
        let run = RunKey { uid: row.uid, run: row.run };
        let attempts = self.handle().store().attempts(run).await;
        attempts.map_err(|error| Error::store(format!("read the attempts of {id}"), error))
    }

    /// What an instance told the world with `ctx.set_status`.
    pub async fn status<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>> {
        let what = || format!("read the status of {id}");
        let Some(row) = self.find(id).await? else { return Ok(None) };
        let entry = self.handle().store().kv(row.uid, "status").await;
        let entry = entry.map_err(|error| Error::store(what(), error))?;
        let decoded = entry.map(|entry| entry.value.decode()).transpose();
        decoded.map_err(|error| {
            Error::failed(&what(), resurgam_core::Failure::terminal(error.to_string()))
        })
    }

    pub(crate) async fn history_of(&self, uid: Uid) -> Result<String> {
        let what = |error| Error::store(format!("read the history of {uid}"), error);
        let store = self.handle().store();
        let Some(row) = store.instance(uid).await.map_err(what)? else { return Ok(String::new()) };
        let run = RunKey { uid, run: row.run };
        let events = store.history(run).await.map_err(what)?;
        let attempts = store.attempts(run).await.map_err(what)?;
        let lines: Vec<AttemptLine> = attempts.iter().map(line).collect();
        Ok(history::text(&events, &lines))
    }
}

fn line(row: &AttemptRow) -> AttemptLine {
    AttemptLine {
        activity: row.call.seq,
        name: row.name.clone(),
        attempt: row.attempt,
        outcome: row.outcome.name().to_string(),
        ended_at: row.ended_at,
        failure: row.failure.as_ref().map(ToString::to_string),
        delay_ms: row.delay_ms,
    }
}
