//! The time of the database, as this process last heard it.
//!
//! Nodes agree on when something is due because all of them follow one clock. It is asked for when
//! the store is opened and with every beat; in between, time passes by the process's own monotonic
//! clock, so that no wall clock of a node matters.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use resurgam_core::Timestamp;
use resurgam_store::{Error, Result};

use crate::pool::Pool;
use crate::statement::Statement;

const ASK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// An answer that took longer than this says too little, once a better one is known.
const VAGUE: Duration = Duration::from_millis(500);

/// The time of the database.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<(Instant, Timestamp)>>);

impl Clock {
    /// The time, once it was heard.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.told().map(|(at, time)| time.saturating_add(at.elapsed()))
    }

    /// Asks the database.
    pub(crate) async fn ask(&self, pool: &Pool) -> Result<()> {
        let asked = Instant::now();
        let rows = pool.ask(Statement::rows("ask for the time", ASK)).await?;
        let time = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
        let time = time.ok_or_else(|| Error::data("ask for the time: no answer"))?;
        self.heard(asked, Timestamp::from_millis(time));
        Ok(())
    }

    /// The database told this time, some moment between the question and now.
    pub(crate) fn heard(&self, asked: Instant, time: Timestamp) {
        let took = asked.elapsed();
        let mut told = self.told();
        if told.is_none() || took <= VAGUE {
            *told = Some((asked + took / 2, time));
        }
    }

    fn told(&self) -> MutexGuard<'_, Option<(Instant, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn time_passes_from_what_was_heard_last() {
        let clock = Clock::default();
        assert_eq!(clock.now(), None);
        let (asked, told) = (Instant::now(), Timestamp::from_millis(5_000));
        clock.heard(asked, told);
        let now = clock.now().unwrap();
        let latest = told.saturating_add(asked.elapsed());
        assert!(told <= now && now <= latest, "{now}, and not until {latest}");
    }

    #[test]
    fn an_answer_that_took_long_counts_only_when_there_is_no_other() {
        let long_ago = Instant::now() - Duration::from_secs(10);
        let clock = Clock::default();
        clock.heard(long_ago, Timestamp::from_millis(5_000));
        // It was told at some moment in those ten seconds.
        assert!(clock.now().is_some_and(|now| now.as_millis() >= 10_000));
        // No time has passed since then, however long a busy machine takes to get here.
        let at_once = Instant::now() + Duration::from_secs(60);
        clock.heard(at_once, Timestamp::from_millis(100_000));
        clock.heard(long_ago, Timestamp::from_millis(5_000));
        assert!(clock.now().is_some_and(|now| now.as_millis() >= 100_000));
    }
}
