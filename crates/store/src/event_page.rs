//! Which part of a history is read: one may be too long for a page or a request.

use resurgam_core::Seq;

/// A part of a history, as [`Inspect::event_page`](crate::Inspect::event_page) reads it.
///
/// ```
/// use resurgam_core::Seq;
/// use resurgam_store::EventPage;
///
/// // From the beginning, and what follows event 500.
/// let (first, next) = (EventPage::After(Seq::RUN), EventPage::After(Seq(500)));
/// // The end, and what came before event 1501.
/// let (last, older) = (EventPage::Before(None), EventPage::Before(Some(Seq(1_501))));
/// assert!(first != next && last != older);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPage {
    /// The first of those behind this place; [`Seq::RUN`] is before all of them.
    After(Seq),
    /// The last of those before this place, or the last of all.
    Before(Option<Seq>),
}
