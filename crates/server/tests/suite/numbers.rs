//! Numbers and records across instances: how attempts end, what waits in queues, who did what.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_server::{NewToken, Options, Role};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::{get, problem, router, send};

const HOUR: Duration = Duration::from_secs(3_600);
const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(2).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    match cents {
        0 => Err(Failure::of_type("BankDown", "no answer")),
        cents => Ok(cents),
    }
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    ctx.call(charge(cents)).await
}

#[workflow]
async fn approval(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.signal("approve").await
}

async fn app() -> TestApp {
    TestApp::builder().workflow(order).workflow(approval).activity(charge).start().await
}

/// Rows without their times.
fn counted(answer: &Value) -> Vec<(String, Option<String>, [u64; 4])> {
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        let counts = ["failures", "retries", "exhausted", "successes"].map(number);
        let failure_type = row["failure_type"].as_str().map(str::to_string);
        (row["activity"].as_str().unwrap().to_string(), failure_type, counts)
    };
    answer["items"].as_array().unwrap().iter().map(row).collect()
}

/// The clock of a test does not stop for statistics: they are stored when the engine has something
/// else to do.
async fn counts_are_stored(app: &TestApp, id: &str) {
    app.advance(Duration::from_secs(11)).await;
    app.start(id, approval()).await;
    app.advance(Duration::from_secs(1)).await;
}

#[test]
async fn how_attempts_end_is_counted_by_the_minute() {
    let app = app().await;
    app.start("good", order(7)).await.result().await.unwrap();
    let bad = app.start("bad", order(0)).await;
    counts_are_stored(&app, "other-1").await;
    let router = router(&app);
    let charge = || "charge".to_string();
    let down = || Some("BankDown".to_string());
    let told = get(&router, "/api/v1/pressure").await;
    let expected = vec![(charge(), None, [0, 0, 0, 1]), (charge(), down(), [1, 1, 0, 0])];
    assert_eq!(counted(&told), expected, "{told}");
    assert!(told["note"].as_str().unwrap().contains("loses"));
    assert_eq!((told["step_ms"].as_i64(), told["is_cut"].as_bool()), (Some(60_000), Some(false)));
    app.advance(HOUR).await;
    bad.result().await.unwrap_err();
    counts_are_stored(&app, "other-2").await;
    let told = get(&router, "/api/v1/pressure?from=0&step=1440&activity=charge").await;
    let failed: Vec<_> = counted(&told).into_iter().filter(|row| row.1.is_some()).collect();
    let sum = |place: usize| failed.iter().map(|row| row.2[place]).sum::<u64>();
    assert_eq!((sum(0), sum(1), sum(2)), (2, 1, 1), "{told}");
    assert_eq!(counted(&get(&router, "/api/v1/pressure?activity=ship").await), []);
    problem(&router, "/api/v1/pressure?step=0", 422).await;
    problem(&router, "/api/v1/pressure?from=yesterday", 422).await;
}

#[test]
async fn what_an_engine_counted_last_is_stored_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let app = App::builder().workflow(order).activity(charge).sqlite(&file).await.unwrap();
    app.start("good", order(7)).await.unwrap().result().await.unwrap();
    app.stop().await.unwrap();
    let client = resurgam::Client::sqlite(&file).await.unwrap();
    let router = resurgam_server::router(&client, Options::default().open());
    let told = get(&router, "/api/v1/pressure").await;
    assert_eq!(counted(&told), vec![("charge".to_string(), None, [0, 0, 0, 1])], "{told}");
    client.close().await;
}

#[test]
async fn queues_say_what_waits_and_who_paused_them() {
    let app = app().await;
    let _waits = app.start("bad", order(0)).await;
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let body = json!({"by": "ana", "reason": "the bank asked for it"});
    let path = "/api/v1/queues/pay/actions/pause";
    let paused = app.wait_for("the pause", send(&router, "POST", path, &body, None)).await;
    assert_eq!(paused.status.as_u16(), 200, "{paused:?}");
    let told = get(&router, "/api/v1/queues").await;
    let [default, pay] = told["items"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((default["queue"].as_str(), default["later"].as_u64()), (Some("default"), Some(1)));
    assert_eq!((default["hold"].is_null(), default["running"].as_u64()), (true, Some(0)));
    assert_eq!(pay["hold"]["by"], "ana");
    assert_eq!(pay["hold"]["reason"], "the bank asked for it");
    assert_eq!((told["is_all"].as_bool(), told["looked_at"].as_u64()), (Some(true), Some(1)));
}

#[test]
async fn what_was_done_is_listed_across_instances_with_who_and_why() {
    let app = app().await;
    let client = app.client();
    let (token, secret) =
        NewToken::new("ci", Role::Operate).by("root").make(&client).await.unwrap();
    let router = resurgam_server::router(&client, Options::default());
    let act = async |method: &str, path: &str, body: Value| {
        let request = axum::http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {secret}"));
        let request = request.body(axum::body::Body::from(body.to_string())).unwrap();
        let answer = app.wait_for("an answer", crate::support::ask(&router, request)).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
        app.advance(Duration::from_secs(1)).await;
        answer.json()
    };
    let begun =
        act("POST", "/api/v1/instances", json!({"workflow": "approval", "id": "a/1", "by": "ana"}));
    let uid = begun.await["uid"].as_str().unwrap().to_string();
    let path = format!("/api/v1/instances/{uid}/actions/pause");
    act("POST", &path, json!({"reason": "wait for bo"})).await;
    let path = format!("/api/v1/instances/{uid}/actions/resume");
    act("POST", &path, json!({})).await;
    let path = format!("/api/v1/instances/{uid}/signals/approve");
    act("POST", &path, json!({"value": 7, "reason": "bo said so"})).await;
    let rule = json!({"workflow": "order", "schedule": {"every": "1h"}, "input": {"cents": 7}});
    act("PUT", "/api/v1/schedules/hourly", rule).await;
    act("POST", "/api/v1/gates/bank/actions/shut", json!({"reason": "it is down"})).await;

    let all = act("GET", "/api/v1/actions", json!({})).await;
    let items = all["items"].as_array().unwrap();
    let lines: Vec<String> = items
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or("-").to_string();
            let of = if row["subject"].is_null() { text("instance") } else { text("subject") };
            format!("{} {of} by {}: {}", text("action"), text("by"), text("reason"))
        })
        .collect();
    let expected = [
        "gate bank by ci: it is down",
        "schedule hourly by ci: -",
        "signal a/1 by ci: bo said so",
        "resume_run a/1 by ci: -",
        "pause_run a/1 by ci: wait for bo",
        "start a/1 by ana (token ci): -",
    ];
    assert_eq!(lines, expected);
    assert_eq!((&items[0]["token"], &items[2]["uid"]), (&json!(token.id), &json!(uid)));

    let mut pages = Vec::new();
    let mut path = "/api/v1/actions?limit=1".to_string();
    loop {
        let page = act("GET", &path, json!({})).await;
        pages.extend(page["items"].as_array().unwrap().clone());
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("/api/v1/actions?limit=1&cursor={cursor}");
        assert!(pages.len() < 10, "it does not end");
    }
    assert_eq!(&pages, items);
    let since = items[1]["at_ms"].as_i64().unwrap();
    let late = act("GET", &format!("/api/v1/actions?since={since}"), json!({})).await;
    assert_eq!(late["items"].as_array().unwrap().as_slice(), &items[..2]);
}
