//! Times as people name and read them: how long ago, or when in UTC.

use std::time::Duration;

use resurgam::Timestamp;
use resurgam_core::duration::{self, Human};
use resurgam_core::schedule::{parse_time, time_text};

/// How times are printed, as all commands take it that print some.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct TimeArgs {
    /// Print when something was or will be, in UTC, in place of how long ago; JSON has milliseconds
    /// always
    #[arg(long)]
    pub(crate) utc: bool,
}

impl TimeArgs {
    /// `5m ago`, or when.
    pub(crate) fn past(self, at: Timestamp, now: Timestamp) -> String {
        match self.utc {
            true => time_text(at),
            false => format!("{} ago", age(at, now)),
        }
    }

    /// `5m`, or when: for a column that says which.
    pub(crate) fn age(self, at: Timestamp, now: Timestamp) -> String {
        match self.utc {
            true => time_text(at),
            false => age(at, now),
        }
    }

    /// `for 1.5s`, or `since` when.
    pub(crate) fn lasting(self, since: Timestamp, now: Timestamp) -> String {
        match self.utc {
            true => format!("since {}", time_text(since)),
            false => format!("for {}", tenths(now.since(since))),
        }
    }

    /// `1.5s`, or when: of something that should have come.
    pub(crate) fn late(self, due: Timestamp, now: Timestamp) -> String {
        match self.utc {
            true => time_text(due),
            false => tenths(now.since(due)),
        }
    }

    /// `in 1.5s`, or `at` when.
    pub(crate) fn future(self, at: Timestamp, now: Timestamp) -> String {
        match self.utc {
            true => format!("at {}", time_text(at)),
            false => format!("in {}", tenths(at.since(now))),
        }
    }

    /// `+1.5s`, or when.
    pub(crate) fn since(self, at: Timestamp, start: Timestamp) -> String {
        match self.utc {
            true => time_text(at),
            false => format!("+{}", tenths(at.since(start))),
        }
    }
}

/// How long ago, as people say it.
fn age(at: Timestamp, now: Timestamp) -> String {
    Human(Duration::from_secs(now.since(at).as_secs())).to_string()
}

/// `1.2s`, and longer times as people say them: tenths do not jump about.
pub(crate) fn tenths(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        seconds => Human(Duration::from_secs(seconds)).to_string(),
    }
}

/// A time that somebody names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Ago(Duration),
    At(Timestamp),
}

impl Moment {
    /// Reads `2h`, `2026-11-15` or `2026-11-15T09:00:00Z`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ago) = duration::parse(text) {
            return Ok(Moment::Ago(ago));
        }
        // A day begins with its midnight in UTC.
        let time = parse_time(text).or_else(|_| parse_time(&format!("{text}T00:00:00Z")));
        time.map(Moment::At).map_err(|_| {
            "write how long ago, such as 2h, or when: 2026-11-15 or 2026-11-15T09:00:00Z".into()
        })
    }

    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::Ago(time) => now.saturating_sub(time),
            Moment::At(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_moment_is_how_long_ago_or_a_day_or_a_time() {
        let now = Timestamp::from_millis(1_794_733_200_000);
        let read = |text: &str| Moment::parse(text).map(|moment| time_text(moment.before(now)));
        assert_eq!(read("1h30m").as_deref(), Ok("2026-11-15T07:30:00Z"));
        assert_eq!(read("2026-11-15").as_deref(), Ok("2026-11-15T00:00:00Z"));
        assert_eq!(read("2026-11-15T10:00:00+01:00").as_deref(), Ok("2026-11-15T09:00:00Z"));
        for wrong in ["", "7", "yesterday", "2026-13-01", "2026-11-15T09:00", "-2h"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
