//! What can go wrong for those who talk to the engine.

use std::fmt;

use resurgam_core::{Code, Failure};
use resurgam_store as store;

/// The result of a request to the engine. The second parameter lets it stand in for the standard
/// one where it is imported.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Trouble with a request. The text says what was attempted, on which id, and what to do.
///
/// ```
/// use resurgam_core::Failure;
/// use resurgam_worker::{Error, Result};
///
/// /// What can be done about it.
/// fn advice(error: &Error) -> &'static str {
///     match error {
///         e if e.is_already_exists() => "choose another id",
///         e if e.is_unknown() => "look at the id",
///         e if e.is_closed() || e.is_open() => "look at the instance",
///         e if e.is_too_large() => "send less",
///         e if e.is_invalid() => "change what is asked for",
///         e if e.is_full() || e.is_transient() => "send it again later",
///         e if e.is_stopped() => "begin another app",
///         e if e.failure().is_some() => "that is the workflow's answer",
///         _ => "report it",
///     }
/// }
///
/// let nobody: Result<()> = Err(Error::no_instance("signal paid to order-42"));
/// assert_eq!(advice(&nobody.unwrap_err()), "look at the id");
/// assert_eq!(advice(&Error::ended("wait for order-42")), "look at the instance");
/// assert_eq!(advice(&Error::engine_stopped("start order-42")), "begin another app");
/// let failed = Error::failed("order-42", Failure::new("no stock"));
/// assert_eq!(failed.to_string(), "order-42 failed: no stock");
/// assert_eq!(advice(&failed), "that is the workflow's answer");
///
/// // For whoever reads it at night: `resurgam explain E2` has a page.
/// assert_eq!(Error::no_instance("show order-42").code().name(), "E2");
/// let twice = Error::mistake("two activities are named charge");
/// assert_eq!(twice.to_string(), "two activities are named charge");
/// ```
pub struct Error {
    kind: Kind,
    attempted: String,
}

#[derive(Debug)]
enum Kind {
    AlreadyExists,
    Unknown,
    Unregistered,
    Closed,
    Open,
    Overtaken,
    TooLarge,
    Full,
    Stopped,
    Invalid,
    Rejected,
    Transient,
    Mistake,
    /// What another process said, with a code that says nothing more here.
    Told(Code),
    Store(store::Error),
    Failed(Box<Failure>),
}

impl Error {
    pub(crate) fn already_exists(id: &str) -> Self {
        let attempted = format!("start {id}: an instance of this id exists; choose another id");
        Error { kind: Kind::AlreadyExists, attempted }
    }

    pub(crate) fn exists(what: impl fmt::Display) -> Self {
        Error { kind: Kind::AlreadyExists, attempted: what.to_string() }
    }

    pub(crate) fn open(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Open, attempted: what.to_string() }
    }

    /// Somebody changed it between reading and writing.
    pub(crate) fn overtaken() -> Self {
        let attempted = "somebody else changed it meanwhile; try again".to_string();
        Error { kind: Kind::Overtaken, attempted }
    }

    /// True when somebody else changed what was to be changed, and was faster.
    #[doc(hidden)]
    pub fn is_overtaken(&self) -> bool {
        matches!(self.kind, Kind::Overtaken)
    }

    pub(crate) fn unknown(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Unknown, attempted: what.to_string() }
    }

    /// A workflow that was to be started is not registered.
    pub(crate) fn unregistered(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Unregistered, attempted: what.to_string() }
    }

    pub(crate) fn closed(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Closed, attempted: what.to_string() }
    }

    pub(crate) fn too_large(what: impl fmt::Display) -> Self {
        Error { kind: Kind::TooLarge, attempted: what.to_string() }
    }

    pub(crate) fn full(most: usize) -> Self {
        let attempted = format!("{most} are unread already; send it again when some are read");
        Error { kind: Kind::Full, attempted }
    }

    pub(crate) fn stopped(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Stopped, attempted: format!("{what}: the engine has stopped") }
    }

    /// Whoever asks has to ask for something else.
    ///
    /// ```
    /// use resurgam_worker::Error;
    ///
    /// let error = Error::invalid("retry six of order-42: \"six\" names no call");
    /// assert_eq!(error.to_string(), "retry six of order-42: \"six\" names no call");
    /// ```
    pub fn invalid(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Invalid, attempted: what.to_string() }
    }

    pub(crate) fn rejected(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Rejected, attempted: what.to_string() }
    }

    /// It may work when it is asked for again.
    pub(crate) fn transient(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Transient, attempted: what.to_string() }
    }

    /// This error, with what was attempted.
    pub(crate) fn within(self, what: &str) -> Self {
        Error { attempted: format!("{what}: {}", self.attempted), ..self }
    }

    /// There is no dead letter of the call that somebody names.
    #[doc(hidden)]
    pub fn no_letter(what: &str) -> Self {
        Error::unknown(format!("{what}: there is no dead letter of this call"))
    }

    /// A run was named that the instance does not have. For the crate `resurgam`.
    #[doc(hidden)]
    pub fn no_run(what: &str) -> Self {
        Error::unknown(what)
    }

    /// There is no such instance.
    pub fn no_instance(what: &str) -> Self {
        Error::unknown(format!("{what}: there is no instance of this id"))
    }

    /// An instance closed before what was wanted of it.
    pub fn ended(what: &str) -> Self {
        Error::closed(format!("{what}: the instance closed before"))
    }

    /// Nobody is there to answer any more.
    pub fn engine_stopped(what: &str) -> Self {
        Error::stopped(what)
    }

    /// A result that turned out to be a failure.
    pub fn failed(id: &str, failure: Failure) -> Self {
        Error {
            attempted: format!("{id} failed: {failure}"),
            kind: Kind::Failed(Box::new(failure)),
        }
    }

    /// What was put together cannot work together.
    pub fn mistake(what: impl fmt::Display) -> Self {
        Error { kind: Kind::Mistake, attempted: what.to_string() }
    }

    /// What another process answered with this code, in its words: the same error as there. For the
    /// command line, which asks servers.
    #[doc(hidden)]
    pub fn told(code: Code, what: impl fmt::Display) -> Self {
        let kind = match code {
            Code::E1 => Kind::AlreadyExists,
            Code::E2 => Kind::Unknown,
            Code::E3 => Kind::Unregistered,
            Code::E4 => Kind::Closed,
            Code::E5 => Kind::Open,
            Code::E6 => Kind::TooLarge,
            Code::E7 => Kind::Full,
            Code::E8 => Kind::Stopped,
            Code::E9 => Kind::Invalid,
            Code::E11 => Kind::Mistake,
            Code::D1 => Kind::Transient,
            code => Kind::Told(code),
        };
        Error { kind, attempted: what.to_string() }
    }

    /// Trouble of the store.
    pub fn store(attempted: impl fmt::Display, error: store::Error) -> Self {
        Error { attempted: format!("{attempted}: {error}"), kind: Kind::Store(error) }
    }

    /// The code to look it up by: `resurgam explain CODE`.
    pub fn code(&self) -> Code {
        match &self.kind {
            Kind::AlreadyExists => Code::E1,
            Kind::Unknown => Code::E2,
            Kind::Unregistered => Code::E3,
            Kind::Closed => Code::E4,
            Kind::Open => Code::E5,
            Kind::TooLarge => Code::E6,
            Kind::Full => Code::E7,
            Kind::Stopped => Code::E8,
            Kind::Invalid | Kind::Rejected => Code::E9,
            Kind::Failed(_) => Code::E10,
            Kind::Mistake => Code::E11,
            Kind::Told(code) => *code,
            Kind::Transient | Kind::Overtaken => Code::D1,
            Kind::Store(error) => error.code(),
        }
    }

    /// True when an instance or a schedule of the id is there already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self.kind, Kind::AlreadyExists)
    }

    /// True when there is no such instance, schedule, workflow or activity.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown | Kind::Unregistered)
    }

    /// True when the instance is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed)
    }

    /// True when the instance is open, and only a closed one would do.
    pub fn is_open(&self) -> bool {
        matches!(self.kind, Kind::Open)
    }

    /// True when a value is larger than allowed.
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, Kind::TooLarge)
    }

    /// True when an instance has too many signals that it has not read.
    pub fn is_full(&self) -> bool {
        matches!(self.kind, Kind::Full)
    }

    /// True when what was asked for makes no sense, whoever is asked and whenever: an id that no
    /// store can keep, a retry policy that cannot work, an argument that the workflow cannot read.
    pub fn is_invalid(&self) -> bool {
        matches!(self.kind, Kind::Invalid)
    }

    /// True when the engine has stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self.kind, Kind::Stopped)
    }

    /// True when the store is in trouble that may pass, a server that restarts for example: asking
    /// again later may help. A start or a signal may have happened all the same, so repeat it with
    /// its request id.
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            Kind::Transient => true,
            Kind::Store(error) => error.is_transient(),
            _ => false,
        }
    }

    /// The failure of the workflow, where that is what the result was.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.kind {
            Kind::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// Trouble of the store that says itself what was attempted.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Error { attempted: error.to_string(), kind: Kind::Store(error) }
    }
}

/// The text of the error behind its code: it is what people see when `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.code())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.attempted)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Store(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_another_process_told_is_the_same_error_here() {
        for code in [Code::E1, Code::E2, Code::E4, Code::E5, Code::E9, Code::D1, Code::D8] {
            let error = Error::told(code, "start order-1: no");
            assert_eq!((error.code(), error.to_string().as_str()), (code, "start order-1: no"));
        }
        assert!(Error::told(Code::E1, "").is_already_exists());
        assert!(Error::told(Code::D1, "").is_transient());
        assert!(!Error::told(Code::D8, "").is_transient());
    }
}
