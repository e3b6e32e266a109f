//! A node that has all shards or none: what a worker asks for that knows of no shards.
//!
//! The right to work is a value whose drop ends it. Dropping cannot wait, so it only notes that the
//! node is to leave. Whoever asks next through this store does that first, and a task of the store
//! does it at once. When the process dies before, others find the beat standing still.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use resurgam_core::Shard;
use resurgam_store::rows::Owner;
use resurgam_store::{Ownership, Owning, Result};
use tokio::sync::Notify;

use super::{Fence, Observer, View, beat_every, rows};
use crate::store::Inner;

/// Who works, as one store sees it.
pub(crate) struct Whole {
    born: Instant,
    observer: Mutex<Observer>,
    leaving: Leaving,
    /// One at a time asks, and leaves before that.
    asking: tokio::sync::Mutex<()>,
}

/// Nodes of this process that are to leave.
#[derive(Clone, Default)]
struct Leaving(Arc<(Mutex<Vec<String>>, Notify)>);

/// What proves the right to work, for as long as it lives.
struct Proof {
    node: String,
    leaving: Leaving,
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.leaving.nodes().push(self.node.clone());
        self.leaving.0.1.notify_waiters();
    }
}

impl Leaving {
    fn nodes(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Whole {
    pub(crate) fn new(lease: Duration) -> Self {
        Whole {
            born: Instant::now(),
            observer: Mutex::new(Observer::new(lease)),
            leaving: Leaving::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Takes all shards, unless a node that is alive has one.
    pub(crate) async fn try_own(&self, inner: &Arc<Inner>, node: &str) -> Result<Owning> {
        let _asking = self.asking.lock().await;
        self.leave(inner).await?;
        let view = rows::look(&inner.control).await?;
        if let Some(owner) = self.alive(&view) {
            return Ok(Owning::Held(owner));
        }
        for dead in self.dead(&view) {
            rows::leave(&inner.control, &dead).await?;
        }
        rows::join(&inner.control, node, None, None).await?;
        let wanted: Vec<(Shard, i64)> =
            view.shards.iter().map(|(shard, _, epoch)| (*shard, *epoch)).collect();
        let taken = rows::take(&inner.control, node, &wanted).await?;
        if taken.len() < wanted.len() {
            // Somebody else was faster with some of them; let that one have all.
            rows::leave(&inner.control, node).await?;
            let view = rows::look(&inner.control).await?;
            let owner = self.alive(&view).unwrap_or_else(|| unknown(&view));
            return Ok(Owning::Held(owner));
        }
        inner.fence(Fence::new(node, taken.into_iter().collect::<BTreeMap<_, _>>()));
        inner.overtaken.store(false, Ordering::Relaxed);
        let proof = Proof { node: node.to_string(), leaving: self.leaving.clone() };
        let (every, leaving) = (beat_every(inner.lease), self.leaving.clone());
        tokio::spawn(beat(Arc::downgrade(inner), node.to_string(), every, leaving));
        Ok(Owning::Taken(Ownership::new(proof)))
    }

    /// Who has the right to work now.
    pub(crate) async fn owner(&self, inner: &Arc<Inner>) -> Result<Option<Owner>> {
        let _asking = self.asking.lock().await;
        self.leave(inner).await?;
        Ok(self.alive(&rows::look(&inner.control).await?))
    }

    /// Ends what was begun before the store closes: a right that was dropped is given up.
    pub(crate) async fn finish(&self, inner: &Arc<Inner>) {
        let _asking = self.asking.lock().await;
        if let Err(error) = self.leave(inner).await {
            tracing::warn!(%error, "a node could not leave; others will find it dead");
        }
    }

    /// Nodes that are known to be dead. One that has just begun and owns nothing yet is not.
    fn dead(&self, view: &View) -> Vec<String> {
        let observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = view.nodes.iter().map(|row| &row.node);
        nodes.filter(|node| observer.is_dead(node)).cloned().collect()
    }

    /// An owner that is not known to be dead. One whose row is gone has left.
    fn alive(&self, view: &View) -> Option<Owner> {
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        let beats = view.nodes.iter().map(|row| (row.node.as_str(), row.beat));
        observer.look(self.born.elapsed(), beats);
        let owns =
            |node: &str| view.shards.iter().any(|(_, owner, _)| owner.as_deref() == Some(node));
        let alive = |node: &str| owns(node) && !observer.is_dead(node);
        view.nodes.iter().find(|row| alive(&row.node)).map(Owner::from)
    }

    /// Lets the nodes leave whose right was dropped.
    async fn leave(&self, inner: &Arc<Inner>) -> Result<()> {
        loop {
            let Some(node) = self.leaving.nodes().last().cloned() else { return Ok(()) };
            rows::leave(&inner.control, &node).await?;
            self.leaving.nodes().retain(|other| *other != node);
        }
    }
}

/// Beats until the right is dropped, then leaves.
async fn beat(inner: Weak<Inner>, node: String, every: Duration, leaving: Leaving) {
    loop {
        let dropped = leaving.0.1.notified();
        if !leaving.nodes().contains(&node) {
            tokio::select! {
                () = dropped => {}
                () = tokio::time::sleep(every) => {}
            }
        }
        let Some(inner) = inner.upgrade() else { return };
        if leaving.nodes().contains(&node) {
            return inner.whole.finish(&inner).await;
        }
        match rows::beat(&inner.control, &node).await {
            Ok((true, _)) => {}
            Ok((false, _)) if inner.is_fenced_as(&node) => {
                tracing::warn!(node, "others took this node for dead");
                return inner.is_overtaken_by_others();
            }
            Ok((false, _)) => return,
            // The store is closed.
            Err(error) if error.is_unusable() => return,
            Err(error) => tracing::warn!(%error, "a beat did not get through"),
        }
    }
}

/// Somebody who was there a moment ago.
fn unknown(view: &View) -> Owner {
    let node = view.shards.iter().find_map(|(_, owner, _)| owner.clone()).unwrap_or_default();
    let since = resurgam_core::Timestamp::from_millis(0);
    Owner { node, pid: 0, program: "?".to_string(), since }
}
