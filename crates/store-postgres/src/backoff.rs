//! How long to wait for a database that does not answer.

use std::time::Duration;

/// Waits longer each time, up to two seconds, and never quite as long as others who wait too.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// Waits.
    pub(crate) async fn wait(&mut self) {
        let half = self.next / 2;
        let spread = fastrand::u64(0..=u64::try_from(half.as_micros()).unwrap_or(u64::MAX));
        tokio::time::sleep(half + Duration::from_micros(spread)).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}
