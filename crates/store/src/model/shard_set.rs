//! A set of shards that is cheap to copy and to ask.

use resurgam_core::{Shard, Uid};

const WORDS: usize = Shard::COUNT as usize / 64;

/// A set of shards: what a node reads is limited to those that it holds.
///
/// ```
/// use resurgam_core::Shard;
/// use resurgam_store::model::ShardSet;
///
/// let mut held: ShardSet = [Shard(3), Shard(200)].into_iter().collect();
/// held.insert(Shard(4));
/// assert_eq!(held.iter().collect::<Vec<_>>(), [Shard(3), Shard(4), Shard(200)]);
/// assert!(ShardSet::ALL.contains(Shard(255)) && !held.contains(Shard(255)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet([u64; WORDS]);

impl ShardSet {
    /// Every shard.
    pub const ALL: ShardSet = ShardSet([u64::MAX; WORDS]);

    /// Adds a shard.
    pub fn insert(&mut self, shard: Shard) {
        let (word, bit) = place(shard);
        self.0[word] |= bit;
    }

    /// Whether a shard is in it.
    pub fn contains(&self, shard: Shard) -> bool {
        let (word, bit) = place(shard);
        self.0[word] & bit != 0
    }

    /// The shards in order.
    pub fn iter(&self) -> impl Iterator<Item = Shard> {
        let set = *self;
        Shard::all().filter(move |shard| set.contains(*shard))
    }

    /// Whether everything of an instance is in one of the shards.
    pub(super) fn has(&self, uid: Uid) -> bool {
        self.contains(uid.shard())
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> Self {
        let mut set = ShardSet::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

fn place(shard: Shard) -> (usize, u64) {
    let number = usize::from(shard.0 % Shard::COUNT);
    (number / 64, 1 << (number % 64))
}
