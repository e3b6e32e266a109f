//! `resurgam policy what-if`: recorded calls under another policy.

use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::Place;

#[test(minutes = 15)]
pub(super) fn recorded_calls_follow_another_policy() {
    let place = Place::new();
    let program =
        "fn main(input: [], output: [r]):\n    return @flaky() [retry: 3, backoff: 20ms]\n";
    place.write("flaky.rap", program);
    place.action("flaky", "[ $RESURGAM_ATTEMPT -lt 3 ] && exit 5; echo 7");
    assert_eq!(place.run(&["run", "flaky.rap", "--id", "a"]).code, Some(0));
    assert_eq!(place.run(&["run", "flaky.rap", "--id", "b"]).code, Some(0));
    place.write("once.json", r#"{"max_attempts": 1}"#);
    place.write("late.json", r#"{"backoff": {"type": "fixed", "delay": "1h"}, "jitter": "none"}"#);

    let compared = |file: &str| place.json(&["policy", "what-if", file, "--activity", "flaky"]);
    let once = compared("once.json");
    assert_eq!((&once["calls"], &once["recorded"]["attempts"]), (&json!(2), &json!(6)));
    assert_eq!(once["recorded"]["succeeded"], json!(2));
    assert_eq!((&once["what_if"]["attempts"], &once["what_if"]["failed"]), (&json!(2), &json!(2)));
    let late = compared("late.json");
    assert_eq!(late["what_if"]["attempts"], json!(4), "{late}");
    assert_eq!(late["what_if"]["succeeded"], json!(2));

    let told = place.run(&["policy", "what-if", "late.json", "--activity", "flaky"]);
    assert!(told.stdout.starts_with("2 calls of flaky\n"), "{told:?}");
    assert!(told.stdout.contains("Assumed:"), "{told:?}");
    let drawn = place.run(&["policy", "what-if", "late.json", "--activity", "flaky", "--svg"]);
    assert!(drawn.stdout.starts_with("<svg"), "{drawn:?}");
    let none = place.run(&["policy", "what-if", "late.json", "--activity", "unheard-of"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.contains("no call of unheard-of"), "{none:?}");
}
