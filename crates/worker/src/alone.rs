//! A node alone, without a driver: on a model store that answers at once, one thing after another.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{EventKind, Failure, Payload, RunKey, Timestamp, Uid};
use resurgam_sdk::{ActivityDefinition, Registry, WorkflowContext, WorkflowDefinition};
use resurgam_store::model::{Model, ModelDatabase, ModelStore, Sharing};
use resurgam_store::outage::OutageLog;
use resurgam_store::rows::Message as StoredMessage;
use resurgam_store::{Commit, Inspect, MessageWrite, Own, Ownership, Owning, Step};
use resurgam_watchdog::test;

use crate::error::Result;
use crate::handle::{Outcome, StartOptions};
use crate::node::{
    Answers, At, AttemptEnd, Facts, Input, Node, Output, Replies, Reply, Request, RoleAnswer,
    Stamp, Waiter, now_due,
};
use crate::options::Options;

/// A node with everything that it asks for, and what it asked for so far.
struct World {
    node: Node,
    store: ModelStore,
    right: Option<Ownership>,
    now: Timestamp,
    inputs: VecDeque<(Input, Option<Stamp>)>,
    replies: Replies,
    asked: u64,
    trace: String,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut registry = Registry::default();
        let ship = ActivityDefinition::new("ship", |_, _| unreachable!("the test ends attempts"));
        registry.add_activity_definition(ship, &[]).unwrap();
        registry.add_workflow_definition(WorkflowDefinition::new("order", order)).unwrap();
        registry.add_workflow_definition(WorkflowDefinition::new("listen", listen)).unwrap();
        let database = ModelDatabase::new(Model::new(Sharing::OneNode));
        let store = ModelStore::on(&database);
        let assignment = store.assignment().borrow().clone();
        let facts = Facts { is_shared: false, lanes: 1, assignment };
        let now = Timestamp::from_millis(1_767_225_600_000);
        let node = Node::new(Arc::new(registry), Options::default(), facts, seed, now);
        World {
            node,
            store,
            right: None,
            now,
            inputs: VecDeque::new(),
            replies: Replies::default(),
            asked: 0,
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
            self.now = next.map_or(end, |next| next.max(self.now));
            if next.is_none() {
                return;
            }
        }
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
        At { now: self.now, may_begin: true }
    }

    fn carry_out(&mut self, output: Output) {
        writeln!(self.trace, "{} {output:?}", self.now.as_millis()).unwrap();
        match output {
            Output::Answer(answer) => self.replies.hand_over(answer),
            Output::Commit { lane, next, .. } => {
                let answer = at_once(self.store.commit(next.steps));
                let durable = self.node.batch_answered(self.at(), lane, answer);
                durable.into_iter().for_each(|durable| self.node.effects(durable));
            }
            Output::Read { read, stamp, .. } => {
                let input = at_once(read.ask(&self.store, &OutageLog::default()));
                self.inputs.extend(input.map(|input| (input, stamp)));
            }
            Output::TryOwn { node, .. } => {
                let Ok(Owning::Taken(right)) = at_once(self.store.try_own(node)) else {
                    panic!("nobody else works")
                };
                let taken = RoleAnswer::Taken(right.shards().to_vec());
                self.right = Some(right);
                self.inputs.push_back((Input::Role(Ok(taken)), None));
            }
            Output::StartAttempt(start) => {
                let failed = Err(Failure::retryable("the gateway is down"));
                let shipped = Ok(Payload::from_text(r#""shipped""#));
                let result = if start.number < 3 { failed } else { shipped };
                let end = AttemptEnd { result, lingers: false, heartbeat: None };
                let ended = Input::AttemptEnded { call: start.call, token: start.token, end };
                self.inputs.push_back((ended, None));
            }
            Output::Changed(_) | Output::AnythingChanged => {}
            other => panic!("not expected here: {other:?}"),
        }
    }
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
