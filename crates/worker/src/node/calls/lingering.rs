//! Attempts that are over for their call, and whose code has not returned yet.
//!
//! An attempt lingers when its time was up, or when its workflow gave the call up, or an operator
//! ended it: it has the grace period to clean up. It may still use what the run made. A
//! compensation takes that away, so its first attempt begins when no attempt of the run lingers,
//! here or on a node that runs it for this one. A shard is not given up while attempts of it
//! linger: who gets it would not know.
//!
//! | a lingering attempt is over            | known by                                           |
//! |----------------------------------------|----------------------------------------------------|
//! | its code returned                      | the driver says so, once for each attempt; another |
//! |                                        | node by message                                    |
//! | its code was dropped after the grace   | likewise                                           |
//! | its node is gone                       | nobody says so: the grace period has elapsed       |
//!
//! The grace period is elapsed time. The clock can be set, and a clock that jumps forward ends no
//! code. A compensation is stored as due at the end of the grace period by the clock, and waits on
//! when it is due before that has elapsed.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::{CallKey, RunKey, Timestamp, Uid};

use crate::node::Node;

/// How much later than its grace period an attempt may tell that it has ended: timers of a process
/// that has a lot to do come late.
const LATE: Duration = Duration::from_secs(1);

/// How long it takes at the longest until another node has heard that an attempt of its is over:
/// it asks every second.
const HEARD: Duration = Duration::from_secs(2);

/// The attempts that linger, by run.
#[derive(Debug, Default)]
pub(crate) struct Lingering(BTreeMap<RunKey, Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The tokens of the attempts, and until when they linger at the latest, as elapsed time.
    attempts: BTreeMap<u64, Duration>,
    /// The compensations that wait for them.
    compensations: Vec<CallKey>,
}

impl Waits {
    /// How much longer an attempt lingers at the longest; `None` when none does.
    fn longest(&self, elapsed: Duration) -> Option<Duration> {
        self.attempts.values().filter_map(|until| left(*until, elapsed)).max()
    }
}

/// How much time is left; `None` when it is over. Clocks count milliseconds, so it is one at least.
fn left(until: Duration, elapsed: Duration) -> Option<Duration> {
    let left = until.checked_sub(elapsed).filter(|left| !left.is_zero())?;
    Some(left.max(Duration::from_millis(1)))
}

impl Lingering {
    /// An attempt is over, and its code goes on until then at the latest.
    fn begin(&mut self, run: RunKey, token: u64, until: Duration) {
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

    /// How long a compensation that is scheduled now waits at the longest; `None` when nothing of
    /// its run lingers.
    pub(crate) fn hold(&mut self, compensation: CallKey, elapsed: Duration) -> Option<Duration> {
        let waits = self.0.get_mut(&compensation.run)?;
        let longest = waits.longest(elapsed);
        match longest {
            Some(_) => waits.compensations.push(compensation),
            None => drop(self.0.remove(&compensation.run)),
        }
        longest
    }

    /// How much longer a compensation that is due waits at the longest, because the clock jumped;
    /// `None` when it may begin.
    pub(crate) fn holds(&self, compensation: CallKey, elapsed: Duration) -> Option<Duration> {
        let waits = self.0.get(&compensation.run)?;
        waits.compensations.contains(&compensation).then(|| waits.longest(elapsed)).flatten()
    }

    /// True when an attempt of one of these instances lingers.
    pub(crate) fn has(&self, is_one: impl Fn(Uid) -> bool, elapsed: Duration) -> bool {
        self.0.iter().any(|(run, waits)| is_one(run.uid) && waits.longest(elapsed).is_some())
    }

    /// How long it takes until one of them has ended at the latest.
    fn next(&self, elapsed: Duration) -> Option<Duration> {
        let ends = self.0.values().flat_map(|waits| waits.attempts.values());
        ends.filter_map(|until| left(*until, elapsed)).min()
    }

    /// Attempts of instances that are not this node's any more.
    pub(crate) fn forget(&mut self, goes: impl Fn(Uid) -> bool) {
        self.0.retain(|run, _| !goes(run.uid));
    }
}

impl Node {
    /// An attempt is over, and its code goes on for the grace period at the longest.
    pub(crate) fn lingers(&mut self, run: RunKey, token: u64) {
        let until = self.elapsed.saturating_add(self.options.grace).saturating_add(LATE);
        self.memory.lingering.begin(run, token, until);
    }

    /// An attempt on another node is over, which hears of it soon; then its code goes on for the
    /// grace period at the longest.
    pub(crate) fn lingers_elsewhere(&mut self, run: RunKey, token: u64) {
        let until = self.elapsed.saturating_add(self.options.grace).saturating_add(LATE + HEARD);
        self.memory.lingering.begin(run, token, until);
    }

    /// When the next attempt that lingers has ended at the latest, as the clock is set now.
    pub(crate) fn next_lingering(&self) -> Option<Timestamp> {
        self.memory.lingering.next(self.elapsed).map(|left| self.now.saturating_add(left))
    }
}
