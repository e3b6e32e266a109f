//! Bounds how many log lines are written about one subject: when a service is down, thousands of
//! attempts fail in a second, and each of them would be a line.
//!
//! The first lines of a subject are written; those that follow within the window are counted, and
//! the count is one line when the window is over. Pure: the caller brings the time, writes the
//! lines, and asks when the next count is due.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::Timestamp;

/// For how long lines are counted together.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// How many lines a subject may have in a window, the count not included.
pub(crate) const LINES: u32 = 10;

/// What was written about each subject lately.
#[derive(Debug)]
pub(crate) struct LogLimit<K> {
    windows: BTreeMap<K, Window>,
    /// When the first of the windows is over; asked for each line.
    first_end: Option<Timestamp>,
}

#[derive(Debug)]
struct Window {
    began: Timestamp,
    lines: u32,
    left_out: u64,
}

impl Window {
    fn end(&self) -> Timestamp {
        self.began.saturating_add(WINDOW)
    }

    /// A window that begins in the future is one from before the clock was set back.
    fn is_over(&self, now: Timestamp) -> bool {
        self.end() <= now || self.began > now
    }
}

impl<K> Default for LogLimit<K> {
    fn default() -> Self {
        LogLimit { windows: BTreeMap::new(), first_end: None }
    }
}

impl<K: Ord> LogLimit<K> {
    /// True when a line about this subject may be written now; otherwise it is counted. Ask
    /// [`LogLimit::over`] first, or counts of a window before are lost.
    pub(crate) fn admits(&mut self, subject: K, now: Timestamp) -> bool {
        let new = Window { began: now, lines: 0, left_out: 0 };
        let window = self.windows.entry(subject).or_insert(new);
        let end = window.end();
        self.first_end = Some(self.first_end.map_or(end, |first| first.min(end)));
        if window.lines < LINES {
            window.lines += 1;
            return true;
        }
        window.left_out = window.left_out.saturating_add(1);
        false
    }

    /// Forgets the windows that are over, and answers with the subjects of which lines were left
    /// out, and how many.
    pub(crate) fn over(&mut self, now: Timestamp) -> Vec<(K, u64)> {
        // Every window ends within one length of now, unless the clock was set back.
        let is_early = |end: Timestamp| now < end && end.since(now) <= WINDOW;
        if self.first_end.is_none_or(is_early) {
            return Vec::new();
        }
        let ended = self.windows.extract_if(.., |_, window| window.is_over(now));
        let left_out = left_out(ended);
        self.first_end = self.windows.values().map(Window::end).min();
        left_out
    }

    /// Forgets all windows, also those that are not over, and answers like [`LogLimit::over`]: the
    /// process ends.
    pub(crate) fn end(&mut self) -> Vec<(K, u64)> {
        self.first_end = None;
        left_out(std::mem::take(&mut self.windows).into_iter())
    }

    /// True when nothing was written lately.
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// When the next count is to be written, if there is one.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.windows.values().filter(|window| window.left_out > 0).map(Window::end).min()
    }
}

/// The subjects of which lines were left out, and how many.
fn left_out<K>(windows: impl Iterator<Item = (K, Window)>) -> Vec<(K, u64)> {
    let left_out = windows.map(|(subject, window)| (subject, window.left_out));
    left_out.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms)
    }

    /// How many of these many lines are written.
    fn written(
        limit: &mut LogLimit<&'static str>,
        subject: &'static str,
        ms: i64,
        lines: u32,
    ) -> u32 {
        let mut written = 0;
        for _ in 0..lines {
            written += u32::from(limit.admits(subject, at(ms)));
        }
        written
    }

    #[test]
    fn what_is_rare_is_always_written() {
        let mut limit = LogLimit::default();
        for second in 0..1_000 {
            assert_eq!(limit.over(at(second * 1_001)), []);
            assert_eq!(written(&mut limit, "charge", second * 1_001, 1), 1);
            assert_eq!(limit.next(), None);
        }
    }

    #[test]
    fn in_a_storm_the_first_lines_are_written_and_then_one_count_for_each_window() {
        let mut limit = LogLimit::default();
        let mut lines = 0;
        let mut counted = 0;
        for second in 0..60 {
            counted += limit.over(at(second * 1_000)).iter().map(|(_, count)| count).sum::<u64>();
            lines += written(&mut limit, "charge", second * 1_000, 1_000);
        }
        assert_eq!(lines, 6 * LINES);
        assert_eq!(limit.next(), Some(at(60_000)));
        let last = limit.over(at(60_000));
        assert_eq!(last, [("charge", 10_000 - u64::from(LINES))]);
        assert_eq!(counted + last[0].1 + u64::from(lines), 60_000);
        assert_eq!(limit.next(), None);
    }

    #[test]
    fn subjects_do_not_take_lines_from_each_other() {
        let mut limit = LogLimit::default();
        assert_eq!(written(&mut limit, "charge", 0, 100), LINES);
        assert_eq!(written(&mut limit, "ship", 5_000, 100), LINES);
        assert_eq!(limit.over(at(10_000)), [("charge", 90)]);
        assert_eq!(limit.next(), Some(at(15_000)));
        assert_eq!(limit.over(at(14_999)), []);
        assert_eq!(limit.over(at(15_000)), [("ship", 90)]);
    }

    #[test]
    fn at_the_end_every_count_is_told_once() {
        let mut limit = LogLimit::default();
        for subject in ["ship", "charge", "mail"] {
            written(&mut limit, subject, 0, if subject == "mail" { 1 } else { 15 });
        }
        assert_eq!(limit.end(), [("charge", 5), ("ship", 5)]);
        assert_eq!((limit.end(), limit.next(), limit.is_empty()), (vec![], None, true));
    }

    #[test]
    fn subjects_that_are_quiet_are_forgotten() {
        let mut limit = LogLimit::default();
        for (place, subject) in ["a", "b", "c"].into_iter().enumerate() {
            written(&mut limit, subject, place as i64 * 20_000, 1);
            limit.over(at(place as i64 * 20_000));
        }
        assert_eq!(limit.windows.len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_mutes_nothing_for_long() {
        let mut limit = LogLimit::default();
        assert_eq!(written(&mut limit, "charge", 3_600_000, 15), LINES);
        assert_eq!(limit.over(at(0)), [("charge", 5)]);
        assert_eq!(written(&mut limit, "charge", 0, 15), LINES);
    }
}
