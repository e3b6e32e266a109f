//! Every row of the shared test vectors, through the library.

use std::time::Duration;

use resurgam_core::retry::dialect::{Dialect, read_failure};
use resurgam_core::retry::schedule::spread;
use resurgam_core::retry::{CheckedPolicy, Decision, State, decide, forecast};
use resurgam_core::{Failure, Timestamp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../vectors/retry_vectors.json");

#[test]
fn every_row_of_the_vectors_holds() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let rows = file["vectors"].as_array().unwrap();
    assert_eq!(rows.len(), 258);
    let wrong: Vec<String> = rows.iter().filter_map(mismatch).collect();
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn mismatch(row: &Value) -> Option<String> {
    let (answer, expected) = (answer(row), &row["expected"]);
    let holds = match expected["error_names_field"].as_str() {
        Some(field) => answer["error"].as_str().is_some_and(|error| error.contains(field)),
        None => answer == *expected,
    };
    (!holds).then(|| format!("{}: expected {expected}, got {answer}", row["id"]))
}

fn answer(row: &Value) -> Value {
    let dialect = Dialect::named(row["dialect"].as_str().unwrap()).unwrap();
    let policy = match dialect.import(&row["config"]) {
        Ok(imported) => imported.policy.check().unwrap(),
        Err(problems) => return json!({ "error": problems.to_string() }),
    };
    match row["kind"].as_str().unwrap() {
        "delay" => delay(&policy, row),
        "schedule" => schedule(&policy),
        "decision" => decision(&policy, dialect, row),
        kind => json!({ "accepted": kind }),
    }
}

fn delay(policy: &CheckedPolicy, row: &Value) -> Value {
    let r = u32::try_from(row["retry_index"].as_u64().unwrap()).unwrap();
    let previous = row["previous_delay_ms"].as_u64().map(Duration::from_millis);
    let spread = spread(&policy.terms_for(policy.assumed()), r, previous);
    match (row["u"].as_f64(), spread.bounds()) {
        (Some(u), _) => json!({ "delay_ms": spread.at(u).as_millis() as u64 }),
        (None, (lo, hi)) if lo == hi => json!({ "delay_ms": lo.as_millis() as u64 }),
        (None, (lo, hi)) => {
            json!({ "delay_ms_range": [lo.as_millis() as u64, hi.as_millis() as u64] })
        }
    }
}

fn schedule(policy: &CheckedPolicy) -> Value {
    let schedule = forecast::schedule(policy, policy.assumed(), 0.5, Duration::ZERO);
    let delays: Vec<u64> = schedule.steps.iter().map(|s| s.delay.as_millis() as u64).collect();
    let total = schedule.total().as_millis() as u64;
    json!({ "attempts": schedule.attempts, "delays_ms": delays, "total_delay_ms": total })
}

fn decision(policy: &CheckedPolicy, dialect: Dialect, row: &Value) -> Value {
    let failure = match &row["error"] {
        Value::Null => Failure::new("failed"),
        error => read_failure(dialect, error).unwrap(),
    };
    if let Some(delay) = failure.snooze {
        let delay = delay.as_millis() as u64;
        return json!({ "retry": true, "delay_ms": delay, "counts_as_failure": false });
    }
    let failures = u32::try_from(row["failed_attempt"].as_u64().unwrap()).unwrap();
    let now = Timestamp::from_millis(row["elapsed_ms"].as_i64().unwrap_or(0));
    match decide(policy, &State::after(failures, Timestamp::EPOCH), &failure, now, 0.0) {
        Decision::Retry { delay, .. } => {
            json!({ "retry": true, "delay_ms": delay.as_millis() as u64 })
        }
        Decision::Stop { why } => json!({ "retry": false, "reason": why.reason.name() }),
    }
}
