//! Which orders a run of the demo is about: those that an earlier one left, or new ones.

use std::future::IntoFuture;

use resurgam::{Client, InstanceFilter, InstanceRow};

use super::journal::Journal;
use super::order::{self, Argument, Batch, Order};
use super::trouble::Trouble;

/// The orders of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) batch: Batch,
    /// How many of them are not finished.
    pub(super) open: usize,
    /// True when an earlier run left them.
    pub(super) taken_up: bool,
}

impl Work {
    /// What an earlier run left unfinished, or else a new batch of `size` orders.
    pub(super) async fn find(
        client: &Client,
        journal: &Journal,
        size: u32,
    ) -> Result<Self, Trouble> {
        let newest = newest(client).await?;
        if !client.is_owner() {
            return Work::of_others(client, newest).await;
        }
        if let Some(batch) = newest {
            let rows = orders(client, batch).await?;
            let open = rows.iter().filter(|row| !row.status.is_closed()).count();
            if open > 0 {
                return Ok(Work { batch, open, taken_up: true });
            }
        }
        let first = newest.map_or(1, |batch| batch.numbers().end);
        let batch = Batch { first, size };
        // Nothing is under way, so nobody appends to it now.
        journal.begin_anew().map_err(|error| {
            Trouble::Refused(format!("begin {}: {error}", journal.path().display()))
        })?;
        start(client, batch).await?;
        Ok(Work { batch, open: size as usize, taken_up: false })
    }
}

impl Work {
    /// What another process works on now. Beginning something beside it would mix up the journal.
    async fn of_others(client: &Client, newest: Option<Batch>) -> Result<Self, Trouble> {
        let open = match newest {
            Some(batch) => {
                let rows = orders(client, batch).await?;
                rows.iter().filter(|row| !row.status.is_closed()).count()
            }
            None => 0,
        };
        match newest.filter(|_| open > 0) {
            Some(batch) => Ok(Work { batch, open, taken_up: true }),
            None => Err(Trouble::Refused(
                "another process works on this file and has no unfinished orders; let it end, or \
                 give --db another file"
                    .to_string(),
            )),
        }
    }
}

/// The batch of the newest order in the file.
async fn newest(client: &Client) -> Result<Option<Batch>, Trouble> {
    let Some(row) = list(client, 1).await?.pop() else { return Ok(None) };
    let argument: Argument = row.input.decode().map_err(|error| {
        let text = "was written by another version of the demo; give --db another file";
        Trouble::Refused(format!("{} {text} ({error})", row.id))
    })?;
    Ok(Some(argument.order.batch))
}

/// The orders of a batch by number. It is the newest one.
pub(super) async fn orders(client: &Client, batch: Batch) -> Result<Vec<InstanceRow>, Trouble> {
    let mut rows = list(client, batch.size as usize).await?;
    rows.retain(|row| batch.number(&row.id).is_some());
    rows.sort_by_key(|row| batch.number(&row.id));
    Ok(rows)
}

async fn list(client: &Client, limit: usize) -> Result<Vec<InstanceRow>, Trouble> {
    let workflow = Some(order::NAME.to_string());
    Ok(client.list(InstanceFilter { workflow, limit, ..Default::default() }).await?)
}

/// Starts every order of a batch. They are asked for together, so that they share transactions.
async fn start(client: &Client, batch: Batch) -> Result<(), Trouble> {
    let mut starts = tokio::task::JoinSet::new();
    for number in batch.numbers() {
        let order = Order::of(batch, number);
        starts.spawn(client.start(order.id(), order::fulfil(order)).into_future());
    }
    for started in starts.join_all().await {
        started?;
    }
    Ok(())
}
