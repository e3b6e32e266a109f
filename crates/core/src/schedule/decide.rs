//! Decides what a schedule does now.
//!
//! The loop around it is: wait until [`Decision::wake_at`] or until the last instance closes, call
//! [`decide`], and in one commit start the instances of [`Decision::start`] and keep
//! [`Decision::state`]. Nothing is lost if that commit fails: the same call with the same arguments
//! decides the same.
//!
//! A decision is cheap after ten years of downtime too: firings that passed are counted without
//! going through them, and at most [`BATCH`] are started at once.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::options::{CheckedSchedule, Overlap};
use crate::Timestamp;
use crate::config::{Problem, Problems};

/// The most instances one decision starts. When there are more, it asks to be called again at
/// once.
pub const BATCH: usize = 1_000;

/// What a schedule remembers. Stored beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Every firing up to this nominal time has been decided.
    pub decided: Timestamp,
    /// The nominal time of a firing that waits until the last instance closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffered: Option<Timestamp>,
    /// The nominal time of the last instance that was started. Overlap is judged on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// How many instances were started.
    #[serde(default)]
    pub started: u64,
    /// How many firings came while the engine was down for longer than the catch-up window.
    #[serde(default)]
    pub missed: u64,
    /// How many firings came while the last instance was open.
    #[serde(default)]
    pub skipped: u64,
}

impl State {
    /// A schedule that begins now: the first firing is the next one.
    pub const fn new(now: Timestamp) -> Self {
        State { decided: now, buffered: None, last: None, started: 0, missed: 0, skipped: 0 }
    }

    /// Forgets the firings up to now, without counting them: for a schedule that is resumed, or
    /// whose rule was changed.
    pub fn forget_until(self, now: Timestamp) -> Self {
        State { decided: self.decided.max(now), ..self }
    }

    /// Notes that an instance was started for this nominal time.
    pub fn start(&mut self, nominal: Timestamp) {
        self.last = Some(nominal);
        self.started = self.started.saturating_add(1);
    }

    /// The form that is stored: versioned, and read leniently.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(&StoredState { v: 1, state: self.clone() })
            .expect("a state holds nothing that JSON cannot")
    }

    /// Reads the stored form, also of a newer version: what it does not know, it ignores.
    ///
    /// ```
    /// use resurgam_core::Timestamp;
    /// use resurgam_core::schedule::State;
    ///
    /// let state = State::new(Timestamp::from_millis(5));
    /// assert_eq!(State::from_stored(&state.to_stored()), Ok(state));
    /// ```
    pub fn from_stored(text: &str) -> Result<Self, Problems> {
        let unreadable =
            |error| Problem::new("", format!("the stored state of a schedule: {error}"));
        let stored: StoredState = serde_json::from_str(text).map_err(unreadable)?;
        Ok(stored.state)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredState {
    v: u32,
    #[serde(flatten)]
    state: State,
}

/// What to do, and what to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Start an instance for each of these nominal times, in this order.
    pub start: Vec<Timestamp>,
    /// How many firings were missed, newly.
    pub missed: u64,
    /// How many firings were skipped because the last instance was open, newly.
    pub skipped: u64,
    /// What to store. The same as before when there was nothing to decide.
    pub state: State,
    /// When to decide again; also decide when the last instance closes and one is buffered.
    /// `None`: it is paused, or never fires again.
    pub wake_at: Option<Timestamp>,
}

/// Decides what a schedule does now. `last_open` says whether the instance of [`State::last`] is
/// still open.
///
/// | what came due | last instance open | does |
/// |---|---|---|
/// | more than `catch_up` ago | either | missed |
/// | a firing | no | starts |
/// | a firing, overlap `allow` | yes | starts |
/// | a firing, overlap `buffer_one`, none buffered | yes | is buffered |
/// | any other firing | yes | skipped |
/// | the last instance closed, one is buffered | no | the buffered one starts |
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::schedule::{decide, Rule, Schedule, State};
/// use std::time::Duration;
///
/// let poll = Schedule::new("poll", Rule::every(Duration::from_secs(60))).check()?;
/// let minute = |n: i64| Timestamp::from_millis(n * 60_000);
/// // Down for an hour and back half a minute after the 60th.
/// let now = minute(60).saturating_add(Duration::from_secs(30));
/// let decision = decide(&poll, &State::new(minute(0)), now, false);
/// assert_eq!(decision.start, [minute(60)]);
/// assert_eq!(decision.missed, 59);
/// assert_eq!(decision.wake_at, Some(minute(61)));
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
pub fn decide(
    schedule: &CheckedSchedule,
    state: &State,
    now: Timestamp,
    last_open: bool,
) -> Decision {
    decide_at_most(schedule, state, now, last_open, BATCH)
}

/// Decides what a schedule does now, starting at most this many instances, and at least one: what
/// is not started now is decided by the next call, for which it asks at once. For arguments so
/// large that fewer than [`BATCH`] fit one commit.
pub fn decide_at_most(
    schedule: &CheckedSchedule,
    state: &State,
    now: Timestamp,
    last_open: bool,
    most: usize,
) -> Decision {
    let mut decision = Decision::nothing(state);
    if schedule.paused {
        return decision;
    }
    let mut open = last_open;
    if !open && let Some(nominal) = decision.state.buffered.take() {
        decision.start(nominal);
        open = true;
    }
    decision.miss(schedule, now);
    while decision.start.len() < most.clamp(1, BATCH) {
        let Some(nominal) = schedule.next(decision.state.decided) else {
            return decision;
        };
        let due = schedule.due_at(nominal);
        if due > now {
            decision.wake_at = Some(due);
            return decision;
        }
        decision.state.decided = nominal;
        match schedule.overlap {
            _ if !open => decision.start(nominal),
            Overlap::Allow => decision.start(nominal),
            Overlap::BufferOne if decision.state.buffered.is_none() => {
                decision.state.buffered = Some(nominal);
            }
            Overlap::Skip | Overlap::BufferOne => decision.skip(schedule, now),
        }
        open = true;
    }
    decision.wake_at = Some(now);
    decision
}

impl Decision {
    fn nothing(state: &State) -> Self {
        Decision { start: Vec::new(), missed: 0, skipped: 0, state: state.clone(), wake_at: None }
    }

    fn start(&mut self, nominal: Timestamp) {
        self.start.push(nominal);
        self.state.start(nominal);
    }

    /// Counts what was due before the catch-up window began.
    fn miss(&mut self, schedule: &CheckedSchedule, now: Timestamp) {
        let too_late = now.saturating_sub(schedule.catch_up + Duration::from_millis(1));
        if let Some((count, last)) = schedule.passed(self.state.decided, too_late) {
            self.state.decided = last;
            self.missed += count;
            self.state.missed = self.state.missed.saturating_add(count);
        }
    }

    /// Counts the firing just decided and all others that are due: none of them can start.
    fn skip(&mut self, schedule: &CheckedSchedule, now: Timestamp) {
        let mut skipped = 1;
        if let Some((count, last)) = schedule.passed(self.state.decided, now) {
            self.state.decided = last;
            skipped += count;
        }
        self.skipped += skipped;
        self.state.skipped = self.state.skipped.saturating_add(skipped);
    }
}
