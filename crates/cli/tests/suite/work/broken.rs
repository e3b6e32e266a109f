//! Files that make no sense: every error with its place, exit code 2, nothing stored.

use std::time::Instant;

use resurgam_watchdog::test;
use serde_json::json;

use crate::work::support::Place;

/// Nobody waits for a lock that is never given back: this is what opening one says.
const LOCKED: &str = "another process keeps it locked; try again, or close what has a transaction";

const PROGRAM: &str =
    "fn main(input: [n], output: [r]):\n    x = @f(n=m)\n    retrun x\n    return g(x)\n";

const GRAPH: &str = r#"{
  "secrets": {},
  "nodes": [
    {"node_name": "", "namespace": "d", "identifier": "a", "inputs": {}, "next_nodes": ["b"]},
    {"node_name": "B", "namespace": "d", "identifier": "b", "inputs": {"x": "${{ c.outputs.y }}"}}
  ]
}
"#;

#[test(minutes = 15)]
fn every_error_of_a_program_has_its_place_as_text_and_as_json() {
    let place = Place::new();
    place.write("bad.rap", PROGRAM);
    for command in [&["run", "bad.rap"][..], &["start", "bad.rap"], &["check", "bad.rap"]] {
        let text = place.run(command);
        assert_eq!((text.code, text.stdout.as_str()), (Some(2), ""), "{text:?}");
        assert!(text.stderr.contains("bad.rap:3:"), "{}", text.stderr);
        let form = place.run(&[command, &["--json"]].concat());
        assert_eq!(form.stderr, "");
        let form = form.json_with(2);
        let errors = form["errors"].as_array().unwrap();
        assert_eq!(form.as_object().unwrap().len(), 1);
        for error in errors {
            let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["code", "column", "file", "hint", "line", "message", "source"]);
            assert_eq!(error["file"], "bad.rap");
            assert!(error["line"].as_u64().unwrap() > 0 && error["column"].as_u64().unwrap() > 0);
        }
        assert!(errors.iter().any(|error| error["line"] == 3), "{errors:?}");
    }
    assert!(!place.path("test.db").exists());
}

#[test(minutes = 15)]
fn every_error_of_a_graph_has_its_place_and_its_path() {
    let place = Place::new();
    place.write("bad.json", GRAPH);
    for command in
        [&["run", "bad.json"][..], &["check", "bad.json"], &["graph", "check", "bad.json"]]
    {
        let text = place.run(command);
        assert_eq!(text.code, Some(2));
        assert!(text.stderr.contains("bad.json:4:6"), "{}", text.stderr);
        let form = place.run(&[command, &["--json"]].concat()).json_with(2);
        let errors = form["errors"].as_array().unwrap();
        let first = &errors[0];
        assert_eq!(first["path"], "nodes[0].node_name");
        assert_eq!(first["message"], "Node name cannot be empty");
        assert_eq!((&first["line"], &first["column"]), (&json!(4), &json!(6)));
        assert!(errors.len() > 1, "{errors:?}");
    }
    place.write("no.json", "{\n  \"nodes\": [,\n}");
    let form = place.run(&["run", "no.json", "--json"]).json_with(2);
    assert_eq!(form["errors"][0]["line"], 2);
    assert!(!place.path("test.db").exists());
}

#[test(minutes = 15)]
fn a_graph_whose_nodes_are_not_there_is_refused_with_their_places() {
    let place = Place::new();
    place.action("Fetch", "echo '{}'");
    place.write(
        "g.json",
        r#"{"secrets": {}, "nodes": [
            {"node_name": "Fecth", "namespace": "d", "identifier": "a", "inputs": {}}]}"#,
    );
    let form = place.run(&["run", "g.json", "--json"]).json_with(2);
    let error = &form["errors"][0];
    assert_eq!((&error["path"], &error["line"]), (&json!("nodes[0].node_name"), &json!(2)));
    assert!(error["message"].as_str().unwrap().ends_with("did you mean \"Fetch\"?"), "{error}");
    let outside = place.run(&["run", "g.json", "--json", "--actions", "nowhere"]).json_with(2);
    assert!(outside["errors"][0]["message"].as_str().unwrap().starts_with("--actions nowhere: "));
}

#[test(minutes = 15)]
fn what_is_not_there_and_what_is_no_database_is_refused() {
    let place = Place::new();
    let missing = place.run(&["run", "none.rap", "--json"]).json_with(2);
    assert_eq!(missing["errors"][0]["file"], "none.rap");
    let none = place.run(&["list", "--json"]).json_with(2);
    assert_eq!(none["errors"][0]["message"], "there is no database test.db");
    let plain = place.run(&["list", "--json", "--db", "none.db"]).json_with(2);
    assert_eq!(plain["errors"][0]["message"], "there is no database none.db");
    let scheme = place.run(&["list", "--json", "--db", "mysql://here/none"]).json_with(2);
    assert_eq!(scheme["errors"][0]["hint"], "write FILE or postgres://USER@HOST/NAME");
    place.write("one.rap", "fn main(input: [], output: []):\n    return 1\n");
    assert_eq!(place.json(&["run", "one.rap", "--id", "a"])["result"], json!(1));
    for command in [
        &["show", "b"][..],
        &["history", "b"],
        &["attempts", "b"],
        &["cancel", "b"],
        &["signal", "b", "go"],
        &["watch", "b"],
    ] {
        let ended = place.run(&[command, &["--json"]].concat()).json_with(2);
        let message = ended["errors"][0]["message"].as_str().unwrap();
        assert!(message.ends_with("there is no instance of this id"), "{message}");
    }
    let closed = place.run(&["cancel", "a", "--json"]).json_with(2);
    assert_eq!(closed["errors"][0]["message"], "cancel a: the instance is closed (completed)");
}

#[test(minutes = 15)]
fn a_layout_is_checked_and_mended() {
    let place = Place::new();
    place.write("a.rap", "fn main(input:[],output:[x]):\n  return  1 # one\n");
    let check = place.run(&["fmt", "--check", "a.rap"]);
    assert_eq!((check.code, check.stdout.as_str()), (Some(1), "a.rap\n"));
    assert_eq!(place.json(&["fmt", "a.rap"]), json!({"changed": ["a.rap"]}));
    assert_eq!(place.text("a.rap"), "fn main(input: [], output: [x]):\n    return 1  # one\n");
    assert_eq!(place.run(&["fmt", "--check", "a.rap"]).code, Some(0));
    place.write("b.rap", PROGRAM);
    assert_eq!(place.run(&["fmt", "b.rap"]).code, Some(2));
    assert_eq!(place.text("b.rap"), PROGRAM);
}

#[test(minutes = 15)]
fn files_that_nobody_could_have_meant_are_refused_with_the_place_where_they_go_wrong() {
    let place = Place::new();
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    place.write("deep.json", &format!("{{\n\"nodes\": {}}}", deep("[", "]")));
    place.write(
        "deep.rap",
        &format!("fn main(input: [], output: []):\n    return {}\n", deep("(", ")")),
    );
    std::fs::write(place.path("bytes.rap"), b"# ok\n# \xc3\xa4\xff\n").unwrap();
    std::fs::write(place.path("bytes.json"), b"{\n  \"\xff\n").unwrap();
    place.write("nul.rap", "fn main(input: [], output: []):\n    return 1\0\n");
    for (file, line) in
        [("deep.json", 2), ("deep.rap", 2), ("bytes.rap", 2), ("bytes.json", 2), ("nul.rap", 2)]
    {
        for command in ["check", "run", "start"] {
            let refused = place.run(&[command, file, "--json"]).json_with(2);
            assert_eq!(refused["errors"][0]["line"], json!(line), "{file}: {refused}");
        }
    }
    let bytes = place.run(&["check", "bytes.rap", "--json"]).json();
    assert_eq!(bytes["errors"][0]["column"], json!(4));
    for file in ["/dev/zero", "actions"] {
        let refused = place.run(&["check", file, "--json"]).json_with(2);
        assert_eq!(refused["errors"][0]["file"], json!(file));
    }
    assert!(!place.path("test.db").exists());
}

#[test(minutes = 15)]
fn thousands_of_mistakes_in_a_graph_are_all_told_with_their_places_and_at_once() {
    let place = Place::new();
    let node = |n: usize| {
        format!(
            "{{\"node_name\": \"N\", \"namespace\": \"d\", \"identifier\": \"n{n}\",\n\
             \"inputs\": {{\"a\": {n}}}, \"next_nodes\": [\"n{}\"]}}",
            n + 1
        )
    };
    let nodes: Vec<String> = (0..5_000).map(node).collect();
    let graph = format!("{{\"secrets\": {{}}, \"nodes\": [\n{}]}}", nodes.join(",\n"));
    place.write("lines.json", &graph);
    place.write("line.json", &graph.replace('\n', ""));
    for (file, one_line) in [("lines.json", false), ("line.json", true)] {
        let since = Instant::now();
        let ended = place.run(&["check", file, "--json"]);
        // Tenths of a second when it is optimized. What takes minutes is not waited for.
        println!("{file}: {:?}", since.elapsed());
        assert!(ended.stdout.len() < 5 << 20, "{file}: {} bytes", ended.stdout.len());
        let refused = ended.json_with(2);
        let errors = refused["errors"].as_array().unwrap();
        for n in [0, 77, 4_999] {
            let message = json!(format!("Input {n} is not a string"));
            let told = errors.iter().find(|error| error["message"] == message).unwrap();
            assert_eq!(told["line"], json!(if one_line { 1 } else { 2 * n + 3 }), "{told}");
            assert!(told["source"].as_str().unwrap().contains(&format!("\"a\": {n}}}")), "{told}");
        }
    }
}

/// A database with an instance `a` in it.
fn used() -> (Place, rusqlite::Connection) {
    let place = Place::new();
    place.write("one.rap", "fn main(input: [], output: []):\n    return 1\n");
    assert_eq!(place.json(&["run", "one.rap", "--id", "a"])["result"], json!(1));
    let connection = rusqlite::Connection::open(place.path("test.db")).unwrap();
    (place, connection)
}

#[test(minutes = 15)]
fn a_database_that_another_program_keeps_locked_is_told_apart_from_a_mistake() {
    let (place, other) = used();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let start = place.run(&["start", "one.rap", "--id", "b", "--json"]).json_with(1);
    let error = &start["errors"][0];
    assert_eq!(error["code"], "D1");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("start b: ") && message.contains(LOCKED), "{message}");
    other.execute_batch("COMMIT").unwrap();
    place.json(&["start", "one.rap", "--id", "b"]);
}

#[test(minutes = 15)]
fn a_database_of_a_newer_version_is_left_alone_and_says_which_version_to_use() {
    let (place, other) = used();
    let newer = "UPDATE meta SET format = 99, min_reader = 98, made_by = '9.9.9'";
    other.execute_batch(newer).unwrap();
    drop(other);
    for command in [&["list"][..], &["start", "one.rap"], &["run", "one.rap"]] {
        let ended = place.run(command);
        let text = "error: D3 open test.db: it was made by Resurgam 9.9.9 in format 99, which needs \
                    a program that knows format 98, and this one knows ";
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.starts_with(text), "{}", ended.stderr);
        assert!(ended.stderr.ends_with("; use that version or a newer one\n"), "{}", ended.stderr);
    }
}

#[test(minutes = 15)]
fn a_database_of_another_program_is_left_alone() {
    let place = Place::new();
    let other = rusqlite::Connection::open(place.path("test.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    let ended = place.run(&["list"]);
    let text = "error: D4 open test.db: this database belongs to another application; give the path \
                of another file, or of none\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), text));
}
