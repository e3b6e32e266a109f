//! What was done to several nodes on one database, and what that explains.
//!
//! Nodes work at the same time, so how one of them ended says little about when. Here every kill
//! and every pause has its time: an attempt is lost through one of them or not at all. That the
//! server did not answer for a while explains nothing: nobody dies of it. That the machine was so
//! busy that a node got no time, or that the server answered late, explains a loss: a node that
//! cannot beat is rightly taken for dead.

use std::collections::HashMap;
use std::time::Duration;

/// How far the clocks of two nodes may be apart. Each follows the database's, which it hears some
/// time between the question and the answer, and a busy machine answers late.
pub(crate) const CLOCKS_MS: i64 = 1_000;

/// How many attempts a process may begin as it wakes although others have their work by now: one
/// for each of its threads, which was stopped after it had looked whether the attempt may begin. It
/// is a number and not a time, for nobody knows when a thread that may go on does so.
const ON_THE_VERGE: usize = 4;

/// The troubles of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    lease: Duration,
    troubles: Vec<Trouble>,
    /// When each process began attempts.
    begins: HashMap<u32, Vec<i64>>,
    /// When the machine was so busy that a process got no time, or as process 0 saw it, the server.
    slow: Vec<Trouble>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    process: u32,
    from: i64,
    until: i64,
}

impl Past {
    pub(crate) fn new(lease: Duration) -> Self {
        let (troubles, begins, slow) = (Vec::new(), HashMap::new(), Vec::new());
        Past { lease, troubles, begins, slow }
    }

    /// A process ends, in any way.
    pub(crate) fn ends(&mut self, process: u32, at: i64) {
        self.troubles.push(Trouble { process, from: at, until: i64::MAX });
    }

    /// A process stood still between these times.
    pub(crate) fn paused(&mut self, process: u32, from: i64, until: i64) {
        self.troubles.push(Trouble { process, from, until });
    }

    /// A process began an attempt.
    pub(crate) fn began(&mut self, process: u32, at: i64) {
        self.begins.entry(process).or_default().push(at);
    }

    /// A process got no time between these times; process 0 is the test, which waited for the
    /// server.
    pub(crate) fn slow(&mut self, process: u32, from: i64, until: i64) {
        self.slow.push(Trouble { process, from, until });
    }

    /// How long something takes at least that says that nodes may miss their beats: as long as one
    /// beat may take.
    pub(crate) fn slow_from(lease: Duration) -> Duration {
        lease / 4
    }

    /// When a process last looked whether it may begin what it began at a time: one that was
    /// stopped in between begins it as it wakes up, and cannot know.
    pub(crate) fn looked(&self, process: u32, began: i64) -> i64 {
        let begins = self.begins.get(&process).map_or(&[] as &[i64], Vec::as_slice);
        let begun_since =
            |from: i64| begins.iter().filter(|at| (from..began).contains(*at)).count();
        let woke = |trouble: &&Trouble| {
            trouble.process == process
                && trouble.until <= began
                && begun_since(trouble.until) < ON_THE_VERGE
        };
        self.troubles.iter().find(woke).map_or(began, |trouble| trouble.from)
    }

    /// True when an attempt that began in a process at a time may be found to be lost at another:
    /// the process had ended by then, or it had stood still for so long that it may have been taken
    /// for dead, or the machine had no time for it.
    pub(crate) fn explains_loss(&self, process: u32, began: i64, found: i64) -> bool {
        let lease = i64::try_from(self.lease.as_millis()).unwrap();
        let looked = self.looked(process, began);
        let mut of_process = self.troubles.iter().filter(|trouble| trouble.process == process);
        let stood_still = of_process.any(|trouble| {
            let long_enough = trouble.until - trouble.from > lease / 2;
            long_enough && looked <= trouble.until && trouble.from <= found + CLOCKS_MS
        });
        let was_busy = |slow: &Trouble| {
            // One that was stopped by the test got no time either.
            let was_stopped = |trouble: &Trouble| {
                trouble.process == slow.process
                    && trouble.from <= slow.until
                    && slow.from <= trouble.until
            };
            [0, process].contains(&slow.process)
                && slow.from <= found + CLOCKS_MS
                && found - 2 * lease <= slow.until
                && !self.troubles.iter().any(was_stopped)
        };
        stood_still || self.slow.iter().any(was_busy)
    }
}
