//! Accepted, warned about, refused.

use expect_test::expect;
use resurgam_watchdog::test;
use serde_json::json;

use crate::policy::run::{Folder, run, run_with};

#[test]
fn a_good_policy_is_told_so() {
    assert_eq!(run("check default").all(), "ok: default is a valid canonical policy\nexit 0\n");
    let ran = run_with("check - --from edda", "{}");
    assert_eq!(ran.all(), "ok: <stdin> is a valid edda policy\nexit 0\n");
}

#[test]
fn lints_are_warnings_and_strict_refuses_them() {
    expect![[r#"
        ok: edda.infinite is a valid canonical policy, with 3 warnings
        warning: W1 unlimited attempts and no max_elapsed: this never gives up
        warning: W5 unlimited attempts and no jitter: callers that failed together return together, for ever
        warning: W8 unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by another
        exit 0
    "#]].assert_eq(&run("check edda.infinite").all());
    expect![[r#"
        warning: W1 unlimited attempts and no max_elapsed: this never gives up
        warning: W5 unlimited attempts and no jitter: callers that failed together return together, for ever
        warning: W8 unlimited attempts and no timeouts.attempt: one attempt that hangs is never followed by another
        error: edda.infinite has 3 warnings, and --strict is on
        exit 2
    "#]].assert_eq(&run("check edda.infinite --strict").all());
    assert_eq!(run("check default --strict").code, 0);
}

#[test]
fn every_problem_of_a_json_file_is_shown_in_its_place() {
    let policy = r#"{
  "max_attempts": 0,
  "jiter": "full",
  "backoff": {"type": "exponential", "initial": 5, "multiplier": "NaN"},
  "rules": [
    {"on": {"types": ["A"]}, "then": "fail"},
    {"on": {"types": "A"}}
  ]
}"#;
    let folder = Folder::new("check_json").with("policy.json", policy);
    expect![[r#"
        policy.json:2:3
          2 |   "max_attempts": 0,
            |   ^^^^^^^^^^^^^^^^^
        error: P3 max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or "unlimited".

        policy.json:3:3
          3 |   "jiter": "full",
            |   ^^^^^^^^^^^^^^^
        error: P2 unknown field "jiter"; did you mean "jitter"?

        policy.json:4:38
          4 |   "backoff": {"type": "exponential", "initial": 5, "multiplier": "NaN"},
            |                                      ^^^^^^^^^^^^
        error: P3 backoff.initial: 5 has no unit; write "5s" or "5ms"

        policy.json:4:52
          4 |   "backoff": {"type": "exponential", "initial": 5, "multiplier": "NaN"},
            |                                                    ^^^^^^^^^^^^^^^^^^^
        error: P3 backoff.multiplier: "NaN" is not a finite number greater than 0

        policy.json:7:13
          7 |     {"on": {"types": "A"}}
            |             ^^^^^^^^^^^^
        error: P3 rules[1].on.types: "A" is not a list
        exit 2
    "#]].assert_eq(&folder.policy("check policy.json").all());
}

#[test]
fn problems_that_only_the_whole_shows_have_a_place_too() {
    let policy = r#"{
  "timeouts": {
    "attempt": "2m",
    "heartbeat": "5m"
  },
  "rules": [{"then": "retry"}, {"then": "fail"}]
}"#;
    let folder = Folder::new("check_whole").with("policy.json", policy);
    expect![[r#"
        policy.json:4:5
          4 |     "heartbeat": "5m"
            |     ^^^^^^^^^^^^^^^^^
        error: P4 timeouts.heartbeat (5m) is not below timeouts.attempt (2m)

        policy.json:6:32
          6 |   "rules": [{"then": "retry"}, {"then": "fail"}]
            |                                ^^^^^^^^^^^^^^^^
        error: P4 rules[1] can never match: rules[0] matches everything
        exit 2
    "#]]
    .assert_eq(&folder.policy("check policy.json").all());
}

#[test]
fn every_problem_of_a_toml_file_is_shown_in_its_place() {
    let policy = "\
max_attempts = 0
jitter = { proportional = nan }

[backoff]
type = 'fixed'
delay = 5

[[rules]]
on = { kinds = ['timout'] }
";
    let folder = Folder::new("check_toml").with("policy.toml", policy);
    expect![[r#"
        policy.toml:1:1
          1 | max_attempts = 0
            | ^^^^^^^^^^^^^^^^
        error: P3 max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no retries or "unlimited".

        policy.toml:2:12
          2 | jitter = { proportional = nan }
            |            ^^^^^^^^^^^^^^^^^^
        error: P3 jitter.proportional: "nan" is not a finite number

        policy.toml:6:1
          6 | delay = 5
            | ^^^^^^^^^
        error: P3 backoff.delay: 5 has no unit; write "5s" or "5ms"

        policy.toml:9:17
          9 | on = { kinds = ['timout'] }
            |                 ^^^^^^^^
        error: P3 rules[0].on.kinds[0]: "timout" is unknown; did you mean "timeout"?
        exit 2
    "#]].assert_eq(&folder.policy("check policy.toml").all());
}

#[test]
fn a_dialect_is_checked_in_its_own_words() {
    let ran =
        run_with("check - --from cadence", "{\"InitialInterval\": 10,\n\"MaximumInterval\": 5}");
    expect![[r#"
        <stdin>:1:1
          1 | {"InitialInterval": 10,
            | ^^^^^^^^^^^^^^^^^^^^^^^
        error: P4 MaximumAttempts and ExpirationInterval are both unset; set at least one

        <stdin>:2:1
          2 | "MaximumInterval": 5}
            | ^^^^^^^^^^^^^^^^^^^^
        error: P3 MaximumInterval: 5 is below InitialInterval
        exit 2
    "#]]
    .assert_eq(&ran.all());
}

#[test]
fn json_is_one_value_for_good_and_for_bad() {
    let good = run("check edda.infinite --json");
    assert_eq!((good.code, good.stderr.as_str()), (0, ""));
    assert_eq!(good.json()["ok"], true);
    assert_eq!(good.json()["errors"], json!([]));
    assert_eq!(good.json()["lints"][0]["code"], "W1");

    let strict = run("check edda.infinite --json --strict");
    assert_eq!((strict.code, &strict.json()["ok"]), (2, &json!(false)));

    let bad = run_with("check - --json", "{\n \"max_attempts\": 0}");
    assert_eq!((bad.code, bad.stderr.as_str()), (2, ""));
    let message = "max_attempts: 0 is not allowed; it counts the first attempt. Use 1 for no \
        retries or \"unlimited\".";
    let error = json!({
        "path": "max_attempts", "code": "P3", "message": message, "line": 2, "column": 2,
    });
    assert_eq!(bad.json()["errors"], json!([error]));

    let missing = run("check no-such-file --json");
    assert_eq!(missing.code, 2);
    assert_eq!(missing.json()["errors"][0]["line"], json!(null));
}

#[test]
fn the_schema_is_printed_as_json() {
    let ran = run("schema");
    assert_eq!(ran.code, 0);
    assert_eq!(ran.json()["title"], "Resurgam retry policy");
}
