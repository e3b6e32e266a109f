//! Asking a router.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use resurgam_testing::TestApp;
use serde_json::Value;
use tower::ServiceExt;

/// What a router answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The router of an app.
pub(crate) fn router(app: &TestApp) -> Router {
    resurgam_server::router(&app.client(), resurgam_server::Options::default().open())
}

/// Asks a router something.
pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let kind = answer.headers().get("content-type");
    let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_string();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Answer { status, kind, text: String::from_utf8(body.to_vec()).unwrap() }
}

/// Asks for a path, and wants what is there.
pub(crate) async fn get(router: &Router, path: &str) -> Value {
    let answer = look(router, path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.json()
}

/// Asks for a path.
pub(crate) async fn look(router: &Router, path: &str) -> Answer {
    ask(router, Request::get(path).body(Body::empty()).unwrap()).await
}

/// Sends a body, with a key that makes a repeat of it one request.
pub(crate) async fn send(
    router: &Router,
    method: &str,
    path: &str,
    body: &Value,
    key: Option<&str>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    ask(router, request.body(Body::from(body.to_string())).unwrap()).await
}

/// Asks for a path, and wants a problem of this status.
pub(crate) async fn problem(router: &Router, path: &str, status: u16) -> Value {
    let answer = look(router, path).await;
    assert_eq!(answer.status.as_u16(), status, "{path}: {answer:?}");
    assert_eq!(answer.kind, "application/problem+json", "{path}");
    answer.json()
}
