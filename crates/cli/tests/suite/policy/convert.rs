//! Policies in the words of other systems.

use expect_test::expect;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::policy::run::{Folder, run, run_with};

#[test]
fn a_policy_that_the_dialect_can_say_is_converted_without_loss() {
    let ran = run_with("convert - --from exosphere --to rappel_ir", r#"{"max_retries": 3}"#);
    assert_eq!(ran.all(), "[retry: 3, backoff: 2s]\nexit 0\n");
}

#[test]
fn what_is_lost_is_listed_aside_and_ends_with_3() {
    expect![[r#"
        [retry: 2, backoff: 1s]
        lost: jitter: the dialect has none
        lost: max_delay (20s): delays have no cap
        exit 3
    "#]]
    .assert_eq(&run("convert aws.standard --to rappel_ir").all());
}

#[test]
fn notes_about_the_source_are_told_as_well() {
    let config = r#"{"strategy": "FIXED", "backoff_factor": 5, "exponent": 3}"#;
    expect![[r#"
        {
          "max_attempts": 4,
          "backoff": {
            "type": "fixed",
            "delay": "5ms"
          },
          "max_delay": "unlimited",
          "jitter": "none"
        }
        note: exponent: 3 has no effect; only EXPONENTIAL strategies use it
        exit 0
    "#]]
    .assert_eq(&run_with("convert - --from exosphere --to canonical", config).all());
}

#[test]
fn our_own_form_keeps_the_order_of_its_fields() {
    expect![[r#"
        {
          "max_attempts": 5,
          "backoff": {
            "type": "exponential",
            "initial": "1s",
            "multiplier": 2.0
          },
          "max_delay": "1m",
          "jitter": "none",
          "max_elapsed": "5m",
          "deadline": "check_only",
          "clock_from": "first_started"
        }
        exit 0
    "#]]
    .assert_eq(&run("convert edda.default --to canonical").all());
}

#[test]
fn every_dialect_reads_what_it_wrote() {
    for (dialect, config) in [
        ("edda", json!({"max_attempts": 3, "initial_interval": 0.5, "max_duration": null})),
        ("duroxide", json!({"max_attempts": 4, "backoff": {"type": "Fixed", "delay_ms": 50}})),
        ("rappel_ir", json!({"brackets": "[A, B -> retry: 5, backoff: 2m] [timeout: 30s]"})),
        ("rappel_py", json!({"attempts": 4, "backoff_seconds": 1.5})),
        ("cadence", json!({"InitialInterval": 1, "MaximumAttempts": 5})),
        ("exosphere", json!({"max_retries": 2, "strategy": "LINEAR_FULL_JITTER"})),
        ("canonical", json!({"max_attempts": 7, "never_for": ["A"]})),
    ] {
        let convert = format!("convert - --from {dialect} --to {dialect}");
        let once = run_with(&convert, config.to_string());
        assert_eq!((once.code, once.stderr.as_str()), (0, ""), "{dialect}");
        let twice = run_with(&convert, &once.stdout);
        assert_eq!(twice.stdout, once.stdout, "{dialect}");
    }
}

#[test]
fn json_is_one_value_with_the_losses() {
    let ran = run("convert aws.standard --to edda --json");
    assert_eq!((ran.code, ran.stderr.as_str()), (3, ""));
    let value = ran.json();
    assert_eq!(value["config"]["max_attempts"], 3);
    assert_eq!(value["notes"], json!([]));
    assert!(!value["lost"].as_array().unwrap().is_empty(), "{value}");

    let ran = run("convert edda.default --to canonical --json");
    assert_eq!(ran.code, 0);
    let keys: Vec<&str> = ran
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.split('"').next())
        .collect();
    assert_eq!(&keys[..3], ["max_attempts", "backoff", "max_delay"]);
    assert_eq!(ran.json()["lost"], json!([]));
}

#[test]
fn toml_is_read_in_every_dialect() {
    let folder = Folder::new("convert_toml")
        .with("edda.toml", "max_attempts = 3\ninitial_interval = 0.5\n")
        .with("ours.toml", "max_attempts = 'unlimited'\n[backoff]\ntype = 'fixed'\ndelay = '1s'\n")
        .with("rappel.toml", "brackets = '[retry: 1]'\n");
    let ran = folder.policy("convert edda.toml --from edda --to duroxide --json");
    assert_eq!(ran.json()["config"]["max_attempts"], 3);
    let ran = folder.policy("convert ours.toml --to canonical");
    let value: Value = ran.json();
    assert_eq!(value["max_attempts"], "unlimited");
    let ran = folder.policy("convert rappel.toml --from rappel_ir --to rappel_py");
    assert_eq!(ran.json()["attempts"], 2);
}

#[test]
fn the_target_must_be_named() {
    let ran = run("convert default");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--to <DIALECT>"), "{}", ran.stderr);
}
