//! What a command prints and how it ends.

use crate::exit::Exit;

/// What a command prints and how it ends.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

impl Output {
    /// Text on standard output, all is well.
    pub(crate) fn done(stdout: String) -> Self {
        Output { stdout, stderr: String::new(), exit: Exit::Done }
    }

    /// One JSON value on standard output.
    pub(crate) fn json(value: String, exit: Exit) -> Self {
        Output { stdout: value + "\n", stderr: String::new(), exit }
    }
}
