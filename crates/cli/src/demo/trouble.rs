//! What ends the demo early.

use std::io;

use crate::exit::Exit;

#[derive(Debug)]
pub(super) enum Trouble {
    /// What was asked for is not possible; the text says why.
    Refused(String),
    /// Something unexpected.
    Failed(String),
    /// Nobody reads what we print, or it cannot be printed.
    Output(io::Error),
}

impl Trouble {
    /// The text for people and the exit code.
    pub(super) fn end(self) -> io::Result<(String, Exit)> {
        match self {
            Trouble::Refused(text) => Ok((text, Exit::BadInput)),
            Trouble::Failed(text) => Ok((text, Exit::Unexpected)),
            Trouble::Output(error) => Err(error),
        }
    }
}

impl From<resurgam::Error> for Trouble {
    fn from(error: resurgam::Error) -> Self {
        Trouble::Failed(format!("{error:?}"))
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Output(error)
    }
}
