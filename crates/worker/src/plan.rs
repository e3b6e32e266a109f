//! A stored schedule, ready to decide: its texts read, and what it starts.
//!
//! The stored forms are versioned and read leniently; those of the rule and of the state are
//! `core`'s, that of the start is here.

use std::collections::BTreeMap;

use resurgam_core::Timestamp;
use resurgam_core::command::Settings;
use resurgam_core::schedule::{CheckedSchedule, Decision, Schedule, State};
use resurgam_store::rows::{InstanceRow, Message, MessageRow};
use resurgam_store::{ChildStart, Replaces, ScheduleRow};
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// How a schedule starts its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduledStart {
    /// Where activities run that name no queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Tasks of instances with a higher one go first.
    pub priority: i32,
    /// What people look the instances up by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// What holds for as long as an instance lives.
    pub settings: Settings,
}

/// A schedule that was read.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) schedule: CheckedSchedule,
    pub(crate) state: State,
    pub(crate) start: ScheduledStart,
}

impl Plan {
    /// Reads a stored schedule. The error says what cannot be read.
    pub(crate) fn read(row: &ScheduleRow) -> Result<Self, String> {
        let schedule = Schedule::from_stored(&row.rule).and_then(|schedule| schedule.check());
        let schedule = schedule.map_err(|error| error.to_string())?;
        let state = State::from_stored(&row.state).map_err(|error| error.to_string())?;
        let start = serde_json::from_str(&row.options)
            .map_err(|error| format!("how its instances are started: {error}"))?;
        Ok(Plan { schedule, state, start })
    }

    /// The instance that a firing starts, with the message that has the owner begin it.
    pub(crate) fn child_start(
        &self,
        row: &ScheduleRow,
        nominal: Timestamp,
        now: Timestamp,
        random: &mut Random,
    ) -> ChildStart {
        let id = self.schedule.instance_id(nominal);
        let uid = random.uid(&id, now);
        let mut instance = InstanceRow::new(uid, id, &row.workflow, row.input.clone(), now);
        let ScheduledStart { queue, priority, tags, settings } = self.start.clone();
        instance.queue = queue.unwrap_or(instance.queue);
        instance.priority = priority;
        instance.tags = tags;
        instance.settings = settings;
        instance.schedule = Some(row.id.clone());
        let start = MessageRow {
            uid,
            id: "start".to_string(),
            due_at: Timestamp::EPOCH,
            body: Message::Start,
        };
        ChildStart { row: instance, start, otherwise: None, replaces: Replaces::Nobody }
    }

    /// The row after a decision.
    pub(crate) fn decided(&self, row: &ScheduleRow, decision: &Decision) -> ScheduleRow {
        ScheduleRow {
            next_at: decision.wake_at,
            error: None,
            ..self.remembers(row, &decision.state)
        }
    }

    /// The row with another state.
    pub(crate) fn remembers(&self, row: &ScheduleRow, state: &State) -> ScheduleRow {
        ScheduleRow {
            state: state.to_stored(),
            waits: state.buffered.is_some() || row.error.is_some(),
            last: state.last.map(|nominal| self.schedule.instance_id(nominal)),
            ..row.clone()
        }
    }
}

/// The stored form of how instances are started.
pub(crate) fn stored_start(start: &ScheduledStart) -> String {
    serde_json::to_string(start).expect("a start holds nothing that JSON cannot")
}
