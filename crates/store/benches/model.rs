//! How many batches and reads a model answers in a second, with many instances in it:
//! `cargo bench -p resurgam-store`.

use std::time::Instant;

use resurgam_core::event::{ActivityCompleted, ActivityScheduled};
use resurgam_core::{CallKey, Event, EventKind, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_store::model::{Model, ShardSet, Sharing};
use resurgam_store::rows::{Claim, InstanceRow, Progress, TaskRow};
use resurgam_store::{InstanceWrite, Replaces, Result, Runnable, Step, TaskWrite};

/// How many instances there are.
const INSTANCES: u128 = 10_000;

/// How many calls are made.
const CALLS: u32 = 100_000;

fn main() -> Result<()> {
    let mut model = Model::new(Sharing::ManyNodes);
    measure("starts", INSTANCES as u32, || {
        (1..=INSTANCES).try_for_each(|number| model.commit(&[start(Uid(number << 64))]).map(drop))
    })?;
    measure("calls of two batches and a read of what is due", CALLS, || {
        (0..CALLS).try_for_each(|_| call(&mut model))
    })?;
    measure("refused batches", CALLS, || {
        let blamed = Step { tasks: vec![TaskWrite::Delete(NO_CALL)], ..Step::default() };
        let batch = [start(Uid(7)), blamed];
        (0..CALLS).for_each(|_| drop(model.commit(&batch).expect_err("there is no such task")));
        Ok(())
    })
}

/// A call that nobody makes.
const NO_CALL: CallKey = RunKey::first(Uid(0)).call(Seq(1));

fn measure(what: &str, count: u32, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    work()?;
    let each = begin.elapsed() / count;
    println!("{what}: {each:?} each, {:.0} a second", 1.0 / each.as_secs_f64());
    Ok(())
}

/// Starts an instance with a call that waits.
fn start(uid: Uid) -> Step {
    let id = format!("order-{uid}");
    let row = InstanceRow::new(uid, id, "fulfil", Payload::null(), Timestamp::EPOCH);
    let call = RunKey::first(uid).call(Seq(1));
    Step {
        instance: Some(InstanceWrite::Insert { row: Box::new(row), replaces: Replaces::Nobody }),
        events: vec![(call.run, scheduled(call.seq))],
        tasks: vec![TaskWrite::Insert(task(call, None))],
        ..Step::default()
    }
}

/// Finds a call that is due, claims it, and lets the next one of its run follow.
fn call(model: &mut Model) -> Result<()> {
    let now = Timestamp::from_millis(1_000_000_000);
    let due = model.due_tasks(ShardSet::ALL, &Runnable::default(), now, 16);
    let Some(call) = due.first().map(|task| task.call) else { return Ok(()) };
    let claim = Claim { node: "node".to_string(), token: 7, started_at: now };
    let claimed = TaskWrite::Update(task(call, Some(claim)));
    model.commit(&[Step { tasks: vec![claimed], ..Step::default() }])?;
    let completed = EventKind::ActivityCompleted(ActivityCompleted {
        activity: call.seq,
        result: Payload::null(),
        attempt: 1,
        started_at: now,
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    });
    let done = call.seq.next();
    let next = call.run.call(done.next());
    let step = Step {
        events: vec![
            (call.run, Event { seq: done, at: now, kind: completed }),
            (call.run, scheduled(next.seq)),
        ],
        tasks: vec![TaskWrite::Delete(call), TaskWrite::Insert(task(next, None))],
        ..Step::default()
    };
    model.commit(&[step]).map(drop)
}

fn scheduled(seq: Seq) -> Event {
    let kind = EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".to_string(),
        input: Payload::null(),
        queue: "default".to_string(),
        compensates: None,
    });
    Event { seq, at: Timestamp::EPOCH, kind }
}

/// A task that is due in the order of calls.
fn task(call: CallKey, claim: Option<Claim>) -> TaskRow {
    TaskRow {
        call,
        name: "charge".to_string(),
        queue: "default".to_string(),
        gate: "charge".to_string(),
        priority: 0,
        policy: "p".to_string(),
        attempt: 0,
        wake_at: Timestamp::from_millis(call.seq.0.cast_signed()),
        deadline_at: None,
        claim,
        progress: Progress::default(),
        heartbeat: None,
    }
}
