//! `schedule`: programs and graphs that start by the clock.

use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::work::support::{Place, until};

fn place() -> Place {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [n], output: [r]):\n    return @one(n=n)\n");
    place.action("one", "cat");
    place
}

const NIGHTLY: [&str; 10] = [
    "schedule",
    "create",
    "nightly",
    "one.rap",
    "--input",
    r#"{"n": 7}"#,
    "--cron",
    "0 3 * * *",
    "--zone",
    "Europe/Berlin",
];

fn ids(place: &Place) -> Vec<String> {
    let list = place.json(&["list"]);
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_string()).collect()
}

#[test(minutes = 15)]
pub(super) fn a_schedule_is_created_shown_paused_resumed_and_deleted() {
    let place = place();
    let made = place.run(&[&NIGHTLY[..], &["--utc"]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stdout.starts_with("nightly fires next at 20"), "{made:?}");
    let form = place.json(&["schedule", "show", "nightly"]);
    let says = json!({"id": "nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin"});
    assert_eq!((&form["schedule"], &form["input"]), (&says, &json!({"n": 7})));
    assert_eq!((&form["workflow"], &form["started"]), (&json!("one"), &json!(0)));
    assert_eq!(form["next_ms"].as_array().unwrap().len(), 5);
    let text = place.run(&["schedule", "show", "nightly"]).stdout;
    assert!(text.contains("when       0 3 * * * Europe/Berlin\n"), "{text}");
    assert!(text.contains("counts     0 started, 0 missed, 0 skipped\n"), "{text}");

    let paused = place.run(&["schedule", "pause", "nightly"]);
    assert_eq!(paused.stdout, "nightly is paused\n");
    let list = place.run(&["schedule", "list"]).stdout;
    assert!(list.trim_end().ends_with(" -     0        paused"), "{list}");
    // The same again changes nothing, and least of all the pause.
    let again = place.run(&NIGHTLY).stdout;
    assert!(again.starts_with("nightly is paused; "), "{again}");
    let resumed = place.json(&["schedule", "resume", "nightly"]);
    assert_eq!(resumed, json!({"id": "nightly", "paused": false}));
    assert_eq!(place.json(&["schedule", "list"])[0]["paused"], false);
    let gone = place.json(&["schedule", "delete", "nightly"]);
    assert_eq!(gone, json!({"id": "nightly", "deleted": true}));
    assert_eq!(place.run(&["schedule", "list"]).stdout, "no schedules\n");
}

#[test(minutes = 15)]
pub(super) fn a_schedule_that_says_something_else_is_refused_or_replaced() {
    let place = place();
    assert_eq!(place.run(&NIGHTLY).code, Some(0));
    let other: Vec<&str> =
        NIGHTLY.iter().map(|word| if *word == "0 3 * * *" { "0 4 * * *" } else { word }).collect();
    let refused = place.run(&[&other[..], &["--json"]].concat()).json_with(2);
    let error = &refused["errors"][0];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("there is a schedule of this id that says something else"));
    assert_eq!(error["hint"], "--replace takes its place");
    let replaced = place.json(&[&other[..], &["--replace"]].concat());
    assert_eq!(replaced["schedule"]["cron"], "0 4 * * *");
}

#[test(minutes = 15)]
pub(super) fn everything_that_a_schedule_can_say_is_an_option() {
    let place = place();
    let made = place.json(&[
        "schedule",
        "create",
        "poll",
        "one.rap",
        "--input",
        r#"{"n": 1}"#,
        "--every",
        "90m",
        "--anchor",
        "2026-01-01T00:02:00Z",
        "--overlap",
        "buffer_one",
        "--catch-up",
        "1h",
        "--jitter",
        "30s",
        "--not-before",
        "2026-01-01T00:00:00Z",
        "--not-after",
        "2999-12-31T23:59:59Z",
        "--paused",
        "--queue",
        "q",
    ]);
    let says = json!({
        "id": "poll",
        "every": "90m",
        "anchor": "2026-01-01T00:02:00Z",
        "overlap": "buffer_one",
        "catch_up": "1h",
        "jitter": "30s",
        "paused": true,
        "not_before": "2026-01-01T00:00:00Z",
        "not_after": "2999-12-31T23:59:59Z"
    });
    assert_eq!((&made["schedule"], &made["paused"]), (&says, &json!(true)));
    place.json(&["schedule", "run", "poll"]);
    assert_eq!(place.json(&["list"])[0]["queue"], "q");
}

#[test(minutes = 15)]
pub(super) fn what_makes_no_sense_is_refused_and_nothing_is_stored() {
    let place = place();
    let create = |args: &[&str]| {
        let input = ["--input", r#"{"n": 1}"#];
        place.run(&[&["schedule", "create", "s", "one.rap"], &input[..], args].concat())
    };
    for (args, wrong) in [
        (&[][..], "--cron <EXPRESSION>|--every <TIME>"),
        (&["--cron", "* * * * *", "--every", "5m"], "cannot be used with"),
        (&["--every", "5m", "--zone", "UTC"], "zone: belongs to a cron expression"),
        (&["--every", "7"], "this has no unit; write \"7s\" or \"7ms\""),
        (&["--every", "5m", "--overlap", "both"], "write skip, buffer_one or allow"),
        (&["--every", "5m", "--not-after", "soon"], "this is not a time; write the date"),
        (&["--every", "100ms"], "schedule s: every: 100ms is shorter than a second"),
        (&["--cron", "0 3 * *"], "schedule s: cron: "),
        (&["--cron", "@daily", "--zone", "Berlin"], "did you mean \"Europe/Berlin\"?"),
    ] {
        let refused = create(args);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(wrong), "{}", refused.stderr);
    }
    let missing = place.run(&["schedule", "create", "s", "one.rap", "--every", "5m"]);
    assert!(missing.stderr.contains("--input: missing input \"n\""), "{missing:?}");
    assert_eq!(create(&["--every", "5m"]).code, Some(0));
    for verb in ["show", "pause", "resume", "run", "delete"] {
        let unknown = place.run(&["schedule", verb, "nobody", "--json"]).json_with(2);
        let message = unknown["errors"][0]["message"].as_str().unwrap();
        assert!(message.ends_with("there is no schedule of this id"), "{verb}: {message}");
    }
    assert_eq!(ids(&place), [""; 0]);
}

#[test(minutes = 15)]
pub(super) fn a_schedule_runs_now_and_for_a_past_range_once_for_each_firing() {
    let place = place();
    assert_eq!(place.run(&[&NIGHTLY[..], &["--paused"]].concat()).code, Some(0));
    let now = place.run(&["schedule", "run", "nightly"]).stdout;
    assert!(now.starts_with("nightly/20"), "{now}");
    assert_eq!(ids(&place), [now.trim()]);
    let range = ["--from", "2026-01-01", "--to", "2026-01-03T23:59:59Z"];
    let backfill = [&["schedule", "backfill", "nightly"], &range[..]].concat();
    let told = place.run(&backfill).stdout;
    let range = "2026-01-01T00:00:00Z to 2026-01-03T23:59:59Z";
    assert_eq!(told, format!("3 started for nightly, {range}\n"));
    assert_eq!(place.json(&backfill)["started"], 0, "each of them has its instance");
    let first = "nightly/2026-01-01T02:00:00Z";
    assert!(ids(&place).contains(&first.to_string()));
    let wrong = place.run(&["schedule", "backfill", "nightly", "--from", "1970-01-01"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");

    // A worker runs them as it runs everything that was started from a file.
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("they complete", || {
        let done = place.run(&["list", "--status", "completed", "--json"]);
        done.code == Some(0) && done.json().as_array().unwrap().len() == 4
    });
    drop(worker);
    assert_eq!(place.json(&["show", first])["result"], json!({"n": 7}));
    let last: Value = place.json(&["schedule", "show", "nightly"])["last"].clone();
    assert_eq!(last, now.trim());
}

#[test(minutes = 15)]
fn a_worker_starts_what_fires() {
    let place = place();
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it works", || worker.said().contains("working on test.db"));
    let input = ["--input", r#"{"n": 1}"#, "--every", "1s"];
    place.json(&[&["schedule", "create", "tick", "one.rap"], &input[..]].concat());
    until("it has fired twice", || {
        let done = place.run(&["list", "--status", "completed", "--json"]);
        done.code == Some(0) && done.json().as_array().unwrap().len() >= 2
    });
    place.json(&["schedule", "pause", "tick"]);
    assert!(ids(&place).iter().all(|id| id.starts_with("tick/20")));
}

#[test(minutes = 15)]
fn a_graph_with_secrets_is_the_same_schedule_when_it_is_created_again() {
    let mut place = Place::new();
    let key = place.run(&["secrets", "new-key"]).stdout;
    place.set("RESURGAM_SECRETS_KEY", key.trim());
    let node = json!({"node_name": "one", "namespace": "d", "identifier": "a", "inputs": {}});
    let graph = |secret: &str| json!({"secrets": {"token": secret}, "nodes": [node]}).to_string();
    place.write("graph.json", &graph("one"));
    let create = ["schedule", "create", "g", "graph.json", "--every", "1h"];
    assert_eq!(place.run(&create).code, Some(0));
    assert_eq!(place.run(&create).code, Some(0));
    let shown = place.run(&["schedule", "show", "g"]).stdout;
    assert!(!shown.contains("token"), "{shown}");
    place.write("graph.json", &graph("another"));
    assert_eq!(place.run(&create).code, Some(2));
}
