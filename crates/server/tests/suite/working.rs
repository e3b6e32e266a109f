//! Remote workers: what they are given, what they report, and what becomes of those that die.

use std::time::Duration;

use axum::Router;
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{AttemptOutcome, WorkflowDefinition};
use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_sdk::call_by_name;
use resurgam_server::{Options, Remote};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::send;

const SECOND: Duration = Duration::from_secs(1);
const POLL: &str = "/api/v1/worker/poll";
const REPORT: &str = "/api/v1/worker/report";
const BEAT: &str = "/api/v1/worker/beat";

/// Calls the activity `charge`, which nobody here knows, with its own argument.
fn order() -> WorkflowDefinition {
    WorkflowDefinition::new("order", |machine, input| {
        let options = CallOptions::default();
        let call = ActivityCall {
            name: "charge".into(),
            input: input.clone(),
            options,
            compensates: None,
        };
        Ok(Box::pin(call_by_name(machine, call)))
    })
}

struct World {
    app: TestApp,
    router: Router,
}

impl World {
    async fn new() -> Self {
        let remote = Remote::new();
        let policy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(3);
        let app = TestApp::builder().workflow_definition(order()).retry(policy);
        let app = app.activities_in(remote.source()).start().await;
        app.wait_for("the right to work", app.client().until_owner()).await.unwrap();
        let options = Options::default().open().remote(&remote);
        let router = resurgam_server::router(&app.client(), options);
        World { app, router }
    }

    async fn start(&self, id: &str, cents: u32) {
        self.app
            .client()
            .start_named::<Value>(id, "order", &json!({"cents": cents}))
            .await
            .unwrap();
    }

    async fn asked(&self, path: &str, body: Value) -> Value {
        let answer = self.app.wait_for(path, send(&self.router, "POST", path, &body, None)).await;
        assert_eq!(answer.status.as_u16(), 200, "{path}: {answer:?}");
        answer.json()
    }

    async fn poll(&self, session: &str, more: Value) -> Value {
        let mut body = json!({"protocol": 1, "session": session, "max": 100,
                              "activities": [{"name": "charge"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asked(POLL, body).await
    }

    /// The attempts that a session gets within a while.
    async fn tasks(&self, session: &str) -> Vec<Value> {
        let answer = self.poll(session, json!({"wait_ms": 10_000})).await;
        answer["tasks"].as_array().unwrap().clone()
    }

    async fn report(&self, session: &str, report: Value) -> Value {
        let body = json!({"protocol": 1, "session": session, "reports": [report]});
        self.asked(REPORT, body).await
    }

    async fn outcomes(&self, id: &str) -> Vec<AttemptOutcome> {
        self.app.ledger(id).await.into_iter().map(|row| row.outcome).collect()
    }

    async fn result(&self, id: &str) -> Value {
        let instance = self.app.client().instance::<Value>(id).await.unwrap().unwrap();
        self.app.wait_for(id, instance.result()).await.unwrap()
    }
}

#[test]
async fn a_worker_is_given_an_attempt_and_its_result_is_recorded_when_that_is_answered() {
    let world = World::new().await;
    assert_eq!(world.poll("w", json!({})).await["tasks"], json!([]));
    world.start("one", 3).await;
    let tasks = world.tasks("w").await;
    let task = &tasks[0];
    assert_eq!((&task["activity"], &task["attempt"]), (&"charge".into(), &1.into()));
    assert_eq!((&task["input"], &task["instance"]), (&json!({"cents": 3}), &"one".into()));
    let name = task["task"].clone();
    let answer = world.report("w", json!({"task": name, "result": {"paid": 3}})).await;
    assert_eq!((&answer["recorded"], &answer["over"]), (&json!([name]), &json!([])));
    // It is stored by now: nothing was left to be done.
    let found = world.app.client().describe("one").await.unwrap().unwrap();
    assert!(found.pending.is_empty(), "{found:?}");
    assert_eq!(world.result("one").await, json!({"paid": 3}));
    let again = world.report("w", json!({"task": name, "result": 4})).await;
    assert_eq!(again["over"], json!([name]));
}

#[test]
async fn a_failure_follows_the_policy_and_one_that_is_not_retryable_ends_the_call() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    let failure = json!({"type": "Busy", "message": "try later", "code": "503"});
    world.report("w", json!({"task": task, "failure": failure})).await;
    let tasks = world.tasks("w").await;
    assert_eq!(tasks[0]["attempt"], 2);
    let failure = json!({"type": "Broke", "message": "no money", "retryable": false});
    world.report("w", json!({"task": tasks[0]["task"], "failure": failure})).await;
    let instance = world.app.client().instance::<Value>("one").await.unwrap().unwrap();
    let error = world.app.wait_for("the end", instance.result()).await.unwrap_err();
    let failure = error.failure().unwrap();
    assert_eq!(failure.type_name.as_deref(), Some("Broke"));
    assert_eq!(
        world.app.ledger("one").await[0].failure.as_ref().unwrap().code.as_deref(),
        Some("503")
    );
}

#[test]
async fn an_attempt_whose_answer_was_lost_is_given_again_under_the_same_name() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let first = world.tasks("w").await;
    let again = world.poll("w", json!({})).await;
    assert_eq!(again["tasks"][0]["task"], first[0]["task"]);
    let known = world.poll("w", json!({"running": [first[0]["task"]]})).await;
    assert_eq!(known["tasks"], json!([]));
    assert_eq!(world.poll("other", json!({})).await["tasks"], json!([]));
}

#[test]
async fn a_worker_that_is_silent_for_a_lease_loses_its_attempt_and_another_runs_it() {
    let world = World::new().await;
    world.poll("dead", json!({})).await;
    world.start("one", 3).await;
    let lost = world.tasks("dead").await[0]["task"].clone();
    for _ in 0..4 {
        world.app.advance(10 * SECOND).await;
        world.poll("other", json!({})).await;
    }
    let tasks = world.tasks("other").await;
    assert_eq!(tasks[0]["attempt"], 2);
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Lost]);
    let late = world.report("dead", json!({"task": lost, "result": 1})).await;
    assert_eq!(late["over"], json!([lost]));
    world.report("other", json!({"task": tasks[0]["task"], "result": 2})).await;
    assert_eq!(world.result("one").await, 2);
}

#[test]
async fn a_busy_worker_that_beats_keeps_its_attempt() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    for _ in 0..9 {
        world.app.advance(10 * SECOND).await;
        let body = json!({"protocol": 1, "session": "w", "running": [task, "x.1"]});
        let answer = world.asked(BEAT, body).await;
        assert_eq!((&answer["over"], &answer["cancel"]), (&json!(["x.1"]), &json!([])));
    }
    world.report("w", json!({"task": task, "result": null})).await;
    assert_eq!(world.result("one").await, Value::Null);
}

#[test]
async fn a_worker_hears_that_its_attempt_is_to_end() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    world.app.client().cancel("one", "a mistake").await.unwrap();
    world.app.advance(Duration::from_millis(1)).await;
    let answer = world.poll("w", json!({"running": [task], "wait_ms": 10_000})).await;
    assert_eq!(answer["cancel"], json!([task]));
    world.report("w", json!({"task": task, "cancelled": true})).await;
    let instance = world.app.client().instance::<Value>("one").await.unwrap().unwrap();
    assert!(world.app.wait_for("the end", instance.result()).await.is_err());
}

#[test]
async fn a_timeout_that_a_worker_names_runs_from_when_it_took_the_attempt() {
    let world = World::new().await;
    let offers = json!({"activities": [{"name": "charge", "timeout": "10s"}]});
    world.poll("w", offers.clone()).await;
    world.start("one", 3).await;
    world.app.advance(8 * SECOND).await;
    let tasks = world.poll("w", offers).await["tasks"].clone();
    assert_eq!(tasks[0]["timeout_ms"], 10_000);
    world.app.advance(8 * SECOND).await;
    assert_eq!(world.outcomes("one").await, []);
    world.app.advance(3 * SECOND).await;
    let ledger = world.app.ledger("one").await;
    assert_eq!(ledger[0].failure.as_ref().unwrap().kind, resurgam::Kind::Timeout);
}

#[test]
async fn snoozes_are_free_and_heartbeats_reach_the_next_attempt() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    let beat = world.report("w", json!({"task": task, "heartbeat": {"row": 9}})).await;
    assert_eq!(beat["recorded"], json!([task]));
    world.report("w", json!({"task": task, "snooze": "5s"})).await;
    let tasks = world.tasks("w").await;
    assert_eq!(
        (&tasks[0]["attempt"], &tasks[0]["last_heartbeat"]),
        (&2.into(), &json!({"row": 9}))
    );
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Snoozed]);
}

#[test]
async fn calls_wait_while_no_worker_offers_their_activity() {
    let world = World::new().await;
    world.start("one", 3).await;
    world.app.advance(SECOND).await;
    let found = world.app.describe("one").await;
    assert_eq!(found.pending[0].waits_for.map(resurgam::WaitsFor::name), Some("unregistered"));
    let tasks = world.tasks("w").await;
    assert_eq!(tasks[0]["attempt"], 1);
    assert_eq!(world.outcomes("one").await, []);
}

#[test]
async fn what_a_worker_should_not_send_is_refused() {
    let world = World::new().await;
    let ask =
        async |body: Value| send(&world.router, "POST", POLL, &body, None).await.status.as_u16();
    let poll = |more: Value| {
        let mut body = json!({"protocol": 1, "session": "w", "activities": []});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    assert_eq!(ask(poll(json!({"protocol": 0}))).await, 426);
    assert_eq!(ask(poll(json!({"session": ""}))).await, 422);
    assert_eq!(ask(poll(json!({"activities": [{"name": "a", "retry": {"max": 1}}]}))).await, 422);
    assert_eq!(ask(poll(json!({"activities": [{"name": "a", "timeout": "soon"}]}))).await, 422);
    assert_eq!(ask(poll(json!({"from_the_future": 1}))).await, 200);
    let without = crate::support::router(&world.app);
    let answer = send(&without, "POST", POLL, &poll(json!({})), None).await;
    assert_eq!(answer.status.as_u16(), 503);
}

/// The names of the fields of an object.
fn fields(value: &Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}

#[test]
async fn the_example_of_the_page_is_what_is_spoken() {
    let page = include_str!("../../../../docs/remote-workers.md");
    let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let (ask, told) = example.split_once('→').unwrap();
    let mut ask: Value = serde_json::from_str(ask).unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    let world = World::new().await;
    world.start("order-42", 300).await;
    ask["queues"] = json!([]);
    let answer = world.asked(POLL, ask).await;
    assert_eq!(fields(&answer), fields(&told));
    assert_eq!(fields(&answer["tasks"][0]), fields(&told["tasks"][0]));
    assert_eq!(answer["tasks"][0]["timeout_ms"], told["tasks"][0]["timeout_ms"]);
}
