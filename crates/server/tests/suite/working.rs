//! Remote workers: what they are given, what they report, and what becomes of those that die.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use resurgam::gate::{Breaker, Gate, Standing};
use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam::{AttemptOutcome, WorkflowDefinition};
use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_sdk::call_by_name;
use resurgam_server::{Api, Limits, Options, Remote};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::send;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const POLL: &str = "/api/v1/worker/poll";
pub(crate) const REPORT: &str = "/api/v1/worker/report";
pub(crate) const BEAT: &str = "/api/v1/worker/beat";

/// Calls the activity `charge`, which nobody here knows, with its own argument.
fn calling(workflow: &str, options: CallOptions) -> WorkflowDefinition {
    WorkflowDefinition::new(workflow, move |machine, input| {
        let options = options.clone();
        let call = ActivityCall {
            name: "charge".into(),
            input: input.clone(),
            options,
            compensates: None,
        };
        Ok(Box::pin(call_by_name(machine, call)))
    })
}

/// An app whose activities are those of workers, with its API.
pub(crate) struct World {
    pub(crate) app: TestApp,
    pub(crate) router: Router,
}

/// An app that takes activities of workers from there.
fn app_of(remote: &Remote) -> TestBuilder {
    let policy = RetryPolicy::fixed(SECOND).jitter(Jitter::None).max_attempts(3);
    let hurried = CallOptions { timeout: Some(10 * SECOND), ..CallOptions::default() };
    let watched = CallOptions { heartbeat_timeout: Some(10 * SECOND), ..CallOptions::default() };
    let app = TestApp::builder().retry(policy).activities_in(remote.source()).activity(local);
    app.workflow_definition(calling("order", CallOptions::default()))
        .workflow_definition(calling("hurried", hurried))
        .workflow_definition(calling("watched", watched))
}

/// The API of an app that works.
async fn served(app: &TestApp, remote: &Remote) -> Router {
    app.wait_for("the right to work", app.client().until_owner()).await.unwrap();
    resurgam_server::router(&app.client(), Options::default().open().remote(remote))
}

impl World {
    pub(crate) async fn new() -> Self {
        let remote = Remote::new();
        let app = app_of(&remote).start().await;
        let router = served(&app, &remote).await;
        World { app, router }
    }

    /// The server dies, and another one begins on the database.
    pub(crate) async fn restart(&mut self) {
        let remote = Remote::new();
        self.app.restart_with(app_of(&remote)).await;
        self.router = served(&self.app, &remote).await;
    }

    /// Another server on the database, which waits for no attempt itself.
    pub(crate) fn beside(&self) -> World {
        let options = Options::default().open().remote(&Remote::new());
        let router = resurgam_server::router(&self.app.client(), options);
        World { app: self.app.clone(), router }
    }

    pub(crate) async fn start(&self, id: &str, cents: u32) {
        self.app
            .client()
            .start_named::<Value>(id, "order", &json!({"cents": cents}))
            .await
            .unwrap();
    }

    pub(crate) async fn asked(&self, path: &str, body: Value) -> Value {
        let answer = self.app.wait_for(path, send(&self.router, "POST", path, &body, None)).await;
        assert_eq!(answer.status.as_u16(), 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn poll(&self, session: &str, more: Value) -> Value {
        let mut body = json!({"protocol": 1, "session": session, "max": 100,
                              "activities": [{"name": "charge"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.asked(POLL, body).await
    }

    /// The attempts that a session gets within a while.
    pub(crate) async fn tasks(&self, session: &str) -> Vec<Value> {
        let answer = self.poll(session, json!({"wait_ms": 10_000})).await;
        answer["tasks"].as_array().unwrap().clone()
    }

    pub(crate) async fn report(&self, session: &str, report: Value) -> Value {
        let body = json!({"protocol": 1, "session": session, "reports": [report]});
        self.asked(REPORT, body).await
    }

    pub(crate) async fn outcomes(&self, id: &str) -> Vec<AttemptOutcome> {
        self.app.ledger(id).await.into_iter().map(|row| row.outcome).collect()
    }

    pub(crate) async fn result(&self, id: &str) -> Value {
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

impl World {
    /// As many attempts as are to come, however they are given out.
    async fn tasks_until(&self, session: &str, count: usize) -> Vec<Value> {
        let mut tasks: Vec<Value> = Vec::new();
        while tasks.len() < count {
            // Those that it does not name would be given to it again.
            let running: Vec<&Value> = tasks.iter().map(|task| &task["task"]).collect();
            let more = self.poll(session, json!({"wait_ms": 10_000, "running": running})).await;
            let more = more["tasks"].as_array().unwrap();
            assert!(!more.is_empty(), "{tasks:?}");
            tasks.extend(more.clone());
        }
        tasks
    }

    async fn standing(&self) -> Standing {
        self.app.client().gate("charge").await.unwrap().unwrap().state.standing()
    }
}

#[test]
async fn a_gate_holds_back_what_a_remote_worker_would_get_and_its_reports_decide_about_the_gate() {
    let world = World::new().await;
    let breaker = Breaker::new().min_calls(3).probes(1).jitter(0.0).shut(60 * SECOND, 60 * SECOND);
    world.app.client().set_gate("charge", Gate::new().breaker(breaker)).await.unwrap();
    world.poll("w", json!({})).await;
    for id in ["one", "two", "three"] {
        world.start(id, 3).await;
    }
    let failure = json!({"type": "Busy", "message": "try later"});
    for task in world.tasks_until("w", 3).await {
        world.report("w", json!({"task": task["task"], "failure": failure})).await;
    }
    assert_eq!(world.standing().await, Standing::Shut);
    // Their retries are due after a second, and are not given out.
    assert_eq!(world.tasks("w").await, <[Value; 0]>::default());
    world.app.advance(55 * SECOND).await;
    let probe = world.tasks("w").await;
    assert_eq!((probe.len(), world.standing().await), (1, Standing::Probing));
    world.report("w", json!({"task": probe[0]["task"], "result": 3})).await;
    for task in world.tasks_until("w", 2).await {
        world.report("w", json!({"task": task["task"], "result": 3})).await;
    }
    for id in ["one", "two", "three"] {
        assert_eq!(world.result(id).await, json!(3));
    }
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

#[test]
async fn a_cancel_is_told_once_to_whoever_polls_and_the_next_poll_waits() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    world.app.client().cancel("one", "a mistake").await.unwrap();
    world.app.advance(Duration::from_millis(1)).await;
    let busy = json!({"running": [task], "wait_ms": 2_000});
    let now = || world.app.client().handle().now();
    let before = now();
    assert_eq!(world.poll("w", busy.clone()).await["cancel"], json!([task]));
    assert_eq!(now(), before, "the first one is answered at once");
    // The answer may have been lost, so it is told again; and nobody asks in a loop meanwhile.
    assert_eq!(world.poll("w", busy).await["cancel"], json!([task]));
    assert!(now().since(before) >= 2 * SECOND, "{:?}", now().since(before));
}

#[test]
async fn the_policy_that_a_worker_brings_decides_about_calls_that_follow() {
    let world = World::new().await;
    world.start("before", 3).await;
    world.app.advance(SECOND).await;
    let once = json!({"activities": [{"name": "charge", "retry": {"max_attempts": 1}}]});
    world.poll("w", once.clone()).await;
    world.start("after", 3).await;
    let twice = json!({"activities": [{"name": "charge", "retry": {"max_attempts": 2}}]});
    world.app.advance(SECOND).await;
    world.poll("w", twice).await;
    world.start("later", 3).await;
    world.app.advance(SECOND).await;
    let limits = async |id: &str| {
        let found = world.app.describe(id).await;
        found.pending[0].max_attempts()
    };
    let told = [limits("before").await, limits("after").await, limits("later").await];
    let most = |most| NonZeroU32::new(most).map(resurgam::retry::Limit::Attempts);
    assert_eq!(told, [most(3), most(1), most(2)]);
}

#[test]
async fn workers_are_told_the_time_that_is_left_whoever_bounds_it() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.app.client().start_named::<Value>("one", "hurried", &json!({})).await.unwrap();
    let task = world.tasks("w").await[0].clone();
    assert_eq!(task["timeout_ms"], 10_000);
    world.app.advance(4 * SECOND).await;
    // The answer was lost.
    let again = world.poll("w", json!({})).await;
    assert_eq!(
        (&again["tasks"][0]["task"], &again["tasks"][0]["timeout_ms"]),
        (&task["task"], &6_000.into())
    );
}

#[test]
async fn what_is_given_again_is_no_more_than_was_asked_for() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    for id in ["one", "two", "three"] {
        world.start(id, 3).await;
    }
    world.app.advance(SECOND).await;
    assert_eq!(world.tasks("w").await.len(), 3);
    let again = world.poll("w", json!({"max": 2})).await["tasks"].clone();
    assert_eq!(again.as_array().unwrap().len(), 2);
    let running = json!({"max": 2, "running": [again[0]["task"], again[1]["task"]]});
    assert_eq!(world.poll("w", running).await["tasks"].as_array().unwrap().len(), 1);
}

#[test]
async fn an_attempt_that_never_began_is_none_and_one_cut_short_is_interrupted() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0].clone();
    let answer = world.report("w", json!({"task": task["task"], "released": true})).await;
    assert_eq!(answer["recorded"], json!([task["task"]]));
    let task = world.tasks("w").await[0].clone();
    assert_eq!((&task["attempt"], world.outcomes("one").await), (&1.into(), vec![]));
    let answer = world.report("w", json!({"task": task["task"], "interrupted": true})).await;
    assert_eq!(answer["recorded"], json!([task["task"]]));
    assert_eq!(world.tasks("w").await[0]["attempt"], 2);
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Interrupted]);
}

#[test]
async fn every_heartbeat_is_stored_when_it_is_answered() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    for row in 1..=3 {
        let told = world.report("w", json!({"task": task, "heartbeat": {"row": row}})).await;
        assert_eq!(told["recorded"], json!([task]));
        let found = world.app.client().describe("one").await.unwrap().unwrap();
        let heartbeat = found.pending[0].heartbeat.as_ref().unwrap();
        assert_eq!(heartbeat.details.as_str(), json!({"row": row}).to_string());
    }
    // One that is told to end is not waited for.
    world.app.client().cancel("one", "a mistake").await.unwrap();
    world.app.advance(Duration::from_millis(1)).await;
    let told = world.report("w", json!({"task": task, "heartbeat": 4})).await;
    assert_eq!((&told["recorded"], &told["cancel"]), (&json!([task]), &json!([task])));
}

#[test]
async fn a_thousand_idle_polls_wait_and_one_more_than_there_is_room_for_is_told_to_ask_later() {
    let remote = Remote::new();
    let app = TestApp::builder().workflow_definition(calling("order", CallOptions::default()));
    let app = app.activities_in(remote.source()).start().await;
    app.wait_for("the right to work", app.client().until_owner()).await.unwrap();
    let limits = Limits { polls: 1_000, ..Limits::default() };
    let api = Api::new(&app.client(), Options::default().open().remote(&remote).limits(limits));
    let router = api.router();
    let poll = |session: usize| {
        let body = json!({"protocol": 1, "session": format!("w{session}"), "wait_ms": 60_000,
                          "activities": [{"name": "charge"}]});
        let router = router.clone();
        async move { send(&router, "POST", POLL, &body, None).await }
    };
    let mut polls = tokio::task::JoinSet::new();
    for session in 0..=1_000 {
        polls.spawn(poll(session));
    }
    // It takes no time, so the clock has nothing to bring.
    let refused = polls.join_next().await;
    assert_eq!(refused.unwrap().unwrap().status.as_u16(), 429);
    app.client().start_named::<Value>("one", "order", &json!({})).await.unwrap();
    let first = app.wait_for("an attempt", polls.join_next()).await.unwrap().unwrap();
    assert_eq!(first.json()["tasks"].as_array().unwrap().len(), 1);
    api.stop();
    while let Some(told) = polls.join_next().await {
        assert_eq!(told.unwrap().json()["tasks"], json!([]));
    }
}

#[test]
async fn a_call_whose_last_worker_has_gone_waits_and_has_used_up_no_attempt() {
    let world = World::new().await;
    world.poll("gone", json!({})).await;
    world.start("one", 3).await;
    world.app.advance(60 * SECOND).await;
    let found = world.app.describe("one").await;
    assert_eq!(found.pending[0].waits_for.map(resurgam::WaitsFor::name), Some("lacking"));
    assert_eq!(world.tasks("w").await[0]["attempt"], 1);
    assert_eq!(world.outcomes("one").await, []);
}

#[test]
async fn workers_are_listed_with_what_they_offer_and_have() {
    let world = World::new().await;
    world.poll("a-long-secret", json!({})).await;
    world.start("one", 3).await;
    world.tasks("a-long-secret").await;
    let told = crate::support::get(&world.router, "/api/v1/workers").await["items"][0].clone();
    assert_eq!((&told["session"], &told["running"]), (&"a-long-s".into(), &1.into()));
    assert_eq!((&told["activities"], &told["polls"]), (&json!(["charge"]), &false.into()));
}

#[test]
async fn an_activity_of_the_process_is_none_of_workers() {
    let world = World::new().await;
    let body = json!({"protocol": 1, "session": "w", "activities": [{"name": "local"}]});
    let refused = send(&world.router, "POST", POLL, &body, None).await;
    assert_eq!(refused.status.as_u16(), 409, "{refused:?}");
    assert!(refused.text.contains("local"), "{refused:?}");
}

#[activity]
async fn local() -> Result<(), Failure> {
    Ok(())
}

#[test]
async fn a_report_about_an_attempt_that_was_lost_meanwhile_is_over_and_not_recorded() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.app.client().start_named::<Value>("one", "hurried", &json!({})).await.unwrap();
    let task = world.tasks("w").await[0]["task"].clone();
    // Its time is up, and its worker goes on until the grace period ends.
    world.app.advance(10 * SECOND).await;
    let ledger = world.app.ledger("one").await;
    assert_eq!(ledger[0].failure.as_ref().unwrap().kind, resurgam::Kind::Timeout);
    let late = world.report("w", json!({"task": task, "result": "too late"})).await;
    assert_eq!((&late["over"], &late["recorded"]), (&json!([task]), &json!([])));
    let task = world.tasks("w").await[0].clone();
    assert_eq!(task["attempt"], 2);
    world.report("w", json!({"task": task["task"], "result": "in time"})).await;
    assert_eq!(world.result("one").await, "in time");
}

#[test]
async fn a_report_of_an_attempt_that_its_run_gave_up_is_over() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    for (id, mut report) in [("one", json!({"result": 7})), ("two", json!({"cancelled": true}))] {
        world.start(id, 3).await;
        let task = world.tasks("w").await[0]["task"].clone();
        world.app.client().cancel(id, "a mistake").await.unwrap();
        world.app.advance(Duration::from_millis(1)).await;
        report["task"] = task.clone();
        assert_eq!(world.report("w", report).await["over"], json!([task]));
        assert!(world.app.history(id).await.contains("ActivityCancelled"));
    }
}

#[test]
async fn what_is_reported_while_the_engine_stops_is_recorded_by_it_or_by_the_next() {
    let mut world = World::new().await;
    world.poll("w", json!({})).await;
    let reports = [
        ("one", json!({"result": 7})),
        ("two", json!({"failure": {"type": "Busy"}})),
        ("three", json!({"interrupted": true})),
    ];
    for (id, _) in &reports {
        world.start(id, 3).await;
    }
    let tasks = world.tasks_until("w", 3).await;
    let handle = world.app.client().handle().clone();
    let told = reports.iter().map(|(id, report)| {
        let task = tasks.iter().find(|task| task["instance"] == *id).unwrap();
        let mut report = report.clone();
        report["task"] = task["task"].clone();
        report
    });
    let told: Vec<Value> = told.collect();
    let body = json!({"protocol": 1, "session": "w", "reports": told});
    let report = send(&world.router, "POST", REPORT, &body, None);
    let both = async { tokio::join!(handle.stop(), report) };
    let (stopped, _either_way) = world.app.wait_for("the end of the engine", both).await;
    stopped.unwrap();
    world.restart().await;
    for report in told {
        let task = report["task"].clone();
        let answer = world.report("w", report).await;
        let all = [&answer["recorded"], &answer["over"]];
        assert!(all.contains(&&json!([task])), "{answer}");
    }
    assert_eq!(world.result("one").await, 7);
    for (id, outcome) in [("two", AttemptOutcome::Failed), ("three", AttemptOutcome::Interrupted)] {
        assert_eq!(world.outcomes(id).await, [outcome], "{id}");
    }
}

#[test]
async fn a_report_of_a_call_that_an_operator_completed_meanwhile_is_over() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    let uid = world.app.client().find("one").await.unwrap().unwrap().uid;
    let path = format!("/api/v1/calls/{uid}.1.2/actions/complete");
    let body = json!({"value": "by hand", "unchecked": true});
    let done = world.app.wait_for("it", send(&world.router, "POST", &path, &body, None)).await;
    assert_eq!(done.status.as_u16(), 200, "{done:?}");
    let late = world.report("w", json!({"task": task, "result": "too late"})).await;
    assert_eq!((&late["over"], &late["recorded"]), (&json!([task]), &json!([])));
    assert_eq!(world.result("one").await, "by hand");
}
