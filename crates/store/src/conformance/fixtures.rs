//! Rows and steps to test with, so that a test reads like what it says.

use std::sync::Arc;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::event::{ActivityScheduled, RunStarted};
use resurgam_core::{CallKey, Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, Uid};

use crate::rows::{
    ActionRequest, ActionRow, AttemptOutcome, AttemptRow, Claim, InstanceRow, KvRow, Message,
    MessageRow, PolicyRow, Progress, Status, TaskRow,
};
use crate::{
    ChildStart, DeadLetter, Error, InstanceWrite, LetterState, MessageWrite, Replaces, Step,
    StepResult, Store, TaskWrite,
};

/// The policy that every task of the suite names.
pub(super) const POLICY: &str = "4ce1d1";

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) fn uid(number: u128) -> Uid {
    // Spread over all sixteen bytes, so that a store that cuts some off is found out.
    Uid(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

pub(super) fn run(number: u128) -> RunKey {
    RunKey::first(uid(number))
}

pub(super) fn call(number: u128, seq: u64) -> CallKey {
    run(number).call(Seq(seq))
}

pub(super) fn json(text: &str) -> Payload {
    Payload::from_text(text)
}

/// A running instance, created at its number of seconds.
pub(super) fn instance(number: u128, id: &str) -> InstanceRow {
    let created_at = at(1_000 * i64::try_from(number).unwrap());
    InstanceRow::new(uid(number), id, "fulfil", json(r#"{"order":42}"#), created_at)
}

pub(super) fn event(seq: u64, kind: EventKind) -> Event {
    Event { seq: Seq(seq), at: at(1_000 + seq.cast_signed()), kind }
}

pub(super) fn started() -> EventKind {
    EventKind::RunStarted(RunStarted::new("fulfil", json(r#"{"order":42}"#), u64::MAX))
}

pub(super) fn scheduled() -> EventKind {
    EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".to_string(),
        input: json(r#"{"cents":700}"#),
        queue: "payments".to_string(),
        compensates: None,
    })
}

pub(super) fn status_set(text: &str) -> EventKind {
    EventKind::StatusSet { value: Payload::encode(text).unwrap() }
}

/// A task that waits and is due at 0.
pub(super) fn task(call: CallKey) -> TaskRow {
    TaskRow {
        call,
        name: "charge".to_string(),
        queue: "payments".to_string(),
        gate: "gateway".to_string(),
        priority: 0,
        policy: POLICY.to_string(),
        attempt: 0,
        wake_at: at(0),
        deadline_at: None,
        claim: None,
        progress: Progress { v: 1, ..Progress::default() },
        heartbeat: None,
    }
}

pub(super) fn claim(node: &str) -> Option<Claim> {
    Some(Claim { node: node.to_string(), token: 7, started_at: at(5) })
}

/// An attempt that failed, begun and ended at its number.
pub(super) fn failed_attempt(call: CallKey, attempt: u32) -> AttemptRow {
    AttemptRow {
        call,
        name: "charge".to_string(),
        attempt,
        outcome: AttemptOutcome::Failed,
        started_at: at(i64::from(attempt)),
        ended_at: at(i64::from(attempt)),
        failure: Some(Failure::of_type("GatewayDown", "no answer")),
        delay_ms: Some(200),
        why: "exponential".to_string(),
    }
}

/// A call that was given up at this time.
pub(super) fn letter(call: CallKey, time: i64) -> DeadLetter {
    DeadLetter {
        call,
        instance: "order-1".to_string(),
        workflow: "order".to_string(),
        activity: "charge".to_string(),
        queue: "default".to_string(),
        gate: "stripe".to_string(),
        policy: "policy-1".to_string(),
        input: json("[1]"),
        failure: Failure::of_type("GatewayDown", "no answer"),
        why: "max_attempts".to_string(),
        attempts: 1,
        ledger: vec![failed_attempt(call, 1)],
        at: at(time),
        fingerprint: "1:0123456789ab".to_string(),
        error: "GatewayDown: no answer".to_string(),
        state: LetterState::Open,
        settled: None,
    }
}

/// A retry of a call that somebody asked for, carried out at this time.
pub(super) fn action(number: u128, seq: u64, id: &str, time: i64) -> ActionRow {
    ActionRow {
        call: call(number, seq),
        at: at(time),
        request: ActionRequest {
            id: id.to_string(),
            by: "ana".to_string(),
            reason: None,
            action: Action::Retry { reset: false, due: None },
        },
        answer: ActionAnswer::done(format!("retried charge#{seq} now")),
    }
}

pub(super) fn signal(number: u128, id: &str, due_at: i64) -> MessageRow {
    let body = Message::Signal { name: "paid".to_string(), value: Payload::encode(id).unwrap() };
    MessageRow { uid: uid(number), id: id.to_string(), due_at: at(due_at), body }
}

pub(super) fn timer(run: RunKey, timer: u64) -> MessageRow {
    MessageRow {
        uid: run.uid,
        id: format!("timer-{}-{timer}", run.run),
        due_at: at(timer.cast_signed()),
        body: Message::Timer { run: run.run, timer: Seq(timer) },
    }
}

/// A step that starts an instance and writes its first event.
pub(super) fn start(number: u128, id: &str) -> Step {
    start_of(instance(number, id))
}

/// A step that starts this instance and writes its first event.
pub(super) fn start_of(row: InstanceRow) -> Step {
    let run = RunKey { uid: row.uid, run: row.run };
    let insert = InstanceWrite::Insert { row: Box::new(row), replaces: Replaces::Nobody };
    Step { instance: Some(insert), ..Step::default() }.event(run, event(1, started()))
}

/// A step that closes an instance.
pub(super) fn close(number: u128) -> Step {
    set_status(number, Status::Completed)
}

/// A step that changes an instance's status.
pub(super) fn set_status(number: u128, status: Status) -> Step {
    let closed = status.is_closed();
    let write = InstanceWrite::Status {
        uid: uid(number),
        status,
        outcome: closed.then(|| json("\"done\"")),
        compensation: None,
        error: None,
        closed_at: closed.then(|| at(9_000)),
    };
    Step { instance: Some(write), ..Step::default() }
}

/// A step that is only written when this instance is open.
pub(super) fn if_open(number: u128) -> Step {
    Step {
        instance: Some(InstanceWrite::Open { uid: uid(number), signals_below: None }),
        ..Step::default()
    }
}

pub(super) fn step() -> Step {
    Step::default()
}

impl Step {
    /// Lets a start take over the id of a closed instance.
    pub(super) fn replacing_closed(mut self) -> Self {
        if let Some(InstanceWrite::Insert { replaces, .. }) = &mut self.instance {
            *replaces = Replaces::Closed;
        }
        self
    }

    pub(super) fn event(mut self, run: RunKey, event: Event) -> Self {
        self.events.push((run, event));
        self
    }

    pub(super) fn insert(mut self, task: TaskRow) -> Self {
        self.tasks.push(TaskWrite::Insert(task));
        self
    }

    pub(super) fn update(mut self, task: TaskRow) -> Self {
        self.tasks.push(TaskWrite::Update(task));
        self
    }

    pub(super) fn delete(mut self, call: CallKey) -> Self {
        self.tasks.push(TaskWrite::Delete(call));
        self
    }

    pub(super) fn delete_all(mut self, run: RunKey) -> Self {
        self.tasks.push(TaskWrite::DeleteAll(run));
        self
    }

    pub(super) fn send(mut self, message: MessageRow) -> Self {
        self.messages.push(MessageWrite::Insert(message));
        self
    }

    pub(super) fn send_if_open(mut self, message: MessageRow) -> Self {
        self.messages.push(MessageWrite::InsertIfOpen(message));
        self
    }

    pub(super) fn receive(mut self, uid: Uid, id: &str) -> Self {
        self.messages.push(MessageWrite::Delete { uid, id: id.to_string() });
        self
    }

    pub(super) fn defer(mut self, number: u128, id: &str) -> Self {
        self.messages.push(MessageWrite::Defer { uid: uid(number), id: id.to_string() });
        self
    }

    pub(super) fn delete_messages_of(mut self, run: RunKey) -> Self {
        self.messages.push(MessageWrite::DeleteRun(run));
        self
    }

    pub(super) fn park(mut self, number: u128) -> Self {
        self.messages.push(MessageWrite::Park(uid(number)));
        self
    }

    pub(super) fn unpark(mut self, number: u128) -> Self {
        self.messages.push(MessageWrite::Unpark(uid(number)));
        self
    }

    pub(super) fn child_starts(
        mut self,
        child_starts: impl IntoIterator<Item = ChildStart>,
    ) -> Self {
        self.child_starts.extend(child_starts);
        self
    }

    pub(super) fn attempt(mut self, row: AttemptRow) -> Self {
        self.attempts.push(row);
        self
    }

    pub(super) fn policy(mut self, hash: &str, text: &str) -> Self {
        self.policies.push(PolicyRow { hash: hash.to_string(), text: text.to_string() });
        self
    }

    pub(super) fn put(mut self, number: u128, key: &str, value: Payload) -> Self {
        self.kv.push(KvRow { uid: uid(number), key: key.to_string(), value });
        self
    }
}

/// Commits a batch that the store must take.
pub(super) async fn commit(store: &dyn Store, batch: impl Into<Arc<[Step]>>) -> Vec<StepResult> {
    store.commit(batch.into()).await.unwrap()
}

/// Commits steps of which every one must be written.
pub(super) async fn write(store: &dyn Store, batch: impl Into<Arc<[Step]>>) {
    let results = commit(store, batch).await;
    assert!(results.iter().all(|result| *result == StepResult::Written), "{results:?}");
}

/// Commits a batch that the store must refuse because of its data.
pub(super) async fn refused(store: &dyn Store, batch: impl Into<Arc<[Step]>>) -> Error {
    let error = store.commit(batch.into()).await.unwrap_err();
    assert!(error.is_data(), "{error}");
    error
}
