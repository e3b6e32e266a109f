//! `resurgam explain`: what an error code means, how it comes about and what to do.
//!
//! The pages are Markdown in `errors/`, one for each code, kind of failure and reason, in the same
//! form; a test runs their examples. They are inside this package, so that an installed program has
//! them.

use std::fmt::Write as _;

use resurgam_core::config::nearest;
use serde_json::{Value, json};

use crate::output::Output;
use crate::policy::complaint::printable;
use crate::style::STRONG;
use crate::trouble::{Mistake, Trouble};

/// Explain an error code, or list all of them
///
/// Codes stand before messages, such as P2 in `error: P2 unknown field`. The kinds of failures
/// (`timeout`) and the reasons why trying ended (`max_attempts`) are explained as well.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::help::EXPLAIN)]
pub(crate) struct Args {
    /// The code; all are listed unless given
    code: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// A page: its code and its text.
struct Page {
    code: &'static str,
    text: &'static str,
}

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(Page { code: $code, text: include_str!(concat!("../errors/", $code, ".md")) },)*]
    };
}

/// Headings of the list, each with its pages.
const PAGES: &[(&str, &[Page])] = &[
    ("Policies and other settings", pages!["P1" "P2" "P3" "P4"]),
    ("Warnings about policies", pages!["W1" "W2" "W3" "W4" "W5" "W6" "W7" "W8" "W9"]),
    ("Programs", pages!["I1" "I2" "I3" "I4" "I5" "I6"]),
    ("Graphs", pages!["G1" "G2" "G3" "G4" "G5" "G6" "G7"]),
    ("Instances that do not go on", pages!["B1" "B2" "B3" "B4" "B5"]),
    ("Requests", pages!["E1" "E2" "E3" "E4" "E5" "E6" "E7" "E8" "E9" "E10" "E11"]),
    ("The database", pages!["D1" "D2" "D3" "D4" "D5" "D6" "D7" "D8"]),
    ("The command line", pages!["C1" "C2" "C3" "C4" "C5" "C6"]),
    (
        "Kinds of failures",
        pages!["error" "timeout" "heartbeat_timeout" "queue_timeout" "total_timeout" "panic"
               "worker_lost" "throttled" "cancelled"],
    ),
    (
        "Why trying ended",
        pages!["terminal" "pruned" "non_retryable" "no_rule" "max_attempts" "max_elapsed"
               "operator"],
    ),
];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Output {
    let Some(code) = &args.code else {
        return if args.json { json_list() } else { Output::done(list()) };
    };
    match all().find(|page| page.code.eq_ignore_ascii_case(code.trim())) {
        Some(page) if args.json => answer(&page.json_with("page", page.text)),
        Some(page) => Output::done(page.to_text()),
        None => unknown(code).output(args.json),
    }
}

fn all() -> impl Iterator<Item = &'static Page> {
    PAGES.iter().flat_map(|(_, pages)| *pages)
}

fn answer(value: &Value) -> Output {
    Output::json(value.to_string(), crate::exit::Exit::Done)
}

fn json_list() -> Output {
    let line = |heading: &str, page: &Page| page.json_with("about", heading);
    let lines = PAGES.iter().flat_map(|(about, pages)| pages.iter().map(|p| line(about, p)));
    answer(&lines.collect())
}

fn list() -> String {
    let mut out = String::new();
    for (heading, pages) in PAGES {
        let _ = writeln!(out, "{STRONG}{heading}{STRONG:#}");
        for page in *pages {
            let _ = writeln!(out, "  {:<17}  {}", page.code, page.title());
        }
        out.push('\n');
    }
    out + "`resurgam explain CODE` says how it comes about and what to do.\n"
}

/// Nobody knows the code; which ones may have been meant.
fn unknown(code: &str) -> Trouble {
    let letter = code.trim().chars().next().map(|letter| letter.to_ascii_uppercase());
    let is_kin = |page: &&Page| page.is_numbered() && page.code.chars().next() == letter;
    let kin: Vec<&str> = match code.trim().len() {
        0..=3 => all().filter(is_kin).map(|page| page.code).collect(),
        _ => nearest(code.trim(), all().map(|page| page.code)).into_iter().collect(),
    };
    let hint = match &kin[..] {
        [] => "`resurgam explain` lists all of them".to_string(),
        [one] => format!("did you mean {one}?"),
        [first, .., last] => format!("there are {first} to {last}"),
    };
    Mistake::new(format!("there is no error code {:?}", printable(code))).hint(hint).into()
}

impl Page {
    /// The title, without the code before it.
    fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.split_once(": ").map_or(first, |(_, title)| title)
    }

    /// True for `P2`, false for `timeout`.
    fn is_numbered(&self) -> bool {
        self.code.ends_with(|last: char| last.is_ascii_digit())
    }

    fn json_with(&self, field: &str, value: &str) -> Value {
        json!({ "code": self.code, "title": self.title(), field: value })
    }

    /// The page for a terminal: headings stand out, and examples are indented.
    fn to_text(&self) -> String {
        let (mut out, mut in_example) = (String::new(), false);
        for line in self.text.lines() {
            let _ = match line.trim_start_matches('#') {
                _ if line.starts_with("```") => {
                    in_example = !in_example;
                    continue;
                }
                "" => writeln!(out),
                _ if in_example => writeln!(out, "    {line}"),
                heading if heading.len() < line.len() => {
                    writeln!(out, "{STRONG}{}{STRONG:#}", heading.trim_start())
                }
                line => writeln!(out, "{line}"),
            };
        }
        out
    }
}
