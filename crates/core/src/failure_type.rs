//! Failures as the user's own types.
//!
//! A [`Failure`] is data: it is stored, matched by rules and handed to the workflow, today or after
//! a restart. A type that implements [`FailureType`] says what it is called there, and its value
//! travels along as the failure's details. Turning it back is deserialization, and may fail: the
//! type may have changed since, or the failure may come from somewhere else.
//!
//! Rust has no way for `?` to treat such a type differently from any other error, because
//! `From<E: Error> for Failure` cannot be specialised. So the type is kept where it is named: in
//! the return type of a function under a macro, or with `.typed()?` of the SDK.

use std::error::Error;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Failure, Kind};

/// An error of the user's that a workflow gets back as what it was.
///
/// `#[derive(FailureType)]` writes this; by hand it looks so:
///
/// ```
/// use resurgam_core::{Failure, FailureLabel, FailureType};
/// use serde::{Deserialize, Serialize};
/// use std::fmt;
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct CardDeclined {
///     reason: String,
/// }
///
/// impl fmt::Display for CardDeclined {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "the bank declined the card: {}", self.reason)
///     }
/// }
///
/// impl std::error::Error for CardDeclined {}
///
/// impl FailureType for CardDeclined {
///     const NAMES: &'static [&'static str] = &["CardDeclined"];
///
///     fn label(&self) -> FailureLabel {
///         FailureLabel::new("CardDeclined").parents(&["PaymentError"]).code("402").terminal()
///     }
/// }
///
/// let failure: Failure = CardDeclined { reason: "no funds".to_string() }.to_failure();
/// assert_eq!(failure.to_string(), "CardDeclined: the bank declined the card: no funds");
/// assert_eq!(failure.mro, ["CardDeclined", "PaymentError"]);
/// assert!(failure.is_terminal() && failure.is::<CardDeclined>());
/// let back = failure.as_error::<CardDeclined>();
/// assert_eq!(back, Some(CardDeclined { reason: "no funds".to_string() }));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of failures",
    note = "put #[derive(FailureType)] on it, beside serde's Serialize and Deserialize, and \
            implement std::error::Error for it"
)]
pub trait FailureType: Error + Serialize + DeserializeOwned + 'static {
    /// What its values are called, and were called before: a failure of another type is not one
    /// of them.
    const NAMES: &'static [&'static str];
    /// A name that all its values descend from: that of an enum, whose variants are the types.
    const FAMILY: Option<&'static str> = None;

    /// What rules know this value by.
    fn label(&self) -> FailureLabel;

    /// The failure that is recorded: with the type, and the value as details.
    fn to_failure(&self) -> Failure {
        let FailureLabel { type_name, parents, code, retryable, retry_after } = self.label();
        let mut failure = Failure::of_type(type_name, self.to_string());
        if !parents.is_empty() {
            failure.mro = [type_name].iter().chain(parents).map(ToString::to_string).collect();
        }
        failure.code = code;
        failure.retryable = retryable;
        failure.retry_after = retry_after.map(crate::failure::whole_millis);
        if retry_after.is_some() {
            failure.kind = Kind::Throttled;
        }
        failure.cause = crate::failure::causes_of(self);
        match serde_json::to_value(self) {
            Ok(details) => failure.details = Some(details),
            // The failure is what happened; that it cannot be told in full is no second one.
            Err(error) => failure.add_last_cause(
                Failure::new(format!("write the details of {type_name}: {error}"))
                    .with_type("BadDetails"),
            ),
        }
        failure
    }
}

/// What rules know a failure by.
///
/// ```
/// use resurgam_core::FailureLabel;
/// use std::time::Duration;
///
/// // Tried again whatever the rules say, and not before three seconds have passed.
/// let busy = FailureLabel::new("Busy").retryable().retry_after(Duration::from_secs(3));
/// assert_ne!(busy, FailureLabel::new("Busy").terminal());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureLabel {
    type_name: &'static str,
    parents: &'static [&'static str],
    code: Option<String>,
    retryable: Option<bool>,
    retry_after: Option<Duration>,
}

impl FailureLabel {
    /// A label with a type, and nothing else: the policy decides.
    pub const fn new(type_name: &'static str) -> Self {
        FailureLabel { type_name, parents: &[], code: None, retryable: None, retry_after: None }
    }

    /// The types it descends from, nearest first.
    pub const fn parents(mut self, parents: &'static [&'static str]) -> Self {
        self.parents = parents;
        self
    }

    /// A code that rules match on.
    pub fn code(mut self, code: impl ToString) -> Self {
        self.code = Some(code.to_string());
        self
    }

    /// Never tried again.
    pub const fn terminal(mut self) -> Self {
        self.retryable = Some(false);
        self
    }

    /// Tried again whatever the rules say about its type, within the limits.
    pub const fn retryable(mut self) -> Self {
        self.retryable = Some(true);
        self
    }

    /// When the other side wants to be asked again, where it says so.
    pub fn retry_after(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.retry_after = delay.into();
        self
    }
}

impl Failure {
    /// True when its type is one of those of `E`. Whether its details can be read as one, only
    /// reading tells.
    pub fn is<E: FailureType>(&self) -> bool {
        let named = self.type_name.as_deref().is_some_and(|name| E::NAMES.contains(&name));
        named && E::FAMILY.is_none_or(|family| self.mro.iter().any(|base| base == family))
    }

    /// The error that the failure was made from.
    ///
    /// `None` when it is of another type, and also when its details cannot be read as an `E`: the
    /// type has changed since it was recorded, or the failure was made by hand. [`Failure::is`]
    /// tells the two apart. Only the failure itself is looked at, not its causes.
    pub fn as_error<E: FailureType>(&self) -> Option<E> {
        let details = self.details.as_ref().filter(|_| self.is::<E>())?;
        E::deserialize(details).ok()
    }

    /// The error that the failure was made from, or the failure itself where
    /// [`Failure::as_error`] has none.
    ///
    /// ```
    /// # use resurgam_core::{Failure, FailureLabel, FailureType};
    /// # #[derive(Debug, serde::Serialize, serde::Deserialize)]
    /// # struct CardDeclined;
    /// # impl std::fmt::Display for CardDeclined {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    /// #         f.write_str("no")
    /// #     }
    /// # }
    /// # impl std::error::Error for CardDeclined {}
    /// # impl FailureType for CardDeclined {
    /// #     const NAMES: &'static [&'static str] = &["CardDeclined"];
    /// #     fn label(&self) -> FailureLabel { FailureLabel::new("CardDeclined") }
    /// # }
    /// fn pay_later(charged: Result<u64, Failure>) -> Result<u64, Failure> {
    ///     match charged.map_err(Failure::downcast::<CardDeclined>) {
    ///         Ok(cents) => Ok(cents),
    ///         Err(Ok(CardDeclined)) => Ok(0),
    ///         Err(Err(failure)) => Err(failure),
    ///     }
    /// }
    /// assert_eq!(pay_later(Err(CardDeclined.to_failure())), Ok(0));
    /// assert_eq!(pay_later(Err(Failure::new("down"))), Err(Failure::new("down")));
    /// ```
    pub fn downcast<E: FailureType>(self) -> Result<E, Failure> {
        self.as_error().ok_or(self)
    }

    fn add_last_cause(&mut self, last: Failure) {
        match &mut self.cause {
            Some(cause) => cause.add_last_cause(last),
            none => *none = Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::collections::BTreeMap;
    use std::fmt;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Formless(BTreeMap<(u8, u8), u8>);

    impl fmt::Display for Formless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no form")
        }
    }

    impl Error for Formless {}

    impl FailureType for Formless {
        const NAMES: &'static [&'static str] = &["Formless"];

        fn label(&self) -> FailureLabel {
            FailureLabel::new("Formless").terminal().code(7)
        }
    }

    #[test]
    fn a_value_without_a_json_form_is_still_the_failure_that_it_is() {
        let failure = Formless([((1, 2), 3)].into()).to_failure();
        assert_eq!(failure.to_string(), "Formless: no form");
        assert!(failure.is_terminal() && failure.is::<Formless>());
        assert_eq!((failure.code.as_deref(), failure.details.as_ref()), (Some("7"), None));
        let cause = failure.cause.as_ref().unwrap();
        assert_eq!(cause.type_name.as_deref(), Some("BadDetails"));
        assert!(failure.as_error::<Formless>().is_none());
    }
}
