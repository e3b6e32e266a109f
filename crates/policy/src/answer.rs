//! Answers one question about a policy: a JSON value in, a JSON value out.
//!
//! The questions are those of the published test vectors, so that anybody can compare us with
//! anything: which delay follows a failure, what follows it, all delays, or whether a
//! configuration is accepted at all. A question that makes no sense is answered with what is
//! wrong; fields that are not asked for here (`id`, `note`, `expected`) are passed over.

use std::time::Duration;

use resurgam_core::config::{At, Fields, Problem, Problems, nearest};
use resurgam_core::retry::dialect::{Dialect, read_failure};
use resurgam_core::retry::schedule::{Terms, spread, with_hint};
use resurgam_core::retry::{
    CheckedPolicy, Decision, Jitter, Limit, Matched, Reason, RetryPolicy, State, Verdict, decide,
    forecast,
};
use resurgam_core::{Failure, Kind, Names, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

/// The answers, in the shape of the vectors' `expected`.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The delay before another attempt.
    Delay(Delay),
    /// Another attempt follows.
    Retry {
        /// That it does.
        retry: bool,
        /// After how long.
        #[serde(flatten)]
        delay: Delay,
        /// Only said where it is not so.
        #[serde(skip_serializing_if = "Option::is_none")]
        counts_as_failure: Option<bool>,
    },
    /// No attempt follows.
    Stop {
        /// That none does.
        retry: bool,
        /// Why.
        reason: &'static str,
    },
    /// All delays.
    Schedule {
        /// How many attempts there are.
        attempts: Limit,
        /// The delays between them.
        delays_ms: Vec<u64>,
        /// The shortest and the longest of each, where they are drawn.
        #[serde(skip_serializing_if = "Option::is_none")]
        delays_ms_range: Option<Vec<[u64; 2]>>,
        /// Their sum.
        total_delay_ms: u64,
        /// There are more than are listed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// Whether a configuration is accepted.
    Valid {
        /// It is.
        valid: bool,
    },
    /// The question makes no sense.
    Error {
        /// What is wrong with it.
        error: String,
    },
}

/// One delay, or the shortest and the longest of those that may be drawn.
#[derive(Debug, PartialEq, Serialize)]
pub enum Delay {
    /// This one.
    #[serde(rename = "delay_ms")]
    Exact(u64),
    /// Between these.
    #[serde(rename = "delay_ms_range")]
    Range([u64; 2]),
}

/// What is asked.
struct Question {
    dialect: Dialect,
    kind: Ask,
    config: Value,
    retry_index: Option<u32>,
    failed_attempt: Option<u32>,
    previous_delay: Option<Duration>,
    elapsed: Duration,
    /// The random number to draw with; all of them where none is given.
    u: Option<f64>,
    error: Option<Value>,
}

#[derive(Clone, Copy, PartialEq)]
enum Ask {
    Delay,
    Decision,
    Schedule,
    Invalid,
}

const KINDS: [(&str, Ask); 4] = [
    ("delay", Ask::Delay),
    ("decision", Ask::Decision),
    ("schedule", Ask::Schedule),
    ("invalid", Ask::Invalid),
];

const FIELDS: [&str; 9] = [
    "dialect",
    "kind",
    "config",
    "retry_index",
    "failed_attempt",
    "previous_delay_ms",
    "elapsed_ms",
    "u",
    "error",
];

/// The random number of a schedule where none is given: the middle of every range.
const MIDDLE: f64 = 0.5;

/// Answers a question; whatever is wrong with it is part of the answer.
///
/// ```
/// use resurgam_policy::answer::answer;
/// use serde_json::json;
///
/// let question = json!({"dialect": "edda", "kind": "delay", "config": {}, "retry_index": 2});
/// assert_eq!(json!(answer(&question)), json!({"delay_ms": 2000}));
/// ```
pub fn answer(question: &Value) -> Answer {
    let answered = Question::read(question).and_then(|question| question.answer());
    answered.unwrap_or_else(|problems| Answer::Error { error: problems.to_string() })
}

impl Question {
    fn read(value: &Value) -> Result<Self, Problems> {
        // `null` says the same as leaving the field out, except in `config`, where the dialect
        // decides what it says.
        let known = |(name, value): &(&String, &Value)| {
            FIELDS.contains(&name.as_str()) && (*name == "config" || !value.is_null())
        };
        let Some(map) = value.as_object() else {
            return Err(At::root(value).problem("is not a question: an object").into());
        };
        let known: Map<String, Value> =
            map.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect();
        let known = Value::Object(known);
        let mut fields = At::root(&known).fields("a question")?;
        let question = Question::read_fields(&mut fields);
        // What is almost a field of ours was meant to be one.
        for name in map.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
            if let Some(near) = nearest(name, FIELDS.into_iter()) {
                let message = format!("unknown field \"{name}\"; did you mean \"{near}\"?");
                fields.report(Problem::new(name, message));
            }
        }
        fields.finish()?;
        question.ok_or_else(|| Problem::new("", "the question is incomplete").into())
    }

    /// Reads the fields; what is missing or wrong is kept there.
    fn read_fields(fields: &mut Fields<'_>) -> Option<Self> {
        let dialect = fields.require("dialect", dialect);
        let kind = fields.require("kind", |at| at.word(&KINDS));
        let config = fields.require("config", |at| Ok(at.value().clone()));
        let retry_index = match kind {
            Some(Ask::Delay) => fields.require("retry_index", from_one),
            _ => fields.read("retry_index", from_one),
        };
        let failed_attempt = match kind {
            Some(Ask::Decision) => fields.require("failed_attempt", from_one),
            _ => fields.read("failed_attempt", from_one),
        };
        let previous_delay = fields.read("previous_delay_ms", At::millis);
        let elapsed = fields.read("elapsed_ms", At::millis).unwrap_or_default();
        let u = fields.read("u", share);
        let error = fields.read("error", |at| Ok(at.value().clone()));
        Some(Question {
            dialect: dialect?,
            kind: kind?,
            config: config?,
            retry_index,
            failed_attempt,
            previous_delay,
            elapsed,
            u,
            error,
        })
    }

    fn answer(&self) -> Result<Answer, Problems> {
        let policy = self.dialect.import(&self.config)?.policy.check()?;
        let failure = self.error.as_ref().map(|error| read_failure(self.dialect, error));
        let failure = failure.transpose()?;
        match self.kind {
            Ask::Invalid => Ok(Answer::Valid { valid: true }),
            Ask::Delay => Ok(self.delay(&policy, failure.as_ref())),
            Ask::Schedule => Ok(self.schedule(&policy, failure.as_ref())),
            Ask::Decision => self.decision(&policy, failure.as_ref()),
        }
    }

    /// The delay that the schedule holds, whether or not a limit lets it come to that.
    fn delay(&self, policy: &CheckedPolicy, failure: Option<&Failure>) -> Answer {
        if let Some(snooze) = failure.and_then(|failure| failure.snooze) {
            return Answer::Delay(Delay::Exact(millis(snooze)));
        }
        let matched = match terms_of(policy, failure) {
            Ok(matched) => matched,
            Err(reason) => return stop(reason),
        };
        let hint = failure.and_then(|failure| failure.retry_after);
        let r = self.retry_index.unwrap_or(1);
        let spread = spread(&policy.terms_for(matched), r, self.previous_delay);
        let at = |u| with_hint(&policy.server_delay, spread.at(u), hint, u).0;
        Answer::Delay(match self.u {
            Some(u) => Delay::Exact(millis(at(u))),
            None => Delay::between(at(0.0), at(1.0)),
        })
    }

    fn decision(
        &self,
        policy: &CheckedPolicy,
        failure: Option<&Failure>,
    ) -> Result<Answer, Problems> {
        if let Some(snooze) = failure.and_then(|failure| failure.snooze) {
            let delay = Delay::Exact(millis(snooze));
            return Ok(Answer::Retry { retry: true, delay, counts_as_failure: Some(false) });
        }
        let mut state = State::after(self.failed_attempt.unwrap_or(1), Timestamp::EPOCH);
        state.previous_delay = self.previous_delay;
        let now = Timestamp::EPOCH.saturating_add(self.elapsed);
        let decided = match failure {
            Some(failure) => self.drawn(|u| decide(policy, &state, failure, now, u)),
            None => {
                let policy = for_a_retryable_error(policy)?;
                self.drawn(|u| decide(&policy, &state, &Failure::new(""), now, u))
            }
        };
        Ok(decided)
    }

    /// The decision for the random number given, or for all of them.
    fn drawn(&self, decide: impl Fn(f64) -> Decision) -> Answer {
        let exactly = |u| match decide(u) {
            Decision::Retry { delay, .. } => retry(Delay::Exact(millis(delay))),
            Decision::Stop { why } => stop(why.reason),
        };
        match (self.u, decide(0.0), decide(1.0)) {
            (Some(u), ..) => exactly(u),
            (None, Decision::Retry { delay: lo, .. }, Decision::Retry { delay: hi, .. }) => {
                retry(Delay::between(lo, hi))
            }
            // Luck decides between another attempt and the end: the answer is that of the middle.
            _ => exactly(MIDDLE),
        }
    }

    fn schedule(&self, policy: &CheckedPolicy, failure: Option<&Failure>) -> Answer {
        let matched = match terms_of(policy, failure) {
            Ok(matched) => matched,
            Err(reason) => return stop(reason),
        };
        let terms = policy.terms_for(matched);
        let u = self.u.unwrap_or(MIDDLE);
        let schedule = forecast::schedule(policy, matched, u, Duration::ZERO);
        let counted = schedule.attempts.and_then(|attempts| Limit::try_from(attempts).ok());
        let bounds = |step: &forecast::Step| {
            let (lo, hi) = step.spread.bounds();
            [millis(lo), millis(hi)]
        };
        let ranges =
            (terms.jitter != Jitter::None).then(|| schedule.steps.iter().map(bounds).collect());
        Answer::Schedule {
            attempts: counted.unwrap_or(terms.max_attempts),
            delays_ms: schedule.steps.iter().map(|step| millis(step.delay)).collect(),
            delays_ms_range: ranges,
            total_delay_ms: millis(schedule.total()),
            more: schedule.more,
        }
    }
}

impl Delay {
    fn between(lo: Duration, hi: Duration) -> Self {
        let (lo, hi) = (millis(lo), millis(hi));
        if lo == hi { Delay::Exact(lo) } else { Delay::Range([lo, hi]) }
    }
}

fn retry(delay: Delay) -> Answer {
    Answer::Retry { retry: true, delay, counts_as_failure: None }
}

fn stop(reason: Reason) -> Answer {
    Answer::Stop { retry: false, reason: reason.name() }
}

/// Which terms hold for a failure, or why it is never tried again. Without a failure, those of
/// the first rule that retries.
fn terms_of(policy: &CheckedPolicy, failure: Option<&Failure>) -> Result<Matched, Reason> {
    let Some(failure) = failure else {
        return Ok(policy.assumed());
    };
    let state = State::after(1, Timestamp::EPOCH);
    let rule = match decide(policy, &state, failure, Timestamp::EPOCH, MIDDLE) {
        Decision::Retry { why, .. } => why.rule,
        // Limits are no matter of the terms, unless the failure itself is that of a limit.
        Decision::Stop { why } => match why.reason {
            Reason::MaxAttempts | Reason::MaxElapsed => why.rule,
            Reason::TotalTimeout if failure.kind != Kind::TotalTimeout => why.rule,
            reason => return Err(reason),
        },
    };
    Ok(rule.map_or(Matched::Nothing, Matched::Rule))
}

/// The policy as it is for a plain error. Where that is not tried again because only named
/// failures are, the question is about one of those: the policy as it is for them.
fn for_a_retryable_error(policy: &CheckedPolicy) -> Result<CheckedPolicy, Problems> {
    let plain = terms_of(policy, Some(&Failure::new("")));
    let named = policy.assumed();
    if plain.is_ok() || named.index().is_none() {
        return Ok(policy.clone());
    }
    let Terms { max_attempts, backoff, max_delay, jitter, .. } = policy.terms_for(named);
    let policy = RetryPolicy {
        max_attempts,
        backoff: backoff.clone(),
        max_delay,
        jitter,
        never_for: Names::NONE,
        rules: Vec::new().into(),
        otherwise: Verdict::Retry,
        ..RetryPolicy::clone(policy)
    };
    policy.check()
}

fn dialect(at: &At<'_>) -> Result<Dialect, Problems> {
    let name = at.text()?;
    if let Some(dialect) = Dialect::named(name) {
        return Ok(dialect);
    }
    let known = Dialect::ALL.map(Dialect::name);
    let advice = match nearest(name, known.into_iter()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("known are {}", known.join(", ")),
    };
    at.refuse(format!("is not a dialect; {advice}"))
}

fn from_one(at: &At<'_>) -> Result<u32, Problems> {
    let what = "a whole number of failures from 1 to 4294967295";
    match at.count(what)? {
        0 => at.refuse(format!("is not {what}")),
        number => Ok(number),
    }
}

fn share(at: &At<'_>) -> Result<f64, Problems> {
    let number = at.number("a number from 0 to 1")?;
    if (0.0..=1.0).contains(&number) {
        Ok(number)
    } else {
        at.refuse("is not a number from 0 to 1")
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;
    use serde_json::json;

    fn check(question: Value, expected: Value) {
        let answer = serde_json::to_value(answer(&question)).unwrap();
        assert_eq!(answer, expected, "{question}");
    }

    fn decision(config: Value, failed_attempt: u32) -> Value {
        let mut question = ask("decision", config);
        question["failed_attempt"] = json!(failed_attempt);
        question
    }

    fn schedule(config: Value) -> Value {
        ask("schedule", config)
    }

    fn ask(kind: &str, config: Value) -> Value {
        json!({"dialect": "canonical", "kind": kind, "config": config})
    }

    #[test]
    fn a_decision_with_jitter_is_a_range_unless_the_draw_is_given() {
        let mut question = decision(json!({}), 1);
        check(question.clone(), json!({"retry": true, "delay_ms_range": [500, 1500]}));
        question["u"] = json!(0.25);
        check(question, json!({"retry": true, "delay_ms": 750}));
    }

    #[test]
    fn where_luck_decides_the_middle_is_answered() {
        let config = json!({"backoff": {"type": "fixed", "delay": "10s"}, "max_elapsed": "60s"});
        let mut question = decision(config, 1);
        question["elapsed_ms"] = json!(49_000);
        check(question.clone(), json!({"retry": true, "delay_ms": 10_000}));
        question["elapsed_ms"] = json!(51_000);
        check(question, json!({"retry": false, "reason": "max_elapsed"}));
    }

    #[test]
    fn a_decision_without_an_error_is_about_one_that_is_retried() {
        let named = json!({
            "max_attempts": 5, "jitter": "none", "otherwise": "fail",
            "rules": [{"on": {"codes": ["429"]}, "then": "retry", "max_attempts": 20}],
        });
        check(decision(named, 5), json!({"retry": true, "delay_ms": 16_000}));
        let plain = json!({
            "max_attempts": 5, "jitter": "none",
            "rules": [{"on": {"codes": ["429"]}, "then": "retry", "max_attempts": 20}],
        });
        check(decision(plain, 5), json!({"retry": false, "reason": "max_attempts"}));
        let nothing = json!({"otherwise": "fail"});
        check(decision(nothing, 1), json!({"retry": false, "reason": "no_rule"}));
    }

    #[test]
    fn a_delay_is_that_of_the_error_if_one_is_given() {
        let config = json!({
            "jitter": "none",
            "rules": [
                {"on": {"types": ["Slow"]}, "backoff": {"type": "fixed", "delay": "9s"}},
                {"on": {"types": ["Never"]}, "then": "fail"},
            ],
        });
        let ask = |error: Value| {
            let mut question = ask("delay", config.clone());
            question["retry_index"] = json!(40);
            question["error"] = error;
            question
        };
        check(ask(json!(null)), json!({"delay_ms": 9000}));
        check(ask(json!({"type": "Other"})), json!({"delay_ms": 60_000}));
        check(ask(json!({"type": "Never"})), json!({"retry": false, "reason": "non_retryable"}));
        check(ask(json!({"kind": "requeue_after", "delay_ms": 7})), json!({"delay_ms": 7}));
        let hinted = json!({"type": "Slow", "retry_after_ms": 20_000});
        check(ask(hinted), json!({"delay_ms_range": [20_000, 22_000]}));
    }

    #[test]
    fn a_schedule_with_jitter_lists_the_ranges_too() {
        check(
            schedule(json!({"max_attempts": 3})),
            json!({
                "attempts": 3, "delays_ms": [1000, 2000], "total_delay_ms": 3000,
                "delays_ms_range": [[500, 1500], [1000, 3000]],
            }),
        );
    }

    #[test]
    fn an_endless_schedule_lists_a_hundred_delays_and_says_so() {
        let endless = schedule(json!("edda.infinite"));
        let answer = serde_json::to_value(answer(&endless)).unwrap();
        assert_eq!(answer["attempts"], "unlimited");
        assert_eq!(answer["more"], true);
        assert_eq!(answer["delays_ms"].as_array().unwrap().len(), 100);
        assert_eq!(answer.get("delays_ms_range"), None);
    }

    #[test]
    fn a_valid_configuration_is_called_so() {
        let question = json!({"dialect": "edda", "kind": "invalid", "config": {}});
        check(question, json!({"valid": true}));
    }

    #[test]
    fn a_bad_question_is_answered_with_everything_that_is_wrong() {
        let missing = "missing, and required";
        let not_one = "is not a whole number of failures from 1 to 4294967295";
        for (question, expected) in [
            (r#"5"#, "5 is not a question: an object".to_string()),
            (r#"{}"#, format!("dialect: {missing}; kind: {missing}; config: {missing}")),
            (
                r#"{"dialect": "eda", "kind": "dely", "config": {}}"#,
                "dialect: \"eda\" is not a dialect; did you mean \"edda\"?; \
                 kind: \"dely\" is unknown; did you mean \"delay\"?"
                    .to_string(),
            ),
            (
                r#"{"dialect": "edda", "kind": "delay", "config": {}}"#,
                format!("retry_index: {missing}"),
            ),
            (
                r#"{"dialect": "edda", "kind": "decision", "config": {}, "failed_attempt": 0}"#,
                format!("failed_attempt: 0 {not_one}"),
            ),
            (
                r#"{"dialect": "edda", "kind": "delay", "config": {}, "retry_index": -1, "u": 2}"#,
                format!("retry_index: -1 {not_one}; u: 2 is not a number from 0 to 1"),
            ),
            (
                r#"{"dialect": "edda", "kind": "schedule", "config": {}, "elapsed_ms": -5}"#,
                "elapsed_ms: -5 is negative".to_string(),
            ),
        ] {
            check(serde_json::from_str(question).unwrap(), json!({ "error": expected }));
        }
    }

    #[test]
    fn an_error_that_makes_no_sense_is_refused() {
        let mut question = decision(json!({}), 1);
        question["error"] = json!("boom");
        let answer = serde_json::to_value(answer(&question)).unwrap();
        assert!(answer["error"].as_str().unwrap().contains("boom"), "{answer}");
    }
}
