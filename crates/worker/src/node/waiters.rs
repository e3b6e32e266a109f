//! Those who wait for an instance to close.

use std::time::Duration;

use resurgam_core::Uid;
use resurgam_store::rows::InstanceRow;

use super::Node;
use super::read::Read;
use super::reply::Reply;
use crate::error::Error;
use crate::handle::Outcome;

impl Node {
    /// Somebody wants to know how an instance ends.
    pub(crate) fn wait_for(&mut self, uid: Uid, reply: Reply<Outcome>) {
        self.waiters.entry(uid).or_default().push(reply);
        if self.memory.runs.has(uid) {
            return;
        }
        // It may be closed already: the store knows.
        self.read_stamped(Read::End(uid), Duration::ZERO, None);
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

    /// Reads which of the instances that somebody waits for are closed, where others work on them.
    pub(crate) fn look_for_ends(&mut self) {
        let elsewhere = self.waiters.keys().any(|uid| !self.owns(*uid));
        if elsewhere && self.memory.ends.begin(&mut self.ticks).is_some() {
            self.read(self.ends());
        }
    }

    pub(crate) fn ends(&self) -> Read {
        let uids = self.waiters.keys().copied().filter(|uid| !self.owns(*uid));
        Read::Ends { uids: uids.collect() }
    }

    /// Those who wait for an instance that is closed get the outcome. One that is missing closed,
    /// and somebody deleted it before this node looked.
    pub(crate) fn ends_read(
        &mut self,
        found: resurgam_store::Result<(Vec<InstanceRow>, Vec<Uid>)>,
    ) {
        match found {
            Ok((rows, missing)) => {
                let again = self.memory.ends.end();
                missing.into_iter().for_each(|uid| self.no_instance(uid));
                for row in rows {
                    if let Some(outcome) = Outcome::of(&row) {
                        self.finished(row.uid, &outcome);
                    }
                }
                if again {
                    self.look_for_ends();
                }
            }
            Err(_) => {
                self.read_later(self.ends());
            }
        }
    }
}
