//! Looking: lists, instances, histories, calls, letters, schedules.

use std::time::Duration;

use axum::Router;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::schedule::Rule;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::Value;

use crate::support::{get, look, problem, router};

const HOUR: Duration = Duration::from_secs(3_600);
const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(5).jitter(Jitter::None);

#[activity(retry = HOURLY)]
async fn charge(cents: u32) -> Result<u32, Failure> {
    match cents {
        0 => Err(Failure::of_type("BankDown", "no answer")),
        cents => Ok(cents),
    }
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

#[workflow]
pub(crate) async fn sleeper(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await?;
    Ok(7)
}

#[workflow]
async fn echo(_ctx: WorkflowContext, text: String) -> Result<String, Failure> {
    Ok(text)
}

async fn app() -> TestApp {
    let app = TestApp::builder().workflow(order).workflow(letter).workflow(sleeper);
    app.workflow(echo).activity(charge).activity(post).start().await
}

/// The ids of a page.
fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
async fn instances_are_listed_newest_first_and_page_by_page() {
    let app = app().await;
    for cents in 1..=5 {
        app.start(&format!("order-{cents}"), order(cents)).await.result().await.unwrap();
        app.advance(Duration::from_secs(1)).await;
    }
    let router = router(&app);
    let first = get(&router, "/api/v1/instances?limit=2&workflow=order").await;
    assert_eq!(ids(&first), ["order-5", "order-4"]);
    let cursor = first["cursor"].as_str().unwrap();
    let path = |more: &str| format!("/api/v1/instances?limit=2&cursor={cursor}{more}");
    let second = get(&router, &path("&workflow=order")).await;
    assert_eq!(ids(&second), ["order-3", "order-2"]);
    let with_another_filter = problem(&router, &path("&workflow=other"), 422).await;
    assert!(with_another_filter["detail"].as_str().unwrap().contains("another filter"));
    let all = get(&router, "/api/v1/instances").await;
    assert_eq!((ids(&all).len(), &all["cursor"]), (5, &Value::Null));
    let by_id = get(&router, "/api/v1/instances?id=order-3").await;
    assert_eq!(ids(&by_id), ["order-3"]);
    assert_eq!(by_id["items"][0]["status"], "completed");
}

#[test]
async fn instances_are_found_by_status_time_and_what_they_do() {
    let app = app().await;
    app.start("done", order(1)).await.result().await.unwrap();
    app.advance(Duration::from_secs(10)).await;
    let between = app.now();
    app.advance(Duration::from_secs(10)).await;
    app.start("tries", order(0)).await;
    app.advance(Duration::from_secs(10)).await;
    let router = router(&app);
    let found = async |query: &str| {
        let page = get(&router, &format!("/api/v1/instances?{query}")).await;
        ids(&page).into_iter().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found("retrying=true").await, ["tries"]);
    assert_eq!(found("status=completed,failed").await, ["done"]);
    assert_eq!(found(&format!("from={}", between.as_millis())).await, ["tries"]);
    assert_eq!(found(&format!("to={}", between.as_millis())).await, ["done"]);
    assert_eq!(found("paused=true").await, Vec::<String>::new());
    for wrong in ["statuss=x", "status=asleep", "limit=0", "limit=501", "tag=x", "from=noon"] {
        let status = if wrong == "statuss=x" { 400 } else { 422 };
        problem(&router, &format!("/api/v1/instances?{wrong}"), status).await;
    }
}

#[test]
async fn an_instance_says_what_it_waits_for_and_times_stand_in_both_forms() {
    let app = app().await;
    let started = app.client().start("tries", order(0)).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let uid = started.uid();
    let found = get(&router, &format!("/api/v1/instances/{uid}")).await;
    assert_eq!(found["input"], serde_json::json!({"cents": 0}));
    let created: jiff::Timestamp = found["created_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(created.as_millisecond(), found["created_at_ms"].as_i64().unwrap());
    let call = &found["pending"][0];
    assert_eq!((&call["activity"], &call["waits_for"]), (&"charge".into(), &"backoff".into()));
    assert_eq!(call["max_attempts"], 5);
    assert_eq!(call["last"]["failure"]["type"], "BankDown");
    let name = call["call"].as_str().unwrap();
    let detail = get(&router, &format!("/api/v1/calls/{name}")).await;
    assert_eq!((&detail["state"], &detail["instance"]), (&"open".into(), &"tries".into()));
    assert_eq!(detail["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(detail["policy"]["max_attempts"], 5);
    assert_eq!(detail["input"], serde_json::json!({"cents": 0}));
    let calls = get(&router, &format!("/api/v1/instances/{uid}/calls")).await;
    assert_eq!(calls["items"][0]["call"], call["call"]);
}

#[test]
async fn a_history_is_read_page_by_page_and_event_by_event() {
    let app = app().await;
    let started = app.client().start("one", order(3)).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let (router, uid) = (router(&app), started.uid());
    let path = format!("/api/v1/instances/{uid}/events");
    let page = get(&router, &format!("{path}?limit=2")).await;
    let kinds = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|event| event["kind"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&page), ["RunStarted", "ActivityScheduled"]);
    let after = page["cursor"].as_str().unwrap();
    let rest = get(&router, &format!("{path}?after={after}")).await;
    assert_eq!(kinds(&rest), ["ActivityCompleted", "RunCompleted"]);
    assert_eq!(rest["cursor"], Value::Null);
    let one = get(&router, &format!("{path}/3")).await;
    assert_eq!((&one["data"]["activity"], &one["data"]["result"]), (&2.into(), &3.into()));
    problem(&router, &format!("{path}/5"), 404).await;
    problem(&router, &format!("{path}?run=2"), 404).await;
}

#[test]
async fn a_large_payload_is_behind_a_link() {
    let app = app().await;
    let text = "x".repeat(100_000);
    let started = app.client().start("long", echo(text.clone())).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let (router, uid) = (router(&app), started.uid());
    let found = get(&router, &format!("/api/v1/instances/{uid}")).await;
    for (field, whole) in [("input", serde_json::json!({"text": text})), ("result", text.into())] {
        let way = &found[field]["$payload"];
        assert!(way["bytes"].as_u64().unwrap() > 100_000, "{way}");
        assert_eq!(get(&router, way["href"].as_str().unwrap()).await, whole);
    }
    let events = get(&router, &format!("/api/v1/instances/{uid}/events")).await;
    let way = &events["items"][0]["data"]["input"]["$payload"]["href"];
    let event = get(&router, way.as_str().unwrap()).await;
    assert_eq!(event["data"]["input"]["text"], serde_json::json!("x".repeat(100_000)));
}

#[test]
async fn a_result_is_answered_when_the_instance_has_closed_or_the_time_is_over() {
    let app = app().await;
    let started = app.client().start("one", sleeper()).await.unwrap();
    let (router, uid) = (router(&app), started.uid());
    let path = format!("/api/v1/instances/{uid}/result");
    let now = get(&router, &path).await;
    assert_eq!((&now["closed"], &now["status"]), (&false.into(), &"running".into()));
    let waiting = format!("{path}?wait_ms=1000");
    let waits = get(&router, &waiting);
    assert_eq!(app.wait_for("the time to be over", waits).await["closed"], false);
    app.advance(HOUR).await;
    let ended = get(&router, &format!("{path}?wait_ms=1000")).await;
    assert_eq!((&ended["status"], &ended["result"]), (&"completed".into(), &7.into()));
}

#[test]
async fn dead_letters_are_listed_and_grouped_and_each_has_its_attempts() {
    let app = app().await;
    for number in 1..=3 {
        app.start(&format!("letter-{number}"), letter(number)).await.failure().await;
    }
    let router = router(&app);
    let page = get(&router, "/api/v1/dead-letters?limit=2").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let cursor = page["cursor"].as_str().unwrap();
    let rest = get(&router, &format!("/api/v1/dead-letters?limit=2&cursor={cursor}")).await;
    assert_eq!(rest["items"][0]["instance"], "letter-1");
    let groups = get(&router, "/api/v1/dead-letters?group=fingerprint").await;
    assert_eq!((&groups["items"][0]["count"], &groups["items"][1]), (&3.into(), &Value::Null));
    let name = rest["items"][0]["call"].as_str().unwrap();
    let one = get(&router, &format!("/api/v1/dead-letters/{name}")).await;
    assert_eq!((&one["input"]["letter"], &one["why"]), (&1.into(), &"max_attempts".into()));
    assert_eq!(get(&router, "/api/v1/paused").await["items"], serde_json::json!([]));
    problem(&router, "/api/v1/dead-letters?state=lost", 422).await;
    problem(&router, "/api/v1/dead-letters/7.1.1", 404).await;
}

#[test]
async fn schedules_say_when_they_fire_next() {
    let app = app().await;
    let every = Rule::every(HOUR);
    app.ask("a schedule", |client| {
        let new = client.schedule("by/night", every.clone(), order(1));
        async move { new.await }
    })
    .await
    .unwrap();
    let router = router(&app);
    let page = get(&router, "/api/v1/schedules").await;
    assert_eq!(
        (&page["items"][0]["id"], &page["items"][0]["workflow"]),
        (&"by/night".into(), &"order".into())
    );
    let one = get(&router, "/api/v1/schedules/by%2Fnight").await;
    assert_eq!(one["next"].as_array().unwrap().len(), 5);
    problem(&router, "/api/v1/schedules/other", 404).await;
}

#[test]
async fn trouble_is_a_problem_with_a_code_and_the_way_to_its_page() {
    let app = app().await;
    let router = router(&app);
    let uid = "0".repeat(32);
    let unknown = problem(&router, &format!("/api/v1/instances/{uid}"), 404).await;
    assert_eq!((&unknown["code"], &unknown["type"]), (&"E2".into(), &"/api/v1/errors/E2".into()));
    let page = look(&router, unknown["type"].as_str().unwrap()).await;
    assert!(page.text.starts_with("# E2: ") && page.kind.starts_with("text/markdown"), "{page:?}");
    assert!(
        problem(&router, "/nothing", 404).await["detail"].as_str().unwrap().contains("/nothing")
    );
    problem(&router, "/api/v1/instances/7", 404).await;
    problem(&router, "/api/v1/errors/E99", 404).await;
}

#[test]
async fn health_needs_nothing_and_numbers_are_shown_where_they_are_kept() {
    let app = app().await;
    let router = router(&app);
    assert_eq!(look(&router, "/healthz").await.text, "ok\n");
    assert_eq!(look(&router, "/readyz").await.text, "ready\n");
    problem(&router, "/metrics", 404).await;
    let options = resurgam_server::Options::default().open().metrics(|| "a 1\n".to_string());
    let router = resurgam_server::router(&app.client(), options);
    assert_eq!(look(&router, "/metrics").await.text, "a 1\n");
    let nodes = get(&router, "/api/v1/nodes").await;
    assert!(nodes["items"].is_array());
}

#[test]
async fn the_router_can_be_mounted_under_a_path() {
    let app = app().await;
    let mounted = axum::Router::new().nest("/ops", router(&app));
    assert_eq!(get(&mounted, "/ops/api/v1/instances").await["items"], serde_json::json!([]));
}

#[test]
async fn links_lead_back_to_where_the_api_is_mounted() {
    let app = TestApp::builder().start().await;
    let nested = Router::new().nest("/ops/resurgam", router(&app));
    let missing = format!("/api/v1/instances/{}", "0".repeat(32));
    let told = problem(&nested, &format!("/ops/resurgam{missing}"), 404).await;
    let page = told["type"].as_str().unwrap();
    assert_eq!(page, "/ops/resurgam/api/v1/errors/E2");
    assert!(look(&nested, page).await.text.starts_with("# E2"));
    let based = resurgam_server::Options::default().open().base_path("/deep/");
    let based = resurgam_server::router(&app.client(), based);
    // A proxy may have taken the path away before the request came here, or not.
    for path in [missing.clone(), format!("/deep{missing}")] {
        let told = problem(&based, &path, 404).await;
        assert_eq!(told["type"], "/deep/api/v1/errors/E2", "{path}");
    }
    let description = get(&based, "/deep/openapi.json").await;
    assert_eq!(description["servers"][0]["url"], "/deep");
    let nowhere = problem(&nested, "/ops/resurgam/api/v1/nowhere", 404).await;
    assert_eq!(nowhere["type"], "/ops/resurgam/api/v1/errors/E2");
}

#[test]
async fn instances_are_found_by_their_calls_and_by_a_part_of_their_id() {
    let app = TestApp::builder().workflow(order).activity(charge).workflow(sleeper).start().await;
    for (id, cents) in [("order-1", 0), ("order-2", 7), ("paid-3", 0)] {
        app.client().start(id, order(cents)).tag("shop", id).await.unwrap();
    }
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let ids = async |query: &str| {
        let found = get(&router, &format!("/api/v1/instances?{query}")).await;
        let ids = found["items"].as_array().unwrap().iter().map(|row| row["id"].clone());
        (ids.collect::<Vec<_>>(), found["cursor"].clone(), found["scanned"].clone())
    };
    assert_eq!(ids("activity=charge").await.0, ["paid-3", "order-1"]);
    assert_eq!(ids("failure_type=BankDown&status=running").await.0, ["paid-3", "order-1"]);
    assert!(ids("failure_type=Other").await.0.is_empty());
    let (first, cursor, scanned) = ids("contains=order&limit=1").await;
    assert_eq!((first, scanned), (vec!["order-2".into()], 2.into()));
    let cursor = cursor.as_str().unwrap();
    assert_eq!(ids(&format!("contains=order&limit=9&cursor={cursor}")).await.0, ["order-1"]);
    problem(&router, "/api/v1/instances?text=a&activity=b", 422).await;
    let (first, cursor, scanned) = ids("text=order&limit=1").await;
    assert_eq!((first, scanned), (vec!["order-1".into()], Value::Null), "by their ids");
    let cursor = cursor.as_str().unwrap();
    let (rest, cursor, _) = ids(&format!("text=order&limit=1&cursor={cursor}")).await;
    assert_eq!((rest, cursor), (vec!["order-2".into()], Value::Null));
    let beside = ids("text=order&status=completed").await;
    assert_eq!((beside.0, beside.2), (vec!["order-2".into()], 1.into()));
    assert!(ids("text=rder").await.0.is_empty() && ids("text=%00").await.0.is_empty());
    problem(&router, "/api/v1/instances?schedule=a&activity=b", 422).await;

    let found = app.client().find("order-1").await.unwrap().unwrap();
    let (uid, call) = (found.uid.to_string(), format!("{}.1.2", found.uid));
    for (q, by) in [("order-1", "id"), (&uid, "uid"), (&call, "call"), ("shop%3Dorder-1", "tag")] {
        let told = get(&router, &format!("/api/v1/search?q={q}")).await["items"][0].clone();
        assert_eq!((&told["by"], &told["instance"]["id"]), (&by.into(), &"order-1".into()), "{q}");
    }
    let nothing = get(&router, &format!("/api/v1/search?q={}", "0".repeat(32))).await;
    assert_eq!(nothing["items"], Value::Array(Vec::new()));
    problem(&router, "/api/v1/search?q=", 422).await;
}

/// What a stream says next.
async fn next(app: &TestApp, body: &mut axum::body::Body) -> String {
    let frame = app.wait_for("a hint", http_body_util::BodyExt::frame(body)).await;
    let data = frame.map(|frame| frame.unwrap().into_data().unwrap().to_vec());
    String::from_utf8(data.unwrap_or_default()).unwrap()
}

#[test]
async fn a_stream_hints_at_changes_says_that_it_is_alive_and_ends_with_the_server() {
    let app = TestApp::builder().workflow(sleeper).start().await;
    let started = app.client().start("one", sleeper()).await.unwrap();
    let topic = format!("instance:{}", started.uid());
    let options = resurgam_server::Options::default().open();
    let api = resurgam_server::Api::new(&app.client(), options);
    let ask = async |id: Option<&str>| {
        let path = format!("/api/v1/live?topics=lists,{topic}");
        let mut request = axum::http::Request::get(path);
        if let Some(id) = id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        tower::ServiceExt::oneshot(api.router(), request).await.unwrap()
    };
    let answer = ask(None).await;
    let header = |name: &str| answer.headers()[name].to_str().unwrap();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-store, no-transform");
    assert_eq!(header("x-accel-buffering"), "no");
    let mut body = answer.into_body();
    assert_eq!(next(&app, &mut body).await, ": nothing has changed so far\n\n");
    app.client().start("two", sleeper()).await.unwrap();
    let told = next(&app, &mut body).await;
    assert_eq!(told, "id: 1\nevent: changed\ndata: {\"topic\":\"lists\"}\n\n");
    app.client().terminate("one", "enough").await.unwrap();
    let told = next(&app, &mut body).await;
    assert!(told.contains("lists") && told.contains(&topic), "{told}");
    assert_eq!(next(&app, &mut body).await, ": still here\n\n");
    let mut again = ask(Some("7")).await.into_body();
    assert_eq!(next(&app, &mut again).await, "id: 1\nevent: reset\ndata: {}\n\n");
    api.stop();
    assert_eq!(next(&app, &mut body).await, "");
    problem(&api.router(), "/api/v1/live?topics=weather", 422).await;
}
