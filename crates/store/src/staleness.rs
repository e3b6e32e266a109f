//! Why something that was read may not be the latest.

use std::fmt;
use std::time::Duration;

use resurgam_core::duration::Human;

/// Why what was read may not be the latest.
///
/// ```
/// use std::time::Duration;
/// use resurgam_store::Staleness;
///
/// let read = Staleness::Standby { age: Some(Duration::from_millis(1_200)) };
/// assert_eq!(read.to_string(), "read from a standby: what is shown may be 1.2s old");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// It was read from a standby.
    Standby {
        /// How long ago the last change was made that the standby has, by the clocks of both
        /// servers. It also grows while nothing is changed. `None` when the standby does not know.
        age: Option<Duration>,
    },
    /// It was read from a primary while other hosts of the URL were silent. One of them may have
    /// been promoted since.
    Unheard {
        /// The hosts that were silent, for people.
        hosts: Vec<String>,
    },
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Staleness::Standby { age: Some(age) } => {
                write!(f, "read from a standby: what is shown may be {} old", Human(*age))
            }
            Staleness::Standby { age: None } => f.write_str(
                "read from a standby: nothing has changed there since it was started, so nobody \
                 knows how old what is shown is",
            ),
            Staleness::Unheard { hosts } => write!(
                f,
                "no answer from {}: if that is the primary by now, what is shown is out of date",
                hosts.join(", ")
            ),
        }
    }
}
