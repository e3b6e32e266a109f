//! What can be set about an engine. The defaults are written here and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::gate::{Gate, KeyPattern};
use resurgam_core::retry::RetryPolicy;

use crate::retention::Retention;

/// What can be set about an engine.
///
/// ```
/// use resurgam_worker::Options;
///
/// let options = Options { slots: 10, ..Options::default() };
/// assert_eq!(options.max_open_calls, 10_000);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether this process works on the store, or only asks others to.
    pub work: bool,
    /// The policy of activities that name none.
    pub retry: RetryPolicy,
    /// How many attempts run at once.
    pub slots: usize,
    /// How many of them may be attempts of a queue, where it is to have fewer.
    pub queue_slots: BTreeMap<String, usize>,
    /// The queues whose attempts run in this process; all with `None`.
    pub queues: Option<Arc<[String]>>,
    /// What calls may need and this process has, in the words of `ActivityDefinition::lacking`: it
    /// takes calls that were found to lack it, here before a restart or in other processes. Without
    /// it such calls go on waiting, also in a process whose activities lack nothing any more.
    pub provides: Arc<[String]>,
    /// How many runs are kept in memory while nothing happens to them.
    pub hot_runs: usize,
    /// Whether timeouts end attempts. Without it a debugger can stop in an activity.
    pub attempt_timeouts: bool,
    /// How long attempts may go on when the engine stops.
    pub grace: Duration,
    /// The largest value, in bytes.
    pub max_payload: usize,
    /// The longest history, in events.
    pub max_history: u64,
    /// A history of more events than this is worth a warning.
    pub long_history: u64,
    /// The most activity calls that a run has open at once.
    pub max_open_calls: usize,
    /// The most bytes that the arguments of those calls have together.
    pub max_open_input: usize,
    /// The most signals of a run that nobody has read.
    pub max_unread_signals: usize,
    /// The most rows of one transaction. What one turn asks for beyond them is written in several.
    pub max_batch_rows: usize,
    /// The most bytes of one transaction, as with rows.
    pub max_batch_bytes: usize,
    /// How far ahead due times are kept in memory.
    pub horizon: Duration,
    /// How long closed instances stay.
    pub retention: Retention,
    /// How long the ids of rows of the inbox are remembered.
    pub inbox_memory: Duration,
    /// The settings of gates, by key or by what keys begin with.
    pub gates: Vec<(KeyPattern, Gate)>,
    /// How many calls a bulk job asks for in one commit, at most.
    pub bulk_page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            work: true,
            retry: RetryPolicy::DEFAULT,
            slots: 1_000,
            queue_slots: BTreeMap::new(),
            queues: None,
            provides: Arc::new([]),
            hot_runs: 20_000,
            attempt_timeouts: true,
            grace: Duration::from_secs(10),
            max_payload: 2 << 20,
            max_history: 50_000,
            long_history: 10_000,
            max_open_calls: 10_000,
            max_open_input: 64 << 20,
            max_unread_signals: 10_000,
            max_batch_rows: 5_000,
            max_batch_bytes: 8 << 20,
            horizon: Duration::from_secs(60),
            retention: Retention::default(),
            inbox_memory: Duration::from_secs(7 * 86_400),
            gates: Vec::new(),
            bulk_page: 100,
        }
    }
}
