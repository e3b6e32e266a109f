//! Workers on one SQLite file: one works, others stand by, `run` attaches.

use std::io::{Read, Write};
use std::net::TcpStream;

use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::json;

use crate::processes::PATIENCE;
use crate::work::support::{Place, Process, until};

const TWO: &str = "fn main(input: [], output: [r]):\n    x = @wait()\n    return @who(x=x)\n";

fn place() -> Place {
    let place = Place::new();
    place.write("two.rap", TWO);
    place.action("wait", "echo $PPID >> began; while [ ! -e go ]; do sleep 0.02; done; echo 1");
    place.action("who", "echo $PPID");
    place
}

fn worker(place: &Place, args: &[&str]) -> Process {
    place.begin(&[&["worker", "--actions", "actions"], args].concat())
}

#[test(minutes = 15)]
fn a_second_worker_stands_by_and_takes_over() {
    let place = place();
    let first = worker(&place, &[]);
    until("it works", || first.said().contains("working on test.db"));
    assert!(!first.said().contains("shards"), "who is alone shares nothing: {}", first.said());
    let second = worker(&place, &[]);
    until("it stands by", || second.said().contains("standing by"));
    place.json(&["start", "two.rap", "--id", "t"]);
    until("the action runs", || place.text("began").lines().count() == 1);
    assert_eq!(place.text("began").trim(), first.id().to_string());
    first.kill();
    until("the second works", || second.said().contains("working on test.db"));
    place.write("go", "");
    let ended = place.run(&["watch", "t", "--json"]).json_with(0);
    assert_eq!(ended["result"], json!(second.id()));
    let attempts = place.json(&["attempts", "t"]);
    assert_eq!(
        (&attempts[0]["activity"], &attempts[0]["outcome"]),
        (&json!("wait"), &json!("lost"))
    );
}

#[test(minutes = 15)]
fn a_run_where_a_worker_works_attaches_as_a_client() {
    let place = place();
    let worker = worker(&place, &[]);
    until("it works", || worker.said().contains("working on"));
    let run = place.begin(&["run", "two.rap", "--id", "r"]);
    until("it says so", || {
        run.said().contains(&format!("process {} (resurgam) works on it", worker.id()))
    });
    place.write("go", "");
    let ended = run.end();
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), worker.id().to_string().as_str()));
}

#[test(minutes = 15)]
fn sigterm_drains_what_runs_and_begins_nothing_more() {
    let place = place();
    let worker = worker(&place, &["--json"]);
    until("it works", || worker.said().contains("working on"));
    place.json(&["start", "two.rap", "--id", "d"]);
    until("the action runs", || !place.text("began").is_empty());
    worker.signal(Signal::TERM);
    until("it drains", || worker.said().contains("stopping"));
    place.write("go", "");
    assert_eq!(worker.end().json_with(0), json!({"drained": true}));
    let history = place.run(&["history", "d"]).stdout;
    assert!(history.contains("ActivityCompleted #2 1"), "{history}");
    assert_eq!(place.json(&["show", "d"])["pending"][0]["attempt"], 0);
}

#[test(minutes = 15)]
fn a_worker_waits_for_an_executable_that_comes_later() {
    let place = place();
    std::fs::remove_file(place.path("actions/wait")).unwrap();
    let worker = worker(&place, &[]);
    place.run(&["start", "two.rap", "--id", "l"]);
    until("it is missed", || place.run(&["show", "l"]).stdout.contains("waits for its executable"));
    place.action("wait", "echo 1");
    assert_eq!(place.run(&["watch", "l", "--json"]).json_with(0)["result"], json!(worker.id()));
    assert_eq!(place.json(&["attempts", "l"]), json!([]));
}

#[test(minutes = 15)]
fn instances_of_any_file_run_on_one_worker_and_not_more_actions_than_slots() {
    let place = Place::new();
    place.write(
        "many.rap",
        "fn main(input: [n], output: [r]):\n    r = spread range(n):i -> @one(i=i)\n    return r\n",
    );
    place.write(
        "g.json",
        &json!({"secrets": {}, "nodes": [
        {"node_name": "one", "namespace": "d", "identifier": "a", "inputs": {"i": "x"}}]})
        .to_string(),
    );
    place.action(
        "one",
        "mkdir slot-a 2>/dev/null && s=slot-a || { mkdir slot-b && s=slot-b || exit 9; }
        cat; sleep 0.05; rmdir $s",
    );
    let worker = worker(&place, &["--slots", "2"]);
    until("it works", || worker.said().contains("working on"));
    place.json(&["start", "many.rap", "--input", "{\"n\": 8}", "--id", "m"]);
    place.json(&["start", "g.json", "--id", "g"]);
    let many = place.run(&["watch", "m", "--json"]).json_with(0);
    assert_eq!(many["result"].as_array().unwrap().len(), 8);
    assert_eq!(many["result"][7], json!({"i": 7}));
    let graph = place.run(&["watch", "g", "--json"]).json_with(0);
    assert_eq!(graph["states"][0]["outputs"], json!({"i": "x"}));
}

#[test(minutes = 15)]
fn metrics_are_served_on_this_machine_in_the_form_of_openmetrics() {
    let place = place();
    place.write("go", "");
    let worker = worker(&place, &["--metrics", "0"]);
    until("it serves", || worker.said().contains("metrics at http://127.0.0.1:"));
    until("it works", || worker.said().contains("working on"));
    let said = worker.said();
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_string();
    assert_eq!(place.run(&["run", "two.rap"]).code, Some(0));
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
        "{page}"
    );
    assert!(
        page.contains("# TYPE resurgam_attempts counter\nresurgam_attempts_total 2\n"),
        "{page}"
    );
    assert!(page.ends_with("# EOF\n"), "{page}");
}

#[test(minutes = 15)]
fn an_executable_that_goes_between_two_attempts_is_waited_for_and_show_says_so() {
    let place = Place::new();
    let program =
        "fn main(input: [], output: [r]):\n    return @f() [retry: 9, backoff: 1s linear]\n";
    place.write("f.rap", program);
    place.action("f", "echo >> began; exit 1");
    let shown = || place.run(&["show", "g"]).stdout;
    let first = worker(&place, &[]);
    until("it works", || first.said().contains("working on"));
    place.json(&["start", "f.rap", "--id", "g"]);
    until("it has failed", || !place.json(&["attempts", "g"]).as_array().unwrap().is_empty());
    std::fs::remove_file(place.path("actions/f")).unwrap();
    until("it is missed", || shown().contains("the worker has no action f"));
    first.kill();
    assert!(shown().contains("and waits for a worker"), "{}", shown());
    // A worker that never saw the executable knows as well.
    let _second = worker(&place, &[]);
    until("it is missed again", || shown().contains("the worker has no action f"));
    let began = place.text("began").lines().count();
    place.action("f", "echo >> began; echo 7");
    assert_eq!(place.run(&["watch", "g", "--json"]).json_with(0)["result"], json!(7));
    assert_eq!(place.text("began").lines().count(), began + 1);
}

#[test(minutes = 15)]
fn a_worker_says_which_actions_it_runs_and_what_it_needs() {
    let place = place();
    let here = place.begin(&["worker"]);
    until("it says so", || here.said().contains(" actions in actions"));
    here.kill();
    std::fs::rename(place.path("actions"), place.path("elsewhere")).unwrap();
    let refused = place.run(&["worker"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let expected = "a worker needs the folder of the actions that it runs, and there is no folder \
                    `actions` here; give it with --actions DIR";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
}
