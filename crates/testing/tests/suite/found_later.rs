//! Activities that come and go while the engine runs, and a workflow that runs all names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resurgam::retry::RetryPolicy;
use resurgam::{Failure, Payload, WaitsFor};
use resurgam_core::command::{ActivityCall, CallOptions};
use resurgam_sdk::{ActivityDefinition, ActivitySource, WorkflowDefinition, call_by_name};
use resurgam_testing::{TestApp, TestBuilder};
use resurgam_watchdog::test;
use serde_json::{Value, json};

/// A place where one activity is, or is not.
#[derive(Debug, Default)]
struct Shelf {
    there: Mutex<Option<Arc<ActivityDefinition>>>,
    /// How often it is found before it is gone for whoever asks.
    gone_after: Mutex<Option<u32>>,
    ran: Arc<AtomicU32>,
}

impl Shelf {
    fn put(&self) {
        let ran = self.ran.clone();
        let greet = ActivityDefinition::new("greet", move |_, input| {
            ran.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(input) })
        });
        *self.there.lock().unwrap() = Some(Arc::new(greet));
        *self.gone_after.lock().unwrap() = None;
    }

    fn ran(&self) -> u32 {
        self.ran.load(Ordering::SeqCst)
    }
}

impl ActivitySource for Shelf {
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let mut gone = self.gone_after.lock().unwrap();
        match gone.as_mut() {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        self.there.lock().unwrap().clone().filter(|_| name == "greet")
    }

    fn names(&self) -> Vec<String> {
        self.find("greet").into_iter().map(|found| found.name.clone()).collect()
    }
}

/// Calls the activity that its argument names.
fn any() -> WorkflowDefinition {
    WorkflowDefinition::new("any", |machine, input| {
        let argument: Value = input.decode().map_err(|error| error.to_string())?;
        let name = argument["call"].as_str().ok_or("it names no activity")?.to_string();
        let call = ActivityCall {
            name,
            input: Payload::encode(&argument["with"]).map_err(|error| error.to_string())?,
            options: CallOptions::default(),
            compensates: None,
        };
        Ok(Box::pin(call_by_name(machine, call)))
    })
}

fn builder(shelf: &Arc<Shelf>) -> TestBuilder {
    TestApp::builder().any_workflow(any()).activities_in(shelf.clone())
}

#[test]
async fn instances_of_any_name_are_run_by_one_workflow_also_after_a_restart() {
    let shelf = Arc::new(Shelf::default());
    shelf.put();
    let app = builder(&shelf).start().await;
    let argument = json!({"call": "greet", "with": {"name": "Ada"}});
    let first = app.start_named::<Value>("a", "some.file", &argument).await;
    assert_eq!(first.result().await.unwrap(), json!({"name": "Ada"}));
    *shelf.there.lock().unwrap() = None;
    let second = app.start_named::<Value>("b", "other.file", &argument).await;
    app.restart().await;
    shelf.put();
    app.client().activities_changed();
    assert_eq!(second.result().await.unwrap(), json!({"name": "Ada"}));
    assert_eq!(app.describe("b").await.instance.workflow, "other.file");
}

#[test]
async fn a_workflow_that_cannot_read_its_argument_is_refused_by_any_name() {
    let app = builder(&Arc::new(Shelf::default())).start().await;
    let refused = app.client().start_named::<Value>("a", "file", &json!({"x": 1})).await;
    assert!(refused.unwrap_err().to_string().contains("it names no activity"));
}

#[test]
async fn a_call_waits_for_an_activity_that_comes_later_and_nothing_is_counted() {
    let shelf = Arc::new(Shelf::default());
    let app = builder(&shelf).start().await;
    let waits = app.start_named::<Value>("a", "file", &json!({"call": "greet", "with": 7})).await;
    let pending = &app.describe("a").await.pending[0];
    assert_eq!((pending.waits_for, pending.attempt), (Some(WaitsFor::Unregistered), 0));
    shelf.put();
    app.client().activities_changed();
    assert_eq!(waits.result().await.unwrap(), json!(7));
    assert_eq!((shelf.ran(), app.ledger("a").await.len()), (1, 0));
}

#[test]
async fn an_activity_that_goes_between_the_claim_and_the_attempt_costs_no_attempt() {
    // However often it is asked for before it goes: when the call is made, when it is claimed.
    for found in 0..6 {
        let shelf = Arc::new(Shelf::default());
        shelf.put();
        *shelf.gone_after.lock().unwrap() = Some(found);
        let app = builder(&shelf).start().await;
        let argument = json!({"call": "greet", "with": 7});
        let instance = app.start_named::<Value>("a", "file", &argument).await;
        shelf.put();
        app.client().activities_changed();
        assert_eq!(instance.result().await.unwrap(), json!(7));
        assert_eq!((shelf.ran(), app.ledger("a").await.len()), (1, 0), "found {found} times");
        assert!(app.history("a").await.contains("ActivityCompleted #2 7"));
    }
}

/// A process that has these licences, each for the calls that name it. The first attempts fail.
fn licensed(has: &'static [&'static str], fails: u32, ran: &Arc<AtomicU32>) -> TestBuilder {
    let ran = ran.clone();
    let render = ActivityDefinition::new("render", move |ctx, input| {
        ran.fetch_add(1, Ordering::SeqCst);
        let fails = ctx.attempt() <= fails;
        Box::pin(async move { if fails { Err(Failure::new("not yet")) } else { Ok(input) } })
    })
    .lacking(move |input| {
        let needed: String = input.decode().ok()?;
        (!has.contains(&needed.as_str())).then_some(needed)
    });
    let provides = has.iter().map(|what| (*what).to_string()).collect();
    TestApp::builder()
        .any_workflow(any())
        .activity_definition(render)
        .retry(RetryPolicy::fixed(Duration::from_secs(1)).max_attempts(3))
        .options(|options| options.provides = provides)
}

#[test]
async fn a_call_that_lacks_something_waits_and_runs_where_that_is() {
    let ran = Arc::default();
    let app = licensed(&["b"], 1, &ran).start().await;
    let argument = |licence: &str| json!({"call": "render", "with": licence});
    let waits = app.start_named::<Value>("a", "file", &argument("a")).await;
    // Others are not held up by it.
    let other = app.start_named::<Value>("b", "file", &argument("b")).await;
    assert_eq!(other.result().await.unwrap(), json!("b"));
    for has in [&["b"][..], &[], &["aa"]] {
        app.restart_with(licensed(has, 1, &ran)).await;
        app.advance(Duration::from_secs(86_400)).await;
        let pending = &app.describe("a").await.pending[0];
        assert_eq!((pending.waits_for, pending.attempt), (Some(WaitsFor::Lacking), 0));
        assert_eq!(pending.lacks.as_deref(), Some("a"));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    app.restart_with(licensed(&["a"], 1, &ran)).await;
    assert_eq!(waits.result().await.unwrap(), json!("a"));
    // It failed once and was tried again, and the wait before that counted for nothing.
    let ledger: Vec<u32> = app.ledger("a").await.iter().map(|row| row.attempt).collect();
    assert_eq!((ledger, ran.load(Ordering::SeqCst)), (vec![1], 4));
}

#[test]
async fn a_call_that_lacked_something_is_left_to_who_says_that_it_provides_that() {
    let ran = Arc::default();
    let app = licensed(&[], 0, &ran).start().await;
    let run = app.start_named::<Value>("a", "file", &json!({"call": "render", "with": "a"})).await;
    app.advance(Duration::from_secs(1)).await;
    let silent = licensed(&["a"], 0, &ran).options(|options| options.provides = Arc::new([]));
    app.restart_with(silent).await;
    app.advance(Duration::from_secs(86_400)).await;
    assert_eq!(app.describe("a").await.pending[0].waits_for, Some(WaitsFor::Lacking));
    app.restart_with(licensed(&["a"], 0, &ran)).await;
    assert_eq!(run.result().await.unwrap(), json!("a"));
    assert_eq!((ran.load(Ordering::SeqCst), app.ledger("a").await.len()), (1, 0));
}

#[test]
async fn a_call_that_lacks_something_between_two_attempts_keeps_its_count() {
    let ran = Arc::default();
    let app = licensed(&["a"], 1, &ran).start().await;
    let run = app.start_named::<Value>("a", "file", &json!({"call": "render", "with": "a"})).await;
    app.advance(Duration::from_millis(10)).await;
    assert_eq!(app.ledger("a").await.len(), 1);
    app.restart_with(licensed(&[], 1, &ran)).await;
    app.advance(Duration::from_secs(60)).await;
    let pending = &app.describe("a").await.pending[0];
    assert_eq!((pending.waits_for, pending.attempt), (Some(WaitsFor::Lacking), 1));
    app.restart_with(licensed(&["a"], 1, &ran)).await;
    assert_eq!(run.result().await.unwrap(), json!("a"));
    assert_eq!((ran.load(Ordering::SeqCst), app.ledger("a").await.len()), (2, 1));
}

#[test]
async fn a_run_whose_call_lacks_something_can_be_cancelled() {
    let ran = Arc::default();
    let app = licensed(&[], 0, &ran).start().await;
    let run = app.start_named::<Value>("a", "file", &json!({"call": "render", "with": "a"})).await;
    app.restart_with(licensed(&[], 0, &ran)).await;
    app.client().cancel("a", "enough").await.unwrap();
    assert!(run.failure().await.message.contains("enough"));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}
