//! The pure parts, a number of times: for a tool that counts instructions.
//!
//! ```sh
//! valgrind --tool=cachegrind --cache-sim=no target/release/resurgam-pure replay 100
//! ```
//!
//! Nothing here waits or looks at a clock, so that two runs count the same. The test
//! `instructions` runs each of them twice, with different numbers, and compares what one more
//! costs with `instructions.txt`.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use resurgam::Parts;
use resurgam::prelude::*;
use resurgam::retry::{CheckedPolicy, Match, Rule, State, decide};
use resurgam_core::event::{ActivityCompleted, ActivityScheduled, RunStarted};
use resurgam_core::turn::Run;
use resurgam_core::{Event, EventKind, Names, Payload, RunKey, Seq, Timestamp, Uid};

/// Does something a number of times.
type Subject = fn(u64);

/// What is counted, by name.
const SUBJECTS: [(&str, Subject); 7] = [
    ("decide", decide_by_default),
    ("decide-rules", decide_by_rules),
    ("encode", encode),
    ("decode", decode),
    ("place", place),
    ("policy", policy),
    ("replay", replay),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, times] = &arguments[..] else { return usage() };
    let subject = SUBJECTS.iter().find(|(known, _)| known == name);
    let (Some((_, subject)), Ok(times)) = (subject, times.parse()) else { return usage() };
    subject(times);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let names: Vec<&str> = SUBJECTS.iter().map(|(name, _)| *name).collect();
    eprintln!("usage: resurgam-pure {} TIMES", names.join("|"));
    ExitCode::from(2)
}

fn decide_by_default(times: u64) {
    decisions(times, &RetryPolicy::DEFAULT.check().expect("the default makes sense"));
}

/// Ten rules, of which the last one matches.
fn decide_by_rules(times: u64) {
    let rules = (0..10).map(|index| {
        let types = Names::from(vec![format!("Error{index}"), format!("Fault{index}")]);
        Rule::retry(Match { types, ..Match::ALL }).max_attempts(index + 1)
    });
    let policy = RetryPolicy { rules: rules.collect(), ..RetryPolicy::DEFAULT };
    decisions(times, &policy.check().expect("the rules make sense"));
}

fn decisions(times: u64, policy: &CheckedPolicy) {
    let failure = Failure::of_type("Fault9", "the gateway timed out after 3000 ms");
    let state = State::after(3, Timestamp::from_millis(0));
    for _ in 0..times {
        black_box(decide(
            black_box(policy),
            black_box(&state),
            black_box(&failure),
            Timestamp::from_millis(12_000),
            black_box(0.5),
        ));
    }
}

/// The two events of a step.
fn encode(times: u64) {
    let (scheduled, completed) = (scheduled(), completed(2));
    for _ in 0..times {
        black_box(black_box(&scheduled).to_stored());
        black_box(black_box(&completed).to_stored());
    }
}

fn decode(times: u64) {
    let stored = [scheduled().to_stored(), completed(2).to_stored()];
    for _ in 0..times {
        for event in black_box(&stored) {
            let read = EventKind::from_stored(event.kind, &event.head, event.body.clone());
            black_box(read.expect("what was written can be read"));
        }
    }
}

/// Where an instance belongs.
fn place(times: u64) {
    for number in 0..times {
        black_box(Uid(black_box(u128::from(number))).placed(black_box("order-2026-11-15-0042")));
    }
}

/// A stored policy, ready to decide.
fn policy(times: u64) {
    let text = RetryPolicy::DEFAULT.to_stored();
    for _ in 0..times {
        let read = RetryPolicy::from_stored(black_box(&text)).expect("it was written by us");
        black_box(read.check().expect("it made sense before"));
    }
}

#[activity]
async fn tick(number: u64) -> Result<u64, Failure> {
    Ok(number)
}

#[workflow]
async fn chain(ctx: WorkflowContext, activities: u64) -> Result<u64, Failure> {
    let mut last = 0;
    for number in 1..=activities {
        last = ctx.call(tick(number)).await?;
    }
    Ok(last)
}

/// A history of this many steps, turn by turn.
fn replay(steps: u64) {
    let input = Payload::encode(&serde_json::json!({ "activities": steps + 1 }));
    let input = input.expect("a number can be written");
    let mut parts = Parts::default();
    parts.workflow(chain);
    let definition = parts.registry.workflow("chain").map(Arc::clone).expect("just added");
    let started = EventKind::RunStarted(RunStarted::new("chain", input.clone(), 7));
    let mut events = vec![event(1, started)];
    for number in 0..steps {
        let seq = 2 + number * 2;
        events.push(event(seq, call(number + 1)));
        events.push(event(seq + 1, completed(seq)));
    }
    let mut run = Run::new(RunKey::first(Uid(7)), |machine| {
        definition.begin(machine, &input).expect("the argument fits")
    });
    let rest = run.replay(black_box(&events)).expect("the code is the same");
    assert_eq!(rest.len(), 1, "the next call was not made yet");
}

fn event(seq: u64, kind: EventKind) -> Event {
    Event { seq: Seq(seq), at: Timestamp::from_millis(1_700_000_000_000), kind }
}

fn call(number: u64) -> EventKind {
    EventKind::ActivityScheduled(ActivityScheduled {
        name: "tick".into(),
        input: Payload::from_text(format!(r#"{{"number":{number}}}"#)),
        compensates: None,
        queue: "default".into(),
    })
}

fn scheduled() -> EventKind {
    EventKind::ActivityScheduled(ActivityScheduled {
        name: "charge".into(),
        input: Payload::from_text(r#"{"order_id":"order-123456","cents":129900,"currency":"EUR"}"#),
        compensates: None,
        queue: "default".into(),
    })
}

fn completed(activity: u64) -> EventKind {
    EventKind::ActivityCompleted(ActivityCompleted {
        activity: Seq(activity),
        result: Payload::from_text("7"),
        attempt: 1,
        started_at: Timestamp::from_millis(1_700_000_000_000),
        after_cancel: false,
        fallback: false,
        retry_metadata: None,
    })
}
