//! Any JSON as a policy in every dialect. What is accepted is valid, and then nothing that is done
//! with it panics, passes the ceiling or gives a text that cannot be read.
//!
//! The first 24 bytes are the circumstances of a decision, the rest is the text.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use resurgam_core::retry::dialect::{Dialect, read_failure};
use resurgam_core::retry::{
    CEILING, CheckedPolicy, Decision, RetryPolicy, State, decide, decide_lost, forecast, lint,
};
use resurgam_core::{Failure, Timestamp};
use serde_json::Value;

/// What a decision is asked with.
struct Circumstances {
    failures: u32,
    previous: u32,
    now: i64,
    u: f64,
}

fuzz_target!(|data: &[u8]| {
    let Some((head, text)) = data.split_first_chunk::<24>() else { return };
    let Ok(config) = serde_json::from_slice::<Value>(text) else { return };
    let asked = circumstances(head);
    for dialect in Dialect::ALL {
        if let Ok(failure) = read_failure(dialect, &config) {
            let policy = RetryPolicy::DEFAULT.check().expect("the default is valid");
            judge(&policy, &asked, &failure);
        }
        match dialect.import(&config) {
            Ok(imported) => use_it(&imported.policy, &asked),
            Err(problems) => problems.iter().for_each(|problem| {
                assert!(!problem.message.trim().is_empty(), "{problem:?}");
            }),
        }
    }
});

fn circumstances(head: &[u8; 24]) -> Circumstances {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    Circumstances {
        failures: word(0) as u32,
        previous: (word(0) >> 32) as u32,
        now: word(8) as i64,
        u: f64::from_bits(word(16)),
    }
}

/// Everything that can be done with a policy that was accepted.
fn use_it(policy: &RetryPolicy, asked: &Circumstances) {
    let checked = policy.check().expect("what an import gives is valid");
    for lint in lint::lint(&checked) {
        assert!(!lint.message.is_empty());
    }
    for dialect in Dialect::ALL {
        let exported = dialect.export(policy);
        let again = dialect.import(&exported.config);
        let again = again.unwrap_or_else(|e| panic!("{dialect} refuses {}: {e}", exported.config));
        if dialect == Dialect::Canonical {
            assert_eq!(again.policy, *policy, "our own form loses nothing");
        }
    }
    for matched in checked.retried() {
        let time = Duration::from_millis(asked.previous.into());
        let schedule = forecast::schedule(&checked, matched, asked.u, time);
        assert!(schedule.steps.iter().all(|step| step.delay <= CEILING));
    }
    judge(&checked, asked, &Failure::of_type("ValueError", "deadlock"));
    judge(&checked, asked, &Failure::retry_after(Duration::MAX, "slow down"));
}

fn judge(policy: &CheckedPolicy, asked: &Circumstances, failure: &Failure) {
    let start = Timestamp::from_millis(asked.now.wrapping_mul(31));
    let state = State {
        previous_delay: Some(Duration::from_millis(asked.previous.into())),
        ..State::after(asked.failures, start)
    };
    let now = Timestamp::from_millis(asked.now);
    let decisions =
        [decide(policy, &state, failure, now, asked.u), decide_lost(policy, asked.failures)];
    for decision in decisions {
        let why = match decision {
            Decision::Retry { delay, why } => {
                assert!(delay <= CEILING, "{delay:?}");
                why.to_string()
            }
            Decision::Stop { why } => why.to_string(),
        };
        assert!(!why.is_empty());
    }
}
