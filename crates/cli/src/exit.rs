//! How the program ends. Scripts rely on these numbers; the help text lists them.

use std::process::ExitCode;

/// The exit codes, in words for the help text.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  something unexpected failed, such as reading or writing a file
  2  the input or the command line is not acceptable
  3  convert: the target dialect cannot say everything";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Unexpected = 1,
    BadInput = 2,
    Lossy = 3,
    /// Only the demo ends so, and its own help says it.
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
