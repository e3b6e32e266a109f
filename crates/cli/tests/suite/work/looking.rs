//! `list`, `show`, `history`, `attempts`, `watch`, `signal`, `cancel`, and the forms that stay.

use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::work::support::{Place, events, until};

/// A place with an instance that has failed once and succeeded then, and one that failed.
fn place() -> Place {
    let place = Place::new();
    place.write("flaky.rap", "fn main(input: [], output: [r]):\n    return @flaky() [retry: 1]\n");
    place.action("flaky", "[ $RESURGAM_ATTEMPT = 1 ] && exit 5; echo 7");
    place.write("bad.rap", "fn main(input: [], output: [r]):\n    return @bad()\n");
    place.action(
        "bad",
        "echo '{\"type\":\"Bad\",\"message\":\"no\",\"retryable\":false}' >&2; exit 1",
    );
    assert_eq!(place.run(&["run", "flaky.rap", "--id", "a"]).code, Some(0));
    assert_eq!(place.run(&["run", "bad.rap", "--id", "b"]).code, Some(1));
    place
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test(minutes = 15)]
pub(super) fn the_documented_forms_are_what_is_printed() {
    let place = place();
    let list = place.json(&["list"]);
    let ids: Vec<&Value> = list.as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["b", "a"], "the newest first");
    assert_eq!(
        keys(&list[0]),
        [
            "closed_at_ms",
            "created_at_ms",
            "cursor",
            "error",
            "id",
            "paused",
            "queue",
            "run",
            "status",
            "workflow",
        ]
    );
    assert_eq!((&list[0]["workflow"], &list[0]["status"]), (&json!("bad"), &json!("failed")));

    let attempts = place.json(&["attempts", "a"]);
    assert_eq!(
        keys(&attempts[0]),
        [
            "activity",
            "attempt",
            "delay_ms",
            "ended_at_ms",
            "failure",
            "outcome",
            "seq",
            "started_at_ms",
            "why",
        ]
    );
    assert_eq!(attempts[0]["activity"], "flaky");

    let history = place.json(&["history", "a"]);
    let kinds: Vec<&Value> =
        history.as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["RunStarted", "ActivityScheduled", "ActivityCompleted", "RunCompleted"]);
    for (place, event) in history.as_array().unwrap().iter().enumerate() {
        assert_eq!(event["seq"], json!(place + 1));
        assert!(event["at_ms"].is_i64());
    }
    let merged = place.json(&["history", "a", "--attempts"]);
    assert_eq!(merged.as_array().unwrap().len(), 5);
    let attempt = events(&merged, "Attempt")[0];
    assert_eq!((&attempt["seq"], &attempt["call"]), (&Value::Null, &json!(2)));
    let row = &place.json(&["attempts", "a"])[0];
    for field in ["activity", "attempt", "outcome", "started_at_ms", "failure", "delay_ms", "why"] {
        assert_eq!(attempt[field], row[field], "{field}");
    }

    let show = place.json(&["show", "b"]);
    assert_eq!(show["failure"]["type"], "Bad");
    assert_eq!((&show["kind"], &show["pending"]), (&json!("program"), &json!([])));
}

#[test(minutes = 15)]
pub(super) fn lists_are_filtered() {
    let place = place();
    let ids = |args: &[&str]| -> Vec<String> {
        let list = place.json(&[&["list"], args].concat());
        list.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(ids(&["--status", "completed"]), ["a"]);
    assert_eq!(ids(&["--status", "completed", "--status", "failed"]), ["b", "a"]);
    assert_eq!(ids(&["--workflow", "bad"]), ["b"]);
    assert_eq!(ids(&["--limit", "1"]), ["b"]);
    assert_eq!(ids(&["--retrying"]), [] as [&str; 0]);
    assert_eq!(place.run(&["list", "--status", "odd"]).code, Some(2));
    let text = place.run(&["list"]).stdout;
    assert!(text.contains("completed") && text.lines().count() == 3, "{text}");
}

#[test(minutes = 15)]
pub(super) fn what_waits_for_its_next_attempt_is_shown_with_the_reason_and_can_be_cancelled() {
    let place = Place::new();
    place.write(
        "slow.rap",
        "fn main(input: [], output: [r]):\n    return @f() [retry: 9, backoff: 1h]\n",
    );
    place.action("f", "echo too early >&2; exit 1");
    let run = place.begin(&["run", "slow.rap", "--id", "s", "--json"]);
    until("it waits", || {
        let list = place.run(&["list", "--retrying", "--json"]);
        list.code == Some(0) && list.json()[0]["id"] == "s"
    });
    let text = place.run(&["show", "s"]).stdout;
    assert!(text.contains("f #2: attempt 2 of 10 is due in"), "{text}");
    assert!(text.contains("ExitCode: exit code 1: too early"), "{text}");
    let call = &place.json(&["show", "s"])["pending"][0];
    assert_eq!((&call["waits_for"], &call["max_attempts"]), (&json!("backoff"), &json!(10)));
    let watch = place.begin(&["watch", "s", "--json"]);
    assert_eq!(place.json(&["cancel", "s", "--reason", "enough"])["id"], "s");
    let form = run.end().json_with(1);
    assert_eq!(form["status"], "cancelled");
    assert_eq!(watch.end().json_with(1), form);
    let history = place.json(&["history", "s"]);
    // A server adds who wanted it.
    let reason = events(&history, "CancelRequested")[0]["reason"].as_str().unwrap();
    assert!(reason == "enough" || reason.starts_with("enough (by "), "{reason}");
}

#[test(minutes = 15)]
pub(super) fn a_run_that_sleeps_says_how_long_it_still_does() {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 36000\n    return 1\n");
    assert_eq!(place.run(&["start", "nap.rap", "--id", "n"]).code, Some(0));
    let text = place.run(&["show", "n"]).stdout;
    assert!(text.contains("worker     none: nobody works on the database"), "{text}");
    let _run = place.begin(&["run", "nap.rap", "--id", "n", "--json"]);
    until("it sleeps", || place.run(&["show", "n"]).stdout.contains("waits      for a timer, "));
    let text = place.run(&["show", "n"]).stdout;
    // Ten hours are left for a moment, and then nine and some minutes.
    assert!(text.contains("10h") || text.contains("9h "), "{text}");
    assert!(!text.contains("worker"), "{text}");
    let show = place.json(&["show", "n"]);
    let (due, since) = (&show["timers_due_ms"][0], &show["created_at_ms"]);
    assert!(due.as_i64().unwrap() >= since.as_i64().unwrap() + 36_000_000, "{show}");
}

#[test(minutes = 15)]
pub(super) fn an_instance_that_is_terminated_ends_without_its_code_and_says_why() {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 3600\n    return 1\n");
    let run = place.begin(&["run", "nap.rap", "--id", "n", "--json"]);
    until("it sleeps", || place.run(&["show", "n"]).stdout.contains("for a timer"));
    let told = place.run(&["terminate", "n", "--reason", "nobody will mend it"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "n ends as it is\n"));
    let ended = run.end().json_with(1);
    assert_eq!(ended["status"], "terminated");
    assert!(ended.to_string().contains("nobody will mend it"));
    assert_eq!(place.json(&["show", "n"])["status"], "terminated");
    assert_eq!(place.json(&["list", "--status", "terminated"])[0]["id"], "n");
    assert_eq!(place.json(&["list", "--status", "cancelled"]), json!([]));
    assert_eq!(place.run(&["terminate", "nobody"]).code, Some(2));
}

#[test(minutes = 15)]
pub(super) fn a_signal_to_a_program_or_a_graph_is_refused_because_nobody_could_read_it() {
    let place = Place::new();
    place.write("wait.rap", "fn main(input: [], output: [r]):\n    return @wait()\n");
    place.action("wait", "while [ ! -e go ]; do sleep 0.02; done");
    let run = place.begin(&["run", "wait.rap", "--id", "w", "--json"]);
    until("it runs", || place.run(&["show", "w"]).code == Some(0));
    let refused = place.run(&["signal", "w", "hurry", "{\"by\": 7}", "--json"]).json_with(2);
    let message = refused["errors"][0]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "w runs a program (.rap), and those cannot wait for signals; nothing was sent"
    );
    assert_eq!(place.run(&["signal", "w", "hurry", "{"]).code, Some(2));
    assert_eq!(place.json(&["show", "w"])["unread_signals"], json!([]));
    let node = json!({"node_name": "wait", "namespace": "d", "identifier": "a", "inputs": {}});
    place.write("graph.json", &json!({"secrets": {}, "nodes": [node]}).to_string());
    place.json(&["start", "graph.json", "--id", "g"]);
    let refused = place.run(&["signal", "g", "hurry"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("g runs a graph, and those cannot wait"), "{refused:?}");
    assert_eq!(place.run(&["terminate", "g"]).code, Some(0));
    until("it is over", || place.json(&["show", "g"])["status"] == "terminated");
    let watch = place.begin(&["watch"]);
    until("it watches", || watch.said().contains("1 open\n"));
    place.write("go", "");
    assert_eq!(run.end().json_with(0)["result"], Value::Null);
    let watched = watch.end();
    assert_eq!((watched.code, watched.stderr.as_str()), (Some(0), "1 open\nw completed\n"));
    assert_eq!(place.json(&["watch"]), json!([]));
}

#[test(minutes = 15)]
pub(super) fn an_instance_that_nobody_has_taken_up_waits_for_its_first_turn() {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 3600\n    return 1\n");
    assert_eq!(place.run(&["start", "nap.rap", "--id", "n"]).code, Some(0));
    let text = place.run(&["show", "n"]).stdout;
    assert!(text.contains("waits      for its first turn\nworker     none"), "{text}");
    assert_eq!(place.json(&["show", "n"])["waits_for_first_turn"], true);
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it is taken up", || place.json(&["show", "n"])["waits_for_first_turn"] == false);
    worker.signal(Signal::STOP);
    assert_eq!(place.run(&["start", "nap.rap", "--id", "m"]).code, Some(0));
    let text = place.run(&["show", "m"]).stdout;
    assert!(text.contains("for its first turn: no worker has taken it up yet"), "{text}");
    assert!(!text.contains("signal"), "{text}");
}

#[test(minutes = 15)]
pub(super) fn a_watch_that_is_interrupted_says_how_to_watch_again() {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 3600\n    return 1\n");
    assert_eq!(place.run(&["start", "nap.rap", "--id", "n"]).code, Some(0));
    let watch = place.begin(&["watch", "n"]);
    until("it listens", || watch.listens_for(Signal::INT));
    watch.signal(Signal::INT);
    let ended = watch.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("`resurgam watch n` watches it again"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--id"), "{}", ended.stderr);
}

#[test(minutes = 15)]
fn a_watch_of_more_than_it_shows_does_not_say_that_these_are_all() {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 3600\n    return 1\n");
    assert_eq!(place.run(&["start", "nap.rap", "--id", "n"]).code, Some(0));
    let mut database = rusqlite::Connection::open(place.path("test.db")).unwrap();
    database.execute_batch("CREATE TEMP TABLE another AS SELECT * FROM instance").unwrap();
    let transaction = database.transaction().unwrap();
    for number in 1..=1_000 {
        let sql = format!(
            "UPDATE another SET uid = randomblob(16), id = 'n-{number}', request_id = NULL;
             INSERT INTO instance SELECT * FROM another"
        );
        transaction.execute_batch(&sql).unwrap();
    }
    transaction.commit().unwrap();
    let watch = place.begin(&["watch"]);
    until("it watches", || watch.said().contains(" open\n"));
    assert_eq!(watch.said(), "more than 1000 open\n");
}

/// Every command that looks, or tells an instance something.
const LOOKS: [&[&str]; 8] = [
    &["list"],
    &["show", "a"],
    &["history", "a"],
    &["attempts", "a"],
    &["watch"],
    &["watch", "a"],
    &["signal", "a", "go"],
    &["cancel", "a"],
];

#[test(minutes = 15)]
fn looking_at_an_empty_file_says_that_there_is_nothing_and_leaves_it_empty() {
    let place = Place::new();
    place.write("test.db", "");
    for look in LOOKS {
        let ended = place.run(look);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("error: C4 open test.db: there is no Resurgam in"));
        assert!(ended.stderr.contains("`resurgam worker`"), "{}", ended.stderr);
    }
    assert_eq!(place.text("test.db"), "");
    for beside in ["test.db-wal", "test.db-shm", "test.db-owner", "test.db-queue"] {
        assert!(!place.path(beside).exists(), "{beside}");
    }
    // Whoever starts something makes it; and what looks leaves nothing beside it.
    place.write("one.rap", "fn main(input: [], output: []):\n    return 1\n");
    assert_eq!(place.run(&["start", "one.rap", "--id", "a"]).code, Some(0));
    for look in [&["list"][..], &["show", "a"], &["history", "a"], &["attempts", "a"]] {
        assert_eq!(place.run(look).code, Some(0));
        for beside in ["test.db-wal", "test.db-shm"] {
            assert!(!place.path(beside).exists(), "{look:?} leaves {beside}");
        }
    }
}

#[test(minutes = 15)]
fn a_worker_whose_file_is_removed_ends_and_says_so_and_makes_no_other() {
    let place = Place::new();
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it works", || worker.said().contains("working on test.db"));
    std::fs::remove_file(place.path("test.db")).unwrap();
    let ended = worker.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = "test.db was removed or replaced while it was in use";
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: C4 ") && last.contains(text), "{}", ended.stderr);
    assert!(!place.path("test.db").exists());
}

#[test(minutes = 15)]
fn the_command_line_describes_itself() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let completions = place.run(&["completions", shell]);
        assert!(completions.code == Some(0) && completions.stdout.contains("wait-for-actions"));
    }
    assert!(place.run(&["man"]).stdout.contains("resurgam"));
    assert_eq!(place.run(&["man", "--dir", "pages"]).code, Some(0));
    assert!(place.text("pages/resurgam-run.1").contains("wait"));
    let key = place.run(&["secrets", "new-key"]).stdout;
    assert_eq!(key.trim().len(), 44);
}

#[test(minutes = 15)]
pub(super) fn results_and_inputs_are_laid_out_for_people_and_stay_one_line_for_programs() {
    let place = Place::new();
    place.action("Big", "echo '{\"number\": 1e308, \"digits\": 12345678901234567890.50}'");
    let node = json!({"node_name": "Big", "namespace": "d", "identifier": "a", "inputs": {}});
    place.write("graph.json", &json!({"secrets": {}, "nodes": [node]}).to_string());
    let told = place.run(&["run", "graph.json", "--id", "g"]);
    assert_eq!(told.json_with(0)["states"][0]["outputs"]["number"], json!(1e308));
    assert!(told.stdout.contains("\n  \"run_status\": \"SUCCESS\",\n"), "{}", told.stdout);
    assert!(told.stdout.contains("\"number\": 1e308") || told.stdout.contains("1e+308"));
    let json = place.run(&["run", "graph.json", "--id", "g", "--json"]).stdout;
    assert_eq!(json.lines().count(), 1, "{json}");

    place.write("long.rap", "fn main(input: [x], output: [r]):\n    return 1\n");
    let input = json!({"x": ["a".repeat(50), "b".repeat(50)]}).to_string();
    place.json(&["run", "long.rap", "--id", "p", "--input", &input]);
    let shown = place.run(&["show", "p"]).stdout;
    assert!(shown.contains("\n             \"x\": [\n"), "{shown}");
    assert!(!shown.contains("dialect"), "{shown}");
    let history = place.run(&["history", "p"]).stdout;
    assert!(
        history.contains("RunStarted long {\"x\":[\"aaa") && !history.contains("dialect"),
        "{history}"
    );
}

#[test(minutes = 15)]
fn a_command_that_is_refused_leaves_no_log_beside_the_database() {
    let place = place();
    for args in [
        &["show", "nobody"][..],
        &["history", "nobody"],
        &["attempts", "nobody"],
        &["watch", "nobody"],
        &["signal", "nobody", "go"],
        &["signal", "b", "go"],
        &["cancel", "nobody"],
        &["terminate", "b"],
        &["delete", "nobody"],
        &["export", "nobody"],
        &["schedule", "show", "nobody"],
        &["schedule", "run", "nobody"],
        &["start", "bad.rap", "--id", "b"],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
        for name in ["test.db-wal", "test.db-shm"] {
            assert!(!place.path(name).exists(), "{args:?} leaves {name}");
        }
    }
}

#[test(minutes = 15)]
pub(super) fn an_id_or_a_name_that_no_store_can_keep_is_bad_input() {
    let place = place();
    let long = "x".repeat(1_025);
    for args in [
        &["run", "bad.rap", "--id", &long][..],
        &["start", "bad.rap", "--id", &long],
        &["start", "bad.rap", "--queue", &long],
        &["signal", &long, "go"],
        &["signal", "nobody", &long],
        &["cancel", &long],
        &["terminate", &long],
    ] {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("error: E9 "), "{ended:?}");
        assert!(ended.stderr.contains("has 1025 bytes, 1024 are allowed"), "{ended:?}");
    }
    for args in [&["show", &long][..], &["history", &long], &["watch", &long]] {
        assert_eq!(place.run(args).code, Some(2), "there is no such instance");
    }
    assert_eq!(place.json(&["list"]).as_array().unwrap().len(), 2);
}

#[test(minutes = 15)]
fn looking_under_a_limit_on_the_size_of_files_names_the_limit() {
    let place = place();
    place.run(&["list"]);
    let ended = place.run_limited("ulimit -f 1", &["list"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("error: D1 open test.db: no file of this process"), "{ended:?}");
    assert!(ended.stderr.contains("(ulimit -f); raise that limit"), "{ended:?}");
}
