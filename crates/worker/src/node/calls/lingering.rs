//! Attempts that are over for their call, and whose code has not returned yet.
//!
//! An attempt lingers when its time was up, or when its workflow gave the call up: it has the grace
//! period to clean up. It may still use what the run made. A compensation takes that away, so its
//! first attempt begins when no attempt of the run lingers, here or on a node that runs it for this
//! one. It is stored as due at the end of the grace period, which is the latest that a lingering
//! attempt can take, and begins before that when the last one has ended. An attempt of this process
//! always tells that it has ended, so the clock, which may jump, does not decide about it; one
//! elsewhere may be gone with its node. A shard is not given up while attempts of it linger: who
//! gets it would not know.

use std::collections::BTreeMap;

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use crate::node::Node;

/// The attempts that linger, by run.
#[derive(Debug, Default)]
pub(crate) struct Lingering(BTreeMap<RunKey, Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The attempts, by their tokens.
    attempts: BTreeMap<u64, Attempt>,
    /// The compensations that wait for them.
    compensations: Vec<CallKey>,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// The end of its grace period.
    until: Timestamp,
    /// It runs in this process.
    is_here: bool,
}

impl Attempt {
    fn lingers(&self, now: Timestamp) -> bool {
        self.is_here || self.until > now
    }
}

impl Lingering {
    /// An attempt is over, and its code goes on until then at the latest.
    fn begin(&mut self, run: RunKey, token: u64, until: Timestamp, is_here: bool) {
        self.0.entry(run).or_default().attempts.insert(token, Attempt { until, is_here });
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
        waits.attempts.retain(|_, attempt| attempt.lingers(now));
        let latest = waits.attempts.values().map(|attempt| attempt.until).max();
        match latest {
            Some(_) => waits.compensations.push(compensation),
            None => drop(self.0.remove(&compensation.run)),
        }
        latest
    }

    /// True when a compensation waits for an attempt of this process, whatever the clock says.
    pub(crate) fn holds(&self, compensation: CallKey) -> bool {
        let waits = self.0.get(&compensation.run);
        waits.is_some_and(|waits| {
            waits.compensations.contains(&compensation)
                && waits.attempts.values().any(|attempt| attempt.is_here)
        })
    }

    /// True when an attempt of one of these instances lingers.
    pub(crate) fn has(&self, is_one: impl Fn(Uid) -> bool, now: Timestamp) -> bool {
        let lingers = |waits: &Waits| waits.attempts.values().any(|attempt| attempt.lingers(now));
        self.0.iter().any(|(run, waits)| is_one(run.uid) && lingers(waits))
    }

    /// When the next of them has ended at the latest.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let attempts = self.0.values().flat_map(|waits| waits.attempts.values());
        let ends = attempts.map(|attempt| attempt.until);
        ends.filter(|until| *until > now).min()
    }

    /// Attempts of instances that are not this node's any more.
    pub(crate) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.0.retain(|run, _| !goes(run.uid));
    }
}

impl Node {
    /// An attempt is over, and its code goes on for the grace period at the longest.
    pub(crate) fn lingers(&mut self, run: RunKey, token: u64, is_here: bool) {
        let until = self.now.saturating_add(self.options.grace);
        self.memory.lingering.begin(run, token, until, is_here);
    }
}
