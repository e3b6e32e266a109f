//! The pages of error codes: there is one for each, all in one form, and their examples do what
//! they say.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::{expect, expect_file};
use resurgam_core::retry::{Reason, lint};
use resurgam_core::{Code, Kind};
use resurgam_watchdog::test;
use serde_json::Value;

use crate::processes;

/// Codes whose trouble cannot be brought about by an example; other tests do.
const ONLY_TOLD: [&str; 7] = ["D3", "D5", "D6", "D7", "D8", "operator", "worker_lost"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Every page by its code.
fn pages() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("errors")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<(String, String)> = files
        .map(|file| {
            let code = file.file_stem().unwrap().to_string_lossy().into_owned();
            (code, fs::read_to_string(file).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

/// Everything that the code can call an error, a failure or a reason.
fn codes() -> BTreeSet<String> {
    let numbered = Code::ALL.iter().map(|code| code.name().to_string());
    let lints = lint::Code::ALL.iter().map(|code| format!("{code:?}"));
    let kinds = Kind::ALL.iter().map(|kind| kind.name().to_string());
    let reasons = Reason::ALL.iter().map(|reason| reason.name().to_string());
    numbered.chain(lints).chain(kinds).chain(reasons).collect()
}

/// A command in a folder, with nothing of ours in its environment but the program itself.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RESURGAM_")) {
        command.env_remove(name);
    }
    let ours = Path::new(env!("CARGO_BIN_EXE_resurgam")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", ours.display())).current_dir(folder);
    command
}

/// What a command prints, all of it, and its exit code.
fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = command(args[0], folder);
    let ended = processes::output(command.args(&args[1..]).stdin(Stdio::null()));
    let text = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8(text).unwrap())
}

fn explain(args: &[&str]) -> (Option<i32>, String) {
    run(&root(), &[&["resurgam", "explain"], args].concat())
}

/// The examples of a page: what is written behind the marks, and the text between them.
fn examples(page: &str) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(String, String)>);
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => open = Some((info.to_string(), String::new())),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

/// What an example says when it is run; none where another test runs it.
fn said(info: &str, example: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &str, command: &[&str]| {
        fs::write(folder.path().join(file), example).unwrap();
        run(folder.path(), &[command, &[file]].concat()).1
    };
    match info {
        "json policy" => Some(check("policy.json", &["resurgam", "policy", "check"])),
        "json graph" => Some(check("graph.json", &["resurgam", "check"])),
        "rap program" => Some(check("program.rap", &["resurgam", "check"])),
        "sh run" => Some(run(folder.path(), &["sh", "-c", example]).1),
        "rust" | "text" => None,
        info => panic!("nobody knows how to run {info:?}"),
    }
}

/// Whether a code stands before a message, or a name where names of its kind do.
fn tells(said: &str, code: &str) -> bool {
    let forms = [
        format!("error: {code} "),
        format!("warning: {code} "),
        format!("\"kind\":\"{code}\""),
        format!("\"reason\":\"{code}\""),
    ];
    forms.iter().any(|form| said.contains(form))
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let pages: BTreeSet<String> = pages().into_iter().map(|(code, _)| code).collect();
    assert_eq!(pages, codes());
    let (_, list) = explain(&["--json"]);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let listed: BTreeSet<String> =
        list.iter().map(|page| page["code"].as_str().unwrap().to_string()).collect();
    assert_eq!((listed, list.len()), (pages, codes().len()));
}

#[test]
fn every_page_has_the_same_form() {
    for (code, page) in pages() {
        assert!(page.starts_with(&format!("# {code}: ")), "{page}");
        let sections: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(sections, ["## What happened", "## An example", "## What to do"], "{code}");
        let empty = page.split("\n## ").skip(1).find(|section| section.lines().count() < 3);
        assert_eq!(empty, None, "{code}");
        assert_eq!(examples(&page).len(), 1, "{code}");
    }
}

#[test(minutes = 15)]
fn every_example_yields_its_code() {
    let mut wrong = Vec::new();
    for (code, page) in pages() {
        for (info, example) in examples(&page) {
            let Some(said) = said(&info, &example) else { continue };
            if !tells(&said, &code) {
                wrong.push(format!("{code}: {said}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{}", wrong.join("\n"));
}

#[test]
fn examples_that_are_not_run_here_are_run_elsewhere() {
    let elsewhere = fs::read_to_string(root().join("../testing/src/error_pages.rs")).unwrap();
    for (code, page) in pages() {
        let info = examples(&page).remove(0).0;
        assert_eq!(info == "rust", elsewhere.contains(&format!("/{code}.md\"")), "{code}");
        assert_eq!(info == "text", ONLY_TOLD.contains(&code.as_str()), "{code}");
    }
}

#[test]
fn the_index_of_the_pages_is_true() {
    let (_, list) = explain(&["--json"]);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let mut index =
        "# Errors\n\nEach code stands before its message on the command line; `resurgam explain CODE` prints \
                     its page.\nThis list is made from the pages by a test.\n"
            .to_string();
    let mut about = &Value::Null;
    for page in &list {
        if page["about"] != *about {
            about = &page["about"];
            index += &format!("\n## {}\n\n| code | means |\n|---|---|\n", about.as_str().unwrap());
        }
        let (code, title) = (page["code"].as_str().unwrap(), page["title"].as_str().unwrap());
        index += &format!("| [{code}](../../crates/cli/errors/{code}.md) | {title} |\n");
    }
    expect_file![root().join("../../docs/errors/README.md")].assert_eq(&index);
}

#[test]
fn a_page_is_printed_for_people_and_for_programs() {
    let (code, text) = explain(&["p2"]);
    assert_eq!(code, Some(0));
    expect![[r#"
        P2: a field that nobody knows

        What happened

        A policy, or another setting, has a field of a name that means nothing there. It is refused, because
        a misspelt `max_attempts` that is silently passed over is noticed only when it is needed.

        An example

            {"max_atempts": 5}

        What to do

        Take the name that the message suggests. If it lists none that is near, the field may belong
        elsewhere: `multiplier` stands in `backoff`, for instance. A policy of another system is read with
        `resurgam policy check FILE --from DIALECT`; `resurgam policy schema` prints all fields.
    "#]].assert_eq(&text);
    let (code, form) = explain(&["P2", "--json"]);
    let form: Value = serde_json::from_str(&form).unwrap();
    assert_eq!((code, &form["code"]), (Some(0), &Value::from("P2")));
    assert!(form["page"].as_str().unwrap().starts_with("# P2: "));
}

#[test]
fn all_codes_are_listed_with_a_line_each() {
    let (code, text) = explain(&[]);
    assert_eq!(code, Some(0));
    assert!(text.contains("\n  P2                 a field that nobody knows\n"), "{text}");
    let wide = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None);
}

#[test]
fn an_unknown_code_is_refused_with_the_nearest() {
    for (code, expected) in [
        ("P9", "error: C1 there is no error code \"P9\"; there are P1 to P4\n"),
        (
            "max_attempt",
            "error: C1 there is no error code \"max_attempt\"; did you mean max_attempts?\n",
        ),
        ("Z1", "error: C1 there is no error code \"Z1\"; `resurgam explain` lists all of them\n"),
        ("", "error: C1 there is no error code \"\"; `resurgam explain` lists all of them\n"),
    ] {
        assert_eq!(explain(&[code]), (Some(2), expected.to_string()));
    }
    let (code, form) = explain(&["P9", "--json"]);
    let form: Value = serde_json::from_str(&form).unwrap();
    assert_eq!((code, &form["errors"][0]["code"]), (Some(2), &Value::from("C1")));
}
