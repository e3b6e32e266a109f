//! Points in time, as the engine stores and compares them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: whole milliseconds since the Unix epoch.
///
/// Arithmetic saturates, because a due time past the end of the calendar must mean "never" and
/// not "at once".
///
/// ```
/// use resurgam_core::Timestamp;
/// use std::time::Duration;
///
/// let start = Timestamp::from_millis(1_000);
/// let due = start.saturating_add(Duration::from_secs(2));
/// assert_eq!((due.as_millis(), due.saturating_sub(Duration::from_secs(2))), (3_000, start));
/// assert_eq!(due.since(start), Duration::from_secs(2));
/// assert_eq!(start.since(due), Duration::ZERO); // a clock that went back counts as no time
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The point this many milliseconds after the Unix epoch (before it, when negative).
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The point `delay` later; fractions of a millisecond are dropped.
    pub fn saturating_add(self, delay: Duration) -> Self {
        let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// The point `time` earlier; fractions of a millisecond are dropped.
    pub fn saturating_sub(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(millis))
    }

    /// The time from `earlier` to `self`, zero when `earlier` is the later one.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends_of_the_calendar() {
        let end = Timestamp::from_millis(i64::MAX);
        let start = Timestamp::from_millis(i64::MIN);
        assert_eq!(end.saturating_add(Duration::MAX), end);
        assert_eq!(end.since(start), Duration::from_millis(u64::MAX));
        assert_eq!(start.since(end), Duration::ZERO);
    }
}
