//! Logins of browsers, bodies with gzip, what tokens may beside their role, and graphs by name.

use std::io::{Read, Write};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use resurgam::prelude::*;
use resurgam_graph::SecretsKey;
use resurgam_server::{NewToken, Options, Role, Token, TokenSettings};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};
use tower::ServiceExt;

#[workflow]
async fn echo(_ctx: WorkflowContext, text: String) -> Result<String, Failure> {
    Ok(text)
}

async fn app() -> TestApp {
    let graph = resurgam_graph::definition("graph");
    TestApp::builder().workflow(echo).workflow_definition(graph).start().await
}

/// What was answered, with its headers.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

impl Answered {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }
}

async fn ask(
    router: &Router,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answered {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.into_body().collect().await.unwrap().to_bytes().to_vec();
    Answered { status, headers, bytes }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const HERE: (&str, &str) = ("origin", "http://localhost:1");

/// Logs in, and answers with the cookie as a browser sends it.
async fn login(router: &Router, secret: &str) -> String {
    let body = json!({"token": secret}).to_string();
    let answer = ask(router, ("POST", "/api/v1/login"), &[JSON, HERE], body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", String::from_utf8_lossy(&answer.bytes));
    let cookie = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Max-Age=43200", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(secret), "{cookie}");
    cookie.split(';').next().unwrap().to_string()
}

#[test]
async fn a_login_lets_in_as_its_token_does_and_ends_when_it_is_ended() {
    let app = app().await;
    let client = app.client();
    let (_, secret) = NewToken::new("ana", Role::Operate).make(&client).await.unwrap();
    let router = resurgam_server::router(&client, Options::default());
    let cookie = login(&router, &secret).await;
    let cookie = ("cookie", cookie.as_str());
    let list = ("GET", "/api/v1/instances");
    assert_eq!(ask(&router, list, &[cookie], "").await.status, StatusCode::OK);
    assert_eq!(ask(&router, ("GET", "/api/v1/tokens"), &[cookie], "").await.status.as_u16(), 403);
    assert_eq!(ask(&router, list, &[("cookie", "resurgam_login=00")], "").await.status, 401);

    let start = ("POST", "/api/v1/instances");
    let body = r#"{"workflow": "echo", "input": {"text": "x"}, "id": "one"}"#;
    let elsewhere = ("origin", "http://evil.example");
    assert_eq!(ask(&router, start, &[cookie, JSON], body).await.status, 403, "from where?");
    assert_eq!(ask(&router, start, &[cookie, JSON, elsewhere], body).await.status, 403);
    let headers = [cookie, JSON, HERE];
    let begun = ask(&router, start, &headers, body);
    assert_eq!(app.wait_for("a start", begun).await.status, StatusCode::CREATED);

    let out = ("DELETE", "/api/v1/login");
    assert_eq!(ask(&router, out, &[cookie, elsewhere], "").await.status, 403);
    let ended = ask(&router, out, &[cookie, HERE], "").await;
    assert_eq!((ended.status, ended.json()), (StatusCode::OK, json!({"ended": true})));
    assert!(ended.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(ask(&router, list, &[cookie], "").await.status, 401);
    let open = resurgam_server::router(&client, Options::default().open());
    assert_eq!(ask(&open, list, &[cookie], "").await.status, 200, "it lets everybody in");
    let again = ask(&router, out, &[cookie, HERE], "").await;
    assert_eq!(again.json(), json!({"ended": false}));
}

#[test]
async fn a_login_ends_with_its_token_and_after_twelve_hours() {
    let app = app().await;
    let client = app.client();
    let (token, secret) = NewToken::new("ana", Role::Read).make(&client).await.unwrap();
    let admin = "a token from a file, of 32 bytes or more";
    let router = resurgam_server::router(&client, Options::default().admin_token(admin));
    let (of_token, of_admin) = (login(&router, &secret).await, login(&router, admin).await);
    let other = Options::default().admin_token("another token from a file, of 32 bytes");
    let other = resurgam_server::router(&client, other);
    let status = async |router: &Router, cookie: &str| {
        ask(router, ("GET", "/api/v1/nodes"), &[("cookie", cookie)], "").await.status.as_u16()
    };
    assert_eq!((status(&router, &of_token).await, status(&router, &of_admin).await), (200, 200));
    assert_eq!((status(&other, &of_token).await, status(&other, &of_admin).await), (200, 401));
    Token::revoke(&client, &token.id).await.unwrap();
    app.advance(Duration::from_secs(3)).await;
    assert_eq!((status(&router, &of_token).await, status(&router, &of_admin).await), (401, 200));
    app.advance(Duration::from_secs(12 * 3_600)).await;
    assert_eq!(status(&router, &of_admin).await, 401);
}

#[test]
async fn an_open_stream_ends_soon_after_its_login() {
    let app = app().await;
    let client = app.client();
    let (_, secret) = NewToken::new("ana", Role::Read).make(&client).await.unwrap();
    let router = resurgam_server::router(&client, Options::default());
    let cookie = login(&router, &secret).await;
    let request = Request::get("/api/v1/live?topics=lists").header("cookie", &cookie);
    let stream = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let headers = [("cookie", cookie.as_str()), HERE];
    ask(&router, ("DELETE", "/api/v1/login"), &headers, "").await;
    let mut frames = stream.into_body();
    let ended = tokio::spawn(async move { while frames.frame().await.is_some() {} });
    app.advance(Duration::from_secs(31)).await;
    app.wait_for("the end of the stream", ended).await.unwrap();
}

#[test]
async fn who_names_wrong_tokens_again_and_again_has_to_wait() {
    let app = app().await;
    let router = resurgam_server::router(&app.client(), Options::default());
    let wrong = async || {
        let body = r#"{"token": "rsg_00_11"}"#;
        let answer = ask(&router, ("POST", "/api/v1/login"), &[JSON], body).await;
        (answer.status.as_u16(), answer.header("retry-after").to_string())
    };
    for _ in 0..10 {
        assert_eq!(wrong().await.0, 401);
    }
    assert_eq!(wrong().await, (429, "2".to_string()));
    app.advance(Duration::from_secs(61)).await;
    assert_eq!(wrong().await.0, 401);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
async fn bodies_come_and_go_with_gzip_where_it_is_said() {
    let app = app().await;
    let router = resurgam_server::router(&app.client(), Options::default().open());
    let text = "many words ".repeat(1_000);
    let body = json!({"workflow": "echo", "input": {"text": text}, "id": "one"}).to_string();
    let start = ("POST", "/api/v1/instances");
    let packed = [JSON, ("content-encoding", "gzip")];
    let begun = ask(&router, start, &packed, gzip(body.as_bytes()));
    let begun = app.wait_for("a start", begun).await;
    assert_eq!(begun.status, StatusCode::CREATED);
    let path = format!("/api/v1/instances/{}/input", begun.json()["uid"].as_str().unwrap());
    let plain = ask(&router, ("GET", &path), &[], "").await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    let packed = ask(&router, ("GET", &path), &[("accept-encoding", "br, gzip")], "").await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.bytes.len() * 10 < plain.bytes.len());
    let mut inflated = Vec::new();
    GzDecoder::new(packed.bytes.as_slice()).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, plain.bytes);

    let status = async |encoding: &str, body: Vec<u8>| {
        let headers = [JSON, ("content-encoding", encoding)];
        ask(&router, start, &headers, body).await.status.as_u16()
    };
    assert_eq!(status("gzip", b"{}".to_vec()).await, 400);
    assert_eq!(status("zstd", gzip(b"{}")).await, 415);
    assert_eq!(status("gzip", gzip(&vec![b' '; (16 << 20) + 1])).await, 413, "once inflated");
    assert_eq!(status("gzip", gzip(&[b"{".as_slice(), &vec![b' '; 1 << 20]].concat())).await, 400);
}

#[test]
async fn a_stream_goes_out_as_it_is_and_pages_are_compressed_once() {
    let app = app().await;
    let router = resurgam_server::router(&app.client(), Options::default().open());
    let request = Request::get("/api/v1/live?topics=lists").header("accept-encoding", "gzip");
    let stream = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert!(!stream.headers().contains_key("content-encoding"));
    drop(stream);
    let page = ask(&router, ("GET", "/ui/"), &[], "").await;
    let page = String::from_utf8(page.bytes).unwrap();
    let script = page.split('"').find(|part| part.ends_with("main.js")).unwrap();
    let path = format!("/ui/{script}");
    let packed = ask(&router, ("GET", &path), &[("accept-encoding", "gzip")], "").await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    let plain = ask(&router, ("GET", &path), &[], "").await;
    let mut inflated = Vec::new();
    GzDecoder::new(packed.bytes.as_slice()).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, plain.bytes);
}

async fn with_settings(app: &TestApp, role: Role, settings: TokenSettings) -> String {
    let new = NewToken::new("w", role).settings(settings);
    format!("Bearer {}", new.make(&app.client()).await.unwrap().1)
}

#[test]
async fn a_worker_starts_instances_where_its_token_says_so_and_only_on_its_queues() {
    let app = app().await;
    let client = app.client();
    let router = resurgam_server::router(&client, Options::default());
    let plain = with_settings(&app, Role::Work, TokenSettings::default()).await;
    let starts = TokenSettings { start: true, ..TokenSettings::default() };
    let anywhere = with_settings(&app, Role::Work, starts.clone()).await;
    let settings = TokenSettings { namespace: Some("pay".to_string()), ..starts.clone() };
    let of_namespace = with_settings(&app, Role::Work, settings).await;
    let start = async |token: &str, id: &str, queue: Value| {
        let headers = [JSON, ("authorization", token)];
        let body = json!({"workflow": "echo", "input": {"text": "x"}, "id": id, "queue": queue});
        let answer = ask(&router, ("POST", "/api/v1/instances"), &headers, body.to_string());
        app.wait_for("an answer", answer).await.status.as_u16()
    };
    assert_eq!(start(&plain, "a", json!(null)).await, 403);
    assert_eq!(start(&anywhere, "b", json!("any")).await, 201);
    assert_eq!(start(&of_namespace, "c", json!("other")).await, 403);
    assert_eq!(start(&of_namespace, "d", json!(null)).await, 201);
    let queue = client.find("d").await.unwrap().unwrap().queue;
    assert_eq!(queue, "ns:pay");
    let headers = [("authorization", anywhere.as_str())];
    assert_eq!(ask(&router, ("GET", "/api/v1/instances"), &headers, "").await.status, 403);
    let refused = NewToken::new("r", Role::Read).settings(starts).make(&client).await.unwrap_err();
    assert!(refused.to_string().contains("for the role work"), "{refused}");
}

#[test]
async fn so_many_requests_of_a_token_wait_as_it_says() {
    let app = app().await;
    let client = app.client();
    let router = resurgam_server::router(&client, Options::default());
    let few = TokenSettings { polls: Some(1), ..TokenSettings::default() };
    let one = with_settings(&app, Role::Read, few).await;
    let other = with_settings(&app, Role::Read, TokenSettings::default()).await;
    let open = async |token: &str| {
        let request = Request::get("/api/v1/live?topics=lists").header("authorization", token);
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let first = open(&one).await;
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(open(&one).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(open(&other).await.status(), StatusCode::OK);
}

fn graph(secrets: Value) -> Value {
    let node = json!({"node_name": "Greet", "namespace": "n", "identifier": "a",
                      "inputs": {"who": "world"}, "next_nodes": null});
    json!({"secrets": secrets, "nodes": [node]})
}

#[test]
async fn a_graph_is_kept_by_its_name_and_started_by_it() {
    let app = app().await;
    let client = app.client();
    let key = SecretsKey::from_text(&SecretsKey::generate_text()).unwrap();
    let router = resurgam_server::router(&client, Options::default().secrets_key(&key));
    let operate = with_settings(&app, Role::Operate, TokenSettings::default()).await;
    let admin = with_settings(&app, Role::Admin, TokenSettings::default()).await;
    let does = async |token: &str, how: (&str, &str), body: Value| {
        let headers = [JSON, ("authorization", token)];
        let answer = ask(&router, how, &headers, body.to_string());
        let answer = app.wait_for("an answer", answer).await;
        (answer.status.as_u16(), String::from_utf8(answer.bytes).unwrap())
    };
    let put = ("PUT", "/api/v1/graphs/greet");
    let secret = || json!({"graph": graph(json!({"password": "hunter2"}))});
    let open = || json!({"graph": graph(json!({}))});
    assert_eq!(does(&operate, put, json!({"graph": {"nodes": []}})).await.0, 422);
    assert_eq!(does(&operate, put, open()).await.0, 200);
    assert_eq!(does(&operate, put, secret()).await.0, 403, "it has secrets");
    assert_eq!(does(&admin, put, secret()).await.0, 200);
    assert_eq!(does(&operate, put, open()).await.0, 403, "it would lose its secrets");
    let show = ("GET", "/api/v1/graphs/greet");
    let (status, told) = does(&operate, show, json!({})).await;
    assert_eq!(status, 200);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["secrets"], &told["by"]), (&json!(["password"]), &json!("w")));
    assert_eq!(told["template"]["nodes"][0]["node_name"], "Greet");
    let (_, listed) = does(&operate, ("GET", "/api/v1/graphs"), json!({})).await;
    assert!(listed.contains("greet"), "{listed}");

    let begin = json!({"graph_template": "greet", "id": "run-1", "input": {"who": "you"}});
    let (status, begun) = does(&operate, ("POST", "/api/v1/instances"), begin).await;
    assert_eq!(status, 201, "{begun}");
    let row = client.find("run-1").await.unwrap().unwrap();
    assert!(row.input.as_str().contains(&key.fingerprint()), "the key it was encrypted with");
    let uid = serde_json::from_str::<Value>(&begun).unwrap()["uid"].as_str().unwrap().to_string();
    let (_, input) =
        does(&admin, ("GET", &format!("/api/v1/instances/{uid}/input")), json!({})).await;
    assert!(input.contains("you") && !input.contains(&key.fingerprint()), "{input}");
    let everything = [client.handle().store().graph_template("greet").await.unwrap().unwrap()];
    assert!(!format!("{everything:?} {listed} {told} {input}").contains("hunter2"));

    let unknown = json!({"graph_template": "other", "id": "run-2"});
    assert_eq!(does(&operate, ("POST", "/api/v1/instances"), unknown).await.0, 404);
    let delete = ("DELETE", "/api/v1/graphs/greet?reason=old");
    assert_eq!(does(&operate, delete, json!({})).await.0, 403);
    assert_eq!(does(&admin, delete, json!({})).await.0, 200);
    assert_eq!(does(&operate, show, json!({})).await.0, 404);
}
