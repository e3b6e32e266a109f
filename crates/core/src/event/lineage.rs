//! What a run has of the runs before it that were reset: events, and the identity of calls.
//!
//! What follows from the place of an event, such as the idempotency key of a call or the uid of a
//! child, follows from the run in which it happened. A run that was reset begins with a copy of
//! events of earlier runs, and says here which ones. A call that is made after the copy is a call
//! of the new run, unless a redrive has it made again: then its key is the one that it had.

use serde::{Deserialize, Serialize};

use crate::{Seq, Timestamp};

/// What a run has of the runs before it, because one of them was reset.
///
/// ```
/// use resurgam_core::Seq;
/// use resurgam_core::event::{Copied, Lineage};
///
/// let second = Lineage::default().before(1, Seq(6));
/// let third = second.before(2, Seq(9));
/// assert_eq!([5, 6, 8, 9].map(|seq| third.run_of(3, Seq(seq))), [1, 2, 2, 3]);
/// assert_eq!(second.before(2, Seq(4)).copied, [Copied { before: Seq(4), run: 1 }]);
/// assert!(second.before(2, Seq(2)).copied.is_empty()); // nothing but its own first event
///
/// // A redrive makes call 9 of run 3 again, as the same call.
/// let mut fourth = third.before(3, Seq(9));
/// fourth.keep(Seq(9), "charge", 3);
/// assert_eq!(fourth.run_of_call(4, Seq(9), "charge"), 3);
/// assert_eq!(fourth.run_of_call(4, Seq(9), "refund"), 4); // the code has changed meanwhile
/// assert_eq!(fourth.run_of_call(4, Seq(10), "charge"), 4);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Where the events behind the first one were copied from.
    pub copied: Vec<Copied>,
    /// Calls that have the idempotency keys of an earlier run because a redrive makes them again.
    pub kept: Vec<KeptKeys>,
    /// A call that begins later.
    pub delayed: Option<Delayed>,
}

/// Events of a run that were copied from one before it, because that was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The events before this place, and behind what is listed before it.
    pub before: Seq,
    /// The run that they happened in.
    pub run: u32,
}

/// Calls of one activity at consecutive places that have the idempotency keys of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKeys {
    /// The place of the first.
    pub from: Seq,
    /// The place behind the last.
    pub before: Seq,
    /// Their activity: a call of another one at such a place is a call of the new run.
    pub activity: String,
    /// The run that their keys follow from.
    pub run: u32,
}

/// A call that begins later, so that many that are redriven do not arrive at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delayed {
    /// The call.
    pub call: Seq,
    /// When its first attempt is due.
    pub until: Timestamp,
}

impl Lineage {
    /// The run in which the event of this place happened, where this one is run number `run`.
    pub fn run_of(&self, run: u32, seq: Seq) -> u32 {
        self.copied.iter().find(|copied| seq < copied.before).map_or(run, |copied| copied.run)
    }

    /// The run that the idempotency key of a call follows from, where this one is run number `run`.
    pub fn run_of_call(&self, run: u32, seq: Seq, activity: &str) -> u32 {
        let covers =
            |kept: &&KeptKeys| kept.activity == activity && kept.from <= seq && seq < kept.before;
        self.kept.iter().find(covers).map_or_else(|| self.run_of(run, seq), |kept| kept.run)
    }

    /// What a run has that begins with a copy of this one, number `run`, before this place.
    pub fn before(&self, run: u32, before: Seq) -> Lineage {
        if before <= Seq::FIRST.next() {
            return Lineage::default();
        }
        let last = Copied { before, run: self.run_of(run, Seq(before.0 - 1)) };
        let copied = self.copied.iter().copied().filter(|copied| copied.before < before);
        let kept = self.kept.iter().filter(|kept| kept.from < before);
        Lineage {
            copied: copied.chain([last]).collect(),
            kept: kept.map(|kept| kept.clone().cut_off(before)).collect(),
            delayed: None,
        }
    }

    /// The call of this place, which is made again, keeps the idempotency key of an earlier run.
    /// Calls are named in the order of their places.
    pub fn keep(&mut self, seq: Seq, activity: &str, run: u32) {
        match self.kept.last_mut() {
            Some(kept) if kept.before == seq && kept.activity == activity && kept.run == run => {
                kept.before = seq.next();
            }
            _ => self.kept.push(KeptKeys {
                from: seq,
                before: seq.next(),
                activity: activity.to_string(),
                run,
            }),
        }
    }

    /// When the first attempt of a call is due, where the call is made at this time.
    pub fn due(&self, seq: Seq, at: Timestamp) -> Timestamp {
        let delayed = self.delayed.filter(|delayed| delayed.call == seq);
        delayed.map_or(at, |delayed| delayed.until.max(at))
    }
}

impl KeptKeys {
    fn cut_off(self, before: Seq) -> Self {
        KeptKeys { before: self.before.min(before), ..self }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn calls_that_were_made_together_are_kept_as_one_entry() {
        let mut lineage = Lineage::default().before(1, Seq(4));
        for seq in 4..10_000 {
            lineage.keep(Seq(seq), "charge", 1);
        }
        lineage.keep(Seq(10_001), "charge", 1);
        lineage.keep(Seq(10_002), "notify", 1);
        assert_eq!(lineage.kept.len(), 3);
        assert_eq!(lineage.run_of_call(2, Seq(9_999), "charge"), 1);
        assert_eq!(lineage.run_of_call(2, Seq(10_000), "charge"), 2);
        assert_eq!(lineage.run_of_call(2, Seq(10_002), "notify"), 1);
    }

    #[test]
    fn a_key_that_was_kept_stays_with_its_call_through_further_resets() {
        let mut second = Lineage::default().before(1, Seq(5));
        second.keep(Seq(5), "charge", 1);
        second.keep(Seq(6), "charge", 1);
        second.delayed = Some(Delayed { call: Seq(5), until: Timestamp::from_millis(9) });
        // The third run has call 5 from the second, and makes call 6 itself.
        let third = second.before(2, Seq(6));
        assert_eq!(third.run_of_call(3, Seq(5), "charge"), 1);
        assert_eq!(third.run_of_call(3, Seq(6), "charge"), 3);
        assert_eq!(third.delayed, None);
        assert_eq!(third.before(3, Seq(5)).kept, []);
    }

    #[test]
    fn a_call_that_is_delayed_is_never_due_before_it_is_made() {
        let until = Timestamp::from_millis(1_000);
        let lineage =
            Lineage { delayed: Some(Delayed { call: Seq(5), until }), ..Lineage::default() };
        let (early, late) = (Timestamp::from_millis(10), Timestamp::from_millis(2_000));
        assert_eq!([early, late].map(|at| lineage.due(Seq(5), at)), [until, late]);
        assert_eq!(lineage.due(Seq(6), early), early);
    }
}
