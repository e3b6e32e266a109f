//! Which changes may travel together, and which must wait for each other.
//!
//! A batch is written in its order, and yet one statement should write what many steps ask for.
//! Both hold when changes of the same thing go in different waves, one after the other, and all
//! others share one. Each change says which things it needs alone and which it can share, like a
//! lock; its wave is the first after all earlier changes that it conflicts with. Most batches are
//! one wave.

use foldhash::HashMap;
use resurgam_core::{CallKey, RunKey, Uid};
use resurgam_store::HoldKind;

/// What changes can collide on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Thing<'b> {
    /// An instance's row.
    Instance(Uid),
    /// The right to an id.
    Id(&'b str),
    /// The right to a request id.
    Request(&'b str),
    /// Starts that take over the id of whoever is closed by then, and changes of status: which
    /// instance holds which id is known to the database alone.
    Replacing,
    /// The task of a call.
    Call(CallKey),
    /// All tasks of a run.
    Tasks(RunKey),
    /// A message.
    Message(Uid, &'b str),
    /// All messages of an instance.
    Messages(Uid),
    /// The dead letter of a call.
    Letter(CallKey),
    /// A schedule.
    Schedule(&'b str),
    /// A bulk job.
    Bulk(&'b str),
    /// A gate.
    Gate(&'b str),
    /// What a node counted at a gate in a second.
    GateCount(&'b str, i64, &'b str),
    /// Everything that was counted at gates.
    GateCounts,
    /// A kind of calls that is paused.
    Hold(HoldKind, &'b str),
    /// A row of the inbox.
    Inbox(i64),
    /// The ids of rows that were taken from the inbox.
    Seen,
}

/// How a change needs a thing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need<'b> {
    /// Nobody else may change it in the same wave.
    Alone(Thing<'b>),
    /// Others who share it may.
    Shared(Thing<'b>),
}

/// The waves given out so far. Every change is looked up here, most of them twice.
#[derive(Debug, Default)]
pub(crate) struct Waves<'b> {
    next: HashMap<Thing<'b>, Next>,
}

/// The first wave that is free for each need.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    alone: usize,
    shared: usize,
}

impl<'b> Waves<'b> {
    /// The wave of a change with these needs.
    pub(crate) fn place(&mut self, needs: &[Need<'b>]) -> usize {
        self.place_from(0, needs)
    }

    /// The wave of a change with these needs that must not come before this one.
    pub(crate) fn place_from(&mut self, first: usize, needs: &[Need<'b>]) -> usize {
        let free = |need: &Need<'b>| match need {
            Need::Alone(thing) => self.next.get(thing).map_or(0, |next| next.alone),
            Need::Shared(thing) => self.next.get(thing).map_or(0, |next| next.shared),
        };
        let wave = needs.iter().map(free).fold(first, usize::max);
        for need in needs {
            match need {
                Need::Alone(thing) => {
                    self.next.insert(*thing, Next { alone: wave + 1, shared: wave + 1 });
                }
                Need::Shared(thing) => {
                    let next = self.next.entry(*thing).or_default();
                    next.alone = next.alone.max(wave + 1);
                }
            }
        }
        wave
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::Need::{Alone, Shared};
    use super::*;

    const A: Thing<'static> = Thing::Id("a");
    const B: Thing<'static> = Thing::Id("b");

    #[test]
    fn changes_of_different_things_share_a_wave() {
        let mut waves = Waves::default();
        assert_eq!([waves.place(&[Alone(A)]), waves.place(&[Alone(B)])], [0, 0]);
        assert_eq!(waves.place(&[]), 0);
    }

    #[test]
    fn a_change_can_be_kept_from_an_earlier_wave() {
        let mut waves = Waves::default();
        assert_eq!(waves.place_from(2, &[Alone(A)]), 2);
        assert_eq!(waves.place_from(1, &[Alone(A)]), 3);
    }

    #[test]
    fn changes_of_one_thing_follow_each_other() {
        let mut waves = Waves::default();
        let places = [(); 3].map(|()| waves.place(&[Alone(A), Alone(B)]));
        assert_eq!(places, [0, 1, 2]);
        assert_eq!(waves.place(&[Alone(B)]), 3);
    }

    #[test]
    fn who_shares_waits_for_who_was_alone_and_the_other_way_round() {
        let mut waves = Waves::default();
        assert_eq!([waves.place(&[Shared(A)]), waves.place(&[Shared(A)])], [0, 0]);
        assert_eq!(waves.place(&[Alone(A)]), 1);
        assert_eq!([waves.place(&[Shared(A)]), waves.place(&[Shared(A)])], [2, 2]);
        assert_eq!(waves.place(&[Alone(A)]), 3);
    }
}
