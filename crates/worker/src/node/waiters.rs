//! Those who wait for an instance to close.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Shard, Uid};
use resurgam_store::Result;
use resurgam_store::rows::InstanceRow;

use super::Node;
use super::coalesced_read::CoalescedRead;
use super::reply::Reply;
use super::store_request::StoreRequest;
use crate::error::Error;
use crate::handle::Outcome;

/// Looks at instances that somebody waits for and that may close elsewhere. What closes here, this
/// node knows by itself.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    look: CoalescedRead,
    /// Instances whose shards were taken over: whoever held them before may have closed them since
    /// the last look.
    taken_over: BTreeSet<Uid>,
    /// Those of them that are being looked at.
    looked_at: BTreeSet<Uid>,
    /// Instances of this node's shards that somebody waits for and that it has not had in memory
    /// since. What was started elsewhere, a database that goes back in time may forget before this
    /// node has written anything about it.
    unseen: BTreeSet<Uid>,
}

impl Node {
    /// Somebody wants to know how an instance ends.
    pub(crate) fn wait_for(&mut self, uid: Uid, reply: Reply<Outcome>) {
        self.waiters.entry(uid).or_default().push(reply);
        if self.memory.runs.has(uid) {
            return;
        }
        self.memory.ends.unseen.insert(uid);
        // It may be closed already: the store knows.
        self.ask_store_stamped(StoreRequest::End(uid), Duration::ZERO, None);
    }

    /// There is no such instance, perhaps no longer: nobody waits for it in vain.
    pub(crate) fn no_instance(&mut self, uid: Uid) {
        for reply in self.waiters.remove(&uid).into_iter().flatten() {
            self.answer(
                reply,
                Err(Error::unknown(format!("wait for {uid}: there is no such instance"))),
            );
        }
    }

    /// An instance is closed: those who wait for it get the outcome.
    pub(crate) fn finished(&mut self, uid: Uid, outcome: &Outcome) {
        for reply in self.waiters.remove(&uid).into_iter().flatten() {
            self.answer(reply, Ok(outcome.clone()));
        }
    }

    /// This node works on these shards from now on. What was closed in them before that, or is
    /// gone, nobody will tell it.
    pub(crate) fn ends_were_missed(&mut self, shards: &[Shard]) {
        let waited_for = self.waiters.keys().filter(|uid| shards.contains(&uid.shard()));
        self.memory.ends.taken_over.extend(waited_for);
    }

    /// Reads which of the instances that somebody waits for are closed, where others work on them
    /// or did until now.
    pub(crate) fn look_for_ends(&mut self) {
        let elsewhere = self.waiters.keys().any(|uid| !self.owns(*uid));
        let (ends, runs, waiters) = (&mut self.memory.ends, &self.memory.runs, &self.waiters);
        ends.unseen.retain(|uid| waiters.contains_key(uid) && !runs.has(*uid));
        let is_wanted = elsewhere || !(ends.taken_over.is_empty() && ends.unseen.is_empty());
        if is_wanted && ends.look.begin(&mut self.ticks).is_some() {
            ends.looked_at = std::mem::take(&mut ends.taken_over);
            self.ask_store(StoreRequest::Closed { uids: self.waited_for_elsewhere() });
        }
    }

    fn waited_for_elsewhere(&self) -> Arc<[Uid]> {
        let Ends { looked_at, unseen, .. } = &self.memory.ends;
        let is_one =
            |uid: &Uid| !self.owns(*uid) || looked_at.contains(uid) || unseen.contains(uid);
        self.waiters.keys().copied().filter(is_one).collect()
    }

    /// Those who wait for an instance that is closed get the outcome. Of the others some may be
    /// gone.
    pub(crate) fn closed_read(&mut self, found: Result<Vec<InstanceRow>>) {
        let rows = match found {
            Ok(rows) => rows,
            Err(_) => {
                return self
                    .ask_store_later(StoreRequest::Closed { uids: self.waited_for_elsewhere() });
            }
        };
        for row in rows {
            if let Some(outcome) = Outcome::of(&row) {
                self.finished(row.uid, &outcome);
            }
        }
        let uids = self.waited_for_elsewhere();
        match uids.is_empty() {
            true => self.ends_are_known(),
            false => self.ask_store(StoreRequest::Missing { uids }),
        }
    }

    /// An instance that is gone has closed, and somebody deleted it before this node looked.
    pub(crate) fn missing_read(&mut self, found: Result<Vec<Uid>>) {
        match found {
            Ok(missing) => {
                missing.into_iter().for_each(|uid| self.no_instance(uid));
                self.ends_are_known();
            }
            Err(_) => {
                self.ask_store_later(StoreRequest::Missing { uids: self.waited_for_elsewhere() });
            }
        }
    }

    fn ends_are_known(&mut self) {
        self.memory.ends.looked_at.clear();
        if self.memory.ends.look.end() {
            self.look_for_ends();
        }
    }
}
