//! What the dashboard is made of: its files, and the answers that only it asks for. The pages
//! themselves are looked at in `browser`.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam_testing::{StoreCall, TestApp};
use resurgam_watchdog::test;
use tower::ServiceExt;

use crate::support::{get, problem, router};

const HOUR: Duration = Duration::from_secs(3_600);

#[activity(retry = RetryPolicy::fixed(HOUR).max_attempts(3).jitter(Jitter::Proportional(0.5)))]
async fn charge(cents: u32) -> Result<u32, Failure> {
    Err(Failure::of_type("BankDown", format!("no answer about {cents}")))
}

#[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None }))]
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
async fn sleeper(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.sleep(HOUR).await?;
    Ok(7)
}

/// Leaves a long history.
#[workflow]
async fn counter(ctx: WorkflowContext, most: u32) -> Result<u32, Failure> {
    for number in 0..most {
        ctx.set("number", &number);
    }
    Ok(most)
}

async fn app() -> TestApp {
    let app = TestApp::builder().workflow(order).workflow(letter).workflow(sleeper);
    let app = app.workflow(counter);
    app.activity(charge).activity(post).start().await
}

async fn asked(router: &axum::Router, path: &str, known: Option<&str>) -> Response<Body> {
    let mut request = Request::get(path);
    if let Some(tag) = known {
        request = request.header("if-none-match", tag);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

fn header<'a>(answer: &'a Response<Body>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn text(answer: Response<Body>) -> String {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
async fn the_first_page_is_asked_for_again_and_what_it_names_is_kept_for_ever() {
    let app = TestApp::builder().start().await;
    let router = resurgam_server::router(&app.client(), resurgam_server::Options::default());
    let page = asked(&router, "/ui/", None).await;
    assert_eq!(page.status(), StatusCode::OK, "pages are open, also where a token is asked for");
    assert_eq!(header(&page, "cache-control"), "no-cache");
    let policy = header(&page, "content-security-policy");
    assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
    let tag = header(&page, "etag").to_string();
    assert_eq!(asked(&router, "/ui/", Some(&tag)).await.status(), StatusCode::NOT_MODIFIED);
    let page = text(page).await;
    let named: Vec<&str> = page.split(['"']).filter(|part| part.contains('/')).collect();
    let files: Vec<&&str> = named.iter().filter(|part| part.ends_with(".js")).collect();
    assert!(!files.is_empty() && !page.contains("BUILD"), "{page}");
    for file in files {
        let file = asked(&router, &format!("/ui/{file}"), None).await;
        assert_eq!(file.status(), StatusCode::OK);
        assert_eq!(header(&file, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&file, "content-type"), "text/javascript; charset=utf-8");
        assert_eq!(header(&file, "x-content-type-options"), "nosniff");
    }
    problem(&router, "/ui/0123456789abcdef/main.js", 404).await;
}

#[test]
async fn the_way_to_the_pages_is_relative_wherever_the_api_is_mounted() {
    let app = TestApp::builder().start().await;
    let plain = router(&app);
    assert_eq!(header(&asked(&plain, "/", None).await, "location"), "ui/");
    let mounted = axum::Router::new().nest("/tools/resurgam", router(&app));
    let way = asked(&mounted, "/tools/resurgam", None).await;
    assert_eq!((way.status(), header(&way, "location")), (StatusCode::SEE_OTHER, "resurgam/ui/"));
    let page = asked(&mounted, "/tools/resurgam/ui/", None).await;
    assert_eq!(page.status(), StatusCode::OK);
}

#[test]
async fn what_goes_on_is_told_by_activity_and_by_what_it_failed_with() {
    let app = app().await;
    for number in 1..=3 {
        app.start(&format!("order-{number}"), order(number)).await;
    }
    app.start("letter-1", letter(1)).await;
    app.advance(Duration::from_secs(1)).await;
    let now = get(&router(&app), "/api/v1/now").await;
    assert_eq!((&now["looked_at"], &now["is_all"]), (&4.into(), &true.into()));
    let [retrying, paused] = &now["groups"].as_array().unwrap()[..] else { panic!("{now}") };
    assert_eq!((&retrying["activity"], &retrying["state"]), (&"charge".into(), &"retrying".into()));
    assert_eq!((&retrying["failure_type"], &retrying["count"]), (&"BankDown".into(), &3.into()));
    assert!(retrying["next_due_ms"].as_i64() > now["at_ms"].as_i64(), "{now}");
    assert_eq!((&paused["activity"], &paused["state"]), (&"post".into(), &"paused".into()));
    assert_eq!(paused["next_due_ms"], serde_json::Value::Null);
}

#[test]
async fn the_instances_of_a_list_say_what_each_waits_for() {
    let app = app().await;
    let tries = app.client().start("tries", order(1)).await.unwrap().uid();
    let sleeps = app.client().start("sleeps", sleeper()).await.unwrap().uid();
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let gone = "0".repeat(31) + "7";
    let told = get(&router, &format!("/api/v1/waiting?uids={tries},{sleeps},{gone}")).await;
    let [first, second] = &told["items"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&first["call"]["activity"], &first["calls"]), (&"charge".into(), &1.into()));
    assert_eq!((&second["call"], &second["calls"]), (&serde_json::Value::Null, &0.into()));
    assert!(second["timer_ms"].is_i64(), "{told}");
    let many = vec![gone; 101].join(",");
    problem(&router, &format!("/api/v1/waiting?uids={many}"), 422).await;
}

#[test]
async fn the_delays_of_an_open_call_are_those_of_its_policy() {
    let app = app().await;
    let uid = app.client().start("tries", order(1)).await.unwrap().uid();
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let told = get(&router, &format!("/api/v1/calls/{uid}.1.2/delays")).await;
    assert_eq!(told["ends_by"], "max_attempts");
    let delays = told["delays"].as_array().unwrap();
    assert_eq!(delays.len(), 2, "after the third failure nothing follows");
    let second = &delays[1];
    assert_eq!((&second["failure"], &second["middle_ms"]), (&2.into(), &3_600_000.into()));
    assert_eq!((&second["low_ms"], &second["high_ms"]), (&1_800_000.into(), &5_400_000.into()));
    problem(&router, &format!("/api/v1/calls/{uid}.1.9/delays"), 404).await;
}

#[test]
async fn a_history_is_read_from_its_end_page_by_page() {
    let app = app().await;
    let uid = app.client().start("letter-1", letter(1)).await.unwrap().uid();
    app.advance(Duration::from_secs(1)).await;
    app.client().instance_of(uid).cancel("enough").await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let router = router(&app);
    let path = format!("/api/v1/instances/{uid}");
    let seqs = |page: &serde_json::Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|event| event["seq"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let all = seqs(&get(&router, &format!("{path}/events")).await);
    assert!(all.len() >= 4, "{all:?}");
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let page = get(&router, &format!("{path}/newest?limit=2{before}")).await;
        found.splice(0..0, seqs(&page));
        let Some(cursor) = page["cursor"].as_str() else { break };
        before = format!("&before={cursor}");
    }
    assert_eq!(found, all);
}

#[test]
async fn a_page_of_a_long_history_reads_no_more_than_the_page() {
    let app = app().await;
    let long = app.start("long", counter(1_000)).await;
    assert_eq!(long.result().await.unwrap(), 1_000);
    let uid = app.client().find("long").await.unwrap().unwrap().uid;
    let all = app.client().instance_of(uid).events(None).await.unwrap().len();
    let router = router(&app);
    let path = format!("/api/v1/instances/{uid}");
    // Whoever reads all of it is refused from here on.
    app.faults().refuse(StoreCall::History, u32::MAX);
    assert!(app.client().instance_of(uid).events(None).await.is_err());
    for (kind, place) in [("newest", "before"), ("events", "after")] {
        let (mut count, mut pages, mut from) = (0, 0, String::new());
        loop {
            let page = get(&router, &format!("{path}/{kind}?limit=300{from}")).await;
            (count, pages) = (count + page["items"].as_array().unwrap().len(), pages + 1);
            let Some(cursor) = page["cursor"].as_str() else { break };
            from = format!("&{place}={cursor}");
        }
        assert_eq!((count, pages), (all, all.div_ceil(300)), "{kind}");
    }
    get(&router, &format!("{path}/events/{}", all / 2)).await;
}
