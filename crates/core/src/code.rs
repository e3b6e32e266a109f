//! The codes of what people are told went wrong.
//!
//! A code is short, stands before its message, and never changes its meaning; the page that
//! `resurgam explain CODE` prints says how it comes about and what to do. The warnings about
//! policies have codes of their own (`retry/lint.rs`), and failures have their kinds.

use std::fmt;

use serde::{Serialize, Serializer};

/// Declares the codes once, so that the list of all of them cannot lack one.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What went wrong, for looking it up: `resurgam explain CODE`.
        ///
        /// ```
        /// use resurgam_core::Code;
        /// use resurgam_core::retry::RetryPolicy;
        ///
        /// let problems = RetryPolicy::DEFAULT.multiplier(-1.0).check().unwrap_err();
        /// assert_eq!(problems.iter().next().unwrap().code, Code::P4);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is printed.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Code::$name => stringify!($name),)*
                }
            }
        }
    };
}

codes! {
    /// A policy's text cannot be read.
    P1,
    /// A setting has a field that nobody knows.
    P2,
    /// A setting has another form than it should.
    P3,
    /// A setting has the right form and cannot work.
    P4,
    /// A program's text is not made of words, or its lines are indented otherwise than its blocks.
    I1,
    /// A program's words make no sentence.
    I2,
    /// A program uses a name that is not there, or twice.
    I3,
    /// A program calls something in a way that cannot work.
    I4,
    /// The brackets of a program's call make no policy.
    I5,
    /// A program's statement stands where it has no meaning.
    I6,
    /// A graph has not the form of one.
    G1,
    /// A graph's edges lead to no node, or a name stands for two.
    G2,
    /// A graph is not one tree of steps.
    G3,
    /// An input of a graph refers to what is not there.
    G4,
    /// A graph's policy, timeout or trigger cannot work.
    G5,
    /// A graph cannot be started with what was given.
    G6,
    /// Something in a graph has no effect.
    G7,
    /// A workflow's code changed under a run.
    B1,
    /// A workflow's code panicked.
    B2,
    /// A workflow awaits what is not durable.
    B3,
    /// What a run needs is missing, too large or cannot be read.
    B4,
    /// A run's workflow, or its version, is not registered.
    B5,
    /// An id is taken.
    E1,
    /// There is no instance or schedule of an id.
    E2,
    /// A workflow is not registered.
    E3,
    /// An instance is closed.
    E4,
    /// An instance is open.
    E5,
    /// A value is larger than allowed.
    E6,
    /// An instance has too many unread signals.
    E7,
    /// The engine has stopped.
    E8,
    /// A request was refused.
    E9,
    /// An instance ended with a failure.
    E10,
    /// An app was put together wrongly.
    E11,
    /// A database is in trouble that may pass.
    D1,
    /// A database cannot be used from here.
    D2,
    /// A database was made by a newer version.
    D3,
    /// A database belongs to another program.
    D4,
    /// A row cannot be written or read.
    D5,
    /// Another node owns a database by now.
    D6,
    /// A database went back in time.
    D7,
    /// A database has the form of an older version.
    D8,
    /// The command line, or a file it names, is not as it should be.
    C1,
    /// An action has no executable.
    C2,
    /// An id belongs to an instance of another file or input.
    C3,
    /// There is no database where one should be.
    C4,
    /// What an instance is to be started with does not fit the file.
    C5,
    /// The system refused something that it usually does not.
    C6,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
