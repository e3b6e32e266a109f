//! Shows how the orders go: lines that are redrawn in place, or one line for each thing that
//! happens where nobody could redraw, or nothing.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::Style;
use resurgam::{AttemptOutcome, AttemptRow, PendingCall, Timestamp};

use super::order::MAX_ATTEMPTS;
use super::report;
use super::view::{Open, View};
use crate::style::{FAINT, GOOD, STRONG, WARNING};
use crate::terminal::{Part, painted, redrawn, size};

/// The width of the bar.
const BAR: usize = 20;

/// Lines of the terminal that are not for orders: the bar, two counts, and the cursor.
const OTHER_LINES: usize = 4;

#[derive(Debug)]
pub(super) enum Screen {
    /// Redrawn in place; so many lines were drawn.
    Live { since: Timestamp, drawn: usize },
    /// A line for each thing that happens, without colours; these were told.
    Plain { since: Timestamp, told: HashMap<String, Told> },
    /// Standard output is for a program.
    Silent,
}

/// What was told about an order: the last attempt of a call, and whether it is done.
#[derive(Debug, Default)]
pub(super) struct Told {
    attempts: HashMap<u64, u32>,
    done: bool,
}

impl Screen {
    /// The screen that suits standard output.
    pub(super) fn new(json: bool, plain: bool, since: Timestamp) -> Self {
        // Where colours are left out, the codes that move the cursor would be too.
        let colours = anstream::stdout().current_choice() != anstream::ColorChoice::Never;
        match (json, !plain && colours && io::stdout().is_terminal()) {
            (true, _) => Screen::Silent,
            (_, true) => Screen::Live { since, drawn: 0 },
            _ => Screen::Plain { since, told: HashMap::new() },
        }
    }

    /// Says a sentence to people, if there are any.
    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        match self {
            Screen::Silent => Ok(()),
            Screen::Live { .. } => print(text),
            Screen::Plain { .. } => print(&anstream::adapter::strip_str(text).to_string()),
        }
    }

    /// Shows the orders at a moment.
    pub(super) fn show(&mut self, view: &View) -> io::Result<()> {
        match self {
            Screen::Silent => Ok(()),
            Screen::Live { since, drawn } => {
                let lines = live(view, view.now.since(*since), size(io::stdout()));
                let text = redrawn(*drawn, &lines);
                *drawn = lines.len();
                print(&text)
            }
            Screen::Plain { since, told } => print(&plain(view, *since, told)),
        }
    }

    /// Makes room for the end: takes away what was drawn in place.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        match self {
            Screen::Live { drawn, .. } => print(&redrawn(std::mem::take(drawn), &[])),
            Screen::Plain { .. } => print("\n"),
            Screen::Silent => Ok(()),
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The bar, a line for each order at work, as many as fit, and how many others there are.
fn live(view: &View, elapsed: Duration, (width, height): (usize, usize)) -> Vec<String> {
    let (idle, busy): (Vec<&Open>, Vec<&Open>) = view.open.iter().partition(|open| open.is_idle());
    let fit = height.saturating_sub(OTHER_LINES).max(1).min(busy.len());
    let (shown, others) = busy.split_at(fit);
    let mut lines = vec![bar(view, elapsed)];
    lines.extend(shown.iter().map(|open| line(open, view.now)));
    for (number, what) in
        [(others.len(), "more at work"), (idle.len(), "waiting for free hands in the warehouse")]
    {
        lines.extend((number > 0).then(|| vec![(FAINT, format!("  + {number} {what}"))]));
    }
    lines.iter().map(|line| painted(line, width)).collect()
}

fn bar(view: &View, elapsed: Duration) -> Vec<Part> {
    let all = view.orders.len().max(1);
    let filled = view.done() * BAR / all;
    let failed = match view.failed() {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    let (done, open) = (view.done(), view.open.len());
    vec![
        (GOOD, format!("[{}", "#".repeat(filled))),
        (FAINT, format!("{}]", "-".repeat(BAR - filled))),
        (STRONG, format!(" {done} of {all} orders done{failed}, {open} to go")),
        (FAINT, format!("  {}", seconds(elapsed))),
    ]
}

/// Where an order is.
fn line(open: &Open, now: Timestamp) -> Vec<Part> {
    let mut parts = vec![(Style::new(), format!("  {:<9} ", open.id))];
    let Some(call) = open.call() else {
        parts.push((FAINT, "takes its next step".to_string()));
        return parts;
    };
    let activity = match open.pending.len() {
        1 => call.activity.clone(),
        calls => format!("{} x{calls}", call.activity),
    };
    parts.push((STRONG, format!("{activity:<11}")));
    parts.push(state(call, now));
    parts.extend(call.last.as_ref().map(|row| (FAINT, trouble(row))));
    parts
}

fn state(call: &PendingCall, now: Timestamp) -> Part {
    let (style, text) = match call.next_due {
        None if call.attempt < 2 => (GOOD, "runs".to_string()),
        None => (GOOD, format!("{} runs", number(call.attempt))),
        Some(due) if due <= now => (WARNING, format!("{} now", number(call.attempt + 1))),
        Some(due) => {
            let wait = seconds(due.since(now));
            (WARNING, format!("{} in {wait}", number(call.attempt + 1)))
        }
    };
    (style, format!("{text:<24}"))
}

/// Which attempt. Those that were lost are numbered and use up nothing, so there can be more than
/// the policy allows.
fn number(attempt: u32) -> String {
    match attempt {
        1..=MAX_ATTEMPTS => format!("attempt {attempt} of {MAX_ATTEMPTS}"),
        _ => format!("attempt {attempt}"),
    }
}

/// Why the last attempt did not succeed, in few words.
fn trouble(row: &AttemptRow) -> String {
    match (row.outcome, &row.failure) {
        (AttemptOutcome::Lost, _) => "lost with its process".to_string(),
        (AttemptOutcome::Interrupted, _) => "interrupted by a stop".to_string(),
        (_, Some(failure)) => failure.to_string(),
        (outcome, None) => outcome.name().to_string(),
    }
}

/// A line for each attempt that failed and each order that ended since the last look, by time.
fn plain(view: &View, since: Timestamp, told: &mut HashMap<String, Told>) -> String {
    let mut news: Vec<(Timestamp, String)> = Vec::new();
    for open in &view.open {
        let told = told.entry(open.id.clone()).or_default();
        for call in &open.pending {
            let Some(row) = call.last.as_ref().filter(|row| row.ended_at >= since) else {
                continue;
            };
            if told.attempts.insert(call.seq.0, row.attempt) != Some(row.attempt) {
                news.push((row.ended_at, format!("{:<9} {}", open.id, attempt(row))));
            }
        }
    }
    for row in view.orders.iter().filter(|row| row.status.is_closed()) {
        let Some(closed) = row.closed_at.filter(|closed| *closed >= since) else { continue };
        let told = told.entry(row.id.clone()).or_default();
        if !std::mem::replace(&mut told.done, true) {
            let failure = report::failure(row).map(|failure| format!(": {failure}"));
            let end = format!("{}{}", row.status.name(), failure.unwrap_or_default());
            news.push((closed, format!("{:<9} {end}", row.id)));
        }
    }
    news.sort();
    let line =
        |(at, text): &(Timestamp, String)| format!("{:>5} {text}\n", seconds(at.since(since)));
    news.iter().map(line).collect()
}

fn attempt(row: &AttemptRow) -> String {
    let next = row.delay_ms.map(|delay| {
        let delay = seconds(Duration::from_millis(delay));
        format!("; again in {delay}")
    });
    let AttemptRow { name, attempt, outcome, .. } = row;
    let number = number(*attempt);
    let what = match outcome {
        AttemptOutcome::Failed => format!("failed: {}", trouble(row)),
        _ => trouble(row),
    };
    format!("{name} {number} {what}{}", next.unwrap_or_default())
}

/// `1.2s`: tenths do not jump about.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use resurgam::retry::Counters;
    use resurgam::{InstanceRow, Payload, WaitsFor};
    use resurgam_core::{Seq, Uid};
    use resurgam_watchdog::test;

    use super::*;

    fn order(number: usize) -> InstanceRow {
        let id = format!("order-{number}");
        let input = Payload::null();
        InstanceRow::new(Uid(number as u128), id, "demo.order", input, Timestamp::EPOCH)
    }

    /// Orders of which each makes one call at this attempt.
    fn view(attempts: impl Iterator<Item = u32>) -> View {
        let mut view = View { now: Timestamp::EPOCH, orders: Vec::new(), open: Vec::new() };
        for (number, attempt) in attempts.enumerate() {
            view.orders.push(order(number));
            let call = PendingCall {
                activity: "charge".to_string(),
                seq: Seq(2),
                queue: "default".to_string(),
                priority: 0,
                policy: None,
                attempt,
                counters: Counters::default(),
                running: false,
                started_at: None,
                next_due: Some(Timestamp::from_millis(1_234)),
                waits_for: Some(WaitsFor::Backoff),
                deadline: None,
                cancelled: false,
                heartbeat: None,
                lacks: None,
                gate: "charge".to_string(),
                held_by: None,
                behind: None,
                paused: None,
                pause_asked: None,
                fallback_of: None,
                last: None,
            };
            view.open.push(Open { id: format!("order-{number}"), pending: vec![call] });
        }
        view
    }

    fn lines(view: &View, size: (usize, usize)) -> Vec<String> {
        let lines = live(view, Duration::from_millis(90), size);
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn orders_that_wait_for_a_slot_are_a_count() {
        let lines = lines(&view([1, 0, 0].into_iter()), (80, 24));
        assert_eq!(
            lines,
            [
                "[--------------------] 0 of 3 orders done, 3 to go  0.1s",
                "  order-0   charge     attempt 2 of 6 in 1.2s  ",
                "  + 2 waiting for free hands in the warehouse",
            ]
        );
    }

    #[test]
    fn any_number_of_orders_fits_the_terminal() {
        for size in [(80, 24), (20, 8), (1, 1)] {
            let lines = lines(&view((0..1000).map(|number| number % 3)), size);
            // One line of orders is shown wherever there is a terminal at all.
            assert!(lines.len() < size.1.max(5), "{size:?}: {}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() < size.0.max(2)), "{lines:?}");
        }
    }
}
