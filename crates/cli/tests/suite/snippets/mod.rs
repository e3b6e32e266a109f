//! Every fenced block of the README, the guides and the examples is compiled, read or run.
//!
//! What a block is stands behind its fence:
//!
//! - `rust`, or nothing: its page is included as documentation somewhere, so it is a doc test.
//!   `ignore` is for the code of others only.
//! - `json`, `json WORD`, `toml`: read as a policy (WORD is a dialect), a graph, a schedule, or the
//!   dependencies of a program.
//! - `rap`: checked as a program; statements alone are parsed.
//! - `sql`, `sql postgres`: run on a database of that kind.
//! - `sh`: its commands are parsed. With `#!` it is a script, and its grammar is checked.
//! - `console`: its commands are parsed, and run where their files are in the page or their output
//!   is shown; that is compared.
//! - `python`: its grammar is checked.
//! - `text`: what something prints. `<!-- from: NAME -->` above it names the test that makes it.
//!
//! `<!-- theirs: SYSTEM -->` above a block says that it is code of another system, which is not
//! looked at. A paragraph before a block that ends with a colon and names a file in backticks gives
//! the block that name.
#![cfg(unix)]

mod api;
mod data;
mod operating;
mod page;
mod program;
mod shell;
mod sql;
mod terminal;
mod words;

use page::{Block, Page, included, pages, tests_named};
use resurgam_watchdog::test;

/// Fails with everything that is wrong, and not only with the first.
fn all_well(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// What a check says about the blocks that it is for; there must be some.
fn check(is_for: impl Fn(&Block) -> bool, check: impl Fn(&Block) -> Result<(), String>) {
    let pages = pages();
    let blocks: Vec<&Block> =
        pages.iter().flat_map(|page| &page.blocks).filter(|block| is_for(block)).collect();
    assert!(!blocks.is_empty(), "no page has such a block");
    let wrong = |block: &&Block| check(block).err().map(|error| format!("{}: {error}", block.at()));
    all_well(&blocks.iter().filter_map(wrong).collect::<Vec<String>>());
}

#[test]
fn every_block_is_of_a_kind_that_is_checked() {
    const KINDS: [&str; 9] = ["", "rust", "json", "toml", "rap", "sql", "sh", "console", "python"];
    check(
        |block| !block.is_theirs() && block.kind() != "text",
        |block| match KINDS.contains(&block.kind()) {
            true => Ok(()),
            false => Err(format!(
                "nobody checks a block of kind {:?}: use one of {KINDS:?}, or `text` with <!-- from: \
                 the name of the test that makes it --> above it; see \
                 crates/cli/tests/suite/snippets",
                block.kind()
            )),
        },
    );
}

#[test]
fn every_rust_block_is_a_doc_test() {
    let included = included();
    check(
        |block| matches!(block.kind(), "" | "rust") && !block.is_theirs(),
        |block| {
            if block.info.contains("ignore") {
                return Err("a block that is ignored is not compiled: write `rust,no_run`, with \
                            hidden lines (`# ..`) for what it needs, or <!-- theirs: SYSTEM --> \
                            above it"
                    .to_string());
            }
            match included.contains(&block.path) {
                true => Ok(()),
                false => Err("no crate includes this page as documentation, so its code is not \
                              compiled: add #[doc = include_str!(\"..\")] somewhere"
                    .to_string()),
            }
        },
    );
}

#[test]
fn every_json_and_toml_block_is_accepted_by_the_code() {
    check(|block| block.kind() == "json", data::json);
    check(|block| block.kind() == "toml", data::toml);
}

#[test]
fn every_program_is_accepted_by_the_code() {
    check(|block| block.kind() == "rap", program::check);
}

#[test(minutes = 15)]
fn every_command_and_option_of_a_block_exists() {
    check(|block| matches!(block.kind(), "sh" | "console") && !block.is_theirs(), shell::check);
}

#[test(minutes = 15)]
fn python_is_python() {
    // Code of others is Python too, mostly: it is not ours to check, but it should be readable.
    check(|block| block.kind() == "python", shell::python);
}

#[test(minutes = 15)]
fn a_terminal_shows_what_the_commands_print() {
    let pages = pages();
    let complaints: Vec<String> = pages.iter().flat_map(terminal::complaints).collect();
    all_well(&complaints);
    let ran: usize = pages.iter().map(terminal::commands_to_run).sum();
    assert!(ran > 5, "only {ran} commands were run");
}

#[test]
fn every_text_was_made_by_a_test_that_there_is() {
    check(
        |block| block.kind() == "text" && !block.is_theirs(),
        |block| {
            let Some(name) = block.mark("from") else {
                return Err(
                    "who made this text? <!-- from: name_of_a_test --> above the fence names \
                            a test whose file contains it, or reads this page; a program is `rap`"
                        .to_string(),
                );
            };
            let sources = tests_named(name);
            let page = block.path.file_name().unwrap().to_string_lossy();
            let makes_it = |source: &String| {
                source.contains(&*page) || block.text.lines().all(|l| source.contains(l.trim()))
            };
            match (sources.is_empty(), sources.iter().any(makes_it)) {
                (true, _) => Err(format!("there is no test `{name}`")),
                (_, false) => Err(format!("`{name}` neither contains this text nor reads {page}")),
                (_, true) => Ok(()),
            }
        },
    );
}

#[test]
async fn every_statement_for_sqlite_runs() {
    all_well(&sql::on_sqlite(&pages()).await);
}

#[test(minutes = 15)]
async fn every_statement_for_postgres_runs() {
    all_well(&sql::on_postgres(&pages()).await);
}

/// The blocks of a page that are of this kind.
fn of_kind<'p>(page: &'p Page, kind: &'p str) -> impl Iterator<Item = &'p Block> {
    page.blocks.iter().filter(move |block| block.kind() == kind && !block.is_theirs())
}
