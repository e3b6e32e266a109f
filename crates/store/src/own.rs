//! Who works on a store: one node at a time, everybody else is a client.

use std::any::Any;
use std::fmt;

use tokio::sync::watch;

use crate::Answer;
use crate::rows::Owner;

/// Who works on a store, and what others do meanwhile.
pub trait Own {
    /// Takes the right to work, unless somebody has it. From then on commits through this store
    /// are the owner's: they are refused ([`Error::is_fenced`](crate::Error::is_fenced)) once
    /// another node has taken over, however late they arrive. Nodes are told apart by name, so
    /// each process gives itself one that nobody had before.
    fn try_own(&self, node: &str) -> Answer<'_, Owning>;

    /// From now on commits through this store are a client's again: steps that only an owner can
    /// write, with events, tasks or attempts, are refused as of one that was overtaken.
    fn disown(&self) -> Answer<'_, ()>;

    /// Brings everything to the place where it is to rest, when work is over for now: a store that
    /// keeps a log empties it as far as others let it.
    fn flush(&self) -> Answer<'_, ()>;

    /// True once this store has noticed that the right it took is gone, by itself and without a
    /// commit. It says so with [`Own::changes`].
    fn is_overtaken(&self) -> bool;

    /// Who has the right to work now.
    fn owner(&self) -> Answer<'_, Option<Owner>>;

    /// A number that changes when somebody else has committed, or may have. Waiting for it ends
    /// with an error when the store is closed.
    fn changes(&self) -> watch::Receiver<u64>;
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
pub struct Ownership(#[allow(dead_code, reason = "only its drop matters")] Box<dyn Any + Send>);

impl Ownership {
    /// Keeps `proof` for as long as the right is held.
    pub fn new(proof: impl Any + Send) -> Self {
        Ownership(Box::new(proof))
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ownership")
    }
}
