//! Serving the router at an address.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use resurgam_server::{Api, Limits, Options, Tls, serve};
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

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

const HOUR: Duration = Duration::from_secs(3_600);

/// The API at an address of this machine.
struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn new(app: &TestApp, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let api = Api::new(&app.client(), options);
        let serving = tokio::spawn(serve(listener, api, async {
            let _stopped = stopped.await;
        }));
        Served { address, stop, serving }
    }

    async fn begun(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }
}

async fn rest(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    // One that is cut off in the middle of its request may end with an error.
    let _cut_off = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

const HALF_A_BODY: &str = "POST /api/v1/instances HTTP/1.1\r\nHost: localhost\r\n\
                           Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";

#[test]
async fn a_client_that_sends_its_request_for_ever_is_cut_off() {
    let app = TestApp::builder().start().await;
    let limits = Limits { request: Duration::from_millis(50), ..Limits::default() };
    let served = Served::new(&app, Options::default().open().limits(limits)).await;
    let head = served.begun("GET /healthz HTTP/1.1\r\nHost: local").await;
    assert!(!rest(head).await.starts_with("HTTP/1.1 200"));
    let body = rest(served.begun(HALF_A_BODY).await).await;
    assert!(body.starts_with("HTTP/1.1 408") && body.contains("had not arrived"), "{body}");
    served.stop().await;
}

#[test]
async fn half_a_request_does_not_hold_up_a_stop_and_a_whole_one_is_answered() {
    let app = TestApp::builder().workflow(crate::reading::sleeper).start().await;
    let started = app.client().start("one", crate::reading::sleeper()).await.unwrap();
    let limits = Limits { request: HOUR, polls: 1, ..Limits::default() };
    let served = Served::new(&app, Options::default().open().limits(limits)).await;
    let half = served.begun("GET /healthz HTTP/1.1\r\nHost: local").await;
    let path = format!("/api/v1/instances/{}/result?wait_ms=60000", started.uid());
    let whole = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let waiting = served.begun(&whole).await;
    // It waits when there is no room for another one.
    let other = whole.replace("wait_ms=60000", "wait_ms=1");
    loop {
        let told = tokio::spawn(rest(served.begun(&other).await));
        while !told.is_finished() {
            app.advance(Duration::from_millis(1)).await;
            // Nobody tells when bytes have come through a socket, and the test's clock must not
            // run a minute ahead until then: the first one would be answered.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if told.await.unwrap().starts_with("HTTP/1.1 429") {
            break;
        }
    }
    served.stop().await;
    assert_eq!(rest(half).await, "");
    assert!(rest(waiting).await.contains("\"closed\":false"));
}

#[test]
async fn connections_wait_where_there_are_too_many() {
    let app = TestApp::builder().start().await;
    let limits = Limits { connections: 1, request: HOUR, ..Limits::default() };
    let served = Served::new(&app, Options::default().open().limits(limits)).await;
    let ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = served.begun(ask).await;
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let second = served.begun(last).await;
    // Nothing comes until there is room.
    assert_eq!(second.try_read(&mut byte).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    assert!(rest(second).await.starts_with("HTTP/1.1 200"));
    served.stop().await;
}

#[test]
async fn requests_are_served_with_tls() {
    let app = TestApp::builder().start().await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let served = Served::new(&app, Options::default().open().tls(tls)).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(ring);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(served.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "localhost".try_into().unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    assert!(rest(stream).await.ends_with("ok\n"));
    // Who speaks without it gets nothing.
    let plain = served.begun("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!rest(plain).await.contains("ok\n"));
    served.stop().await;
}

#[test]
async fn a_prefix_is_believed_of_trusted_proxies_only() {
    let app = TestApp::builder().start().await;
    let ask = "GET /api/v1/errors/none HTTP/1.1\r\nHost: a\r\nX-Forwarded-Prefix: /ops\r\n\
               Connection: close\r\n\r\n";
    for (network, page) in
        [("127.0.0.0/8", "/ops/api/v1/errors/E2"), ("10.0.0.0/8", "/api/v1/errors/E2")]
    {
        let options = Options::default().trusted_proxy(network.parse().unwrap());
        let served = Served::new(&app, options).await;
        let told = rest(served.begun(ask).await).await;
        assert!(told.contains(&format!("\"type\":\"{page}\"")), "{network}: {told}");
        served.stop().await;
    }
}
