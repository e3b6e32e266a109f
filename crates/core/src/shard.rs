//! Shards: how instances are spread, so that many nodes can share the work.
//!
//! The shard of an instance follows from its id by a named hash, and its uid carries that hash. So
//! whoever holds either knows the shard and asks nobody: a client that starts, a run that signals
//! another one, a report that knows only its call.
//!
//! The name of the hash and the number of shards are written into a database when it is made, and
//! a program that would compute others refuses it: neither may ever change for rows that are there.

use std::fmt;

use crate::Uid;

/// One of the parts that instances are spread over, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

impl Shard {
    /// How many there are.
    pub const COUNT: u16 = 256;

    /// The name of the hash: FNV-1a of 64 bits over the bytes of the id, folded to 16 bits by
    /// exclusive or, of which the lowest 8 are the shard.
    pub const HASH: &'static str = "fnv1a-64/16/8";

    /// The shard of the instances with this id.
    ///
    /// ```
    /// use resurgam_core::{Shard, Uid};
    ///
    /// assert_eq!(Shard::of_id("order-42"), Uid(7).placed("order-42").shard());
    /// ```
    pub fn of_id(id: &str) -> Shard {
        Shard(folded(id) % Shard::COUNT)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Shard> {
        (0..Shard::COUNT).map(Shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Uid {
    /// This uid with the hash of an instance's id in its last 16 bits. Every uid is made so, that
    /// of a child too.
    pub fn placed(self, id: &str) -> Uid {
        Uid(self.0 & !0xffff | u128::from(folded(id)))
    }

    /// The shard that everything of this instance is in.
    pub const fn shard(self) -> Shard {
        Shard(self.0 as u16 % Shard::COUNT)
    }
}

/// More bits than shards need today, so that they could be split finer without new uids.
fn folded(id: &str) -> u16 {
    let hash = fnv1a(id.as_bytes());
    (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_vectors() {
        let vectors = [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ];
        for (text, hash) in vectors {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text:?}");
        }
    }

    /// Databases hold rows that were placed by this. A change here loses them.
    #[test]
    fn ids_stay_in_their_shards_for_ever() {
        let vectors = [
            ("", 0x11),
            ("a", 0xa2),
            ("foobar", 0x34),
            ("order-42", 0x19),
            ("Bestellung/42 ü", 0x92),
        ];
        for (id, shard) in vectors {
            assert_eq!(Shard::of_id(id).0, shard, "{id:?} is in {:#x}", Shard::of_id(id).0);
        }
    }

    #[test]
    fn a_placed_uid_knows_the_shard_of_its_id_and_keeps_the_rest() {
        let uid = Uid(u128::MAX).placed("order-42");
        assert_eq!(uid.shard(), Shard::of_id("order-42"));
        assert_eq!(uid.0 >> 16, u128::MAX >> 16);
        assert_eq!(uid.placed("order-42"), uid);
    }

    #[test]
    fn ids_that_count_up_are_spread_evenly() {
        let mut found = vec![0_u32; usize::from(Shard::COUNT)];
        for number in 0..256 * 100 {
            found[usize::from(Shard::of_id(&format!("order-{number}")).0)] += 1;
        }
        assert!(found.iter().all(|count| (50..150).contains(count)), "{found:?}");
    }
}
