//! Tokens and roles: every role against every route.

use std::fmt::Write as _;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use expect_test::expect;
use resurgam::Client;
use resurgam::prelude::*;
use resurgam_server::{NewToken, Options, Role, Token, TokenSettings};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

use crate::support::{Answer, ask};

fn router(client: &Client) -> Router {
    resurgam_server::router(client, Options::default())
}

async fn made(client: &Client, role: Role) -> String {
    let new = NewToken::new(role.name(), role).by("ana");
    new.make(client).await.unwrap().1
}

async fn with(router: &Router, method: &str, path: &str, token: Option<&str>) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    ask(router, request.body(Body::from("{}")).unwrap()).await
}

/// The routes of the description: method and path, with names in place of what stands in braces.
async fn routes(router: &Router, token: &str) -> Vec<(String, String)> {
    let description = with(router, "GET", "/openapi.json", Some(token)).await.json();
    let mut routes = vec![("GET".to_string(), "/openapi.json".to_string())];
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    routes
}

/// A path with something that could stand in its braces.
fn filled(path: &str) -> String {
    let uid = "0".repeat(31) + "7";
    let path = path.replace("{uid}", &uid).replace("{call}", &format!("{uid}.1.2"));
    let path = path.replace("{seq}", "1").replace("{code}", "E2").replace("{action}", "pause");
    path.replace("{id}", "x").replace("{key}", "x").replace("{name}", "x")
}

#[test]
async fn every_role_may_do_what_the_table_says() {
    let app = TestApp::builder().start().await;
    let client = app.client();
    let router = router(&client);
    let mut tokens = Vec::new();
    for role in Role::ALL {
        tokens.push(made(&client, role).await);
    }
    let mut table = "nobody read operate work admin\n".to_string();
    for (method, path) in routes(&router, &tokens[3]).await {
        // Its answer would end the tokens of those behind it, were its id one of theirs.
        let at = filled(&path);
        let without = with(&router, &method, &at, None).await.status.as_u16();
        let mut line = if without == 401 { "-     " } else { "x     " }.to_string();
        for token in &tokens {
            let status = with(&router, &method, &at, Some(token)).await.status.as_u16();
            assert_ne!(status, 401, "{method} {at}");
            assert!(status < 500, "{method} {at}: {status}");
            line += if status == 403 { " -   " } else { " x   " };
        }
        let _ = writeln!(table, "{} {method} {path}", line.trim_end());
    }
    expect![[r#"
        nobody read operate work admin
        -      x    x    -    x GET /openapi.json
        -      x    x    -    x GET /api/v1/actions
        -      x    x    -    x GET /api/v1/activities/policies
        -      -    x    -    x POST /api/v1/activities/{name}/actions/{action}
        -      -    x    -    x DELETE /api/v1/activities/{name}/policy
        -      x    x    -    x GET /api/v1/activities/{name}/policy
        -      -    x    -    x PUT /api/v1/activities/{name}/policy
        -      x    x    -    x GET /api/v1/bulk
        -      -    x    -    x POST /api/v1/bulk
        -      -    x    -    x DELETE /api/v1/bulk/{id}
        -      x    x    -    x GET /api/v1/bulk/{id}
        -      x    x    -    x GET /api/v1/calls/{call}
        -      -    x    -    x POST /api/v1/calls/{call}/actions/{action}
        -      x    x    -    x GET /api/v1/calls/{call}/delays
        -      -    x    -    x PUT /api/v1/calls/{call}/policy
        -      x    x    -    x GET /api/v1/dead-letters
        -      -    x    -    x POST /api/v1/dead-letters/actions/{action}
        -      x    x    -    x GET /api/v1/dead-letters/{call}
        -      -    x    -    x POST /api/v1/dead-letters/{call}/actions/{action}
        -      x    x    -    x GET /api/v1/dead-letters/{call}/input
        x      x    x    x    x GET /api/v1/errors/{code}
        -      x    x    -    x GET /api/v1/gates
        -      -    x    -    x DELETE /api/v1/gates/{key}
        -      x    x    -    x GET /api/v1/gates/{key}
        -      -    x    -    x PUT /api/v1/gates/{key}
        -      -    x    -    x POST /api/v1/gates/{key}/actions/{action}
        -      x    x    -    x GET /api/v1/graphs
        -      -    x    -    x DELETE /api/v1/graphs/{name}
        -      x    x    -    x GET /api/v1/graphs/{name}
        -      -    x    -    x PUT /api/v1/graphs/{name}
        -      x    x    -    x GET /api/v1/instances
        -      -    x    -    x POST /api/v1/instances
        -      -    x    -    x DELETE /api/v1/instances/{uid}
        -      x    x    -    x GET /api/v1/instances/{uid}
        -      x    x    -    x GET /api/v1/instances/{uid}/actions
        -      -    x    -    x POST /api/v1/instances/{uid}/actions/{action}
        -      x    x    -    x GET /api/v1/instances/{uid}/argument
        -      x    x    -    x GET /api/v1/instances/{uid}/attempts
        -      x    x    -    x GET /api/v1/instances/{uid}/calls
        -      -    x    -    x POST /api/v1/instances/{uid}/calls/{name}/actions/{action}
        -      -    x    -    x PUT /api/v1/instances/{uid}/calls/{name}/policy
        -      x    x    -    x GET /api/v1/instances/{uid}/events
        -      x    x    -    x GET /api/v1/instances/{uid}/events/{seq}
        -      x    x    -    x GET /api/v1/instances/{uid}/export
        -      x    x    -    x GET /api/v1/instances/{uid}/input
        -      x    x    -    x GET /api/v1/instances/{uid}/newest
        -      x    x    -    x GET /api/v1/instances/{uid}/outcome
        -      x    x    -    x GET /api/v1/instances/{uid}/result
        -      -    x    -    x POST /api/v1/instances/{uid}/signals/{name}
        -      x    x    -    x GET /api/v1/live
        x      x    x    x    x DELETE /api/v1/login
        x      x    x    x    x POST /api/v1/login
        -      x    x    -    x GET /api/v1/nodes
        -      x    x    -    x GET /api/v1/now
        -      x    x    -    x GET /api/v1/paused
        -      -    x    -    x POST /api/v1/paused/actions/{action}
        -      x    x    -    x POST /api/v1/policies/check
        -      x    x    -    x POST /api/v1/policies/convert
        -      x    x    -    x POST /api/v1/policies/eval
        -      x    x    -    x POST /api/v1/policies/explain
        -      x    x    -    x POST /api/v1/policies/simulate
        -      x    x    -    x POST /api/v1/policies/what-if
        -      x    x    -    x GET /api/v1/pressure
        -      x    x    -    x GET /api/v1/queues
        -      -    x    -    x POST /api/v1/queues/{name}/actions/{action}
        -      x    x    -    x GET /api/v1/schedules
        -      -    x    -    x DELETE /api/v1/schedules/{id}
        -      x    x    -    x GET /api/v1/schedules/{id}
        -      -    x    -    x PUT /api/v1/schedules/{id}
        -      -    x    -    x POST /api/v1/schedules/{id}/actions/{action}
        -      x    x    -    x GET /api/v1/schedules/{id}/argument
        -      x    x    -    x GET /api/v1/schedules/{id}/input
        -      x    x    -    x GET /api/v1/search
        -      x    x    -    x GET /api/v1/server
        -      -    -    -    x GET /api/v1/tokens
        -      -    -    -    x POST /api/v1/tokens
        -      -    -    -    x DELETE /api/v1/tokens/{id}
        -      x    x    -    x GET /api/v1/waiting
        -      -    -    x    x POST /api/v1/worker/beat
        -      -    -    x    x POST /api/v1/worker/poll
        -      -    -    x    x POST /api/v1/worker/report
        -      x    x    -    x GET /api/v1/workers
        x      x    x    x    x GET /healthz
        -      x    x    -    x GET /metrics
        x      x    x    x    x GET /readyz
    "#]]
    .assert_eq(&table);
}

#[test]
async fn nobody_gets_in_with_a_token_that_is_wrong_or_was_revoked() {
    let app = TestApp::builder().start().await;
    let client = app.client();
    let router = router(&client);
    let token = made(&client, Role::Read).await;
    let status = async |token: Option<&str>| {
        with(&router, "GET", "/api/v1/instances", token).await.status.as_u16()
    };
    assert_eq!((status(Some(&token)).await, status(None).await), (200, 401));
    let wrong = format!("{}0", &token[..token.len() - 1]);
    let wrong = if wrong == token { format!("{}1", &token[..token.len() - 1]) } else { wrong };
    for wrong in [wrong.as_str(), "rsg_1_2", "x"] {
        assert_eq!(status(Some(wrong)).await, 401, "{wrong}");
    }
    let id = Token::all(&client).await.unwrap()[0].id.clone();
    assert!(Token::revoke(&client, &id).await.unwrap());
    app.advance(std::time::Duration::from_secs(3)).await;
    assert_eq!(status(Some(&token)).await, 401);
    assert!(!Token::revoke(&client, &id).await.unwrap());
}

#[test]
async fn the_admin_token_of_a_process_is_stored_nowhere() {
    let app = TestApp::builder().start().await;
    let secret = "a token from a file, of 32 bytes or more";
    let options = Options::default().admin_token(secret);
    let router = resurgam_server::router(&app.client(), options);
    let answer = with(&router, "GET", "/api/v1/tokens", Some(secret)).await;
    assert_eq!(answer.json()["items"], serde_json::json!([]));
}

#[activity]
async fn encode(_secret: String) -> Result<String, Failure> {
    Ok("hunter2".to_string())
}

#[workflow]
async fn keep(ctx: WorkflowContext, secret: String) -> Result<String, Failure> {
    let _signal: String = ctx.signal("more").await?;
    ctx.call(encode(secret)).await
}

#[test]
async fn a_token_without_payloads_sees_none_of_them() {
    let app = TestApp::builder().workflow(keep).activity(encode).start().await;
    let client = app.client();
    let started = client.start("one", keep("hunter2".into())).await.unwrap();
    app.signal("one", "more", &"hunter2").await.unwrap();
    app.advance(std::time::Duration::from_secs(1)).await;
    let settings = TokenSettings { no_payloads: true, ..TokenSettings::default() };
    let new = |settings: TokenSettings| NewToken::new("ci", Role::Admin).settings(settings);
    let (_, blind) = new(settings).make(&client).await.unwrap();
    let (_, seeing) = new(TokenSettings::default()).make(&client).await.unwrap();
    let router = router(&client);
    let mut seen = 0;
    for (method, path) in routes(&router, &blind).await {
        let path = path.replace("{uid}", &started.uid().to_string()).replace("{seq}", "4");
        let path = path.replace("{call}", &format!("{}.1.4", started.uid()));
        if method != "GET" || path.contains('{') {
            continue;
        }
        let answer = with(&router, "GET", &path, Some(&blind)).await;
        assert!(!answer.text.contains("hunter2"), "{path}: {answer:?}");
        let answer = with(&router, "GET", &path, Some(&seeing)).await;
        seen += usize::from(answer.text.contains("hunter2"));
    }
    assert!(seen >= 5, "only {seen} routes show payloads to who may see them");
}

#[test]
async fn what_is_done_is_recorded_under_the_name_of_the_token() {
    let app = TestApp::builder().workflow(keep).activity(encode).start().await;
    let client = app.client();
    let started = client.start("one", keep("x".into())).await.unwrap();
    let token = made(&client, Role::Operate).await;
    let router = router(&client);
    let path = format!("/api/v1/instances/{}/actions/pause", started.uid());
    let asked = with(&router, "POST", &path, Some(&token));
    assert_eq!(app.wait_for("the pause", asked).await.status.as_u16(), 200);
    let actions = client.actions("one").await.unwrap();
    assert_eq!(actions[0].request.by, "operate");
}

#[test]
async fn answers_tell_browsers_what_they_may_do() {
    use tower::ServiceExt;
    let app = TestApp::builder().start().await;
    let request = Request::get("/healthz").body(Body::empty()).unwrap();
    let answer = router(&app.client()).oneshot(request).await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_string();
    assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(
        (header("x-content-type-options"), header("cache-control")),
        ("nosniff".into(), "no-store".into())
    );
}

#[test]
async fn a_token_that_sees_no_payloads_cannot_run_activities() {
    let app = TestApp::builder().start().await;
    let blind = || TokenSettings { no_payloads: true, ..TokenSettings::default() };
    let new = NewToken::new("w", Role::Work).settings(blind());
    let refused = new.make(&app.client()).await.unwrap_err();
    assert!(refused.to_string().contains("no payloads"), "{refused}");
    let (_, secret) =
        NewToken::new("a", Role::Admin).settings(blind()).make(&app.client()).await.unwrap();
    let router = router(&app.client());
    let answer = with(&router, "POST", "/api/v1/worker/poll", Some(&secret)).await;
    assert_eq!(answer.status.as_u16(), 403, "{answer:?}");
    assert!(answer.text.contains("no payloads"), "{answer:?}");
}

#[test]
async fn tokens_of_one_name_have_their_own_idempotency_keys() {
    let app = TestApp::builder().activity(idle).start().await;
    let client = app.client();
    let options = Options::default().admin_token("a secret of more than 32 bytes in a file");
    let router = resurgam_server::router(&client, options);
    let mut secrets = vec!["a secret of more than 32 bytes in a file".to_string()];
    for _ in 0..2 {
        secrets.push(NewToken::new("admin", Role::Operate).make(&client).await.unwrap().1);
    }
    for (number, secret) in secrets.iter().enumerate() {
        let body = format!(r#"{{"activity": "idle", "input": null, "id": "of-{number}"}}"#);
        let request = Request::post("/api/v1/instances").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {secret}"));
        let request = request.header("idempotency-key", "form-17").body(Body::from(body));
        let answer = app.wait_for("a start", ask(&router, request.unwrap())).await;
        assert_eq!(answer.status.as_u16(), 201, "{answer:?}");
    }
}

#[activity]
async fn idle() -> Result<(), Failure> {
    Ok(())
}
