//! Attempts that outlive the process which began them: the next one waits for them.

use resurgam_core::machine::SharedMachine;
use resurgam_store::rows::{AttemptOutcome, AttemptRow, Heartbeat, TaskRow};
use resurgam_store::{Report, Reported};
use resurgam_watchdog::test;

use super::*;

/// The activity and the workflow of these tests.
pub(super) fn register(registry: &mut Registry) {
    let mut far = ActivityDefinition::new("far", |_, _| unreachable!("the test ends attempts"));
    far.outlives = true;
    registry.add_activity_definition(far, &[]).unwrap();
    registry.add_workflow_definition(WorkflowDefinition::new("go_far", go_far)).unwrap();
    let mut rent = ActivityDefinition::of::<RentFar>();
    rent.outlives = true;
    registry.add_activity_definition(rent, &[]).unwrap();
    registry.add_workflow_definition(WorkflowDefinition::new("stay_far", stay_far)).unwrap();
}

#[derive(Serialize, Deserialize)]
struct RentFar;

impl Activity for RentFar {
    const NAME: &'static str = "rent_far";
    type Output = ();

    async fn run(self, _: ActivityContext) -> Result<(), Failure> {
        unreachable!("the test ends attempts")
    }
}

/// Has other processes rent something that is given back when it is not wanted.
fn stay_far(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let ctx = WorkflowContext::new(machine);
    Ok(Box::pin(async move {
        let rented = ctx.call(RentFar).compensate_with(|_| GiveBack);
        rented.await.map(|()| Payload::null())
    }))
}

/// Calls something that other processes run.
fn go_far(machine: SharedMachine, _: &Payload) -> Result<WorkflowFuture, String> {
    let call = ActivityCall {
        name: "far".to_string(),
        input: Payload::null(),
        options: CallOptions::default(),
        compensates: None,
    };
    Ok(Box::pin(resurgam_sdk::call_by_name(machine, call)))
}

impl World {
    /// A node that has begun, and whose attempts go on.
    fn begun(database: &ModelDatabase, seed: u64) -> Self {
        let mut world = World::beside(database, Options::default(), seed);
        world.goes_on = Some("far");
        world.node.begin();
        world.settle();
        world
    }

    /// The process dies, and another one begins on what is stored.
    fn dies(self, seed: u64) -> Self {
        let (database, now, elapsed) = (self.store.database().clone(), self.now, self.elapsed);
        let goes_on = self.goes_on;
        drop(self);
        let mut world = World::beside(&database, Options::default(), seed);
        (world.goes_on, world.now, world.elapsed) = (goes_on, now, elapsed);
        world.node.begin();
        world.settle();
        world
    }

    fn call_of(&self, uid: Uid) -> TaskRow {
        at_once(self.store.tasks(RunKey::first(uid))).unwrap().remove(0)
    }

    fn attempts_of(&self, uid: Uid) -> Vec<AttemptRow> {
        at_once(self.store.attempts(RunKey::first(uid))).unwrap()
    }

    /// Another process has heard something of an attempt.
    fn heard_elsewhere(&mut self, attempt: &AttemptStart, outcome: Reported) {
        let (at, token, activity) = (self.now, attempt.token, attempt.call.seq);
        let told = (outcome == Reported::GoesOn).then(Payload::null);
        let heartbeat = told.map(|details| Heartbeat { details, at });
        let report = Box::new(Report { activity, token, at, outcome, heartbeat });
        let reply = self.reply(|told: Result<()>| told.unwrap());
        self.ask(Request::Report { run: attempt.call.run, report, reply });
        self.settle();
    }
}

fn database() -> ModelDatabase {
    ModelDatabase::new(Model::new(Sharing::OneNode))
}

#[test]
fn the_attempt_goes_on_under_the_same_token_and_number_and_its_end_is_recorded() {
    let mut world = World::begun(&database(), 7);
    let uid = world.start("go_far", "far-1".to_string());
    let before = world.running.pop().unwrap();
    assert!(!before.resumed);
    let mut world = world.dies(8).dies(9);
    let after = world.running.pop().unwrap();
    assert!(after.resumed);
    assert_eq!((after.call, after.token, after.number), (before.call, before.token, 1));
    assert_eq!(world.call_of(uid).claim.unwrap().node, world.node.name());
    let outcomes = Arc::default();
    world.wait_for(uid, &outcomes);
    world.ends(&after, Ok(Payload::null()));
    world.settle();
    assert!(matches!(outcomes.lock().unwrap()[..], [Outcome::Completed(_)]));
    assert_eq!(world.attempts_of(uid), []);
}

#[test]
fn an_attempt_that_turns_out_to_be_lost_is_followed_by_another() {
    let mut world = World::begun(&database(), 7);
    let uid = world.start("go_far", "far-1".to_string());
    let mut world = world.dies(8);
    let lost = world.running.pop().unwrap();
    world.ends(&lost, Err(Failure::of_kind(Kind::WorkerLost, "nobody has named it")));
    world.advance(Duration::from_secs(60));
    let next = world.running.pop().unwrap();
    assert_eq!((next.number, next.resumed), (2, false));
    assert_eq!(world.attempts_of(uid)[0].outcome, AttemptOutcome::Lost);
}

#[test]
fn what_another_process_has_heard_of_an_attempt_ends_it_here() {
    let mut world = World::begun(&database(), 7);
    let uid = world.start("go_far", "far-1".to_string());
    let attempt = world.running.pop().unwrap();
    world.heard_elsewhere(&attempt, Reported::GoesOn);
    assert_eq!(world.orders, [(attempt.token, Order::Alive)]);
    assert!(world.call_of(uid).heartbeat.is_some());
    let outcomes = Arc::default();
    world.wait_for(uid, &outcomes);
    world.heard_elsewhere(&attempt, Reported::Completed(Payload::null()));
    assert_eq!(world.orders.last(), Some(&(attempt.token, Order::Cut)));
    assert!(matches!(outcomes.lock().unwrap()[..], [Outcome::Completed(_)]));
    // It has no slot any more: as many begin as before.
    world.start("go_far", "far-2".to_string());
    assert_eq!(world.running.len(), 1);
}

#[test]
fn what_was_heard_while_nobody_worked_is_recorded_and_the_attempt_not_waited_for() {
    let mut world = World::begun(&database(), 7);
    let uid = world.start("go_far", "far-1".to_string());
    let attempt = world.running.pop().unwrap();
    // The message is stored, and not read before the process dies.
    world.holds.reads = Some(|read| matches!(read, StoreRequest::Reports { .. }));
    world.heard_elsewhere(&attempt, Reported::Completed(Payload::null()));
    let world = world.dies(8);
    assert!(world.running.is_empty());
    let row = at_once(world.store.instance(uid)).unwrap().unwrap();
    assert!(row.status.is_closed(), "{row:?}");
}

#[test]
fn a_stop_leaves_the_claim_to_the_next_process_and_hands_back_what_was_not_begun() {
    let mut world = World::begun(&database(), 7);
    let [taken, waits] = ["far-1", "far-2"].map(|id| world.start("go_far", id.to_string()));
    let [first, second] = [world.running.remove(0), world.running.remove(0)];
    let reply = world.reply(|told: Result<()>| told.unwrap());
    world.ask(Request::Stop { reply });
    world.settle();
    assert_eq!(world.orders, [(first.token, Order::LetGo), (second.token, Order::LetGo)]);
    assert!(!world.node.is_done());
    world.ends(&first, Err(Failure::left_running()));
    world.ends(&second, Err(Failure::never_began()));
    world.settle();
    assert!(world.node.is_done());
    assert_eq!(world.call_of(taken).claim.unwrap().token, first.token);
    assert_eq!(world.call_of(waits).claim, None);
    let world = world.dies(8);
    let resumed = |token| world.running.iter().any(|it| it.resumed && it.token == token);
    assert!(resumed(first.token) && !resumed(second.token));
    assert_eq!(world.running.len(), 2);
    assert!(world.attempts_of(taken).is_empty() && world.attempts_of(waits).is_empty());
}

#[test]
fn a_resumed_attempt_whose_run_was_cancelled_meanwhile_hears_that() {
    let mut world = World::begun(&database(), 7);
    world.goes_on = Some("rent_far");
    let uid = world.start("stay_far", "far-1".to_string());
    world.running.clear();
    world.tell(uid, EventKind::CancelRequested { reason: "a mistake".to_string() });
    world.settle();
    let world = world.dies(8);
    let attempt = &world.running[0];
    assert!(attempt.resumed);
    let told = world.orders.iter().any(|(token, order)| {
        *token == attempt.token && matches!(order, Order::Tell | Order::EndInGrace)
    });
    assert!(told, "{:?}", world.orders);
}
