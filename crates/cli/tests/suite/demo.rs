//! `resurgam demo` as a newcomer meets it: the real program, killed and started again.
#![cfg(unix)]
// Clippy allows it in tests, and does not count their helpers among them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use resurgam_watchdog::test;
use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, Lines};

/// A folder with a demo in it.
struct Demo(TempDir);

/// What a run left behind.
#[derive(Debug)]
struct Ran {
    stdout: String,
    stderr: String,
    status: ExitStatus,
}

impl Demo {
    fn new() -> Self {
        Demo(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// The command, not yet started.
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
        command.arg("demo").args(arguments.split_whitespace());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs it, twenty times faster than life.
    fn run(&self, arguments: &str) -> Ran {
        Ran::of(processes::output(&mut self.command(&format!("--speed 20 {arguments}"))))
    }

    /// Runs it and lets it crash.
    fn crash(&self, arguments: &str) -> Ran {
        let ran = self.run(&format!("--crash {arguments}"));
        assert_eq!(ran.status.signal(), Some(9), "{ran:?}");
        ran
    }

    /// Runs it to the end and answers with its report.
    fn report(&self, arguments: &str) -> Value {
        let ran = self.run(&format!("--json {arguments}"));
        assert_eq!((ran.status.code(), &*ran.stderr), (Some(0), ""), "{ran:?}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["audit"]["problems"], serde_json::json!([]));
        report
    }
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        Ran { stdout, stderr, status: output.status }
    }
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
}

#[test(minutes = 15)]
fn a_run_ends_with_the_numbers_of_its_orders_calls_and_attempts() {
    let report = Demo::new().report("--orders 6");
    assert_eq!((number(&report, "/orders/total"), number(&report, "/orders/completed")), (6, 5));
    let failed = &report["orders"]["failed"];
    assert_eq!(failed.as_array().map(Vec::len), Some(1));
    assert_eq!(failed[0]["id"], "order-4");
    assert_eq!(failed[0]["failure"], "CardDeclined: the bank declined the card");
    assert_eq!(failed[0]["released"], 2);

    let activities = report["activities"].as_array().unwrap();
    let name = |activity: &Value| activity["activity"].as_str().unwrap().to_string();
    let calls: Vec<(String, u64)> =
        activities.iter().map(|activity| (name(activity), number(activity, "/calls"))).collect();
    let expected = [("reserve", 12), ("charge", 6), ("ship", 5), ("notify", 6), ("release", 2)];
    assert_eq!(calls, expected.map(|(name, calls)| (name.to_string(), calls)));

    // A slow machine adds timeouts to the four that are part of the story.
    let (attempts, calls) =
        (number(&report, "/attempts/attempts"), number(&report, "/attempts/calls"));
    assert!(number(&report, "/attempts/failed") >= 4, "{report}");
    assert_eq!(number(&report, "/attempts/retries"), attempts - calls);
    assert_eq!(number(&report, "/audit/begun"), attempts);
    assert_eq!((number(&report, "/attempts/lost"), number(&report, "/taken_up")), (0, 0));
}

#[test(minutes = 15)]
fn a_finished_file_gets_new_orders() {
    let demo = Demo::new();
    demo.report("--orders 4");
    let second = demo.report("--orders 4");
    assert_eq!(second["orders"]["failed"][0]["id"], "order-8");
    assert_eq!((number(&second, "/orders/total"), number(&second, "/taken_up")), (4, 0));
}

#[test(minutes = 15)]
fn a_killed_demo_is_finished_by_the_next_one_and_nothing_done_runs_again() {
    let demo = Demo::new();
    let killed = demo.crash("--orders 8");
    let last = killed.stdout.lines().last().unwrap();
    assert!(last.contains("killing this process (SIGKILL). Run the demo again"), "{last}");

    let next = demo.run("--orders 3");
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let first = next.stdout.lines().next().unwrap();
    assert!(first.contains("left unfinished by an earlier demo; going on."), "{first}");
    assert!(next.stdout.contains("8 orders: 7 completed, 1 failed"), "{}", next.stdout);
    assert!(
        next.stdout.contains("lost with a killed process, and tried again."),
        "{}",
        next.stdout
    );
    assert!(next.stdout.contains("Nothing that was done ran again."), "{}", next.stdout);
    assert!(!next.stdout.contains('\x1b'), "{}", next.stdout);
}

#[test(minutes = 15)]
fn two_crashes_in_a_row_are_survived_too() {
    let demo = Demo::new();
    let killed = demo.crash("--orders 8 --json");
    assert_eq!(killed.stdout, "");
    assert!(killed.stderr.contains("killing this process"), "{}", killed.stderr);
    demo.crash("");
    let report = demo.report("");
    assert_eq!((number(&report, "/orders/total"), number(&report, "/orders/completed")), (8, 7));
    assert!(number(&report, "/taken_up") < 4, "{report}");
    assert!(number(&report, "/attempts/lost") >= 2, "{report}");
}

#[test(minutes = 15)]
fn a_single_order_can_crash() {
    let demo = Demo::new();
    demo.crash("--orders 1");
    let report = demo.report("");
    assert_eq!((number(&report, "/orders/completed"), number(&report, "/taken_up")), (1, 1));
}

#[test(minutes = 15)]
fn an_attempt_that_began_once_more_is_found_and_named() {
    let demo = Demo::new();
    demo.crash("--orders 4");
    let journal = demo.path("resurgam-demo.db.journal");
    let lines = fs::read_to_string(&journal).unwrap();
    let first = lines.lines().next().unwrap();
    fs::write(&journal, format!("{lines}{first}\n")).unwrap();

    let next = demo.run("");
    assert_eq!(next.status.code(), Some(1), "{next:?}");
    assert!(next.stdout.contains("Something ran that should not have"), "{}", next.stdout);
    let begin: Value = serde_json::from_str(first).unwrap();
    let instance = begin["instance"].as_str().unwrap();
    let found = format!(": attempt 1 of reserve in {instance} began again (time 2)\n");
    assert!(next.stdout.contains(&found), "{}", next.stdout);
    assert!(!next.stdout.contains("Nothing that was done ran again"), "{}", next.stdout);
    // The next orders begin with a new journal.
    demo.report("--orders 1");
}

#[test(minutes = 15)]
fn a_beginning_that_is_gone_from_the_journal_is_found() {
    let demo = Demo::new();
    demo.report("--orders 1");
    demo.crash("--orders 4");
    let journal = demo.path("resurgam-demo.db.journal");
    let lines = fs::read_to_string(&journal).unwrap();
    // The first attempt ended long before the crash, so it has an outcome.
    fs::write(&journal, lines.split_once('\n').unwrap().1).unwrap();
    let next = demo.run("");
    assert_eq!(next.status.code(), Some(1), "{next:?}");
    assert!(next.stdout.contains("has an outcome and is not in the journal"), "{}", next.stdout);
}

#[test(minutes = 15)]
fn a_file_that_cannot_be_used_is_refused_in_one_line() {
    let demo = Demo::new();
    fs::create_dir(demo.path("folder")).unwrap();
    fs::write(demo.path("text.db"), "Once upon a time there was a file. ".repeat(100)).unwrap();
    for (code, db, why) in [
        ("D2", "nowhere/demo.db", "its folder does not exist; create the folder first"),
        ("D2", "folder", "this is a folder; give the path of a file in it"),
        ("D4", "text.db", "this file is not a SQLite database"),
    ] {
        let ran = demo.run(&format!("--db {db}"));
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(
            ran.stderr.starts_with(&format!("error: {code} open {db}: {why}")),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(!demo.path(&format!("{db}.journal")).exists());
    }
}

#[test(minutes = 15)]
fn a_journal_that_cannot_be_written_is_refused() {
    let demo = Demo::new();
    fs::create_dir(demo.path("demo.db.journal")).unwrap();
    let ran = demo.run("--db demo.db");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with("error: begin demo.db.journal: "), "{}", ran.stderr);
}

#[test(minutes = 15)]
fn a_demo_that_is_told_to_stop_leaves_its_orders_to_the_next_one() {
    let demo = Demo::new();
    // Slow enough that orders are left, for seconds, when the first one is done.
    let mut command = demo.command("--speed 1 --orders 20 --plain");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("completed") {
        let line = lines.hear("the first order is completed");
        let line = line.unwrap_or_else(|| panic!("it ended: {text}"));
        text += &format!("{line}\n");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    while let Some(line) = lines.hear("the demo's last words") {
        text += &format!("{line}\n");
    }
    let ended = processes::ended(child, "a demo that was told to stop");
    assert_eq!(ended.status.code(), Some(130), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Stopped: "), "{text}");
    assert!(last.ends_with(" in resurgam-demo.db; the next demo goes on."), "{text}");

    let report = demo.report("");
    assert_eq!((number(&report, "/orders/total"), number(&report, "/orders/completed")), (20, 19));
    assert!(number(&report, "/taken_up") > 0, "{report}");
    // An orderly stop loses nothing.
    assert_eq!(number(&report, "/attempts/lost"), 0, "{report}");
}

#[test(minutes = 15)]
fn the_readme_shows_what_the_demo_prints() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let demo = Demo::new();
    demo.crash("--orders 8");
    let shown = demo.run("").stdout;
    let verdict = shown.lines().find(|line| line.starts_with("Nothing that was done")).unwrap();
    assert!(readme.contains(verdict), "{verdict}");
}

/// Asks the demo's server for something, and answers with what it told.
fn asked(address: &str, method: &str, path: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
    serde_json::from_str(body).unwrap()
}

#[test(minutes = 15)]
fn a_demo_that_serves_has_a_gateway_that_is_turned_off_and_on_from_its_page() {
    let demo = Demo::new();
    let mut command = demo.command("--speed 20 --orders 5 --serve 0");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let first = lines.hear("where to look").unwrap();
    let address = first.strip_prefix("Open http://").unwrap().split('/').next().unwrap();
    let completed = || {
        let told = asked(address, "GET", "/api/v1/instances?status=completed&limit=500", "");
        told["items"].as_array().unwrap().len()
    };
    processes::until("an order is done", || completed() > 0);
    let gateway = "/api/v1/switches/payment%20gateway";
    assert_eq!(asked(address, "PUT", gateway, "{\"on\": false}")["on"], false);
    // Calls run out of attempts, and no order is taken beyond the five that wait.
    let paused = || asked(address, "GET", "/api/v1/paused", "")["items"].as_array().unwrap().len();
    processes::until("all charges are paused", || paused() == 5);
    let groups = asked(address, "GET", "/api/v1/paused?group=fingerprint", "");
    assert!(groups.to_string().contains("ServiceUnavailable [503]"), "{groups}");
    let before = completed();
    assert_eq!(asked(address, "PUT", gateway, "{\"on\": true}")["on"], true);
    let listed = asked(address, "GET", "/api/v1/switches", "");
    assert_eq!(listed["items"], serde_json::json!([{"name": "payment gateway", "on": true}]));
    for call in asked(address, "GET", "/api/v1/paused", "")["items"].as_array().unwrap() {
        let path = format!("/api/v1/calls/{}/actions/resume", call["call"].as_str().unwrap());
        asked(address, "POST", &path, "{\"reset\": true}");
    }
    processes::until("orders are done again", || completed() > before);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut last = first.clone();
    while let Some(line) = lines.hear("the demo's last words") {
        last = line;
    }
    let ended = processes::ended(child, "a demo that was told to stop");
    assert_eq!(ended.status.code(), Some(130), "{last}");
    assert!(last.starts_with("Stopped: ") && last.ends_with(" open."), "{last}");
    assert!(demo.path("resurgam-demo-serve.db").exists());
}
