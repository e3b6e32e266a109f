//! The engine's side of an attempt, for tests of actions without an engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam_core::{Failure, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_sdk::{Attempt, AttemptHost, HostFuture, States};
use serde_json::Value;
use tokio::sync::watch;

/// Time stands still.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Whether the attempt is to end.
    pub(super) told: watch::Sender<bool>,
    /// The details of its heartbeats.
    pub(super) heard: Mutex<Vec<Value>>,
    /// Signs of life without details.
    pub(super) signs: AtomicUsize,
}

impl Host {
    /// The third attempt of a call, which has this long.
    pub(super) fn attempt(self: &Arc<Self>, time: Option<Duration>) -> Attempt {
        Attempt {
            call: RunKey::first(Uid(7)).call(Seq(2)),
            instance: "order-42".to_string(),
            activity: "charge".to_string(),
            number: 3,
            deadline: time.map(|time| self.now().saturating_add(time)),
            last_heartbeat: None,
            fallback_of: None,
            states: States::default(),
            host: self.clone(),
        }
    }
}

impl AttemptHost for Host {
    fn cancelled(&self) -> HostFuture<'_> {
        let mut told = self.told.subscribe();
        Box::pin(async move { drop(told.wait_for(|told| *told).await) })
    }

    fn is_cancelled(&self) -> bool {
        *self.told.borrow()
    }

    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn sleep(&self, time: Duration) -> HostFuture<'_> {
        Box::pin(tokio::time::sleep(time))
    }

    fn heartbeat(&self, details: Option<Payload>) -> Result<(), Failure> {
        match details {
            Some(details) => self.heard.lock().unwrap().push(details.decode().unwrap()),
            None => _ = self.signs.fetch_add(1, Ordering::Relaxed),
        }
        Ok(())
    }
}
