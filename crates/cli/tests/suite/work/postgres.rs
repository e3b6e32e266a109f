//! Workers on one PostgreSQL database share the work.

use std::collections::BTreeSet;

use resurgam_postgres_server::{PASSWORD, Server};
use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::json;

use crate::work::support::{Place, Process, until};

const PROGRAM: &str =
    "fn main(input: [], output: [r]):\n    x = @who()\n    y = @who()\n    return [x, y]\n";

#[test(minutes = 15)]
async fn three_workers_share_the_work_and_a_run_attaches_as_a_client() {
    let database = Server::shared().database().await;
    let place = Place::new().on(&database.tcp_url());
    place.write("two.rap", PROGRAM);
    place.action("who", "sleep 0.1; echo $PPID");
    let workers = [(); 3].map(|()| place.begin(&["worker", "--actions", "actions"]));
    for worker in &workers {
        until("it works", || worker.said().contains("working on postgres://"));
    }
    // Shards are spread once all are known to each other. An action takes its time, so that there
    // is work for all of them at once.
    let ran = |number: usize| -> BTreeSet<u64> {
        let ids: Vec<String> = (0..12).map(|i| format!("i-{number}-{i}")).collect();
        for id in &ids {
            place.json(&["start", "two.rap", "--id", id]);
        }
        let results = ids.iter().map(|id| place.run(&["watch", id, "--json"]).json_with(0));
        results
            .flat_map(|ended| ended["result"].as_array().unwrap().clone())
            .map(|pid| pid.as_u64().unwrap())
            .collect()
    };
    let all: BTreeSet<u64> = workers.iter().map(|worker| u64::from(worker.id())).collect();
    let mut rounds = 0;
    until("all three have work", || {
        rounds += 1;
        ran(rounds) == all
    });
    let run = place.run(&["run", "two.rap", "--json"]).json_with(0);
    let pid = run["result"][0].as_u64().unwrap();
    assert!(all.contains(&pid), "a run where workers work runs nothing itself: {pid} of {all:?}");
    let [first, second, third] = workers;
    first.signal(Signal::TERM);
    assert_eq!(first.end().code, Some(0));
    second.kill();
    place.json(&["start", "two.rap", "--id", "last"]);
    let last = place.run(&["watch", "last", "--json"]).json_with(0);
    assert_eq!(last["result"][1], json!(third.id()));
    assert!(!third.said().contains(PASSWORD), "{}", third.said());
}

#[test(minutes = 15)]
async fn commands_that_look_read_a_standby_and_say_how_old_it_is() {
    let server = Server::start();
    server.run("CREATE DATABASE orders").await;
    let place = Place::new().on(&server.tcp_url("orders"));
    place.write("two.rap", PROGRAM);
    place.json(&["start", "two.rap", "--id", "first"]);
    let standby = server.standby();
    let place = place.on(&standby.tcp_url("orders"));
    for args in [&["list"][..], &["show", "first"], &["history", "first"], &["attempts", "first"]] {
        let looked = place.run(&[args, &["--json"]].concat());
        assert_eq!(looked.code, Some(0), "{args:?}: {}", looked.stderr);
        assert!(looked.stderr.contains("read from a standby"), "{args:?}: {}", looked.stderr);
    }
    let told = place.run(&["cancel", "first"]);
    assert!(told.code == Some(1) && told.stderr.contains("it is a standby"), "{}", told.stderr);
}

#[test(minutes = 15)]
async fn a_run_alone_works_itself_and_can_be_continued_after_a_kill() {
    let database = Server::shared().database().await;
    let place = Place::new().on(&database.url());
    place.write("two.rap", PROGRAM);
    place.action(
        "who",
        "echo $RESURGAM_ATTEMPT >> began; [ -e go ] || sleep 1000; echo $RESURGAM_ATTEMPT",
    );
    let args = ["run", "two.rap", "--id", "r", "--json"];
    let run = place.begin(&args);
    until("the action runs", || place.text("began") == "1\n");
    run.kill();
    place.write("go", "");
    assert_eq!(place.run(&args).json_with(0)["result"], json!([2, 1]));
    assert_eq!(place.json(&["attempts", "r"])[0]["outcome"], "lost");
}

#[test(minutes = 15)]
async fn a_run_and_a_watch_wait_while_the_server_restarts() {
    let server = Server::start();
    let database = server.database().await;
    let place = Place::new().on(&database.tcp_url());
    place.write("wait.rap", "fn main(input: [], output: [r]):\n    return @wait()\n");
    place.action("wait", "while [ ! -e go ]; do sleep 0.02; done; echo 7");
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it works", || worker.said().contains("working on postgres://"));
    let mut run = place.begin(&["run", "wait.rap", "--id", "w"]);
    until("it runs", || run.said().contains("w started"));
    let mut watches = [place.begin(&["watch", "w"]), place.begin(&["watch"])];
    until("one watches", || watches[0].said().contains("w is running\n"));
    until("the other watches", || watches[1].said().contains("1 open\n"));
    server.kill();
    for process in std::iter::once(&mut run).chain(&mut watches) {
        says(process, "the database does not answer; waiting for it: ");
    }
    server.start_again();
    for process in std::iter::once(&mut run).chain(&mut watches) {
        says(process, "the database answers again\n");
    }
    place.write("go", "");
    let [one, all] = watches;
    for (process, stdout) in [(run, "7\n"), (one, "7\n"), (all, "")] {
        let ended = process.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), stdout), "{ended:?}");
        assert_eq!(ended.stderr.matches("does not answer").count(), 1, "{}", ended.stderr);
    }
}

/// Waits until a process says this, which it does before it ends.
fn says(process: &mut Process, text: &str) {
    until(text, || {
        let has_ended = process.has_ended();
        let said = process.said();
        assert!(!has_ended || said.contains(text), "it ended: {said}");
        said.contains(text)
    });
}

#[test(minutes = 15)]
async fn looking_at_an_empty_database_says_that_there_is_nothing_and_leaves_it_empty() {
    let database = Server::shared().database().await;
    let place = Place::new().on(&database.url());
    for look in [&["list"][..], &["show", "a"], &["watch"], &["watch", "a"], &["cancel", "a"]] {
        let ended = place.run(look);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("error: C4 "), "{}", ended.stderr);
        assert!(ended.stderr.contains("there is no Resurgam in this database"), "{}", ended.stderr);
    }
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'resurgam'";
    assert_eq!(database.ask(schemas).await, "0");
    place.write("one.rap", "fn main(input: [], output: []):\n    return 1\n");
    assert_eq!(place.run(&["start", "one.rap", "--id", "a"]).code, Some(0));
    assert_eq!(place.json(&["list"])[0]["id"], "a");
}

#[test(minutes = 15)]
async fn a_worker_whose_schema_is_removed_ends_and_says_so_and_makes_no_other() {
    let database = Server::shared().database().await;
    let place = Place::new().on(&database.url());
    let worker = place.begin(&["worker", "--actions", "actions"]);
    until("it works", || worker.said().contains("working on postgres://"));
    database.run("DROP SCHEMA resurgam CASCADE").await;
    let ended = worker.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let last = ended.stderr.lines().last().unwrap();
    let text = "was removed while it was in use; it is not made anew";
    assert!(last.starts_with("error: C4 ") && last.contains(text), "{}", ended.stderr);
    assert_eq!(place.run(&["list"]).code, Some(2));
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'resurgam'";
    assert_eq!(database.ask(schemas).await, "0");
}

#[test(minutes = 15)]
fn a_server_that_is_not_there_is_told_without_its_password() {
    let place = Place::new().on("postgres://ada:hunter2@127.0.0.1:1/none");
    let ended = place.run(&["list"]);
    assert_eq!(ended.code, Some(1));
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}
