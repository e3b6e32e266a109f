//! What follows for a whole process when one of its lanes finds that the database went back in
//! time.
//!
//! The node that works there knows things that never happened. Whatever it has decided is worth
//! nothing, on every lane and also where nothing was lost: it steps down, and joins again under
//! another name. Until then nothing of it may be written. A lane that comes later goes on from what
//! it finds, for whoever works then.
//!
//! A lane on which nothing was lost would find nothing, and write what follows from things that are
//! gone. So whoever looks at the row of a lane, on a new connection, looks at those of the others
//! too: a database goes back in time only when connections break.
//!
//! A node that has nothing to write looks at no lane, and would wait for things that never happened
//! while others that are there again wait for it. So every beat of a node looks at the lanes, too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::batch_sequence::IDLE;

/// How often the database went back in time, as lanes of this process have found, and for whom.
///
/// ```
/// use std::time::Duration;
/// use resurgam_store::fleet::Rewinds;
///
/// let mut rewinds = Rewinds::default();
/// rewinds.works_as("node-1");
/// assert_eq!((rewinds.told(), rewinds.refuses("node-1")), (0, false));
/// assert_eq!(rewinds.tell(), 1);
/// assert!(rewinds.refuses("node-1"));
/// // It has stepped down and read everything anew.
/// rewinds.works_as("node-2");
/// assert!(!rewinds.refuses("node-2") && rewinds.refuses("node-1"));
/// // One lane finds that what another has written is gone.
/// let now = Duration::from_secs(5);
/// rewinds.reached(now, 0, 7);
/// let reached = rewinds.positions();
/// assert!(!rewinds.has_lost(now, &reached, &[(0, 8), (1, 3)]));
/// assert!(rewinds.has_lost(now, &reached, &[(0, 6), (1, 3)]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewinds {
    told: u64,
    /// The node that works in this process.
    node: Option<String>,
    /// The last one that knows what never happened.
    misled: Option<String>,
    /// The last batch of each lane that is known to be in, and since when.
    reached: BTreeMap<i16, (i64, Duration)>,
}

/// Where the lanes of a process are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    told: u64,
    reached: BTreeMap<i16, (i64, Duration)>,
}

impl Rewinds {
    /// How often it was told.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// The node that works in this process from now on, under a name that nobody had before.
    pub fn works_as(&mut self, node: &str) {
        if self.node.as_deref() != Some(node) {
            self.node = Some(node.to_string());
        }
    }

    /// A lane has found it, and tells; how often that makes.
    pub fn tell(&mut self) -> u64 {
        self.told += 1;
        self.misled.clone_from(&self.node);
        // Each lane finds out anew where it is.
        self.reached.clear();
        self.told
    }

    /// The batch of this number is in, on a lane.
    pub fn reached(&mut self, now: Duration, lane: i16, number: i64) {
        self.reached.insert(lane, (number, now));
    }

    /// Where the lanes are, to be compared with what a look finds that begins now: a lane may get
    /// on while somebody looks.
    pub fn positions(&self) -> Positions {
        Positions { told: self.told, reached: self.reached.clone() }
    }

    /// Whether something is gone that was written when the lanes were there, now that these numbers
    /// were found. The row of a lane that was idle for long may have been removed. What another
    /// lane has told meanwhile is known already.
    pub fn has_lost(&self, now: Duration, before: &Positions, found: &[(i16, i64)]) -> bool {
        let is_lost = |(lane, (reached, at)): (&i16, &(i64, Duration))| match found
            .iter()
            .find(|(other, _)| other == lane)
        {
            Some((_, number)) => number < reached,
            None => now.saturating_sub(*at) <= IDLE,
        };
        before.told == self.told && before.reached.iter().any(is_lost)
    }

    /// True when nothing of this node may be written any more.
    pub fn refuses(&self, node: &str) -> bool {
        self.misled.as_deref() == Some(node)
    }
}
