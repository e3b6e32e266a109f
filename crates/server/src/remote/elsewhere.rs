//! Attempts that workers speak of and that are at no desk here: another server on the database
//! waits for them, or one did that is gone, or nobody does any more.
//!
//! What is stored of a call says which: the claim of its attempt carries the token that is in the
//! name. What such an attempt has to say is stored as a message for the node that holds its shard,
//! which has it when it is durable.

use std::sync::Arc;

use resurgam::{CallKey, Client, Failure, Payload};
use resurgam_store::rows::{Heartbeat, TaskRow};
use resurgam_store::{Report, Reported};

use super::Name;
use crate::problem::Problem;

/// How attempts stand that are at no desk here.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// They go on.
    pub(crate) claimed: Vec<Name>,
    /// Of those, the ones that are to end.
    pub(crate) cancelled: Vec<Name>,
    /// They are over.
    pub(crate) over: Vec<Name>,
}

impl Elsewhere {
    /// Reads what is stored of these attempts.
    pub(crate) async fn read(client: &Client, names: &[Name]) -> Result<Self, Problem> {
        if names.is_empty() {
            return Ok(Elsewhere::default());
        }
        let calls: Arc<[CallKey]> = names.iter().map(|name| name.call).collect();
        let _busy = client.handle().busy();
        let rows = client.handle().store().tasks_of(calls).await;
        let rows = rows.map_err(|error| resurgam::Error::store("look for attempts", error))?;
        Ok(Elsewhere::of(names, &rows))
    }

    /// Those that are to end, or should have.
    pub(crate) fn ends(mut self) -> Vec<Name> {
        self.cancelled.append(&mut self.over);
        self.cancelled
    }

    fn of(names: &[Name], rows: &[TaskRow]) -> Self {
        let mut found = Elsewhere::default();
        for name in names {
            let is_its = |row: &TaskRow| {
                let claim = row.claim.as_ref().filter(|_| row.call == name.call);
                claim.is_some_and(|claim| claim.token == name.token)
            };
            let Some(row) = rows.iter().find(|row| is_its(row)) else {
                found.over.push(*name);
                continue;
            };
            found.claimed.push(*name);
            if row.progress.cancelled {
                found.cancelled.push(*name);
            }
        }
        found
    }
}

/// Whether somebody has told another server how an attempt ended.
pub(crate) async fn is_reported(client: &Client, name: Name) -> Result<bool, Problem> {
    let CallKey { run, seq } = name.call;
    let id = Report::end_id(run.run, seq, name.token);
    let _busy = client.handle().busy();
    let messages = client.handle().store().messages(run.uid).await;
    let messages = messages.map_err(|error| resurgam::Error::store("look for reports", error))?;
    Ok(messages.iter().any(|message| message.id == id)
        || Elsewhere::read(client, &[name]).await?.claimed.is_empty())
}

/// Stores how far an attempt is, for whoever waits for it. It is asked for at once.
pub(crate) fn goes_on(
    client: &Client,
    name: Name,
    details: Payload,
) -> impl Future<Output = Result<(), Problem>> + Send {
    let heartbeat = Heartbeat { details, at: client.handle().now() };
    send(client, name, Reported::GoesOn, Some(heartbeat))
}

/// Stores how an attempt ended, for whoever waits for it. It is asked for at once.
pub(crate) fn ended(
    client: &Client,
    name: Name,
    result: Result<Payload, Failure>,
) -> impl Future<Output = Result<(), Problem>> + Send {
    let outcome = match result {
        Ok(result) => Reported::Completed(result),
        Err(failure) if failure.is_never_begun() => Reported::NeverBegan,
        Err(failure) if failure.is_interrupted() => Reported::Interrupted,
        Err(failure) => Reported::Failed(failure),
    };
    send(client, name, outcome, None)
}

fn send(
    client: &Client,
    name: Name,
    outcome: Reported,
    heartbeat: Option<Heartbeat>,
) -> impl Future<Output = Result<(), Problem>> + Send {
    let (at, Name { call, token }) = (client.handle().now(), name);
    let report = Report { activity: call.seq, token, at, outcome, heartbeat };
    let stored = client.handle().report(call.run, report);
    async move { Ok(stored.await?) }
}
