//! What the log says while a database is out of reach.
//!
//! Everybody who asks for something meets the same outage, each of them again and again. They tell
//! it here, and the log gets one line when it begins, one every ten seconds, and one when it is
//! over: when everybody who was refused has got an answer.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use resurgam_core::duration::Human;

use crate::Result;

/// How often an outage that lasts is told.
const TELL: Duration = Duration::from_secs(10);

/// Whoever has not asked again for so long does not want to know any more. Everybody who does asks
/// again after a second, and waits at most a third of this for an answer.
const FORGET: Duration = Duration::from_secs(30);

/// What is asked, and by whom of those who ask the same.
pub type Asked = (&'static str, u64);

/// Tells people about outages.
#[derive(Debug, Default)]
pub struct OutageLog {
    /// An outage lasts. Asked first, an answer costs nothing while there is none.
    lasts: AtomicBool,
    outage: Mutex<Outage>,
}

impl OutageLog {
    /// What was asked has an answer, or there is trouble. An answer that something is wrong with
    /// the question is one, too.
    pub fn heard<T>(&self, asked: Asked, answer: &Result<T>) {
        match answer {
            Err(error) if error.is_transient() || error.is_unusable() => self.refused(asked, error),
            _ => self.answered(asked),
        }
    }

    /// There is trouble, and whoever asked will ask again.
    pub fn refused(&self, asked: Asked, error: &dyn Display) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        self.lasts.store(true, Ordering::Relaxed);
        match outage.refused(asked, Instant::now()) {
            Some(Line::Begins) => {
                tracing::warn!("the database cannot be used, trying again: {error}");
            }
            Some(Line::Lasts(time)) => {
                let time = Human(time);
                tracing::warn!("the database cannot be used for {time} now, trying again: {error}");
            }
            _ => tracing::debug!("{}, trying again: {error}", asked.0),
        }
    }

    /// There is an answer.
    pub fn answered(&self, asked: Asked) {
        if !self.lasts.load(Ordering::Relaxed) {
            return;
        }
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Line::Over(time)) = outage.answered(asked, Instant::now()) {
            self.lasts.store(false, Ordering::Relaxed);
            tracing::warn!("the database can be used again, after {}", Human(time));
        }
    }
}

/// An outage, or none.
#[derive(Debug, Default)]
struct Outage {
    /// Those who wait for an answer, and when they were last refused.
    waiting: HashMap<Asked, Instant>,
    times: Option<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    began: Instant,
    told: Instant,
    /// When somebody was refused last, or somebody who had been refused got an answer. Whoever does
    /// not ask again must not make the outage longer than it was.
    lasted_until: Instant,
}

/// What is told of it.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Begins,
    Lasts(Duration),
    Over(Duration),
}

impl Outage {
    fn refused(&mut self, asked: Asked, now: Instant) -> Option<Line> {
        self.waiting.insert(asked, now);
        let Some(times) = &mut self.times else {
            self.times = Some(Times { began: now, told: now, lasted_until: now });
            return Some(Line::Begins);
        };
        times.lasted_until = now;
        if now.duration_since(times.told) < TELL {
            return None;
        }
        times.told = now;
        Some(Line::Lasts(now.duration_since(times.began)))
    }

    fn answered(&mut self, asked: Asked, now: Instant) -> Option<Line> {
        if let Some((times, _)) = self.times.as_mut().zip(self.waiting.remove(&asked)) {
            times.lasted_until = now;
        }
        self.waiting.retain(|_, refused| now.duration_since(*refused) < FORGET);
        if !self.waiting.is_empty() {
            return None;
        }
        let Times { began, lasted_until, .. } = self.times.take()?;
        Some(Line::Over(lasted_until.duration_since(began)))
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    const COMMIT: Asked = ("commit", 0);
    const READ: Asked = ("read what is due", 0);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_outage_is_told_when_it_begins_every_ten_seconds_and_when_it_is_over() {
        let (mut outage, began) = (Outage::default(), Instant::now());
        let mut told = Vec::new();
        for second in 0..25 {
            for asked in [COMMIT, READ] {
                let line = outage.refused(asked, began + seconds(second));
                told.extend(line.map(|line| (second, line)));
            }
        }
        assert_eq!(outage.answered(COMMIT, began + seconds(25)), None, "reading still fails");
        let over = outage.answered(READ, began + seconds(26));
        told.extend(over.map(|line| (26, line)));
        let expected = [
            (0, Line::Begins),
            (10, Line::Lasts(seconds(10))),
            (20, Line::Lasts(seconds(20))),
            (26, Line::Over(seconds(26))),
        ];
        assert_eq!(told, expected);
        assert_eq!(outage.answered(READ, began + seconds(27)), None);
        assert_eq!(outage.refused(READ, began + seconds(28)), Some(Line::Begins));
    }

    #[test]
    fn whoever_never_asks_again_neither_keeps_an_outage_going_nor_makes_it_longer() {
        let (mut outage, began) = (Outage::default(), Instant::now());
        outage.refused(READ, began);
        outage.refused(COMMIT, began);
        assert_eq!(outage.answered(COMMIT, began + seconds(1)), None);
        assert_eq!(outage.answered(COMMIT, began + seconds(2)), None);
        let over = outage.answered(COMMIT, began + FORGET);
        assert_eq!(over, Some(Line::Over(seconds(1))));
    }
}
