//! What can go wrong with a store, told apart by what the caller can do.

use std::error::Error as StdError;
use std::fmt;

use resurgam_core::Code;

/// The result of a call to a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Trouble with a store. The text says what was attempted and on what.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    code: Code,
    attempted: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transient,
    Data,
    Unusable,
    Missing,
    Fenced,
    Rewound,
}

impl Kind {
    /// The code of trouble of which nothing more is known.
    fn code(self) -> Code {
        match self {
            Kind::Transient => Code::D1,
            Kind::Data => Code::D5,
            Kind::Unusable => Code::D2,
            Kind::Missing => Code::C4,
            Kind::Fenced => Code::D6,
            Kind::Rewound => Code::D7,
        }
    }
}

impl Error {
    fn new(kind: Kind, attempted: impl Into<String>) -> Self {
        Error { kind, code: kind.code(), attempted: attempted.into(), source: None }
    }

    /// This trouble, told to somebody else who waited for the same answer.
    pub fn to_another(&self) -> Self {
        let source = self.source.as_ref().map(|source| source.to_string().into());
        Error { source, ..Error::new(self.kind, &self.attempted) }.with_code(self.code)
    }

    /// Trouble after which the call may succeed later: connection, disk, lock.
    pub fn transient(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Transient, attempted)
    }

    /// The data is to blame, and the same call fails again: a row that the database refuses, a row
    /// that cannot be read, a task that is gone.
    pub fn data(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Data, attempted)
    }

    /// The store cannot be used at all: made by a newer version, read-only, not ours.
    pub fn unusable(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Unusable, attempted)
    }

    /// There is no Resurgam where one should be: no file, no schema, no tables in it. Whoever only
    /// looks makes none, and what was removed under a node is not made anew.
    pub fn missing(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Missing, attempted)
    }

    /// Another node is the owner by now; nothing was written, and nothing ever will be.
    pub fn fenced(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Fenced, attempted)
    }

    /// The database is in an earlier state than it was: somebody restored a backup, or a replica
    /// took over that lagged behind. Nothing was written, and what was acknowledged may be gone.
    pub fn rewound(attempted: impl Into<String>) -> Self {
        Error::new(Kind::Rewound, attempted)
    }

    /// Keeps what caused it.
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// This trouble as part of something larger that was attempted.
    pub fn within(self, attempted: impl Into<String>) -> Self {
        let outer = Error::new(self.kind, attempted).with_code(self.code);
        outer.because(self)
    }

    /// This error under a code that says more.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// The code to look it up by.
    pub fn code(&self) -> Code {
        self.code
    }

    /// True when the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.kind == Kind::Transient
    }

    /// True when the data is to blame.
    pub fn is_data(&self) -> bool {
        self.kind == Kind::Data
    }

    /// True when the store cannot be used at all; also when there is none.
    pub fn is_unusable(&self) -> bool {
        matches!(self.kind, Kind::Unusable | Kind::Missing)
    }

    /// True when there is no Resurgam where one should be.
    pub fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// True when another node is the owner by now.
    pub fn is_fenced(&self) -> bool {
        self.kind == Kind::Fenced
    }

    /// True when the database went back in time: whatever is held in memory must be read anew.
    pub fn is_rewound(&self) -> bool {
        self.kind == Kind::Rewound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.attempted)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
