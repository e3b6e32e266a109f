//! What the compiler says about the likely mistakes.
//!
//! Compile errors are part of the API. When one has changed for the better, record it anew:
//! `TRYBUILD=overwrite cargo test -p resurgam-macros ui`.

use std::process::Command;

use resurgam_watchdog::test;

/// The compiler whose words are recorded; others say the same a little differently.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn mistakes_are_explained_where_they_are_made() {
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    match version.starts_with(RECORDED_WITH) {
        true => trybuild::TestCases::new().compile_fail("tests/ui/*.rs"),
        false => eprintln!("not compared: recorded with {RECORDED_WITH}x, this is {version}"),
    }
}
