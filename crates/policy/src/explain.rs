//! What a policy does: a sentence, its schedules, the longest outage that it bridges, its rules and
//! its lints.

use std::time::Duration;

use resurgam_core::retry::forecast::{Quantiles, Row};
use resurgam_core::retry::{CheckedPolicy, Limit, Matched, lint};
use serde::Serialize;

use crate::check::LintJson;
use crate::outlook::{Case, Outlook};
use crate::words;

/// What a policy does.
#[derive(Debug, Serialize)]
pub struct Explanation<'a> {
    sentence: String,
    schedules: Vec<ScheduleJson>,
    schedules_left_out: usize,
    rules: Vec<String>,
    lints: Vec<LintJson>,
    notes: &'a [String],
}

impl<'a> Explanation<'a> {
    /// Explains a policy whose attempts last so long each.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    /// use resurgam_policy::explain::Explanation;
    /// use serde_json::json;
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::once().check().unwrap();
    /// let told = json!(Explanation::of(&policy, &[], Duration::ZERO));
    /// assert!(told["sentence"].as_str().unwrap().contains("One attempt"));
    /// ```
    pub fn of(policy: &CheckedPolicy, notes: &'a [String], attempt_time: Duration) -> Self {
        let outlook = Outlook::of(policy, attempt_time);
        Explanation {
            sentence: outlook.sentence(),
            schedules: outlook.cases.iter().map(|case| ScheduleJson::of(policy, case)).collect(),
            schedules_left_out: outlook.left_out,
            rules: words::rules(policy),
            lints: lint::lint(policy).iter().map(LintJson::from).collect(),
            notes,
        }
    }
}

#[derive(Debug, Serialize)]
struct ScheduleJson {
    /// `otherwise` and `rules[2]`: whose failures follow it.
    for_failures_of: Vec<String>,
    title: String,
    sentence: String,
    max_attempts: Limit,
    attempts: Vec<AttemptJson>,
    /// True when there are more attempts than are listed.
    more: bool,
    /// Absent when there are more attempts than are listed.
    longest_outage_ms: Option<QuantilesJson>,
    deadline_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct AttemptJson {
    attempt: u32,
    delay_ms: QuantilesJson,
    start_ms: QuantilesJson,
    /// The share of runs in which the deadline still allows it.
    reached: f64,
}

#[derive(Debug, Serialize)]
struct QuantilesJson {
    min: u64,
    p5: u64,
    p50: u64,
    p95: u64,
    max: u64,
}

impl ScheduleJson {
    fn of(policy: &CheckedPolicy, case: &Case) -> Self {
        let name = |matched: &Matched| match matched {
            Matched::Rule(index) => format!("rules[{index}]"),
            Matched::NeverFor | Matched::Nothing => "otherwise".into(),
        };
        let attempt = |row: &Row| AttemptJson {
            attempt: row.attempt,
            delay_ms: row.delay.into(),
            start_ms: row.start.into(),
            reached: row.reached,
        };
        ScheduleJson {
            for_failures_of: case.matched.iter().map(name).collect(),
            title: case.title.clone(),
            sentence: case.sentence.clone(),
            max_attempts: case.forecast.max_attempts,
            attempts: case.forecast.rows.iter().map(attempt).collect(),
            more: case.forecast.more,
            longest_outage_ms: case.forecast.outage.map(QuantilesJson::from),
            deadline_ms: policy.max_elapsed.map(millis),
        }
    }
}

impl From<Quantiles> for QuantilesJson {
    fn from(of: Quantiles) -> Self {
        QuantilesJson {
            min: millis(of.min),
            p5: millis(of.p5),
            p50: millis(of.p50),
            p95: millis(of.p95),
            max: millis(of.max),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
