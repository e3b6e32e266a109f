//! The node that a model store is, if it is one.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use resurgam_core::{Shard, Timestamp};
use tokio::sync::watch;

use super::{ModelDatabase, ModelStore};
use crate::fleet::Fence;
use crate::model::{Sharing, Writer};
use crate::rows::Owner;
use crate::{Answer, Assignment, Error, Node, Own, Ownership, Owning, Result};

/// What proves the right to work, for as long as it lives.
struct Proof {
    database: ModelDatabase,
    node: String,
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.database.lock().leave(&self.node);
        self.database.tell();
    }
}

impl ModelStore {
    fn join(&self, node: Node) -> Result<Owning> {
        self.refuse_closed()?;
        let mut writer = self.writer();
        let mut model = self.database.lock();
        if let Writer::Node(fence) = &*writer
            && let Some(owner) = model.process_of(fence.node())
        {
            return Ok(Owning::Held(owner.clone()));
        }
        let name = node.name.clone();
        if let Some(owner) = model.join(node, this_process(&name)) {
            return Ok(Owning::Held(owner));
        }
        let taken = model.take(&name, Shard::all());
        let shards: Vec<Shard> = taken.iter().map(|(shard, _)| *shard).collect();
        *writer = Writer::Node(Fence::new(&name, taken));
        drop((model, writer));
        self.database.tell();
        let proof = Proof { database: self.database.clone(), node: name };
        Ok(Owning::Taken(Ownership::new(proof, shards)))
    }
}

impl Own for ModelStore {
    fn try_own(&self, node: Node) -> Answer<'_, Owning> {
        Box::pin(async move { self.join(node) })
    }

    fn assignment(&self) -> watch::Receiver<Assignment> {
        watch::channel(Assignment { may_begin: true, ..Assignment::default() }).1
    }

    fn is_shared(&self) -> bool {
        self.database.lock().sharing() == Sharing::ManyNodes
    }

    fn may_begin(&self) -> bool {
        true
    }

    fn now(&self) -> Option<Timestamp> {
        None
    }

    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>> {
        Box::pin(async move {
            let mut writer = self.writer();
            let Writer::Node(fence) = &mut *writer else { return Ok(Vec::new()) };
            if fence.node() != node {
                return Ok(Vec::new());
            }
            let taken = self.database.lock().take(fence.node(), shards.iter().copied());
            *fence = fence.with(taken.iter().copied());
            Ok(taken.into_iter().map(|(shard, _)| shard).collect())
        })
    }

    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut writer = self.writer();
            let Writer::Node(fence) = &mut *writer else { return Ok(()) };
            if fence.node() != node {
                return Ok(());
            }
            *fence = fence.without(&shards);
            self.database.lock().release(fence.node(), shards.iter().copied());
            Ok(())
        })
    }

    fn disown(&self) -> Answer<'_, ()> {
        Box::pin(async {
            *self.writer() = Writer::Client;
            Ok(())
        })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.closed.store(true, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        })
    }

    fn is_overtaken(&self) -> bool {
        match &*self.writer() {
            Writer::Anybody | Writer::Client => false,
            Writer::Node(fence) => self.database.lock().process_of(fence.node()).is_none(),
        }
    }

    fn gone(&self) -> Option<Error> {
        None
    }

    fn owner(&self) -> Answer<'_, Option<Owner>> {
        self.read(|model| model.owner().cloned())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.database.0.changes.subscribe()
    }
}

/// What others are told about a node of this process.
fn this_process(node: &str) -> Owner {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
    // A clock that is set before 1970 counts as no time.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = Timestamp::EPOCH.saturating_add(since);
    Owner { node: node.to_string(), pid: std::process::id(), program, since }
}
