//! A node that holds the shards of calls which another node runs: what it makes of reports that
//! come at bad moments. Each of these faults was found by the simulator.

use resurgam_core::event::ActivityCompleted;
use resurgam_core::machine::SharedMachine;
use resurgam_core::retry::{Idempotency, Jitter, RetryPolicy};
use resurgam_core::{Seq, Shard};
use resurgam_store::rows::{
    AttemptOutcome, AttemptRow, Heartbeat, InstanceRow, MessageRow, Status, TaskRow,
};
use resurgam_store::{
    Assignment, Deletion, InboxRow, InstanceWrite, Replaces, Report, Reported, Retain, Runnable,
    Work,
};
use resurgam_watchdog::test;

use super::*;
use crate::node::result_id;

/// The queue that the node does not serve.
pub(super) const ELSEWHERE: &str = "elsewhere";

#[derive(Serialize, Deserialize)]
struct Mail;

impl Activity for Mail {
    const NAME: &'static str = "mail";
    type Output = ();

    async fn run(self, _: ActivityContext) -> Result<(), Failure> {
        unreachable!("the test ends attempts")
    }
}

/// The activities and workflows of these tests.
pub(super) fn register(registry: &mut Registry) {
    registry.add_activity_definition(ActivityDefinition::of::<Mail>(), &[]).unwrap();
    for (name, workflow) in WORKFLOWS {
        registry.add_workflow_definition(WorkflowDefinition::new(*name, workflow)).unwrap();
    }
}

type Begin = fn(SharedMachine, &Payload) -> Result<WorkflowFuture, String>;

const WORKFLOWS: &[(&str, Begin)] = &[
    ("send", send),
    ("rent_elsewhere", rent_elsewhere),
    ("rent_soon", rent_soon),
    ("send_twice", send_twice),
    ("stay_elsewhere", stay_elsewhere),
    ("clean", clean_here),
    ("send_soon", send_soon),
    ("send_once", send_once),
    ("crowd", crowd),
    ("send_behind", send_behind),
];

fn times(most: u32) -> RetryPolicy {
    RetryPolicy::fixed(Duration::from_secs(60)).max_attempts(most).jitter(Jitter::None)
}

/// Sends something elsewhere, three times at most.
fn send(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    let sent = async move { ctx.call(Mail).queue(ELSEWHERE).retry(times(3)).await };
    Ok(Box::pin(async { sent.await.map(|()| Payload::null()) }))
}

/// Has a room rented elsewhere within a second, and given back if that is too late.
fn rent_elsewhere(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let rented = ctx.call(Rent).queue(ELSEWHERE).total_timeout(Duration::from_secs(1));
        rented.compensate_with(|_| GiveBack).await.map(|()| Payload::null())
    }))
}

/// Has a room rented elsewhere, and goes without one when that takes more than a second.
fn rent_soon(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let rented = ctx.call(Rent).queue(ELSEWHERE).compensate_with(|_| GiveBack);
        let _too_late = ctx.timeout(Duration::from_secs(1), rented).await;
        Ok(Payload::null())
    }))
}

/// Sends something elsewhere, and something else at a signal; ends with what is done first.
fn send_twice(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    type Sent = std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
    let (one, other) = (ctx.clone(), ctx.clone());
    let first: Sent = Box::pin(async move { one.call(Mail).queue(ELSEWHERE).await });
    let second: Sent = Box::pin(async move {
        let _go: u32 = other.signal("go").await?;
        other.call(Mail).queue(ELSEWHERE).retry(times(1)).await
    });
    Ok(Box::pin(async move { ctx.race([first, second]).await.1.map(|()| Payload::null()) }))
}

/// Has a room cleaned elsewhere before it is rented, and fails.
fn stay_elsewhere(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let _too_late = ctx.call(Clean).queue(ELSEWHERE).retry(times(1)).await;
        ctx.call(Rent).compensate_with(|_| GiveBack).await?;
        Err(Failure::terminal("the room is not clean"))
    }))
}

/// Sends something elsewhere within a second.
fn send_soon(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    let call = ctx.call(Mail).queue(ELSEWHERE).total_timeout(Duration::from_secs(1));
    Ok(Box::pin(async move { call.await.map(|()| Payload::null()) }))
}

/// Sends something elsewhere, once at most, that somebody takes within a second.
fn send_once(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    let once = times(1).idempotency(Idempotency::AtMostOnce);
    let call = ctx.call(Mail).queue(ELSEWHERE).retry(once).queue_timeout(Duration::from_secs(1));
    Ok(Box::pin(async move { call.await.map(|()| Payload::null()) }))
}

/// Sends something that is behind the gate of its input.
fn send_behind(machine: SharedMachine, input: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    let gate: String = input.decode().map_err(|error| error.to_string())?;
    Ok(Box::pin(async move { ctx.call(Mail).gate(gate).await.map(|()| Payload::null()) }))
}

/// Sends a thousand things at once, each of which waits for a second, and half a minute in all.
fn crowd(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let call = |_| {
            let call = ctx.call(Mail).queue_timeout(Duration::from_secs(1));
            call.total_timeout(Duration::from_secs(30))
        };
        ctx.join_all((0..1_000).map(call)).await.map(|_| Payload::null())
    }))
}

/// Cleans a room here.
fn clean_here(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move { ctx.call(Clean).await.map(|()| Payload::null()) }))
}

/// A node that leaves the calls of a queue to others, and has begun.
pub(super) fn holder() -> World {
    let queues: Arc<[String]> = Arc::new([resurgam_core::command::DEFAULT_QUEUE.to_string()]);
    let options = Options { queues: Some(queues), ..Options::default() };
    let mut world = World::on(Sharing::ManyNodes, options, 7);
    world.node.begin();
    world.settle();
    world
}

impl World {
    /// The node hears that somebody else has committed.
    pub(super) fn hears(&mut self) {
        self.node.others_committed(self.at(), false);
        self.settle();
    }

    /// The node hears that a node is gone.
    fn hears_of_departure(&mut self) {
        let assignment = Assignment { departed: 1, may_begin: true, ..Assignment::default() };
        self.node.assignment(self.at(), assignment);
        self.settle();
    }

    /// The node gives a shard up.
    pub(super) fn gives(&mut self, shard: Shard) {
        let give = vec![shard];
        let assignment = Assignment { give, may_begin: true, ..Assignment::default() };
        self.node.assignment(self.at(), assignment);
        self.settle();
    }

    /// The node takes a shard that is free.
    fn takes(&mut self, shard: Shard) {
        let take = vec![shard];
        let assignment = Assignment { take, may_begin: true, ..Assignment::default() };
        self.node.assignment(self.at(), assignment);
        self.settle();
    }

    fn ledger(&self, uid: Uid) -> Vec<AttemptRow> {
        at_once(self.store.attempts(RunKey::first(uid))).unwrap()
    }

    pub(super) fn tasks(&self, uid: Uid) -> Vec<TaskRow> {
        at_once(self.store.tasks(RunKey::first(uid))).unwrap()
    }

    pub(super) fn messages(&self, uid: Uid) -> Vec<MessageRow> {
        at_once(self.store.messages(uid)).unwrap()
    }

    fn events(&self, uid: Uid) -> Vec<&'static str> {
        let history = at_once(self.store.history(RunKey::first(uid))).unwrap();
        history.iter().map(|event| event.kind.name()).collect()
    }
}

/// Another node, which holds no shards and serves every queue.
pub(super) struct Other {
    pub(super) store: ModelStore,
    right: Option<Ownership>,
}

impl Other {
    pub(super) const NAME: &'static str = "other";

    pub(super) fn join(world: &World) -> Self {
        let store = ModelStore::on(world.store.database());
        let name = Other::NAME.to_string();
        let node = resurgam_store::Node { name, queues: None, workflows: None };
        let Ok(Owning::Taken(right)) = at_once(store.try_own(node)) else {
            panic!("many nodes may work")
        };
        Other { store, right: Some(right) }
    }

    /// It is gone, or taken for that; what it has sent may still come.
    fn leaves(&mut self) {
        self.right = None;
    }

    /// Claims the one call that waits.
    pub(super) fn claim(&self, now: Timestamp) -> TaskRow {
        let claimed = self.store.claim_shared(Other::NAME, Runnable::default(), now, 10);
        let mut claimed = at_once(claimed).unwrap().0;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    /// An attempt records its result in a transaction of its own.
    pub(super) fn transacts(&self, task: &TaskRow) {
        let token = task.claim.as_ref().unwrap().token;
        let run = task.call.run;
        let event = EventKind::ActivityCompleted(ActivityCompleted {
            activity: task.call.seq,
            result: Payload::null(),
            attempt: task.attempt,
            started_at: task.wake_at,
            after_cancel: false,
            fallback: false,
            retry_metadata: None,
        });
        let body = StoredMessage::Result { run: run.run, event };
        let message = now_due(run.uid, result_id(run, task.call.seq), body);
        let mut model = self.store.database().lock();
        assert!(model.end_claimed(Other::NAME, task.call, token, &message).unwrap());
    }

    /// Reports of an attempt.
    pub(super) fn report(&self, task: &TaskRow, outcome: Reported) {
        let token = task.claim.as_ref().unwrap().token;
        let at = task.wake_at.saturating_add(Duration::from_secs(1));
        let is_beat = outcome == Reported::GoesOn;
        let heartbeat = is_beat.then(|| Heartbeat { details: Payload::null(), at });
        let report = Report { activity: task.call.seq, token, at, outcome, heartbeat };
        let run = task.call.run;
        let (id, report) = (report.id(run.run), Box::new(report));
        let body = StoredMessage::Report { run: run.run, report };
        let row = now_due(run.uid, id, body);
        let step = Step { messages: vec![MessageWrite::InsertIfOpen(row)], ..Step::default() };
        // Anybody may leave a message.
        let store = ModelStore::on(self.store.database());
        at_once(store.commit([step].into())).unwrap();
    }
}

fn claims_to_end(read: &StoreRequest) -> bool {
    matches!(read, StoreRequest::ClaimToEnd { .. })
}

fn failed() -> Reported {
    Reported::Failed(Failure::retryable("the network is down"))
}

fn time_up(kind: Kind) -> Reported {
    Reported::TimeUp(Failure::of_kind(kind, "not done within a second"))
}

#[test]
fn a_report_on_a_call_whose_start_is_not_known_to_be_stored_is_taken() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send_twice", "send-1".to_string());
    let first = other.claim(world.now);
    other.report(&first, Reported::GoesOn);
    world.holds.reads = Some(|read| matches!(read, StoreRequest::Reports { .. }));
    world.hears();
    world.holds.answers = true;
    let event = EventKind::SignalReceived {
        name: "go".to_string(),
        value: Payload::encode(&1).unwrap(),
        id: None,
    };
    let reply = world.reply(|_| {});
    world.ask(Request::Tell { uid, run: 1, event, reply });
    world.settle();
    let second = other.claim(world.now);
    other.report(&second, failed());
    // The read is answered before the batch that made the second call.
    let (read, stamp) = world.held.reads.pop().unwrap();
    let found = world.read(read).unwrap();
    world.inputs.push_back((found, stamp));
    world.settle();
    world.let_go();
    world.hears();
    let events = world.events(uid);
    assert_eq!(events.last(), Some(&"RunFailed"), "{events:?}");
}

#[test]
fn a_report_that_was_read_before_its_call_was_lost_does_not_bring_the_claim_back() {
    let mut world = holder();
    let mut other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let task = other.claim(world.now);
    // It is taken for dead, and its report comes while its claims are read.
    other.leaves();
    world.holds.found = Some(|read| {
        matches!(read, StoreRequest::ReportedTasks { .. } | StoreRequest::AbandonedTasks { .. })
    });
    world.hears_of_departure();
    other.report(&task, failed());
    world.hears();
    assert_eq!(world.held.found.len(), 2);
    let abandoned = world.held.found.remove(0);
    world.inputs.push_back(abandoned);
    world.settle();
    assert_eq!(world.ledger(uid).len(), 1);
    world.let_go();
    world.hears();
    let ledger = world.ledger(uid);
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert!(world.tasks(uid).iter().all(|task| task.claim.is_none()));
}

#[test]
fn an_outcome_that_is_refused_while_its_shard_goes_is_reported_to_the_next_holder() {
    let mut world = holder();
    world.goes_on = Some("clean");
    let uid = world.start("clean", "clean-1".to_string());
    let attempt = world.running.pop().unwrap();
    world.holds.refuses = Some(|step| {
        let mut events = step.events.iter();
        events.any(|(_, event)| matches!(event.kind, EventKind::ActivityCompleted(_)))
    });
    world.holds.reads = Some(|read| matches!(read, StoreRequest::LostTask(_)));
    world.ends(&attempt, Ok(Payload::null()));
    world.settle();
    assert_eq!(world.held.reads.len(), 1);
    world.gives(uid.shard());
    world.let_go();
    let messages = world.messages(uid);
    let is_report = |message: &MessageRow| match &message.body {
        StoredMessage::Report { report, .. } => report.outcome == Reported::Interrupted,
        _ => false,
    };
    assert!(messages.iter().any(is_report), "{messages:?}");
}

#[test]
fn an_attempt_whose_outcome_is_read_as_lost_while_its_report_is_taken_is_recorded_once() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let task = other.claim(world.now);
    // The step with the outcome is refused, and what is stored of the call is read.
    world.holds.refuses = Some(|step| {
        let mut events = step.events.iter();
        events.any(|(_, event)| matches!(event.kind, EventKind::ActivityFailed(_)))
    });
    world.holds.found = Some(|read| matches!(read, StoreRequest::LostTask(_)));
    other.report(&task, Reported::Failed(Failure::terminal("there is no such address")));
    world.hears();
    assert_eq!(world.held.found.len(), 1);
    // The answer comes while the report is on its way to the store, for a run that is blocked.
    world.holds.batches = true;
    world.advance(Duration::from_secs(2));
    assert_eq!(world.held.batches.len(), 1);
    let lost = world.held.found.remove(0);
    world.inputs.push_back(lost);
    world.settle();
    world.let_go();
    world.advance(Duration::from_secs(600));
    let ledger = world.ledger(uid);
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(world.events(uid).last(), Some(&"RunFailed"));
}

#[test]
fn of_an_attempt_that_timed_out_elsewhere_one_report_is_taken_at_a_time() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("rent_elsewhere", "rent-1".to_string());
    let task = other.claim(world.now);
    other.report(&task, time_up(Kind::TotalTimeout));
    other.report(&task, failed());
    world.hears();
    let (events, ledger) = (world.events(uid), world.ledger(uid));
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(events.last(), Some(&"RunFailed"), "{events:?}");
}

#[test]
fn nothing_is_undone_while_an_attempt_that_timed_out_elsewhere_lingers() {
    let mut world = holder();
    let other = Other::join(&world);
    world.start("stay_elsewhere", "stay-1".to_string());
    let task = other.claim(world.now);
    other.report(&task, time_up(Kind::Timeout));
    world.hears();
    world.advance(Duration::from_secs(2));
    assert_eq!(world.began, ["rent"]);
    other.report(&task, failed());
    world.hears();
    assert_eq!(world.began, ["rent", "give_back"]);
}

#[test]
fn a_late_heartbeat_does_not_bring_the_claim_of_a_dead_node_back() {
    let mut world = holder();
    let mut other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let task = other.claim(world.now);
    other.report(&task, Reported::GoesOn);
    other.leaves();
    world.holds.batches = true;
    world.hears_of_departure();
    assert_eq!(world.held.batches.len(), 1, "the loss is on its way");
    // Reports are read as they are now, and heard of when the loss is durable.
    world.holds.found = Some(|read| matches!(read, StoreRequest::ReportedTasks { .. }));
    world.hears();
    world.holds.batches = false;
    for (lane, steps) in std::mem::take(&mut world.held.batches) {
        world.write(lane, steps);
    }
    world.settle();
    world.let_go();
    let tasks = world.tasks(uid);
    assert!(tasks.iter().all(|task| task.claim.is_none()), "{tasks:?}");
    assert_eq!((world.ledger(uid).len(), tasks[0].call.seq), (1, Seq(2)));
}

#[test]
fn a_batch_of_a_node_that_stepped_down_is_not_sent_again() {
    let mut world = holder();
    let sent = |world: &World| world.trace.matches("Commit {").count();
    world.holds.batches = true;
    let answered = Arc::new(Mutex::new(false));
    let told = answered.clone();
    let request = Request::Start {
        workflow: "send".to_string(),
        input: Payload::null(),
        options: StartOptions { id: "send-1".to_string(), ..StartOptions::default() },
        reply: world.reply(move |answer| *told.lock().unwrap() = answer.is_err()),
    };
    world.ask(request);
    world.settle();
    let (before, (lane, _)) = (sent(&world), world.held.batches.pop().unwrap());
    world.node.others_committed(world.at(), true);
    // It works again, under another name, when it hears what became of the batch.
    world.settle();
    assert!(world.right.is_some());
    world.answered(lane, Err(resurgam_store::Error::transient("the connection broke")));
    world.settle();
    assert_eq!(sent(&world), before, "{}", world.trace);
    assert!(*answered.lock().unwrap(), "who asked hears that it is not stored");
}

impl World {
    /// Somebody starts something; whether that is refused is noted.
    fn asks_to_start(&mut self, id: &str, refused: &Arc<Mutex<Vec<bool>>>) {
        let told = refused.clone();
        let request = Request::Start {
            workflow: "send".to_string(),
            input: Payload::null(),
            options: StartOptions { id: id.to_string(), ..StartOptions::default() },
            reply: self.reply(move |answer| told.lock().unwrap().push(answer.is_err())),
        };
        self.ask(request);
        self.settle();
    }

    /// The batch that is held back is written.
    fn lets_batch_through(&mut self) {
        let (lane, steps) = self.held.batches.pop().unwrap();
        self.write(lane, steps);
        self.settle();
    }

    /// The batch that is held back is not written, for this reason.
    fn refuses_batch(&mut self, error: resurgam_store::Error) {
        let (lane, _) = self.held.batches.pop().unwrap();
        self.answered(lane, Err(error));
        self.settle();
    }
}

/// What those hear who start three instances, one in a batch of its own and two in a batch that is
/// split: the database goes back in time between its halves. The node may have heard of that and
/// stepped down when it is told so about the batch.
fn starts_across_a_set_back(steps_down_before: bool) -> Vec<bool> {
    let mut world = holder();
    world.holds.batches = true;
    let refused = Arc::default();
    ["send-0", "send-1", "send-2"].iter().for_each(|id| world.asks_to_start(id, &refused));
    world.lets_batch_through();
    world.refuses_batch(resurgam_store::Error::data("a trigger refuses a row"));
    world.lets_batch_through();
    assert_eq!(*refused.lock().unwrap(), [false], "the other half of the batch is not written");
    if steps_down_before {
        world.node.others_committed(world.at(), true);
        world.settle();
    }
    world.refuses_batch(resurgam_store::Error::rewound("the database went back in time"));
    refused.lock().unwrap().clone()
}

#[test]
fn half_a_batch_is_not_acknowledged_when_the_database_went_back_before_the_other_half() {
    assert_eq!(starts_across_a_set_back(false), [false, true, true]);
    assert_eq!(starts_across_a_set_back(true), [false, true, true]);
}

#[test]
fn rows_of_the_inbox_are_routed_by_who_holds_their_shard_whoever_holds_the_first() {
    let mut world = holder();
    world.gives(Shard(0));
    let row = InboxRow {
        arrival: 1,
        id: None,
        instance: "send-1".to_string(),
        kind: "start".to_string(),
        name: Some("send".to_string()),
        body: None,
    };
    assert_ne!(Shard::of_id(&row.instance), Shard(0));
    world.store.database().insert_inbox(row);
    world.hears();
    assert!(at_once(world.store.find("send-1")).unwrap().is_some());
}

#[test]
fn a_call_that_another_node_takes_while_its_time_runs_out_is_not_ended() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send_soon", "send-1".to_string());
    world.holds.reads = Some(claims_to_end);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.held.reads.len(), 1, "{}", world.trace);
    let task = other.claim(world.now);
    world.let_go();
    world.advance(Duration::from_secs(10));
    assert_eq!(world.tasks(uid), std::slice::from_ref(&task));
    other.report(&task, Reported::Completed(Payload::null()));
    world.hears();
    let events = world.events(uid);
    assert_eq!(events.last(), Some(&"RunCompleted"), "{events:?}");
}

#[test]
fn a_call_that_is_given_up_has_ended_where_no_other_node_could_have_taken_it() {
    let queues: Arc<[String]> = Arc::new([resurgam_core::command::DEFAULT_QUEUE.to_string()]);
    let options = Options { queues: Some(queues), ..Options::default() };
    let mut world = World::on(Sharing::OneNode, options, 7);
    world.node.begin();
    world.settle();
    let outcomes = Arc::default();
    let uid = world.start("rent_soon", "rent-1".to_string());
    world.wait_for(uid, &outcomes);
    world.advance(Duration::from_secs(5));
    assert_eq!(*outcomes.lock().unwrap(), [Outcome::Completed(Payload::null())]);
}

#[test]
fn a_call_that_nobody_takes_ends_when_its_time_is_up() {
    for (workflow, attempts) in [("send_soon", 0), ("send_once", 1)] {
        let mut world = holder();
        let other = Other::join(&world);
        let uid = world.start(workflow, "send-1".to_string());
        world.holds.found = Some(claims_to_end);
        world.advance(Duration::from_secs(1));
        let claimed =
            at_once(other.store.claim_shared(Other::NAME, Runnable::default(), world.now, 10));
        assert_eq!(claimed.unwrap().0, [], "it is the holder's, until that is known to end it");
        world.let_go();
        let (events, ledger) = (world.events(uid), world.ledger(uid));
        assert_eq!(events.last(), Some(&"RunFailed"), "{events:?}");
        assert_eq!(ledger.len(), attempts, "{ledger:?}");
        assert_eq!(world.tasks(uid), []);
    }
}

#[test]
fn a_node_that_dies_while_it_ends_a_call_has_lost_no_attempt_of_it() {
    for (workflow, attempts) in [("send_soon", 0), ("send_once", 1)] {
        let mut world = holder();
        let uid = world.start(workflow, "send-1".to_string());
        world.holds.found = Some(claims_to_end);
        world.advance(Duration::from_secs(1));
        assert!(world.tasks(uid)[0].claim.is_some());
        // It works again, under another name.
        world.node.others_committed(world.at(), true);
        world.let_go();
        let (events, ledger) = (world.events(uid), world.ledger(uid));
        assert_eq!(events.last(), Some(&"RunFailed"), "{events:?}");
        let outcomes: Vec<AttemptOutcome> = ledger.iter().map(|row| row.outcome).collect();
        assert_eq!(outcomes, vec![AttemptOutcome::Failed; attempts]);
        let failures = ledger.iter().filter_map(|row| row.failure.as_ref());
        assert!(failures.clone().all(|failure| failure.kind == Kind::QueueTimeout), "{ledger:?}");
    }
}

#[test]
fn a_call_whose_shard_goes_while_it_is_claimed_to_end_it_is_handed_back() {
    let mut world = holder();
    let uid = world.start("send_soon", "send-1".to_string());
    world.holds.found = Some(claims_to_end);
    world.advance(Duration::from_secs(1));
    world.gives(uid.shard());
    world.let_go();
    let messages = world.messages(uid);
    let is_report = |message: &MessageRow| match &message.body {
        StoredMessage::Report { report, .. } => report.outcome == Reported::NeverBegan,
        _ => false,
    };
    assert!(messages.iter().any(is_report), "{messages:?}");
}

#[test]
fn a_call_whose_end_is_refused_ends_when_it_is_not() {
    let mut world = holder();
    let uid = world.start("send_soon", "send-1".to_string());
    world.holds.refuses = Some(|step| {
        let mut events = step.events.iter();
        events.any(|(_, event)| matches!(event.kind, EventKind::ActivityFailed(_)))
    });
    world.advance(Duration::from_secs(10));
    assert_eq!(world.events(uid), ["RunStarted", "ActivityScheduled"]);
    world.let_go();
    world.advance(Duration::from_secs(600));
    let events = world.events(uid);
    assert_eq!(events.last(), Some(&"RunFailed"), "{events:?}");
}

#[test]
fn a_call_that_is_claimed_before_its_wait_is_durable_is_handed_back_when_its_shard_goes() {
    let mut world = holder();
    world.goes_on = Some("clean");
    let uid = world.start("clean", "clean-1".to_string());
    let spare = Shard((uid.shard().0 + 1) % Shard::COUNT);
    world.gives(spare);
    // Its attempt fails, and the store is slow to say that this is written.
    let attempt = world.running.pop().unwrap();
    world.holds.answers = true;
    world.ends(&attempt, Err(Failure::retryable("the bucket is empty")));
    world.settle();
    world.now = world.tasks(uid)[0].wake_at;
    // Meanwhile the node looks for what is due, and claims it; and then the shard goes.
    world.takes(spare);
    world.gives(uid.shard());
    world.let_go();
    let task = world.tasks(uid).remove(0);
    assert_eq!((task.claim, task.attempt), (None, 1));
    assert_eq!(world.began, ["clean"]);
}

#[test]
fn who_waits_for_an_instance_that_was_never_read_hears_that_it_is_gone() {
    let mut world = holder();
    // It was started elsewhere, and its message has not come here yet.
    let uid = Uid(42);
    let row = InstanceRow::new(uid, "send-1", "send", Payload::null(), world.now);
    let start = InstanceWrite::Insert { row: Box::new(row), replaces: Replaces::Nobody };
    let closed = InstanceWrite::Status {
        uid,
        status: Status::Completed,
        outcome: Some(Payload::null()),
        compensation: None,
        error: None,
        closed_at: Some(world.now),
    };
    let commit = |world: &World, instance: InstanceWrite| {
        let step = Step { instance: Some(instance), ..Step::default() };
        at_once(world.store.commit([step].into())).unwrap();
    };
    commit(&world, start);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    let outcome = world.reply(move |told: Result<Outcome>| tells.lock().unwrap().push(told));
    world.ask(Request::Wait { uid, reply: outcome });
    world.settle();
    assert!(told.lock().unwrap().is_empty());
    // A database that is brought back to an earlier moment has forgotten it.
    commit(&world, closed);
    at_once(world.store.delete_closed(Deletion::One(uid))).unwrap();
    world.hears();
    let told = told.lock().unwrap();
    assert!(matches!(&told[..], [Err(error)] if error.is_unknown()), "{told:?}");
}

#[test]
fn who_waits_for_an_instance_hears_of_an_end_from_before_its_shard_was_taken_over() {
    let mut world = holder();
    let other = Other::join(&world);
    let uid = world.start("send", "send-1".to_string());
    let outcomes = Arc::default();
    world.wait_for(uid, &outcomes);
    world.gives(uid.shard());
    let shard: Arc<[Shard]> = Arc::new([uid.shard()]);
    assert_eq!(at_once(other.store.take(Other::NAME, shard.clone())).unwrap(), [uid.shard()]);
    let closed = InstanceWrite::Status {
        uid,
        status: Status::Completed,
        outcome: Some(Payload::null()),
        compensation: None,
        error: None,
        closed_at: Some(world.now),
    };
    let step = Step { instance: Some(closed), ..Step::default() };
    at_once(other.store.commit([step].into())).unwrap();
    at_once(other.store.release(Other::NAME, shard)).unwrap();
    assert_eq!(*outcomes.lock().unwrap(), [], "it has not heard of that");
    world.takes(uid.shard());
    assert_eq!(*outcomes.lock().unwrap(), [Outcome::Completed(Payload::null())]);
}
