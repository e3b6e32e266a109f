//! What a run of the demo looks like at a moment, asked through the client as anybody could.

use resurgam::{Client, InstanceRow, PendingCall, Status, Timestamp};

use super::batch;
use super::order::Batch;
use super::trouble::Trouble;

/// The orders of a batch at a moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) now: Timestamp,
    /// All of them, by number.
    pub(super) orders: Vec<InstanceRow>,
    /// Those that are not finished, with what they wait for.
    pub(super) open: Vec<Open>,
}

/// An order that is not finished.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: String,
    pub(super) pending: Vec<PendingCall>,
}

impl View {
    pub(super) async fn of(client: &Client, batch: Batch) -> Result<Self, Trouble> {
        let orders = batch::orders(client, batch).await?;
        let mut open = Vec::new();
        for row in orders.iter().filter(|row| !row.status.is_closed()) {
            let description = client.describe(&row.id).await?;
            let pending = description.map(|found| found.pending).unwrap_or_default();
            open.push(Open { id: row.id.clone(), pending });
        }
        Ok(View { now: client.handle().now(), orders, open })
    }

    pub(super) fn completed(&self) -> usize {
        self.orders.iter().filter(|row| row.status == Status::Completed).count()
    }

    /// Orders that ended in another way.
    pub(super) fn failed(&self) -> usize {
        self.done() - self.completed()
    }

    pub(super) fn done(&self) -> usize {
        self.orders.len() - self.open.len()
    }

    /// Why nothing goes on, when nothing does.
    pub(super) fn blocked(&self) -> Option<String> {
        let open = || self.orders.iter().filter(|row| !row.status.is_closed());
        let row = open().next().filter(|_| open().all(|row| row.status == Status::Blocked))?;
        let why = row.error.as_deref().unwrap_or("nobody said why");
        Some(format!("{} is blocked: {why}; give --db another file to begin anew", row.id))
    }
}

impl Open {
    /// True while nothing was begun: all calls wait for a slot.
    pub(super) fn is_idle(&self) -> bool {
        !self.pending.is_empty() && self.pending.iter().all(|call| call.attempt == 0)
    }

    /// The call that tells most: the one that was tried most often, the first of them.
    pub(super) fn call(&self) -> Option<&PendingCall> {
        let tries = |call: &&PendingCall| (call.attempt, std::cmp::Reverse(call.seq));
        self.pending.iter().max_by_key(tries)
    }
}
