//! What is known about the instance of a run in memory.

use std::time::Duration;

use resurgam_core::command::Settings;
use resurgam_core::event::{Chain, RunStarted};
use resurgam_core::{CallKey, Payload, Timestamp};
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
            input: Some(row.input.clone()),
        }
    }

    /// True when the time of the whole instance leaves room for this delay.
    pub(crate) fn has_time(&self, delay: Duration, at: Timestamp) -> bool {
        let total = self.settings.total_timeout_ms.map(Duration::from_millis);
        let end = total.map(|total| self.chain.began.unwrap_or(at).saturating_add(total));
        end.is_none_or(|end| at.saturating_add(delay) < end)
    }
}
