//! Plays the guide "Operating" from its first line to its last, with a worker and in one folder:
//! every command is run, and what it prints is compared, but for times and numbers.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use resurgam_watchdog::test;

use super::page::pages;
use super::shell::path_with_us;
use super::terminal::{shown, write};
use crate::guides::outline;
use crate::processes::{self, PATIENCE};

/// Commands that change nothing, so that they can be repeated until something has come.
const LOOKING: [&str; 6] = ["list", "show", "history", "paused list", "dead list", "gate show"];

/// Processes that the page has left in the background.
#[derive(Default)]
struct Background(Vec<Child>);

impl Drop for Background {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _unless_gone = child.kill();
            let _unless_gone = child.wait();
        }
    }
}

#[test(minutes = 15)]
fn the_guide_to_operating_shows_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let command = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder.path()).env("PATH", path_with_us());
        shell.env_remove("RESURGAM_DB").env("RESURGAM_LOG", "error").stdin(Stdio::null());
        shell
    };
    let pages = pages();
    let page = pages.iter().find(|page| page.path.ends_with("docs/operating.md")).unwrap();
    let mut background = Background::default();
    let (mut ran, mut wrong) = (0, Vec::new());
    for block in &page.blocks {
        if let Some(name) = block.name.as_ref().filter(|_| block.kind() != "text") {
            fs::create_dir_all(folder.path().join("actions")).unwrap();
            write(&folder.path().join(name), block);
        }
        if block.mark("from") != Some("the_guide_to_operating_shows_what_is_printed") {
            continue;
        }
        for shown in shown(block) {
            ran += 1;
            if let Some(line) = shown.command.strip_suffix(" &") {
                let mut shell = command(&format!("exec {line}"));
                background.0.push(shell.stdout(Stdio::null()).spawn().unwrap());
                continue;
            }
            let verb = shown.command.strip_prefix("resurgam ").unwrap_or_default();
            let is_looking = LOOKING.iter().any(|looking| verb.starts_with(looking));
            let expected = outline(&of_any_order(&shown.output.join("\n")));
            let end = Instant::now() + if is_looking { PATIENCE / 10 } else { Duration::ZERO };
            loop {
                let output = processes::output(&mut command(&shown.command));
                let text =
                    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                if outline(&of_any_order(&text)) == expected {
                    // Whoever reads the page types slowly: by then it was tried once.
                    if shown.command.starts_with("resurgam start renew.rap") {
                        wait_for_an_attempt(&command, text.trim());
                    }
                    break;
                }
                if Instant::now() >= end {
                    wrong.push(format!("{}: $ {}\n{text}", block.at(), shown.command));
                    break;
                }
                // Between two looks: nobody tells that a worker has come to something.
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    assert!(ran > 40, "only {ran} commands were run");
    assert!(
        wrong.is_empty(),
        "the page shows something else than is printed:\n{}",
        wrong.join("\n")
    );
}

/// Which instance is the example of a group depends on which was paused or given up last, and which
/// attempt a call has come to on how fast the machine is: the worker runs them at once.
fn of_any_order(text: &str) -> String {
    let begins = |line: &str, group: &str| line.trim_start().starts_with(group);
    let line = |line: &str| match line {
        line if begins(line, "3  charge ") => ["order-1", "order-2", "order-3"]
            .iter()
            .fold(line.to_string(), |line, order| line.replace(order, "order")),
        line if begins(line, "2  label ") => line.replace("ship-10 ", "ship-9  "),
        // It is tried each second until the next command has paused it.
        line if line.contains(" of 1001") => uncounted(line),
        line => line.to_string(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A line without how many attempts there were.
fn uncounted(line: &str) -> String {
    let line = line.replace(", capped by max_delay", "");
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 1..words.len() {
        if matches!(words[at - 1], "attempt" | "(failure") {
            words[at] = if words[at].ends_with(',') { "n," } else { "n" };
        }
    }
    words.join(" ")
}

/// Waits until an attempt of an instance has failed.
fn wait_for_an_attempt(command: &impl Fn(&str) -> Command, id: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let output = processes::output(&mut command(&format!("resurgam attempts {id}")));
        if String::from_utf8_lossy(&output.stdout).contains("no answer from the bank") {
            return;
        }
        assert!(Instant::now() < end, "no attempt of {id} has failed");
        // Between two looks: nobody tells that a worker has come to something.
        thread::sleep(Duration::from_millis(20));
    }
}
