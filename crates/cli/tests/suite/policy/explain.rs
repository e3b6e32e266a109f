//! What people are told about a policy.

use expect_test::{Expect, expect};
use resurgam_watchdog::test;
use serde_json::json;

use crate::policy::run::{Folder, finish, policy, run, run_with};

fn check(arguments: &str, expected: &Expect) {
    expected.assert_eq(&run(&format!("explain {arguments}")).all());
}

fn check_config(name: &str, config: &serde_json::Value, arguments: &str, expected: &Expect) {
    let folder = Folder::new(name).with("policy.json", config.to_string());
    expected.assert_eq(&folder.policy(&format!("explain policy.json {arguments}")).all());
}

#[test]
fn the_default_policy_is_a_sentence_a_table_and_the_outage_it_bridges() {
    check(
        "default",
        &expect![[r#"
            Up to 10 attempts over about 4m 3s of waiting, usually 3m 18s with jitter; gives up after attempt 10.
            Waits 1s, doubling each time, at most 1m; spread by 50 % up and down.

             attempt  delay min  p50    p95   max  starts (p50)
                   1                                         0s
                   2      500ms   1s  1.45s  1.5s            1s
                   3         1s   2s   2.9s    3s          3.1s
                   4         2s   4s   5.8s    6s            7s
                   5         4s   8s  11.6s   12s           15s
                   6         8s  16s  23.2s   24s           32s
                   7        16s  32s  46.4s   48s         1m 3s
                   8        30s  45s  58.5s    1m        1m 48s
                   9        30s  45s  58.5s    1m        2m 33s
                  10        30s  45s  58.5s    1m        3m 18s

            Longest outage bridged: 3m 18s (p50), 2m 49s (p5), 3m 49s (p95)
            exit 0
        "#]],
    );
}

#[test]
fn a_policy_without_jitter_has_the_same_delay_in_every_column() {
    check(
        "edda.default",
        &expect![[r#"
        Up to 5 attempts over about 15s of waiting; gives up after attempt 5, or on a failure 5m or more after the first attempt began.
        Waits 1s, doubling each time, at most 1m.

         attempt  delay min  p50  p95  max  starts (p50)
               1                                      0s
               2         1s   1s   1s   1s            1s
               3         2s   2s   2s   2s            3s
               4         4s   4s   4s   4s            7s
               5         8s   8s   8s   8s           15s

        Longest outage bridged: 15s
        exit 0
    "#]],
    );
}

#[test]
fn a_long_schedule_is_cut_and_an_endless_one_is_warned_about() {
    check(
        "edda.infinite",
        &expect![[r#"
        Unlimited attempts, the first 101 over about 1h 35m of waiting; never gives up.
        Waits 1s, doubling each time, at most 1m.

         attempt  delay min  p50  p95  max  starts (p50)
               1                                      0s
               2         1s   1s   1s   1s            1s
               3         2s   2s   2s   2s            3s
               4         4s   4s   4s   4s            7s
               5         8s   8s   8s   8s           15s
               6        16s  16s  16s  16s           31s
               7        32s  32s  32s  32s         1m 3s
               8         1m   1m   1m   1m         2m 3s
               9         1m   1m   1m   1m         3m 3s
              10         1m   1m   1m   1m         4m 3s
              11         1m   1m   1m   1m         5m 3s
              12         1m   1m   1m   1m         6m 3s
              13         1m   1m   1m   1m         7m 3s
              14         1m   1m   1m   1m         8m 3s
              15         1m   1m   1m   1m         9m 3s
              16         1m   1m   1m   1m        10m 3s
              17         1m   1m   1m   1m        11m 3s
              18         1m   1m   1m   1m        12m 3s
              19         1m   1m   1m   1m        13m 3s
              20         1m   1m   1m   1m        14m 3s
              21         1m   1m   1m   1m        15m 3s
        ... and so on

        Longest outage bridged: any

        Warnings
          W1 unlimited attempts and no max_elapsed: this never gives up
          W5 unlimited attempts and no jitter: callers that failed together return together, for ever
          W8 unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by another
        exit 0
    "#]],
    );
}

#[test]
fn each_schedule_has_a_table_and_the_deadline_says_who_reaches_it() {
    let config = json!({
        "backoff": {"type": "exponential", "initial": "200ms"},
        "max_delay": "30s",
        "max_attempts": 4,
        "max_elapsed": "1m",
        "timeouts": {"attempt": "10s"},
        "never_for": ["CardDeclined"],
        "rules": [
            {
                "on": {"codes": ["429", "503"]},
                "max_attempts": 12,
                "backoff": {"type": "fixed", "delay": "8s"},
            },
            {"on": {"types": ["InvalidRequest"]}, "then": "fail"},
            {"on": {"kinds": ["timeout"]}},
        ],
        "on_exhausted": "dead_letter",
    });
    check_config(
        "explain_rules",
        &config,
        "--attempt-time 100ms",
        &expect![[r#"
            2 schedules, which share one count of attempts.
            Every attempt is taken to last 100ms.

            For failures that no rule matches; kind timeout
            Up to 4 attempts over about 1.4s of waiting; gives up after attempt 4, or when the next attempt would begin later than 1m after the call was scheduled, then keeps a dead letter.
            Waits 200ms, doubling each time, at most 30s; spread by 50 % up and down.

             attempt  delay min    p50    p95    max  starts (p50)
                   1                                            0s
                   2      100ms  200ms  290ms  300ms         300ms
                   3      200ms  400ms  580ms  600ms         813ms
                   4      400ms  800ms  1.16s   1.2s          1.7s

            Longest outage bridged: 1.7s (p50), 1.3s (p5), 2.1s (p95)

            For code 429 or 503
            Up to 12 attempts, typically 8, over about 56s of waiting, usually 55s with jitter; gives up after attempt 12, or when the next attempt would begin later than 1m after the call was scheduled, then keeps a dead letter.
            Waits 8s each time, at most 30s; spread by 50 % up and down.

             attempt  delay min    p50     p95     max  starts (p50)         deadline
                   1                                              0s
                   2         4s     8s   11.6s     12s          8.1s
                   3         4s     8s   11.6s     12s           16s
                   4         4s     8s   11.6s     12s           24s
                   5         4s     8s   11.6s     12s           33s
                   6         4s     8s   11.6s     12s           41s
                   7      4.01s   7.9s  11.62s     12s           49s  97.7 % reach it
                   8      4.01s  7.33s   11.4s  11.99s           55s  70.3 % reach it
                   9         4s  6.49s  10.49s  11.71s           57s  22.4 % reach it
                  10      4.14s  5.71s  10.03s   10.9s           59s   3.3 % reach it
                  11      4.06s  4.06s   4.06s   4.06s           55s   0.1 % reach it
            Attempt 12 is almost never made: the time is up before.

            Longest outage bridged: 56s (p50), 51s (p5), 1m (p95)

            Which failures (the first match wins)
              never retried, kept as a dead letter: type CardDeclined (never_for)
              retried: code 429 or 503 (rules[0])
              not retried, kept as a dead letter: type InvalidRequest (rules[1])
              retried: kind timeout (rules[2])
              retried: everything else

            Timeouts
              attempt 10s

            Warnings
              W7 rules[0]: the waits of 12 attempts take up to 2m 12s, more than max_elapsed (1m): the last 6 may never be made
            exit 0
        "#]],
    );
}

#[test]
fn one_attempt_needs_no_table() {
    expect![[r#"
        One attempt, no retries.
        exit 0
    "#]]
    .assert_eq(&run_with("explain -", "false").all());
}

#[test]
fn a_policy_that_retries_nothing_says_so() {
    expect![[r#"
        One attempt: nothing is retried.

        Which failures (the first match wins)
          not retried: everything else
        exit 0
    "#]]
    .assert_eq(&run_with("explain -", r#"{"otherwise": "fail"}"#).all());
}

#[test]
fn another_dialect_is_explained_in_our_words() {
    let brackets = "[RateLimitError -> retry: 3, backoff: 1m]\n[retry: 1]\n[timeout: 30s]\n";
    expect![[r#"
        2 schedules, which share one count of attempts.

        For failures that no rule matches
        Up to 2 attempts without waiting; gives up after attempt 2.
        Does not wait between attempts.

         attempt  delay min  p50  p95  max  starts (p50)
               1                                      0s
               2         0s   0s   0s   0s            0s

        Longest outage bridged: 0s

        For type RateLimitError
        Up to 4 attempts over about 7m of waiting; gives up after attempt 4.
        Waits 1m, doubling each time.

         attempt  delay min  p50  p95  max  starts (p50)
               1                                      0s
               2         1m   1m   1m   1m            1m
               3         2m   2m   2m   2m            3m
               4         4m   4m   4m   4m            7m

        Longest outage bridged: 7m

        Which failures (the first match wins)
          retried: type RateLimitError (rules[0])
          retried: everything else

        Timeouts
          attempt 30s
        exit 0
    "#]]
    .assert_eq(&run_with("explain - --from rappel_ir", brackets).all());
}

#[test]
fn json_is_one_value_with_every_number() {
    let ran = run("explain edda.default --json");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let value = ran.json();
    let schedule = &value["schedules"][0];
    assert_eq!(schedule["for_failures_of"], json!(["otherwise"]));
    assert_eq!(schedule["max_attempts"], 5);
    assert_eq!(schedule["more"], false);
    assert_eq!(schedule["deadline_ms"], 300_000);
    assert_eq!(schedule["longest_outage_ms"]["p50"], 15_000);
    let last = &schedule["attempts"][3];
    assert_eq!(last["attempt"], 5);
    assert_eq!(last["reached"], 1.0);
    for point in ["min", "p5", "p50", "p95", "max"] {
        assert_eq!(last["delay_ms"][point], 8000, "{point}");
        assert_eq!(last["start_ms"][point], 15_000, "{point}");
    }
    let endless = run("explain edda.infinite --json").json();
    assert_eq!(endless["schedules"][0]["max_attempts"], "unlimited");
    assert_eq!(endless["schedules"][0]["more"], true);
    assert_eq!(endless["schedules"][0]["longest_outage_ms"], json!(null));
    let codes: Vec<_> =
        endless["lints"].as_array().unwrap().iter().map(|lint| lint["code"].clone()).collect();
    assert_eq!(codes, ["W1", "W5", "W8"]);
}

/// Checks that tags are closed in order, that attributes are quoted, and that no bare `<` or `&`
/// stands in the text.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in svg.trim_end().split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("every tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let entities = text.split('&').skip(1);
        entities.for_each(|rest| assert!(rest.contains(';'), "{text}"));
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_drawing_is_well_formed_and_shows_every_attempt() {
    for (preset, dots) in
        [("default", 10), ("edda.default", 5), ("edda.infinite", 31), ("sidekiq", 26)]
    {
        let ran = run(&format!("explain {preset} --svg"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{preset}");
        assert!(ran.stdout.starts_with("<svg xmlns="), "{preset}");
        assert_well_formed(&ran.stdout);
        assert_eq!(ran.stdout.matches("<circle").count(), dots, "{preset}");
    }
}

#[test]
fn the_drawing_survives_any_name_and_any_length_of_time() {
    let config = json!({
        "backoff": {"type": "exponential", "initial": "36500d"},
        "rules": [
            {"on": {"types": ["</text><script>&\"'\u{1}"]}, "max_attempts": 2},
            {"on": {"codes": ["x"]}, "backoff": {"type": "none"}},
        ],
    });
    let folder = Folder::new("svg_names").with("policy.json", config.to_string());
    let ran = folder.policy("explain policy.json --svg");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_well_formed(&ran.stdout);
    assert!(!ran.stdout.contains("<script>"), "{}", ran.stdout);
    for what in ["false", "1", r#"{"otherwise": "fail"}"#] {
        assert_well_formed(&run_with("explain - --svg", what).stdout);
    }
}

#[test]
fn colours_are_for_terminals_and_for_those_who_insist() {
    let escapes = |variables: &[(&str, &str)]| {
        let mut command = policy("explain default");
        command.envs(variables.iter().copied());
        finish(command, b"").stdout.contains('\u{1b}')
    };
    assert!(!escapes(&[]));
    assert!(escapes(&[("CLICOLOR_FORCE", "1")]));
    assert!(!escapes(&[("NO_COLOR", "1")]));
}

#[test]
fn a_bad_attempt_time_or_two_forms_at_once_are_refused() {
    for arguments in ["explain default --attempt-time 5", "explain default --json --svg"] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments}");
        assert!(ran.stderr.starts_with("error: "), "{arguments}: {}", ran.stderr);
    }
}

#[test]
fn a_number_with_hundreds_of_zeros_is_told_with_an_exponent() {
    let backoff = json!({"type": "exponential", "initial": "1s", "multiplier": 1e308});
    let folder = Folder::new("large").with("policy.json", json!({"backoff": backoff}).to_string());
    let told = folder.policy("explain policy.json").all();
    assert!(told.contains("Waits 1s, 1e308 times as long each time"), "{told}");
}

#[test]
fn what_follows_when_attempts_run_out_is_told_for_every_value() {
    for (wanted, told) in [
        (json!("fail"), "gives up after attempt 2."),
        (json!("pause"), "gives up after attempt 2, then waits for an operator."),
        (
            json!({"pause": {"for": "2h"}}),
            "gives up after attempt 2, then waits up to 2h for an operator and fails.",
        ),
        (json!("dead_letter"), "gives up after attempt 2, then keeps a dead letter."),
        (
            json!("compensate"),
            "gives up after attempt 2, then fails the run and undoes what it did.",
        ),
        (
            json!({"fallback": {"value": {"seats": 0}}}),
            "gives up after attempt 2, then returns {\"seats\":0}.",
        ),
        (
            json!({"fallback": {"activity": "charge_later"}}),
            "gives up after attempt 2, then calls charge_later in its place.",
        ),
    ] {
        let in_a_rule = json!({
            "max_attempts": 2,
            "rules": [{"on": {}, "then": "retry", "on_exhausted": wanted}],
        });
        for config in [json!({"max_attempts": 2, "on_exhausted": wanted}), in_a_rule] {
            let folder = Folder::new("exhausted").with("policy.json", config.to_string());
            let all = folder.policy("explain policy.json").all();
            let first = all.lines().next().unwrap_or_default();
            assert!(first.ends_with(told), "{config}: {all}");
        }
    }
}

#[test]
fn what_follows_the_only_attempt_is_told() {
    for (wanted, told) in [
        ("fail", "One attempt, no retries."),
        ("pause", "One attempt, no retries, then waits for an operator."),
        ("dead_letter", "One attempt, no retries, then keeps a dead letter."),
    ] {
        let config = json!({"max_attempts": 1, "on_exhausted": wanted});
        let folder = Folder::new("only").with("policy.json", config.to_string());
        let all = folder.policy("explain policy.json").all();
        assert_eq!(all.lines().next(), Some(told), "{all}");
    }
}

#[test]
fn a_rule_that_keeps_or_pauses_a_call_at_once_is_told() {
    for (verdict, told) in [
        ("pause", "not retried, waits for an operator: type SchemaChanged (rules[0])"),
        ("dead_letter", "not retried, kept as a dead letter: type SchemaChanged (rules[0])"),
    ] {
        let config = json!({"rules": [{"on": {"types": ["SchemaChanged"]}, "then": verdict}]});
        let folder = Folder::new("verdict").with("policy.json", config.to_string());
        let all = folder.policy("explain policy.json").all();
        assert!(all.to_lowercase().contains(&told.to_lowercase()), "{all}");
    }
}
