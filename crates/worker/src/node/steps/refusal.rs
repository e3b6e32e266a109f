//! Why a step is not written.

use std::fmt;

use crate::error::Error;

/// Why a step is not written.
#[derive(Debug)]
pub(crate) enum Refusal {
    Duplicate,
    Closed,
    Missed,
    /// This many signals wait for the instance.
    Full(usize),
    Fenced,
    /// The store is in trouble that may pass.
    Trouble(String),
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Duplicate => "its id is taken",
            Refusal::Closed => "the instance is closed",
            Refusal::Missed => "somebody else changed it meanwhile",
            Refusal::Full(_) => "too many signals are unread",
            Refusal::Fenced => "another process works on the store by now; ask again",
            Refusal::Trouble(text) | Refusal::Other(text) => text,
        })
    }
}

/// What those hear whose news came after the end.
pub(crate) fn too_late() -> Error {
    Error::closed("the instance closed before the news reached it")
}
