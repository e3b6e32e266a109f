//! The guide `docs/retries.md` says what the code does.
//!
//! Tables between `<!-- table: name -->` and `<!-- end -->` are made by the code and compared;
//! `UPDATE_EXPECT=1` rewrites them. Every JSON and TOML example is read by the code; a word after
//! `json` names the dialect.

use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::schedule::{Spread, spread};
use resurgam_core::retry::{
    CapOrder, DeadlineRule, Decision, Jitter, Limit, RetryPolicy, State, decide, forecast, preset,
};
use resurgam_core::{Failure, Timestamp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::guide::Guide;

/// How many attempts of a preset are listed before the last one.
const LISTED: usize = 10;

fn guide() -> Guide {
    Guide::named("retries.md")
}

#[test]
fn the_tables_of_the_guide_are_made_by_the_code() {
    guide().check_tables(table);
}

#[test]
fn every_preset_has_its_table_and_every_lint_its_row() {
    let text = guide().text();
    for (name, _) in preset::ALL {
        assert!(text.contains(&format!("<!-- table: preset {name} -->")), "{name}");
    }
    for lint in 1..=8 {
        assert!(text.contains(&format!("| W{lint} |")), "W{lint}");
    }
}

#[test]
fn every_example_of_the_guide_is_accepted_by_the_code() {
    let mut read = 0;
    for (info, example) in examples() {
        let result = match info.split(' ').collect::<Vec<_>>()[..] {
            ["json"] => accepted(Dialect::Canonical, &serde_json::from_str(&example).unwrap()),
            ["json", dialect] => accepted(
                Dialect::named(dialect).unwrap_or_else(|| panic!("no dialect {dialect}")),
                &serde_json::from_str(&example).unwrap(),
            ),
            ["toml"] => toml::from_str::<RetryPolicy>(&example).err().map(|e| e.to_string()),
            // The compiler reads these, and tests print the others.
            ["rust" | "text"] => continue,
            _ => panic!("an example in an unknown language: {info}"),
        };
        assert_eq!(result, None, "{example}");
        read += 1;
    }
    assert!(read >= 10, "only {read} examples were found");
}

/// The fenced blocks of the guide: what stands behind the fence, and the text.
fn examples() -> Vec<(String, String)> {
    let text = guide().text();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let example: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((info.to_string(), example.join("\n")));
        }
    }
    found
}

/// What is wrong with a configuration, if something is.
fn accepted(dialect: Dialect, config: &Value) -> Option<String> {
    dialect.import(config).err().map(|problems| problems.to_string())
}

fn table(name: &str) -> String {
    match name.split(' ').collect::<Vec<_>>()[..] {
        ["preset", name] => preset_table(&preset::named(name).unwrap()),
        ["backoffs"] => backoff_table(),
        ["jitters"] => jitter_table(),
        ["caps"] => cap_table(),
        ["deadlines"] => deadline_table(),
        _ => panic!("no table {name}"),
    }
}

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// `1s`, or `500ms to 1.5s`.
fn range(shortest: Duration, longest: Duration) -> String {
    let (shortest, longest) = (Human(shortest).to_string(), Human(longest).to_string());
    if shortest == longest { shortest } else { format!("{shortest} to {longest}") }
}

fn of(spread: &Spread) -> String {
    let (shortest, longest) = spread.bounds();
    range(shortest, longest)
}

/// Every attempt of a policy when all of them fail at once.
fn preset_table(policy: &RetryPolicy) -> String {
    let policy = policy.check().unwrap();
    let shortest = forecast::schedule(&policy, policy.assumed(), 0.0, Duration::ZERO);
    let longest = forecast::schedule(&policy, policy.assumed(), 1.0, Duration::ZERO);
    let mut text = row(&["attempt", "waits", "begins after"]) + &row(&["---:", "---", "---"]);
    text += &row(&["1", "-", "at once"]);
    let (mut least, mut most) = (Duration::ZERO, Duration::ZERO);
    let steps = shortest.steps.iter().zip(&longest.steps).enumerate();
    let last = shortest.steps.len() - 1;
    for (index, (short, long)) in steps {
        least += short.delay;
        most += long.delay;
        if index < LISTED - 1 || (index == last && !shortest.more) {
            let (attempt, wait) = ((index + 2).to_string(), range(short.delay, long.delay));
            text += &row(&[&attempt, &wait, &range(least, most)]);
        } else if index == LISTED - 1 {
            text += &row(&["...", "", ""]);
        }
    }
    text
}

/// The first delays of every backoff, without jitter and cap.
fn backoff_table() -> String {
    let backoffs = [
        r#"{"type": "none"}"#,
        r#"{"type": "fixed", "delay": "2s"}"#,
        r#"{"type": "linear", "initial": "1s"}"#,
        r#"{"type": "linear", "initial": "1s", "increment": "500ms"}"#,
        r#"{"type": "exponential", "initial": "1s"}"#,
        r#"{"type": "exponential", "initial": "1s", "multiplier": 1.5}"#,
        r#"{"type": "polynomial", "scale": "1s", "power": 2}"#,
        r#"{"type": "polynomial", "scale": "1s", "power": 4, "shift": 1, "offset": "15s"}"#,
        r#"{"type": "fibonacci", "initial": "1s"}"#,
        r#"{"type": "schedule", "delays": ["1s", "5s", "1m"]}"#,
        r#"{"type": "phases", "phases": [[3, {"type": "fixed", "delay": "100ms"}], [1, {"type": "exponential", "initial": "1s"}]]}"#,
    ];
    let mut text = row(&["backoff", "first eight delays"]) + &row(&["---", "---"]);
    for backoff in backoffs {
        let config: Value = serde_json::from_str(backoff).unwrap();
        let policy = json!({ "backoff": config, "jitter": "none" });
        let policy = RetryPolicy::from_value(&policy).unwrap();
        let delays: Vec<String> =
            (1..=8).map(|r| of(&spread(&policy.terms(None), r, None))).collect();
        text += &row(&[&format!("`{backoff}`"), &delays.join(", ")]);
    }
    text
}

/// What each jitter makes of a delay of two seconds.
fn jitter_table() -> String {
    let jitters = [
        (r#""none""#, "the delay"),
        (r#""full""#, "0 to the delay"),
        (r#""equal""#, "half the delay to the delay"),
        (r#"{"proportional": 0.5}"#, "1 - 0.5 to 1 + 0.5 times the delay"),
        (r#"{"lo": 0.9, "hi": 2}"#, "0.9 to 2 times the delay"),
        (r#"{"additive": "1s"}"#, "the delay to the delay plus 1s"),
        (r#""decorrelated""#, "`initial` to 3 times the delay before"),
    ];
    let mut text = row(&["jitter", "draws from", "of 2s"]) + &row(&["---", "---", "---"]);
    for (jitter, meaning) in jitters {
        let config: Value = serde_json::from_str(jitter).unwrap();
        let backoff = json!({"type": "exponential", "initial": "1s"});
        let policy = json!({ "backoff": backoff, "jitter": config });
        let policy = RetryPolicy::from_value(&policy).unwrap();
        // The second delay of 1 s doubled; the delay before it was 1 s.
        let spread = spread(&policy.terms(None), 2, Some(Duration::from_secs(1)));
        text += &row(&[&format!("`{jitter}`"), meaning, &of(&spread)]);
    }
    text
}

/// What each order makes of a delay of 4 s under a cap of 3 s.
fn cap_table() -> String {
    let mut text =
        row(&["cap", "draws from", "draws that are exactly 3s"]) + &row(&["---", "---", "---:"]);
    let orders = [
        ("truncate", CapOrder::Truncate),
        ("before", CapOrder::Before),
        ("after", CapOrder::After),
    ];
    for (name, cap) in orders {
        let policy = RetryPolicy::fixed(Duration::from_secs(4))
            .max_delay(Duration::from_secs(3))
            .jitter(Jitter::Proportional(0.5))
            .cap(cap);
        let spread = spread(&policy.terms(None), 1, None);
        let lost = format!("{} %", (spread.lost_at_cap() * 100.0).round());
        text += &row(&[&format!("`\"{name}\"`"), &of(&spread), &lost]);
    }
    text
}

/// What each rule decides about a wait of 10 s under a limit of a minute.
fn deadline_table() -> String {
    let elapsed = [45, 50, 55, 59, 60];
    let head: Vec<String> = elapsed.iter().map(|seconds| format!("after {seconds}s")).collect();
    let mut text = format!("| deadline | {} |\n", head.join(" | "));
    text += &format!("| --- |{}\n", " --- |".repeat(elapsed.len()));
    let rules = [
        ("look_ahead", DeadlineRule::LookAhead),
        ("check_only", DeadlineRule::CheckOnly),
        ("clip", DeadlineRule::Clip),
    ];
    for (name, rule) in rules {
        let policy = RetryPolicy::fixed(Duration::from_secs(10))
            .jitter(Jitter::None)
            .max_elapsed(Duration::from_secs(60))
            .deadline(rule)
            .check()
            .unwrap();
        let answers = elapsed.map(|seconds| {
            let (state, now) =
                (State::after(1, Timestamp::EPOCH), Timestamp::from_millis(seconds * 1_000));
            match decide(&policy, &state, &Failure::new("down"), now, 0.5) {
                Decision::Retry { delay, .. } => format!("waits {}", Human(delay)),
                Decision::Stop { .. } => "stops".to_string(),
            }
        });
        text += &format!("| `\"{name}\"` | {} |\n", answers.join(" | "));
    }
    text
}

#[test]
fn the_defaults_in_the_guide_are_those_of_the_code() {
    let default = RetryPolicy::DEFAULT;
    assert_eq!(default.max_attempts, Limit::try_from(10).unwrap());
    let example = json!({
        "max_attempts": 10,
        "backoff": {"type": "exponential", "initial": "1s", "multiplier": 2},
        "max_delay": "60s",
        "jitter": {"proportional": 0.5},
        "cap": "truncate",
        "deadline": "look_ahead",
        "clock_from": "first_scheduled",
        "timeouts": {},
        "never_for": [],
        "rules": [],
        "otherwise": "retry",
        "lost_worker": {"max": 10, "initial": "100ms", "max_delay": "10s"},
        "server_delay": {"mode": "at_least", "max": "1h", "jitter": 0.1},
        "idempotency": "unknown",
        "on_exhausted": "fail",
    });
    assert_eq!(RetryPolicy::from_value(&example).unwrap(), default);
    let shown: Vec<Value> = examples()
        .iter()
        .filter(|(info, text)| info == "json" && text.contains("clock_from"))
        .map(|(_, text)| serde_json::from_str(text).unwrap())
        .collect();
    assert_eq!(shown, [example]);
}
