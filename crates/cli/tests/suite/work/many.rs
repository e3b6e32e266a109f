//! Actions on many calls or instances, and `bulk`.

use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::processes::until;
use crate::work::support::{Place, Process};

/// A place with three orders, whose calls of `charge` fail until there is a file `bank`, and wait
/// for an hour then.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "order.rap",
        "fn main(input: [], output: [r]):\n    return @charge() [retry: 9, backoff: 1h]\n",
    );
    place.action("charge", "test -f bank && echo 7 || { echo 'no answer' >&2; exit 1; }");
    for number in 1..=3 {
        let id = format!("order-{number}");
        assert_eq!(place.run(&["start", "order.rap", "--id", &id]).code, Some(0));
    }
    place
}

/// A worker, once the first attempt of every order has failed.
fn worker(place: &Place) -> Process {
    let worker = place.begin(&["worker"]);
    until("the first attempts to fail", || {
        let list = place.json(&["list", "--retrying"]);
        list.as_array().is_some_and(|list| list.len() == 3)
    });
    worker
}

fn completed(place: &Place) -> usize {
    place.json(&["list", "--status", "completed"]).as_array().map_or(0, Vec::len)
}

#[test(minutes = 15)]
pub(super) fn calls_are_looked_at_tried_and_retried_together() {
    let place = place();
    let worker = worker(&place);
    let retry = ["call", "retry", "--activity", "charge", "--failed-since", "1h"];
    let with = |more: &[&'static str]| [&retry[..], more].concat();
    let dry = place.run(&with(&["--dry-run"]));
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stdout.starts_with("3 calls would be changed\n"), "{dry:?}");
    assert!(dry.stdout.contains("  order-2 charge#2\n"), "{dry:?}");
    let none = place.run(&["call", "retry", "--failure-type", "Nothing", "--dry-run", "--json"]);
    assert_eq!(none.json_with(0), json!({"count": 0, "first": []}));

    let charges = place.json(&["list", "--activity", "charge", "--failed-since", "1h"]);
    assert_eq!(charges.as_array().map(Vec::len), Some(3), "{charges}");
    let coded = place.run(&["list", "--failure-code", "2", "--queue", "default"]);
    assert_eq!((coded.code, coded.stdout.as_str()), (Some(0), "no instances\n"));

    // The bank is not back: the one that is tried first fails, and the others are left alone.
    let first = place.run(&with(&["--first", "1", "--json"])).json_with(1);
    assert_eq!((&first["state"], &first["matched"]), (&json!("failed"), &json!(1)));
    place.write("bank", "");
    let all = place.run(&["call", "retry", "--activity", "charge", "--by", "ana"]);
    assert_eq!((all.code, all.stdout.as_str()), (Some(0), "3 calls changed\n"), "{all:?}");
    until("the orders to complete", || completed(&place) == 3);
    let history = place.run(&["history", "order-1"]).stdout;
    assert!(history.contains("operator ana: retried charge#2"), "{history}");

    let jobs = place.json(&["bulk", "list"]);
    let states: Vec<&Value> = jobs.as_array().unwrap().iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["done", "failed"]);
    let id = jobs[0]["id"].as_str().unwrap();
    let shown = place.run(&["bulk", "show", id]).stdout;
    assert!(shown.starts_with("retry charge waiting by ana: done, 3 of 3\n"), "{shown}");
    let narrow = ["call", "retry", "--tag", "city=Rome", "--queue", "slow", "--started-since"];
    let narrow = [&narrow[..], &["2026-11-15", "--failed-since", "2026-11-16"]].concat();
    assert_eq!(place.run(&narrow).code, Some(0));
    let listed = place.run(&["bulk", "list", "--limit", "1"]).stdout;
    let of = "waiting city=Rome queue slow started since 2026-11-15T00:00:00Z failed since \
              2026-11-16T00:00:00Z";
    assert!(listed.contains(of), "{listed}");
    let over = place.run(&["bulk", "stop", id]);
    assert_eq!((over.code, over.stdout.as_str()), (Some(2), "it was over, or stopped before\n"));
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_job_is_stored_without_a_worker_stopped_and_never_begun() {
    let place = place();
    worker(&place).kill();
    let pause = ["call", "pause", "--workflow", "order", "--request-id", "t-1"];
    let stored = place.run(&pause);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let said = "0 calls changed; stored as t-1: no worker has taken it up yet\n\
                `resurgam bulk show t-1 --wait` follows it; `resurgam bulk stop t-1` ends it\n";
    assert_eq!(stored.stdout, said);
    assert_eq!(place.run(&pause).stdout, said, "a repeated request is one job");
    assert_eq!(place.json(&["bulk", "list"]).as_array().map(Vec::len), Some(1));
    let stopped = place.run(&["bulk", "stop", "t-1", "--by", "ana"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let worker = place.begin(&["worker"]);
    // Nothing is waited for where nobody works, and the worker takes a moment to begin.
    let show = || place.run(&["bulk", "show", "t-1", "--wait", "--json"]).json_with(0);
    until("the job to be stopped", || show()["state"] == "stopped");
    assert_eq!(show()["matched"], 0);
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn instances_are_paused_and_resumed_together() {
    let place = place();
    let worker = worker(&place);
    let paused = place.run(&["pause", "--workflow", "order", "--limit", "2"]);
    assert_eq!((paused.code, paused.stdout.as_str()), (Some(0), "2 runs changed\n"), "{paused:?}");
    let resumed = place.run(&["resume", "--all", "--json"]).json_with(0);
    assert_eq!((&resumed["changed"], &resumed["refused"]), (&json!(2), &json!(0)));
    let none = place.run(&["restart", "--workflow", "order"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "0 runs changed; nothing matched\n"));
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn what_chooses_nothing_or_too_much_is_refused_with_what_to_do() {
    let place = place();
    for (args, said) in [
        (&["call", "retry"][..], "retry: nobody says which calls"),
        (&["call", "pause", "--limit", "3"], "pause: nobody says which calls"),
        (&["pause"], "pause: nobody says which instances"),
        (
            &["call", "retry", "order-1", "charge", "--activity", "charge"],
            "retry order-1: options for many calls, and one is named",
        ),
        (
            &["restart", "order-1", "--dry-run"],
            "restart order-1: options for many instances, and one is named",
        ),
        (&["call", "retry", "--status", "asleep"], "write waiting, retrying, running or paused"),
        (&["call", "retry", "--tag", "blue"], "write NAME=VALUE"),
        (&["call", "retry", "--all", "--first", "0"], "--first"),
        (&["call", "retry", "--all", "--first", "101"], "--first"),
        (&["call", "retry", "--all", "--limit", "0"], "--limit"),
        (&["call", "retry", "--all", "--spread", "soon"], "--spread"),
        (&["call", "complete", "--all", "--value", "1"], "--all"),
        (&["bulk", "show", "none"], "there is no such action on many"),
        (&["bulk", "stop", "none"], "there is no such action on many"),
    ] {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(2), "{args:?} {refused:?}");
        assert!(refused.stderr.contains(said), "{args:?} {refused:?}");
    }
}
