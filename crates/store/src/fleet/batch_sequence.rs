//! The numbered batches of a commit lane, and what became of one whose answer was lost.
//!
//! A lane commits one batch at a time. Its row in the database has the number of its last batch,
//! and every transaction first raises that number by one, from the one that the lane expects.
//!
//! | the database's number is | what that means |
//! |---|---|
//! | the lane's | nothing is in doubt |
//! | one more | the batch in doubt is in |
//! | two more | it is not, and never will be: somebody else raised the number past it |
//! | anything else, or none | the database went back in time |
//!
//! Who does not know what became of a batch forestalls it: raises the number by two, from the one
//! that the batch expects too. Should the server still be busy with the batch, this waits for it;
//! and when it got through, the batch cannot any more, however much of it still lies in a buffer
//! somewhere.
//!
//! Several lanes of one process may find the same rewind. One of them tells it, so that everything
//! in memory is read anew; a lane that comes later goes on from what it finds. For that the process
//! counts how often a rewind was told, and each lane knows how many of those it has heard of.

use std::fmt;
use std::time::Duration;

use crate::Error;

/// Where a lane is: the number of its last batch, and whether the fate of the next one is unknown.
///
/// The caller does the I/O and says what came of it. [`looked`](Self::looked) comes first on every
/// new connection, [`sent`](Self::sent) before a batch leaves. A batch that was sent and not
/// answered, also because whoever sent it stopped waiting, is in doubt: nothing else may be sent
/// until [`forestalled`](Self::forestalled) says what became of it.
///
/// ```
/// use std::time::Duration;
/// use resurgam_store::fleet::{BatchFate, BatchSequence, LaneRow, Rewound};
///
/// let (now, mut lane) = (Duration::ZERO, BatchSequence::default());
/// assert_eq!(lane.looked(now, None, 0), Ok(LaneRow::Missing));
/// lane.row_made(now);
/// // The answer to the first batch is lost. The number was raised by two: it will never be in.
/// lane.sent();
/// assert_eq!(lane.forestalled(now, Some(2)), Ok(BatchFate::NeverWritten));
/// // The second one is answered.
/// lane.sent();
/// lane.committed(now);
/// assert_eq!((lane.last(), lane.is_in_doubt()), (3, false));
/// // A backup from before that is restored.
/// assert_eq!(lane.looked(now, Some(2), 0), Err(Rewound { last: 3, found: Some(2) }));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSequence {
    last: i64,
    in_doubt: bool,
    /// When the lane last heard of its row; `None` before it has one.
    heard: Option<Duration>,
    /// How many rewinds this lane has heard of.
    rewinds: u64,
}

/// What became of a batch whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFate {
    /// It is in.
    Written,
    /// It is not, and never will be.
    NeverWritten,
}

/// What a look at the row of a lane found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneRow {
    /// It is where the lane left it.
    InPlace,
    /// The lane has no row yet, or was idle for so long that its row was removed: one is to be
    /// made, with the number [`BatchSequence::last`], and then [`BatchSequence::row_made`].
    Missing,
    /// The database went back in time, and another lane has told it: everything in memory was read
    /// anew since. The lane has gone on from what was found. Where that was no row, another look
    /// says that it is missing.
    Adopted,
}

/// Why the database refused to raise the number of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberRefused {
    /// Not because of the number, which is where the lane left it.
    InPlace,
    /// The lane was idle for so long that its row was removed. The next look says that it is
    /// missing.
    RowRemoved,
}

/// The database is not where a lane left it: it went back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The number of the lane's last batch.
    pub last: i64,
    /// The number in the database; `None` without a row.
    pub found: Option<i64>,
}

/// A lane that was idle for so long expects that its row may be gone: well below
/// [`BatchSequence::ABANDONED`].
pub(super) const IDLE: Duration = Duration::from_secs(24 * 3_600);

impl BatchSequence {
    /// Rows of lanes that have not committed for so long may be removed.
    pub const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3_600);

    /// The number of the last batch, from which the next one raises it, and forestalling too.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// Whether the fate of a batch is unknown.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether the lane has a row, as far as it knows.
    pub fn has_row(&self) -> bool {
        self.heard.is_some()
    }

    /// A batch is about to be sent. From here on its fate is unknown.
    pub fn sent(&mut self) {
        debug_assert!(!self.in_doubt, "a batch is sent while another one is in doubt");
        self.in_doubt = true;
    }

    /// The batch was answered: it is in.
    pub fn committed(&mut self, now: Duration) {
        debug_assert!(self.in_doubt, "a batch is committed that was not sent");
        self.last += 1;
        self.in_doubt = false;
        self.heard = Some(now);
    }

    /// The batch was answered with a refusal, or did not leave this process whole: nothing of it
    /// was written.
    pub fn not_written(&mut self) {
        self.in_doubt = false;
    }

    /// The batch in doubt was forestalled, and this is the number after that.
    pub fn forestalled(&mut self, now: Duration, found: Option<i64>) -> Result<BatchFate, Rewound> {
        match found {
            Some(n) if n == self.last + 1 => {
                self.committed(now);
                Ok(BatchFate::Written)
            }
            Some(n) if n == self.last + 2 => {
                self.last = n;
                self.in_doubt = false;
                Ok(BatchFate::NeverWritten)
            }
            _ => Err(self.rewound(found)),
        }
    }

    /// A look on a new connection found this number, while nothing was in doubt. `rewinds` is how
    /// often lanes of this process have told that the database went back.
    pub fn looked(
        &mut self,
        now: Duration,
        found: Option<i64>,
        rewinds: u64,
    ) -> Result<LaneRow, Rewound> {
        if found == Some(self.last) {
            // Also when it was made and the answer was lost.
            self.heard = Some(now);
            Ok(LaneRow::InPlace)
        } else if found.is_none() && (!self.has_row() || self.is_idle(now)) {
            Ok(LaneRow::Missing)
        } else if self.rewinds < rewinds {
            self.adopt(now, found, rewinds);
            Ok(LaneRow::Adopted)
        } else {
            Err(self.rewound(found))
        }
    }

    /// The row of the lane was made, with the number [`last`](Self::last).
    pub fn row_made(&mut self, now: Duration) {
        self.heard = Some(now);
    }

    /// The database refused to raise the number, and a look found this one.
    pub fn number_refused(
        &mut self,
        now: Duration,
        found: Option<i64>,
        rewinds: u64,
    ) -> Result<NumberRefused, Rewound> {
        match found {
            Some(n) if n == self.last => Ok(NumberRefused::InPlace),
            None if self.is_idle(now) => {
                self.adopt(now, None, rewinds);
                Ok(NumberRefused::RowRemoved)
            }
            _ => Err(self.rewound(found)),
        }
    }

    /// Goes on from where the database is, after a rewind that this lane has told: `rewinds` counts
    /// it.
    pub fn accept(&mut self, now: Duration, rewound: Rewound, rewinds: u64) {
        self.adopt(now, rewound.found, rewinds);
    }

    fn adopt(&mut self, now: Duration, found: Option<i64>, rewinds: u64) {
        let heard = found.map(|_| now);
        *self = BatchSequence { last: found.unwrap_or(0), in_doubt: false, heard, rewinds };
    }

    fn rewound(&self, found: Option<i64>) -> Rewound {
        Rewound { last: self.last, found }
    }

    fn is_idle(&self, now: Duration) -> bool {
        self.heard.is_some_and(|heard| now.saturating_sub(heard) > IDLE)
    }
}

impl fmt::Display for Rewound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.map_or_else(|| "none".to_string(), |n| n.to_string());
        write!(
            f,
            "the database went back in time: it knows {found} as the last commit of this lane, \
             which has made {}; was a backup restored, or did a replica take over that lagged?",
            self.last
        )
    }
}

impl std::error::Error for Rewound {}

impl From<Rewound> for Error {
    fn from(rewound: Rewound) -> Error {
        Error::rewound(rewound.to_string())
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const NEXT_DAY: Duration = Duration::from_secs(100 + 24 * 3_600 + 1);

    /// A lane that has made so many batches.
    fn lane(last: i64) -> BatchSequence {
        BatchSequence { last, heard: Some(NOW), ..BatchSequence::default() }
    }

    #[test]
    fn a_batch_is_counted_when_it_is_in() {
        let mut lane = lane(7);
        lane.sent();
        assert!(lane.is_in_doubt());
        lane.not_written();
        assert_eq!((lane.last(), lane.is_in_doubt()), (7, false));
        lane.sent();
        lane.committed(NOW);
        assert_eq!((lane.last(), lane.is_in_doubt()), (8, false));
    }

    #[test]
    fn what_forestalling_finds() {
        use BatchFate::{NeverWritten, Written};
        let rewound = |found| Err(Rewound { last: 7, found });
        type Case<'t> = (&'t str, Option<i64>, Result<BatchFate, Rewound>, i64);
        let table: [Case<'_>; 6] = [
            ("the batch was first", Some(8), Ok(Written), 8),
            ("forestalling was first", Some(9), Ok(NeverWritten), 9),
            ("neither was in", Some(7), rewound(Some(7)), 7),
            ("a batch before is lost", Some(5), rewound(Some(5)), 7),
            ("a number that nobody gave", Some(10), rewound(Some(10)), 7),
            ("no row", None, rewound(None), 7),
        ];
        for (what, found, fate, last) in table {
            let mut lane = lane(7);
            lane.sent();
            assert_eq!(lane.forestalled(NOW, found), fate, "{what}");
            assert_eq!(lane.last(), last, "{what}");
            assert_eq!(lane.is_in_doubt(), fate.is_err(), "{what}");
        }
    }

    /// A row that raises its number as the database does.
    struct Row(i64);

    impl Row {
        fn raise(&mut self, from: i64, by: i64) -> bool {
            let is_there = self.0 == from;
            self.0 += if is_there { by } else { 0 };
            is_there
        }
    }

    #[test]
    fn a_batch_is_in_exactly_when_the_lane_says_so_however_late_it_arrives() {
        for arrives in ["before", "after", "never"] {
            let (mut row, mut lane) = (Row(7), lane(7));
            lane.sent();
            let written = arrives == "before" && row.raise(7, 1);
            row.raise(lane.last(), 2);
            let fate = lane.forestalled(NOW, Some(row.0)).unwrap();
            let late = arrives == "after" && row.raise(7, 1);
            assert_eq!(fate == BatchFate::Written, written || late, "{arrives}");
            // The next batch finds the number that it expects.
            lane.sent();
            assert!(row.raise(lane.last(), 1), "{arrives}");
            lane.committed(NOW);
            assert_eq!(row.0, lane.last(), "{arrives}");
        }
    }

    #[test]
    fn what_a_look_finds() {
        use LaneRow::{Adopted, InPlace, Missing};
        let rewound = |found| Err(Rewound { last: 7, found });
        let new = BatchSequence::default;
        type Case<'t> =
            (&'t str, BatchSequence, Duration, Option<i64>, u64, Result<LaneRow, Rewound>, i64);
        let table: [Case<'_>; 9] = [
            ("the first look", new(), NOW, None, 0, Ok(Missing), 0),
            ("where it was left", lane(7), NOW, Some(7), 0, Ok(InPlace), 7),
            ("where it was left, after a rewind", lane(7), NOW, Some(7), 1, Ok(InPlace), 7),
            ("a row that was removed", lane(7), NEXT_DAY, None, 0, Ok(Missing), 7),
            ("a row that is lost", lane(7), NOW, None, 0, rewound(None), 7),
            ("another lane told of the lost row", lane(7), NOW, None, 1, Ok(Adopted), 0),
            ("set back", lane(7), NOW, Some(6), 0, rewound(Some(6)), 7),
            ("set back while idle", lane(7), NEXT_DAY, Some(6), 0, rewound(Some(6)), 7),
            ("another lane told", lane(7), NOW, Some(6), 1, Ok(Adopted), 6),
        ];
        for (what, mut lane, now, found, rewinds, expected, last) in table {
            assert_eq!(lane.looked(now, found, rewinds), expected, "{what}");
            assert_eq!(lane.last(), last, "{what}");
        }
    }

    #[test]
    fn why_a_number_is_refused() {
        use NumberRefused::{InPlace, RowRemoved};
        let rewound = |found| Err(Rewound { last: 7, found });
        type Case<'t> = (&'t str, Duration, Option<i64>, Result<NumberRefused, Rewound>, bool);
        let table: [Case<'_>; 5] = [
            ("for another reason", NOW, Some(7), Ok(InPlace), true),
            ("the lane was idle", NEXT_DAY, None, Ok(RowRemoved), false),
            ("its row is lost", NOW, None, rewound(None), true),
            ("set back", NOW, Some(3), rewound(Some(3)), true),
            ("set back while idle", NEXT_DAY, Some(3), rewound(Some(3)), true),
        ];
        for (what, now, found, expected, has_row) in table {
            let mut lane = lane(7);
            assert_eq!(lane.number_refused(now, found, 0), expected, "{what}");
            assert_eq!(lane.has_row(), has_row, "{what}");
        }
    }

    #[test]
    fn a_rewind_is_told_by_one_lane_and_the_next_one_anew() {
        let (mut first, mut second) = (lane(7), lane(4));
        let rewound = first.looked(NOW, Some(6), 0).unwrap_err();
        first.accept(NOW, rewound, 1);
        assert_eq!(first.last(), 6);
        assert_eq!(second.looked(NOW, Some(2), 1), Ok(LaneRow::Adopted));
        assert_eq!(first.looked(NOW, Some(6), 1), Ok(LaneRow::InPlace));
        for (mut lane, last) in [(first, 6), (second, 2)] {
            let again = lane.looked(NOW, Some(1), 1);
            assert_eq!(again, Err(Rewound { last, found: Some(1) }));
        }
    }

    #[test]
    fn a_lane_whose_row_is_lost_begins_anew() {
        let mut lane = lane(7);
        lane.sent();
        let rewound = lane.forestalled(NOW, None).unwrap_err();
        lane.accept(NOW, rewound, 1);
        assert_eq!((lane.last(), lane.is_in_doubt(), lane.has_row()), (0, false, false));
        assert_eq!(lane.looked(NOW, None, 1), Ok(LaneRow::Missing));
        lane.row_made(NOW);
        assert_eq!(lane.looked(NOW, Some(0), 1), Ok(LaneRow::InPlace));
    }

    #[test]
    fn a_rewind_says_what_was_found_and_what_to_look_for() {
        let error = Error::from(Rewound { last: 7, found: None });
        assert!(error.is_rewound());
        assert_eq!(
            error.to_string(),
            "the database went back in time: it knows none as the last commit of this lane, which \
             has made 7; was a backup restored, or did a replica take over that lagged?"
        );
    }
}
