//! What `#[workflow]` writes, driven turn by turn.

use std::time::Duration;

use expect_test::{Expect, expect};
use resurgam::{
    Activity, ActivityContext, Constructor, Registry, Workflow, WorkflowContext, WorkflowDefinition,
};
use resurgam_core::event::{ActivityCompleted, ActivityFailed, RunStarted};
use resurgam_core::turn::Run;
use resurgam_core::{Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, Uid, history};
use resurgam_macros::{activity, workflow};
use resurgam_watchdog::test;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Tracking {
    number: u32,
    receipt: String,
}

#[activity]
async fn charge(ctx: ActivityContext, order_id: String, cents: u64) -> Result<String, Failure> {
    Ok(format!("{order_id} {cents} {}", ctx.idempotency_key()))
}

/// By hand, called like the others.
#[derive(Serialize, Deserialize)]
struct Ship {
    order_id: String,
}

impl Activity for Ship {
    const NAME: &'static str = "ship";
    type Output = u32;

    async fn run(self, _ctx: ActivityContext) -> Result<u32, Failure> {
        Ok(7)
    }
}

/// Takes the money, waits a minute, and ships.
#[workflow(alias = "fulfill")]
async fn fulfil(ctx: WorkflowContext, order_id: String, cents: u64) -> Result<Tracking, Failure> {
    let receipt = ctx.call(charge(order_id.clone(), cents)).await?;
    ctx.sleep(Duration::from_secs(60)).await?;
    let number = ctx.call(Ship { order_id }).queue("warehouse").await?;
    Ok(Tracking { number, receipt })
}

#[test]
fn a_workflow_goes_on_turn_by_turn_and_replays() {
    let mut story = Story::begin(&fulfil("order-42".to_string(), 4200));
    story.input(completed(Seq(2), &"paid"));
    story.input(EventKind::TimerFired { timer: Seq(4) });
    story.input(completed(Seq(6), &7));
    story.check::<fulfil>(expect![[r#"
        1 +0ms RunStarted fulfil {"order_id":"order-42","cents":4200}
        2 +0ms ActivityScheduled charge {"order_id":"order-42","cents":4200}
        3 +1s ActivityCompleted #2 "paid"
        4 +1s TimerStarted until +1m 1s
        5 +2s TimerFired #4
        6 +2s ActivityScheduled ship {"order_id":"order-42"}
        7 +3s ActivityCompleted #6 7
        8 +3s RunCompleted {"number":7,"receipt":"paid"}
    "#]]);
}

#[test]
fn a_failure_leaves_the_workflow_with_a_question_mark() {
    let mut story = Story::begin(&fulfil("order-42".to_string(), 1));
    story.input(EventKind::ActivityFailed(ActivityFailed {
        activity: Seq(2),
        failure: Failure::of_type("Declined", "no money"),
        attempt: 1,
        started_at: Timestamp::EPOCH,
        why: "never_for".to_string(),
        settles: false,
        ends_run: false,
        retry_metadata: None,
    }));
    story.check::<fulfil>(expect![[r#"
        1 +0ms RunStarted fulfil {"order_id":"order-42","cents":1}
        2 +0ms ActivityScheduled charge {"order_id":"order-42","cents":1}
        3 +1s ActivityFailed #2 never_for: Declined: no money
        4 +1s RunFailed Declined: no money
    "#]]);
}

#[derive(Debug)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the list is too long")
    }
}

impl std::error::Error for TooLong {}

/// A workflow whose name means, in its own code, the function that builds a start of it.
#[workflow(name = "lists.first")]
async fn first(_ctx: WorkflowContext, mut list: Vec<u8>) -> Result<Option<u8>, TooLong> {
    let next: first = first(list.split_off(list.len().min(1)));
    if next.list.len() > 1 { Err(TooLong) } else { Ok(list.pop()) }
}

#[test]
fn arguments_are_variables_and_errors_may_be_the_users() {
    Story::begin(&first(vec![5, 6])).check::<first>(expect![[r#"
        1 +0ms RunStarted lists.first {"list":[5,6]}
        2 +0ms RunCompleted 5
    "#]]);
    Story::begin(&first(vec![5, 6, 7])).check::<first>(expect![[r#"
        1 +0ms RunStarted lists.first {"list":[5,6,7]}
        2 +0ms RunFailed TooLong: the list is too long
    "#]]);
}

#[test]
fn the_name_alone_registers_a_workflow() {
    fn register<Args, F>(registry: &mut Registry, _name: F)
    where
        F: Constructor<Args>,
        F::Built: Workflow,
    {
        registry.add_workflow::<F::Built>().unwrap();
    }
    let mut registry = Registry::default();
    register(&mut registry, fulfil);
    register(&mut registry, first);
    assert_eq!(registry.workflow_names(), ["fulfil", "fulfill", "lists.first"]);
}

const NEWEST: u32 = 3;

#[workflow(name = "fulfil", version = 2)]
async fn fulfil_v2(_ctx: WorkflowContext, order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

#[workflow(name = "fulfil", version = NEWEST)]
async fn fulfil_v3(_ctx: WorkflowContext, order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

#[test]
fn versions_of_one_name_stand_side_by_side() {
    assert_eq!((fulfil::VERSION, fulfil_v2::VERSION, fulfil_v3::VERSION), (1, 2, 3));
    let mut registry = Registry::default();
    registry.add_workflow::<fulfil>().unwrap();
    registry.add_workflow::<fulfil_v3>().unwrap();
    registry.add_workflow::<fulfil_v2>().unwrap();
    assert_eq!(registry.workflow("fulfil").unwrap().version, 3);
    assert_eq!(registry.workflow_version("fulfil", 1).unwrap().version, 1);
    let again = registry.add_workflow::<fulfil_v2>().unwrap_err().to_string();
    assert!(again.contains("version 2 of it is there already"), "{again}");
}

/// A run and its history. Inputs come a second apart.
struct Story {
    run: Run,
    events: Vec<Event>,
}

impl Story {
    fn begin<W: Workflow>(start: &W) -> Self {
        let input = Payload::encode(start).unwrap();
        let mut story = Story { run: new_run::<W>(&input), events: Vec::new() };
        let workflow = W::NAME.to_string();
        story.input(EventKind::RunStarted(RunStarted::new(workflow, input, 1)));
        story
    }

    fn input(&mut self, kind: EventKind) {
        let inputs = self.events.iter().filter(|event| event.kind.is_input()).count();
        let at = Timestamp::EPOCH.saturating_add(Duration::from_secs(inputs as u64));
        let event = Event { seq: self.run.next_seq(), at, kind };
        let commands = self.run.turn(&event).unwrap();
        self.events.push(event);
        let record = commands.iter().map(|command| Event {
            seq: command.seq,
            at,
            kind: command.kind.record(),
        });
        self.events.extend(record);
    }

    /// Compares the history, and the history with what the code does on replay.
    fn check<W: Workflow>(self, expected: Expect) {
        expected.assert_eq(&history::text(&self.events, &[]));
        let EventKind::RunStarted(started) = &self.events[0].kind else { panic!("it began") };
        let rest = new_run::<W>(&started.input).replay(&self.events);
        assert_eq!(rest, Ok(Vec::new()));
    }
}

fn new_run<W: Workflow>(input: &Payload) -> Run {
    let definition = WorkflowDefinition::of::<W>();
    Run::new(RunKey::first(Uid(7)), |machine| definition.begin(machine, input).unwrap())
}

fn completed(activity: Seq, result: &impl Serialize) -> EventKind {
    EventKind::ActivityCompleted(ActivityCompleted {
        activity,
        result: Payload::encode(result).unwrap(),
        attempt: 1,
        started_at: Timestamp::EPOCH,
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    })
}
