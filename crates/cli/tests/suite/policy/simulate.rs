//! `resurgam policy simulate`: an outage of a dependency, without a gate and with one.

use resurgam_watchdog::test;

use crate::policy::run::{Folder, run};

/// A small outage, which is told the same every time.
const OUTAGE: &str = "simulate policy.json --rate 20 --capacity 30 --outage 60s";

fn folder(test: &str) -> Folder {
    let policy = r#"{"max_attempts": 5, "backoff": {"type": "exponential", "initial": "1s"}}"#;
    Folder::new(test).with("policy.json", policy).with("gate.json", r#"{"breaker": true}"#)
}

#[test]
fn an_outage_is_told_without_a_gate_and_with_one() {
    let folder = folder("an_outage_is_told");
    let told = folder.policy(&format!("{OUTAGE} --gate gate.json --json")).json();
    let [without, with] = [0, 1].map(|place| &told["worlds"][place]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert!(number(&without["lost"]) > 500, "{without}");
    assert_eq!(number(&with["lost"]), 0, "{with}");
    assert!(number(&with["futile"]) * 10 < number(&without["futile"]), "{told}");
    let text = folder.policy(&format!("{OUTAGE} --gate gate.json"));
    assert_eq!(text.code, 0);
    let first = "A dependency that serves 30 requests a second is out for 1m, while 20 calls a \
                 second are made.\n";
    assert!(text.stdout.starts_with(first), "{}", text.stdout);
    for part in ["without a gate", "with the gate", "calls that were given up", "Assumed:"] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    let drawn = folder.policy(&format!("{OUTAGE} --gate gate.json --svg")).stdout;
    assert!(drawn.contains("class=\"line with\"") && drawn.contains("class=\"line without\""));
}

#[test]
fn an_outage_may_begin_at_a_moment_within_a_second() {
    let folder = folder("an_outage_may_begin");
    let at = |more: &str| {
        let told = folder.policy(&format!("{OUTAGE} --gate gate.json --json {more}")).json();
        let of = |name: &str| told["worlds"][1][name].as_u64().unwrap();
        (of("futile_least"), of("futile"), of("futile_most"))
    };
    let (least, _, most) = at("");
    let (early, futile, late) = at("--phase 375ms");
    assert!(least <= futile && futile <= most && early == late, "{least} {futile} {most}");
    let text = folder.policy(&format!("{OUTAGE} --phase 375ms")).stdout;
    assert!(text.contains("The outage begins 375ms after a second of the clock."), "{text}");
    let refused = folder.policy(&format!("{OUTAGE} --phase 2s"));
    assert!(refused.stderr.contains("expected less than a second"), "{}", refused.stderr);
}

#[test]
fn without_a_policy_it_is_the_default_one_and_without_a_gate_there_is_one_column() {
    let told = run("simulate --rate 20 --capacity 30 --outage 10s --json").json();
    assert_eq!(told["worlds"].as_array().unwrap().len(), 1);
    assert_eq!(told["seconds_of_outage"], 10.0);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_reason() {
    let folder = folder("what_cannot_be_simulated").with("bad.json", r#"{"braker": true}"#);
    let refused = folder.policy(&format!("{OUTAGE} --gate bad.json"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("did you mean \"breaker\"?"), "{}", refused.stderr);
    let refused = folder.policy(&format!("{OUTAGE} --gate nowhere.json"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("there is no such file"), "{}", refused.stderr);
    let refused = run("simulate --rate 0 --capacity 30 --outage 60s");
    assert!(refused.stderr.contains("a number above 0"), "{}", refused.stderr);
}
