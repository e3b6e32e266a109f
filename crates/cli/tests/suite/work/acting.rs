//! `call`: what operators do to an activity call, with a worker beside them and without one.

use resurgam_watchdog::test;
use serde_json::json;

use crate::processes::until;
use crate::work::support::{Place, Process};

/// A place with `order`, whose call of `charge` fails until there is a file `bank`, and waits for
/// an hour then.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "order.rap",
        "fn main(input: [], output: [r]):\n    return @charge() [retry: 9, backoff: 1h]\n",
    );
    place.action("charge", "test -f bank && echo 7 || { echo 'no answer' >&2; exit 1; }");
    assert_eq!(place.run(&["start", "order.rap", "--id", "order"]).code, Some(0));
    place
}

/// A worker, once the first attempt has failed.
fn worker(place: &Place) -> Process {
    let worker = place.begin(&["worker"]);
    until("the first attempt to fail", || {
        let shown = place.json(&["show", "order"]);
        shown["pending"][0]["failures"] == 1
    });
    worker
}

fn status(place: &Place) -> String {
    place.json(&["show", "order"])["status"].as_str().unwrap().to_string()
}

#[test(minutes = 15)]
pub(super) fn a_call_is_retried_when_the_other_side_is_back() {
    let place = place();
    let worker = worker(&place);
    place.write("bank", "");
    let args = ["call", "retry", "order", "charge", "--by", "ana", "--reason", "the bank is back"];
    let retried = place.run(&args);
    assert_eq!((retried.code, retried.stdout.as_str()), (Some(0), "retried charge#2 now\n"));
    until("the order to complete", || status(&place) == "completed");
    let history = place.run(&["history", "order"]).stdout;
    let line = "operator ana: retried charge#2 now (\"the bank is back\")";
    assert!(history.contains(line), "{history}");
    let again = place.run(&args);
    assert_eq!((again.code, again.stdout.as_str()), (Some(2), "no call of charge is open\n"));
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_call_is_paused_shown_and_completed_by_hand() {
    let place = place();
    let worker = worker(&place);
    let paused = place.run(&["call", "pause", "order", "charge#2", "--by", "ana"]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let shown = place.run(&["show", "order"]).stdout;
    assert!(shown.contains("charge #2: paused "), "{shown}");
    assert!(shown.contains(" by ana; `resurgam call resume` goes on"), "{shown}");
    let refused = place.run(&["call", "retry", "order", "charge#2", "--json"]).json_with(2);
    assert_eq!(refused["answer"], "charge#2 is paused; resume it instead");
    assert_eq!((&refused["changed"], &refused["stored"]), (&json!(false), &json!(false)));
    let value = place.run_reading(b"8", &["call", "complete", "order", "charge#2", "--value", "-"]);
    assert_eq!((value.code, value.stdout.as_str()), (Some(0), "completed charge#2\n"));
    until("the order to complete", || status(&place) == "completed");
    assert_eq!(place.json(&["show", "order"])["result"], 8);
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn where_nobody_works_an_action_is_stored_for_who_does_next() {
    let place = place();
    worker(&place).kill();
    let args = ["call", "fail", "order", "charge#2", "--message", "enough", "--request-id", "t-1"];
    let stored = place.run(&args);
    let nobody = "stored; no worker is running yet\n";
    assert_eq!((stored.code, stored.stdout.as_str()), (Some(0), nobody));
    let worker = place.begin(&["worker"]);
    until("the order to fail", || status(&place) == "failed");
    let again = place.run(&args);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "failed charge#2\n"));
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn what_names_no_call_or_no_policy_is_refused_with_what_to_do() {
    let place = place();
    let worker = worker(&place);
    for (args, said) in [
        (&["call", "retry", "order"][..], "retry a call of order: the call is missing"),
        (&["paused", "resume", "1:444e3ed41980"], "write --fingerprint 1:444e3ed41980"),
        (&["call", "retry", "order", "charge#six"], "\"charge#six\" names no call"),
        (&["call", "retry", "order", "ship#2"], "#2 of order is a call of charge"),
        (&["call", "retry", "nobody", "charge#2"], "there is no instance of this id"),
        (&["call", "complete", "order", "charge#2", "--value", "{"], "--value is not JSON"),
        (
            &["call", "set-policy", "order", "charge#2", "--policy", "none.json"],
            "error: C1 read none.json: there is no such file or preset",
        ),
        (
            &["policy", "set", "charge", "none.json"],
            "error: C1 read none.json: there is no such file or preset",
        ),
    ] {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(2), "{args:?} {refused:?}");
        assert!(refused.stderr.contains(said), "{args:?} {refused:?}");
        assert_eq!(refused.stderr.matches("error:").count(), 1, "{args:?} {refused:?}");
    }
    place.write(
        "patient.json",
        r#"{"backoff": {"type": "fixed", "delay": "2h"}, "jitter": "none"}"#,
    );
    let args = ["call", "set-policy", "order", "charge#2", "--policy", "patient.json"];
    let changed = place.run(&args);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    let said = "charge#2 follows another policy from now on (attempt 2 is due in ";
    assert!(changed.stdout.starts_with(said), "{changed:?}");
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_paused_call_that_must_not_run_twice_is_shown_with_what_ends_it() {
    let place = place();
    let worker = worker(&place);
    place.write(
        "once.json",
        r#"{"max_attempts": 1, "idempotency": "at_most_once", "on_exhausted": "pause"}"#,
    );
    let args = ["call", "set-policy", "order", "charge#2", "--policy", "once.json"];
    let paused = place.run(&args);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let shown = place.run(&["show", "order"]).stdout;
    let ends = "so `resurgam call complete` or `fail` ends it";
    assert!(shown.contains(ends) && !shown.contains("resume"), "{shown}");
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_policy_is_set_for_all_calls_of_an_activity_listed_and_removed() {
    let place = place();
    let worker = worker(&place);
    place
        .write("often.json", r#"{"max_attempts": 9, "backoff": {"type": "fixed", "delay": "1s"}}"#);
    let args = ["policy", "set", "charge", "often.json", "--by", "ana", "--reason", "ticket 17"];
    let set = place.run(&args);
    let answer = "calls of charge follow this policy from now on\n";
    assert_eq!((set.code, set.stdout.as_str()), (Some(0), answer), "{set:?}");
    let again = place.run(&args);
    assert_eq!(again.code, Some(2), "{again:?}");
    let listed = place.run(&["policy", "list"]).stdout;
    assert!(listed.starts_with("charge  set by ana "), "{listed}");
    assert!(listed.contains("(\"ticket 17\")\n  {\"backoff\":{"), "{listed}");
    assert!(listed.contains("\"max_attempts\":9"), "{listed}");
    let listed = place.json(&["policy", "list"]);
    assert_eq!(listed[0]["policy"]["max_attempts"], 9);
    assert_eq!((&listed[0]["by"], &listed[0]["revision"]), (&json!("ana"), &json!(1)));
    // It would wait for an hour.
    until("the second attempt to fail", || {
        let shown = place.json(&["show", "order"]);
        shown["pending"][0]["failures"].as_u64() >= Some(2)
    });
    let unset = place.run(&["policy", "unset", "charge"]);
    assert_eq!(unset.code, Some(0), "{unset:?}");
    let none = place.run(&["policy", "list"]);
    assert_eq!(none.stderr, "no policy is set for any activity\n", "{none:?}");
    worker.kill();
    let timeouts = r#"{"timeouts": {"total": "1h"}}"#;
    place.write("timeouts.json", timeouts);
    let refused = place.run(&["policy", "set", "charge", "timeouts.json"]);
    assert!(refused.stderr.contains("it names timeouts"), "{refused:?}");
    let stored = place.run(&["policy", "set", "charge", "often.json"]);
    assert_eq!(stored.stdout, "stored; no worker is running yet\n", "{stored:?}");
}
