//! Who is dead: a node whose beat stood still for a whole lease while somebody watched.
//!
//! Pure: the caller brings its own monotonic time with every look that the database answered. Time
//! between two looks counts only when they were close together. After an outage, or when the
//! observer itself was asleep, nobody watched, and everybody gets a whole lease again.

use std::collections::BTreeMap;
use std::time::Duration;

/// What one node has seen of the others.
#[derive(Clone, Debug)]
pub struct Observer {
    lease: Duration,
    last: Option<Duration>,
    seen: BTreeMap<String, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    still: Duration,
}

impl Observer {
    /// An observer that has seen nothing yet.
    pub fn new(lease: Duration) -> Self {
        Observer { lease, last: None, seen: BTreeMap::new() }
    }

    /// Takes note of the beats of all nodes, as an answer that came at this time told them.
    pub fn look<'n>(&mut self, now: Duration, beats: impl IntoIterator<Item = (&'n str, i64)>) {
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        // A third of a lease leaves room for a slow answer, and not for an outage.
        let watched = if since <= self.lease / 3 { Some(since) } else { None };
        self.last = Some(now);
        let mut seen = BTreeMap::new();
        for (node, beat) in beats {
            let still = match (self.seen.get(node), watched) {
                (Some(before), Some(since)) if before.beat == beat => before.still + since,
                _ => Duration::ZERO,
            };
            seen.insert(node.to_string(), Seen { beat, still });
        }
        self.seen = seen;
    }

    /// True when this node's beat stood still for a whole lease.
    pub fn is_dead(&self, node: &str) -> bool {
        self.seen.get(node).is_some_and(|seen| seen.still >= self.lease)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    /// Looks at these seconds, at which node `a` shows these beats; then whether it is dead.
    fn check(looks: &[(u64, i64)]) -> bool {
        let mut observer = Observer::new(Duration::from_secs(9));
        for (second, beat) in looks {
            observer.look(Duration::from_secs(*second), [("a", *beat)]);
        }
        observer.is_dead("a")
    }

    #[test]
    fn who_is_dead() {
        type Case<'t> = (&'t str, &'t [(u64, i64)], bool);
        let table: [Case<'_>; 7] = [
            ("never seen", &[], false),
            ("seen once, long ago", &[(0, 1)], false),
            ("still for less than a lease", &[(0, 1), (3, 1), (6, 1), (8, 1)], false),
            ("still for a lease", &[(0, 1), (3, 1), (6, 1), (9, 1)], true),
            ("beats now and then", &[(0, 1), (3, 1), (6, 2), (9, 2), (12, 2)], false),
            ("nobody watched in between", &[(0, 1), (3, 1), (60, 1), (63, 1)], false),
            ("back after a lease", &[(0, 1), (3, 1), (6, 1), (9, 1), (10, 2)], false),
        ];
        for (what, looks, dead) in table {
            assert_eq!(check(looks), dead, "{what}");
        }
    }

    #[test]
    fn a_node_that_left_is_forgotten() {
        let mut observer = Observer::new(Duration::from_secs(3));
        for second in 0..=3 {
            observer.look(Duration::from_secs(second), [("a", 1)]);
        }
        assert!(observer.is_dead("a"));
        observer.look(Duration::from_secs(4), []);
        observer.look(Duration::from_secs(5), [("a", 1)]);
        assert!(!observer.is_dead("a"));
    }
}
