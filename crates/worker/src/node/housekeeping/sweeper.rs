//! When a node deletes next what has stayed long enough, and counts the calls that are paused
//! ([`Sweeper`]). How it does so is in `retention.rs`.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_store::{Step, TaskWrite};

/// How soon paused calls and dead letters are counted when their number may have changed.
const COUNTED: Duration = Duration::from_secs(60);

/// What an engine knows about what is to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pub(super) next: Option<Timestamp>,
    pub(super) is_sweeping: bool,
    /// Calls of this node were paused when they were last counted.
    pub(super) has_paused: bool,
    /// There were dead letters when they were last counted.
    pub(super) has_letters: bool,
}

impl Sweeper {
    /// When to sweep next, unless that is being done.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.is_sweeping)
    }

    /// These steps are written: calls may be paused from then on, or go on, and dead letters may be
    /// kept or settled.
    pub(crate) fn hear_of(&mut self, steps: &[Step], now: Timestamp) {
        let is_paused = |write: &TaskWrite| match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                row.progress.paused.is_some()
            }
            TaskWrite::Delete(_) | TaskWrite::Discard(_) | TaskWrite::DeleteAll(_) => false,
        };
        let mut tasks = steps.iter().flat_map(|step| &step.tasks);
        let letters = steps.iter().any(|step| !step.letters.is_empty());
        if letters || tasks.any(|write| self.has_paused || is_paused(write)) {
            self.not_later_than(now.saturating_add(COUNTED));
        }
    }

    /// Another process has written something: it may have decided about letters.
    pub(crate) fn others_committed(&mut self, now: Timestamp) {
        if self.has_letters {
            self.not_later_than(now.saturating_add(COUNTED));
        }
    }

    /// Something is to be deleted, or counted, then or before.
    pub(crate) fn not_later_than(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |known| known.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use resurgam_core::{RunKey, Seq, Uid};
    use resurgam_store::rows::{Pause, Progress, TaskRow};
    use resurgam_store::{LetterState, LetterWrite, Settled};
    use resurgam_watchdog::test;

    use super::*;

    fn written(is_paused: bool) -> [Step; 1] {
        let paused = is_paused.then(|| Box::new(Pause::default()));
        let task = TaskRow {
            call: RunKey::first(Uid(1)).call(Seq(2)),
            name: "charge".to_string(),
            queue: "default".to_string(),
            gate: "charge".to_string(),
            priority: 0,
            policy: String::new(),
            attempt: 1,
            wake_at: Timestamp::EPOCH,
            deadline_at: None,
            claim: None,
            progress: Progress { paused, ..Progress::default() },
            heartbeat: None,
        };
        [Step { tasks: vec![TaskWrite::Update(task)], ..Step::default() }]
    }

    #[test]
    fn paused_calls_are_counted_soon_after_their_number_may_have_changed_and_at_no_other_time() {
        let (now, soon) = (Timestamp::from_millis(5), Timestamp::from_millis(60_005));
        let mut sweeper = Sweeper::default();
        sweeper.hear_of(&written(false), now);
        assert_eq!(sweeper.next(), None, "none is paused");
        sweeper.hear_of(&written(true), now);
        assert_eq!(sweeper.next(), Some(soon));
        sweeper.hear_of(&written(true), soon);
        assert_eq!(sweeper.next(), Some(soon), "a minute after the first of them");

        let mut sweeper = Sweeper::default();
        let call = RunKey::first(Uid(1)).call(Seq(2));
        let settled = Settled { at: now, by: String::new(), reason: None, redriven_as: None };
        let settles = LetterWrite::Settle { call, state: LetterState::Discarded, settled };
        let step = Step { letters: vec![settles], ..Step::default() };
        sweeper.hear_of(&[step], now);
        assert_eq!(sweeper.next(), Some(soon), "letters are counted again");

        let mut sweeper = Sweeper::default();
        sweeper.others_committed(now);
        assert_eq!(sweeper.next(), None, "there are no letters to decide about");
        sweeper.has_letters = true;
        sweeper.others_committed(now);
        assert_eq!(sweeper.next(), Some(soon), "somebody may have settled one");

        let mut sweeper = Sweeper { has_paused: true, ..Sweeper::default() };
        sweeper.hear_of(&[Step::default()], now);
        assert_eq!(sweeper.next(), None, "nothing was done to a call");
        sweeper.hear_of(&written(false), now);
        assert_eq!(sweeper.next(), Some(soon), "one of them may go on");
    }
}
