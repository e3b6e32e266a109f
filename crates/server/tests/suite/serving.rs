//! Serving the router at an address.

use std::future::pending;

use resurgam_server::{Api, Options, serve};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// What is answered to a request, as it stands on the wire.
async fn said(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
async fn an_address_that_others_can_reach_is_refused_without_tokens() {
    let app = TestApp::builder().start().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let api = Api::new(&app.client(), Options::default().open());
    let refused = serve(listener, api, pending()).await.unwrap_err().to_string();
    assert!(
        refused.contains("0.0.0.0") && refused.contains("no tokens are asked for"),
        "{refused}"
    );
}

#[test]
async fn a_request_through_a_proxy_or_for_another_host_is_refused_without_tokens() {
    let app = TestApp::builder().start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let api = Api::new(&app.client(), Options::default().open());
    let serving = tokio::spawn(serve(listener, api, async {
        let _stopped = stopped.await;
    }));
    let direct = said(address, "GET /healthz HTTP/1.1").await;
    assert!(direct.starts_with("HTTP/1.1 200") && direct.ends_with("ok\n"), "{direct}");
    for header in ["X-Forwarded-For: 10.0.0.1", "Forwarded: for=10.0.0.1", "Via: 1.1 proxy"] {
        let answer = said(address, &format!("GET /healthz HTTP/1.1\r\n{header}")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{header}: {answer}");
    }
    let mut foreign = TcpStream::connect(address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    foreign.write_all(request).await.unwrap();
    let mut answer = String::new();
    foreign.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[test]
async fn a_stop_answers_whoever_waits_for_a_result() {
    let app = TestApp::builder().workflow(crate::reading::sleeper).start().await;
    let started = app.client().start("one", crate::reading::sleeper()).await.unwrap();
    let api = Api::new(&app.client(), Options::default().open());
    let router = api.router();
    let path = format!("/api/v1/instances/{}/result?wait_ms=60000", started.uid());
    let waiting = tokio::spawn(async move { crate::support::get(&router, &path).await });
    api.stop();
    assert_eq!(waiting.await.unwrap()["closed"], false);
}
