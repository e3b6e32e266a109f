//! How a page hears of changes, and what it says when it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use tokio::sync::Notify;

use resurgam_watchdog::test;

use super::*;

/// The streams of hints that are open.
#[derive(Clone, Default)]
struct Streams(Arc<Counted>);

#[derive(Default)]
struct Counted {
    open: AtomicUsize,
    changed: Notify,
}

/// A stream while it is open.
struct Open(Streams);

impl Streams {
    fn begin(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
        Open(self.clone())
    }

    /// Waits until so many are open; the watchdog ends a test in which that never comes.
    async fn are(&self, count: usize) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.open.load(Ordering::SeqCst) == count {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Streams(counted) = &self.0;
        counted.open.fetch_sub(1, Ordering::SeqCst);
        counted.changed.notify_waiters();
    }
}

/// Counts the streams that are open.
async fn counted(State(streams): State<Streams>, request: Request, next: Next) -> Response {
    if request.uri().path() != "/api/v1/live" {
        return next.run(request).await;
    }
    let open = streams.begin();
    let answer = next.run(request).await;
    answer.map(move |body| {
        Body::new(body.map_frame(move |frame| {
            let _until_the_body_is_dropped = &open;
            frame
        }))
    })
}

async fn counting() -> (Shop, Streams) {
    let streams = Streams::default();
    let shop = Shop::serve(|client| {
        let router = Api::new(client, Options::default().open()).router();
        router.layer(middleware::from_fn_with_state(streams.clone(), counted))
    });
    (shop.await, streams)
}

/// Has a page believe that somebody sees it, or that nobody does.
fn is_seen(browser: &Browser, seen: bool) {
    browser.run(&format!(
        "Object.defineProperty(document, 'hidden', {{ get: () => {}, configurable: true }});
         document.dispatchEvent(new Event('visibilitychange'));",
        !seen
    ));
}

#[test(minutes = 20, threads = 2)]
async fn windows_of_a_browser_share_one_stream_and_all_of_them_hear() {
    let (shop, streams) = counting().await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person");
    streams.are(1).await;
    let (first, second) = browser.another_window();
    browser.load(&shop.view("inbox"));
    browser.says("Nothing waits for a decision");
    // Nobody sees it beside another window, on this screen of no size.
    is_seen(&browser, true);
    browser.turn_to(&first);
    is_seen(&browser, true);
    shop.start("letter-1", letter(1)).await;
    browser.says("1\u{a0}call of post is paused");
    browser.turn_to(&second);
    browser.says("One call waits for one decision");
    streams.are(1).await;
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_page_that_nobody_sees_closes_its_stream_and_looks_again_when_it_is_seen() {
    let (shop, streams) = counting().await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person");
    streams.are(1).await;
    is_seen(&browser, false);
    streams.are(0).await;
    shop.start("letter-1", letter(1)).await;
    is_seen(&browser, true);
    browser.says("1\u{a0}call of post is paused");
    streams.are(1).await;
    drop(browser);
    shop.close().await;
}

/// A stream that never says anything.
async fn silent(request: Request, next: Next) -> Response {
    match request.uri().path() {
        "/api/v1/live" => std::future::pending().await,
        _ => next.run(request).await,
    }
}

#[test(minutes = 20, threads = 2)]
async fn a_page_that_hears_nothing_for_40_seconds_polls_and_says_so() {
    let shop = Shop::serve(|client| {
        let router = Api::new(client, Options::default().open()).router();
        router.layer(middleware::from_fn(silent))
    });
    let shop = shop.await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person");
    let told = "document.querySelector('.stale')?.innerText ?? ''";
    // The page's clock goes ahead, in place of waiting.
    browser.run("const real = Date.now; Date.now = () => real() + 41000;");
    browser.until(&format!("({told}).includes('The server tells of no changes')"));
    shop.start("letter-1", letter(1)).await;
    browser.says("1\u{a0}call of post is paused");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_page_goes_on_when_a_server_that_was_gone_is_back() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person");
    shop.serving.abort();
    let told = "document.querySelector('.stale')?.innerText ?? ''";
    browser.until(&format!("({told}).includes('The server does not answer')"));
    browser.until(&format!("/What is shown is .* old/.test({told})"));
    browser.says("Nothing needs a person");
    shop.start("letter-1", letter(1)).await;
    let address = shop.address.trim_start_matches("http://").to_string();
    let listener = TcpListener::bind(address).await.unwrap();
    let router = Api::new(&shop.app, Options::default().open()).router();
    let again = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    browser.says("1\u{a0}call of post is paused");
    browser.until("document.querySelector('.stale') === null");
    drop(browser);
    again.abort();
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_token_that_is_revoked_is_asked_for_again_and_the_view_stays() {
    let secret = "a secret of 32 bytes and some more";
    let shop =
        Shop::serve(|client| Api::new(client, Options::default().admin_token(secret)).router());
    let shop = shop.await;
    let browser = Browser::open(1440);
    let admin = |method: &str, path: &str, body: &str| {
        let script = format!(
            "const done = arguments[0];
             fetch('{}/api/v1/{path}', {{ method: '{method}', body: {body},
               headers: {{ authorization: 'Bearer {secret}', 'content-type': 'application/json' }} }})
               .then((answer) => answer.json()).then(done);",
            shop.address
        );
        browser.run_async(&script)
    };
    browser.load(&shop.view("inbox"));
    browser.says("This server asks who you are");
    let made = admin("POST", "tokens", "JSON.stringify({ name: 'night', role: 'operate' })");
    let other = admin("POST", "tokens", "JSON.stringify({ name: 'day', role: 'operate' })");
    let secret = |made: &serde_json::Value| {
        let secret = made["secret"].as_str();
        secret.unwrap_or_else(|| panic!("{made}")).to_string()
    };
    browser.fill("#token", &secret(&made));
    browser.click("[type=submit]");
    browser.says("Nothing waits for a decision");
    let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}"));
    admin("DELETE", &format!("tokens/{id}"), "undefined");
    browser.says("This server asks who you are");
    browser.fill("#token", &secret(&other));
    browser.click("[type=submit]");
    browser.says("Nothing waits for a decision");
    drop(browser);
    shop.close().await;
}
