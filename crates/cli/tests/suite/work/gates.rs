//! `gate`, `activity` and `queue`: what holds calls back, with a worker beside them.

use resurgam_watchdog::test;

use crate::processes::until;
use crate::work::support::Place;

/// A place with `order`, whose call of `charge` is behind the gate `bank` and succeeds at once.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "order.rap",
        "fn main(input: [], output: [r]):\n    return @charge() [gate: \"bank\"]\n",
    );
    place.action("charge", "echo 7");
    assert_eq!(place.run(&["start", "order.rap", "--id", "order"]).code, Some(0));
    place
}

fn status(place: &Place) -> String {
    place.json(&["show", "order"])["status"].as_str().unwrap().to_string()
}

#[test(minutes = 15)]
pub(super) fn a_call_that_a_gate_holds_back_says_so_and_goes_on_when_it_opens() {
    let place = place();
    let shut = ["gate", "shut", "bank", "--by", "ana", "--reason", "maintenance"];
    assert_eq!(place.run(&shut).code, Some(0));
    let worker = place.begin(&["worker"]);
    until("the call to be due", || place.json(&["show", "order"])["pending"][0].is_object());
    let shown = place.run(&["show", "order"]).stdout;
    let sentence = "and waits for gate bank (shut ";
    assert!(shown.contains(sentence) && shown.contains("ana wants it: maintenance"), "{shown}");
    let behind = &place.json(&["show", "order"])["pending"][0]["behind"];
    assert_eq!([&behind["key"], &behind["standing"]], ["bank", "shut"], "{behind}");
    assert!(behind["since_ms"].is_i64() && behind["why"].is_string(), "{behind}");
    let listed = place.run(&["gate", "list"]).stdout;
    assert!(listed.contains("bank") && listed.contains("shut"), "{listed}");
    assert_eq!(place.run(&["gate", "auto", "bank"]).code, Some(0));
    until("the order to complete", || status(&place) == "completed");
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn a_call_that_waits_for_its_turn_says_what_bounds_it() {
    let place = place();
    place.write("gate.json", "{\"concurrency\": 1}");
    assert_eq!(place.run(&["gate", "set", "bank", "gate.json"]).code, Some(0));
    // The first goes on until there is a file.
    let go = place.path("go").display().to_string();
    place.action("charge", &format!("while [ ! -e '{go}' ]; do sleep 0.1; done; echo 7"));
    assert_eq!(place.run(&["start", "order.rap", "--id", "next"]).code, Some(0));
    let worker = place.begin(&["worker"]);
    let pending = |id| place.json(&["show", id])["pending"][0].clone();
    until("one to wait for the other", || {
        let both = ["order", "next"].map(pending);
        both.iter().any(|call| call["running"] == true)
            && both.iter().any(|call| call["behind"]["key"] == "bank")
    });
    let waits = if pending("next")["running"] == true { "order" } else { "next" };
    let shown = place.run(&["show", waits]).stdout;
    let sentence =
        "and waits for its turn at gate bank (flowing; at most 1 run at once; it is next)";
    assert!(shown.contains(sentence), "{shown}");
    assert_eq!(pending(waits)["behind"]["bounds"]["concurrency"], 1);
    place.write("go", "");
    until("the order to complete", || status(&place) == "completed");
    worker.kill();
}

#[test(minutes = 15)]
pub(super) fn an_activity_that_is_paused_begins_nothing_until_it_is_resumed() {
    let place = place();
    let pause = ["activity", "pause", "charge", "--by", "ana", "--reason", "a wrong price"];
    assert_eq!(place.run(&pause).code, Some(0));
    let worker = place.begin(&["worker"]);
    until("the call to be due", || place.json(&["show", "order"])["pending"][0].is_object());
    let shown = place.run(&["show", "order"]).stdout;
    let sentence = "and waits for activity charge (paused by ana: a wrong price)";
    assert!(shown.contains(sentence), "{shown}");
    assert_eq!(place.run(&["activity", "resume", "charge"]).code, Some(0));
    until("the order to complete", || status(&place) == "completed");
    worker.kill();
}

#[test(minutes = 15)]
fn settings_that_make_no_sense_are_refused_and_change_nothing() {
    let place = place();
    place.write("gate.json", "{\"braker\": {}}");
    let refused = place.run(&["gate", "set", "bank", "gate.json"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("did you mean \"breaker\"?"), "{refused:?}");
    assert!(!place.run(&["gate", "list"]).stdout.contains("bank"));
}
