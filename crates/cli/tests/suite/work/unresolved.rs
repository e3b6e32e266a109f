//! `dead` and `paused`: decisions about calls that failed in the same way.

use resurgam_watchdog::test;
use serde_json::json;

use crate::processes::until;
use crate::work::support::{Place, Process};

/// A place with three orders whose call of `charge` fails, and is given up as the bracket says.
fn place(on_exhausted: &str) -> Place {
    let place = Place::new();
    place.write(
        "order.rap",
        &format!(
            "fn main(input: [n], output: [r]):\n    return @charge(n=n) [retry: 1, on_exhausted: \
             {on_exhausted}]\n"
        ),
    );
    place.action("charge", "test -f bank && echo 7 || { echo \"no answer $$\" >&2; exit 1; }");
    for number in 1..=3 {
        let (id, input) = (format!("order-{number}"), format!("{{\"n\": {number}}}"));
        let started = place.run(&["start", "order.rap", "--id", &id, "--input", &input]);
        assert_eq!(started.code, Some(0), "{started:?}");
    }
    place
}

/// A worker, once all of them are given up.
fn worker(place: &Place, command: &str) -> Process {
    let worker = place.begin(&["worker"]);
    until("three calls to be given up", || place.json(&[command, "list"])[0]["count"] == json!(3));
    worker
}

#[test(minutes = 15)]
pub(super) fn dead_letters_are_grouped_shown_redriven_and_discarded() {
    let place = place("dead_letter");
    assert_eq!(place.run(&["dead", "list"]).stdout, "no dead letters\n");
    let worker = worker(&place, "dead");
    let group = place.json(&["dead", "list"])[0].clone();
    let fingerprint = group["fingerprint"].as_str().unwrap().to_string();
    assert_eq!(group["activity"], "charge");
    let listed = place.run(&["dead", "list"]).stdout;
    assert!(listed.contains("no answer <n>") && listed.contains(&fingerprint), "{listed}");

    // Each of them, page by page.
    let first = place.run(&["dead", "list", "--each", "--limit", "2"]);
    let cursor = first.stderr.split("--after ").nth(1).unwrap().split(' ').next().unwrap();
    let rest = place.json(&["dead", "list", "--each", "--limit", "2", "--after", cursor]);
    assert_eq!(rest.as_array().unwrap().len(), 1);
    let call = rest[0]["call"].as_str().unwrap().to_string();
    let shown = place.run(&["dead", "show", &call]).stdout;
    for line in ["state        open", "attempt 1    failed: ", "attempt 2    failed: "] {
        assert!(shown.contains(line), "{shown}");
    }
    let by_name = place.run(&["dead", "show", "order-1", "charge#2"]);
    assert_eq!(by_name.code, Some(0), "{by_name:?}");
    let of_group = place.run(&["dead", "show", &fingerprint]).stdout;
    assert!(of_group.starts_with("3 dead letters of charge: "), "{of_group}");

    // Decisions.
    let both = place.run(&["dead", "redrive", &call, "--as-new", "--new-key"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let unknown = place.run(&["dead", "redrive", "order-1", "charge#9"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    for verb in ["show", "redrive", "discard"] {
        let other = place.run(&["dead", verb, "order-1", "ship#2"]);
        assert_eq!(other.code, Some(2), "{other:?}");
        assert!(other.stderr.contains("#2 of order-1 is a call of charge"), "{other:?}");
    }
    let nobody = place.run(&["dead", "discard"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    place.write("bank", "");
    let redriven = place.run(&["dead", "redrive", &call, "--as-new", "--by", "ana"]);
    assert_eq!(redriven.code, Some(0), "{redriven:?}");
    let again = format!("redrive/{call}");
    until("the call to complete", || place.json(&["show", &again])["status"] == "completed");
    // One goes on in its run, as the same call.
    let other = if rest[0]["instance"] == "order-2" { "order-3" } else { "order-2" };
    let in_run = place.run(&["dead", "redrive", other, "charge#2", "--by", "ana", "--json"]);
    let goes_on = "with the same idempotency key; run 2 goes on from there";
    let answer = format!("redriven charge#2 of {other} {goes_on}");
    assert_eq!(in_run.json_with(0)["answer"], answer);
    until("the order to complete", || place.json(&["show", other])["status"] == "completed");
    let again_in_run = place.run(&["dead", "redrive", other, "charge#2"]);
    assert_eq!(again_in_run.code, Some(2), "{again_in_run:?}");
    assert!(again_in_run.stdout.contains("was redriven by ana before"), "{again_in_run:?}");
    let chosen = ["dead", "discard", "--fingerprint", &fingerprint];
    let counted = place.run(&[&chosen[..], &["--dry-run"]].concat());
    assert!(counted.stdout.starts_with("1 dead letter would be changed\n  order-"), "{counted:?}");

    // What else chooses them.
    let count = |more: &[&str]| {
        let found = place.run(&[&["dead", "discard", "--dry-run", "--json"], more].concat());
        found.json_with(0)["count"].clone()
    };
    let letter = &place.json(&["dead", "list", "--each"])[0];
    let instance = letter["instance"].as_str().unwrap();
    let failure_type = letter["failure"]["type"].as_str().unwrap();
    let code = letter["failure"]["code"].as_str().unwrap();
    for (option, value) in [
        ("--id", instance),
        ("--workflow", letter["workflow"].as_str().unwrap()),
        ("--queue", "default"),
        ("--failure-type", failure_type),
        ("--failure-code", code),
    ] {
        assert_eq!(count(&[option, value]), 1, "{option} {value}");
        assert_eq!(count(&[option, "none"]), 0, "{option}");
        let listed = place.run(&["dead", "list", option, "none"]).stdout;
        assert_eq!(listed, "no dead letters\n", "{option}");
    }
    let named = place.run(&["dead", "discard", instance, "charge#2", "--workflow", "order"]);
    assert_eq!(named.code, Some(2), "{named:?}");

    // A repeated request is one job, and gets its answer.
    let once = [&chosen[..], &["--reason", "paid by hand", "--request-id", "t-1"]].concat();
    for _ in 0..2 {
        let discarded = place.run(&once);
        assert_eq!(discarded.stdout, "1 dead letter discarded\n", "{discarded:?}");
    }
    let of = &place.run(&["bulk", "show", "t-1"]).stdout;
    let line = format!("discard dead letters {fingerprint} by ");
    assert!(of.starts_with(&line), "{of}");
    let one = place.run(&["dead", "discard", instance, "charge#2", "--request-id", "t-2"]);
    assert_eq!(one.code, Some(2), "{one:?}");
    assert_eq!(place.run(&["dead", "list"]).stdout, "no dead letters\n");
    let shown = place.json(&["dead", "show", &call]);
    assert_eq!(shown["settled"]["redriven_as"], again);
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn paused_calls_are_grouped_and_resumed_together() {
    let place = place("pause");
    let worker = worker(&place, "paused");
    let group = place.json(&["paused", "list"])[0].clone();
    let fingerprint = group["fingerprint"].as_str().unwrap().to_string();
    let each = place.json(&["paused", "list", "--each", "--activity", "charge"]);
    assert_eq!(each.as_array().unwrap().len(), 3);
    assert_eq!(each[0]["stopped"], "max_attempts");
    let shown = place.run(&["paused", "show", &fingerprint]).stdout;
    assert!(shown.starts_with("3 paused calls of charge: "), "{shown}");
    let other = place.run(&["paused", "fail", "order-1", "ship#2", "--message", "no bank"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("#2 of order-1 is a call of charge"), "{other:?}");
    let fail = ["paused", "fail", "order-1", "charge#2", "--message", "no bank"];
    for _ in 0..2 {
        let failed = place.run(&[&fail[..], &["--request-id", "t-1"]].concat());
        assert_eq!(failed.stdout, "failed charge#2\n", "the first answer: {failed:?}");
    }
    place.write("bank", "");
    let chosen = ["paused", "resume", "--fingerprint", &fingerprint];
    let counted = place.run(&[&chosen[..], &["--dry-run"]].concat()).stdout;
    assert!(counted.starts_with("2 calls would be changed\n  order-"), "{counted}");
    let resumed = place.run(&[&chosen[..], &["--spread", "200ms", "--by", "ana"]].concat());
    assert_eq!((resumed.code, resumed.stdout.as_str()), (Some(0), "2 calls changed\n"));
    for id in ["order-2", "order-3"] {
        until("an order to complete", || place.json(&["show", id])["status"] == "completed");
    }
    assert_eq!(place.run(&["paused", "list"]).stdout, "no paused calls\n");
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn one_call_that_is_named_is_decided_about_as_it_would_be_in_a_group() {
    let place = Place::new();
    let program =
        "fn main(input: [], output: [r]):\n    return @charge() [retry: 9, backoff: 1h]\n";
    place.write("order.rap", program);
    place.action("charge", "echo 'no answer' >&2; exit 1");
    let started = place.run(&["start", "order.rap", "--id", "order", "--input", "{}"]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let worker = place.begin(&["worker"]);
    until("the first attempt to fail", || {
        place.json(&["show", "order"])["pending"][0]["failures"] == json!(1)
    });
    let refused = place.run(&["paused", "fail", "order", "charge#2", "--message", "no bank"]);
    let why = "charge#2 is not paused; `resurgam call fail` ends it\n";
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), why), "{refused:?}");
    // What somebody paused has not used up its attempts, which are not given to it anew.
    let paused = place.run(&["call", "pause", "order", "charge"]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let resumed = place.run(&["paused", "resume", "order", "charge"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(resumed.stdout.starts_with("resumed charge#2 (attempt 2 is due in "), "{resumed:?}");
    worker.kill();
}
