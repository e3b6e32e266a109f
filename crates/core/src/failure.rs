//! The record of an attempt that did not succeed.
//!
//! A failure is data, not a Rust error: it is written to the store, compared with the rules of a
//! policy, handed to the workflow on replay and shown to operators. That is why it does not
//! implement `std::error::Error`; in exchange, `?` turns any error into one. A type of the user's
//! that is to come back as what it was: `failure_type.rs`.

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What kind of trouble ended an attempt.
///
/// ```
/// use resurgam_core::{Failure, Kind};
///
/// let failure = Failure::of_kind(Kind::Timeout, "not done within 5s");
/// assert_eq!(failure.kind.name(), "timeout");
/// assert_eq!(failure.to_string(), "timeout: not done within 5s");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The activity returned an error.
    #[default]
    Error,
    /// The attempt ran longer than its attempt timeout.
    Timeout,
    /// No heartbeat came within the heartbeat timeout.
    HeartbeatTimeout,
    /// No worker took the attempt within the queue timeout.
    QueueTimeout,
    /// The whole call ran longer than its total timeout.
    TotalTimeout,
    /// The activity panicked.
    Panic,
    /// The process that ran the attempt died.
    WorkerLost,
    /// The other side asked us to slow down.
    Throttled,
    /// The call was cancelled. Not a failure, and never retried.
    Cancelled,
}

impl Kind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [Kind; 9] = [
        Kind::Error,
        Kind::Timeout,
        Kind::HeartbeatTimeout,
        Kind::QueueTimeout,
        Kind::TotalTimeout,
        Kind::Panic,
        Kind::WorkerLost,
        Kind::Throttled,
        Kind::Cancelled,
    ];

    /// The name used in policies, records and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Timeout => "timeout",
            Kind::HeartbeatTimeout => "heartbeat_timeout",
            Kind::QueueTimeout => "queue_timeout",
            Kind::TotalTimeout => "total_timeout",
            Kind::Panic => "panic",
            Kind::WorkerLost => "worker_lost",
            Kind::Throttled => "throttled",
            Kind::Cancelled => "cancelled",
        }
    }
}

/// Recorded data about an attempt without success.
///
/// ```
/// use resurgam_core::Failure;
///
/// fn parse(port: &str) -> Result<u16, Failure> {
///     Ok(port.parse()?) // any error becomes a failure that the policy decides about
/// }
/// let failure = parse("eighty").unwrap_err();
/// assert_eq!(failure.type_name.as_deref(), Some("ParseIntError"));
///
/// // `Error` alone would say nothing: such a type is recorded with its path. Rules may name both.
/// let failure = Failure::from(std::io::Error::other("the disk is full"));
/// assert_eq!(failure.type_name.as_deref(), Some("std::io::Error"));
/// assert!(failure.has_type("std::io::Error", false) && failure.has_type("Error", false));
///
/// let failure = Failure::terminal("no such account").with_type("AccountUnknown");
/// assert!(failure.is_terminal());
/// ```
///
/// It is one pointer wide, so that `Result<T, Failure>` costs nothing; its fields are those of
/// [`FailureRecord`].
///
/// What an activity can say, and what its workflow reads:
///
/// ```
/// use resurgam_core::{Failure, Kind};
/// use std::time::Duration;
///
/// // The policy decides, by the type and the code if rules name them.
/// let plain = Failure::new("no answer");
/// assert_eq!((plain.retryable, plain.is_terminal()), (None, false));
/// let typed = Failure::of_type("Overloaded", "come back later").with_code("503");
/// assert!(typed.has_type("Overloaded", false));
///
/// // The failure decides.
/// assert_eq!(Failure::retryable("a lock was taken").retryable, Some(true));
/// assert!(Failure::new("no such account").into_terminal().is_terminal());
/// assert!(Failure::prune().is_pruned());
///
/// // It is none: the process that had the attempt ends.
/// assert!(Failure::interrupted().is_interrupted());
/// assert!(Failure::never_began().is_never_begun());
/// assert!(Failure::left_running().is_left_running());
///
/// // It has a wish.
/// let busy = Failure::retry_after(Duration::from_secs(30), "429");
/// assert_eq!((busy.kind, busy.retry_after), (Kind::Throttled, Some(Duration::from_secs(30))));
/// assert_eq!(Failure::snooze(Duration::from_secs(5)).snooze, Some(Duration::from_secs(5)));
///
/// // It brings data, and what caused it.
/// let declined = Failure::terminal("declined")
///     .with_details(serde_json::json!({"limit": 100}))
///     .caused_by(Failure::of_type("BankError", "51"));
/// assert_eq!(declined.details.as_ref().unwrap()["limit"], 100);
/// assert_eq!(declined.cause.as_ref().unwrap().to_string(), "BankError: 51");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failure(Box<FailureRecord>);

/// The fields of a [`Failure`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailureRecord {
    /// What kind of trouble it was.
    pub kind: Kind,
    /// The name that policies match on, such as `CardDeclined`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The type and the types it descends from, nearest first. Languages with class hierarchies
    /// fill it in, so that a rule for `ConnectionError` also matches `ConnectionResetError`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mro: Vec<String>,
    /// A code from the other side: an HTTP status, an SQLSTATE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// What the failure itself says about being tried again; `None` leaves it to the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The other side's wish when to be asked again (`Retry-After`).
    #[serde(rename = "retry_after_ms", with = "millis", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Set by [`Failure::snooze`]: run me later, this was no failure.
    #[serde(rename = "snooze_ms", with = "millis", skip_serializing_if = "Option::is_none")]
    pub snooze: Option<Duration>,
    /// Anything the activity wants to tell its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    /// What caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Failure>,
    /// How many attempts were made, on the failure that a workflow gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Why retrying stopped, on the failure that a workflow gets: the name of a
    /// [`Reason`](crate::retry::Reason).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The type of a failure made by [`Failure::prune`].
const PRUNED: &str = "Pruned";

/// The types of what is no failure of an attempt, but the end of its process.
const INTERRUPTED: &str = "Interrupted";
const NEVER_BEGAN: &str = "NeverBegan";
const LEFT_RUNNING: &str = "LeftRunning";

/// How many causes of an error are kept; a chain that is longer (or circular) is cut.
const CAUSES: usize = 16;

impl Failure {
    /// A failure that the policy decides about.
    pub fn new(message: impl Into<String>) -> Self {
        Failure(Box::new(FailureRecord { message: message.into(), ..FailureRecord::default() }))
    }

    /// A failure of a kind, as the engine records timeouts, panics and lost workers.
    pub fn of_kind(kind: Kind, message: impl Into<String>) -> Self {
        let mut failure = Failure::new(message);
        failure.kind = kind;
        failure
    }

    /// A failure with a type for rules to match on.
    pub fn of_type(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        Failure::new(message).with_type(type_name)
    }

    /// A failure that says it may be tried again, whatever the rules of the policy say about its
    /// type. Limits on attempts and time still hold.
    pub fn retryable(message: impl Into<String>) -> Self {
        let mut failure = Failure::new(message);
        failure.retryable = Some(true);
        failure
    }

    /// A failure that is never tried again.
    pub fn terminal(message: impl Into<String>) -> Self {
        Failure::new(message).into_terminal()
    }

    /// A failure after which the other side wants to be asked again in `delay`.
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Self {
        let mut failure = Failure::of_kind(Kind::Throttled, message);
        failure.retry_after = Some(whole_millis(delay));
        failure
    }

    /// Not a failure: asks to be run again in `delay`, without being counted.
    pub fn snooze(delay: Duration) -> Self {
        let mut failure = Failure::new("snoozed");
        failure.snooze = Some(whole_millis(delay));
        failure
    }

    /// Ends this branch of a graph without failing it; elsewhere a terminal failure of type
    /// `Pruned`.
    pub fn prune() -> Self {
        Failure::terminal("pruned").with_type(PRUNED)
    }

    /// Not a failure: the process that ran the attempt ends, and cut it short. For those who hand
    /// attempts on to processes of others.
    pub fn interrupted() -> Self {
        Failure::of_kind(Kind::WorkerLost, "its worker ended, and cut it short")
            .with_type(INTERRUPTED)
    }

    /// Not a failure: the process that was to run the attempt ends, and never began it.
    pub fn never_began() -> Self {
        Failure::of_kind(Kind::WorkerLost, "its worker ended, and had not begun it")
            .with_type(NEVER_BEGAN)
    }

    /// Not a failure: the process that waited for the attempt ends, and whoever runs it goes on.
    pub fn left_running() -> Self {
        Failure::of_kind(Kind::WorkerLost, "it goes on, and is waited for elsewhere")
            .with_type(LEFT_RUNNING)
    }

    /// True when it says that an attempt goes on, and is waited for elsewhere from now on.
    pub fn is_left_running(&self) -> bool {
        self.kind == Kind::WorkerLost && self.type_name.as_deref() == Some(LEFT_RUNNING)
    }

    /// True when it says that an attempt was cut short by the end of its process.
    pub fn is_interrupted(&self) -> bool {
        self.kind == Kind::WorkerLost && self.type_name.as_deref() == Some(INTERRUPTED)
    }

    /// True when it says that an attempt never began.
    pub fn is_never_begun(&self) -> bool {
        self.kind == Kind::WorkerLost && self.type_name.as_deref() == Some(NEVER_BEGAN)
    }

    /// Sets the type that rules match on.
    pub fn with_type(mut self, type_name: impl Into<String>) -> Self {
        self.type_name = Some(type_name.into());
        self
    }

    /// Sets the code that rules match on.
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Attaches data for the workflow.
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Keeps another failure as the cause of this one.
    pub fn caused_by(mut self, cause: Failure) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Marks it as never to be tried again.
    pub fn into_terminal(mut self) -> Self {
        self.retryable = Some(false);
        self
    }

    /// True when the failure itself forbids another attempt.
    pub fn is_terminal(&self) -> bool {
        self.retryable == Some(false)
    }

    /// True when it ends a branch of a graph, see [`Failure::prune`].
    pub fn is_pruned(&self) -> bool {
        self.is_terminal() && self.type_name.as_deref() == Some(PRUNED)
    }

    /// True when it is this failure, or was caused by it: kind, type, code, message and details are
    /// the same. What the engine notes on the failure that a workflow gets does not count.
    ///
    /// ```
    /// use resurgam_core::Failure;
    ///
    /// let down = Failure::of_type("BankDown", "no answer");
    /// let mut given = down.clone();
    /// given.attempts = Some(3);
    /// assert!(given.comes_from(&down));
    /// assert!(Failure::new("order 42 is not paid").caused_by(given).comes_from(&down));
    /// assert!(!Failure::new("no answer").comes_from(&down));
    /// ```
    pub fn comes_from(&self, other: &Failure) -> bool {
        let is_same = |it: &Failure| {
            (it.kind, &it.type_name, &it.code, &it.message, &it.details)
                == (other.kind, &other.type_name, &other.code, &other.message, &other.details)
        };
        std::iter::successors(Some(self), |it| it.cause.as_ref()).any(is_same)
    }

    /// True when the failure's type is `name`, or, with `subclass`, when it descends from `name`.
    /// The empty name stands for a failure that has no type. A type that was recorded with its path
    /// (`std::io::Error`) also answers to the end of the path (`io::Error`, `Error`).
    pub fn has_type(&self, name: &str, subclass: bool) -> bool {
        let own = self.type_name.as_deref().or(self.mro.first().map(String::as_str));
        is_called(own.unwrap_or(""), name)
            || (subclass && self.mro.iter().any(|base| is_called(base, name)))
    }
}

impl Deref for Failure {
    type Target = FailureRecord;

    fn deref(&self) -> &FailureRecord {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut FailureRecord {
        &mut self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.type_name, self.kind) {
            (Some(type_name), _) => write!(f, "{type_name}: {}", self.message),
            (None, Kind::Error) => f.write_str(&self.message),
            (None, kind) => write!(f, "{}: {}", kind.name(), self.message),
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut failure =
            Failure::of_type(name_of_type(std::any::type_name::<E>()), error.to_string());
        failure.cause = causes_of(&error);
        failure
    }
}

/// The causes of an error as failures.
pub(crate) fn causes_of(error: &(impl Error + ?Sized)) -> Option<Failure> {
    causes(error.source(), CAUSES)
}

fn causes(error: Option<&(dyn Error + 'static)>, left: usize) -> Option<Failure> {
    let error = error.filter(|_| left > 0)?;
    let mut failure = Failure::new(error.to_string());
    failure.cause = causes(error.source(), left - 1);
    Some(failure)
}

/// What rules know a Rust type by: its last name, `ParseIntError`, without type parameters. `Error`
/// alone would be the name of half of all error types, so those are known by their path.
///
/// The path is written as people import it: without the module `error`, where most crates define
/// the type and which they keep private, and with `std` for `core` and `alloc`, between which the
/// standard library moves its types.
fn name_of_type(full: &str) -> String {
    let path = full.split('<').next().unwrap_or(full);
    // Types inside functions have segments such as `{{closure}}`.
    let mut segments: Vec<&str> = path.split("::").filter(|it| !it.starts_with('{')).collect();
    let last = segments.pop().unwrap_or(path);
    if last != "Error" {
        return last.to_string();
    }
    if segments.len() > 1 && segments.last() == Some(&"error") {
        segments.pop();
    }
    if let Some(first @ (&mut "core" | &mut "alloc")) = segments.first_mut() {
        *first = "std";
    }
    segments.push(last);
    segments.join("::")
}

/// True when `name` is the recorded name of a type, or the end of its path.
fn is_called(recorded: &str, name: &str) -> bool {
    recorded.strip_suffix(name).is_some_and(|path| path.is_empty() || path.ends_with("::"))
}

/// What is left of a time when it is stored: a failure is the same before and after that.
pub(crate) fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Optional durations as whole milliseconds, the unit of everything that is stored.
mod millis {
    use super::*;

    pub(super) fn serialize<S: serde::Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn any_error_becomes_a_failure_with_its_short_type_and_its_causes() {
        #[derive(Debug)]
        struct GatewayError(std::num::ParseIntError);
        impl fmt::Display for GatewayError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("gateway answered nonsense")
            }
        }
        impl Error for GatewayError {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let failure = Failure::from(GatewayError("x".parse::<u8>().unwrap_err()));
        assert_eq!(failure.to_string(), "GatewayError: gateway answered nonsense");
        assert_eq!(failure.cause.as_ref().unwrap().message, "invalid digit found in string");
        assert_eq!(failure.retryable, None);
    }

    #[test]
    fn a_type_that_is_only_called_error_is_known_by_its_path() {
        let names = [
            ("std::io::error::Error", "std::io::Error"),
            ("core::io::error::Error", "std::io::Error"),
            ("core::fmt::Error", "std::fmt::Error"),
            ("serde_json::error::Error", "serde_json::Error"),
            ("shop::payments::Error", "shop::payments::Error"),
            ("shop::charge::{{closure}}::Error", "shop::charge::Error"),
            ("error::Error", "error::Error"),
            ("Error", "Error"),
            ("core::num::error::ParseIntError", "ParseIntError"),
            ("shop::Wrapped<std::io::error::Error>", "Wrapped"),
        ];
        for (full, expected) in names {
            assert_eq!(name_of_type(full), expected, "{full}");
        }
        let failure = Failure::from(std::io::Error::other("full"));
        assert_eq!(failure.to_string(), "std::io::Error: full");
    }

    #[test]
    fn a_type_answers_to_its_path_and_to_every_end_of_it() {
        let failure = Failure::from(std::io::Error::other("full"));
        for name in ["Error", "io::Error", "std::io::Error"] {
            assert!(failure.has_type(name, false), "{name}");
        }
        for name in ["", "rror", "o::Error", "std", "fmt::Error", "my::std::io::Error"] {
            assert!(!failure.has_type(name, true), "{name}");
        }
        let mut child = Failure::of_type("Timeout", "late");
        child.mro = vec!["Timeout".into(), "std::io::Error".into()];
        assert!(child.has_type("Error", true) && !child.has_type("Error", false));
        assert!(!Failure::of_type("TimeoutError", "late").has_type("Error", true));
    }

    #[test]
    fn a_failure_survives_being_stored_and_unknown_fields_are_ignored() {
        let failure = Failure::retry_after(Duration::from_secs(3), "slow down")
            .with_code("429")
            .with_details(serde_json::json!({"limit": 10}))
            .caused_by(Failure::of_type("Quota", "used up"));
        let stored = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&stored).unwrap(), failure);
        let newer = r#"{"message":"x","colour":"blue"}"#;
        assert_eq!(serde_json::from_str::<Failure>(newer).unwrap(), Failure::new("x"));
    }

    #[test]
    fn a_time_is_the_same_before_and_after_it_was_stored() {
        for time in [Duration::from_micros(1_500), Duration::MAX, Duration::ZERO] {
            for failure in [Failure::retry_after(time, "busy"), Failure::snooze(time)] {
                let stored = serde_json::to_string(&failure).unwrap();
                assert_eq!(serde_json::from_str::<Failure>(&stored).unwrap(), failure);
            }
        }
    }

    #[test]
    fn the_hierarchy_matches_only_with_subclass() {
        let mut failure = Failure::of_type("ConnectionResetError", "reset");
        failure.mro = vec!["ConnectionResetError".into(), "ConnectionError".into()];
        assert!(failure.has_type("ConnectionResetError", false));
        assert!(failure.has_type("ConnectionError", true));
        assert!(!failure.has_type("ConnectionError", false));
        assert!(Failure::new("plain").has_type("", false));
    }
}
