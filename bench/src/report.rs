//! Figures by name, for people or as one JSON object.

use std::fmt;
use std::ops::Sub;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::usage;

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commits {
    pub(crate) transactions: u64,
    pub(crate) rows: u64,
}

impl Sub for Commits {
    type Output = Commits;

    fn sub(self, before: Commits) -> Commits {
        Commits {
            transactions: self.transactions - before.transactions,
            rows: self.rows - before.rows,
        }
    }
}

/// Figures in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<(&'static str, Figure)>);

#[derive(Clone, Copy, Debug)]
enum Figure {
    Count(u64),
    Number(f64),
}

impl Report {
    /// Adds a count.
    pub(crate) fn count(mut self, name: &'static str, count: u64) -> Self {
        self.0.push((name, Figure::Count(count)));
        self
    }

    /// Adds a number, rounded to what a measurement can mean.
    pub(crate) fn number(mut self, name: &'static str, number: f64) -> Self {
        self.0.push((name, Figure::Number(rounded(number))));
        self
    }

    /// Adds a time.
    pub(crate) fn millis(self, name: &'static str, time: Duration) -> Self {
        self.number(name, time.as_secs_f64() * 1e3)
    }

    /// Adds a time, where there is one.
    pub(crate) fn maybe_millis(self, name: &'static str, time: Option<Duration>) -> Self {
        match time {
            Some(time) => self.millis(name, time),
            None => self,
        }
    }

    /// Adds how often something happened in a second.
    pub(crate) fn rate(self, name: &'static str, count: u64, time: Duration) -> Self {
        self.number(name, count as f64 / time.as_secs_f64())
    }

    /// Adds what it cost: `cpu` is the time spent computing on `steps` steps.
    pub(crate) fn cost(self, steps: u64, cpu: Duration, commits: Commits) -> Self {
        self.number("cpu_ms_per_step", cpu.as_secs_f64() * 1e3 / steps as f64)
            .number("rss_mb", usage::peak_rss_mb())
            .count("commits", commits.transactions)
            .count("rows", commits.rows)
    }
}

/// Four digits: 12345, 1234, 123.4, 0.01234.
fn rounded(number: f64) -> f64 {
    let digits = 3 - number.abs().log10().floor().clamp(-9.0, 3.0) as i32;
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

/// The time that `share` of all times stay within.
pub(crate) fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, figure) in &self.0 {
            match figure {
                Figure::Count(count) => map.serialize_entry(name, count)?,
                Figure::Number(number) => map.serialize_entry(name, number)?,
            }
        }
        map.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, figure) in &self.0 {
            match figure {
                Figure::Count(count) => writeln!(f, "{name:>18} {count}")?,
                Figure::Number(number) => writeln!(f, "{name:>18} {number}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resurgam_watchdog::test;

    #[test]
    fn numbers_keep_four_digits() {
        let kept = [123_456.7, 1_234.56, 123.456, 0.012_345_6, 0.0].map(rounded);
        assert_eq!(kept, [123_457.0, 1_235.0, 123.5, 0.012_35, 0.0]);
    }

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let mut times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut times, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&mut times, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&mut [], 0.5), Duration::ZERO);
    }
}
