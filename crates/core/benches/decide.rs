//! What a decision costs: once for every failed attempt, so it should be nothing beside the commit
//! that follows it. Importing happens once for every policy.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::{CheckedPolicy, Match, RetryPolicy, Rule, State, decide};
use resurgam_core::{Failure, Names, Timestamp};
use serde_json::json;

/// Ten rules, of which the last one matches `failure`.
fn ten_rules() -> CheckedPolicy {
    let rules = (0..10).map(|index| {
        let types = Names::from(vec![format!("Error{index}"), format!("Fault{index}")]);
        Rule::retry(Match { types, ..Match::ALL }).max_attempts(index + 1)
    });
    RetryPolicy { rules: rules.collect(), ..RetryPolicy::DEFAULT }.check().unwrap()
}

fn one_pattern() -> CheckedPolicy {
    let rules = vec![Rule::retry(Match::message(r"(?i)deadlock|timed out after \d+ ms"))];
    RetryPolicy { rules: rules.into(), ..RetryPolicy::DEFAULT }.check().unwrap()
}

fn decisions(criterion: &mut Criterion) {
    let mut failure = Failure::of_type("Fault9", "the gateway timed out after 3000 ms");
    failure.mro = ["Fault9", "GatewayError", "Exception"].map(str::to_string).to_vec();
    let state = State::after(3, Timestamp::from_millis(0));
    let now = Timestamp::from_millis(12_000);
    let cases = [
        ("default policy", RetryPolicy::DEFAULT.check().unwrap()),
        ("ten rules, the last matches", ten_rules()),
        ("one pattern", one_pattern()),
    ];
    for (name, policy) in &cases {
        criterion.bench_function(&format!("decide/{name}"), |bencher| {
            bencher.iter(|| {
                decide(
                    black_box(policy),
                    black_box(&state),
                    black_box(&failure),
                    black_box(now),
                    black_box(0.5),
                )
            });
        });
    }
}

fn imports(criterion: &mut Criterion) {
    let config = json!({
        "max_attempts": 10,
        "initial_interval": 0.5,
        "backoff_coefficient": 1.5,
        "max_interval": 30.0,
        "max_duration": 120.0,
        "retryable_error_types": ["ConnectionError", "TimeoutError"],
        "non_retryable_error_types": ["ValueError"],
    });
    criterion.bench_function("import/edda", |bencher| {
        bencher.iter(|| Dialect::Edda.import(black_box(&config)).unwrap());
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = decisions, imports
}
criterion_main!(benches);
