//! When the wall clock of a time zone shows a time.
//!
//! A wall time fires at the first moment at which the clock shows it *or a later one*. On most days
//! that is when it shows it. When the clock goes forward, the times left out fire at the moment of
//! the change, together with the first time after it; when it goes back, the times that come again
//! were shown before and do not fire a second time.
//!
//! The zones are those compiled into the program, not those of the machine, so that every node of
//! one build agrees. New rules of a country arrive with a new build.

use std::sync::LazyLock;

use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::config::nearest;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A time zone. Moments and wall times are whole seconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

/// A moment at which the clock of a zone changes.
pub(super) struct Change {
    /// What the clock would have shown without the change.
    pub(super) before: i64,
    /// What it shows.
    pub(super) after: i64,
}

impl Zone {
    /// The zone of an IANA name. The error continues a sentence that begins with the name.
    pub(super) fn named(name: &str) -> Result<Zone, String> {
        match ZONES.get(name) {
            Ok(zone) if !zone.is_unknown() => Ok(Zone(zone)),
            _ => Err(match meant(name) {
                Some(known) => format!("is no time zone; did you mean \"{known}\"?"),
                None => "is no time zone; write a name such as \"Europe/Berlin\" or \"UTC\"".into(),
            }),
        }
    }

    /// The first wall time that the clock had not shown, nor gone past, by this moment.
    pub(super) fn unseen(&self, at: i64) -> i64 {
        let offset = self.offset(at);
        let wall = at + seconds(offset);
        match self.offsets_of(wall) {
            // It comes for the second time: the first time, the clock went on up to the change.
            AmbiguousOffset::Fold { before, after } if offset == after => {
                self.change(wall - seconds(before), at, after) + seconds(before)
            }
            _ => wall + 1,
        }
    }

    /// The moment at which a wall time fires.
    pub(super) fn moment(&self, wall: i64) -> i64 {
        match self.offsets_of(wall) {
            AmbiguousOffset::Unambiguous { offset: before }
            | AmbiguousOffset::Fold { before, .. } => wall - seconds(before),
            AmbiguousOffset::Gap { before, after } => {
                self.change(wall - seconds(after), wall - seconds(before), after)
            }
        }
    }

    /// What the clock shows at a moment.
    pub(super) fn wall(&self, at: i64) -> i64 {
        at + seconds(self.offset(at))
    }

    /// The changes after one moment up to another, which is included.
    pub(super) fn changes(&self, after: i64, until: i64) -> impl Iterator<Item = Change> {
        let following = self.0.following(timestamp(after));
        let moments = following.map(|change| change.timestamp().as_second());
        moments
            .take_while(move |at| *at <= until)
            .map(|at| Change { before: self.wall(at - 1) + 1, after: self.wall(at) })
    }

    /// The first moment after `early` and up to `late` with an offset that `late` has.
    fn change(&self, mut early: i64, mut late: i64, to: Offset) -> i64 {
        while early + 1 < late {
            let middle = early + (late - early) / 2;
            if self.offset(middle) == to { late = middle } else { early = middle }
        }
        late
    }

    fn offset(&self, at: i64) -> Offset {
        self.0.to_offset(timestamp(at))
    }

    fn offsets_of(&self, wall: i64) -> AmbiguousOffset {
        let shown = Offset::UTC.to_datetime(timestamp(wall));
        self.0.to_ambiguous_timestamp(shown).offset()
    }
}

fn seconds(offset: Offset) -> i64 {
    offset.seconds().into()
}

/// Rules ask for the years 1 to 9998 only; all of them exist, and a day more on both sides.
fn timestamp(seconds: i64) -> jiff::Timestamp {
    let end = if seconds < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_second(seconds).unwrap_or(end)
}

/// The zone that was probably meant: by its city alone, or mistyped.
fn meant(name: &str) -> Option<String> {
    if name.len() > 64 {
        return None;
    }
    let names: Vec<String> = ZONES.available().map(|name| name.to_string()).collect();
    let city = name.trim().replace(' ', "_");
    let of_city = |known: &&String| {
        known.rsplit_once('/').is_some_and(|(_, last)| last.eq_ignore_ascii_case(&city))
    };
    let by_city = names.iter().find(of_city).map(String::as_str);
    by_city.or_else(|| nearest(name, names.iter().map(String::as_str))).map(str::to_string)
}
