//! Attempts that are over for their call, and whose code has not returned yet.
//!
//! An attempt lingers when its time was up, or when its workflow gave the call up: it has the grace
//! period to clean up. It may still use what the run made. A compensation takes that away, so its
//! first attempt begins when no attempt of the run lingers, here or on a node that runs it for this
//! one. It is stored as due at the end of the grace period, which is the latest that a lingering
//! attempt can take, and begins before that when the last one has ended. A shard is not given up
//! while attempts of it linger: who gets it would not know.

use std::collections::BTreeMap;

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use crate::node::Node;

/// The attempts that linger, by run.
#[derive(Debug, Default)]
pub(crate) struct Lingering(BTreeMap<RunKey, Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The tokens of the attempts, and until when they linger at the latest.
    attempts: BTreeMap<u64, Timestamp>,
    /// The compensations that wait for them.
    compensations: Vec<CallKey>,
}

impl Lingering {
    /// An attempt is over, and its code goes on until then at the latest.
    fn begin(&mut self, run: RunKey, token: u64, until: Timestamp) {
        self.0.entry(run).or_default().attempts.insert(token, until);
    }

    /// The code of an attempt has returned. Answers with the compensations that waited for it.
    pub(crate) fn end(&mut self, run: RunKey, token: u64) -> Vec<CallKey> {
        let Some(waits) = self.0.get_mut(&run) else { return Vec::new() };
        waits.attempts.remove(&token);
        match waits.attempts.is_empty() {
            true => self.0.remove(&run).map(|waits| waits.compensations).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// When a compensation that is scheduled now may begin at the latest; `None` when nothing of
    /// its run lingers.
    pub(crate) fn hold(&mut self, compensation: CallKey, now: Timestamp) -> Option<Timestamp> {
        let waits = self.0.get_mut(&compensation.run)?;
        // One whose node is gone never reports its end.
        waits.attempts.retain(|_, until| *until > now);
        let latest = waits.attempts.values().max().copied();
        match latest {
            Some(_) => waits.compensations.push(compensation),
            None => drop(self.0.remove(&compensation.run)),
        }
        latest
    }

    /// True when an attempt of one of these instances lingers.
    pub(crate) fn has(&self, is_one: impl Fn(Uid) -> bool, now: Timestamp) -> bool {
        let lingers = |waits: &Waits| waits.attempts.values().any(|until| *until > now);
        self.0.iter().any(|(run, waits)| is_one(run.uid) && lingers(waits))
    }

    /// When the next of them has ended at the latest.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.0.values().flat_map(|waits| waits.attempts.values()).copied();
        ends.filter(|until| *until > now).min()
    }

    /// Attempts of instances that are not this node's any more.
    pub(crate) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.0.retain(|run, _| !goes(run.uid));
    }
}

impl Node {
    /// An attempt is over, and its code goes on for the grace period at the longest.
    pub(crate) fn lingers(&mut self, run: RunKey, token: u64) {
        let until = self.now.saturating_add(self.options.grace);
        self.memory.lingering.begin(run, token, until);
    }
}
