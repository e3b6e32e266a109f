//! A node alone, without a driver: on a model store that answers at once, one thing after another,
//! unless a test holds something back.

mod actions;
mod gates;
mod gauges;
mod remote;
mod resuming;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{EventKind, Failure, Kind, Payload, RunKey, Timestamp, Uid};
use resurgam_sdk::{
    Activity, ActivityContext, ActivityDefinition, Registry, WorkflowContext, WorkflowDefinition,
};
use resurgam_store::model::{Model, ModelDatabase, ModelStore, Sharing};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::Message as StoredMessage;
use resurgam_store::{Commit, Inspect, MessageWrite, Own, Ownership, Owning, Step, StepResult};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::handle::{Outcome, StartOptions};
use crate::node::{
    Answers, At, AttemptEnd, AttemptStart, Facts, Input, Node, Order, Output, Replies, Reply,
    Request, RoleAnswer, Stamp, StoreRequest, TransactionRequest, Waiter, now_due,
};
use crate::options::Options;
use crate::retention::Swept;

/// A node with everything that it asks for, and what it asked for so far.
struct World {
    node: Node,
    store: ModelStore,
    right: Option<Ownership>,
    now: Timestamp,
    /// The time that has passed, whatever the clock was set to.
    elapsed: Duration,
    /// The activity whose attempts go on until the test ends them.
    goes_on: Option<&'static str>,
    /// The attempts that go on.
    running: Vec<AttemptStart>,
    /// The transactions that are with the store.
    transactions: Vec<TransactionRequest>,
    /// What attempts were told, by their tokens.
    orders: Vec<(u64, Order)>,
    /// The activities of all attempts, in the order in which they began.
    began: Vec<String>,
    inputs: VecDeque<(Input, Option<Stamp>)>,
    replies: Replies,
    asked: u64,
    /// How many rows of tasks were written.
    task_rows: usize,
    holds: Holds,
    held: Held,
    trace: String,
}

/// What a test holds back until it says otherwise.
#[derive(Default)]
struct Holds {
    /// Batches: they do not reach the store.
    batches: bool,
    /// Answers to batches, which the store has written.
    answers: bool,
    /// Reads of these kinds: they do not reach the store.
    reads: Option<fn(&StoreRequest) -> bool>,
    /// What was read of these kinds.
    found: Option<fn(&StoreRequest) -> bool>,
    /// Steps that the store refuses, as a trigger of a user would.
    refuses: Option<fn(&Step) -> bool>,
}

/// What is held back.
#[derive(Default)]
struct Held {
    batches: Vec<(usize, Arc<[Step]>)>,
    answers: Vec<(usize, BatchAnswer)>,
    reads: Vec<(StoreRequest, Option<Stamp>)>,
    found: Vec<(Input, Option<Stamp>)>,
}

/// What a store answers to a batch.
type BatchAnswer = resurgam_store::Result<Vec<StepResult>>;

impl World {
    fn new(seed: u64) -> Self {
        World::on(Sharing::OneNode, Options::default(), seed)
    }

    fn on(sharing: Sharing, options: Options, seed: u64) -> Self {
        World::beside(&ModelDatabase::new(Model::new(sharing)), options, seed)
    }

    /// A node on a database that others may work on, too.
    fn beside(database: &ModelDatabase, mut options: Options, seed: u64) -> Self {
        // Nobody deletes anything here.
        options.retention.dead_letters = None;
        let mut registry = Registry::default();
        let ship = ActivityDefinition::new("ship", |_, _| unreachable!("the test ends attempts"));
        registry.add_activity_definition(ship, &[]).unwrap();
        registry.add_workflow_definition(WorkflowDefinition::new("order", order)).unwrap();
        registry.add_workflow_definition(WorkflowDefinition::new("listen", listen)).unwrap();
        registry.add_workflow_definition(WorkflowDefinition::new("stay", stay)).unwrap();
        registry.add_activity_definition(ActivityDefinition::of::<Rent>(), &[]).unwrap();
        registry.add_activity_definition(ActivityDefinition::of::<GiveBack>(), &[]).unwrap();
        registry.add_activity_definition(ActivityDefinition::of::<Clean>(), &[]).unwrap();
        remote::register(&mut registry);
        resuming::register(&mut registry);
        let store = ModelStore::on(database);
        let assignment = store.assignment().borrow().clone();
        let facts = Facts { is_shared: store.is_shared(), lanes: 1, assignment };
        let now = Timestamp::from_millis(1_767_225_600_000);
        let node = Node::new(Arc::new(registry), options, facts, seed, now);
        World {
            node,
            store,
            right: None,
            now,
            elapsed: Duration::ZERO,
            goes_on: None,
            running: Vec::new(),
            transactions: Vec::new(),
            orders: Vec::new(),
            began: Vec::new(),
            inputs: VecDeque::new(),
            holds: Holds::default(),
            held: Held::default(),
            replies: Replies::default(),
            asked: 0,
            task_rows: 0,
            trace: String::new(),
        }
    }

    /// Starts an instance.
    fn start(&mut self, workflow: &str, id: String) -> Uid {
        let options = StartOptions { id, ..StartOptions::default() };
        let started = Arc::new(Mutex::new(None));
        let answer = started.clone();
        let request = Request::Start {
            workflow: workflow.to_string(),
            input: Payload::null(),
            options,
            reply: self.reply(move |told| *answer.lock().unwrap() = Some(told)),
        };
        self.ask(request);
        self.settle();
        started.lock().unwrap().take().unwrap().unwrap().uid
    }

    /// Has the outcome of an instance noted when it is closed.
    fn wait_for(&mut self, uid: Uid, outcomes: &Arc<Mutex<Vec<Outcome>>>) {
        let ends = outcomes.clone();
        let reply =
            self.reply(move |told: Result<Outcome>| ends.lock().unwrap().push(told.unwrap()));
        self.ask(Request::Wait { uid, reply });
    }

    /// Something happens with the answer to a request.
    fn reply<T: Answers>(&mut self, then: impl FnOnce(Result<T>) + Send + 'static) -> Reply<T> {
        self.asked += 1;
        let (reply, waiter) = Waiter::new(self.asked, then);
        self.replies.expect(waiter);
        reply
    }

    /// Gives news to an instance, which takes it.
    fn tell(&mut self, uid: Uid, event: EventKind) {
        let reply = self.reply(|told: Result<()>| told.unwrap());
        self.ask(Request::Tell { uid, run: 1, event, reply });
    }

    fn ask(&mut self, request: Request) {
        self.node.handle(self.at(), Input::Request(request), None);
    }

    /// Lets everything happen that happens by itself, for this long.
    fn advance(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        loop {
            self.settle();
            let next = self.node.next_due().filter(|next| *next <= end);
            let then = next.map_or(end, |next| next.max(self.now));
            self.elapsed += then.since(self.now);
            self.now = then;
            if next.is_none() {
                return;
            }
        }
    }

    /// The clock is set forward, and no time passes.
    fn clock_jumps(&mut self, by: Duration) {
        self.now = self.now.saturating_add(by);
    }

    /// An attempt ends.
    fn ends(&mut self, start: &AttemptStart, result: Result<Payload, Failure>) {
        let end = AttemptEnd { result, lingers: false, heartbeat: None };
        let ended = Input::AttemptEnded { call: start.call, token: start.token, end };
        self.inputs.push_back((ended, None));
    }

    /// A batch reaches the store.
    fn write(&mut self, lane: usize, steps: Arc<[Step]>) {
        self.task_rows += steps.iter().map(|step| step.tasks.len()).sum::<usize>();
        let is_refused = self.holds.refuses.is_some_and(|refuses| steps.iter().any(refuses));
        let answer = match is_refused {
            true => Err(resurgam_store::Error::data("a trigger refuses a row")),
            false => at_once(self.store.commit(steps)),
        };
        match self.holds.answers {
            true => self.held.answers.push((lane, answer)),
            false => self.answered(lane, answer),
        }
    }

    /// A node hears what became of a batch.
    fn answered(&mut self, lane: usize, answer: BatchAnswer) {
        let durable = self.node.batch_answered(self.at(), lane, answer);
        durable.into_iter().for_each(|durable| self.node.effects(durable));
    }

    fn read(&self, read: StoreRequest) -> Option<Input> {
        at_once(read.ask(&self.store, &OutageLog::default()))
    }

    /// Lets go of everything that is held back, and holds back nothing more.
    fn let_go(&mut self) {
        self.holds = Holds::default();
        let Held { batches, answers, reads, found } = std::mem::take(&mut self.held);
        answers.into_iter().for_each(|(lane, answer)| self.answered(lane, answer));
        batches.into_iter().for_each(|(lane, steps)| self.write(lane, steps));
        self.inputs.extend(found);
        for (read, stamp) in reads {
            let input = self.read(read);
            self.inputs.extend(input.map(|input| (input, stamp)));
        }
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            self.node.tick(self.at());
            let outputs = self.node.outputs();
            if outputs.is_empty() && self.inputs.is_empty() {
                return;
            }
            outputs.into_iter().for_each(|output| self.carry_out(output));
            while let Some((input, stamp)) = self.inputs.pop_front() {
                self.node.handle(self.at(), input, stamp);
            }
        }
    }

    fn at(&self) -> At {
        At { now: self.now, elapsed: self.elapsed, may_begin: true }
    }

    fn carry_out(&mut self, output: Output) {
        writeln!(self.trace, "{} {output:?}", self.now.as_millis()).unwrap();
        match output {
            Output::Answer(answer) => self.replies.hand_over(answer),
            Output::Commit { lane, batch, .. } if self.holds.batches => {
                self.held.batches.push((lane, batch.steps));
            }
            Output::Commit { lane, batch, .. } => self.write(lane, batch.steps),
            Output::AskStore { request: read, stamp, .. } => {
                if self.holds.reads.is_some_and(|holds| holds(&read)) {
                    return self.held.reads.push((read, stamp));
                }
                let is_held = self.holds.found.is_some_and(|holds| holds(&read));
                let input = self.read(read).map(|input| (input, stamp));
                match is_held {
                    true => self.held.found.extend(input),
                    false => self.inputs.extend(input),
                }
            }
            Output::StepDown => {
                self.right = None;
                at_once(self.store.disown()).unwrap();
                self.inputs.push_back((Input::SteppedDown, None));
            }
            Output::TryOwn { node, .. } => {
                let Ok(Owning::Taken(right)) = at_once(self.store.try_own(node)) else {
                    panic!("nobody else works")
                };
                let taken = RoleAnswer::Taken(right.shards().to_vec());
                self.right = Some(right);
                self.inputs.push_back((Input::Role(Ok(taken)), None));
            }
            Output::StartAttempt(start) if self.goes_on == Some(&start.activity.name) => {
                self.began.push(start.activity.name.clone());
                self.running.push(*start);
            }
            Output::StartAttempt(start) => {
                self.began.push(start.activity.name.clone());
                let failed = Err(Failure::retryable("the gateway is down"));
                let shipped = Ok(Payload::from_text(r#""shipped""#));
                let result = match start.activity.name.as_str() {
                    "ship" if start.number < 3 => failed,
                    "ship" => shipped,
                    _ => Ok(Payload::null()),
                };
                self.ends(&start, result);
            }
            // Attempts end when the test says so, and transactions too.
            Output::OrderAttempt { token, order } => self.orders.push((token, order)),
            Output::Transact(transaction) => self.transactions.push(transaction.ask),
            Output::RefuseTransaction { .. } | Output::TransactionRecorded { .. } => {}
            Output::Changed(_) | Output::AnythingChanged => {}
            // Nothing is old enough, and whoever counts what is paused finds nothing.
            Output::Sweep { .. } => {
                let swept = Swept { next: None, paused: 0, letters: false };
                self.inputs.push_back((Input::Swept(Ok(swept)), None));
            }
            other => panic!("not expected here: {other:?}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Rent;

#[derive(Serialize, Deserialize)]
struct GiveBack;

#[derive(Serialize, Deserialize)]
struct Clean;

macro_rules! acted_out {
    ($($activity:ty = $name:literal),+) => {$(
        impl Activity for $activity {
            const NAME: &'static str = $name;
            type Output = ();

            async fn run(self, _: ActivityContext) -> Result<(), Failure> {
                unreachable!("the test ends attempts")
            }
        }
    )+};
}

acted_out!(Rent = "rent", GiveBack = "give_back", Clean = "clean");

/// Has a room cleaned for a second before it is rented, and fails.
fn stay(
    machine: resurgam_core::machine::SharedMachine,
    _input: &Payload,
) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let _too_late = ctx.timeout(Duration::from_secs(1), ctx.call(Clean)).await;
        ctx.call(Rent).compensate_with(|_| GiveBack).await?;
        Err(Failure::terminal("the room is not clean"))
    }))
}

/// Ships after a second.
fn order(
    machine: resurgam_core::machine::SharedMachine,
    _input: &Payload,
) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine.clone());
    let call = ActivityCall {
        name: "ship".to_string(),
        input: Payload::null(),
        options: CallOptions::default(),
        compensates: None,
    };
    Ok(Box::pin(async move {
        ctx.sleep(Duration::from_secs(1)).await?;
        resurgam_sdk::call_by_name(machine, call).await
    }))
}

/// Waits for two signals.
fn listen(
    machine: resurgam_core::machine::SharedMachine,
    _input: &Payload,
) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let first: String = ctx.signal("word").await?;
        let second: String = ctx.signal("word").await?;
        Ok(Payload::encode(&(first, second)).unwrap())
    }))
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a model answers at once"),
    }
}

/// Everything that a node asked for while it ran some orders, and how they ended.
fn run(seed: u64) -> (String, Vec<Outcome>) {
    let mut world = World::new(seed);
    world.node.begin();
    world.settle();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    for number in 0..20 {
        let uid = world.start("order", format!("order-{number}"));
        world.wait_for(uid, &outcomes);
        world.advance(Duration::from_millis(300));
    }
    world.advance(Duration::from_secs(60));
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    (world.trace, outcomes)
}

#[test]
fn the_same_inputs_give_the_same_outputs_byte_for_byte() {
    let (first, outcomes) = run(7);
    assert_eq!(outcomes, vec![Outcome::Completed(Payload::from_text(r#""shipped""#)); 20]);
    assert!(first.lines().count() > 200, "{} outputs", first.lines().count());
    assert!(first == run(7).0, "the same seed gave other outputs");
    assert!(first != run(8).0, "chance comes from the seed");
}

/// What is stored of the call would have its attempt recorded twice until then.
#[test]
fn a_call_stays_in_memory_until_it_is_durable_what_it_waits_for() {
    let mut world = World::new(7);
    world.node.begin();
    world.goes_on = Some("ship");
    world.start("order", "order-1".to_string());
    world.advance(Duration::from_secs(2));
    let attempt = world.running.pop().unwrap();
    world.holds.batches = true;
    let failure = Failure::retry_after(Duration::from_secs(3_600), "closed until then");
    world.ends(&attempt, Err(failure));
    world.settle();
    let in_memory = |world: &World| format!("{:?}", world.node).contains("calls: 1");
    // A read that began before the call was in memory.
    world.inputs.push_back((Input::TaskLoaded { call: attempt.call, loaded: Ok(None) }, None));
    world.settle();
    assert!(in_memory(&world), "{:?}", world.node);
    world.let_go();
    assert!(!in_memory(&world), "{:?}", world.node);
}

#[test]
fn a_signal_comes_after_one_that_another_process_stored_before_it() {
    let word = |word: &str| Payload::encode(word).unwrap();
    let mut world = World::new(7);
    world.node.begin();
    world.settle();
    let outcomes = Arc::default();
    let uid = world.start("listen", "listen-1".to_string());
    world.wait_for(uid, &outcomes);
    // Nobody has told the node yet.
    let stored = StoredMessage::Signal { name: "word".to_string(), value: word("first") };
    let row = now_due(uid, "signal/1".to_string(), stored);
    let step = Step { messages: vec![MessageWrite::Insert(row)], ..Step::default() };
    at_once(world.store.commit([step].into())).unwrap();
    let (name, value) = ("word".to_string(), word("second"));
    let event = EventKind::SignalReceived { name, value, id: None };
    world.tell(uid, event);
    world.advance(Duration::from_secs(1));
    let both = Outcome::Completed(Payload::from_text(r#"["first","second"]"#));
    assert_eq!(*outcomes.lock().unwrap(), [both]);
}

#[test]
fn time_does_not_go_back_within_a_run_when_the_clock_is_set_back() {
    let mut world = World::new(7);
    world.node.begin();
    world.settle();
    let uid = world.start("order", "order-1".to_string());
    world.now = world.now.saturating_sub(Duration::from_secs(3_600));
    let event = EventKind::CancelRequested { reason: "too late".to_string() };
    world.tell(uid, event);
    world.settle();
    let history = at_once(world.store.history(RunKey::first(uid))).unwrap();
    assert!(history.iter().any(|event| event.kind.is_close()), "{history:?}");
    assert!(history.is_sorted_by_key(|event| event.at), "{history:?}");
}

#[test]
fn what_could_not_be_read_is_read_again_soon_although_the_clock_is_set_back() {
    let mut world = World::new(7);
    world.node.begin();
    world.holds.reads = Some(|read: &StoreRequest| matches!(read, StoreRequest::DueSoon { .. }));
    world.settle();
    let (_, stamp) = world.held.reads.pop().unwrap();
    let found = Err(resurgam_store::Error::transient("the connection broke"));
    world.inputs.push_back((Input::Scanned { found }, stamp));
    world.settle();
    world.now = world.now.saturating_sub(Duration::from_secs(3_600));
    world.advance(Duration::from_secs(5));
    assert_eq!(world.held.reads.len(), 1);
}

/// A world where a room is to be given back, and cleaning it goes on although it was given up.
fn world_with_lingering_attempt() -> World {
    let mut world = World::new(7);
    world.goes_on = Some("clean");
    world.node.begin();
    world.settle();
    world.start("stay", "stay-1".to_string());
    world.advance(Duration::from_secs(2));
    assert_eq!(world.began, ["clean", "rent"]);
    world
}

#[test]
fn a_clock_that_jumps_past_the_grace_period_undoes_nothing_while_an_attempt_lingers() {
    let mut world = world_with_lingering_attempt();
    world.clock_jumps(Duration::from_secs(3_600));
    world.advance(Duration::from_secs(5));
    assert_eq!(world.began, ["clean", "rent"]);
    let clean = world.running.pop().unwrap();
    world.ends(&clean, Err(Failure::of_kind(Kind::Cancelled, "it was told to end")));
    world.settle();
    assert_eq!(world.began, ["clean", "rent", "give_back"]);
}

#[test]
fn an_attempt_that_never_says_that_it_has_ended_is_waited_for_no_longer_than_its_grace_period() {
    let mut world = world_with_lingering_attempt();
    world.clock_jumps(Duration::from_secs(3_600));
    world.advance(Options::default().grace + Duration::from_secs(1));
    assert_eq!(world.began, ["clean", "rent", "give_back"]);
}
