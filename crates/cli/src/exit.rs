//! How the program ends. Scripts rely on these numbers; `help.rs` lists them.

use std::process::ExitCode;

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
