//! Histories with holes, which only a damaged database has.

use resurgam_core::{Event, Seq};

use crate::{Error, Result};

/// Whether a history may have holes: people want to see what is there, a turn needs all of it.
///
/// ```
/// use resurgam_core::{Event, EventKind, Seq, Timestamp};
/// use resurgam_store::Gaps;
///
/// let what = || "read the history of order-1".to_string();
/// let third = Event {
///     seq: Seq(3),
///     at: Timestamp::EPOCH,
///     kind: EventKind::TimerFired { timer: Seq(2) },
/// };
/// let mut events = Vec::new();
/// let refused = Gaps::Refused.add(&mut events, third.clone(), what).unwrap_err();
/// assert!(refused.is_data() && refused.to_string().contains("event 1 is missing"));
/// Gaps::Shown.add(&mut events, third, what)?;
/// assert_eq!(events.len(), 1);
/// # Ok::<(), resurgam_store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// What is there is answered.
    Shown,
    /// A missing event is an error.
    Refused,
}

impl Gaps {
    /// Adds the next event of a history that is read. `what` says what is being attempted.
    pub fn add(
        self,
        events: &mut Vec<Event>,
        next: Event,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        let due = events.last().map_or(Seq::FIRST, |last| last.seq.next());
        if self == Gaps::Refused && next.seq != due {
            let what = what();
            return Err(Error::data(format!("{what}: event {due} is missing; restore a backup")));
        }
        events.push(next);
        Ok(())
    }
}
