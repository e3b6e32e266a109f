//! `pause`, `resume`, `restart` and `reset`: what operators do to a run, with a worker beside them.

use resurgam_watchdog::test;

use crate::processes::until;
use crate::work::support::Place;

/// A place with `order`, whose call of `charge` fails while there is no file `bank`, and is tried
/// again as often as this says.
fn place(again: &str) -> Place {
    let place = Place::new();
    place.write(
        "order.rap",
        &format!("fn main(input: [], output: [r]):\n    return @charge() [{again}]\n"),
    );
    place.action("charge", "test -f bank && echo 7 || { echo 'no answer' >&2; exit 1; }");
    assert_eq!(place.run(&["start", "order.rap", "--id", "order"]).code, Some(0));
    place
}

fn status(place: &Place) -> String {
    place.json(&["show", "order"])["status"].as_str().unwrap().to_string()
}

#[test(minutes = 15)]
pub(super) fn an_instance_is_paused_shown_and_resumed() {
    let place = place("retry: 9, backoff: 1h");
    let worker = place.begin(&["worker"]);
    until("the first attempt to fail", || {
        place.json(&["show", "order"])["pending"][0]["failures"] == 1
    });
    let args = ["pause", "order", "--calls", "--by", "ana", "--reason", "the warehouse moves"];
    let paused = place.run(&args);
    let said = "paused order and its open call\n";
    assert_eq!((paused.code, paused.stdout.as_str()), (Some(0), said));
    let shown = place.run(&["show", "order"]).stdout;
    assert!(shown.contains("status     paused"), "{shown}");
    let said = " by ana (\"the warehouse moves\"), with its open calls; `resurgam resume` goes on";
    assert!(shown.contains(said), "{shown}");
    assert_eq!(place.json(&["show", "order"])["paused"]["by"], "ana");
    assert!(place.run(&["list", "--status", "paused"]).stdout.contains("order"));
    let again = place.run(&["pause", "order", "--json"]).json_with(2);
    assert_eq!(again["answer"], "order is paused; it stays so");
    let resumed = place.run(&["resume", "order"]);
    assert!(resumed.stdout.starts_with("resumed order after "), "{resumed:?}");
    assert_eq!(status(&place), "running");
    until("its call to be resumed", || {
        place.json(&["show", "order"])["pending"][0]["paused"].is_null()
    });
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn an_instance_that_failed_is_reset_when_the_other_side_is_back() {
    let place = place("retry: 1, backoff: 1s");
    let worker = place.begin(&["worker"]);
    until("the order to fail", || status(&place) == "failed");
    let nothing = place.run(&["reset", "order", "--to", "99"]);
    let said = "order has no event 99 to go back to; it has those from 2 to 4\n";
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), said));
    place.write("bank", "");
    let reset = place.run(&["reset", "order", "--last-failure", "--by", "ana"]);
    assert_eq!(
        (reset.code, reset.stdout.as_str()),
        (Some(0), "reset order to event 2 (ActivityScheduled charge); run 2 goes on from there\n")
    );
    until("the order to complete", || status(&place) == "completed");
    // What was done to the run before is in the history of that run.
    let before = place.run(&["history", "order", "--run", "1"]).stdout;
    assert!(before.contains(" operator ") && before.contains("has no event 99"), "{before}");
    assert!(before.ends_with(" RunContinued by Reset\n"), "{before}");
    assert!(!place.run(&["history", "order"]).stdout.contains("has no event 99"));
    let none = place.run(&["history", "order", "--run", "9"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    let restarted = place.run(&["restart", "order", "--by", "ana"]);
    assert_eq!((restarted.code, restarted.stdout.as_str()), (Some(0), "restarted order\n"));
    until("the order to complete again", || status(&place) == "completed");
    assert_eq!(place.json(&["show", "order"])["run"], 1);
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_reset_says_where_to() {
    let place = place("retry: 1, backoff: 1s");
    for args in [&["reset", "order"][..], &["reset", "order", "--to", "2", "--last-failure"]] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
    let stored = place.run(&["pause", "order"]);
    assert_eq!(stored.stdout, "stored; no worker is running yet\n");
}
