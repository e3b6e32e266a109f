//! What is known about the instance of a run in memory.

use std::time::Duration;

use resurgam_core::command::Settings;
use resurgam_core::event::{Chain, Lineage, RunStarted};
use resurgam_core::{CallKey, Payload, RunKey, Seq, Timestamp};
use resurgam_store::rows::InstanceRow;

/// What an engine knows about the instance of a run in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceInfo {
    pub(super) parent: Option<CallKey>,
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) settings: Settings,
    /// The schedule that started it.
    pub(super) schedule: Option<String>,
    pub(super) workflow: String,
    pub(super) chain: Chain,
    /// What it has of runs that were reset.
    pub(super) lineage: Box<Lineage>,
    /// How long its timeouts stood still because it was paused.
    stood_still: Duration,
    /// The argument, with which a run that fails or snoozes is tried again.
    pub(super) input: Option<Payload>,
}

impl InstanceInfo {
    pub(crate) fn new(row: &InstanceRow, started: &RunStarted) -> Self {
        InstanceInfo {
            parent: row.parent,
            queue: row.queue.clone(),
            priority: row.priority,
            settings: row.settings.clone(),
            chain: started.chain.clone(),
            schedule: row.schedule.clone(),
            workflow: row.workflow.clone(),
            lineage: started.lineage.clone(),
            stood_still: row.pause.stood_still(),
            input: Some(row.input.clone()),
        }
    }

    /// The run in which the event of this place of a run happened: another one, when that was
    /// reset.
    pub(crate) fn key_of(&self, run: RunKey, seq: Seq) -> RunKey {
        RunKey { run: self.lineage.run_of(run.run, seq), ..run }
    }

    /// When the time of the whole instance ends, if it has one. `began` is when it was started.
    pub(crate) fn total_end(&self, began: Timestamp) -> Option<Timestamp> {
        let total = self.settings.total_timeout_ms.map(Duration::from_millis)?;
        Some(began.saturating_add(total).saturating_add(self.stood_still))
    }

    /// True when the time of the whole instance leaves room for this delay.
    pub(crate) fn has_time(&self, delay: Duration, at: Timestamp) -> bool {
        let end = self.total_end(self.chain.began.unwrap_or(at));
        end.is_none_or(|end| at.saturating_add(delay) < end)
    }
}
