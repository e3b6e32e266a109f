//! What was done to several nodes on one database, and what that explains.
//!
//! Nodes work at the same time, so how one of them ended says little about when. Here every kill
//! and every pause has its time: an attempt is lost through one of them or not at all. That the
//! server did not answer for a while explains nothing: nobody dies of it.

use std::time::Duration;

/// How far the clocks of two nodes may be apart. Each follows the database's, which it hears with
/// every beat, some time between the question and the answer.
pub(crate) const CLOCKS_MS: i64 = 250;

/// How long after it woke up a process may go on with what it was stopped in.
const WAKING_MS: i64 = 20;

/// The troubles of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    lease: Duration,
    troubles: Vec<Trouble>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    process: u32,
    from: i64,
    until: i64,
}

impl Past {
    pub(crate) fn new(lease: Duration) -> Self {
        Past { lease, troubles: Vec::new() }
    }

    /// Within which time, in milliseconds, everything goes on after damage: two leases.
    pub(crate) fn patience(&self) -> i64 {
        2 * i64::try_from(self.lease.as_millis()).unwrap()
    }

    /// A process ends, in any way.
    pub(crate) fn ends(&mut self, process: u32, at: i64) {
        self.troubles.push(Trouble { process, from: at, until: i64::MAX });
    }

    /// A process stood still between these times.
    pub(crate) fn paused(&mut self, process: u32, from: i64, until: i64) {
        self.troubles.push(Trouble { process, from, until });
    }

    /// When a process last looked whether it may begin what it began at a time: one that was
    /// stopped in between begins it as it wakes up, and cannot know.
    pub(crate) fn looked(&self, process: u32, began: i64) -> i64 {
        let wakes = |trouble: &&Trouble| {
            trouble.process == process
                && (trouble.until..=trouble.until + WAKING_MS).contains(&began)
        };
        let pause = self.troubles.iter().filter(|trouble| trouble.until < i64::MAX).find(wakes);
        pause.map_or(began, |trouble| trouble.from)
    }

    /// True when an attempt that began in a process at a time may be found to be lost at another:
    /// the process had ended by then, or had stood still for so long that it may have been taken
    /// for dead.
    pub(crate) fn explains_loss(&self, process: u32, began: i64, found: i64) -> bool {
        let lease = i64::try_from(self.lease.as_millis()).unwrap();
        self.troubles.iter().filter(|trouble| trouble.process == process).any(|trouble| {
            let long_enough = trouble.until - trouble.from > lease / 2;
            let began_before = began <= trouble.until.saturating_add(CLOCKS_MS);
            long_enough && began_before && trouble.from <= found + CLOCKS_MS
        })
    }
}
