//! Where attempts wait for what the node lacks to start their actions: open files, processes,
//! memory.
//!
//! What other actions have comes back when they end. So while one runs, an attempt waits here, in
//! memory: that takes no attempt, no row and no commit, however many wait and however long. Only
//! the first in line tries again: when an action has ended, and every second in case somebody else
//! has given something back. Those behind it try nothing, so that a node that is short of files is
//! not kept short of them by failing.
//!
//! An attempt that cannot wait here is snoozed: when no action runs, so that nobody waits for ever
//! for what nobody here will give back; when its own timeout would run out before its action has
//! begun; when it is told to end; and one each time people are told, because its row in the ledger
//! is where `show` finds the reason.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resurgam_core::Failure;
use resurgam_sdk::ActivityContext;
use tokio::sync::Notify;

use super::lack::{Lacking, PAUSE, Unstarted, snoozed};

/// How often an attempt that waits says that it is alive. The shortest heartbeat timeouts that make
/// sense are longer, and it costs next to nothing.
const ALIVE: Duration = Duration::from_millis(100);

/// The part of its time that an attempt with a timeout waits here: the rest is for its action.
const SHARE: u32 = 10;

/// The line, and the actions that it is about.
#[derive(Debug)]
pub(super) struct Line {
    /// Whoever has this is the first in line. Others get it in the order in which they came.
    first: tokio::sync::Mutex<()>,
    counts: Mutex<Counts>,
    /// An action has ended.
    ended: Notify,
    lacking: Lacking,
    /// How long the first in line waits for an action to end before it tries all the same.
    pause: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    running: usize,
    waiting: usize,
    /// Actions that ended and whose place nobody has taken; never more than wait for one.
    vacant: usize,
}

/// The place of an action that runs. To be dropped after everything that the action has.
#[derive(Debug)]
pub(super) struct Place<'l>(&'l Line);

/// An attempt that waits.
struct Waiting<'l>(&'l Line);

impl Default for Line {
    fn default() -> Self {
        let (first, counts, ended) =
            (tokio::sync::Mutex::default(), Mutex::default(), Notify::new());
        Line { first, counts, ended, lacking: Lacking::default(), pause: PAUSE }
    }
}

impl Line {
    /// Starts an action as soon as the node has what that takes.
    pub(super) async fn start<T>(
        &self,
        ctx: &ActivityContext,
        mut start: impl FnMut() -> Result<T, Unstarted>,
    ) -> Result<(Place<'_>, T), Failure> {
        if self.counts().waiting == 0
            && let Some(settled) = self.try_to(&mut start)
        {
            return settled;
        }
        let _waiting = Waiting::new(self);
        tokio::select! {
            biased;
            settled = self.wait_for(&mut start) => settled,
            () = ctx.cancelled() => Err(snoozed("it was told to end before it could begin")),
            () = time_to_wait(ctx) => {
                Err(snoozed("it waited for what this node lacks, and its timeout allows no more"))
            }
            never = keep_alive(ctx) => match never {},
        }
    }

    /// Waits for the head of the line and then for room.
    async fn wait_for<T>(
        &self,
        start: &mut impl FnMut() -> Result<T, Unstarted>,
    ) -> Result<(Place<'_>, T), Failure> {
        let _first = self.first.lock().await;
        loop {
            self.vacancy().await;
            if let Some(settled) = self.try_to(start) {
                return settled;
            }
        }
    }

    /// Tries to start an action. `None` when it is worth waiting.
    fn try_to<T>(
        &self,
        start: &mut impl FnMut() -> Result<T, Unstarted>,
    ) -> Option<Result<(Place<'_>, T), Failure>> {
        match start() {
            Ok(started) => Some(Ok((Place::new(self), started))),
            Err(Unstarted::Failed(failure)) => Some(Err(failure)),
            Err(Unstarted::Lacks(what)) => {
                let told = self.lacking.tell(&what);
                let in_vain = self.counts().running == 0;
                (told || in_vain).then(|| Err(snoozed(what)))
            }
        }
    }

    /// Waits until an action has ended, but not for long.
    async fn vacancy(&self) {
        let vacated = async {
            loop {
                let ended = self.ended.notified();
                if self.take_vacancy() {
                    return;
                }
                ended.await;
            }
        };
        // Others may have given something back; they tell nobody.
        let _unless_ended = tokio::time::timeout(self.pause, vacated).await;
    }

    fn take_vacancy(&self) -> bool {
        let mut counts = self.counts();
        let vacant = counts.vacant;
        counts.vacant = vacant.saturating_sub(1);
        vacant > 0
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'l> Place<'l> {
    fn new(line: &'l Line) -> Self {
        line.counts().running += 1;
        Place(line)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.running -= 1;
        counts.vacant = (counts.vacant + 1).min(counts.waiting);
        drop(counts);
        self.0.ended.notify_waiters();
    }
}

impl<'l> Waiting<'l> {
    fn new(line: &'l Line) -> Self {
        line.counts().waiting += 1;
        Waiting(line)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.waiting -= 1;
        counts.vacant = counts.vacant.min(counts.waiting);
    }
}

/// Ready when an attempt has waited as long as its timeout allows. Time that it spends here is time
/// that its action does not get, so it is rather snoozed: the next attempt has all its time again.
async fn time_to_wait(ctx: &ActivityContext) {
    match ctx.deadline() {
        Some(deadline) => tokio::time::sleep(deadline.since(ctx.now()) / SHARE).await,
        None => std::future::pending().await,
    }
}

/// Keeps an attempt from looking dead to its heartbeat timeout, for as long as it is polled.
async fn keep_alive(ctx: &ActivityContext) -> Infallible {
    loop {
        // Whether it is to end is heard elsewhere.
        let _goes_on = ctx.keep_alive();
        tokio::time::sleep(ALIVE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use resurgam_core::Kind;
    use resurgam_watchdog::test;
    use serde_json::Value;

    use super::super::test_host::Host;
    use super::*;

    /// Few places, and nobody who is in a hurry.
    struct Bench {
        line: Line,
        left: Cell<usize>,
        tries: Cell<usize>,
        host: Arc<Host>,
        time: Option<Duration>,
    }

    /// What an action has of the node. It is given back when dropped.
    struct Held<'b>(&'b Bench);

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.left.update(|left| left + 1);
        }
    }

    impl Bench {
        fn new(places: usize) -> Self {
            let line = Line { pause: Duration::from_secs(3_600), ..Line::default() };
            // Told already: what is told leaves a row, which is another matter.
            assert!(line.lacking.tell("places"));
            let (left, tries) = (Cell::new(places), Cell::new(0));
            Bench { line, left, tries, host: Arc::default(), time: None }
        }

        async fn start(&self) -> Result<(Place<'_>, Held<'_>), Failure> {
            let ctx = ActivityContext::new(self.host.attempt(self.time));
            let start = || {
                self.tries.update(|tries| tries + 1);
                let left = self.left.get().checked_sub(1);
                self.left.set(left.ok_or_else(|| Unstarted::Lacks("no place".to_string()))?);
                Ok(Held(self))
            };
            self.line.start(&ctx, start).await
        }
    }

    #[test]
    async fn attempts_wait_in_their_order_and_begin_as_others_end() {
        let bench = Bench::new(2);
        let (one, two) = (bench.start().await.unwrap(), bench.start().await.unwrap());
        let order = Mutex::new(Vec::new());
        let waiting = |number: u32| {
            let (bench, order) = (&bench, &order);
            async move {
                let started = bench.start().await.unwrap();
                order.lock().unwrap().push(number);
                drop(started);
            }
        };
        let end = async {
            tokio::task::yield_now().await;
            assert_eq!((bench.tries.get(), order.lock().unwrap().len()), (3, 0));
            drop(two);
        };
        tokio::join!(waiting(1), waiting(2), waiting(3), end);
        assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
        // One tried in vain before the others stood in line, and none after that.
        assert_eq!((bench.tries.get(), bench.left.get()), (6, 1));
        drop(one);
    }

    #[test]
    async fn an_attempt_does_not_wait_in_line_when_no_action_runs() {
        let bench = Bench::new(0);
        let failure = bench.start().await.map(drop).unwrap_err();
        assert_eq!((failure.snooze, failure.message.as_str()), (Some(PAUSE), "no place"));
    }

    #[test]
    async fn each_time_people_are_told_one_attempt_is_snoozed_with_the_reason() {
        let mut bench = Bench::new(1);
        bench.line.lacking = Lacking::default();
        let _one = bench.start().await.unwrap();
        let failure = bench.start().await.map(drop).unwrap_err();
        assert_eq!((failure.snooze, failure.message.as_str()), (Some(PAUSE), "no place"));
        tokio::select! {
            biased;
            _ = bench.start() => panic!("it was told already, and there is no place"),
            () = tokio::task::yield_now() => {}
        }
    }

    #[test]
    async fn an_attempt_that_is_told_to_end_leaves_the_line_uncounted_and_the_next_one_moves_up() {
        let bench = Bench::new(1);
        let one = bench.start().await.unwrap();
        let told = async { bench.start().await.map(drop).unwrap_err() };
        let tell = async {
            tokio::task::yield_now().await;
            bench.host.told.send_replace(true);
        };
        let (failure, ()) = tokio::join!(told, tell);
        assert_eq!((failure.kind, failure.snooze), (Kind::Error, Some(PAUSE)));
        bench.host.told.send_replace(false);
        let (next, ()) = tokio::join!(bench.start(), async {
            tokio::task::yield_now().await;
            drop(one);
        });
        assert!(next.is_ok());
    }

    #[test]
    async fn an_attempt_that_waits_is_alive_and_does_not_use_up_its_timeout() {
        let mut bench = Bench::new(1);
        bench.time = Some(Duration::from_millis(10));
        let _one = bench.start().await.unwrap();
        let failure = bench.start().await.map(drop).unwrap_err();
        assert_eq!(failure.snooze, Some(PAUSE));
        assert!(failure.message.contains("its timeout allows no more"), "{failure}");
        assert!(bench.host.signs.load(Ordering::Relaxed) > 0);
        assert_eq!(*bench.host.heard.lock().unwrap(), [] as [Value; 0]);
    }
}
