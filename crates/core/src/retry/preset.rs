//! Policies by name: our default, Edda's four, and the schedules of systems people know.
//!
//! A preset says what its system says and nothing more: no jitter or limit is added. Where a
//! system cannot be said exactly, its comment tells.

use std::time::Duration;

use super::policy::*;

/// Every preset with its name.
pub const ALL: [(&str, RetryPolicy); 9] = [
    ("default", RetryPolicy::DEFAULT),
    ("edda.default", EDDA_DEFAULT),
    ("edda.aggressive", EDDA_AGGRESSIVE),
    ("edda.conservative", EDDA_CONSERVATIVE),
    ("edda.infinite", EDDA_INFINITE),
    ("aws.standard", AWS_STANDARD),
    ("grpc", GRPC),
    ("sidekiq", SIDEKIQ),
    ("river", RIVER),
];

/// The preset of this name.
///
/// ```
/// use resurgam_core::retry::{preset, RetryPolicy};
///
/// assert_eq!(preset::named("default"), Some(RetryPolicy::DEFAULT));
/// assert_eq!(preset::named("unheard.of"), None);
/// ```
pub fn named(name: &str) -> Option<RetryPolicy> {
    ALL.into_iter().find(|(known, _)| *known == name).map(|(_, policy)| policy)
}

/// Edda's `DEFAULT_RETRY_POLICY`: five attempts, 1 s doubling to 60 s, for five minutes.
pub const EDDA_DEFAULT: RetryPolicy = edda(Duration::from_secs(1), 2.0, Duration::from_secs(60))
    .max_attempts(5)
    .max_elapsed(Duration::from_secs(300));

/// Edda's `AGGRESSIVE_RETRY`: ten attempts, 100 ms growing by half to 10 s, for one minute.
pub const EDDA_AGGRESSIVE: RetryPolicy =
    edda(Duration::from_millis(100), 1.5, Duration::from_secs(10))
        .max_attempts(10)
        .max_elapsed(Duration::from_secs(60));

/// Edda's `CONSERVATIVE_RETRY`: three attempts, 5 s doubling to 5 min, for 15 minutes.
pub const EDDA_CONSERVATIVE: RetryPolicy =
    edda(Duration::from_secs(5), 2.0, Duration::from_secs(300))
        .max_attempts(3)
        .max_elapsed(Duration::from_secs(900));

/// Edda's `INFINITE_RETRY`: 1 s doubling to 60 s, for ever.
pub const EDDA_INFINITE: RetryPolicy =
    edda(Duration::from_secs(1), 2.0, Duration::from_secs(60)).unlimited();

/// The AWS SDKs' standard mode: three attempts, 1 s doubling to 20 s, full jitter.
pub const AWS_STANDARD: RetryPolicy = RetryPolicy::exponential(Duration::from_secs(1))
    .max_attempts(3)
    .max_delay(Duration::from_secs(20))
    .jitter(Jitter::Full);

/// gRPC's connection backoff (1 s growing by 1.6 to 120 s, spread by a fifth after the cap) with
/// the five attempts at which its retry policy ends.
pub const GRPC: RetryPolicy = RetryPolicy::exponential(Duration::from_secs(1))
    .multiplier(1.6)
    .max_attempts(5)
    .max_delay(Duration::from_secs(120))
    .jitter(Jitter::Proportional(0.2))
    .cap(CapOrder::Before);

/// Sidekiq: 25 retries after `(r - 1)^4 + 15` seconds. Its jitter is up to ten seconds times the
/// number of failures; ours stays at ten seconds, which cannot be said more exactly.
pub const SIDEKIQ: RetryPolicy = RetryPolicy::with_backoff(Backoff::Polynomial {
    scale: Duration::from_secs(1),
    power: 4.0,
    shift: 1,
    offset: Duration::from_secs(15),
})
.max_attempts(26)
.jitter(Jitter::Additive(Duration::from_secs(10)));

/// River: 25 attempts after `r^4` seconds, spread by a tenth.
pub const RIVER: RetryPolicy = RetryPolicy::with_backoff(Backoff::Polynomial {
    scale: Duration::from_secs(1),
    power: 4.0,
    shift: 0,
    offset: Duration::ZERO,
})
.max_attempts(25)
.jitter(Jitter::Proportional(0.1));

/// What all of Edda's policies share: no jitter, and a time limit that is only looked at when an
/// attempt has failed, on a clock that starts with the first attempt.
const fn edda(initial: Duration, multiplier: f64, max_delay: Duration) -> RetryPolicy {
    RetryPolicy::exponential(initial)
        .multiplier(multiplier)
        .max_delay(max_delay)
        .jitter(Jitter::None)
        .deadline(DeadlineRule::CheckOnly)
        .clock_from(ClockFrom::FirstStarted)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_preset_is_valid_and_reads_back_from_its_own_json() {
        for (name, policy) in ALL {
            policy.check().unwrap_or_else(|e| panic!("{name}: {e}"));
            let json = serde_json::to_value(&policy).unwrap();
            assert_eq!(RetryPolicy::from_value(&json), Ok(policy.clone()), "{name}: {json}");
            let by_name = serde_json::Value::String(name.to_string());
            assert_eq!(RetryPolicy::from_value(&by_name), Ok(policy), "{name}");
        }
    }
}
