//! The programs do what their comments say: fresh, and once more on the same file. Real processes
//! take their time, so each test has a quarter of an hour.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use resurgam_watchdog::test;

/// Longer than any program takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a program prints when it is run on a file.
fn run(program: &str, file: &Path) -> String {
    let mut command = Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, end) = (command.spawn().unwrap(), Instant::now() + PATIENCE);
    // What it prints fits into the pipes.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{program} has not ended after {PATIENCE:?}");
        }
        // A process can only be waited for without a bound, or looked at.
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn check(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test(minutes = 15)]
fn the_order_is_fulfilled_once_however_often_it_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    let story = [
        "order-42 goes by van to 1 Harbour Street",
        "1 +0ms RunStarted fulfil",
        "charge#6 attempt 1 failed: Unreachable: the gateway does not answer; again in ",
        "ActivityCompleted #6 (attempt 3) {\"cents\":4200}",
        "RunCompleted {\"order\":\"order-42\"",
    ];

    let first = run(env!("CARGO_BIN_EXE_order"), &file);
    check(&first, &["order-42 is started, in "]);
    check(&first, &story);

    let second = run(env!("CARGO_BIN_EXE_order"), &file);
    check(&second, &["order-42 was started before, in "]);
    let history = |text: &str| text.split_once("\n\n").unwrap().1.to_string();
    assert_eq!(history(&first), history(&second));
}

#[test(minutes = 15)]
fn the_tour_of_retrying_can_be_taken_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("retry.db");
    for _ in 0..2 {
        let text = run(env!("CARGO_BIN_EXE_retry"), &file);
        check(
            &text,
            &[
                "fixed#2 attempt 2 failed: bad luck; again in 20ms",
                "ActivityCompleted #2 (attempt 5) \"attempt 5 was lucky\"",
                "ActivityFailed #2 (attempt 3) max_attempts: bad luck",
                "rules#2 attempt 2 failed: too many requests; again in 40ms",
                "why, after attempt 3: non_retryable: rules[2] forbids another attempt",
                "server_delay#2 attempt 1 failed: throttled: busy, come back later; again in 1",
                "snooze#2 attempt 3 snoozed",
                "timeout#2 attempt 1 failed: timeout: not done within 50ms; again in ",
                "ActivityFailed #2 terminal: ParseIntError: invalid digit found in string",
            ],
        );
    }
}

#[test(minutes = 15)]
fn money_moves_once_however_often_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bank.db");
    let story = [
        "7000 cents are left",
        "transfer#2 attempt 1 failed: the pen broke after both lines were written; again in ",
        "ActivityCompleted #2 (attempt 2) {\"from\":\"ada\",\"to\":\"bob\",\"cents\":3000,",
        "ada has 7000 cents, bob has 3000",
    ];
    let first = run(env!("CARGO_BIN_EXE_transfer"), &file);
    check(&first, &["the rent is on its way, in ", "bob gets 3000 cents from ada"]);
    check(&first, &story);
    let second = run(env!("CARGO_BIN_EXE_transfer"), &file);
    check(&second, &["the rent was on its way before"]);
    check(&second, &story);
}

/// Runs a program twice on a file, and checks both times.
#[track_caller]
fn twice(program: &str, lines: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.db");
    for _ in 0..2 {
        check(&run(program, &file), lines);
    }
}

#[test(minutes = 15)]
fn the_saga_undoes_what_it_did() {
    let lines = [
        "trip-1: to Rome, by Fiat\n",
        "  booked: 3 things\n",
        "SoldOut: there is no Isetta left",
        "StatusSet \"there is no Isetta\"",
        "ActivityScheduled cancel_booking to undo #5",
        "ActivityScheduled cancel_booking to undo #2",
        "RunFailed (compensation complete) SoldOut: there is no Isetta left",
    ];
    twice(env!("CARGO_BIN_EXE_saga"), &lines);
}

#[test(minutes = 15)]
fn claims_are_paid_rejected_or_expire() {
    let lines = ["expense-lamp\n", "  Paid\n", "  Rejected(\"no receipt\")\n", "  Expired\n"];
    twice(env!("CARGO_BIN_EXE_approval"), &lines);
}

#[test(minutes = 15)]
fn a_round_of_deliveries_ends_well() {
    let lines = [
        "round-1 has 2 parcels\n",
        "  1 is delivered, at try 1\n",
        "  2 is delivered, at try 2\n",
        "ChildStarted delivery-2 deliver",
        "RunCompleted [\"1 is delivered, at try 1\",\"2 is delivered, at try 2\"]",
    ];
    twice(env!("CARGO_BIN_EXE_children"), &lines);
}

#[test(minutes = 15)]
fn an_import_goes_on_where_it_was() {
    let lines = [
        "10 rows are imported, 45 cents\n",
        "import_rows#2 attempt 3 failed: ConnectionLost: after row 9",
        "ActivityCompleted #2 (attempt 4) 45",
    ];
    twice(env!("CARGO_BIN_EXE_heartbeat"), &lines);
}

#[test(minutes = 15)]
fn the_schedules_go_on_when_the_program_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cron.db");
    // What was made up for once is there already.
    for (started, made_up_for) in [(1, 7), (2, 0)] {
        let text = run(env!("CARGO_BIN_EXE_cron"), &file);
        check(
            &text,
            &[
                &format!(
                    "polled the mailbox\npolled the mailbox\n{made_up_for} reports are made up for\n"
                ),
                "the one of now says \"June: nothing happened\"",
                &format!("nightly: fires, {started} started, 0 missed, 0 skipped, 5 next times"),
                "poll: paused, ",
                "nightly/2026-06-01T01:00:00Z ",
                "nightly/2026-06-07T01:00:00Z ",
                " polls are deleted",
            ],
        );
        assert_eq!(text.matches("nightly/2026-06-").count(), 7, "{text}");
    }
}
