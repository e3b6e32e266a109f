//! `.terminal()?`: never again.

use resurgam_core::Failure;

/// Turns an error into a failure that is never tried again. Without it, `?` leaves the decision to
/// the policy.
///
/// ```
/// use resurgam_core::Failure;
/// use resurgam_sdk::Terminal;
///
/// fn amount(text: &str) -> Result<u64, Failure> {
///     Ok(text.parse::<u64>().terminal()?)
/// }
/// assert!(amount("many").unwrap_err().is_terminal());
/// ```
pub trait Terminal<T> {
    /// The result, with an error that is never tried again.
    fn terminal(self) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Terminal<T> for Result<T, E> {
    fn terminal(self) -> Result<T, Failure> {
        self.map_err(|error| error.into().into_terminal())
    }
}
