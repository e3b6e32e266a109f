//! Notices that nothing moves any more in an app under test.
//!
//! One thread looks once a second at every app of the process. An app has made no progress when its
//! clock has counted nothing since, although the test's runtime was free to run: each app has a
//! task there that answers the thread. Seconds in which the task did not answer do not count, so a
//! test that computes, or a machine under load, is not taken for one that hangs; nor do seconds in
//! which another app of the same test made progress. No timer of tokio's is involved, for a test
//! may have paused those.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use resurgam_watchdog::{Report, Test};
use tokio::sync::Notify;

use crate::clock::VirtualClock;
use crate::database::TestStore;
use crate::faults::Faults;

/// How often the thread looks.
const TICK: Duration = Duration::from_secs(1);

/// For how many ticks the store may take to say which instances are open.
const FOR_INSTANCES: u32 = 3;

/// Whether an app makes progress.
pub(crate) struct Pulse {
    clock: VirtualClock,
    faults: Faults,
    /// The test that the app belongs to, where that can be made to fail.
    test: Option<Test>,
    /// The thread on which the app began: each test has its own.
    began_on: ThreadId,
    /// The thread has looked.
    looked: Notify,
    state: Mutex<State>,
}

struct State {
    /// The task has run since the thread looked last.
    answered: bool,
    /// How far the clocks of the test had counted then.
    seen: u64,
    /// For how many ticks they have counted nothing.
    still: u32,
}

/// An instance that is open when nothing moves any more.
pub(crate) struct OpenInstance {
    pub(crate) id: String,
    pub(crate) uid: String,
    pub(crate) workflow: String,
    pub(crate) waits_for: String,
}

impl Pulse {
    pub(crate) fn new(clock: VirtualClock, faults: Faults) -> Arc<Self> {
        let state = State { answered: false, seen: 0, still: 0 };
        let (looked, state) = (Notify::new(), Mutex::new(state));
        let test = resurgam_watchdog::current();
        let began_on = thread::current().id();
        let pulse = Arc::new(Pulse { clock, faults, test, began_on, looked, state });
        pulses().push(Arc::downgrade(&pulse));
        if let Some(test) = &pulse.test {
            let reporter: Arc<dyn Report> = pulse.clone();
            test.add(Arc::downgrade(&reporter));
        }
        pulse
    }

    /// Answers the thread for as long as it is polled, and ends the test when nothing moves any
    /// more. `instances` tells what the app's instances wait for.
    pub(crate) async fn answer<F>(self: Arc<Self>, instances: impl Fn() -> F)
    where
        F: Future<Output = Vec<OpenInstance>>,
    {
        let patience = patience();
        while !self.is_still_after(patience).await {}
        let instances = tokio::select! {
            instances = instances() => Some(instances),
            () = self.ticks(FOR_INSTANCES) => None,
        };
        let mut report = self.report();
        for OpenInstance { id, uid, workflow, waits_for } in instances.iter().flatten() {
            report = report.replace(uid, id);
            report += &format!("\nInstance {id} of {workflow} waits for {waits_for}.");
        }
        if instances.is_none() {
            report += "\nThe store does not say which instances are open.";
        }
        self.end(&format!("nothing has moved for {patience} s of wall time, and {report}"));
    }

    /// Answers once.
    async fn is_still_after(&self, patience: u32) -> bool {
        self.looked.notified().await;
        let mut state = self.lock();
        state.answered = true;
        state.still >= patience
    }

    async fn ticks(&self, number: u32) {
        for _ in 0..number {
            self.looked.notified().await;
        }
    }

    /// Makes the test fail: at what it waits for, if that is ours; as a whole, if it is watched;
    /// or with all the others.
    fn end(&self, report: &str) {
        if self.clock.stall(report) {
            return;
        }
        match &self.test {
            Some(test) => test.fail(report.to_string()),
            None => {
                let name = thread::current().name().unwrap_or("a test").to_string();
                resurgam_watchdog::abort(&format!("{name}: {report}"))
            }
        }
    }

    /// `progress` is that of all apps of the test.
    fn tick(&self, progress: u64) {
        let mut state = self.lock();
        let is_still = state.answered && state.seen == progress;
        state.still = if is_still { state.still + 1 } else { 0 };
        state.seen = progress;
        state.answered = false;
        drop(state);
        self.looked.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Report for Pulse {
    fn report(&self) -> String {
        let calls = self.faults.under_way();
        let calls = match calls.is_empty() {
            true => String::new(),
            false => format!("\nThe store has not answered: {}.", calls.join("; ")),
        };
        self.clock.report() + &calls
    }
}

/// How many seconds without progress are a hang. A server is shared by many tests, and may be busy
/// with another one.
fn patience() -> u32 {
    if let Ok(seconds) = std::env::var("RESURGAM_TEST_PATIENCE") {
        return seconds.parse().expect("RESURGAM_TEST_PATIENCE: a number of seconds");
    }
    if TestStore::chosen() == TestStore::Postgres { 60 } else { 20 }
}

/// The apps of this process. The first one starts the thread.
fn pulses() -> MutexGuard<'static, Vec<Weak<Pulse>>> {
    static PULSES: OnceLock<Mutex<Vec<Weak<Pulse>>>> = OnceLock::new();
    let pulses = PULSES.get_or_init(|| {
        let looks = thread::Builder::new().name("resurgam-testing".to_string());
        looks.spawn(look).expect("a thread that looks for hangs");
        Mutex::default()
    });
    pulses.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look() {
    loop {
        thread::sleep(TICK);
        let mut pulses = pulses();
        pulses.retain(|pulse| pulse.strong_count() > 0);
        let alive: Vec<_> = pulses.iter().filter_map(Weak::upgrade).collect();
        drop(pulses);
        let mut progress: HashMap<ThreadId, u64> = HashMap::new();
        for pulse in &alive {
            *progress.entry(pulse.began_on).or_default() += pulse.clock.progress();
        }
        alive.iter().for_each(|pulse| pulse.tick(progress[&pulse.began_on]));
    }
}
