//! Acting: starting, signalling, what operators do to runs and calls, and repeats.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use resurgam::Uid;
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam_server::{NewToken, Role};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::{Answer, ask, get, router, send};

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
async fn approval(ctx: WorkflowContext) -> Result<u32, Failure> {
    ctx.signal("approve").await
}

#[workflow]
async fn countdown(ctx: WorkflowContext, from: u32) -> Result<u32, Failure> {
    match from {
        0 => Ok(0),
        _ => ctx.continue_as_new(countdown(from - 1)),
    }
}

async fn app() -> TestApp {
    let app = TestApp::builder().workflow(order).workflow(letter).workflow(approval);
    let app = app.workflow(countdown);
    app.any_workflow(resurgam_ir::workflow("program")).activity(charge).activity(post).start().await
}

/// Sends a body, lets the time pass that the answer needs, and wants this status.
async fn sent(app: &TestApp, request: (&Router, &str, &str, Value), status: u16) -> Value {
    keyed(app, request, None, status).await
}

async fn keyed(
    app: &TestApp,
    (router, method, path, body): (&Router, &str, &str, Value),
    key: Option<&str>,
    status: u16,
) -> Value {
    let answer: Answer = app.wait_for(path, send(router, method, path, &body, key)).await;
    assert_eq!(answer.status.as_u16(), status, "{method} {path}: {answer:?}");
    answer.json()
}

async fn uid_of(app: &TestApp, id: &str) -> Uid {
    app.client().find(id).await.unwrap().unwrap().uid
}

/// The path of the only open call of an instance.
async fn call_of(app: &TestApp, router: &Router, id: &str) -> String {
    let path = format!("/api/v1/instances/{}/calls", uid_of(app, id).await);
    let calls = get(router, &path).await;
    format!("/api/v1/calls/{}", calls["items"][0]["call"].as_str().unwrap())
}

const INSTANCES: &str = "/api/v1/instances";

#[test]
async fn a_workflow_an_activity_and_a_program_are_started() {
    let app = app().await;
    let router = router(&app);
    let result = async |begun: &Value| {
        app.advance(Duration::from_secs(1)).await;
        let path = format!("{INSTANCES}/{}/result", begun["uid"].as_str().unwrap());
        get(&router, &path).await["result"].clone()
    };
    let new = json!({"id": "order-1", "workflow": "order", "input": {"cents": 3},
                     "tags": {"shop": "north"}, "queue": "pay", "priority": 2});
    let begun = sent(&app, (&router, "POST", INSTANCES, new), 201).await;
    assert_eq!((&begun["id"], result(&begun).await), (&"order-1".into(), json!(3)));
    let found = get(&router, &format!("{INSTANCES}?tag=shop%3Dnorth")).await;
    assert_eq!(
        (&found["items"][0]["queue"], &found["items"][0]["priority"]),
        (&"pay".into(), &2.into())
    );
    let bare = json!({"activity": "charge", "input": {"cents": 4}});
    let begun = sent(&app, (&router, "POST", INSTANCES, bare), 201).await;
    assert!(begun["id"].as_str().unwrap().starts_with("charge-"), "{begun}");
    assert_eq!(result(&begun).await, 4);
    let text = "fn main(input: [a], output: [b]):\n    b = a + 1\n    return b";
    let program = json!({"program": text, "input": {"a": 1}, "id": "sum"});
    let begun = sent(&app, (&router, "POST", INSTANCES, program), 201).await;
    assert_eq!(result(&begun).await, 2);
}

#[test]
async fn what_cannot_be_started_is_refused_with_everything_that_is_wrong() {
    let app = app().await;
    let router = router(&app);
    let refused =
        async |new: Value, status| sent(&app, (&router, "POST", INSTANCES, new), status).await;
    refused(json!({}), 422).await;
    refused(json!({"workflow": "order", "activity": "charge"}), 422).await;
    refused(json!({"workflow": "order", "idd": "x"}), 422).await;
    let wrong = json!({"workflow": "order", "retry": {"max_atempts": 3}});
    let wrong = refused(wrong, 422).await;
    assert_eq!((&wrong["code"], &wrong["errors"][0]["code"]), (&"P2".into(), &"P2".into()));
    let wrong =
        refused(json!({"program": "fn main(input: [], output: [r]):\n    return q"}), 422).await;
    assert_eq!(wrong["code"], "I3");
    let graph = json!({"graph": {"nodes": []}});
    assert!(refused(graph, 422).await["errors"][0]["path"].is_string());
    sent(
        &app,
        (
            &router,
            "POST",
            INSTANCES,
            json!({"workflow": "order", "id": "a", "input": {"cents": 1}}),
        ),
        201,
    )
    .await;
    let taken = json!({"workflow": "order", "id": "a", "input": {"cents": 1}});
    assert_eq!(refused(taken, 409).await["code"], "E1");
}

#[test]
async fn a_repeated_request_is_the_first_one_and_another_body_under_its_key_is_refused() {
    let app = app().await;
    let router = router(&app);
    let new = |cents: u32| json!({"workflow": "order", "input": {"cents": cents}});
    let start = (&router, "POST", INSTANCES);
    let begin = async |cents, status| {
        let request = (start.0, start.1, start.2, new(cents));
        keyed(&app, request, Some("form-1"), status).await
    };
    let first = begin(0, 201).await;
    assert_eq!(begin(0, 200).await["uid"], first["uid"]);
    assert!(begin(1, 422).await["detail"].as_str().unwrap().contains("form-1"));

    app.client().start("paper", approval()).await.unwrap();
    let path = format!("{INSTANCES}/{}/signals/approve", uid_of(&app, "paper").await);
    for (value, status) in [(1, 200), (1, 200), (2, 422)] {
        keyed(&app, (&router, "POST", &path, json!({"value": value})), Some("mail-1"), status)
            .await;
    }

    let id = first["id"].as_str().unwrap();
    app.advance(Duration::from_secs(1)).await;
    let path = call_of(&app, &router, id).await;
    let act = async |action: &str, body: Value, status| {
        let path = format!("{path}/actions/{action}");
        keyed(&app, (&router, "POST", &path, body), Some("ticket-1"), status).await
    };
    let done = act("fail", json!({"message": "given up"}), 200).await;
    assert_eq!(act("fail", json!({"message": "given up"}), 200).await, done);
    act("fail", json!({"message": "otherwise"}), 422).await;
    act("retry", json!({}), 422).await;
}

#[test]
async fn a_key_stands_for_everything_that_a_start_says() {
    let app = app().await;
    let router = router(&app);
    let begin = async |more: Value, key: &str, status| {
        let mut body = json!({"workflow": "order", "input": {"cents": 0}, "tags": {"shop": "a"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keyed(&app, (&router, "POST", INSTANCES, body), Some(key), status).await
    };
    let first = begin(json!({}), "plain", 201).await;
    assert_eq!(begin(json!({}), "plain", 200).await["uid"], first["uid"]);
    let options = [
        json!({"tags": {"shop": "b"}}),
        json!({"queue": "slow"}),
        json!({"priority": 1}),
        json!({"retry": {"max_attempts": 2}}),
        json!({"run_timeout_ms": 60_000}),
        json!({"total_timeout_ms": 60_000}),
        json!({"delay_ms": 1_000}),
    ];
    begin(json!({"id": "another"}), "plain", 422).await;
    begin(json!({"id": first["id"]}), "plain", 200).await;
    for (number, options) in options.into_iter().enumerate() {
        begin(options.clone(), "plain", 422).await;
        let key = format!("with-{number}");
        let first = begin(options.clone(), &key, 201).await;
        assert_eq!(begin(options, &key, 200).await["uid"], first["uid"]);
        begin(json!({}), &key, 422).await;
    }
    let bare = |most: u32| json!({"activity": "charge", "input": {"cents": 0}, "retry": {"max_attempts": most}});
    for (most, status) in [(2, 201), (2, 200), (3, 422)] {
        keyed(&app, (&router, "POST", INSTANCES, bare(most)), Some("bare"), status).await;
    }
    // Whatever its later runs are started with.
    let counts = json!({"workflow": "countdown", "input": {"from": 3}});
    for status in [201, 200] {
        keyed(&app, (&router, "POST", INSTANCES, counts.clone()), Some("count"), status).await;
        app.advance(Duration::from_secs(1)).await;
    }
}

#[test]
async fn operators_act_on_calls_and_what_changes_nothing_is_a_conflict() {
    let app = app().await;
    let router = router(&app);
    app.start("tries", order(0)).await;
    app.advance(Duration::from_secs(1)).await;
    let path = call_of(&app, &router, "tries").await;
    let act = async |action: &str, body: Value, status| {
        let path = format!("{path}/actions/{action}");
        sent(&app, (&router, "POST", &path, body), status).await
    };
    let retried = act("retry", json!({"by": "ana", "reason": "the bank is back"}), 200).await;
    assert!(retried["answer"].as_str().unwrap().contains("charge"), "{retried}");
    app.advance(Duration::from_secs(1)).await;
    act("pause", json!({}), 200).await;
    let refused = act("retry", json!({}), 409).await;
    assert!(refused["detail"].as_str().unwrap().contains("paused"), "{refused}");
    act("resume", json!({"reset": true}), 200).await;
    act("complete", json!({}), 422).await;
    act("retry", json!({"message": "x"}), 422).await;
    act("dance", json!({}), 404).await;
    act("pause", json!({"reset": true}), 422).await;
    let policy = json!({"policy": {"max_attempts": 9}, "by": "ana"});
    sent(&app, (&router, "PUT", &format!("{path}/policy"), policy), 200).await;
    act("complete", json!({"value": 7}), 200).await;
    let uid = uid_of(&app, "tries").await;
    let result = get(&router, &format!("{INSTANCES}/{uid}/result")).await;
    assert_eq!(result["result"], 7);
    let actions = get(&router, &format!("{INSTANCES}/{uid}/actions")).await;
    let first = &actions["items"][0];
    assert_eq!((&first["by"], &first["reason"]), (&"ana".into(), &"the bank is back".into()));
    act("retry", json!({}), 409).await;
}

#[test]
async fn operators_act_on_runs_and_an_instance_that_was_replaced_is_a_conflict() {
    let app = app().await;
    let router = router(&app);
    app.start("paper", approval()).await;
    let first = uid_of(&app, "paper").await;
    let act = async |uid: Uid, action: &str, body: Value, status| {
        let path = format!("{INSTANCES}/{uid}/actions/{action}");
        sent(&app, (&router, "POST", &path, body), status).await
    };
    act(first, "pause", json!({"reason": "we move"}), 200).await;
    assert_eq!(get(&router, &format!("{INSTANCES}/{first}")).await["paused"]["reason"], "we move");
    act(first, "pause", json!({}), 409).await;
    act(first, "resume", json!({}), 200).await;
    act(first, "reset", json!({}), 422).await;
    act(first, "pause", json!({"to": "last_failure"}), 422).await;
    act(first, "terminate", json!({"by": "ana", "reason": "a mistake"}), 200).await;
    act(first, "cancel", json!({}), 409).await;
    act(first, "restart", json!({}), 200).await;
    let second = uid_of(&app, "paper").await;
    assert_ne!(first, second);
    act(first, "restart", json!({}), 409).await;
    let path = format!("{INSTANCES}/{first}/signals/approve");
    sent(&app, (&router, "POST", &path, json!({"value": 1})), 409).await;
    let delete = |uid: Uid| format!("{INSTANCES}/{uid}");
    sent(&app, (&router, "DELETE", &delete(second), Value::Null), 409).await;
    sent(&app, (&router, "DELETE", &delete(first), Value::Null), 200).await;
    sent(&app, (&router, "DELETE", &delete(first), Value::Null), 404).await;
}

#[test]
async fn dead_letters_are_decided_about_one_by_one_and_together() {
    let app = app().await;
    let router = router(&app);
    for number in 1..=4 {
        app.start(&format!("letter-{number}"), letter(number)).await.failure().await;
    }
    let page = get(&router, "/api/v1/dead-letters").await;
    let name = page["items"][0]["call"].as_str().unwrap();
    let path = |action: &str| format!("/api/v1/dead-letters/{name}/actions/{action}");
    sent(&app, (&router, "POST", &path("discard"), json!({"by": "ana"})), 200).await;
    sent(&app, (&router, "POST", &path("redrive"), json!({})), 409).await;
    sent(&app, (&router, "POST", &path("burn"), json!({})), 404).await;
    let many = |action: &str| format!("/api/v1/dead-letters/actions/{action}");
    sent(&app, (&router, "POST", &many("discard"), json!({})), 422).await;
    let redrive = json!({"activity": "post", "as_new": true, "limit": 1});
    let done = async |job: Value| {
        app.advance(Duration::from_secs(10)).await;
        let path = format!("/api/v1/bulk/{}", job["id"].as_str().unwrap());
        get(&router, &path).await["changed"].as_u64().unwrap()
    };
    let path = many("redrive");
    let job = keyed(&app, (&router, "POST", &path, redrive), Some("redrive-1"), 202).await;
    assert_eq!(done(job).await, 1);
    let discard = json!({"activity": "post"});
    let job = sent(&app, (&router, "POST", &many("discard"), discard), 202).await;
    assert!(done(job).await >= 2);
}

#[test]
async fn a_bulk_job_is_counted_first_and_refused_when_the_count_has_changed() {
    let app = app().await;
    let router = router(&app);
    for number in 1..=3 {
        app.start(&format!("tries-{number}"), order(0)).await;
    }
    app.advance(Duration::from_secs(1)).await;
    let job = |more: Value| {
        let mut job = json!({"calls": {"activity": "charge"}, "action": "pause"});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    let bulk = "/api/v1/bulk";
    let counted = sent(&app, (&router, "POST", bulk, job(json!({"dry_run": true}))), 200).await;
    assert_eq!((&counted["count"], counted["first"].as_array().unwrap().len()), (&3.into(), 3));
    sent(&app, (&router, "POST", bulk, job(json!({"expect_count": 2}))), 409).await;
    let wanted = job(json!({"expect_count": 3, "by": "ana"}));
    let begun = keyed(&app, (&router, "POST", bulk, wanted.clone()), Some("job-1"), 202).await;
    assert_eq!(begun["id"], "job-1");
    app.advance(Duration::from_secs(10)).await;
    let again = keyed(&app, (&router, "POST", bulk, wanted), Some("job-1"), 200).await;
    assert_eq!((&again["changed"], &again["by"]), (&3.into(), &"ana".into()));
    let other = json!({"calls": {"activity": "charge"}, "action": "retry"});
    keyed(&app, (&router, "POST", bulk, other), Some("job-1"), 422).await;
    assert_eq!(get(&router, "/api/v1/paused").await["items"].as_array().unwrap().len(), 3);
    let resume = json!({"activity": "charge"});
    sent(&app, (&router, "POST", "/api/v1/paused/actions/resume", resume), 202).await;
    app.advance(Duration::from_secs(10)).await;
    assert_eq!(get(&router, "/api/v1/paused").await["items"], json!([]));
    sent(&app, (&router, "DELETE", "/api/v1/bulk/job-1", Value::Null), 409).await;
    sent(&app, (&router, "POST", bulk, json!({"calls": {}, "action": "retry"})), 422).await;
    let runs = json!({"runs": {"workflow": "order"}, "action": "pause", "dry_run": true});
    assert_eq!(sent(&app, (&router, "POST", bulk, runs), 200).await["count"], 3);
}

#[test]
async fn schedules_are_put_paused_run_and_deleted() {
    let app = app().await;
    let router = router(&app);
    let path = "/api/v1/schedules/nightly";
    let new = json!({"workflow": "order", "input": {"cents": 1},
                     "schedule": {"every": "1h", "overlap": "allow"}});
    sent(&app, (&router, "PUT", path, new.clone()), 200).await;
    sent(&app, (&router, "PUT", path, new), 200).await;
    let other = json!({"workflow": "order", "input": {"cents": 2}, "schedule": {"every": "2h"}});
    sent(&app, (&router, "PUT", path, other), 409).await;
    let wrong = json!({"workflow": "order", "schedule": {"evry": "1h"}});
    assert!(sent(&app, (&router, "PUT", path, wrong), 422).await["errors"].is_array());
    let act = async |action: &str, body: Value, status| {
        sent(&app, (&router, "POST", &format!("{path}/actions/{action}"), body), status).await
    };
    act("pause", json!({}), 200).await;
    assert_eq!(get(&router, path).await["paused"], true);
    act("resume", json!({}), 200).await;
    let run = act("run", json!({}), 200).await;
    assert!(run["answer"].as_str().unwrap().starts_with("started nightly/"), "{run}");
    act("backfill", json!({"from_ms": 0}), 422).await;
    sent(&app, (&router, "DELETE", path, Value::Null), 200).await;
    sent(&app, (&router, "DELETE", path, Value::Null), 404).await;
}

#[test]
async fn a_policy_is_set_for_an_activity_and_taken_back() {
    let app = app().await;
    let router = router(&app);
    let path = "/api/v1/activities/charge/policy";
    let new = json!({"policy": {"max_attempts": 2}, "by": "ana", "reason": "the bank asks for it"});
    sent(&app, (&router, "PUT", path, new.clone()), 200).await;
    let found = get(&router, path).await;
    assert_eq!((&found["by"], &found["policy"]["max_attempts"]), (&"ana".into(), &2.into()));
    sent(&app, (&router, "PUT", path, new), 409).await;
    sent(&app, (&router, "PUT", path, json!({"policy": {"max_attempts": 0}})), 422).await;
    sent(&app, (&router, "DELETE", &format!("{path}?by=ana"), Value::Null), 200).await;
    sent(&app, (&router, "DELETE", path, Value::Null), 409).await;
}

#[test]
async fn a_body_that_is_no_json_or_too_large_is_refused() {
    let app = app().await;
    let router = router(&app);
    let post = |body: String, kind: &str| {
        let request = axum::http::Request::post(INSTANCES).header("content-type", kind);
        request.body(axum::body::Body::from(body)).unwrap()
    };
    let ask = async |body: String, kind: &str| {
        crate::support::ask(&router, post(body, kind)).await.status
    };
    assert_eq!(ask("{".to_string(), "application/json").await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("{}".to_string(), "text/plain").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let large = format!("\"{}\"", "x".repeat(17 << 20));
    assert_eq!(ask(large, "application/json").await, StatusCode::PAYLOAD_TOO_LARGE);
}

#[test]
async fn a_decision_about_many_is_repeated_under_its_key_and_another_one_is_refused() {
    let (app, path) = (app().await, "/api/v1/paused/actions/resume");
    let router = router(&app);
    let letters = "/api/v1/dead-letters/actions/discard";
    for (path, other) in [(path, "limit"), (path, "spread_ms"), (letters, "limit")] {
        let key = Some(format!("{path}-{other}"));
        let mut body = json!({"activity": "charge"});
        let first = keyed(&app, (&router, "POST", path, body.clone()), key.as_deref(), 202).await;
        let again = keyed(&app, (&router, "POST", path, body.clone()), key.as_deref(), 200).await;
        assert_eq!(again["id"], first["id"]);
        body[other] = 7.into();
        let refused = keyed(&app, (&router, "POST", path, body), key.as_deref(), 422).await;
        assert!(refused["detail"].as_str().unwrap().contains("same body"), "{refused}");
    }
}

#[test]
async fn many_decisions_are_counted_first_and_refused_when_the_count_has_changed() {
    let app = app().await;
    let router = router(&app);
    for number in 0..3 {
        app.client().start(format!("letter-{number}"), letter(number)).await.unwrap();
    }
    app.advance(HOUR).await;
    let path = "/api/v1/dead-letters/actions/discard";
    let counted = json!({"activity": "post", "dry_run": true});
    let preview = sent(&app, (&router, "POST", path, counted), 200).await;
    assert_eq!((&preview["count"], preview["first"].as_array().unwrap().len()), (&3.into(), 3));
    let expects = |count: u32| json!({"activity": "post", "expect_count": count});
    let refused = sent(&app, (&router, "POST", path, expects(2)), 409).await;
    assert!(refused["detail"].as_str().unwrap().contains("2 were expected"), "{refused}");
    assert_eq!(get(&router, "/api/v1/dead-letters").await["items"].as_array().unwrap().len(), 3);
    sent(&app, (&router, "POST", path, expects(3)), 202).await;
    let paused = "/api/v1/paused/actions/resume";
    let counted = json!({"activity": "charge", "dry_run": true});
    assert_eq!(sent(&app, (&router, "POST", paused, counted), 200).await["count"], 0);
}

#[test]
async fn runs_are_found_by_what_they_wait_for() {
    let app = app().await;
    let router = router(&app);
    app.client().start("broke", order(0)).await.unwrap();
    app.client().start("waits", approval()).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    for runs in [
        json!({"activity": "charge"}),
        json!({"failure_type": "BankDown"}),
        json!({"retrying": true}),
        json!({"failed_since_ms": 0}),
    ] {
        let job = json!({"runs": runs, "action": "pause", "dry_run": true});
        let preview = sent(&app, (&router, "POST", "/api/v1/bulk", job), 200).await;
        assert_eq!(
            (&preview["count"], &preview["first"]),
            (&1.into(), &json!(["broke"])),
            "{runs}"
        );
    }
}

#[test]
async fn gates_are_shut_and_opened_and_kinds_of_calls_paused() {
    let app = app().await;
    let router = router(&app);
    let does = async |method: &str, path: &str, body: Value, status: u16| {
        sent(&app, (&router, method, path, body), status).await
    };
    let shut = json!({"for_ms": 3_600_000, "by": "ana", "reason": "the bank is down"});
    does("POST", "/api/v1/gates/charge/actions/shut", shut, 200).await;
    let name = app.client().start("one", order(3)).await.unwrap().uid();
    app.advance(Duration::from_secs(3)).await;
    let gate = get(&router, "/api/v1/gates/charge").await;
    assert_eq!((&gate["standing"], &gate["due"]), (&"shut".into(), &1.into()), "{gate}");
    assert_eq!((&gate["by_hand"]["by"], &gate["by_hand"]["shut"]), (&"ana".into(), &true.into()));
    let call = get(&router, &format!("{INSTANCES}/{name}/calls")).await["items"][0].clone();
    assert_eq!((&call["waits_for"], &call["gate"]), (&"gate".into(), &"charge".into()), "{call}");
    assert!(call["held_by"].as_str().unwrap().contains("the bank is down"), "{call}");
    let behind = &call["behind"];
    assert_eq!((&behind["key"], &behind["standing"]), (&"charge".into(), &"shut".into()), "{call}");
    assert!(behind["since_ms"].is_i64() && behind["next_change_ms"].is_i64(), "{call}");
    does("POST", "/api/v1/gates/charge/actions/auto", json!({"for_ms": 1}), 422).await;
    does("POST", "/api/v1/gates/charge/actions/auto", json!({}), 200).await;
    does("POST", "/api/v1/gates/charge/actions/slam", json!({}), 404).await;
    app.advance(Duration::from_secs(3)).await;
    assert_eq!(get(&router, &format!("{INSTANCES}/{name}")).await["status"], "completed");
    let settings = json!({"settings": {"rate": {"per_second": 10.0, "burst": 1}}});
    does("PUT", "/api/v1/gates/charge", settings, 200).await;
    let gates = get(&router, "/api/v1/gates").await;
    assert_eq!(gates["items"][0]["settings"]["rate"]["burst"], 1, "{gates}");
    does("PUT", "/api/v1/gates/charge", json!({"settings": {"speed": 1}}), 422).await;
    does("DELETE", "/api/v1/gates/charge", json!({}), 200).await;
    for kind in ["activities/charge", "queues/default"] {
        does("POST", &format!("/api/v1/{kind}/actions/pause"), json!({"reason": "r"}), 200).await;
        let paused = get(&router, "/api/v1/gates").await["paused"][0].clone();
        assert!(kind.ends_with(paused["name"].as_str().unwrap()), "{paused}");
        does("POST", &format!("/api/v1/{kind}/actions/resume"), json!({}), 200).await;
        does("POST", &format!("/api/v1/{kind}/actions/stop"), json!({}), 404).await;
    }
}

#[test]
async fn the_log_names_who_did_what_leaves_no_row_and_why() {
    crate::log::listen();
    let app = app().await;
    let token = NewToken::new("ci", Role::Operate).by("ana").make(&app.client()).await.unwrap().1;
    let router = resurgam_server::router(&app.client(), resurgam_server::Options::default());
    let done = async |method: &str, path: &str, body: Value| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = app.wait_for(path, ask(&router, request)).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
        answer.json()
    };
    let why = |mut body: Value, reason: &str| {
        body["by"] = "ana".into();
        body["reason"] = reason.into();
        body
    };
    let new = why(json!({"workflow": "approval", "id": "paper"}), "asked for");
    let uid = done("POST", INSTANCES, new).await["uid"].as_str().unwrap().to_string();
    let path = format!("{INSTANCES}/{uid}");
    done("POST", &format!("{path}/signals/approve"), why(json!({"value": 1}), "mail 17")).await;
    app.advance(Duration::from_secs(1)).await;
    let schedule = json!({"workflow": "approval", "schedule": {"every": "1h"}});
    let nightly = "/api/v1/schedules/nightly";
    done("PUT", nightly, why(schedule, "new")).await;
    done("POST", &format!("{nightly}/actions/pause"), why(json!({}), "too many")).await;
    done("DELETE", &format!("{nightly}?reason=old&by=ana"), Value::Null).await;
    done("DELETE", &format!("{path}?reason=old"), Value::Null).await;
    let lines = crate::log::lines().join("\n").replace(&uid, "UID");
    expect_test::expect![[r#"
        started paper, which runs approval by="ana (token ci)" reason="asked for"
        sent approve to paper by="ana (token ci)" reason="mail 17"
        schedule nightly starts approval by="ana (token ci)" reason="new"
        pause of schedule nightly: schedule nightly is paused by="ana (token ci)" reason="too many"
        schedule nightly is deleted; its instances go on by="ana (token ci)" reason="old"
        deleted instance paper by="ci" reason="old""#]]
    .assert_eq(&lines);
}
