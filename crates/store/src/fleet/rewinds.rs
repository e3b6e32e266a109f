//! What follows for a whole process when one of its lanes finds that the database went back in
//! time.
//!
//! The node that works there knows things that never happened. Whatever it has decided is worth
//! nothing, on every lane and also where nothing was lost: it steps down, and joins again under
//! another name. Until then nothing of it may be written. A lane that comes later goes on from what
//! it finds, for whoever works then.

/// How often the database went back in time, as lanes of this process have found, and for whom.
///
/// ```
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
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewinds {
    told: u64,
    /// The node that works in this process.
    node: Option<String>,
    /// The last one that knows what never happened.
    misled: Option<String>,
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
        self.told
    }

    /// True when nothing of this node may be written any more.
    pub fn refuses(&self, node: &str) -> bool {
        self.misled.as_deref() == Some(node)
    }
}
