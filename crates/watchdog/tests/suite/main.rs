//! Tests that hang are ended, and say what they waited for. Those that hang here are ignored, and
//! started as processes of their own.

use std::process::{Command, Output};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use resurgam_watchdog::{Report, test};

/// Runs a test of this binary that is ignored, with a second for each test.
fn run(name: &str) -> (Output, String) {
    let mut test = Command::new(std::env::current_exe().expect("this program has a path"));
    test.args(["--exact", name, "--ignored"]).env("RESURGAM_TEST_LIMIT", "1");
    let output = test.output().expect("this program starts once more");
    let (out, error) = (&output.stdout, &output.stderr);
    let text = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(error));
    (output, text)
}

struct Oracle;

impl Report for Oracle {
    fn report(&self) -> String {
        "a letter is awaited".to_string()
    }
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn a_test_that_awaits_what_never_comes() {
    let oracle: Arc<dyn Report> = Arc::new(Oracle);
    let this = resurgam_watchdog::current().expect("a test that is watched");
    assert_eq!(this.name(), "a_test_that_awaits_what_never_comes");
    this.add(Arc::downgrade(&oracle));
    std::future::pending::<()>().await;
}

#[test]
fn a_test_that_awaits_what_never_comes_fails_with_a_report() {
    let (output, text) = run("a_test_that_awaits_what_never_comes");
    assert_eq!(output.status.code(), Some(101), "{text}");
    let report = "the test has run for 1 s, and is ended\na letter is awaited";
    assert!(text.contains(report) && text.contains("1 failed"), "{text}");
}

#[test]
#[ignore = "it hangs: another test starts it"]
fn a_test_that_blocks_its_thread() {
    let (_sender, receiver) = mpsc::channel::<()>();
    receiver.recv().expect("a letter");
}

#[test]
fn a_test_that_blocks_its_thread_ends_the_process_with_a_report() {
    let (output, text) = run("a_test_that_blocks_its_thread");
    assert!(!output.status.success(), "{text}");
    let report = "test a_test_that_blocks_its_thread hangs: the test has run for 1 s";
    assert!(text.contains(report), "{text}");
}

#[test]
#[ignore = "it hangs: another test starts it"]
async fn a_test_that_somebody_gives_up() {
    let this = resurgam_watchdog::current().expect("a test that is watched");
    std::thread::spawn(move || this.fail("the post office is closed".to_string()));
    std::future::pending::<()>().await;
}

#[test]
fn a_test_that_somebody_gives_up_fails_at_once() {
    let (output, text) = run("a_test_that_somebody_gives_up");
    assert_eq!(output.status.code(), Some(101), "{text}");
    assert!(text.contains("the post office is closed"), "{text}");
}

#[test]
#[ignore = "it is skipped: another test starts it"]
async fn a_test_that_needs_an_elephant() {
    resurgam_watchdog::skip("there is no elephant here");
}

#[test]
fn a_test_that_lacks_something_is_skipped_with_a_sentence() {
    let (output, text) = run("a_test_that_needs_an_elephant");
    assert!(output.status.success(), "{text}");
    let sentence = "a_test_that_needs_an_elephant is skipped: there is no elephant here\n";
    assert!(text.contains(sentence), "{text}");
}

#[test(minutes = 15, threads = 2)]
async fn a_test_with_threads_goes_on_while_its_own_thread_is_busy() {
    let (sender, receiver) = mpsc::channel();
    tokio::spawn(async move { sender.send(7) });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(7));
}

#[test]
#[should_panic(expected = "as any test may")]
async fn a_test_that_panics_fails_as_any_test_does() {
    panic!("as any test may");
}
