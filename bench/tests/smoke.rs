//! Every mode runs and reports, with numbers that are small enough for a debug build.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

/// Runs a mode on a file of its own.
fn bench(mode: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("bench.db").display());
    let arguments = mode.split_ascii_whitespace();
    Command::new(env!("CARGO_BIN_EXE_resurgam-bench"))
        .args(arguments)
        .args(["--store", &store, "--json"])
        .output()
        .unwrap()
}

/// The figures of a mode, which prints one JSON object and nothing else.
fn figures(mode: &str) -> serde_json::Map<String, serde_json::Value> {
    let output = bench(mode);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(mode: &str, names: &[&str]) {
    let figures = figures(mode);
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    assert_eq!(figures.keys().collect::<Vec<_>>(), sorted);
    assert!(figures.values().all(|figure| figure.as_f64().is_some()), "{figures:?}");
}

#[test]
fn chain_reports_its_figures() {
    check(
        "chain --instances 20 --activities 3",
        &[
            "workflows_per_s",
            "steps_per_s",
            "p50_ms",
            "p99_ms",
            "cpu_ms_per_step",
            "rss_mb",
            "commits",
            "rows",
        ],
    );
}

#[test]
fn a_lonely_workflow_commits_once_when_it_starts_and_once_for_each_activity() {
    let figures = figures("latency --activities 5 --reps 2 --sync normal");
    assert_eq!(figures["commits"], 12);
}

#[test]
fn growth_compares_the_ends() {
    let figures = figures("growth --activities 50 --sync normal");
    assert!(figures["first_step_ms"].as_f64().unwrap() > 0.0);
    assert!(figures["growth"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_store_that_is_not_fresh_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_resurgam-bench"))
        .args(["chain", "--store", &format!("sqlite:{}", file.path().display())])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("delete it first"));
}
