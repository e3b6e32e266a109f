//! What `run` and `start` promise.

use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::json;

use crate::work::support::{Place, is_alive, until};

const ONE: &str = "fn main(input: [n], output: [r]):\n    return @one(n=n)\n";

/// Runs it.
const ONE_ARGS: [&str; 4] = ["run", "one.rap", "--input", r#"{"n": 1}"#];

/// A place with a program that calls one action.
fn place(script: &str) -> Place {
    let place = Place::new();
    place.write("one.rap", ONE);
    place.action("one", script);
    place
}

#[test(minutes = 15)]
fn a_result_is_printed_as_it_is_and_a_failure_says_why() {
    let place = place("cat");
    let ended = place.run(&["run", "one.rap", "--input", r#"{"n": [1, 2.50]}"#]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "{\"n\":[1,2.5]}\n"));
    assert!(ended.stderr.contains(" started"), "{}", ended.stderr);
    place.action("one", "echo broken >&2; exit 3");
    let failed = place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""));
    let told =
        " failed: one gave up after 1 attempt (max_attempts): ExitCode: exit code 3: broken\n";
    assert!(failed.stderr.ends_with(told), "{}", failed.stderr);
    let form = place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#, "--json", "--id", "f"]);
    let form = form.json_with(1);
    assert_eq!((&form["id"], &form["status"]), (&json!("f"), &json!("failed")));
    assert_eq!(
        (&form["failure"]["type"], &form["failure"]["code"]),
        (&json!("ExitCode"), &json!("3"))
    );
}

#[test(minutes = 15)]
fn a_failure_names_the_action_that_gave_up_its_attempts_and_why() {
    let place = place("cat");
    place.write(
        "two.rap",
        "fn main(input: [], output: [r]):\n    @one(n=1)\n    return @two() [retry: 2]\n",
    );
    place.action("two", "echo gateway down >&2; exit 7");
    let failed = place.run(&["run", "two.rap", "--id", "order-7"]);
    let told = "order-7 failed: two gave up after 3 attempts (max_attempts): \
                ExitCode: exit code 7: gateway down\n";
    assert_eq!((failed.code, failed.stderr.ends_with(told)), (Some(1), true), "{failed:?}");
    let watched = place.run(&["watch", "order-7"]);
    assert_eq!((watched.code, watched.stderr.as_str()), (Some(1), told));
    place.action(
        "two",
        "echo '{\"type\":\"Declined\",\"message\":\"no\",\"retryable\":false}' >&2; exit 1",
    );
    let declined = place.run(&["run", "two.rap", "--id", "order-8"]);
    let told = "order-8 failed: two gave up after 1 attempt (terminal): Declined: no\n";
    assert!(declined.stderr.ends_with(told), "{declined:?}");
}

#[test(minutes = 15)]
fn the_same_id_again_continues_the_same_and_refuses_anything_else() {
    let place = place("echo $RESURGAM_INSTANCE");
    let run = |file: &str, input: &str| {
        place.run(&["run", file, "--id", "x", "--input", input, "--json"])
    };
    let first = run("one.rap", r#"{"n": 1}"#).json_with(0);
    assert_eq!(run("one.rap", r#"{"n": 1}"#).json_with(0), first);
    place.write("one.rap", &ONE.replace("    return", "    # the same\n    return"));
    assert_eq!(run("one.rap", r#"{"n": 1}"#).json_with(0), first);

    let message = |ended: crate::work::support::Ended| {
        let form = ended.json_with(2);
        form["errors"][0]["message"].as_str().unwrap().to_string()
    };
    let input = message(run("one.rap", r#"{"n": 2}"#));
    assert!(input.ends_with("its input is another one: n"), "{input}");
    place.write("two.rap", ONE);
    let file = message(run("two.rap", r#"{"n": 1}"#));
    assert!(file.ends_with("it is an instance of one, not two"), "{file}");
    place.write("one.rap", &ONE.replace("n=n", "n=7"));
    let program = message(run("one.rap", r#"{"n": 1}"#));
    assert!(program.contains("line 2 was `return @one(n=n)`"), "{program}");
    let start = place.run(&["start", "two.rap", "--id", "x", "--input", r#"{"n": 1}"#, "--json"]);
    assert!(message(start).contains("an instance of this id exists"));
}

#[test(minutes = 15)]
fn inputs_are_refused_by_name_and_nothing_is_stored() {
    let place = place("cat");
    for (args, wrong) in [
        (vec![], "--input: missing input \"n\"; main takes n"),
        (
            vec!["--input", r#"{"n": 1, "m": 2}"#],
            "--input: unknown input \"m\"; did you mean \"n\"?",
        ),
        (vec!["--input", "[1]"], "--input: write an object, such as {\"name\": 1}"),
        (
            vec!["--input", "{"],
            "--input: this is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            vec!["--input", r#"{"n": 1}"#, "--store", "{}"],
            "--store is for graphs; a program has no store",
        ),
        (vec!["--input", r#"{"n": 1}"#, "--id", ""], "--id: an empty id is not allowed"),
    ] {
        let refused = place.run(&[&["run", "one.rap", "--json"], &args[..]].concat()).json_with(2);
        assert_eq!(refused["errors"][0]["message"], wrong);
    }
    assert!(!place.path("test.db").exists());
}

#[test(minutes = 15)]
fn a_missing_action_is_refused_with_its_place_and_can_be_waited_for() {
    let place = place("cat");
    place.write("one.rap", &ONE.replace("@one", "@oen"));
    let refused = place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#, "--json"]).json_with(2);
    let error = &refused["errors"][0];
    assert_eq!((&error["line"], &error["column"]), (&json!(2), &json!(13)));
    assert!(error["message"].as_str().unwrap().ends_with("did you mean \"one\"?"), "{error}");
    assert!(!place.path("test.db").exists());

    let args =
        ["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "w", "--wait-for-actions", "--json"];
    let waits = place.begin(&args);
    until("it waits", || place.run(&["show", "w"]).stdout.contains("waits for its executable"));
    let show = place.json(&["show", "w"]);
    assert_eq!(show["pending"][0]["waits_for"], "unregistered");
    assert_eq!(show["pending"][0]["attempt"], 0);
    place.action("oen", "echo 7");
    assert_eq!(waits.end().json_with(0)["result"], json!(7));
}

#[test(minutes = 15)]
fn ctrl_c_leaves_an_instance_that_can_be_continued() {
    let place = place("echo $$ > pid; [ $RESURGAM_ATTEMPT = 1 ] && exec sleep 1000; echo 7");
    let args = ["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "i", "--json"];
    let run = place.begin(&args);
    until("the action runs", || place.text("pid").ends_with('\n'));
    let pid = place.text("pid").trim().to_string();
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!(ended.json_with(130), json!({"id": "i", "status": "running"}));
    until("the action is gone", || !is_alive(&pid));
    assert_eq!(place.json(&["attempts", "i"])[0]["outcome"], "interrupted");
    assert_eq!(place.run(&args).json_with(0)["result"], json!(7));
}

#[test(minutes = 15)]
fn an_action_that_runs_out_of_time_is_ended_with_its_children_and_tried_again() {
    // However slow the machine is, some attempt has a child when its time is up, and some later one
    // is done in time.
    let place = place(
        "[ ! -s child ] || { echo 7; exit; }
         sh -c 'echo $$ > child; sleep 1000' & echo $! > parent; wait",
    );
    place.write("one.rap", &ONE.replace("@one(n=n)", "@one(n=n) [retry: 50] [timeout: 2s]"));
    let ended = place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "t", "--json"]);
    assert_eq!(ended.json_with(0)["result"], json!(7));
    let attempt = &place.json(&["attempts", "t"])[0];
    assert_eq!(attempt["failure"]["kind"], "timeout");
    assert!(place.text("child").ends_with('\n'));
    until("its child is gone", || !is_alive(place.text("child").trim()));
}

#[test(minutes = 15)]
fn heartbeats_are_shown_and_handed_to_the_next_attempt() {
    let place = place(
        "[ -n \"$RESURGAM_LAST_HEARTBEAT\" ] && { echo $RESURGAM_LAST_HEARTBEAT; exit; }
         echo '{\"row\": 7}' > $RESURGAM_HEARTBEAT
         while [ ! -e go ]; do sleep 0.02; done; exit 1",
    );
    place.write("one.rap", &ONE.replace("@one(n=n)", "@one(n=n) [retry: 1]"));
    let run = place.begin(&["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "h", "--json"]);
    let shown = || {
        let ended = place.run(&["show", "h", "--json"]);
        ended.code == Some(0)
            && ended.json()["pending"][0]["heartbeat"]["details"] == json!({"row": 7})
    };
    until("the heartbeat is shown", shown);
    place.write("go", "");
    assert_eq!(run.end().json_with(0)["result"], json!({"row": 7}));
}

#[test(minutes = 15)]
fn an_action_does_not_outlive_a_run_that_is_killed() {
    let place = place("sh -c 'echo $$ > child; sleep 1000' & echo $$ > pid; wait");
    let run = place.begin(&["run", "one.rap", "--input", r#"{"n": 1}"#]);
    until("both run", || ["pid", "child"].iter().all(|name| place.text(name).ends_with('\n')));
    run.kill();
    for name in ["pid", "child"] {
        until(&format!("{name} is gone"), || !is_alive(place.text(name).trim()));
    }
}

#[test(minutes = 15)]
fn an_action_does_not_know_the_database_and_an_editor_changes_no_running_instance() {
    let place = place("echo \"db=$RESURGAM_DB key=$RESURGAM_SECRETS_KEY\"");
    let ended = place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#, "--json"]);
    assert_eq!(ended.json_with(0)["result"], json!("db= key="));

    place.write(
        "two.rap",
        "fn main(input: [], output: [r]):\n    x = @wait()\n    return @one(n=x)\n",
    );
    place.action("wait", "while [ ! -e go ]; do sleep 0.02; done; echo 1");
    place.action("one", "cat");
    let run = place.begin(&["run", "two.rap", "--id", "e", "--json"]);
    until("it runs", || place.run(&["show", "e"]).code == Some(0));
    place.write("two.rap", "fn main(input: [], output: [r]):\n    return 0\n");
    place.write("go", "");
    assert_eq!(run.end().json_with(0)["result"], json!({"n": 1}));
}

#[test(minutes = 15)]
fn an_instance_whose_program_no_longer_fits_its_history_is_blocked_and_ends_with_four() {
    let place = place("echo $$ > pid; [ $RESURGAM_ATTEMPT = 1 ] && exec sleep 1000; echo 7");
    let args = ["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "b", "--json"];
    let run = place.begin(&args);
    until("the action runs", || place.text("pid").ends_with('\n'));
    run.kill();
    // Somebody changes in the database what nobody may change.
    let database = rusqlite::Connection::open(place.path("test.db")).unwrap();
    let change = "UPDATE event SET body = replace(body, '@one', '@two') WHERE kind = 'RunStarted'";
    assert_eq!(database.execute(change, ()).unwrap(), 1);
    drop(database);
    let blocked = place.run(&args).json_with(4);
    assert_eq!((&blocked["id"], &blocked["status"]), (&json!("b"), &json!("blocked")));
    assert!(blocked["error"].as_str().is_some_and(|error| !error.is_empty()), "{blocked}");
    assert_eq!(place.json(&["list"])[0]["status"], "blocked");
    let text = place.run(&args[..args.len() - 1]);
    assert_eq!((text.code, text.stdout.as_str()), (Some(4), ""));
    assert!(text.stderr.contains("b is blocked"), "{}", text.stderr);
}

#[test(minutes = 15)]
fn a_run_whose_database_takes_nothing_says_so_and_can_be_interrupted() {
    let place = place("echo > began; while [ ! -e go ]; do sleep 0.02; done; echo 7");
    let args = ["run", "one.rap", "--input", r#"{"n": 1}"#, "--id", "i"];
    let run = place.begin(&args);
    until("the action runs", || place.path("began").exists());
    let busy = rusqlite::Connection::open(place.path("test.db")).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    place.write("go", "");
    until("it says so", || run.said().contains("database is locked"));
    run.signal(Signal::INT);
    // Once would do; a second one does not wait for what could be written last.
    until("the second one comes by itself", || {
        run.signal(Signal::INT);
        run.said().contains("i stays")
    });
    assert_eq!(run.end().code, Some(130));
    drop(busy);
    assert_eq!(place.run(&args).stdout, "7\n");
}

#[test(minutes = 15)]
fn a_database_that_is_set_to_nothing_is_the_usual_one() {
    let place = place("echo 7").on("");
    assert_eq!(place.run(&["run", "one.rap", "--input", r#"{"n": 1}"#]).code, Some(0));
    assert!(place.path("resurgam.db").exists());
}

#[test(minutes = 15)]
fn actions_wait_for_what_the_node_lacks_and_hardly_leave_a_row() {
    let place = place("echo $RESURGAM_ATTEMPT");
    let many = "fn main(input: [items], output: [r]):\n    \
                r = spread items:item -> @one(n=item)\n    return r\n";
    place.write("many.rap", many);
    let items = json!({"items": (0..100).collect::<Vec<u32>>()}).to_string();
    let args = ["run", "many.rap", "--input", &items, "--slots", "100", "--id", "m"];
    // Enough for the node and for few actions at once.
    let ended = place.run_limited("ulimit -n 40", &args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("this node is short of it"), "{}", ended.stderr);
    let attempts = place.json(&["attempts", "m"]);
    let attempts = attempts.as_array().unwrap();
    // One each time that the log says so; each action would leave one every second if it had to
    // be begun again.
    assert!((1..100).contains(&attempts.len()), "{} rows", attempts.len());
    for attempt in attempts {
        assert_eq!(attempt["outcome"], "snoozed", "{attempt}");
        let message = attempt["failure"]["message"].as_str().unwrap();
        assert!(message.contains("Too many open files"), "{message}");
    }
    let said = place.run(&["attempts", "m"]).stdout;
    assert!(said.contains("snoozed: asked to be run later: "), "{said}");
    assert!(said.contains("Too many open files"), "{said}");
}

#[test(minutes = 15)]
fn a_node_takes_as_many_files_as_its_hard_limit_allows() {
    let place = place("sleep 0.3; echo $RESURGAM_ATTEMPT");
    let many = "fn main(input: [items], output: [r]):\n    \
                r = spread items:item -> @one(n=item)\n    return r\n";
    place.write("many.rap", many);
    let items = json!({"items": (0..20).collect::<Vec<u32>>()}).to_string();
    let args = ["run", "many.rap", "--input", &items, "--slots", "20", "--id", "m"];
    // Enough for few of the actions, which run at the same time.
    let ended = place.run_limited("ulimit -S -n 40", &args);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("this node is short of it"), "{}", ended.stderr);
    assert_eq!(place.json(&["attempts", "m"]), json!([]));
}

#[test(minutes = 15)]
fn an_action_is_allowed_as_many_files_as_the_worker_was() {
    let place = place("echo $(ulimit -S -n) $(ulimit -H -n)");
    let ended = place.run_limited("ulimit -n 300; ulimit -S -n 200", &ONE_ARGS);
    assert_eq!(ended.stdout, "\"200 300\"\n", "{ended:?}");
}

#[test(minutes = 15)]
fn an_interpreter_that_is_not_there_is_named() {
    let place = place("");
    place.write("actions/one", "#!/usr/bin/pyton3\nprint(1)\n");
    let ended = place.run(&ONE_ARGS);
    let expected = "CannotExecute: run ";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let expected = "/actions/one: its interpreter /usr/bin/pyton3 is not there";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}
