//! Time, injected: the engine never asks the system.
//!
//! There are two kinds of it. What is stored, such as when a timer fires, is a time on the wall
//! clock, which people and other machines share; it can be set, and it goes on while the machine is
//! suspended. How long something takes in this process, such as an attempt, is elapsed time, which
//! nobody sets.
//!
//! A test's clock stands still while anything is under way and jumps to the next due thing
//! otherwise. For that it must know what is under way: whoever works holds a [`Busy`]. The system's
//! clock does not care.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use resurgam_core::Timestamp;
use resurgam_core::duration::Human;
use resurgam_store::Store;

/// Where time comes from.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Ready at this time, also when the clock is set meanwhile. Whoever waited is busy from then
    /// on.
    fn sleep_until(&self, time: Timestamp) -> Moment;

    /// The time that has passed, whatever the wall clock was set to meanwhile.
    fn elapsed(&self) -> Duration;

    /// Ready when this much time has passed, whatever the wall clock is set to meanwhile. Whoever
    /// waited is busy from then on.
    fn sleep(&self, time: Duration) -> Moment;

    /// Says that work is under way until the guard is dropped. `what` names it, for the message of
    /// a test that hangs.
    fn busy(&self, what: &dyn fmt::Display) -> Busy;

    /// True when the engine wakes for statistics alone. Nothing follows from them, so a test's
    /// clock does not stop there: they are stored when the time has passed for another reason.
    fn wakes_for_statistics(&self) -> bool {
        true
    }

    /// Says that somebody outside awaits an answer until the guard is dropped. That is no work and
    /// holds no clock; `what` is for the message of a test that hangs.
    fn awaits(&self, _what: &dyn fmt::Display) -> Awaits {
        Awaits::default()
    }
}

/// A point in time that somebody waits for.
pub type Moment = Pin<Box<dyn Future<Output = Busy> + Send>>;

/// Work is under way while this exists.
#[derive(Default)]
#[must_use = "work is under way while this exists"]
pub struct Busy(#[allow(dead_code, reason = "only its drop matters")] Option<Box<dyn Any + Send>>);

impl Busy {
    /// Keeps `guard` for as long as the work is under way.
    pub fn new(guard: impl Any + Send) -> Self {
        Busy(Some(Box::new(guard)))
    }
}

/// Somebody outside awaits an answer while this exists.
#[derive(Default)]
#[must_use = "somebody awaits an answer while this exists"]
pub struct Awaits(
    #[allow(dead_code, reason = "only its drop matters")] Option<Box<dyn Any + Send>>,
);

impl Awaits {
    /// Keeps `guard` for as long as the answer is awaited.
    pub fn new(guard: impl Any + Send) -> Self {
        Awaits(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

/// The system's wall clock. It goes on while the machine is suspended, and it can be set; whoever
/// waits for a time hears of both within a second.
#[derive(Clone)]
pub struct SystemClock(Arc<System>);

struct System {
    wall: fn() -> Timestamp,
    began: Instant,
    /// What the wall clock said when this much time had elapsed.
    compared: Mutex<(Timestamp, Duration)>,
}

impl SystemClock {
    /// The system's wall clock.
    pub fn new() -> Self {
        SystemClock::reading(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp::EPOCH.saturating_add(since)
        })
    }

    fn reading(wall: fn() -> Timestamp) -> Self {
        let compared = Mutex::new((wall(), Duration::ZERO));
        SystemClock(Arc::new(System { wall, began: Instant::now(), compared }))
    }

    /// How far the wall clock was set, or went on while the machine was suspended, since this was
    /// last asked: forward or back. Less than a second is how clocks are adjusted all the time.
    fn jump(&self) -> Option<Jump> {
        let (now, elapsed) = (self.now(), self.elapsed());
        let mut compared = self.0.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, then) = std::mem::replace(&mut *compared, (now, elapsed));
        let expected = before.saturating_add(elapsed.saturating_sub(then));
        let (ahead, behind) = (now.since(expected), expected.since(now));
        match ahead.max(behind) >= SECOND {
            true if ahead > behind => Some(Jump::Forward(ahead)),
            true => Some(Jump::Back(behind)),
            false => None,
        }
    }
}

impl SystemClock {
    /// Tells people when the clock jumped since this was last asked.
    fn tell_jump(&self) {
        match self.jump() {
            Some(Jump::Forward(by)) => tracing::warn!(
                "the clock went {} forward (it was set, or the machine was suspended): what \
                 became due meanwhile is done now",
                Human(by)
            ),
            Some(Jump::Back(by)) => tracing::warn!(
                "the clock was set back by {}: what is due by it comes that much later",
                Human(by)
            ),
            None => {}
        }
    }
}

/// The wall clock was set, or the machine was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jump {
    Forward(Duration),
    Back(Duration),
}

const SECOND: Duration = Duration::from_secs(1);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        (self.0.wall)()
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        let clock = self.clone();
        Box::pin(async move {
            let look = || {
                clock.tell_jump();
                clock.now()
            };
            asleep_until(time, look).await;
            Busy::default()
        })
    }

    fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    fn sleep(&self, time: Duration) -> Moment {
        asleep(time)
    }

    fn busy(&self, _what: &dyn fmt::Display) -> Busy {
        Busy::default()
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemClock at {}", self.now())
    }
}

/// Waits for a time on a clock that can be set: it is looked at once a second, because nobody tells
/// when it was.
async fn asleep_until(time: Timestamp, now: impl Fn() -> Timestamp) {
    loop {
        let left = time.since(now());
        tokio::time::sleep(left.min(SECOND)).await;
        if now() >= time {
            return;
        }
    }
}

fn asleep(time: Duration) -> Moment {
    Box::pin(async move {
        tokio::time::sleep(time).await;
        Busy::default()
    })
}

/// The time as a store tells it, so that many nodes agree on when something is due. Until the store
/// has told it, and where it tells none, the system's.
pub struct StoreClock {
    store: Arc<dyn Store>,
    system: SystemClock,
}

impl StoreClock {
    /// A clock that follows a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        StoreClock { store, system: SystemClock::new() }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.store.now().unwrap_or_else(|| self.system.now())
    }

    fn sleep_until(&self, time: Timestamp) -> Moment {
        if self.store.now().is_none() {
            return self.system.sleep_until(time);
        }
        let (store, system) = (self.store.clone(), self.system.clone());
        Box::pin(async move {
            asleep_until(time, || store.now().unwrap_or_else(|| system.now())).await;
            Busy::default()
        })
    }

    fn elapsed(&self) -> Duration {
        self.system.elapsed()
    }

    fn sleep(&self, time: Duration) -> Moment {
        asleep(time)
    }

    fn busy(&self, _what: &dyn fmt::Display) -> Busy {
        Busy::default()
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreClock at {}", self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicI64, Ordering};

    use resurgam_watchdog::test;
    use tracing::field::Field;
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    thread_local! {
        static WALL: Cell<i64> = const { Cell::new(0) };
    }

    fn wall() -> Timestamp {
        Timestamp::from_millis(WALL.get())
    }

    #[test]
    fn a_clock_that_is_set_is_followed_in_both_directions() {
        WALL.set(7_200_000);
        let clock = SystemClock::reading(wall);
        assert_eq!((clock.now(), clock.jump()), (Timestamp::from_millis(7_200_000), None));
        WALL.set(7_200_900);
        assert_eq!(clock.jump(), None);
        WALL.set(7_200_900 + 3_600_000);
        let Some(Jump::Forward(by)) = clock.jump() else { panic!("it went forward") };
        assert!(by <= HOUR && by > HOUR / 2, "{by:?}");
        WALL.set(7_200_900);
        let Some(Jump::Back(by)) = clock.jump() else { panic!("it went back") };
        assert!(by >= HOUR, "{by:?}");
        assert_eq!((clock.now(), clock.jump()), (Timestamp::from_millis(7_200_900), None));
    }

    /// What is logged while something is done.
    struct Heard(Mutex<Vec<String>>);

    impl Subscriber for Heard {
        fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

        fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let level = event.metadata().level();
            event.record(&mut |_: &Field, message: &dyn fmt::Debug| {
                self.0.lock().unwrap().push(format!("{level} {message:?}"));
            });
        }

        fn enter(&self, _span: &span::Id) {}

        fn exit(&self, _span: &span::Id) {}
    }

    #[test]
    fn a_clock_that_jumped_is_told_once() {
        WALL.set(7_200_000);
        let clock = SystemClock::reading(wall);
        let heard = Arc::new(Heard(Mutex::default()));
        tracing::subscriber::with_default(heard.clone(), || {
            for time in [7_200_000, 7_200_000 + 3_600_000, 0] {
                WALL.set(time);
                clock.tell_jump();
                clock.tell_jump();
            }
        });
        let heard = heard.0.lock().unwrap();
        let [forward, back] = &heard[..] else { panic!("{heard:?}") };
        assert!(forward.starts_with("WARN the clock went ") && forward.contains(" forward ("));
        assert!(back.starts_with("WARN the clock was set back by 3h"), "{back}");
    }

    #[test]
    async fn what_is_due_when_the_machine_wakes_up_is_done_within_a_second_and_not_before() {
        static NOW: AtomicI64 = AtomicI64::new(0);
        fn now() -> Timestamp {
            Timestamp::from_millis(NOW.load(Ordering::SeqCst))
        }
        let clock = SystemClock::reading(now);
        let due = Timestamp::EPOCH.saturating_add(HOUR);
        let mut moment = clock.sleep_until(due);
        // Two looks at a clock that stands, or was set back, are no reason to wake up.
        let waited = tokio::time::timeout(SECOND * 2, &mut moment).await;
        assert!(waited.is_err());
        NOW.store(HOUR.as_millis() as i64, Ordering::SeqCst);
        drop(moment.await);
    }
}
