//! Tells people what a policy does: a sentence, a table for each schedule, the longest outage it
//! bridges, its rules and its lints.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use resurgam_core::duration::Human;
use resurgam_core::retry::forecast::{Forecast, Quantiles, Row};
use resurgam_core::retry::{CheckedPolicy, Limit};
use resurgam_policy::outlook::{Case, Outlook};
use resurgam_policy::words::{self, about};

use super::source::Loaded;
use crate::style::{FAINT, STRONG, WARNING};

/// A table that is longer than this is cut.
const LONG_TABLE: usize = 25;

/// To this many rows.
const SHORT_TABLE: usize = 20;

/// The explanation for people, with colours for a terminal.
pub(crate) fn text(loaded: &Loaded, attempt_time: Duration) -> String {
    let policy = &loaded.policy;
    let outlook = Outlook::of(policy, attempt_time);
    let mut out = format!("{STRONG}{}{STRONG:#}\n", outlook.sentence());
    if !attempt_time.is_zero() {
        let _ = writeln!(out, "Every attempt is taken to last {}.", Human(attempt_time));
    }
    for case in &outlook.cases {
        if outlook.cases.len() > 1 {
            let _ = writeln!(out, "\n{STRONG}For {}{STRONG:#}\n{}", case.title, case.sentence);
        }
        out.push_str(&case_text(policy, case));
    }
    if outlook.left_out > 0 {
        let _ = writeln!(out, "\n... and {} more schedules", outlook.left_out);
    }
    out.push_str(&rules_text(policy));
    out.push_str(&timeouts_text(policy));
    out.push_str(&warnings_text(loaded));
    out
}

fn case_text(policy: &CheckedPolicy, case: &Case) -> String {
    let forecast = &case.forecast;
    if forecast.rows.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n\n", case.waits);
    out.push_str(&table(forecast));
    if let Some(more) = rows_left_out(forecast) {
        let _ = writeln!(out, "{FAINT}{more}{FAINT:#}");
    }
    if let Some(never) = never_made(forecast) {
        let _ = writeln!(out, "{never}");
    }
    let _ = writeln!(out, "\nLongest outage bridged: {}", outage(policy, forecast));
    out
}

fn table(forecast: &Forecast) -> String {
    let late = forecast.rows.iter().any(|row| row.reached < 1.0);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["attempt", "delay min", "p50", "p95", "max", "starts (p50)"];
    if late {
        header.push("deadline");
    }
    table.set_header(header);
    table.add_row(["1", "", "", "", "", "0s"]);
    for row in &forecast.rows[..rows_shown(forecast)] {
        let mut cells = cells(row);
        if late {
            cells.push(deadline_mark(row));
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.trim_fmt();
    let (header, rows) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{FAINT}{header}{FAINT:#}\n{rows}\n")
}

fn cells(row: &Row) -> Vec<String> {
    let Quantiles { min, p50, p95, max, .. } = row.delay;
    let delays = [min, p50, p95, max].map(Human);
    let times = delays.into_iter().chain([about(row.start.p50)]);
    std::iter::once(row.attempt.to_string()).chain(times.map(words::time)).collect()
}

/// The share of runs that come this far before their time is up, where not all do.
fn deadline_mark(row: &Row) -> String {
    match row.reached {
        reached if reached >= 1.0 => String::new(),
        reached => format!("{} reach it", words::percent(reached)),
    }
}

fn rows_shown(forecast: &Forecast) -> usize {
    match forecast.rows.len() {
        rows if rows <= LONG_TABLE => rows,
        _ => SHORT_TABLE,
    }
}

fn rows_left_out(forecast: &Forecast) -> Option<String> {
    let shown = rows_shown(forecast);
    match forecast.max_attempts {
        Limit::Attempts(max) if forecast.more => {
            let shown = u32::try_from(shown).unwrap_or(u32::MAX).saturating_add(1);
            Some(format!("... and up to {} more", max.get().saturating_sub(shown)))
        }
        Limit::Unlimited if forecast.more => Some("... and so on".into()),
        _ if shown < forecast.rows.len() => {
            Some(format!("... and {} more", forecast.rows.len() - shown))
        }
        _ => None,
    }
}

/// The attempts that no run makes, because its time is up before.
fn never_made(forecast: &Forecast) -> Option<String> {
    let Limit::Attempts(max) = forecast.max_attempts else { return None };
    let last = forecast.rows.last()?;
    let (first, max) = (last.attempt.saturating_add(1), max.get());
    if forecast.more || max < first {
        return None;
    }
    let spread = forecast.rows.iter().any(|row| row.start.min < row.start.max);
    let never = if spread { "almost never" } else { "never" };
    let attempts = match max - first {
        0 => format!("Attempt {max} is"),
        _ => format!("Attempts {first} to {max} are"),
    };
    Some(format!("{attempts} {never} made: the time is up before."))
}

fn outage(policy: &CheckedPolicy, forecast: &Forecast) -> String {
    let bounded = policy.max_elapsed.is_some() || policy.timeouts.total.is_some();
    let seen = forecast.rows.last().map_or(Duration::ZERO, |row| row.start.p50);
    match forecast.outage {
        Some(Quantiles { p5, p50, p95, .. }) => {
            let [p5, p50, p95] = [p5, p50, p95].map(|time| words::time(about(time)));
            // Where luck makes no difference that anybody would see, one number is enough.
            if p5 == p95 { p50 } else { format!("{p50} (p50), {p5} (p5), {p95} (p95)") }
        }
        None if forecast.max_attempts == Limit::Unlimited && !bounded => "any".into(),
        None => format!("more than {}", about(seen)),
    }
}

fn rules_text(policy: &CheckedPolicy) -> String {
    let lines = words::rules(policy);
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{STRONG}Which failures{STRONG:#} (the first match wins)\n  {}\n", lines.join("\n  "))
}

fn timeouts_text(policy: &CheckedPolicy) -> String {
    let timeouts = policy.timeouts;
    let given = [
        ("attempt", timeouts.attempt),
        ("heartbeat", timeouts.heartbeat),
        ("queue", timeouts.queue),
        ("total", timeouts.total),
    ];
    let given: Vec<String> = given
        .into_iter()
        .filter_map(|(name, time)| Some(format!("{name} {}", Human(time?))))
        .collect();
    if given.is_empty() {
        return String::new();
    }
    format!("\n{STRONG}Timeouts{STRONG:#}\n  {}\n", given.join(", "))
}

fn warnings_text(loaded: &Loaded) -> String {
    let warnings = super::check::warnings(loaded);
    if warnings.is_empty() {
        return String::new();
    }
    format!("\n{WARNING}Warnings{WARNING:#}\n  {}\n", warnings.join("\n  "))
}
