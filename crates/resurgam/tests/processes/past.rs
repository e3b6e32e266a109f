//! What was done to several nodes on one database, and what that explains.
//!
//! Nodes work at the same time, so how one of them ended says little about when. Here every kill,
//! every pause and every outage has its time: an attempt is lost through one of them or not at
//! all, and whatever is late is late because of one.

use std::time::Duration;

/// How far the clocks of two nodes may be apart. Each follows the database's, which it hears with
/// every beat, some time between the question and the answer.
pub(crate) const CLOCKS_MS: i64 = 250;

/// The troubles of a deployment, in the order in which they began.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    lease: Duration,
    troubles: Vec<Trouble>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Whose; `None` when it is the database's.
    process: Option<u32>,
    from: i64,
    until: i64,
}

impl Past {
    pub(crate) fn new(lease: Duration) -> Self {
        Past { lease, troubles: Vec::new() }
    }

    /// A process ends, in any way.
    pub(crate) fn ends(&mut self, process: u32, at: i64) {
        self.troubles.push(Trouble { process: Some(process), from: at, until: at });
    }

    /// A process stood still between these times.
    pub(crate) fn paused(&mut self, process: u32, from: i64, until: i64) {
        self.troubles.push(Trouble { process: Some(process), from, until });
        self.troubles.sort_by_key(|trouble| trouble.from);
    }

    /// The database did not answer between these times.
    pub(crate) fn outage(&mut self, from: i64, until: i64) {
        self.troubles.push(Trouble { process: None, from, until });
        self.troubles.sort_by_key(|trouble| trouble.from);
    }

    /// True when an attempt that began in a process at a time may be found to be lost at another:
    /// the process had ended by then, or had stood still long enough to be taken for dead.
    pub(crate) fn explains_loss(&self, process: u32, began: i64, found: i64) -> bool {
        let lease = i64::try_from(self.lease.as_millis()).unwrap();
        self.troubles.iter().filter(|trouble| trouble.process == Some(process)).any(|trouble| {
            let ended = trouble.from == trouble.until;
            let too_long = trouble.until - trouble.from > lease / 2;
            let meanwhile = began <= trouble.until + CLOCKS_MS && trouble.from <= found + CLOCKS_MS;
            meanwhile && (ended || too_long)
        })
    }

    /// When something must have happened that is due at a time: soon, or two leases after the
    /// trouble that kept it from happening.
    pub(crate) fn latest(&self, due: i64, slack: i64) -> i64 {
        let recovery = 2 * i64::try_from(self.lease.as_millis()).unwrap();
        let mut latest = due + slack;
        for trouble in &self.troubles {
            if trouble.from <= latest {
                latest = latest.max(trouble.until + recovery + slack);
            }
        }
        latest
    }
}
