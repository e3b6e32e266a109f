//! Random numbers and new ids, from a seed.
//!
//! The seed is drawn once, when an engine is made; everything after it follows from the seed and
//! the time, so that the same inputs have the same consequences.

use resurgam_core::{Timestamp, Uid};
use sha2::{Digest, Sha256};

/// Random numbers and new ids.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
    last_id: u128,
    /// What tokens of claims are made of, where nobody is to guess them, and how many there were.
    secret: Option<([u8; 32], u64)>,
}

/// The part of an id that a [`Uid`] uses for its shard begins below this bit.
const STEP: u128 = 1 << 16;

impl Random {
    /// Everything follows from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random { state: seed, last_id: 0, secret: None }
    }

    /// Different each time.
    pub(crate) fn from_entropy() -> Self {
        Random::new(fastrand::u64(..))
    }

    /// A number from 0 to `u64::MAX` (SplitMix64).
    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let value = self.state;
        let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// A token that no other claim of a call has. Where there is a secret nobody can guess it who
    /// has seen others: it is of the hash of the secret and of how many there were before.
    pub(crate) fn token(&mut self) -> u64 {
        let Some((secret, count)) = &mut self.secret else { return self.number().max(1) };
        *count += 1;
        let hash = Sha256::new().chain_update(*secret).chain_update(count.to_be_bytes()).finalize();
        let first: [u8; 8] = std::array::from_fn(|place| hash[place]);
        u64::from_be_bytes(first).max(1)
    }

    /// Makes tokens of a secret from here on: remote workers know those of their attempts, and are
    /// not to know others. Everything else follows from the seed as before.
    pub(crate) fn keep_secret(&mut self, secret: [u8; 32]) {
        self.secret = Some((secret, 0));
    }

    /// An id that nobody had before: a version 7 UUID, greater than the one before it, also when
    /// both are of the same millisecond or the clock was set back.
    fn id(&mut self, now: Timestamp) -> u128 {
        let millis = u64::try_from(now.as_millis()).unwrap_or_default();
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.number().to_be_bytes());
        bytes[8..].copy_from_slice(&self.number().to_be_bytes()[..2]);
        let fresh = uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid();
        self.last_id = fresh.as_u128().max(self.last_id + STEP);
        self.last_id
    }

    /// The uid of a new instance.
    pub(crate) fn uid(&mut self, id: &str, now: Timestamp) -> Uid {
        Uid(self.id(now)).placed(id)
    }

    /// A name that nobody had before.
    pub(crate) fn name(&mut self, now: Timestamp) -> String {
        uuid::Uuid::from_u128(self.id(now)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_same_seed_and_times_give_the_same_numbers_and_ids() {
        let draw = |seed| {
            let (mut random, now) = (Random::new(seed), Timestamp::from_millis(1_000));
            (random.number(), random.token(), random.uid("order-1", now), random.name(now))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn tokens_follow_from_a_secret_where_there_is_one_and_nothing_else_does() {
        let draw = |secret: Option<u8>| {
            let mut random = Random::new(7);
            secret.into_iter().for_each(|byte| random.keep_secret([byte; 32]));
            ([random.token(), random.token()], random.number())
        };
        let (tokens, next) = draw(Some(1));
        assert_eq!((tokens, next), draw(Some(1)));
        assert_ne!(tokens, draw(Some(2)).0);
        assert_ne!(tokens[0], tokens[1]);
        assert_eq!(next, Random::new(7).number());
        assert_eq!(draw(None).0[0], Random::new(7).number());
    }

    #[test]
    fn ids_grow_within_a_millisecond_and_when_the_clock_is_set_back() {
        let mut random = Random::new(7);
        let times = [5, 5, 5, 4, 6].map(Timestamp::from_millis);
        let ids = times.map(|time| random.uid("order-1", time));
        assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        assert_eq!(ids.map(Uid::shard), [Uid(0).placed("order-1").shard(); 5]);
    }

    #[test]
    fn names_are_uuids_of_version_7() {
        let name = Random::new(7).name(Timestamp::from_millis(1_767_225_600_000));
        let uuid: uuid::Uuid = name.parse().unwrap();
        assert_eq!((uuid.get_version_num(), &name[..13]), (7, "019b76da-a800"));
    }
}
