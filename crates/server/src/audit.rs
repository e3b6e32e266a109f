//! Who did what through this server, and why.
//!
//! What operators do to calls and runs leaves rows of their instances. Everything else that changes
//! something leaves a row of its own, written before the request is answered. Requests that are
//! answered at the same time share a transaction: the one that is first writes for those behind it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resurgam::Client;
use resurgam_store::AuditRow;
use tokio::sync::Mutex as Turn;

use crate::api::Api;
use crate::caller::Caller;

/// How long it is kept who did what.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3_600);

/// The longest reason that is kept.
const LONGEST: usize = 4_096;

/// Something that was done.
pub(crate) struct Did {
    /// What kind of thing it is, such as `start`.
    pub(crate) kind: &'static str,
    /// What it was done to.
    pub(crate) subject: String,
    /// What was done, as a sentence.
    pub(crate) told: String,
}

impl Did {
    pub(crate) fn new(
        kind: &'static str,
        subject: impl Into<String>,
        told: impl Into<String>,
    ) -> Self {
        Did { kind, subject: subject.into(), told: told.into() }
    }
}

impl Api {
    /// Records what somebody did, in the log of the server, too. What was done stays done when it
    /// cannot be recorded.
    pub(crate) async fn record(
        &self,
        caller: &Caller,
        by: Option<String>,
        reason: Option<String>,
        did: Did,
    ) {
        let handle = self.client.handle();
        let Did { kind, subject, told } = did;
        let by = caller.signs(by);
        tracing::info!(by, reason = reason.as_deref().unwrap_or_default(), "{told}");
        let row = AuditRow {
            id: handle.new_name(),
            at: handle.now(),
            by: stored(&by),
            token: caller.token_id().map(str::to_string),
            reason: reason.as_deref().map(stored),
            kind: kind.to_string(),
            subject: stored(&subject),
            told: stored(&told),
        };
        let busy = handle.busy();
        let (log, client) = (self.audit.clone(), self.client.clone());
        // Whoever asked may go away: those who wait behind it are written all the same.
        let written = tokio::spawn(async move { log.add(&client, row).await });
        // It does not panic, and nobody ends it.
        let _ended = written.await;
        drop(busy);
    }
}

/// A text that every store can keep.
fn stored(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', " ")
}

/// What is to be recorded, and by whom.
#[derive(Clone, Default)]
pub(crate) struct AuditLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// How many rows were written; whoever holds it writes.
    written: Turn<u64>,
}

#[derive(Default)]
struct Waiting {
    rows: Vec<AuditRow>,
    /// How many rows came so far.
    came: u64,
}

impl AuditLog {
    async fn add(&self, client: &Client, row: AuditRow) {
        let number = {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.rows.push(row);
            waiting.came += 1;
            waiting.came
        };
        let mut written = self.0.written.lock().await;
        if *written >= number {
            return;
        }
        let (rows, came) = {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut waiting.rows), waiting.came)
        };
        let handle = client.handle();
        let forget_before = handle.now().saturating_sub(KEPT);
        let count = rows.len();
        if let Err(error) = handle.store().add_audit(rows.into(), forget_before).await {
            tracing::warn!("what was done by {count} requests is recorded nowhere else: {error}");
        }
        *written = came;
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}
