//! What a command line asks that operates through the server: calls by their names, histories in
//! the form that is stored, and everything that chooses.

use std::time::Duration;

use resurgam::Uid;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam_core::export::Export;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::{get, problem, router, send};

const HOURLY: RetryPolicy =
    RetryPolicy::fixed(Duration::from_secs(3_600)).max_attempts(5).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Err(Failure::of_type("BankDown", format!("no answer about {cents}")))
}

#[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
async fn post(letter: u32) -> Result<u32, Failure> {
    Err(Failure::of_type("NoStamp", format!("letter {letter} has none")))
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    ctx.call(charge(cents)).await
}

#[workflow]
async fn letter(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(post(number)).await
}

async fn app() -> TestApp {
    let app = TestApp::builder().workflow(order).workflow(letter);
    app.activity(charge).activity(post).start().await
}

async fn uid_of(app: &TestApp, id: &str) -> Uid {
    app.client().find(id).await.unwrap().unwrap().uid
}

#[test]
async fn a_call_is_named_as_histories_name_it_while_its_instance_has_the_id() {
    let app = app().await;
    let router = router(&app);
    app.start("a/b", order(3)).await;
    let uid = uid_of(&app, "a/b").await;
    app.advance(Duration::from_secs(1)).await;
    let act = async |call: &str, action: &str, body: Value| {
        let path = format!("/api/v1/instances/{uid}/calls/{call}/actions/{action}");
        let answer = app.wait_for("act", send(&router, "POST", &path, &body, None)).await;
        (answer.status.as_u16(), answer.json())
    };
    let (status, paused) = act("charge%232", "pause", json!({"by": "ana"})).await;
    let answer = paused["answer"].as_str().unwrap();
    assert!(status == 200 && answer.starts_with("paused charge#2"), "{paused}");
    let (status, again) = act("charge", "retry", json!({})).await;
    let why = "charge#2 is paused; resume it instead";
    assert_eq!((status, &again["detail"]), (409, &why.into()), "{again}");
    let (status, other) = act("ship%232", "retry", json!({})).await;
    let why = "retry ship#2 of a/b: #2 of a/b is a call of charge";
    assert_eq!((status, &other["detail"]), (422, &why.into()), "{other}");
    let path = format!("/api/v1/instances/{uid}/calls/charge/policy");
    let body = json!({"policy": {"max_attempts": 9}});
    let set = app.wait_for("set", send(&router, "PUT", &path, &body, None)).await;
    assert_eq!(set.status.as_u16(), 200, "{set:?}");
    let shown = get(&router, &format!("/api/v1/instances/{uid}")).await;
    assert_eq!(shown["pending"][0]["max_attempts"], 9);

    let (_, ended) = act("charge", "fail", json!({"message": "enough"})).await;
    assert_eq!(ended["changed"], true, "{ended}");
    app.advance(Duration::from_secs(1)).await;
    app.client().start("a/b", order(4)).replace_closed().await.unwrap();
    let (status, gone) = act("charge", "retry", json!({})).await;
    let why = "the id a/b belongs to another instance now";
    assert_eq!((status, &gone["detail"]), (409, &why.into()), "{gone}");
}

#[test]
async fn a_history_is_exported_page_by_page_in_the_form_that_is_stored() {
    let app = app().await;
    let router = router(&app);
    app.start("letter-1", letter(1)).await.failure().await;
    let uid = uid_of(&app, "letter-1").await;
    let (mut whole, mut after) = (Value::Null, String::new());
    loop {
        let page = format!("/api/v1/instances/{uid}/export?limit=2{after}");
        let page = get(&router, &page).await;
        let events = page["history"]["runs"][0]["events"].as_array().unwrap().clone();
        assert!((1..=2).contains(&events.len()), "{page}");
        match &mut whole {
            Value::Null => whole = page["history"].clone(),
            whole => whole["runs"][0]["events"].as_array_mut().unwrap().extend(events),
        }
        let Some(cursor) = page["cursor"].as_str() else { break };
        after = format!("&after={cursor}");
    }
    let whole = Export::from_json(&whole.to_string()).unwrap();
    assert_eq!((whole.instance.as_str(), whole.runs[0].run), ("letter-1", 1));
    assert_eq!(whole.runs[0].events, app.client().events("letter-1").await.unwrap());
    problem(&router, &format!("/api/v1/instances/{uid}/export?run=7"), 404).await;
    let argument = get(&router, &format!("/api/v1/instances/{uid}/argument")).await;
    assert_eq!(argument, json!({"number": 1}));
    let server = get(&router, "/api/v1/server").await;
    let now = app.client().handle().now().as_millis();
    assert_eq!((&server["level"], &server["at_ms"]), (&json!(1), &json!(now)));
    assert_eq!(server["token"], Value::Null);
}

#[test]
async fn everything_that_instances_and_letters_have_in_common_chooses_them() {
    let app = app().await;
    let router = router(&app);
    for number in 1..=2 {
        app.start(&format!("letter-{number}"), letter(number)).await.failure().await;
    }
    app.start("order-1", order(3)).await;
    app.advance(Duration::from_secs(1)).await;
    let count = async |path: &str| get(&router, path).await["items"].as_array().unwrap().len();
    for (filter, found) in [
        ("ids=%5B%22letter-1%22%5D", 1),
        ("workflow=letter", 2),
        ("workflow=order", 0),
        ("queue=default", 2),
        ("failure_type=NoStamp", 2),
        ("failure_code=none", 0),
    ] {
        assert_eq!(count(&format!("/api/v1/dead-letters?{filter}")).await, found, "{filter}");
    }
    for (filter, found) in
        [("queue=default", 3), ("failure_code=none", 0), ("failed_from=0&failure_type=BankDown", 1)]
    {
        assert_eq!(count(&format!("/api/v1/instances?{filter}")).await, found, "{filter}");
    }
    // A place in a list is one with any filter.
    let letters = get(&router, "/api/v1/dead-letters?limit=1").await;
    let cursor = letters["cursor"].as_str().unwrap().split('~').next().unwrap().to_string();
    assert_eq!(count(&format!("/api/v1/dead-letters?after={cursor}&workflow=letter")).await, 1);
    problem(&router, "/api/v1/dead-letters?after=there", 422).await;
    problem(&router, "/api/v1/dead-letters?ids=letter-1", 422).await;

    let decide = async |body: Value| {
        let path = "/api/v1/dead-letters/actions/discard";
        app.wait_for("decide", send(&router, "POST", path, &body, None)).await
    };
    assert_eq!(decide(json!({"dry_run": true})).await.status.as_u16(), 422);
    let all = decide(json!({"all": true, "dry_run": true})).await.json();
    assert_eq!((&all["count"], &all["of"]), (&json!(2), &json!("dead letter")));
    assert_eq!(all["told"], json!(["letter-2 post#2", "letter-1 post#2"]));
    let one = decide(json!({"ids": ["letter-1"], "expect_count": 2})).await;
    assert_eq!(one.status.as_u16(), 409, "{one:?}");
    let bulk = json!({"calls": {}, "action": "retry", "dry_run": true});
    let refused = send(&router, "POST", "/api/v1/bulk", &bulk, None).await;
    assert_eq!(refused.status.as_u16(), 422, "{refused:?}");
    let bulk = json!({"calls": {}, "all": true, "action": "retry", "dry_run": true});
    let found = send(&router, "POST", "/api/v1/bulk", &bulk, None).await.json();
    assert_eq!((&found["count"], &found["told"]), (&json!(1), &json!(["order-1 charge#2"])));
}
