//! What is warned about: each lint with the number that triggered it, and the policy next to it
//! that does not trigger it.

use std::time::Duration;

use expect_test::expect;
use resurgam_core::Kind;
use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::lint::{Code, lint};
use resurgam_core::retry::{
    Backoff, CapOrder, DeadlineRule, Jitter, Limit, Match, RetryPolicy, Rule, Timeouts, Verdict,
    preset,
};
use resurgam_watchdog::test;
use serde_json::json;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lints(policy: &RetryPolicy) -> Vec<String> {
    lint(&policy.check().unwrap()).iter().map(ToString::to_string).collect()
}

fn codes(policy: &RetryPolicy) -> Vec<Code> {
    lint(&policy.check().unwrap()).iter().map(|lint| lint.code).collect()
}

/// The one lint of a policy that carries this code.
fn message(code: Code, policy: &RetryPolicy) -> String {
    let found = lint(&policy.check().unwrap());
    let mut matching = found.into_iter().filter(|lint| lint.code == code);
    let lint = matching.next().unwrap_or_else(|| panic!("no {code:?}: {policy:?}"));
    assert_eq!(matching.next(), None, "more than one {code:?}");
    lint.message
}

fn quiet(code: Code, policy: &RetryPolicy) {
    assert!(!codes(policy).contains(&code), "{:?}", lints(policy));
}

fn timeouts(timeouts: Timeouts) -> RetryPolicy {
    RetryPolicy::DEFAULT.unlimited().timeouts(timeouts)
}

#[test]
fn the_default_policy_has_no_lints() {
    assert_eq!(lints(&RetryPolicy::DEFAULT), [""; 0]);
}

#[test]
fn w1_a_policy_that_never_gives_up() {
    let endless = RetryPolicy::DEFAULT.unlimited();
    assert_eq!(
        message(Code::W1, &endless),
        "unlimited attempts and no max_elapsed: this never gives up"
    );
    quiet(Code::W1, &RetryPolicy::DEFAULT.max_attempts(u32::MAX));
    quiet(Code::W1, &endless.max_elapsed(seconds(86_400)));
    quiet(Code::W1, &timeouts(Timeouts { total: Some(seconds(60)), ..Timeouts::default() }));
}

#[test]
fn w2_delays_that_shrink() {
    let policy = |multiplier| RetryPolicy::exponential(seconds(8)).multiplier(multiplier);
    assert_eq!(message(Code::W2, &policy(0.5)), "backoff.multiplier 0.5 is below 1: delays shrink");
    quiet(Code::W2, &policy(1.0));
}

#[test]
fn w3_a_cap_below_the_first_delay() {
    let policy = |max| RetryPolicy::exponential(seconds(5)).max_delay(max);
    assert_eq!(
        message(Code::W3, &policy(seconds(2))),
        "max_delay (2s) is below backoff.initial (5s): every delay will be 2s"
    );
    quiet(Code::W3, &policy(seconds(5)));
    for backoff in [
        Backoff::Fixed { delay: seconds(5) },
        Backoff::Linear { initial: seconds(5), increment: None },
        Backoff::Fibonacci { initial: seconds(5) },
    ] {
        message(Code::W3, &RetryPolicy::with_backoff(backoff).max_delay(seconds(2)));
    }
}

#[test]
fn w4_jitter_that_is_lost_at_the_cap() {
    // The delays 1, 2, 4, 8 and then four times the cap of 10 s: half of eight.
    let policy = |attempts, jitter| {
        RetryPolicy::exponential(seconds(1))
            .max_attempts(attempts)
            .max_delay(seconds(10))
            .jitter(jitter)
    };
    let additive = Jitter::Additive(seconds(1));
    assert_eq!(
        message(Code::W4, &policy(9, additive)),
        "jitter is lost at the cap: 50 % of the delays are exactly max_delay; raise max_delay or \
         use cap \"truncate\" with a jitter that reaches below it"
    );
    // One delay of five is not more than a fifth, two of six are.
    quiet(Code::W4, &policy(6, additive));
    assert!(message(Code::W4, &policy(7, additive)).contains("33 % of the delays"));
    // A draw that is kept below the cap is spread, however often the cap is reached.
    quiet(Code::W4, &policy(100, Jitter::Proportional(0.5)));
    quiet(Code::W4, &policy(100, Jitter::Full));
    quiet(Code::W4, &policy(100, Jitter::None));
}

#[test]
fn w4_counts_a_delay_that_is_exactly_the_cap_and_could_only_be_longer() {
    let policy = RetryPolicy::fixed(seconds(10)).max_delay(seconds(10));
    let additive = policy.clone().jitter(Jitter::Additive(seconds(5)));
    assert!(message(Code::W4, &additive).contains("100 % of the delays"));
    let upwards = policy.clone().jitter(Jitter::Range { lo: 1.0, hi: 2.0 });
    assert!(message(Code::W4, &upwards).contains("100 % of the delays"));
    // A jitter of nothing was never meant to spread anything.
    for nothing in [
        Jitter::Proportional(0.0),
        Jitter::Additive(Duration::ZERO),
        Jitter::Range { lo: 1.0, hi: 1.0 },
    ] {
        quiet(Code::W4, &policy.clone().jitter(nothing));
    }
}

#[test]
fn w5_unlimited_attempts_in_step() {
    let policy = |jitter| RetryPolicy::DEFAULT.unlimited().jitter(jitter);
    let text = "unlimited attempts and no jitter: callers that failed together return together, \
        for ever";
    assert_eq!(message(Code::W5, &policy(Jitter::None)), text);
    assert_eq!(message(Code::W5, &policy(Jitter::Proportional(0.0))), text);
    quiet(Code::W5, &policy(Jitter::Proportional(0.01)));
    quiet(Code::W5, &policy(Jitter::None).max_attempts(1_000));
}

#[test]
fn w6_a_cap_after_the_jitter() {
    let policy = |cap| RetryPolicy::DEFAULT.jitter(Jitter::Full).cap(cap);
    assert_eq!(
        message(Code::W6, &policy(CapOrder::After)),
        "cap order \"after\" with jitter: draws above max_delay (1m) pile up there; \"truncate\" \
         spreads them"
    );
    quiet(Code::W6, &policy(CapOrder::Truncate));
    quiet(Code::W6, &policy(CapOrder::Before));
    quiet(Code::W6, &policy(CapOrder::After).jitter(Jitter::None));
    let uncapped = RetryPolicy::exponential(seconds(1)).jitter(Jitter::Full);
    quiet(Code::W6, &uncapped.cap(CapOrder::After));
}

#[test]
fn w7_attempts_that_the_deadline_cuts_off() {
    let policy = |max| RetryPolicy::fixed(seconds(10)).jitter(Jitter::None).max_elapsed(max);
    assert_eq!(
        message(Code::W7, &policy(seconds(60))),
        "the waits of 10 attempts take up to 1m 30s, more than max_elapsed (1m): the last 3 may \
         never be made"
    );
    quiet(Code::W7, &policy(seconds(90)));
    assert!(message(Code::W7, &policy(seconds(89))).contains("the last 1 may"));
    // A rule that looks back lets one more attempt begin.
    let check_only = policy(seconds(60)).deadline(DeadlineRule::CheckOnly);
    assert!(message(Code::W7, &check_only).contains("the last 3 may"));
    quiet(Code::W7, &policy(seconds(81)).deadline(DeadlineRule::CheckOnly));
    quiet(Code::W7, &policy(seconds(81)).deadline(DeadlineRule::Clip));
    message(Code::W7, &policy(seconds(80)).deadline(DeadlineRule::CheckOnly));
}

#[test]
fn w7_looks_at_the_longest_draws() {
    let policy = RetryPolicy::fixed(seconds(10)).max_attempts(2).max_elapsed(seconds(12));
    quiet(Code::W7, &policy.clone().jitter(Jitter::Equal));
    message(Code::W7, &policy.jitter(Jitter::Proportional(0.5)));
}

#[test]
fn w7_also_holds_for_more_attempts_than_anyone_lists() {
    let policy = |attempts| {
        RetryPolicy::fixed(seconds(1))
            .jitter(Jitter::None)
            .max_attempts(attempts)
            .max_elapsed(seconds(500))
    };
    assert_eq!(
        message(Code::W7, &policy(1_000)),
        "the waits of 1000 attempts take up to 16m 39s, more than max_elapsed (500s): the last \
         499 may never be made"
    );
    quiet(Code::W7, &policy(501));
    assert_eq!(
        message(Code::W7, &policy(u32::MAX)),
        "the waits of 4294967295 attempts take more than 2h 46m, more than max_elapsed (500s): \
         the last 4294966794 may never be made"
    );
}

#[test]
fn w8_an_attempt_that_may_hang_for_ever() {
    let policy = timeouts(Timeouts::default());
    assert_eq!(
        message(Code::W8, &policy),
        "unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by \
         another"
    );
    quiet(Code::W8, &timeouts(Timeouts { attempt: Some(seconds(1)), ..Timeouts::default() }));
    message(Code::W8, &timeouts(Timeouts { heartbeat: Some(seconds(1)), ..Timeouts::default() }));
    quiet(Code::W8, &RetryPolicy::DEFAULT);
}

#[test]
fn w9_a_hot_loop() {
    let hot = RetryPolicy::fixed(Duration::ZERO).jitter(Jitter::None);
    assert_eq!(
        message(Code::W9, &hot.clone().unlimited()),
        "unlimited attempts and no delay: a call that fails at once is attempted thousands of times \
         a second"
    );
    assert_eq!(
        message(Code::W9, &hot.clone().max_attempts(101)),
        "101 attempts and no delay: a call that fails at once is attempted thousands of times a \
         second"
    );
    // A bound on the time does not make it slower.
    message(Code::W9, &hot.clone().unlimited().max_elapsed(seconds(60)));
    message(Code::W9, &RetryPolicy { backoff: Backoff::None, ..hot.clone().unlimited() });
    quiet(Code::W9, &hot.clone().max_attempts(100));
    quiet(Code::W9, &hot.unlimited().jitter(Jitter::Additive(seconds(1))));
    quiet(Code::W9, &RetryPolicy::fixed(Duration::from_millis(1)).unlimited());
}

#[test]
fn a_lint_of_a_rule_names_the_rule_and_is_not_said_twice() {
    let rules = vec![
        Rule::fail(Match::codes(&["404"])).max_delay(Duration::from_millis(1)),
        Rule::retry(Match::codes(&["429"])).max_delay(Duration::from_millis(10)),
        Rule::retry(Match::kinds(&[Kind::Timeout])),
        Rule { max_attempts: Some(Limit::Unlimited), ..Rule::retry(Match::types(&["A"])) },
    ];
    let policy = RetryPolicy {
        backoff: Backoff::Exponential { initial: seconds(1), multiplier: 0.5 },
        rules: rules.into(),
        ..RetryPolicy::DEFAULT
    };
    expect![[r#"
        W1 rules[3]: unlimited attempts and no max_elapsed: this never gives up
        W2 backoff.multiplier 0.5 is below 1: delays shrink
        W3 rules[1]: max_delay (10ms) is below backoff.initial (1s): every delay will be 10ms
        W8 rules[3]: unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by another"#]].assert_eq(&lints(&policy).join("\n"));
}

#[test]
fn a_policy_that_retries_nothing_has_nothing_to_warn_about() {
    let policy = RetryPolicy::DEFAULT.unlimited().jitter(Jitter::None).otherwise(Verdict::Fail);
    assert_eq!(lints(&policy), [""; 0]);
}

#[test]
fn the_lints_of_the_presets_are_known() {
    let mut text = String::new();
    for (name, policy) in preset::ALL {
        text += &format!("{name}\n");
        lints(&policy).iter().for_each(|lint| text += &format!("  {lint}\n"));
    }
    expect![[r#"
        default
        edda.default
        edda.aggressive
        edda.conservative
        edda.infinite
          W1 unlimited attempts and no max_elapsed: this never gives up
          W5 unlimited attempts and no jitter: callers that failed together return together, for ever
          W8 unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by another
        aws.standard
        grpc
        sidekiq
        river
    "#]].assert_eq(&text);
}

#[test]
fn what_a_dialect_cannot_help_is_warned_about() {
    let exosphere = json!({"strategy": "LINEAR_FULL_JITTER", "max_delay": 5000});
    let imported = Dialect::Exosphere.import(&exosphere).unwrap();
    assert_eq!(codes(&imported.policy), [Code::W6]);
    let infinite = json!({"max_attempts": null, "max_duration": null});
    let imported = Dialect::Edda.import(&infinite).unwrap();
    assert_eq!(codes(&imported.policy), [Code::W1, Code::W5, Code::W8]);
}
