//! Runs what a page shows on a terminal, with the files that the page gives, and compares.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use resurgam_watchdog::test;

use crate::processes;
use crate::snippets::of_kind;
use crate::snippets::page::{Block, Page};
use crate::snippets::shell::path_with_us;

/// A command, and what the page shows behind it.
pub(super) struct Shown {
    pub(super) command: String,
    pub(super) output: Vec<String>,
}

/// What is not as the page shows it.
pub(crate) fn complaints(page: &Page) -> Vec<String> {
    if commands_to_run(page) == 0 {
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut complaints = Vec::new();
    for block in &page.blocks {
        if let Some(name) = &block.name {
            write(&folder.path().join(name), block);
        }
        for shown in to_run(page, block) {
            let complaint = compare(&shown, &run(folder.path(), &shown.command));
            complaints.extend(complaint.map(|complaint| format!("{}: {complaint}", block.at())));
        }
    }
    complaints
}

pub(crate) fn commands_to_run(page: &Page) -> usize {
    page.blocks.iter().map(|block| to_run(page, block).len()).sum()
}

/// The commands of a block whose output is shown, or whose files are in the page.
fn to_run(page: &Page, block: &Block) -> Vec<Shown> {
    if block.kind() != "console" || block.is_theirs() {
        return Vec::new();
    }
    let named: Vec<&String> = page.blocks.iter().filter_map(|block| block.name.as_ref()).collect();
    let mut shown = shown(block);
    shown.retain(|shown| {
        let ours = shown.command.starts_with("resurgam ");
        let given = named.iter().any(|name| shown.command.split(' ').any(|word| word == *name));
        ours && (given || !shown.output.is_empty())
    });
    shown
}

pub(super) fn shown(block: &Block) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => {
                all.push(Shown { command: command.to_string(), output: Vec::new() });
            }
            (None, Some(last)) => last.output.push(line.trim_end().to_string()),
            (None, None) => panic!("{}: output before a command", block.at()),
        }
    }
    all
}

/// Puts a block where its page says it is; a script can be run.
pub(super) fn write(file: &Path, block: &Block) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, &block.text).unwrap();
    let mode = if block.text.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

fn run(folder: &Path, command: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", path_with_us());
    shell.env_remove("RESURGAM_DB");
    processes::output(shell.env("RESURGAM_LOG", "warn").stdin(Stdio::null()))
}

/// Output and errors come on one terminal, in an order that nobody promises.
fn compare(shown: &Shown, output: &Output) -> Option<String> {
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(|line| line.trim_end().to_string()).collect()
    };
    let (out, err) = (lines(&output.stdout), lines(&output.stderr));
    let command = &shown.command;
    if shown.output.is_empty() {
        let failed = !output.status.success();
        return failed
            .then(|| format!("$ {command}\nends with {}:\n{}", output.status, err.join("\n")));
    }
    let orders = [[out.clone(), err.clone()].concat(), [err, out].concat()];
    let same = orders.contains(&shown.output);
    (!same).then(|| format!("$ {command}\nprints\n{}", orders[1].join("\n")))
}

/// A page with what is to be run only for its files.
#[test]
fn a_command_runs_when_its_files_are_given_or_its_output_is_shown() {
    let pages = crate::snippets::pages();
    let page = pages.iter().find(|page| page.path.ends_with("coming-from/rappel.md")).unwrap();
    let blocks: Vec<usize> =
        of_kind(page, "console").map(|block| to_run(page, block).len()).collect();
    assert_eq!(blocks, [2, 1, 1]);
}
