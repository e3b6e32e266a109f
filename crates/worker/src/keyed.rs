//! A map that is quick to look something up in, and that is walked in the order of its keys.
//!
//! Most of what a node does begins with finding a run or a call. With a thousand runs in memory a
//! tree takes ten comparisons for each, a hash table one. Its hasher is the same everywhere: with a
//! random one, and with an order that follows from it, the same inputs would give other outputs.
//! Walking through the whole map sorts it first, which only rare things do: stopping, giving
//! shards up, evicting.
//!
//! Meant for keys that the engine makes itself (`Uid`, `CallKey`). Whoever could choose keys could
//! choose ones that collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map that is quick to look something up in, and that is walked in the order of its keys. Its
/// values are boxed, so that growing moves none of them.
#[derive(Debug)]
pub(crate) struct Keyed<K, V>(HashMap<K, Box<V>, BuildHasherDefault<Mixer>>);

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Keyed(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> Keyed<K, V> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is one with this key.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.0.contains_key(&key)
    }

    /// The one with this key.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.0.get(&key).map(Box::as_ref)
    }

    /// The one with this key, to be changed.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.0.get_mut(&key).map(Box::as_mut)
    }

    /// Keeps one, in the place of another with the same key.
    pub(crate) fn insert(&mut self, key: K, value: Box<V>) {
        self.0.insert(key, value);
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, key: K) -> Option<Box<V>> {
        self.0.remove(&key)
    }

    /// True when this holds for one of the keys.
    pub(crate) fn any_key(&self, of: impl Fn(K) -> bool) -> bool {
        self.0.keys().any(|key| of(*key))
    }

    /// How many there are for which this holds.
    pub(crate) fn count(&self, of: impl Fn(&V) -> bool) -> usize {
        self.0.values().filter(|value| of(value)).count()
    }

    /// The keys, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        let mut keys: Vec<K> = self.0.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// All of them, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let mut all: Vec<(K, &V)> = self.0.iter().map(|(key, value)| (*key, &**value)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, value)| value)
    }

    /// All of them, in the order of their keys, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let all = self.0.iter_mut().map(|(key, value)| (*key, &mut **value));
        let mut all: Vec<(K, &mut V)> = all.collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, value)| value)
    }

    /// All of them, in the order of their keys.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        let mut all: Vec<(K, Box<V>)> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, value)| *value)
    }
}

/// Mixes the words of a key, the same way on every machine.
#[derive(Default)]
pub(crate) struct Mixer(u64);

/// The fraction of the golden ratio: odd, and its bits show no pattern.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        // The halves of the whole product, so that each bit of the key reaches high and low bits:
        // the table takes its bucket from the ones and its tag from the others.
        let product = u128::from(self.0 ^ word) * u128::from(GOLDEN);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use resurgam_core::{CallKey, RunKey, Seq, Uid};
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_keyed_map_is_walked_in_the_order_of_its_keys() {
        let mut map = Keyed::default();
        for uid in [5, 1, 4, 2, 3] {
            map.insert(Uid(uid << 64), Box::new(uid));
        }
        map.remove(Uid(4 << 64));
        assert_eq!(map.keys().collect::<Vec<_>>(), [1, 2, 3, 5].map(|uid| Uid(uid << 64)));
        map.values_mut().zip(10..).for_each(|(value, place)| *value += place);
        assert_eq!(map.values().copied().collect::<Vec<_>>(), [11, 13, 15, 18]);
        assert_eq!(map.into_values().collect::<Vec<_>>(), [11, 13, 15, 18]);
    }

    #[test]
    fn keys_that_differ_little_do_not_collide() {
        let uids = (0..1_000).flat_map(|n: u128| [n, n << 32, n << 64, n << 120]);
        let calls = uids.flat_map(|uid| {
            (1..4).map(move |seq| CallKey { run: RunKey::first(Uid(uid)), seq: Seq(seq) })
        });
        let calls: BTreeSet<CallKey> = calls.collect();
        let hasher = BuildHasherDefault::<Mixer>::default();
        let hashes = calls.iter().map(|call| hasher.hash_one(call));
        let buckets: BTreeSet<u64> = hashes.clone().map(|hash| hash & 0xffff).collect();
        let tags: BTreeSet<u64> = hashes.map(|hash| hash >> 57).collect();
        // As many balls, thrown at random, would hit about 9,070 of 65,536 buckets.
        assert!(buckets.len() > 8_800, "{} calls in {} buckets", calls.len(), buckets.len());
        assert_eq!(tags.len(), 128);
    }
}
