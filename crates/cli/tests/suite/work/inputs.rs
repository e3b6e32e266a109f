//! Inputs from files and from standard input.

use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::Place;

fn place() -> Place {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [n], output: [r]):\n    return @one(n=n)\n");
    place.action("one", "cat");
    place
}

#[test(minutes = 15)]
fn an_input_is_read_from_a_file_or_from_standard_input() {
    let place = place();
    place.write("in.json", "{\"n\": \"from a file\"}\n");
    let file = place.json(&["run", "one.rap", "--input", "@in.json"]);
    assert_eq!(file["result"], json!({"n": "from a file"}));
    let args = ["run", "one.rap", "--input", "-", "--json"];
    let piped = place.run_reading(b"{\"n\": \"piped\"}", &args).json_with(0);
    assert_eq!(piped["result"], json!({"n": "piped"}));
    let args = ["start", "one.rap", "--id", "s", "--input", "-", "--json"];
    place.run_reading(b"{\"n\": 2}", &args).json_with(0);
    assert_eq!(place.json(&["show", "s"])["input"], json!({"n": 2}));
}

#[test(minutes = 15)]
fn the_store_of_a_graph_and_the_value_of_a_signal_are_read_in_the_same_way() {
    let place = place();
    let node = json!({
        "node_name": "one", "namespace": "d", "identifier": "a",
        "inputs": {"x": "${{ store.key }}"}
    });
    place.write(
        "graph.json",
        &json!({"secrets": {}, "nodes": [node], "store_config": {
        "required_keys": ["key"]}})
        .to_string(),
    );
    place.write("store.json", "{\"key\": \"kept\"}");
    let graph = place.run(&["start", "graph.json", "--store", "@store.json", "--json"]);
    assert_eq!(graph.code, Some(0), "{graph:?}");
    let both = place.run(&["start", "graph.json", "--store", "-", "--input", "-", "--json"]);
    let both = both.json_with(2)["errors"][0].clone();
    assert_eq!(both["message"], "--input and --store cannot both be read from standard input");

    place.write("bad.json", "{");
    let refused = place.run(&["signal", "s", "go", "@bad.json", "--json"]).json_with(2);
    let message = refused["errors"][0]["message"].as_str().unwrap();
    let place_of_it = "the value of the signal @bad.json is not JSON: EOF while parsing";
    assert!(message.starts_with(place_of_it), "{message}");
}

#[test(minutes = 15)]
fn what_is_wrong_with_an_input_from_elsewhere_is_told_with_the_place() {
    let place = place();
    place.write("bad.json", "{\"n\": 1");
    place.write("odd.json", "{\"m\": 1}");
    for (input, wrong) in [
        ("@bad.json", "--input @bad.json: this is not JSON: EOF while parsing an object"),
        ("@odd.json", "--input @odd.json: "),
        ("@none.json", "read the file: No such file or directory"),
        ("@", "--input @: names no file; write @FILE"),
        ("-", "--input -: this is not JSON: EOF while parsing a value"),
    ] {
        let refused = place.run(&["run", "one.rap", "--json", "--input", input]).json_with(2);
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(wrong), "{message}");
    }
    let missing = place.run(&["run", "one.rap", "--input", "@none.json"]).stderr;
    assert!(missing.starts_with("error: C1 none.json: read the file: No such"), "{missing}");
    assert!(!place.path("test.db").exists());
}
