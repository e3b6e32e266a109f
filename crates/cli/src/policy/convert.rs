//! Writes a policy in the words of another system, and says what those words cannot say.

use std::fmt::Write as _;

use resurgam_core::retry::dialect::{Dialect, Exported};
use resurgam_policy::convert::{Config, Converted};
use serde_json::Value;

use super::complaint::printable;
use super::source::Loaded;
use crate::exit::Exit;
use crate::output::Output;
use crate::style::WARNING;

/// The converted policy for people and files: it alone on standard output, the rest aside.
pub(crate) fn text(loaded: &Loaded, to: Dialect) -> serde_json::Result<Output> {
    let exported = to.export(&loaded.policy);
    let bare = match (to, &exported.config["brackets"]) {
        (Dialect::RappelIr, Value::String(brackets)) => Some(brackets.clone()),
        _ => None,
    };
    let stdout = match bare {
        Some(brackets) => brackets,
        None => serde_json::to_string_pretty(&Config::of(&loaded.policy, to, &exported))?,
    };
    let mut stderr = String::new();
    for note in &loaded.notes {
        let _ = writeln!(stderr, "{WARNING}note:{WARNING:#} {}", printable(note));
    }
    for lost in &exported.lost {
        let _ = writeln!(stderr, "{WARNING}lost:{WARNING:#} {}", printable(lost));
    }
    Ok(Output { stdout: stdout + "\n", stderr, exit: exit(&exported) })
}

/// Converts a policy and answers with one JSON value, for programs.
pub(crate) fn json(loaded: &Loaded, to: Dialect) -> serde_json::Result<Output> {
    let exported = to.export(&loaded.policy);
    let answer = Converted::of(&loaded.policy, &loaded.notes, to, &exported);
    Ok(Output::json(serde_json::to_string_pretty(&answer)?, exit(&exported)))
}

fn exit(exported: &Exported) -> Exit {
    if exported.lost.is_empty() { Exit::Done } else { Exit::Lossy }
}
