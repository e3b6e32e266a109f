//! Numbers for people.

use std::fmt;

/// Prints a number in its short form: one that is very large or very small with an exponent, and
/// not with hundreds of zeros.
///
/// ```
/// use resurgam_core::Short;
///
/// assert_eq!(Short(1.5).to_string(), "1.5");
/// assert_eq!(Short(3.0).to_string(), "3");
/// assert_eq!(Short(1e308).to_string(), "1e308");
/// assert_eq!(Short(-2.5e-7).to_string(), "-2.5e-7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Short(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        match size != 0.0 && size.is_finite() && !(1e-4..1e16).contains(&size) {
            true => write!(f, "{:e}", self.0),
            false => write!(f, "{}", self.0),
        }
    }
}
