//! What holds for every policy: arithmetic, bounds, written forms and dialects.
//!
//! The runs are the same every time: the seed is fixed, and a failing input is printed in full.
//! `PROPTEST_RNG_SEED` and `PROPTEST_CASES` ask for other and for more cases.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use resurgam_core::config::Problems;
use resurgam_core::duration::{self, Human, Text};
use resurgam_core::retry::dialect::{Dialect, parse_brackets, read_failure};
use resurgam_core::retry::schedule::{Spread, Terms, spread};
use resurgam_core::retry::{
    Backoff, CEILING, CapOrder, CheckedPolicy, Decision, Jitter, Limit, Matched, RecordedWhy,
    RetryPolicy, State, decide, decide_lost, forecast, json_schema, lint, uniform,
};
use resurgam_core::{Kind, Timestamp};
use resurgam_watchdog::test;
use serde_json::Value;

use crate::strategies::{self, Case};

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&json_schema()).unwrap());

/// Runs with a fixed seed and writes nothing to disk.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if let RngSeed::Random = config.rng_seed {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config
}

/// The delays of a backoff under a cap, without jitter.
fn terms(
    backoff: &Backoff,
    max_delay: Option<Duration>,
    jitter: Jitter,
    cap: CapOrder,
) -> Terms<'_> {
    Terms { max_attempts: Limit::Unlimited, backoff, max_delay, jitter, cap }
}

fn caps() -> impl Strategy<Value = CapOrder> {
    proptest::sample::select(vec![CapOrder::Truncate, CapOrder::Before, CapOrder::After])
}

fn max_delay() -> impl Strategy<Value = Option<Duration>> {
    let positive = strategies::duration().prop_filter("above 0", |time| !time.is_zero());
    proptest::option::of(positive)
}

/// Backoffs whose delays must not fall from one failure to the next.
fn growing() -> impl Strategy<Value = Backoff> {
    strategies::valid_backoff().prop_map(grown)
}

/// The same backoff, changed where it may shrink.
fn grown(backoff: Backoff) -> Backoff {
    match backoff {
        Backoff::Exponential { initial, multiplier } => {
            Backoff::Exponential { initial, multiplier: multiplier.max(1.0) }
        }
        Backoff::Schedule { delays } => {
            let mut delays = delays.into_owned();
            delays.sort_unstable();
            Backoff::Schedule { delays: delays.into() }
        }
        Backoff::Phases { phases } => grown(phases[0].1.clone()),
        other => other,
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn no_policy_makes_the_arithmetic_panic_or_pass_the_ceiling(
        policy in strategies::garbage(),
        r in strategies::failures(),
        previous in proptest::option::of(strategies::duration()),
        u in strategies::draw(),
    ) {
        let rules: Vec<_> = policy.rules.iter().map(Some).chain([None]).collect();
        for rule in rules {
            let spread = spread(&policy.terms(rule), r, previous);
            let (shortest, longest) = spread.bounds();
            prop_assert!(spread.at(u) <= CEILING && shortest <= CEILING && longest <= CEILING);
            let _ = spread.lost_at_cap();
        }
        for dialect in Dialect::ALL {
            let _ = dialect.export(&policy);
        }
        if let Err(problems) = policy.check() {
            explained(&problems)?;
        }
    }

    #[test]
    fn a_decision_never_panics_never_waits_over_a_year_and_always_says_why(
        policy in strategies::valid(),
        case in strategies::case(),
    ) {
        let policy = policy.check().unwrap();
        let Case { failure, state, now, u } = case;
        let decision = decide(&policy, &state, &failure, now, u);
        let lost = decide_lost(&policy, state.failures);
        for decision in [decision, lost] {
            let why = match decision {
                Decision::Retry { delay, why } => {
                    prop_assert!(delay <= CEILING);
                    prop_assert_eq!(delay, why.delay);
                    prop_assert_eq!(delay.subsec_nanos() % 1_000_000, 0, "whole milliseconds");
                    let _ = now.saturating_add(delay);
                    why.to_string()
                }
                Decision::Stop { why } => why.to_string(),
            };
            prop_assert!(!why.is_empty());
        }
    }

    #[test]
    fn what_is_recorded_of_a_decision_is_read_back(
        policy in strategies::valid(),
        case in strategies::case(),
    ) {
        let policy = policy.check().unwrap();
        let Case { failure, state, now, u } = case;
        for decision in [
            decide(&policy, &state, &failure, now, u),
            decide_lost(&policy, state.failures),
        ] {
            let (sentence, rule, stopped) = match decision {
                Decision::Retry { why, .. } => (why.to_string(), why.rule, None),
                Decision::Stop { why } => (why.to_string(), why.rule, Some(why.reason)),
            };
            let read = RecordedWhy::read(&sentence);
            prop_assert_eq!(read.matched.and_then(Matched::index), rule, "{}", &sentence);
            prop_assert_eq!(read.stopped, stopped, "{}", &sentence);
        }
    }

    #[test]
    fn a_retry_keeps_to_the_limits_of_the_policy(
        policy in strategies::valid(),
        case in strategies::case(),
    ) {
        let policy = policy.check().unwrap();
        let Case { failure, state, now, u } = case;
        if let Decision::Retry { delay, why } = decide(&policy, &state, &failure, now, u) {
            let terms = policy.terms(why.rule.map(|index| &policy.rules[index]));
            prop_assert!(terms.max_attempts.allows(state.failures));
            prop_assert!(failure.kind != Kind::Cancelled && !failure.is_terminal());
            if let Some(total) = policy.timeouts.total {
                prop_assert!(now.since(state.first_scheduled).saturating_add(delay) < total);
            }
            let unasked = failure.retry_after.is_none() || why.hint.is_none();
            if let (Some(max), true, true) =
                (terms.max_delay, terms.cap != CapOrder::Before, unasked)
            {
                prop_assert!(delay <= max, "{:?} is above {:?}", delay, max);
            }
        }
    }

    #[test]
    fn delays_never_fall_while_a_series_grows(
        backoff in growing(),
        max_delay in max_delay(),
        jitter in strategies::valid_jitter(),
        cap in caps(),
        r in strategies::failures(),
        further in 1..3_000_u32,
    ) {
        let jitter = if jitter == Jitter::Decorrelated { Jitter::None } else { jitter };
        let terms = terms(&backoff, max_delay, jitter, cap);
        let (earlier, later) =
            (spread(&terms, r, None), spread(&terms, r.saturating_add(further), None));
        prop_assert!(earlier.bounds().0 <= later.bounds().0, "the shortest delays");
        prop_assert!(earlier.bounds().1 <= later.bounds().1, "the longest delays");
    }

    #[test]
    fn a_draw_stays_between_its_bounds_and_below_the_cap(
        backoff in strategies::valid_backoff(),
        max_delay in max_delay(),
        jitter in strategies::valid_jitter(),
        cap in caps(),
        r in strategies::failures(),
        previous in proptest::option::of(strategies::duration()),
        u in strategies::draw(),
    ) {
        let spread = spread(&terms(&backoff, max_delay, jitter, cap), r, previous);
        let (shortest, longest) = spread.bounds();
        let drawn = spread.at(u);
        prop_assert!(shortest <= drawn && drawn <= longest, "{:?} in {:?}", drawn, spread);
        if let (Some(max), true) = (max_delay, cap != CapOrder::Before) {
            prop_assert!(longest <= max, "{:?} is above {:?}", longest, max);
        }
        let share = spread.lost_at_cap();
        prop_assert!((0.0..=1.0).contains(&share), "{}", share);
    }

    #[test]
    fn a_draw_follows_the_random_number(
        backoff in strategies::valid_backoff(),
        jitter in strategies::valid_jitter(),
        cap in caps(),
        r in strategies::failures(),
        (u, more) in (0.0..1.0, 0.0..1.0),
    ) {
        let (u, more): (f64, f64) = (u, more);
        let spread = spread(&terms(&backoff, None, jitter, cap), r, None);
        prop_assert!(spread.at(u) <= spread.at((u + more).min(1.0)));
    }

    #[test]
    fn whole_numbers_give_the_delays_of_exact_arithmetic(
        initial in 0..10_000_000_u64,
        factor in 1..20_u32,
        max in proptest::option::of(1..CEILING.as_millis() as u64),
        r in 1..200_u32,
    ) {
        let initial_time = Duration::from_millis(initial);
        let max_delay = max.map(Duration::from_millis);
        let bound = u128::from(max.unwrap_or(CEILING.as_millis() as u64));
        let power = (1..r).fold(1_u128, |power, _| power.saturating_mul(factor.into()));
        let (mut a, mut b) = (0_u128, 1_u128);
        for _ in 1..r {
            (a, b) = (b, a.saturating_add(b));
        }
        let initial = u128::from(initial);
        let steps = u128::from(r - 1);
        let multiplier = f64::from(factor);
        let increment = Some(Duration::from_millis(factor.into()));
        for (backoff, exact) in [
            (Backoff::Exponential { initial: initial_time, multiplier }, initial.saturating_mul(power)),
            (Backoff::Linear { initial: initial_time, increment: None }, initial * (steps + 1)),
            (Backoff::Linear { initial: initial_time, increment }, initial + steps * u128::from(factor)),
            (Backoff::Fibonacci { initial: initial_time }, initial.saturating_mul(b)),
            (Backoff::Fixed { delay: initial_time }, initial),
        ] {
            let terms = terms(&backoff, max_delay, Jitter::None, CapOrder::Truncate);
            let delay = spread(&terms, r, None).at(0.5);
            prop_assert_eq!(delay.as_millis(), exact.min(bound), "{:?}", backoff);
        }
    }

    #[test]
    fn a_valid_policy_survives_json(policy in strategies::valid()) {
        prop_assert!(policy.check().is_ok(), "{}", policy.check().unwrap_err());
        let value = serde_json::to_value(&policy).unwrap();
        prop_assert_eq!(&RetryPolicy::from_value(&value).unwrap(), &policy, "{}", value);
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(&serde_json::from_str::<RetryPolicy>(&text).unwrap(), &policy, "{}", text);
    }

    #[test]
    fn a_stored_policy_is_read_back_also_when_a_newer_version_added_fields(
        policy in strategies::valid(),
        place in any::<prop::sample::Index>(),
    ) {
        let stored = policy.to_stored();
        prop_assert_eq!(&RetryPolicy::from_stored(&stored).unwrap(), &policy, "{}", stored);
        let mut value: Value = serde_json::from_str(&stored).unwrap();
        let place = place.index(objects(&mut value, None));
        objects(&mut value, Some(place));
        let newer = RetryPolicy::from_stored(&value.to_string());
        prop_assert_eq!(&newer.unwrap(), &policy, "{}", value);
    }

    #[test]
    fn the_schema_accepts_every_valid_policy_and_no_unknown_field(
        policy in strategies::valid(),
        place in any::<prop::sample::Index>(),
    ) {
        let mut value = serde_json::to_value(&policy).unwrap();
        prop_assert!(SCHEMA.is_valid(&value), "{}", value);
        let place = place.index(objects(&mut value, None));
        objects(&mut value, Some(place));
        prop_assert!(!SCHEMA.is_valid(&value), "{}", value);
        prop_assert!(RetryPolicy::from_value(&value).is_err(), "{}", value);
    }

    #[test]
    fn what_the_schema_refuses_the_reader_refuses_too(value in strategies::json_value()) {
        if !SCHEMA.is_valid(&value) {
            prop_assert!(RetryPolicy::from_value(&value).is_err(), "{}", value);
        }
    }

    #[test]
    fn a_duration_is_read_as_it_was_written(time in strategies::duration()) {
        prop_assert_eq!(duration::parse(&Text(time).to_string()), Ok(time));
        prop_assert!(!Human(time).to_string().is_empty());
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn no_text_panics_the_parsers(text in prop_oneof![
        "\\PC{0,40}",
        "[-+.0-9a-z ]{0,20}",
        r"(\[|\]|\(|\)|->|:|,| |retry|backoff|timeout|timeout_retry|linear|A|é|[0-9]{1,12}|\.|ms|s|d){0,20}",
        any::<String>(),
    ]) {
        if let Err(what) = duration::parse(&text) {
            prop_assert!(!what.is_empty());
        }
        if let Err(problem) = parse_brackets(&text) {
            prop_assert!(problem.message.contains("(column "), "{}", problem.message);
        }
    }

    #[test]
    fn no_json_panics_a_dialect(value in strategies::json_value()) {
        for dialect in Dialect::ALL {
            match dialect.import(&value) {
                Ok(imported) => prop_assert!(imported.policy.check().is_ok()),
                Err(problems) => explained(&problems)?,
            }
            if let Err(problems) = read_failure(dialect, &value) {
                explained(&problems)?;
            }
        }
    }
}

proptest! {
    // Whole schedules are longer than single decisions.
    #![proptest_config(config(60))]

    #[test]
    fn lints_and_schedules_never_panic_and_agree_with_the_policy(
        policy in strategies::valid(),
        u in strategies::draw(),
        attempt_time in strategies::duration(),
    ) {
        let policy = policy.check().unwrap();
        for lint in lint::lint(&policy) {
            prop_assert!(!lint.message.is_empty());
        }
        for matched in policy.retried() {
            let schedule = forecast::schedule(&policy, matched, u, attempt_time);
            prop_assert_eq!(schedule.more, schedule.end.is_none());
            if !schedule.more {
                prop_assert_eq!(schedule.attempts, Some(schedule.steps.len() as u32 + 1));
            }
            if let Limit::Attempts(max) = policy.terms_for(matched).max_attempts {
                prop_assert!(schedule.steps.len() < max.get() as usize);
            }
            prop_assert!(schedule.steps.iter().all(|step| step.delay <= CEILING));
        }
    }
}

proptest! {
    // A forecast samples a thousand schedules.
    #![proptest_config(config(4))]

    #[test]
    fn a_forecast_orders_its_quantiles(policy in strategies::valid()) {
        let policy = policy.check().unwrap();
        let forecast = forecast::forecast(&policy, policy.assumed(), Duration::from_millis(5));
        for row in forecast.rows {
            for quantiles in [row.delay, row.start] {
                let all = [quantiles.min, quantiles.p5, quantiles.p50, quantiles.p95, quantiles.max];
                prop_assert!(all.is_sorted(), "{:?}", all);
            }
            prop_assert!(row.reached > 0.0 && row.reached <= 1.0);
        }
    }
}

#[test]
fn a_configuration_with_one_wrong_value_is_answered_in_its_own_words() {
    for dialect in Dialect::ALL {
        let test = |(full, value, place): (Value, Value, prop::sample::Index)| {
            let mut config = full.clone();
            let place = place.index(nodes(&mut config, None));
            nodes(&mut config, Some((place, &value)));
            let known = |root: &str| [&full, &config].iter().any(|c| c.get(root).is_some());
            match dialect.import(&config) {
                Ok(imported) => {
                    prop_assert!(imported.policy.check().is_ok());
                    prop_assert!(dialect != Dialect::Canonical || SCHEMA.is_valid(&config));
                }
                Err(problems) => {
                    explained(&problems)?;
                    for problem in problems.iter() {
                        let root = problem.path.split(['.', '[']).next().unwrap();
                        prop_assert!(root.is_empty() || known(root), "{:?}: {}", problem, config);
                    }
                }
            }
            Ok(())
        };
        let value = strategies::json_value();
        let input = (strategies::full_config(dialect), value, any::<prop::sample::Index>());
        let mut runner = TestRunner::new(config(100));
        let result = runner.run(&input, test);
        result.unwrap_or_else(|failed| panic!("{dialect}: {failed}"));
    }
}

/// Counts the values inside an object or list, and replaces the one at a place.
fn nodes(value: &mut Value, replace: Option<(usize, &Value)>) -> usize {
    fn walk(value: &mut Value, replace: Option<(usize, &Value)>, count: &mut usize) {
        let inner: Vec<&mut Value> = match value {
            Value::Object(fields) => fields.values_mut().collect(),
            Value::Array(entries) => entries.iter_mut().collect(),
            _ => return,
        };
        for entry in inner {
            let here = *count;
            *count += 1;
            match replace {
                Some((place, new)) if place == here => *entry = new.clone(),
                _ => walk(entry, replace, count),
            }
        }
    }
    let mut count = 0;
    walk(value, replace, &mut count);
    count
}

/// Every problem says something, and about what.
fn explained(problems: &Problems) -> Result<(), TestCaseError> {
    prop_assert!(problems.iter().count() > 0);
    for problem in problems.iter() {
        prop_assert!(!problem.message.trim().is_empty(), "{:?}", problem);
    }
    Ok(())
}

/// Counts the objects of a policy, and puts an unknown field into the one at `place`. The value of
/// a fallback is the user's and may hold anything.
fn objects(value: &mut Value, place: Option<usize>) -> usize {
    fn walk(value: &mut Value, place: Option<usize>, count: &mut usize) {
        match value {
            Value::Object(fields) => {
                let here = *count;
                *count += 1;
                for (name, field) in fields.iter_mut() {
                    if name != "value" {
                        walk(field, place, count);
                    }
                }
                if place == Some(here) {
                    fields.insert("unheard_of".to_string(), Value::from(1));
                }
            }
            Value::Array(entries) => entries.iter_mut().for_each(|entry| walk(entry, place, count)),
            _ => {}
        }
    }
    let mut count = 0;
    walk(value, place, &mut count);
    count
}

#[test]
fn importing_and_exporting_a_full_configuration_is_the_identity() {
    for dialect in Dialect::ALL {
        let test = |config: Value| {
            let imported = dialect.import(&config);
            prop_assert!(imported.is_ok(), "{}", imported.unwrap_err());
            let exported = dialect.export(&imported.unwrap().policy);
            prop_assert_eq!(&exported.lost, &[""; 0]);
            prop_assert!(same(&exported.config, &config), "{} became {}", config, exported.config);
            Ok(())
        };
        let mut runner = TestRunner::new(config(200));
        let result = runner.run(&strategies::full_config(dialect), test);
        result.unwrap_or_else(|failed| panic!("{dialect}: {failed}"));
    }
}

/// Equal, where 1 and 1.0 are the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, a)| other.get(key).is_some_and(|b| same(a, b)))
        }
        _ => one == other,
    }
}

#[test]
fn exporting_and_importing_decides_the_same_whenever_nothing_was_lost() {
    for dialect in Dialect::ALL {
        let kept = std::cell::Cell::new(0);
        let test = |(policy, cases): (RetryPolicy, Vec<Case>)| {
            let exported = dialect.export(&policy);
            let imported = dialect.import(&exported.config);
            prop_assert!(
                imported.is_ok(),
                "{} is refused: {}",
                exported.config,
                imported.unwrap_err()
            );
            if !exported.lost.is_empty() {
                return Ok(());
            }
            kept.set(kept.get() + 1);
            let (before, after) = (policy.check().unwrap(), imported.unwrap().policy);
            prop_assert_eq!(before.timeouts.attempt, after.timeouts.attempt);
            prop_assert_eq!(before.max_elapsed, after.max_elapsed);
            let after = after.check().unwrap();
            for case in cases.iter().filter(|case| may_happen(&before, case)) {
                let (one, other) = (delay(&before, case), delay(&after, case));
                prop_assert_eq!(one, other, "{:?}\nas {}", case, exported.config);
            }
            Ok(())
        };
        let cases = proptest::collection::vec(strategies::case(), 8);
        let policies = prop_oneof![2 => strategies::simple(), 1 => strategies::imported()];
        let mut runner = TestRunner::new(config(200));
        let result = runner.run(&(policies, cases), test);
        result.unwrap_or_else(|failed| panic!("{dialect}: {failed}"));
        assert!(kept.get() >= 15, "only {} policies were said in full by {dialect}", kept.get());
    }
}

/// There is at least one failure when something is decided, and a failure of a timeout needs the
/// timeout. One that overrules the rules leaves the dialects
/// behind: none of them knows such a thing.
fn may_happen(policy: &RetryPolicy, case: &Case) -> bool {
    let possible = match case.failure.kind {
        Kind::Timeout => policy.timeouts.attempt.is_some(),
        Kind::HeartbeatTimeout => policy.timeouts.heartbeat.is_some(),
        _ => true,
    };
    possible && case.state.failures > 0 && case.failure.retryable != Some(true)
}

fn delay(policy: &CheckedPolicy, case: &Case) -> Option<Duration> {
    match decide(policy, &case.state, &case.failure, case.now, case.u) {
        Decision::Retry { delay, .. } => Some(delay),
        Decision::Stop { .. } => None,
    }
}

#[test]
fn every_valid_policy_is_exported_as_something_that_can_be_imported() {
    for dialect in Dialect::ALL {
        let test = |policy: RetryPolicy| {
            let exported = dialect.export(&policy);
            let imported = dialect.import(&exported.config);
            let refused = imported.err().map(|problems| problems.to_string());
            prop_assert_eq!(refused, None, "{}", exported.config);
            Ok(())
        };
        let mut runner = TestRunner::new(config(100));
        let result = runner.run(&strategies::valid(), test);
        result.unwrap_or_else(|failed| panic!("{dialect}: {failed}"));
    }
}

/// The mean of many draws, with a number for each as the engine would derive it, in milliseconds.
fn mean(spread: &Spread, draws: u32) -> f64 {
    let sum: f64 =
        (0..draws).map(|call| spread.at(uniform(call.into(), 1, 7, 3)).as_millis() as f64).sum();
    sum / f64::from(draws)
}

#[test]
fn each_jitter_has_the_mean_of_its_range() {
    const DRAWS: u32 = 20_000;
    let backoff = Backoff::exponential(Duration::from_secs(10));
    let max = Some(Duration::from_secs(100));
    let previous = Some(Duration::from_secs(20));
    use CapOrder::{After, Before, Truncate};
    // After the third failure the backoff says 40 s, after the fifth 160 s, over the cap of 100 s.
    for (jitter, cap, r, lo, hi) in [
        (Jitter::None, Truncate, 3, 40_000.0, 40_000.0),
        (Jitter::Full, Truncate, 3, 0.0, 40_000.0),
        (Jitter::Equal, Truncate, 3, 20_000.0, 40_000.0),
        (Jitter::Proportional(0.25), Truncate, 3, 30_000.0, 50_000.0),
        (Jitter::Range { lo: 0.5, hi: 2.0 }, Truncate, 3, 20_000.0, 80_000.0),
        (Jitter::Additive(Duration::from_secs(5)), Truncate, 3, 40_000.0, 45_000.0),
        (Jitter::Decorrelated, Truncate, 3, 10_000.0, 60_000.0),
        (Jitter::Full, Truncate, 5, 0.0, 100_000.0),
        (Jitter::Proportional(0.5), Truncate, 5, 50_000.0, 100_000.0),
        (Jitter::Proportional(0.5), Before, 5, 50_000.0, 150_000.0),
        (Jitter::Equal, Before, 5, 50_000.0, 100_000.0),
        (Jitter::Equal, After, 3, 20_000.0, 40_000.0),
    ] {
        let spread = spread(&terms(&backoff, max, jitter, cap), r, previous);
        // The mean of n draws from a width w deviates by w / sqrt(12 n); five times that is
        // exceeded once in two million. Flooring takes up to a millisecond.
        let tolerance = 5.0 * (hi - lo) / f64::from(12 * DRAWS).sqrt() + 1.0;
        let (found, expected) = (mean(&spread, DRAWS), (lo + hi) / 2.0);
        assert!(
            (found - expected).abs() <= tolerance,
            "{jitter:?} {cap:?}: {found}, expected {expected} within {tolerance}"
        );
    }
}

#[test]
fn draws_above_a_cap_that_comes_last_pile_up_there() {
    // From 0 to 160 s under a cap of 100 s: 60 of 160 draws end there, and the mean is
    // 100/160 of 50 s plus 60/160 of 100 s.
    let backoff = Backoff::Fixed { delay: Duration::from_secs(160) };
    let max = Duration::from_secs(100);
    let spread = spread(&terms(&backoff, Some(max), Jitter::Full, CapOrder::After), 1, None);
    assert_eq!(spread.lost_at_cap(), 0.375);
    let found = mean(&spread, 20_000);
    assert!((found - 68_750.0).abs() < 5.0 * 36_000.0 / 20_000_f64.sqrt(), "{found}");
    let at_cap = (0..20_000_u32).filter(|call| spread.at(uniform((*call).into(), 1, 7, 3)) == max);
    let share = at_cap.count() as f64 / 20_000.0;
    assert!((share - 0.375).abs() < 5.0 * (0.375_f64 * 0.625 / 20_000.0).sqrt(), "{share}");
}

#[test]
fn the_random_numbers_are_spread_evenly_over_every_argument() {
    // Sixteen buckets of 4,000 numbers each; five deviations of a count are 5 * sqrt(4000 * 15/16).
    const EXPECTED: f64 = 4_000.0;
    let tolerance = 5.0 * (EXPECTED * 15.0 / 16.0).sqrt();
    let numbers: [fn(u32) -> f64; 4] = [
        |n| uniform(n.into(), 0, 0, 1),
        |n| uniform(0, n, 0, 1),
        |n| uniform(0, 0, n.into(), 1),
        |n| uniform(0, 0, 0, n),
    ];
    for (argument, number) in numbers.into_iter().enumerate() {
        let mut buckets = [0_u32; 16];
        (0..64_000).for_each(|n| buckets[(number(n) * 16.0) as usize] += 1);
        for count in buckets {
            let off = (f64::from(count) - EXPECTED).abs();
            assert!(off <= tolerance, "argument {argument}: {buckets:?}");
        }
    }
}

#[test]
fn the_hazards_that_others_ran_into_are_none_here() {
    let at = |backoff: &Backoff, max, r| {
        spread(&terms(backoff, max, Jitter::None, CapOrder::Truncate), r, None).at(0.5)
    };
    let second = Duration::from_secs(1);
    let doubling = Backoff::exponential(second);
    let minute = Some(Duration::from_secs(60));
    // Overflowing powers and casts of the exponent: 2^1024, 2^(2^31), 2^(2^32 - 2).
    for r in [1_024, 1_025, 1_100, 1_101, 100_000, 1 << 31, (1 << 31) + 1, u32::MAX] {
        assert_eq!(at(&doubling, minute, r), Duration::from_secs(60), "{r}");
        assert_eq!(at(&doubling, None, r), CEILING, "{r}");
        // Nothing times infinity is nothing, and not NaN.
        assert_eq!(at(&Backoff::exponential(Duration::ZERO), minute, r), Duration::ZERO, "{r}");
        let shrinking = Backoff::Exponential { initial: second, multiplier: 0.5 };
        assert_eq!(at(&shrinking, minute, r), Duration::ZERO, "{r}");
        let polynomial = Backoff::Polynomial {
            scale: second,
            power: f64::MAX,
            shift: 0,
            offset: Duration::from_secs(3),
        };
        assert_eq!(at(&polynomial, None, r), CEILING, "{r}");
    }
    // 1.7 * 1.7 * 1000 is 2889.9999999999995 in f64.
    let odd = Backoff::Exponential { initial: second, multiplier: 1.7 };
    assert_eq!(at(&odd, minute, 3), Duration::from_millis(2_890));
    // Edda prints 337 ms for 337.5 ms.
    let half = Backoff::Exponential { initial: Duration::from_millis(100), multiplier: 1.5 };
    assert_eq!(at(&half, minute, 4), Duration::from_millis(337));
    // The nudge that saves 2890 must not lift a delay over its bound.
    let bound = Duration::from_secs(1_000) - Duration::from_nanos(1);
    assert_eq!(at(&doubling, Some(bound), 30), Duration::from_millis(999_999));
    // A due time past the end of the calendar is never, and not at once.
    let end = Timestamp::from_millis(i64::MAX);
    assert_eq!(end.saturating_add(CEILING), end);
    let policy = RetryPolicy::DEFAULT.unlimited().check().unwrap();
    let state = State::after(u32::MAX, Timestamp::from_millis(i64::MIN));
    let failure = resurgam_core::Failure::new("down");
    let Decision::Retry { delay, .. } = decide(&policy, &state, &failure, end, 0.0) else {
        panic!("it has no limit")
    };
    assert_eq!(delay, Duration::from_secs(30));
}
