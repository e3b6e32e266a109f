//! Draws the schedule of a policy: time to the right, one line for each attempt, a bar from the
//! earliest to the latest moment it may begin and a dot at the median.
//!
//! The drawing stands alone (no scripts, no fonts, no links) and follows the reader's choice of a
//! light or dark page.

use std::fmt::Write as _;
use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::retry::CheckedPolicy;
use resurgam_core::retry::forecast::Row;

use resurgam_policy::outlook::{Case, Outlook};
use resurgam_policy::printable;
use resurgam_policy::words::{self, about};

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 20.0;
/// Where time 0 is, right of the attempts' numbers.
const LEFT: f64 = 80.0;
/// Where the last attempt begins, left of the room for its label.
const RIGHT: f64 = 650.0;
const ROW: f64 = 20.0;
/// How many lines are drawn, and how many schedules.
const ROWS: usize = 30;
const PANELS: usize = 4;

const LEGEND: &str = "Dot: when an attempt begins in the median of the simulated runs. Bar: from the earliest to the latest.";

const STYLE: &str = "\
  text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .title { font-size: 14px; font-weight: 600; }
  .faint { fill: #59636e; }
  .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .bar { fill: #80bdff; }
  .dot { fill: #0969da; }
  .late { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 5 3; }
  .late-text { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; }
    .faint { fill: #9198a1; }
    .halo { stroke: #0d1117; }
    .grid { stroke: #3d444d; }
    .bar { fill: #1f4d8a; }
    .dot { fill: #58a6ff; }
    .late { stroke: #f85149; }
    .late-text { fill: #f85149; }
  }
";

/// Draws every schedule of a policy, one below the other.
pub(crate) fn draw(policy: &CheckedPolicy, attempt_time: Duration) -> String {
    let outlook = Outlook::of(policy, attempt_time);
    let sentence = outlook.sentence();
    let mut page = Page { body: String::new(), y: MARGIN };
    page.lines(&sentence, "title", 92, 19.0);
    let several = outlook.cases.len() > 1;
    for case in outlook.cases.iter().take(PANELS) {
        if several {
            page.y += 14.0;
            page.lines(&format!("For {}", case.title), "title", 92, 19.0);
            page.lines(&case.sentence, "plain", 110, 17.0);
        }
        page.panel(case, policy.max_elapsed);
    }
    let left_out = outlook.cases.len().saturating_sub(PANELS) + outlook.left_out;
    if left_out > 0 {
        page.lines(&format!("... and {left_out} more schedules"), "faint", 110, 17.0);
    }
    if !outlook.cases.is_empty() {
        page.y += 6.0;
        page.lines(LEGEND, "faint", 110, 17.0);
    }
    page.finish(&sentence)
}

/// A drawing that grows downwards.
struct Page {
    body: String,
    /// The lower edge of what was drawn.
    y: f64,
}

/// The axis of time.
struct Axis {
    end: Duration,
}

impl Page {
    /// Text in lines of at most `width` characters.
    fn lines(&mut self, text: &str, class: &str, width: usize, height: f64) {
        for line in wrap(text, width) {
            self.y += height;
            self.text(MARGIN, self.y - 5.0, class, "start", &line);
        }
    }

    fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    fn panel(&mut self, case: &Case, deadline: Option<Duration>) {
        if case.forecast.rows.is_empty() {
            return;
        }
        self.lines(&case.waits, "faint", 110, 17.0);
        let rows = &case.forecast.rows[..case.forecast.rows.len().min(ROWS)];
        let latest = rows.iter().map(|row| row.start.max).max().unwrap_or_default();
        let axis = Axis::to(latest, deadline);
        self.y += 22.0;
        let top = self.y;
        // The first attempt has no row of its own, so there is one line more.
        let bottom = top + ROW * (rows.len() + 1) as f64;
        self.grid(&axis, top, bottom);
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= axis.end) {
            self.deadline(axis.x(deadline), deadline, top, bottom);
        }
        self.attempts(rows, &axis);
        self.y = bottom + 24.0;
        if rows.len() < case.forecast.rows.len() || case.forecast.more {
            self.lines("... and more attempts", "faint", 110, 17.0);
        }
    }

    fn grid(&mut self, axis: &Axis, top: f64, bottom: f64) {
        self.text(LEFT - 12.0, top - 6.0, "faint", "end", "attempt");
        for tick in axis.ticks() {
            let x = axis.x(tick);
            let _ = writeln!(
                self.body,
                r#"<line x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}" class="grid"/>"#
            );
            let label = if tick.is_zero() { "0".into() } else { Human(tick).to_string() };
            self.text(x, bottom + 16.0, "faint", "middle", &label);
        }
    }

    fn attempts(&mut self, rows: &[Row], axis: &Axis) {
        self.line_of_attempt(1);
        self.dot(axis.x(Duration::ZERO), 1.0);
        for row in rows {
            self.line_of_attempt(row.attempt);
            let middle = self.y - ROW / 2.0;
            let [min, p50, max] =
                [row.start.min, row.start.p50, row.start.max].map(|at| axis.x(at));
            let (x, y, width) = (min - 4.0, middle - 4.0, max - min + 8.0);
            let _ = writeln!(
                self.body,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="8" rx="4" class="bar"/>"#
            );
            self.dot(p50, 0.3 + 0.7 * row.reached);
            let mut label = words::time(about(row.start.p50));
            if row.reached < 1.0 {
                let _ = write!(label, " ({})", words::percent(row.reached));
            }
            self.text(max + 10.0, middle + 4.0, "faint halo", "start", &label);
        }
    }

    fn line_of_attempt(&mut self, attempt: u32) {
        self.y += ROW;
        let baseline = self.y - ROW / 2.0 + 4.0;
        self.text(LEFT - 12.0, baseline, "plain", "end", &attempt.to_string());
    }

    fn dot(&mut self, x: f64, opacity: f64) {
        let y = self.y - ROW / 2.0;
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="dot" opacity="{opacity:.2}"/>"#
        );
    }

    fn deadline(&mut self, x: f64, deadline: Duration, top: f64, bottom: f64) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}" class="late"/>"#
        );
        let label = format!("max_elapsed {}", Human(deadline));
        self.text(x, top - 6.0, "late-text", "middle", &label);
    }

    fn finish(self, title: &str) -> String {
        let (title, height) = (escape(title), self.y + MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"page\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Distances between ticks that people count in: a unit in milliseconds, and how many of it.
const STEPS: [(u64, &[u64]); 5] = [
    (1, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (1_000, &[1, 2, 5, 10, 15, 30]),
    (60_000, &[1, 2, 5, 10, 15, 30]),
    (3_600_000, &[1, 2, 3, 6, 12]),
    (86_400_000, &[1, 2, 5, 10, 30, 100, 365]),
];

/// How many ticks an axis has at most, besides 0.
const TICKS: u128 = 6;

impl Axis {
    /// An axis that ends with the latest attempt, or a little later where the deadline is near.
    fn to(latest: Duration, deadline: Option<Duration>) -> Self {
        let near = |deadline: &Duration| *deadline <= latest.saturating_mul(3) / 2;
        let end = deadline.filter(near).unwrap_or_default().max(latest);
        Axis { end: end.max(Duration::from_millis(1)) }
    }

    fn x(&self, time: Duration) -> f64 {
        LEFT + (RIGHT - LEFT) * (time.as_secs_f64() / self.end.as_secs_f64())
    }

    fn ticks(&self) -> impl Iterator<Item = Duration> {
        let few = |step: &Duration| self.end.as_nanos() / step.as_nanos() <= TICKS;
        let of_unit = |(unit, many): &(u64, &'static [u64])| {
            let unit = *unit;
            many.iter().map(move |many| Duration::from_millis(unit * many))
        };
        let years = self.end / u32::try_from(TICKS).unwrap_or(1);
        let step = STEPS.iter().flat_map(of_unit).find(few).unwrap_or(years);
        let end = self.end;
        std::iter::successors(Some(Duration::ZERO), move |tick| tick.checked_add(step))
            .take_while(move |tick| *tick <= end)
    }
}

/// Breaks text into lines of about `width` characters, between words where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let length = lines.last().map_or(0, |line| line.chars().count());
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.extend(word.chars().take(width));
        }
    }
    lines
}

/// Text that may stand in XML.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn ticks(end: Duration) -> Vec<String> {
        Axis::to(end, None).ticks().map(|tick| Human(tick).to_string()).collect()
    }

    #[test]
    fn ticks_are_round_from_milliseconds_to_years() {
        assert_eq!(
            ticks(Duration::from_millis(12)),
            ["0ms", "2ms", "4ms", "6ms", "8ms", "10ms", "12ms"]
        );
        assert_eq!(ticks(Duration::from_secs(15)), ["0ms", "5s", "10s", "15s"]);
        assert_eq!(
            ticks(Duration::from_secs(200)),
            ["0ms", "30s", "1m", "1m 30s", "2m", "2m 30s", "3m"]
        );
        assert_eq!(ticks(Duration::from_secs(90_000)), ["0ms", "6h", "12h", "18h", "1d"]);
        assert_eq!(ticks(Duration::from_secs(20 * 86_400)), ["0ms", "5d", "10d", "15d", "20d"]);
        for end in [Duration::ZERO, Duration::from_secs(100 * 365 * 86_400), Duration::MAX] {
            assert!((1..=7).contains(&ticks(end).len()), "{end:?}");
        }
    }

    #[test]
    fn a_deadline_is_drawn_only_where_it_is_near() {
        let latest = Duration::from_secs(100);
        assert_eq!(Axis::to(latest, Some(Duration::from_secs(120))).end, Duration::from_secs(120));
        assert_eq!(Axis::to(latest, Some(Duration::from_secs(900))).end, latest);
        assert_eq!(Axis::to(latest, Some(Duration::from_secs(50))).end, latest);
    }

    #[test]
    fn long_text_is_broken_between_words() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("unbreakable", 5), ["unbre"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn names_cannot_break_out_of_the_drawing() {
        assert_eq!(
            escape("<b a=\"1\">&\u{0}\u{ffff}"),
            "&lt;b a=&quot;1&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }
}
