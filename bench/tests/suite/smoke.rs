//! Every mode runs and reports on both stores, with numbers that are small enough for a debug
//! build. Each test has a quarter of an hour: the benchmark is a process of its own, and a server
//! may have to be installed first.

use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use resurgam_postgres_server::Server;
use resurgam_watchdog::test;

type Figures = serde_json::Map<String, serde_json::Value>;

const CHAIN: &str = "chain --instances 20 --activities 3";
const CHAIN_FIGURES: &[&str] = &[
    "workflows_per_s",
    "steps_per_s",
    "p50_ms",
    "p99_ms",
    "cpu_ms_per_step",
    "rss_mb",
    "commits",
    "rows",
];

/// Longer than any mode takes here, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a mode on a store.
fn bench(mode: &str, store: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam-bench"));
    command.args(mode.split_ascii_whitespace()).args(["--store", store, "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, end) = (command.spawn().unwrap(), Instant::now() + PATIENCE);
    // What it prints fits into the pipes.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{mode} on {store} has not ended after {PATIENCE:?}");
        }
        // A process can only be waited for without a bound, or looked at.
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The figures of a mode, which prints one JSON object and nothing else.
fn figures(mode: &str, store: &str) -> Figures {
    let output = bench(mode, store);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode}: {errors}");
    let figures: Figures = serde_json::from_slice(&output.stdout).unwrap();
    assert!(figures.values().all(|figure| figure.as_f64().is_some()), "{figures:?}");
    figures
}

/// The figures of a mode on a file of its own.
fn on_sqlite(mode: &str) -> Figures {
    let folder = tempfile::tempdir().unwrap();
    figures(mode, &format!("sqlite:{}", folder.path().join("bench.db").display()))
}

/// The figures of a mode on a database of its own, which has nothing in it afterwards.
async fn on_postgres(mode: &str) -> Figures {
    let database = Server::shared().database().await;
    let figures = figures(mode, &database.url());
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'resurgam%'";
    assert_eq!(database.ask(left).await, "0", "{mode} left a schema behind");
    figures
}

fn number(figures: &Figures, name: &str) -> f64 {
    figures[name].as_f64().unwrap()
}

fn check_chain(figures: &Figures) {
    let mut names = CHAIN_FIGURES.to_vec();
    names.sort_unstable();
    assert_eq!(figures.keys().collect::<Vec<_>>(), names);
}

#[test(minutes = 15)]
fn chain_reports_its_figures() {
    check_chain(&on_sqlite(CHAIN));
    check_chain(&on_sqlite("chain --instances 5 --activities 2 --payload 1000 --slots 2"));
}

#[test(minutes = 15)]
async fn chain_reports_its_figures_on_postgres() {
    check_chain(&on_postgres(CHAIN).await);
}

#[test(minutes = 15)]
fn a_lonely_workflow_commits_once_when_it_starts_and_once_for_each_activity() {
    let figures = on_sqlite("latency --activities 5 --reps 2 --sync normal");
    assert_eq!(figures["commits"], 12);
    assert!(number(&figures, "fsync_ms") > 0.0);
}

#[test(minutes = 15)]
async fn a_lonely_workflow_commits_as_often_on_postgres() {
    let figures = on_postgres("latency --activities 5 --reps 2").await;
    assert_eq!(figures["commits"], 12);
}

#[test(minutes = 15)]
async fn a_gate_before_every_call_costs_no_commit() {
    let latency = "latency --activities 5 --reps 2 --gate";
    for figures in [on_sqlite(latency), on_postgres(latency).await] {
        // As many as without it, as in the tests above.
        assert_eq!(figures["commits"], 12);
    }
}

#[test(minutes = 15)]
fn growth_compares_the_ends() {
    let figures = on_sqlite("growth --activities 50 --sync normal");
    assert!(number(&figures, "first_step_ms") > 0.0);
    assert!(number(&figures, "growth") > 0.0);
}

#[test(minutes = 15)]
async fn growth_compares_the_ends_on_postgres() {
    assert!(number(&on_postgres("growth --activities 50").await, "growth") > 0.0);
}

#[test(minutes = 15)]
fn calls_that_wait_are_tried_again_when_they_are_due() {
    let figures = on_sqlite("retries --pending 2000 --rate 100 --seconds 1 --sync normal");
    assert_eq!(figures["pending"], 2_000);
    assert!(number(&figures, "lag_p99_ms") >= number(&figures, "lag_p50_ms"));
}

#[test(minutes = 15)]
async fn calls_that_wait_are_tried_again_on_postgres() {
    let figures = on_postgres("retries --pending 500 --rate 100 --seconds 1").await;
    assert_eq!(figures["pending"], 500);
}

#[test(minutes = 15)]
async fn a_fan_counts_its_steps() {
    for figures in [on_sqlite("fanout --width 50"), on_postgres("fanout --width 50").await] {
        assert!(number(&figures, "steps_per_s") > 0.0);
    }
}

#[test(minutes = 15)]
async fn other_work_goes_on_beside_calls_behind_a_shut_gate() {
    let drill = "gated --waiting 50 --instances 5 --reps 2";
    for figures in [on_sqlite(drill), on_postgres(drill).await] {
        assert!(number(&figures, "steps_per_s") > 0.0, "{figures:?}");
    }
}

#[test(minutes = 15)]
async fn an_outage_is_survived_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("outage.svg");
    let drill = "outage --calls 40 --capacity 30 --before 1";
    let alone = on_sqlite(&format!("{drill} --svg {}", svg.display()));
    for figures in [alone, on_postgres(&format!("{drill} --nodes 2")).await] {
        // How many give up depends on the machine; whoever was refused comes again.
        assert!(number(&figures, "futile") > 0.0, "{figures:?}");
        assert!(number(&figures, "paid") > 0.0, "{figures:?}");
    }
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("class=\"line served\""), "{drawn}");
}

#[test(minutes = 15)]
fn behind_a_gate_an_outage_costs_no_payment() {
    let figures = on_sqlite("outage --gate --calls 40 --capacity 30 --before 1 --sync normal");
    assert_eq!([number(&figures, "lost"), number(&figures, "repeated")], [0.0, 0.0], "{figures:?}");
    assert!(number(&figures, "arrived") > 40.0, "{figures:?}");
    assert!((0.0..1_000.0).contains(&number(&figures, "phase_ms")), "{figures:?}");
    assert_eq!(figures["paid"], figures["arrived"], "{figures:?}");
}

#[test(minutes = 15)]
async fn a_cold_run_is_rebuilt() {
    for figures in [on_sqlite("replay --events 100"), on_postgres("replay --events 100").await] {
        assert!(number(&figures, "cold_ms") > 0.0);
    }
}

#[test(minutes = 15)]
async fn an_idle_app_is_counted() {
    for figures in [on_sqlite("idle --seconds 1"), on_postgres("idle --seconds 1").await] {
        assert!(figures.contains_key("cpu_percent") && figures.contains_key("statements_per_s"));
    }
}

#[test(minutes = 15)]
async fn the_floor_writes_the_same_rows_again() {
    let floor = CHAIN.replace("chain", "floor");
    // With fewer slots than workflows, calls wait for one and are claimed later.
    let waiting = on_sqlite(&format!("{floor} --slots 2"));
    for figures in [on_sqlite(&floor), waiting, on_postgres(&floor).await] {
        // Of each workflow: its row, twice; seven events and the run's end; a task, three times.
        assert!(number(&figures, "rows") >= 20.0 * 13.0, "{figures:?}");
        assert!(number(&figures, "ratio") > 0.0);
    }
}

#[test(minutes = 15)]
fn arguments_that_make_no_sense_end_with_2_and_say_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let taken = format!("sqlite:{}", file.path().display());
    let cases = [
        ("chain", taken.as_str(), "delete it first"),
        ("chain", "mysql://localhost", "expected sqlite:FILE or postgres://"),
        ("chain --instances 0", "sqlite:/nowhere/x.db", "--instances"),
        ("chain --sync off", "sqlite:/nowhere/x.db", "--sync"),
        ("chain --lanes 2", "sqlite:/nowhere/x.db", "one writer"),
        ("latency --sync normal", "postgres://localhost/x", "synchronous_commit = on"),
        ("retries --pending 1", "sqlite:/nowhere/x.db", "--pending"),
        ("outage --nodes 2", "sqlite:/nowhere/x.db", "one process works on a file"),
        ("outage --refusal 2", "sqlite:/nowhere/x.db", "from 0 to 1"),
        ("race", "sqlite:/nowhere/x.db", "unrecognized subcommand"),
    ];
    for (mode, store, why) in cases {
        let output = bench(mode, store);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mode} on {store}: {errors}");
        assert!(errors.contains(why), "{mode} on {store}: {errors}");
    }
}

#[test(minutes = 15)]
fn a_place_that_cannot_be_used_ends_with_1_and_says_why() {
    let output = bench("chain", "sqlite:/nowhere/at/all.db");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/at/all.db"));
}

/// Each call was retried by the action once, although its process was killed.
fn check_kills(figures: &Figures) {
    assert_eq!([number(figures, "more_than_once"), number(figures, "left_out")], [0.0, 0.0]);
    assert_eq!(number(figures, "once"), number(figures, "changed"));
    assert!(number(figures, "once") >= 600.0, "{figures:?}");
}

#[test(minutes = 15)]
fn a_bulk_action_whose_process_is_killed_retries_each_call_once() {
    check_kills(&on_sqlite("kills --calls 600 --kills 2"));
}

#[test(minutes = 15)]
async fn a_bulk_action_whose_process_is_killed_retries_each_call_once_on_postgres() {
    check_kills(&on_postgres("kills --calls 600 --kills 1").await);
}
