//! The dashboard in a real browser, on a real engine with a real clock.

mod driver;
mod programs;

use std::process::Command;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use resurgam::prelude::*;
use resurgam::retry::{Exhausted, Jitter};
use resurgam::schedule::Rule;
use resurgam::{App, Client};
use resurgam_server::{Api, Options, Switch};
use resurgam_watchdog::test;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use driver::Browser;

const HOUR: Duration = Duration::from_secs(3_600);
const HOURLY: RetryPolicy = RetryPolicy::fixed(HOUR).max_attempts(5).jitter(Jitter::None);

/// What somebody who means harm would put into a payload.
const HOSTILE: &str =
    "</pre><img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

/// Fails at its first attempt; the second is an hour away unless somebody does something.
#[activity(retry = HOURLY)]
async fn charge(ctx: ActivityContext, cents: u32) -> Result<u32, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::of_type("BankDown", "no answer from the bank")),
        _ => Ok(cents),
    }
}

#[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::Pause { wait: None }))]
async fn post(ctx: ActivityContext, letter: u32) -> Result<u32, Failure> {
    match ctx.attempt() {
        1 => Err(Failure::of_type("NoStamp", format!("letter {letter} has no stamp {HOSTILE}"))),
        _ => Ok(letter),
    }
}

#[activity(retry = RetryPolicy::once().on_exhausted(Exhausted::DeadLetter))]
async fn ship(parcel: u32) -> Result<u32, Failure> {
    Err(Failure::of_type("NoVan", format!("parcel {parcel} stays here")))
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
async fn parcel(ctx: WorkflowContext, number: u32) -> Result<u32, Failure> {
    ctx.call(ship(number)).await
}

#[workflow]
async fn echo(_ctx: WorkflowContext, text: String) -> Result<String, Failure> {
    Ok(text)
}

/// Leaves a long history.
#[workflow]
async fn counter(ctx: WorkflowContext, most: u32) -> Result<u32, Failure> {
    for number in 0..most {
        ctx.set("number", &number);
    }
    Ok(most)
}

/// An engine with its dashboard.
struct Shop {
    app: App,
    address: String,
    serving: JoinHandle<()>,
    _folder: TempDir,
}

impl Shop {
    async fn open() -> Shop {
        Shop::serve(|client| Api::new(client, Options::default().open()).router()).await
    }

    async fn serve(router: impl FnOnce(&Client) -> axum::Router) -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let app = App::builder().workflow(order).workflow(letter).workflow(parcel).workflow(echo);
        let app = app.workflow(counter).activity(charge).activity(post).activity(ship);
        let app = app.sqlite(folder.path().join("shop.db")).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = router(&app);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Shop { app, address, serving, _folder: folder }
    }

    /// The address of a view.
    fn view(&self, view: &str) -> String {
        format!("{}/ui/#/{view}", self.address)
    }

    /// Starts something, and answers with its uid.
    async fn start<W: resurgam_sdk::Workflow>(&self, id: &str, workflow: W) -> String {
        self.app.start(id, workflow).await.unwrap().uid().to_string()
    }

    async fn close(self) {
        self.serving.abort();
        self.app.stop().await.unwrap();
    }
}

#[test(minutes = 20, threads = 2)]
async fn the_first_page_says_what_fails_and_what_needs_a_person() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    browser.load(&format!("{}/", shop.address));
    browser.says("Nothing needs a person");
    shop.start("order-1", order(300)).await;
    shop.start("letter-1", letter(1)).await;
    shop.start("parcel-1", parcel(1)).await;
    browser.says("charge fails with BankDown");
    browser.says("1\u{a0}call of post is paused");
    browser.says("1\u{a0}dead letter of ship");
    browser.click("a[href^='#/inbox?kind=dead']");
    browser.says("parcel <n> stays here");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_call_that_is_retried_by_its_deed_completes_its_run() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("call/{uid}.1.2")));
    browser.says("Waits for attempt 2 of charge");
    browser.until("document.querySelector('.chart svg [role=img]') !== null");
    assert!(browser.text().contains("resurgam call retry order-1"), "{}", browser.text());
    let is_off = "document.querySelector('.deed [type=submit]').disabled";
    assert_eq!(browser.run(&format!("return {is_off}")), true, "a reason is required");
    browser.fill("#why", "the bank is back");
    assert!(browser.text().contains("--reason 'the bank is back'"), "{}", browser.text());
    browser.click(".deed [type=submit]");
    browser.says("Has completed");
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.says("retry of #2 (“the bank is back”)");
    browser.says("RunCompleted");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn the_keyboard_alone_leads_from_the_list_to_a_paused_call_and_back() {
    let shop = Shop::open().await;
    shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("charge fails with BankDown");
    browser.press("gi");
    browser.says("waits for attempt 2 of charge");
    browser.press("j\u{e007}");
    browser.says("Waits for attempt 2 of charge");
    // The link to the call of the instance is its row's.
    browser.until("document.querySelector('[data-row] a[href^=\"#/call/\"]') !== null");
    browser.press("j\u{e007}");
    browser.says("What the policy allows after each failure");
    browser.press("p");
    browser.until("document.activeElement.id === 'why'");
    browser.press("night\u{e007}");
    browser.says("charge is paused by");
    browser.press("r");
    browser.until("document.activeElement.id === 'why'");
    browser.press("morning\u{e007}");
    browser.says("Waits for attempt 2 of charge");
    // In a field letters are text until Escape leaves it.
    browser.press("r");
    browser.until("document.activeElement.id === 'why'");
    browser.press("?\u{e00c}");
    browser.until("document.activeElement === document.body");
    browser.press("?");
    browser.until("document.querySelector('dialog[open]') !== null");
    browser.press("\u{e00c}");
    browser.until("document.querySelector('dialog') === null");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn letters_open_the_deeds_of_every_view_and_escape_leads_back() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    shop.start("letter-1", letter(1)).await;
    let nightly = Rule::cron("0 3 * * *");
    shop.app.schedule("nightly", nightly, echo("good night".to_string())).await.unwrap();
    shop.app.shut_gate("post").await.unwrap();
    let browser = Browser::open(1440);
    let opens = |letter: &str, button: &str| {
        // A letter that comes before the deed is on the page is for nobody.
        browser.until("document.querySelector('.deed [type=submit]') !== null");
        browser.press(letter);
        browser.until("document.activeElement.id === 'why'");
        let told = browser.run("return document.querySelector('.deed [type=submit]').innerText");
        assert_eq!(told, button);
        browser.press("\u{e00c}");
        browser.until("document.activeElement === document.body");
    };
    browser.load(&shop.view("now"));
    browser.settled();
    browser.press("gg");
    browser.says("post is shut");
    opens("r", "Let it decide gate post");
    browser.load(&shop.view("gates?activity=charge"));
    browser.until("document.querySelector('.deed') !== null");
    opens("p", "Pause activity charge");
    browser.press("gs");
    browser.says("One schedule");
    opens("p", "Pause nightly");
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.until("document.querySelector('.deed') !== null");
    opens("p", "Pause charge#2");
    browser.press("gi");
    browser.says("That is all: 2\u{a0}instances");
    browser.run("document.getElementById('act-on-all').focus()");
    browser.press("\u{e007}");
    opens("p", "Pause calls");
    browser.press("\u{e00c}");
    browser.until("document.querySelector('.deed') === null");
    browser.until("document.activeElement.id === 'act-on-all'");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_condition_that_an_action_on_many_cannot_keep_refuses_it() {
    let shop = Shop::open().await;
    shop.start("order-1", order(300)).await;
    shop.start("letter-1", letter(1)).await;
    let browser = Browser::open(1440);
    let dry = ".deed div:not(.acts):not(.choices) > button[type=button]:not([aria-label])";
    let is_off = |selector: &str| {
        let found = browser.run(&format!("return document.querySelector('{selector}').disabled"));
        found.as_bool().unwrap()
    };
    browser.load(&shop.view("instances?text=order"));
    browser.says("That is all: 1\u{a0}instance");
    assert!(browser.text().contains("No command lists instances “whose id begins with order”"));
    browser.click("#act-on-all");
    for act in ["retry", "pause", "resume", "pause-runs", "resume-runs"] {
        browser.click(&format!(".deed [data-act={act}]"));
        browser.says("it cannot be narrowed to instances “whose id begins with order”");
        assert!(is_off(dry), "{act} is not counted");
        browser.fill("#why", "x");
        assert!(is_off(".deed [type=submit]"), "{act} is not done");
    }
    // Those that somebody selects are meant, whatever they were found by.
    browser.click("[data-row] input[type=checkbox]");
    browser.click(".deed [data-act=retry]");
    browser.click(dry);
    browser.says("1\u{a0}call match now");
    // Calls cannot be chosen by how their instances stand, runs can.
    browser.load(&shop.view("instances?status=running"));
    browser.says("That is all: 2\u{a0}instances");
    browser.click("#act-on-all");
    browser.says("it cannot be narrowed to instances “that are running”");
    browser.click(".deed [data-act=resume-runs]");
    browser.says("Only instances that are paused can be. The list shows others.");
    browser.click(".deed [data-act=pause-runs]");
    browser.click(dry);
    browser.says("2\u{a0}instances match now");
    // What can be kept is kept.
    browser.load(&shop.view("instances?activity=charge&retrying=true"));
    browser.says("That is all: 1\u{a0}instance");
    browser.click("#act-on-all");
    browser.click(".deed [data-act=pause-runs]");
    browser.click(dry);
    browser.says("1\u{a0}instance match now");
    assert!(browser.text().contains("No command does the same"));
    browser.load(&shop.view("instances?failure_type=BankDown"));
    browser.says("That is all: 1\u{a0}instance");
    browser.click("#act-on-all");
    browser.click(".deed [data-act=pause-runs]");
    browser.click(dry);
    browser.says("1\u{a0}instance match now");
    assert!(browser.text().contains("resurgam pause --failure-type BankDown --status running"));
    // What the server cannot look for is not asked for.
    browser.load(&shop.view("instances?text=order&activity=charge"));
    browser
        .says("The server cannot look for “whose id begins with order” together with “with activity charge”");
    assert_eq!(browser.run("return document.querySelectorAll('.trouble').length"), 0);
    browser.click("main a[href='#/instances?text=order']");
    browser.says("That is all: 1\u{a0}instance");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

/// Has an answer wait until the page has asked for others twice, as often as it looks again.
async fn slow(
    State(asked): State<watch::Sender<u32>>,
    request: Request,
    next: Next,
) -> axum::response::Response {
    match request.uri().path() {
        "/api/v1/now" => {
            let mut asked = asked.subscribe();
            let enough = *asked.borrow() + 2;
            asked.wait_for(|count| *count >= enough).await.unwrap();
        }
        "/api/v1/gates" => asked.send_modify(|count| *count += 1),
        _ => {}
    }
    next.run(request).await
}

#[test(minutes = 20, threads = 2)]
async fn an_answer_that_takes_longer_than_the_page_waits_to_look_again_is_shown() {
    let shop = Shop::serve(|client| {
        let router = Api::new(client, Options::default().open()).router();
        router.layer(middleware::from_fn_with_state(watch::Sender::new(0), slow))
    });
    let shop = shop.await;
    shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("charge fails with BankDown");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn one_decision_resumes_a_group_of_paused_calls() {
    let shop = Shop::open().await;
    for number in 1..=3 {
        shop.start(&format!("letter-{number}"), letter(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("inbox"));
    browser.says("Three calls wait for one decision");
    browser.run("document.querySelector('.deed select').focus()");
    browser.click("#field-spread option[value='0']");
    browser.says("Resume 3\u{a0}calls");
    browser.fill("#why", "stamps are here");
    browser.click(".deed [type=submit]");
    browser.says("Nothing waits for a decision");
    browser.load(&shop.view("instances?status=completed"));
    browser.says("That is all: 3\u{a0}instances");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_decision_for_more_than_was_shown_is_refused_and_a_large_number_is_typed() {
    let shop = Shop::open().await;
    for number in 1..=100 {
        shop.start(&format!("letter-{number}"), letter(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("inbox"));
    browser.says("Resume 100\u{a0}calls");
    browser.click("#field-spread option[value='0']");
    browser.run("document.activeElement.blur()");
    // What follows the page does not hear of.
    browser.press(" ");
    browser.until("document.querySelector('.live').innerText.includes('Still')");
    let last = shop.start("letter-101", letter(101)).await;
    let last = shop.app.instance_of(last.parse().unwrap());
    while last.describe().await.unwrap().pending.first().is_none_or(|it| it.paused.is_none()) {
        tokio::task::yield_now().await;
    }
    browser.fill("#why", "stamps are here");
    browser.click(".deed [type=submit]");
    browser.says("It would be done to 101 by now, not to 100. Look again.");
    browser.says("These are more than 100: type their number");
    let is_off = "return document.querySelector('.deed [type=submit]').disabled";
    assert_eq!(browser.run(is_off), true);
    browser.fill("#typed", "101");
    browser.says("Resume 101\u{a0}calls");
    browser.click(".deed [type=submit]");
    browser.click(".live");
    browser.says("Nothing waits for a decision");
    browser.load(&shop.view("instances?status=completed"));
    browser.click("main p.after button");
    browser.says("That is all: 101\u{a0}instances");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn an_action_on_many_counts_first_and_is_done_to_as_many() {
    let shop = Shop::open().await;
    for number in 1..=4 {
        shop.start(&format!("order-{number}"), order(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("instances?workflow=order&retrying=true"));
    browser.says("That is all: 4\u{a0}instances");
    browser.click("#act-on-all");
    browser.fill("#why", "the bank is back");
    let is_off = "return document.querySelector('.deed [type=submit]').disabled";
    assert_eq!(browser.run(is_off), true, "nothing is done before it is counted");
    browser.click("#bulk-spread option[value='0']");
    browser.click(".deed div:not(.acts):not(.choices) > button[type=button]:not([aria-label])");
    browser.says("4\u{a0}calls match now");
    browser.click(".deed [type=submit]");
    browser.says("Done: 4 of 4 changed, 0 refused");
    browser.load(&shop.view("instances?status=completed"));
    browser.says("That is all: 4\u{a0}instances");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn an_activity_is_held_back_and_a_gate_is_shut_from_the_first_page() {
    let shop = Shop::open().await;
    shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.click("a[href='#/gates?activity=charge']");
    browser.fill("#why", "the bank asked us to");
    assert!(browser.text().contains("resurgam activity pause charge --reason"));
    browser.click(".deed [type=submit]");
    browser.says("One kind of calls is paused");
    browser.fill("#why", "enough");
    browser.click(".deed [type=submit]");
    browser.says("Nothing is paused as a whole");
    shop.app.shut_gate("post").await.unwrap();
    shop.start("letter-1", letter(1)).await;
    browser.load(&shop.view("now"));
    browser.says("post is shut");
    browser.click("a[href='#/gates?key=post']");
    browser.says("Let it decide");
    browser.fill("#why", "stamps are here");
    browser.click(".deed [type=submit]");
    browser.says("flowing");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn markup_in_payloads_ids_and_failures_is_text() {
    let shop = Shop::open().await;
    let large = HOSTILE.repeat(27_000);
    let uid = shop.start("<b>echo</b>", echo(HOSTILE.to_string())).await;
    let big = shop.start("big", echo(large)).await;
    let failed = shop.start("letter-1", letter(1)).await;
    let browser = Browser::open(1440);
    for view in ["now".to_string(), "inbox".to_string(), "instances".to_string()] {
        browser.load(&shop.view(&view));
        browser.settled();
    }
    browser.load(&shop.view(&format!("call/{failed}.1.2")));
    browser.says("has no stamp </pre><img src=x");
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.says("<b>echo</b>");
    browser.says("Has completed");
    browser.until("document.querySelector('pre').innerText.includes('window.hacked=1')");
    browser.load(&shop.view(&format!("instance/{big}")));
    browser.says("Too large for this page");
    browser.click("details.pay p button");
    browser.says("The first 20.0\u{a0}KB of it");
    // A history that is longer than a page is read from its end.
    let long = shop.start("long", counter(700)).await;
    browser.load(&shop.view(&format!("instance/{long}")));
    browser.says("Has completed");
    browser.says("RunCompleted");
    browser.click("#history + p button");
    browser.says("Read what is older");
    browser.click("#history + p button");
    browser.until("document.querySelectorAll('#history li').length > 700");
    browser.says("RunStarted");
    let found = browser.run("return [window.hacked ?? 0, document.querySelectorAll('main img, main script, main b b').length]");
    assert_eq!(found, serde_json::json!([0, 0]));
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_token_is_asked_for_and_exchanged_for_a_login_that_no_script_can_read() {
    let secret = "a secret of 32 bytes and some more";
    let shop =
        Shop::serve(|client| Api::new(client, Options::default().admin_token(secret)).router());
    let shop = shop.await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("This server asks who you are");
    browser.fill("#token", "rsg_wrong_one");
    browser.click("[type=submit]");
    browser.says("the token is not known");
    browser.run("document.querySelector('#token').select()");
    browser.fill("#token", secret);
    browser.click("[type=submit]");
    browser.says("Nothing needs a person");
    let kept = "return [JSON.stringify(localStorage), JSON.stringify(sessionStorage), \
                        document.cookie, location.href].join()";
    let kept = browser.run(kept);
    assert!(!kept.as_str().unwrap().contains("secret of"), "{kept}");
    assert_eq!(browser.run("return document.cookie"), serde_json::json!(""));
    browser.load(&shop.view("instances"));
    browser.until("document.querySelector('.tools').innerText.includes('Log out')");
    browser.run("[...document.querySelectorAll('button')].find((it) => it.innerText.includes('Log out')).click()");
    browser.says("This server asks who you are");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn the_pages_work_below_a_path_and_say_when_nobody_answers() {
    let shop = Shop::serve(|client| {
        let router = Api::new(client, Options::default().open()).router();
        axum::Router::new().nest("/tools/resurgam", router)
    });
    let shop = shop.await;
    let browser = Browser::open(1440);
    browser.load(&format!("{}/tools/resurgam", shop.address));
    browser.says("Nothing needs a person");
    shop.serving.abort();
    browser.until("(document.querySelector('.stale')?.innerText ?? '').includes('The server does not answer')");
    browser.says("Nothing needs a person");
    drop(browser);
    shop.app.stop().await.unwrap();
}

/// The views with something in them.
async fn views(shop: &Shop) -> Vec<String> {
    let order_1 = shop.start("order-1", order(300)).await;
    shop.start("letter-1", letter(1)).await;
    shop.start("parcel-1", parcel(1)).await;
    shop.start("echo-1", echo("hello".to_string())).await;
    let nightly = Rule::cron("0 3 * * *");
    shop.app.schedule("nightly", nightly, echo("good night".to_string())).await.unwrap();
    let plain =
        ["now", "instances", "inbox", "gates", "schedules", "workers", "more"].map(str::to_string);
    let of_one = [format!("instance/{order_1}"), format!("call/{order_1}.1.2")];
    plain.into_iter().chain(of_one).collect()
}

#[test(minutes = 20, threads = 2)]
async fn what_stands_in_for_a_dependency_is_turned_off_and_on_above_every_view() {
    let gateway = Switch::new("payment gateway");
    let shop =
        Shop::serve(|client| Api::new(client, Options::default().open().switch(&gateway)).router());
    let shop = shop.await;
    let browser = Browser::open(390);
    let says = |text: &str| {
        let told = "document.querySelector('.switches')?.innerText ?? ''";
        browser.until(&format!("({told}).includes({})", serde_json::json!(text)));
    };
    for view in ["now", "workers"] {
        browser.load(&shop.view(view));
        says("The payment gateway answers.");
        browser.click(".switches button");
        says("The payment gateway is out");
        assert!(!gateway.is_on());
        browser.click(".switches button");
        says("The payment gateway answers.");
        assert!(gateway.is_on());
        browser.settled();
    }
    let over = browser.run("return document.documentElement.scrollWidth - innerWidth");
    assert!(over.as_i64().unwrap() <= 0, "{over} too wide");
    let axe = programs::from_npm().join("axe-core").join("axe.min.js");
    browser.run(&std::fs::read_to_string(axe).unwrap());
    let check = "const done = arguments[0];
        axe.run().then((told) => done(told.violations.map((it) => it.id + it.nodes[0].html)));";
    assert_eq!(browser.run_async(check), serde_json::json!([]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn every_view_fits_a_phone_and_a_desk_in_both_themes_and_can_be_used_by_everybody() {
    let shop = Shop::open().await;
    let views = views(&shop).await;
    let tools = programs::from_npm();
    let axe = std::fs::read_to_string(tools.join("axe-core").join("axe.min.js")).unwrap();
    for width in [390, 1440] {
        let browser = Browser::open(width);
        for view in &views {
            for theme in ["light", "dark"] {
                browser.load("about:blank");
                browser.load(&format!("{}/ui/?theme={theme}#/{view}", shop.address));
                browser.settled();
                let over = browser.run("return document.documentElement.scrollWidth - innerWidth");
                assert!(over.as_i64().unwrap() <= 0, "{view} is {over} too wide at {width}");
                browser.run(&axe);
                let check = "const done = arguments[0];
                    axe.run().then((told) => done(told.violations.map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0] ?? node.all[0] ?? node.none[0])?.message).join('; '))));";
                let violations = browser.run_async(check);
                assert_eq!(violations, serde_json::json!([]), "{view}, {theme}, {width} wide");
            }
        }
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
    shop.close().await;
}

#[test(minutes = 5)]
fn the_types_of_the_pages_fit() {
    let tools = programs::from_npm();
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/ui/jsconfig.json");
    let checked = Command::new(tools.join(".bin").join("tsc")).args(["-p", pages]).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
