//! What waits for an operator is counted, whatever is deleted when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use resurgam_core::action::Action;
use resurgam_core::{CallKey, Seq};
use resurgam_store::{LetterState, LetterWrite, Settled};
use resurgam_watchdog::test;

use super::actions::letter;
use super::remote::holder;
use super::*;
use crate::clock::{Busy, SystemClock};
use crate::retention::{Pace, Retention, sweep};

/// Keeps the values of gauges and counters.
#[derive(Default)]
pub(super) struct Gauges(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Gauges {
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let gauges = self.0.lock().unwrap();
        gauges.get(name).map(|bits| f64::from_bits(bits.load(Ordering::SeqCst)))
    }

    /// A counter, which holds a whole number.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |count| count.load(Ordering::SeqCst))
    }

    /// How many there are whose names begin so.
    pub(super) fn of_name(&self, name: &str) -> usize {
        self.0.lock().unwrap().keys().filter(|own| own.starts_with(name)).count()
    }

    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_string() + &labels.collect::<String>();
        self.0.lock().unwrap().entry(name).or_default().clone()
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The gauges of letters and of paused calls after a sweep, and when the next one is due.
fn swept(
    world: &World,
    letters_stay: Option<Duration>,
) -> (Option<f64>, Option<f64>, Option<Timestamp>) {
    let (gauges, clock) = (Gauges::default(), SystemClock::default());
    let retention = Retention { dead_letters: letters_stay, ..Retention::default() };
    let swept = metrics::with_local_recorder(&gauges, || {
        let mut pace = Pace::new(&clock, Busy::default());
        at_once(sweep(&world.store, &mut pace, retention, world.now)).unwrap()
    });
    let (letters, paused) = ("resurgam.dead_letters_open", "resurgam.paused_open");
    (gauges.value(letters), gauges.value(paused), swept.next)
}

fn write(world: &World, write: LetterWrite) {
    let step = Step { letters: vec![write], ..Step::default() };
    assert_eq!(at_once(world.store.commit([step].into())).unwrap(), [StepResult::Written]);
}

#[test]
fn letters_and_paused_calls_are_counted_also_when_letters_stay_for_ever() {
    for letters_stay in [Some(Retention::DEAD_LETTERS), None] {
        let mut world = holder();
        let uid = world.start("send", "send-1".to_string());
        assert_eq!(swept(&world, letters_stay), (Some(0.0), Some(0.0), None));

        let calls: [CallKey; 2] = [3, 4].map(|seq| RunKey::first(uid).call(Seq(seq)));
        for call in calls {
            write(&world, LetterWrite::Insert(Box::new(letter(call, world.now))));
        }
        world.act(uid, Action::Pause { clock_runs: false });
        let goes = letters_stay.map(|stays| world.now.saturating_add(stays));
        assert_eq!(swept(&world, letters_stay), (Some(2.0), Some(1.0), goes));

        let (at, by) = (world.now, "bob".to_string());
        let settled = Settled { at, by, reason: None, redriven_as: None };
        write(
            &world,
            LetterWrite::Settle { call: calls[0], state: LetterState::Discarded, settled },
        );
        world.act(uid, Action::Resume { reset: false, due: None });
        let (letters, paused, _) = swept(&world, letters_stay);
        assert_eq!((letters, paused), (Some(1.0), Some(0.0)));
    }
}
