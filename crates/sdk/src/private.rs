//! What the code of the macros refers to. Not part of the promise: people write against the
//! traits.
//!
//! Everything is reached through one path, so that an app needs no dependency of its own for what
//! a macro writes into it: not on serde, not on the core.

pub use resurgam_core::retry::RetryPolicy;
pub use resurgam_core::{Failure, FailureLabel, FailureType};
pub use serde;

pub use crate::{Activity, ActivityContext, ActivityOptions, Workflow, WorkflowContext};

/// What a function under a macro returns: a `Result`. The macro sees only how the type is spelled,
/// and it may be an alias; this finds the value in it.
#[diagnostic::on_unimplemented(
    message = "an activity or a workflow returns `Result<T, Failure>`, not `{Self}`",
    label = "expected `Result<{Self}, Failure>`",
    note = "it may fail, and says so with `Failure` or an error of your own"
)]
pub trait Returned {
    /// The value in it.
    type Value;
    /// The error in it.
    type Error;

    /// The `Result` itself.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Returned for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Result<T, E> {
        self
    }
}

/// An error that can become a [`Failure`], under a name of ours for the sake of the message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a `Failure`",
    label = "expected `Failure`, or an error that can become one",
    note = "implement `std::error::Error` for it, or `From<{Self}> for Failure`, or return \
            `Result<T, Failure>`"
)]
pub trait IntoFailure: Into<Failure> {}

impl<E: Into<Failure>> IntoFailure for E {}

/// Finds out whether an error is a type of failures, where its type is known: the method of the
/// trait that needs fewer references is taken, so `(&error).sort()` is `ByType` for those that are,
/// and `AnyError` for all others. This is what `From` cannot do.
pub trait SortByType {
    /// How it becomes a failure.
    fn sort(&self) -> ByType;
}

impl<E: FailureType> SortByType for E {
    fn sort(&self) -> ByType {
        ByType
    }
}

/// See [`SortByType`].
pub trait SortAnyError {
    /// How it becomes a failure.
    fn sort(&self) -> AnyError;
}

impl<E> SortAnyError for &E {
    fn sort(&self) -> AnyError {
        AnyError
    }
}

/// Errors that are types of failures.
pub struct ByType;

impl ByType {
    /// The failure of an error.
    pub fn failure<E: FailureType>(self, error: E) -> Failure {
        error.to_failure()
    }
}

/// Errors of which nothing is known.
pub struct AnyError;

impl AnyError {
    /// The failure of an error.
    pub fn failure<E: IntoFailure>(self, error: E) -> Failure {
        error.into()
    }
}
