//! Who works on a store, and on what of it.
//!
//! Instances belong to shards ([`Shard`]), and a node works on the instances of the shards that it
//! holds. Some stores know one owner, which holds all shards or none; in others many nodes share
//! them. Who holds none is a client.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use resurgam_core::{Shard, Timestamp};
use tokio::sync::watch;

use crate::outage::OutageLog;
use crate::rows::Owner;
use crate::{Answer, Error};

/// Who works on a store, and what others do meanwhile.
pub trait Own {
    /// Takes the right to work, unless there is room for one node only and somebody has it. From
    /// then on commits through this store are that node's: steps that only an owner can write, with
    /// events, tasks or attempts, are refused ([`Error::is_fenced`](crate::Error::is_fenced)) where
    /// it does not hold the shard, or another node has taken over, however late they arrive. Nodes
    /// are told apart by name, so each process gives itself one that nobody had before.
    fn try_own(&self, node: Node) -> Answer<'_, Owning>;

    /// What the node that this store belongs to should do, as the store sees it. It changes by
    /// itself; where one node owns everything, never.
    fn assignment(&self) -> watch::Receiver<Assignment>;

    /// True when many nodes can work at the same time.
    fn is_shared(&self) -> bool;

    /// False while others may take this node for dead soon: it begins no attempt then. Worked out
    /// when it is asked, for a process may have been asleep.
    fn may_begin(&self) -> bool;

    /// The time by the store's own clock, for nodes that are to agree on it; `None` where one node
    /// works, or when it was never asked for. Never an answer of the moment: worked out from the
    /// last one.
    fn now(&self) -> Option<Timestamp>;

    /// Takes shards that nobody holds; answers with those that are this node's now. Only from then
    /// on may they be read: the holder before can write nothing any more. Takes nothing when the
    /// store belongs to another node by now: what a node asks for is not for the one after it in
    /// the same process, which would not hear of it.
    fn take<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, Vec<Shard>>;

    /// Gives shards up, so that others can take them; not those of the node that the store belongs
    /// to by now, when that is another one.
    fn release<'a>(&'a self, node: &'a str, shards: Arc<[Shard]>) -> Answer<'a, ()>;

    /// From now on commits through this store are a client's again: steps that only an owner can
    /// write are refused as of one that was overtaken.
    fn disown(&self) -> Answer<'_, ()>;

    /// Brings everything to the place where it is to rest, when work is over for now: a store that
    /// keeps a log empties it as far as others let it.
    fn flush(&self) -> Answer<'_, ()>;

    /// Finishes what was asked, and ends connections and threads. Later calls are errors.
    fn close(&self) -> Answer<'_, ()>;

    /// True once this store has noticed that the right it took is gone, by itself and without a
    /// commit. It says so with [`Own::changes`].
    fn is_overtaken(&self) -> bool;

    /// Why this store can never be used again, once it has noticed by itself that its database was
    /// removed. It says so with [`Own::changes`].
    fn gone(&self) -> Option<Error>;

    /// Who has the right to work now; one of them, where many have.
    fn owner(&self) -> Answer<'_, Option<Owner>>;

    /// All who work now, as far as it is known that they are not dead.
    fn nodes(&self) -> Answer<'_, Vec<Owner>> {
        let owner = self.owner();
        Box::pin(async move { Ok(owner.await?.into_iter().collect()) })
    }

    /// A number that changes when somebody else has committed, or may have. Waiting for it ends
    /// with an error when the store is closed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Where a store that notices outages by itself tells people about them, so that nobody else
    /// tells them of the same one.
    #[doc(hidden)]
    fn outage_log(&self) -> Option<Arc<OutageLog>> {
        None
    }
}

/// A node that wants to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, which nobody had before.
    pub name: String,
    /// The queues whose tasks it runs; all with `None`.
    pub queues: Option<Arc<[String]>>,
    /// The workflows that it can run, each with its version; `None` says nothing about them.
    pub workflows: Option<Arc<[String]>>,
}

impl Node {
    /// A node that serves all queues.
    pub fn new(name: impl Into<String>) -> Self {
        Node { name: name.into(), queues: None, workflows: None }
    }
}

/// What a node should do, as its store sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Shards that nobody holds and this node should take.
    pub take: Vec<Shard>,
    /// Shards that it holds and another node should have.
    pub give: Vec<Shard>,
    /// Changes when a node is gone: what it claimed may be abandoned.
    pub departed: u64,
    /// There are other nodes that could take over what this one gives up.
    pub others_work: bool,
    /// The nodes that are there, this one among them; none where it cannot know.
    pub nodes: Arc<BTreeSet<String>>,
    /// Some node serves chosen queues only, and leaves the tasks of others to who serves them; or
    /// some task lacks what the node that looked at it does not have.
    pub others_leave_tasks: bool,
    /// Changes when a shard is taken while that is so: what its new holder leaves may wait there.
    pub hands: i64,
    /// What [`Own::may_begin`] said last.
    pub may_begin: bool,
    /// Why this node owns no shards, if that is because of the workflows that nodes know.
    pub aside: Option<Aside>,
    /// Workflows that other nodes can run and this one cannot.
    pub known_elsewhere: Arc<BTreeSet<String>>,
}

/// Why a node owns no shards while others do. It still runs activities of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// Another node knows all workflows of this one, and more.
    KnowsLess {
        /// That node.
        than: String,
    },
    /// Nodes with other workflows were there before.
    KnowsOthers {
        /// One of them.
        than: String,
        /// The name of its program.
        program: String,
        /// What it can run and this node cannot.
        only_there: Vec<String>,
        /// What this node can run and the others cannot.
        only_here: Vec<String>,
    },
}

/// The answer to who wants to work.
#[derive(Debug)]
pub enum Owning {
    /// The right is theirs.
    Taken(Ownership),
    /// Somebody has it.
    Held(Owner),
}

/// The right to work on a store. It ends when this is dropped, and with the process.
pub struct Ownership {
    #[allow(dead_code, reason = "only its drop matters")]
    proof: Box<dyn Any + Send>,
    shards: Vec<Shard>,
}

impl Ownership {
    /// Keeps `proof` for as long as the right is held. It begins with these shards.
    pub fn new(proof: impl Any + Send, shards: impl IntoIterator<Item = Shard>) -> Self {
        Ownership { proof: Box::new(proof), shards: shards.into_iter().collect() }
    }

    /// The shards that came with it.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ownership of {} shards", self.shards.len())
    }
}
