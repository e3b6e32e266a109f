//! Says whether a policy is accepted, and what about it is probably not meant.

use std::fmt::Write as _;

use resurgam_core::retry::dialect::Dialect;
use resurgam_core::retry::lint::{self, Lint};
use resurgam_policy::check::Verdict;

use super::complaint::{Complaint, Refusal, printable};
use super::source::Loaded;
use crate::exit::Exit;
use crate::output::Output;
use crate::style::{ERROR, GOOD, WARNING};

/// The outcome for people: warnings aside, then one line that says how it went.
pub(crate) fn text(loaded: &Loaded, dialect: Dialect, strict: bool) -> Output {
    let mut stderr = String::new();
    for warning in warnings(loaded) {
        let _ = writeln!(stderr, "{WARNING}warning:{WARNING:#} {warning}");
    }
    let name = printable(&loaded.name);
    let warnings = worries(loaded);
    let counted = if warnings == 1 { "1 warning".into() } else { format!("{warnings} warnings") };
    if exit(warnings, strict) != Exit::Done {
        let _ = writeln!(stderr, "{ERROR}error:{ERROR:#} {name} has {counted}, and --strict is on");
        return Output { stdout: String::new(), stderr, exit: exit(warnings, strict) };
    }
    let counted = if warnings == 0 { String::new() } else { format!(", with {counted}") };
    let stdout = format!("{GOOD}ok:{GOOD:#} {name} is a valid {dialect} policy{counted}\n");
    Output { stdout, stderr, exit: Exit::Done }
}

/// The outcome for programs.
pub(crate) fn json(loaded: &Loaded, strict: bool) -> serde_json::Result<Output> {
    let exit = exit(worries(loaded), strict);
    let verdict = Verdict::<Complaint>::of(&loaded.policy, &loaded.notes, strict);
    Ok(Output::json(serde_json::to_string_pretty(&verdict)?, exit))
}

/// A refusal for programs.
pub(crate) fn refused_json(refusal: &Refusal) -> serde_json::Result<Output> {
    let verdict = Verdict::refused(&refusal.complaints);
    Ok(Output::json(serde_json::to_string_pretty(&verdict)?, refusal.exit))
}

/// Everything that is accepted and still worth a word: lints, and what has no effect.
pub(crate) fn warnings(loaded: &Loaded) -> Vec<String> {
    let lints = lint::lint(&loaded.policy);
    let lints = lints.iter().map(Lint::to_string);
    lints.chain(loaded.notes.iter().cloned()).map(|warning| printable(&warning)).collect()
}

/// How much there is to worry about.
fn worries(loaded: &Loaded) -> usize {
    lint::lint(&loaded.policy).len()
}

fn exit(worries: usize, strict: bool) -> Exit {
    if strict && worries > 0 { Exit::BadInput } else { Exit::Done }
}
