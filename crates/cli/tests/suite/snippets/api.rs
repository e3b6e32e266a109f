//! Plays the guide "The API by example" from its first line to its last, in one shell beside a
//! server, and compares what is answered.

use std::process::{Command, Stdio};

use resurgam_watchdog::test;

use super::page::pages;
use super::terminal::{Shown, shown, write};
use crate::processes;
use crate::work::support::{Place, until};

/// What stands between the outputs of two commands.
const MARK: &str = "---- command";

#[test(minutes = 15)]
fn the_guide_to_the_api_shows_what_is_answered() {
    let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !there("jq") || !there("curl") {
        eprintln!("skipped: there is no jq or no curl here");
        return;
    }
    let pages = pages();
    let page = pages.iter().find(|page| page.path.ends_with("docs/api.md")).unwrap();
    let place = Place::new();
    let mut commands: Vec<(String, Shown)> = Vec::new();
    for block in &page.blocks {
        if let Some(name) = block.name.as_ref().filter(|_| block.kind() != "text") {
            write(&place.path(name), block);
        }
        if block.mark("from") == Some("the_guide_to_the_api_shows_what_is_answered") {
            commands.extend(shown(block).into_iter().map(|shown| (block.at(), shown)));
        }
    }
    assert!(commands.len() > 25, "only {} commands were found", commands.len());
    let server = place.begin(&["server", "--work", "--listen", "0"]);
    until("it serves", || server.said().contains("serving at http://"));
    let said = server.said();
    let address = said.split("serving at http://").nth(1).unwrap();
    let address = address.split([';', ',', ' ', '\n']).next().unwrap();
    // One shell, so that what a command sets is there for those behind it.
    let mut script = String::new();
    for (number, (_, Shown { command, .. })) in commands.iter().enumerate() {
        let command = command.replace("127.0.0.1:8460", address);
        script.push_str(&format!("{command}\nprintf '\\n{MARK} {number}\\n'\n"));
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path(".")).stdin(Stdio::null());
    let output = processes::output(&mut shell);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut wrong = Vec::new();
    let mut rest = text.as_str();
    for (number, (at, Shown { command, output })) in commands.iter().enumerate() {
        let mark = format!("\n{MARK} {number}\n");
        let Some((printed, behind)) = rest.split_once(&mark) else {
            wrong.push(format!("{at}: $ {command}\nthe shell ended before it was over"));
            break;
        };
        rest = behind;
        if printed.trim_end() != output.join("\n").trim_end() {
            wrong.push(format!("{at}: $ {command}\n{printed}"));
        }
    }
    let trouble = String::from_utf8_lossy(&[output.stderr].concat()).into_owned();
    assert!(
        wrong.is_empty(),
        "the page shows something else than is answered:\n{}\n{trouble}",
        wrong.join("\n")
    );
}
