//! Ends tests that hang, and says what they were waiting for.
//!
//! A test that hangs keeps its whole test run from ending and says nothing. This crate's `#[test]`
//! gives every test three minutes; one that says so at its top gets more:
//!
//! ```text
//! use resurgam_watchdog::test;
//!
//! #[test]
//! fn two_and_two_are_four() {
//!     assert_eq!(2 + 2, 4);
//! }
//!
//! #[test(minutes = 15, threads = 2)] // builds something, on a runtime with two threads
//! async fn a_cathedral_is_built() {}
//! ```
//!
//! A test whose time is over fails with a report of what is under way. The report comes from
//! whoever knows: a test kit [adds itself](Test::add) to the [current] test. A test kit that finds
//! out sooner that nothing moves any more [fails the test](Test::fail) itself. An asynchronous test
//! fails by a panic, and the other tests of the binary go on. A test that blocks its thread cannot
//! be made to panic: the report goes to standard error, and the process is aborted.
//!
//! A test that needs what this machine has not and cannot get is [skipped](skip), with a sentence.
//!
//! `RESURGAM_TEST_LIMIT` replaces all limits, in seconds: a test that is being debugged needs more.
//!
//! Asynchronous tests need `tokio` as a dependency of their crate. `threads` chooses a runtime with
//! worker threads; without it the test's own thread runs everything.

use std::cell::RefCell;
use std::future::Future;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

pub use resurgam_watchdog_attribute::test;

/// How often the watchdog looks.
const TICK: Duration = Duration::from_millis(500);

/// How long a test that was told to fail has to do so before the process is aborted. A machine
/// under load needs a while to unwind.
const GRACE: Duration = Duration::from_secs(20);

/// Whoever knows what a test waits for.
pub trait Report: Send + Sync {
    /// What is under way, in a few lines.
    fn report(&self) -> String;
}

/// A test that runs. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Test(Arc<Inner>);

struct Inner {
    name: String,
    began: Instant,
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reporters: Vec<Weak<dyn Report>>,
    /// Why the test is to fail, and since when it has known.
    verdict: Option<(String, Instant)>,
    /// Wakes an asynchronous test, so that it hears of the verdict.
    waker: Option<Waker>,
}

thread_local! {
    static CURRENT: RefCell<Option<Test>> = const { RefCell::new(None) };
}

/// Gives every test of this process, also those that have begun, so many minutes more. For what has
/// to be installed first: whoever needs it waits for that too.
pub fn allow_more(minutes: u64) {
    MORE_SECONDS.fetch_add(60 * minutes, Ordering::Relaxed);
}

static MORE_SECONDS: AtomicU64 = AtomicU64::new(0);

/// The test that runs on this thread.
pub fn current() -> Option<Test> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs a test that has so many minutes. `#[test]` writes this.
///
/// # Panics
/// When the test does, and when `RESURGAM_TEST_LIMIT` is not a number of seconds.
pub fn run(minutes: u64, test: impl FnOnce()) {
    let _watch = watch(minutes);
    match catch_unwind(AssertUnwindSafe(test)) {
        Err(payload) if !payload.is::<Skipped>() => resume_unwind(payload),
        Err(_) | Ok(()) => {}
    }
}

/// Ends the test that runs on this thread without failing it, because this machine lacks something.
/// The sentence is written where the test harness does not capture it.
pub fn skip(why: &str) -> ! {
    let name = current().map_or_else(|| "a test".to_string(), |test| test.name().to_string());
    let _nobody_reads_it = writeln!(std::io::stderr(), "{name} is skipped: {why}");
    resume_unwind(Box::new(Skipped))
}

/// What a skipped test unwinds with.
struct Skipped;

/// Watches the test that begins on this thread, until the guard is dropped.
fn watch(minutes: u64) -> Watch {
    let name = thread::current().name().unwrap_or("a test").to_string();
    let wanted = std::env::var("RESURGAM_TEST_LIMIT").ok();
    let wanted = wanted.map(|text| text.parse().expect("RESURGAM_TEST_LIMIT: a number of seconds"));
    let limit = Duration::from_secs(wanted.unwrap_or(60 * minutes));
    let (began, state) = (Instant::now(), Mutex::default());
    let test = Test(Arc::new(Inner { name, began, limit, state }));
    CURRENT.set(Some(test.clone()));
    watched_tests().push(Arc::downgrade(&test.0));
    Watch(test)
}

/// A test is being watched.
struct Watch(Test);

impl Drop for Watch {
    fn drop(&mut self) {
        CURRENT.set(None);
        watched_tests().retain(|test| !std::ptr::eq(test.as_ptr(), Arc::as_ptr(&self.0.0)));
    }
}

/// The tests that run now. The first one starts the thread that looks after all of them.
fn watched_tests() -> MutexGuard<'static, Vec<Weak<Inner>>> {
    static TESTS: OnceLock<Mutex<Vec<Weak<Inner>>>> = OnceLock::new();
    let tests = TESTS.get_or_init(|| {
        let watchdog = thread::Builder::new().name("watchdog".to_string());
        watchdog.spawn(look_after_tests).expect("a thread for the watchdog");
        Mutex::default()
    });
    tests.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_after_tests() {
    loop {
        thread::sleep(TICK);
        let tests: Vec<Test> = watched_tests().iter().filter_map(Weak::upgrade).map(Test).collect();
        tests.iter().for_each(Test::look);
    }
}

impl Test {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds somebody who knows what the test waits for.
    pub fn add(&self, reporter: Weak<dyn Report>) {
        let mut state = self.lock();
        state.reporters.retain(|reporter| reporter.strong_count() > 0);
        state.reporters.push(reporter);
    }

    /// Makes the test fail with this report. The first report counts.
    pub fn fail(&self, report: String) {
        let mut state = self.lock();
        state.verdict.get_or_insert((report, Instant::now()));
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let verdict = self.lock().verdict.clone();
        let more = Duration::from_secs(MORE_SECONDS.load(Ordering::Relaxed));
        match verdict {
            None if self.0.began.elapsed() > self.0.limit + more => self.fail(self.overdue()),
            Some((report, since)) if since.elapsed() > GRACE.min(self.0.limit) => {
                self.abort(&report)
            }
            _ => {}
        }
    }

    fn overdue(&self) -> String {
        let reporters: Vec<_> = self.lock().reporters.iter().filter_map(Weak::upgrade).collect();
        let mut report = format!("the test has run for {} s, and is ended", self.0.limit.as_secs());
        for reporter in reporters {
            report += &format!("\n{}", reporter.report());
        }
        report
    }

    fn abort(&self, report: &str) -> ! {
        abort(&format!("test {} hangs: {report}", self.0.name))
    }
}

/// Ends the process with a message, for a hang that no test can be made to fail for. It is written
/// where the test harness does not capture it.
pub fn abort(message: &str) -> ! {
    let _nobody_reads_it = writeln!(std::io::stderr(), "\n{message}");
    std::process::abort()
}

/// The body of an asynchronous test.
pub type Body<T> = Pin<Box<dyn Future<Output = T>>>;

/// Runs the body of an asynchronous test, and fails it when it is told to. `#[test]` writes this.
///
/// # Panics
/// When the test is to fail, with the report.
pub async fn watched<T>(body: Body<T>) -> T {
    let test = current().expect("a test that is watched");
    Watched { test, body }.await
}

struct Watched<T> {
    test: Test,
    body: Body<T>,
}

impl<T> Future for Watched<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let verdict = {
            let mut state = self.test.lock();
            state.waker = Some(context.waker().clone());
            state.verdict.clone()
        };
        match verdict {
            Some((report, _)) => panic!("{report}"),
            None => self.body.as_mut().poll(context),
        }
    }
}
