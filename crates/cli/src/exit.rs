//! How the program ends. Scripts rely on these numbers; the help text lists them.

use std::process::ExitCode;

/// The exit codes, in words for the help text.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    the instance failed or was cancelled, or something unexpected went wrong
  2    the input or the command line is not acceptable
  3    policy convert: the target dialect cannot say everything
  4    the instance is blocked
  130  interrupted; the instance stays and can be continued";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Unexpected = 1,
    BadInput = 2,
    Lossy = 3,
    Blocked = 4,
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
