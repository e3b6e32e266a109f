//! Keys of one prefix that calls wait behind, of which there may be too many.
//!
//! Where a gate is shut, a scan for what is due hops from one key that calls wait behind to the
//! next. So beyond ten thousand waiting keys of a prefix (`host:`), calls behind other keys share
//! one gate, `host:*`. How many there are the store is asked when so many have been seen here, and
//! again a minute later: a call keeps the key that it was given.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::gate::prefix_of;

use crate::node::Node;
use crate::node::store_request::StoreRequest;

/// How many keys of one prefix calls wait behind before others share one.
pub(crate) const MOST: usize = 10_000;

/// How long it holds what the store said.
const HOLDS: Duration = Duration::from_secs(60);

/// The keys of how many prefixes are remembered.
const PREFIXES: usize = 1_000;

/// The keys that were seen, by their prefixes.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(BTreeMap<String, Prefix>);

/// The keys of one prefix.
#[derive(Debug, Default)]
struct Prefix {
    /// Numbers that stand for keys: those that were seen, or those that calls wait behind.
    keys: BTreeSet<u64>,
    /// The store is being asked.
    is_asked: bool,
    /// Until when others share a key.
    shared_until: Option<Timestamp>,
}

/// The key that a call is given.
#[derive(Debug, PartialEq, Eq)]
struct Given {
    key: String,
    /// The store is to be asked how many keys of this prefix calls wait behind.
    asks: Option<String>,
}

impl Prefixes {
    /// The key for a call that wants to be behind this gate.
    fn key_for(&mut self, key: String, now: Timestamp) -> Given {
        let Some(name) = prefix_of(&key) else { return Given { key, asks: None } };
        if self.0.len() >= PREFIXES && !self.0.contains_key(name) {
            self.0.clear();
        }
        let name = name.to_string();
        let prefix = self.0.entry(name.clone()).or_default();
        let number = number_of(&key);
        if prefix.keys.contains(&number) || prefix.keys.len() < MOST {
            prefix.keys.insert(number);
            return Given { key, asks: None };
        }
        let is_shared = prefix.shared_until.is_some_and(|until| now < until);
        let asks = (!is_shared && !std::mem::replace(&mut prefix.is_asked, true)).then_some(name);
        // While the store is asked again, what it said holds on.
        match prefix.shared_until.is_some() {
            true => Given { key: shared_key(&key), asks },
            false => Given { key, asks },
        }
    }

    /// The keys of this prefix that calls wait behind were read, as many as there may be, or one
    /// more. True when others share a key from now on that did not before.
    fn are_read(&mut self, name: &str, found: &[String], now: Timestamp) -> bool {
        let Some(prefix) = self.0.get_mut(name) else { return false };
        prefix.is_asked = false;
        prefix.keys = found.iter().take(MOST).map(|key| number_of(key)).collect();
        let was_shared = prefix.shared_until.is_some();
        prefix.shared_until = (found.len() >= MOST).then(|| now.saturating_add(HOLDS));
        prefix.shared_until.is_some() && !was_shared
    }
}

/// The key of the gate that calls share whose own would be one too many.
fn shared_key(key: &str) -> String {
    format!("{}:*", prefix_of(key).unwrap_or_default())
}

fn number_of(key: &str) -> u64 {
    // The same in every process: a node does the same again from the same inputs.
    #[expect(deprecated, reason = "its hasher has keys that are always the same")]
    let mut hasher = std::hash::SipHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

impl Node {
    /// The gate of a call that wants to be behind this one.
    pub(crate) fn gate_for(&mut self, key: String) -> String {
        let Given { key, asks } = self.memory.gate_prefixes.key_for(key, self.now);
        if let Some(prefix) = asks {
            self.ask_store(StoreRequest::KeysOf { prefix });
        }
        key
    }

    /// The keys of a prefix were read that calls wait behind.
    pub(crate) fn keys_read(&mut self, prefix: &str, found: &[String]) {
        if self.memory.gate_prefixes.are_read(prefix, found, self.now) {
            tracing::warn!(
                gate = %format_args!("{prefix}:*"),
                "calls wait behind {MOST} gates of this prefix: calls behind others share this one"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    fn keys(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("host:{number}")).collect()
    }

    fn given(prefixes: &mut Prefixes, key: &str, second: i64) -> (String, Option<String>) {
        let Given { key, asks } = prefixes.key_for(key.to_string(), at(second));
        (key, asks)
    }

    fn own(key: &str) -> (String, Option<String>) {
        (key.to_string(), None)
    }

    fn shared() -> (String, Option<String>) {
        own("host:*")
    }

    #[test]
    fn beyond_ten_thousand_waiting_keys_of_a_prefix_others_share_one() {
        let mut prefixes = Prefixes::default();
        for key in keys(MOST) {
            assert_eq!(given(&mut prefixes, &key, 0), own(&key));
        }
        // Nobody knows yet how many of them calls wait behind.
        let asks = Some("host".to_string());
        assert_eq!(given(&mut prefixes, "host:new", 0), ("host:new".to_string(), asks.clone()));
        assert_eq!(given(&mut prefixes, "host:other", 0), own("host:other"));
        assert!(prefixes.are_read("host", &keys(MOST), at(1)));
        assert_eq!(given(&mut prefixes, "host:new", 2), shared());
        // Those that calls wait behind stay what they are, and other prefixes too.
        for key in ["host:77", "bank:1", "stripe"] {
            assert_eq!(given(&mut prefixes, key, 2), own(key));
        }
        // After a while the store is asked again.
        assert_eq!(given(&mut prefixes, "host:new", 61), ("host:*".to_string(), asks));
        assert_eq!(given(&mut prefixes, "host:new", 61), shared());
        assert!(!prefixes.are_read("host", &keys(3), at(62)));
        assert_eq!(given(&mut prefixes, "host:new", 62), own("host:new"));
    }

    #[test]
    fn keys_that_nobody_waits_behind_any_more_count_no_longer() {
        let mut prefixes = Prefixes::default();
        for key in keys(MOST + 1) {
            prefixes.key_for(key, at(0));
        }
        assert!(!prefixes.are_read("host", &[], at(1)));
        assert_eq!(given(&mut prefixes, "host:new", 1), own("host:new"));
        assert_eq!(prefixes.0["host"].keys.len(), 1);
    }

    #[test]
    fn the_keys_of_so_many_prefixes_are_remembered() {
        let mut prefixes = Prefixes::default();
        for number in 0..3 * PREFIXES {
            prefixes.key_for(format!("{number}:x"), at(0));
        }
        assert!(prefixes.0.len() <= PREFIXES);
    }
}
