//! What this process costs, as Linux counts it in `/proc/self`. Elsewhere the figures are 0.

use std::fs;
use std::time::Duration;

/// Clock ticks per second in `/proc`; the kernel shows 100 to everybody, whatever it uses itself.
const TICKS: u64 = 100;

/// The time that all threads, also those that have ended, have spent computing.
pub(crate) fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in brackets, and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let (user_and_system, rest) = (11..=12, fields.split_ascii_whitespace());
    let ticks: u64 = rest
        .enumerate()
        .filter(|(place, _)| user_and_system.contains(place))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1_000 / TICKS)
}

/// The most memory that was resident at once, in MiB.
pub(crate) fn peak_rss_mb() -> f64 {
    status_mb("VmHWM:")
}

/// The memory that is resident now and no copy of a file, in MiB.
pub(crate) fn anonymous_mb() -> f64 {
    status_mb("RssAnon:")
}

fn status_mb(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
