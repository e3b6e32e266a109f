//! Fills a store with calls that wait.
//!
//! The engine itself makes the first one: it runs until its first attempt has failed. What is in
//! the store then is copied, with other ids and other due times, through the store's own commits.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::{Event, EventKind, Payload, RunKey, Timestamp, Uid};
use resurgam_store::rows::{AttemptRow, InstanceRow, TaskRow};
use resurgam_store::{
    ByHand, GateWrite, HandState, InstanceWrite, Replaces, Step, StepResult, Store, TaskWrite,
};

use super::{Lags, builder, micros, patient};
use crate::Result;
use crate::bed::{Bed, Location, Place};
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many calls wait.
    #[arg(long)]
    pending: u64,
    /// How many of them become due soon.
    #[arg(long)]
    due: u64,
    /// How many of those in a second.
    #[arg(long)]
    rate: u64,
    /// The gate that all of them wait behind, due for a long time already; it is shut.
    #[arg(long)]
    gate: Option<String>,
    /// The schema, on PostgreSQL.
    #[arg(long)]
    schema: String,
    #[command(flatten)]
    bed: Bed,
}

/// How many instances are written at once: 5,000 rows.
const BATCH: u64 = 1_000;
/// When the first of those is due that are measured: the node is at work by then.
const LEAD: i64 = 5_000;
/// The due time of the call that the engine makes.
const TEMPLATE: i64 = 8_640_000_000_000;

/// What one call that waits has in the store.
struct Template {
    instance: InstanceRow,
    events: Vec<Event>,
    task: TaskRow,
    attempt: AttemptRow,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { pending, due, rate, gate, schema, bed } = arguments;
    let place = bed.at(schema);
    let mut template = Template::make(&place).await?;
    let store = place.store().await?;
    let shared = store.shared();
    let now = micros() / 1_000;
    if let Some(gate) = gate {
        template.task.gate.clone_from(&gate);
        shut(&*shared, gate).await?;
        let overdue = |number: u64| now - (pending - number).cast_signed();
        write(&*shared, &template, 1..pending, overdue).await?;
        settle(&place).await?;
        store.close().await;
        return Ok(());
    }

    // The last of all, and due for a long time already, is the one that shows when the node is at
    // work. The engine's own is one of the others.
    let soon = pending - 1 - due..pending - 1;
    let far = |number: u64| now + 3_600_000 + number.cast_signed() * 1_000;
    write(&*shared, &template, 1..soon.start, far).await?;
    settle(&place).await?;
    let first = micros() / 1_000 + LEAD;
    let near = |number: u64| first + ((number - soon.start) * 1_000 / rate).cast_signed();
    write(&*shared, &template, soon.clone(), near).await?;
    write(&*shared, &template, soon.end..pending, |_| now).await?;
    store.close().await;
    Ok(())
}

/// Shuts a gate as an operator does.
async fn shut(store: &dyn Store, key: String) -> Result<()> {
    let (state, by) = (HandState::Shut, "the benchmark".to_string());
    let hand = ByHand { state, by, reason: None, at: Timestamp::EPOCH, until: None };
    let step = Step { gates: vec![GateWrite::Hand { key, hand }], ..Step::default() };
    store.commit([step].into()).await?;
    Ok(())
}

/// Writes calls that are due when `due` says.
async fn write(
    store: &dyn Store,
    template: &Template,
    numbers: std::ops::Range<u64>,
    due: impl Fn(u64) -> i64,
) -> Result<()> {
    let mut next = numbers.start;
    while next < numbers.end {
        let end = numbers.end.min(next + BATCH);
        let batch: Arc<[Step]> =
            (next..end).map(|number| template.copy(number, due(number))).collect();
        let results = store.commit(batch).await?;
        if results.iter().any(|result| *result != StepResult::Written) {
            return Err("fill the store: somebody else uses it".into());
        }
        next = end;
    }
    Ok(())
}

/// A database that came to this size in its own time knows what is in its tables, and has written
/// them out. Not everybody may ask for that; then the server does it during the measurement.
async fn settle(place: &Place) -> Result<()> {
    if let Location::Postgres(url) = &place.location {
        server::run(url, "VACUUM ANALYZE").await?;
        if let Err(error) = server::run(url, "CHECKPOINT").await {
            eprintln!("the rows are not written out before the measurement: {error}");
        }
    }
    Ok(())
}

impl Template {
    /// Lets the engine make one.
    async fn make(place: &Place) -> Result<Self> {
        let opened = place.open(builder(Lags::default())).await?;
        opened.app.start("patient-0", patient(TEMPLATE)).await?;
        let store = opened.app.handle().store().clone();
        let instance = store.find("patient-0").await?.ok_or("fill the store: no instance")?;
        let run = RunKey::first(instance.uid);
        let task = loop {
            match store.tasks(run).await?.pop() {
                Some(task) if task.claim.is_none() && task.attempt == 1 => break task,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let attempt = store.attempts(run).await?.pop().ok_or("fill the store: no attempt")?;
        let events = store.history(run).await?;
        opened.close().await?;
        Ok(Template { instance, events, task, attempt })
    }

    /// Another one like it.
    fn copy(&self, number: u64, due: i64) -> Step {
        let id = format!("patient-{number}");
        let uid = Uid(self.instance.uid.0 + (u128::from(number) << 32)).placed(&id);
        let (run, call) = (RunKey::first(uid), RunKey::first(uid).call(self.task.call.seq));
        let delay_ms = u64::try_from(due - self.attempt.ended_at.as_millis()).unwrap_or(0);
        let events = self.events.iter().map(|event| (run, with_due(event, due))).collect();
        let input = dated(&self.instance.input, due);
        let mut task = TaskRow { call, ..self.task.clone() };
        task.wake_at = Timestamp::from_millis(due);
        task.progress.previous_delay_ms = Some(delay_ms);
        Step {
            instance: Some(InstanceWrite::Insert {
                row: InstanceRow { uid, id, input, ..self.instance.clone() }.into(),
                replaces: Replaces::Nobody,
            }),
            events,
            tasks: vec![TaskWrite::Insert(task)],
            attempts: vec![AttemptRow { call, delay_ms: Some(delay_ms), ..self.attempt.clone() }],
            ..Step::default()
        }
    }
}

/// The event with another due time in its argument.
fn with_due(event: &Event, due: i64) -> Event {
    let mut event = event.clone();
    match &mut event.kind {
        EventKind::RunStarted(started) => started.input = dated(&started.input, due),
        EventKind::ActivityScheduled(scheduled) => scheduled.input = dated(&scheduled.input, due),
        _ => {}
    }
    event
}

fn dated(payload: &Payload, due: i64) -> Payload {
    Payload::from_text(payload.as_str().replace(&TEMPLATE.to_string(), &due.to_string()))
}
