//! The guide `docs/schedules.md` says what the code does.
//!
//! Tables between `<!-- table: name -->` and `<!-- end -->` are made by the code and compared;
//! `UPDATE_EXPECT=1` rewrites them. Every JSON example is read by the code.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::duration::Human;
use resurgam_core::schedule::{
    BACKFILL, CATCH_UP, Decision, Overlap, Rule, SHORTEST, Schedule, State, decide,
};
use resurgam_watchdog::test;

use crate::guide::Guide;

const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("buffer_one", Overlap::BufferOne), ("allow", Overlap::Allow)];

fn guide() -> Guide {
    Guide::named("schedules.md")
}

#[test]
fn the_tables_of_the_guide_are_made_by_the_code() {
    guide().check_tables(table);
}

#[test]
fn every_example_of_the_guide_is_accepted_by_the_code() {
    let text = guide().text();
    let examples: Vec<&str> =
        text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    for example in &examples {
        let schedule: Schedule = serde_json::from_str(example).unwrap();
        schedule.check().unwrap();
    }
    assert_eq!(examples.len(), 2);
}

#[test]
fn the_numbers_in_the_guide_are_those_of_the_code() {
    let schedule = Schedule::new("a", Rule::cron("@daily"));
    assert_eq!((schedule.overlap, schedule.catch_up), (Overlap::Skip, CATCH_UP));
    assert_eq!(schedule.jitter, Duration::ZERO);
    let numbers = (CATCH_UP.as_secs(), SHORTEST.as_secs(), BACKFILL);
    assert_eq!(numbers, (60, 1, 10_000));
}

fn table(name: &str) -> String {
    match name {
        "expressions" => expressions(),
        "changes" => changes(),
        "overlap" => overlap(),
        "downtime" => downtime(),
        "jitter" => jitter(),
        _ => panic!("no table {name}"),
    }
}

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn at(text: &str) -> Timestamp {
    Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn shown(time: Timestamp, zone: &str, form: &str) -> String {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap();
    time.to_zoned(zone).strftime(form).to_string()
}

/// The next firings of a few expressions.
fn expressions() -> String {
    let expressions = [
        "0 9 * * MON-FRI",
        "*/20 8-17 * * *",
        "0 0 1,15 * *",
        "0 0 L * *",
        "0 6 15W * *",
        "0 0 * * MON#2",
        "0 0 * * FRIL",
        "0 0 13 * FRI",
        "0 0 29 2 *",
        "30 0 0 * * *",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
    ];
    let mut text = row(&["expression", "next firings"]) + &row(&["---", "---"]);
    for expression in expressions {
        let rule = Rule::cron(expression).check().unwrap();
        let firings = rule.firings(at("2026-10-29T12:00:00Z"), Timestamp::from_millis(i64::MAX));
        let form = if expression.starts_with("30 ") { "%H:%M:%S" } else { "%H:%M" };
        let form = format!("%a %Y-%m-%d {form}");
        let firings: Vec<String> = firings.take(3).map(|time| shown(time, "UTC", &form)).collect();
        text += &row(&[&format!("`{expression}`"), &firings.join(", ")]);
    }
    text
}

/// What fires around the changes of a few clocks.
fn changes() -> String {
    let rows = [
        ("30 2 * * *", "Europe/Berlin", "2026-03-29", "forward, 02:00 to 03:00"),
        ("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29", "forward, 02:00 to 03:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", "back, 03:00 to 02:00"),
        ("0,30 2,3 * * *", "Europe/Berlin", "2026-10-25", "back, 03:00 to 02:00"),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", "forward, 02:00 to 02:30"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", "back, 02:00 to 01:30"),
        ("0 0 * * *", "Africa/Cairo", "2026-04-24", "forward, 00:00 to 01:00"),
        ("*/20 1-3 * * *", "Europe/Berlin", "2026-03-29", "forward, 02:00 to 03:00"),
        ("*/20 1-3 * * *", "Europe/Berlin", "2026-10-25", "back, 03:00 to 02:00"),
    ];
    let head = ["expression", "zone", "day", "the clock goes", "fires at"];
    let mut text = row(&head) + &row(&["---"; 5]);
    for (expression, zone, day, change) in rows {
        let rule = Rule::cron(expression).in_zone(zone).check().unwrap();
        let noon = at(&format!("{day}T12:00:00Z"));
        let day_before = noon.saturating_sub(Duration::from_secs(48 * 3600));
        let firings: Vec<String> = rule
            .firings(day_before, noon)
            .filter(|time| shown(*time, zone, "%Y-%m-%d") == day)
            .map(|time| shown(time, zone, "%H:%M%:::z"))
            .collect();
        let expression = format!("`{expression}`");
        text += &row(&[&expression, zone, day, change, &firings.join(", ")]);
    }
    text
}

/// What a decision does to firings, by their minute.
fn told(decision: &Decision) -> String {
    let minute = |time: &Timestamp| shown(*time, "UTC", "%H:%M");
    let mut parts = Vec::new();
    if !decision.start.is_empty() {
        let starts: Vec<String> = decision.start.iter().map(minute).collect();
        parts.push(format!("starts {}", starts.join(", ")));
    }
    for (count, word) in [(decision.missed, "missed"), (decision.skipped, "skipped")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if let Some(buffered) = decision.state.buffered {
        parts.push(format!("{} is buffered", minute(&buffered)));
    }
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

/// A schedule of every minute whose first instance stays open for more than two.
fn overlap() -> String {
    let wakes = [
        ("09:01:00", false, "the first firing"),
        ("09:02:00", true, "a firing, the first instance is open"),
        ("09:03:00", true, "another, it is still open"),
        ("09:03:20", false, "it closes"),
    ];
    let head: Vec<String> = OVERLAPS.iter().map(|(name, _)| format!("`\"{name}\"`")).collect();
    let mut text = row(&["time", "event", &head[0], &head[1], &head[2]]) + &row(&["---"; 5]);
    let mut states = OVERLAPS.map(|_| State::new(at("2026-01-01T09:00:30Z")));
    for (time, open, event) in wakes {
        let now = at(&format!("2026-01-01T{time}Z"));
        let mut cells = vec![time.to_string(), event.to_string()];
        for ((_, overlap), state) in OVERLAPS.iter().zip(&mut states) {
            let schedule = Schedule::new("m", Rule::cron("* * * * *")).overlap(*overlap);
            let decision = decide(&schedule.check().unwrap(), state, now, open);
            cells.push(told(&decision));
            *state = decision.state;
        }
        text += &row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// A schedule of every minute after an hour without anybody.
fn downtime() -> String {
    let head: Vec<String> = OVERLAPS.iter().map(|(name, _)| format!("`\"{name}\"`")).collect();
    let mut text = row(&["catch_up", &head[0], &head[1], &head[2]]) + &row(&["---"; 4]);
    for (name, seconds) in [("1m", 60), ("4m", 240)] {
        let mut cells = vec![format!("`\"{name}\"`")];
        for (_, overlap) in OVERLAPS {
            let schedule = Schedule::new("m", Rule::cron("* * * * *"))
                .overlap(overlap)
                .catch_up(Duration::from_secs(seconds))
                .check()
                .unwrap();
            let state = State::new(at("2026-01-01T08:00:00Z"));
            cells.push(told(&decide(&schedule, &state, at("2026-01-01T09:00:30Z"), false)));
        }
        text += &row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// The delays of three schedules of the same hour.
fn jitter() -> String {
    let hours = ["09:00", "10:00", "11:00"];
    let mut text = row(&["schedule, `jitter` 30s", "09:00", "10:00", "11:00"]) + &row(&["---"; 4]);
    for id in ["report", "invoices", "cleanup"] {
        let schedule = Schedule::new(id, Rule::cron("0 * * * *"))
            .jitter(Duration::from_secs(30))
            .check()
            .unwrap();
        let delays = hours.map(|hour| {
            let nominal = at(&format!("2026-01-01T{hour}:00Z"));
            format!("+{}", Human(schedule.due_at(nominal).since(nominal)))
        });
        text += &row(&[&format!("`{id}`"), &delays[0], &delays[1], &delays[2]]);
    }
    text
}
