//! `start --each`: an instance for each line.

use std::io::Write;

use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::work::support::{Place, until};

fn place() -> Place {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [n], output: [r]):\n    return n\n");
    place
}

fn ids(place: &Place) -> Vec<String> {
    let list = place.json(&["list", "--limit", "100000"]);
    let mut ids: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_string())
        .collect();
    ids.sort();
    ids
}

#[test(minutes = 15)]
pub(super) fn every_line_starts_an_instance_and_the_same_file_again_starts_nothing() {
    let place = place();
    let lines = "{\"id\": \"a\", \"input\": {\"n\": 1}}\n\n{\"input\": {\"n\": 2}}\n\
                 {\"id\": \"b\", \"input\": {\"n\": [3]}}";
    place.write("all.jsonl", lines);
    let args = ["start", "one.rap", "--each", "all.jsonl", "--queue", "q"];
    let first = place.run(&args);
    let told = "3 started, 0 there already, 0 refused\n";
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), told), "{first:?}");
    assert_eq!(ids(&place), ["a", "all-3", "b"]);
    let show = place.json(&["show", "all-3"]);
    assert_eq!((&show["input"], &show["queue"]), (&json!({"n": 2}), &json!("q")));
    let form = json!({"started": 0, "there": 3, "refused": 0, "errors": []});
    assert_eq!(place.json(&args), form);
    // From standard input, and with another beginning.
    let args = ["start", "one.rap", "--each", "-", "--id", "x", "--json"];
    let piped = place.run_reading(b"{\"input\": {\"n\": 1}}\n", &args).json_with(0);
    assert_eq!(piped["started"], 1);
    assert_eq!(place.json(&["show", "x-1"])["input"], json!({"n": 1}));
}

const BROKEN: &[u8] = b"{\"id\": \"a\", \"input\": {\"n\": 1}}\n\
    {\"id\": \"b\"\n\
    {\"id\": \"c\", \"input\": {}}\n\
    {\"id\": \"\", \"input\": {\"n\": 1}}\n\
    {\"id\": \"a\", \"input\": {\"n\": 2}}\n\
    {\"input\": {\"n\": 1}}\n\
    {\"id\": \"d\", \"inptu\": {\"n\": 1}}\n\
    \xff\n\
    [1]\n\
    {\"id\": \"e\", \"input\": {\"n\": 1}}\n";

#[test(minutes = 15)]
pub(super) fn a_line_that_is_wrong_is_named_and_the_others_are_started() {
    let place = place();
    let args = ["start", "one.rap", "--each", "-", "--json"];
    let form = place.run_reading(BROKEN, &args).json_with(2);
    let counts = [&form["started"], &form["there"], &form["refused"]];
    assert_eq!(counts, [&json!(2), &json!(0), &json!(8)], "{form}");
    let errors = form["errors"].as_array().unwrap();
    let error = |line: u64| -> &Value {
        errors
            .iter()
            .find(|error| error["line"] == line)
            .unwrap_or_else(|| panic!("{line}: {form}"))
    };
    for (line, message) in [
        (2, "this is no start: EOF while parsing an object at column 10"),
        (3, "input: missing input \"n\"; main takes n"),
        (4, "id: an empty id is not allowed"),
        (5, "a cannot be continued with this file: its input is another one: n"),
        (6, "it has no id, and standard input has no name to make one from"),
        (7, "this is no start: unknown field `inptu`"),
        (8, "the line is not UTF-8"),
        (9, "this is no start: invalid type"),
    ] {
        let found = error(line)["message"].as_str().unwrap();
        assert!(found.starts_with(message), "{line}: {found}");
        assert_eq!(error(line)["file"], "standard input");
    }
    assert_eq!(ids(&place), ["a", "e"]);

    let text = place.run_reading(BROKEN, &["start", "one.rap", "--each", "-"]);
    assert_eq!(text.stdout, "0 started, 2 there already, 8 refused\n");
    let line = "error: C5 standard input:3: input: missing input \"n\"; main takes n\n";
    assert!(text.stderr.contains(line), "{}", text.stderr);
}

#[test(minutes = 15)]
pub(super) fn many_lines_are_started_and_none_twice() {
    let place = place();
    let lines: String = (1..=2_000).map(|n| format!("{{\"input\": {{\"n\": {n}}}}}\n")).collect();
    place.write("many.jsonl", &lines);
    let args = ["start", "one.rap", "--each", "many.jsonl"];
    assert_eq!(place.json(&args)["started"], 2_000);
    assert_eq!(ids(&place).len(), 2_000);
    place.write("many.jsonl", &format!("{lines}{{\"input\": {{\"n\": 2001}}}}\n"));
    let again = place.json(&args);
    assert_eq!((&again["started"], &again["there"]), (&json!(1), &json!(2_000)));
    assert_eq!(place.json(&["show", "many-1234"])["input"], json!({"n": 1234}));
}

#[test(minutes = 15)]
fn lines_are_started_as_they_come_and_an_interrupt_says_how_many_were() {
    let place = place();
    let (process, mut input) =
        place.begin_reading(&["start", "one.rap", "--each", "-", "--id", "x"]);
    input.write_all(b"{\"input\": {\"n\": 1}}\n").unwrap();
    until("it is started", || place.run(&["show", "x-1"]).code == Some(0));
    process.signal(Signal::INT);
    let ended = process.end();
    let told = "1 started, 0 there already, 0 refused\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), told), "{ended:?}");
    assert!(ended.stderr.starts_with("interrupted; the same again goes on"), "{ended:?}");
    drop(input);
}

#[test(minutes = 15)]
pub(super) fn a_graph_has_its_store_for_each_line_or_for_all() {
    let place = Place::new();
    let node = json!({
        "node_name": "one", "namespace": "d", "identifier": "a",
        "inputs": {"x": "${{ store.key }}"}
    });
    let graph = json!({"secrets": {}, "nodes": [node], "store_config": {"required_keys": ["key"]}});
    place.write("graph.json", &graph.to_string());
    place.write("l.jsonl", "{\"id\": \"a\", \"store\": {\"key\": \"own\"}}\n{\"id\": \"b\"}\n");
    let args = ["start", "graph.json", "--each", "l.jsonl", "--store", "{\"key\": \"all\"}"];
    assert_eq!(place.json(&args)["started"], 2);
    let store = |id: &str| place.json(&["show", id])["input"]["store"]["key"].clone();
    assert_eq!((store("a"), store("b")), (json!("own"), json!("all")));
}

#[test(minutes = 15)]
fn what_cannot_go_together_is_refused_before_anything_is_stored() {
    let place = place();
    for args in [
        &["start", "one.rap", "--each", "none.jsonl"][..],
        &["start", "one.rap", "--each", "-", "--input", "{}"],
        &["start", "none.rap", "--each", "-"],
        &["start", "one.rap", "--each", "-", "--store", "-"],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
    let missing = place.run(&["start", "one.rap", "--each", "none.jsonl"]).stderr;
    let message = "error: C1 none.jsonl: --each: read the file: No such file or directory";
    assert!(missing.starts_with(message), "{missing}");
    assert!(!place.path("test.db").exists());
}
