//! How old something is that was read from a copy.

use std::fmt;
use std::time::Duration;

use resurgam_core::duration::Human;

/// How old what was read from a standby may be.
///
/// ```
/// use std::time::Duration;
/// use resurgam_store::Staleness;
///
/// let read = Staleness { age: Some(Duration::from_millis(1_200)) };
/// assert_eq!(read.to_string(), "read from a standby: what is shown may be 1.2s old");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staleness {
    /// How long ago the last change was made that the standby has, by the clocks of both servers.
    /// It also grows while nothing is changed. `None` when the standby does not know.
    pub age: Option<Duration>,
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.age {
            Some(age) => {
                write!(f, "read from a standby: what is shown may be {} old", Human(age))
            }
            None => f.write_str(
                "read from a standby: nothing has changed there since it was started, so nobody \
                 knows how old what is shown is",
            ),
        }
    }
}
