//! `.typed()?`: an error goes as what it is.

use resurgam_core::{Failure, FailureType};

/// Turns an error that is a [`FailureType`] into its failure, in a function that returns `Failure`.
/// A plain `?` treats it there as any other error and keeps its short Rust name only.
///
/// ```
/// use resurgam_core::{Failure, FailureLabel, FailureType};
/// use resurgam_sdk::Typed;
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Declined(String);
/// # impl std::fmt::Display for Declined {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         f.write_str(&self.0)
/// #     }
/// # }
/// # impl std::error::Error for Declined {}
/// # impl FailureType for Declined {
/// #     const NAMES: &'static [&'static str] = &["Declined"];
/// #     fn label(&self) -> FailureLabel { FailureLabel::new("Declined") }
/// # }
///
/// fn ask(bank: Result<u64, Declined>) -> Result<u64, Failure> {
///     Ok(bank.typed()?)
/// }
/// let failure = ask(Err(Declined("no funds".to_string()))).unwrap_err();
/// assert_eq!(failure.as_error(), Some(Declined("no funds".to_string())));
/// ```
pub trait Typed<T> {
    /// The result, with its error as a failure of the error's type.
    fn typed(self) -> Result<T, Failure>;
}

impl<T, E: FailureType> Typed<T> for Result<T, E> {
    fn typed(self) -> Result<T, Failure> {
        self.map_err(|error| error.to_failure())
    }
}
