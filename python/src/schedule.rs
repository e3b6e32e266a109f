//! Schedules: workflows that start by the clock.

use pyo3::prelude::*;
use resurgam::{Client, Payload, ScheduleDescription, Timestamp};
use resurgam_core::schedule::Schedule;
use resurgam_worker::{NewSchedule, ScheduledStart};
use serde_json::{Value, json};

use crate::app::App;
use crate::ask::{spawn, told, value};
use crate::attempt::seconds;
use crate::settings::{Given, mistake};

fn described(found: &ScheduleDescription) -> Value {
    json!({
        "id": found.id,
        "workflow": found.workflow,
        "paused": found.paused,
        "error": found.error,
        "next": found.next.iter().copied().map(seconds).collect::<Vec<f64>>(),
        "last": found.last,
        "last_open": found.last_open,
        "started": found.started,
        "missed": found.missed,
        "skipped": found.skipped,
    })
}

#[pymethods]
impl App {
    /// Creates a schedule from its JSON form.
    #[pyo3(signature = (token, schedule, workflow, input, options, replace))]
    fn schedule(
        &self,
        token: u64,
        schedule: &str,
        workflow: String,
        input: &str,
        options: Option<&str>,
        replace: bool,
    ) -> PyResult<()> {
        let schedule = serde_json::from_str(schedule).map_err(mistake)?;
        let schedule = Schedule::from_value(&schedule).map_err(mistake)?;
        let given = Given::read(options)?;
        let mut start = ScheduledStart::default();
        start.settings = given.of_instance()?;
        start.queue = given.queue();
        start.priority = given.priority.unwrap_or(0);
        start.tags = given.tags.clone();
        let input = Payload::from_text(input);
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (schedule, workflow) = (schedule.clone(), workflow.clone());
                let (input, start) = (input.clone(), start.clone());
                let new = NewSchedule { schedule, workflow, input, start, replace };
                let client = client.clone();
                Box::pin(async move { client.handle().put_schedule(new).await })
            };
            let made = target.ask("create a schedule", ask).await;
            made.map(|()| None).map_err(|error| told(&error))
        });
        Ok(())
    }

    /// Pauses, resumes, fires or deletes a schedule.
    fn change_schedule(&self, token: u64, id: String, change: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id, change) = (client.clone(), id.clone(), change.clone());
                Box::pin(async move {
                    match change.as_str() {
                        "pause" => client.pause_schedule(&id).await.map(|()| None),
                        "resume" => client.resume_schedule(&id).await.map(|()| None),
                        "delete" => client.delete_schedule(&id).await.map(|()| None),
                        _ => client.run_schedule_now(&id).await.map(Some),
                    }
                })
            };
            let changed = target.ask(&format!("{change} a schedule"), ask).await;
            changed.map_err(|error| told(&error))
        });
    }

    /// Starts what a schedule would have started in a time, in milliseconds since 1970.
    fn backfill(&self, token: u64, id: String, from: i64, to: i64) {
        let target = self.target.clone();
        let (from, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move { client.backfill(&id, from, to).await })
            };
            value(target.ask("backfill a schedule", ask).await.map(Value::from))
        });
    }

    fn schedules(&self, token: u64) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let client = client.clone();
                Box::pin(async move { client.schedules().await })
            };
            let found = target.ask("list schedules", ask).await;
            value(found.map(|found| found.iter().map(described).collect()))
        });
    }
}
