//! Every action, from the page to the engine and back. Links fill the deeds in.

use resurgam_watchdog::test;

use super::*;

struct Hand<'a> {
    browser: &'a Browser,
    shop: &'a Shop,
}

impl Hand<'_> {
    /// Opens a view with a deed that is filled in, does it, and waits for what the page says then.
    fn does(&self, view: &str, deed: &str, button: &str, then: &str) {
        let Hand { browser, shop } = self;
        let and = if view.contains('?') { '&' } else { '?' };
        browser.load("about:blank");
        browser.load(&shop.view(&format!("{view}{and}{deed}&why=it+is+time")));
        browser.until("document.querySelector('.deed [type=submit]:not([disabled])') !== null");
        let found = browser.run("return document.querySelector('.deed [type=submit]').innerText");
        assert_eq!(found, button, "{view} {deed}");
        let command = browser.run("return document.querySelector('.deed .cli pre').innerText");
        assert!(command.as_str().unwrap().starts_with("resurgam "), "{command}");
        browser.click(".deed [type=submit]");
        browser.says(then);
    }
}

#[test(minutes = 20, threads = 2)]
async fn everything_that_can_be_done_to_a_call_is_done() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    let hand = Hand { browser: &browser, shop: &shop };
    let uid = shop.start("order-1", order(300)).await;
    let view = format!("call/{uid}.1.2");
    browser.load(&shop.view(&view));
    browser.says("Waits for attempt 2 of charge");
    hand.does(&view, "act=pause", "Pause charge#2", "charge is paused by");
    hand.does(&view, "act=resume", "Resume charge#2", "Waits for attempt 2 of charge");
    let policy = r#"{"max_attempts":9,"backoff":{"type":"fixed","delay":"1h"}}"#;
    let set = format!("act=policy&f-policy={policy}");
    hand.does(&view, &set, "Set the policy of charge#2", "of 9");
    hand.does(&view, "act=retry", "Retry charge#2 now", "Has completed");
    let uid = shop.start("order-2", order(300)).await;
    let view = format!("call/{uid}.1.2");
    let value = "act=complete&f-value=7&f-unchecked=true";
    hand.does(&view, value, "Complete charge#2", "Has completed");
    let uid = shop.start("order-3", order(300)).await;
    let view = format!("call/{uid}.1.2");
    hand.does(&view, "act=fail&f-message=closed", "Fail charge#2", "Has failed: closed");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn everything_that_can_be_done_to_an_instance_is_done() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    let hand = Hand { browser: &browser, shop: &shop };
    let uid = shop.start("order-1", order(300)).await;
    let view = format!("instance/{uid}");
    browser.load(&shop.view(&view));
    browser.says("Waits for attempt 2 of charge");
    hand.does(&view, "act=run-pause", "Pause order-1", "Is paused by");
    hand.does(&view, "act=run-resume", "Resume order-1", "Waits for attempt 2 of charge");
    let signal = "act=run-signal&f-name=hello&f-value=7";
    hand.does(&view, signal, "Send it to order-1", "Signals not read yet: hello");
    hand.does(&view, "act=run-reset&f-where=event&f-what=2", "Reset order-1", "run 2");
    hand.does(&view, "act=run-cancel", "Cancel order-1", "Has cancelled");
    hand.does(&view, "act=run-restart", "Restart order-1", "restarted order-1");
    let uid = shop.start("order-2", order(300)).await;
    let view = format!("instance/{uid}");
    hand.does(&view, "act=run-terminate", "Terminate order-2", "Has terminated");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn everything_that_can_be_done_to_kinds_gates_and_schedules_is_done() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    let hand = Hand { browser: &browser, shop: &shop };
    let nightly = Rule::cron("0 3 * * *");
    shop.app.schedule("nightly", nightly, echo("good night".to_string())).await.unwrap();
    shop.start("order-1", order(300)).await;
    shop.app.shut_gate("post").await.unwrap();
    let gate = "gates?key=post";
    hand.does(gate, "act=gate-auto", "Let it decide gate post", "flowing");
    hand.does(gate, "act=gate-shut", "Shut gate post", "post is shut");
    hand.does(gate, "act=gate-open", "Open gate post", "open by hand");
    let activity = "activities?name=charge";
    hand.does(activity, "act=kind-pause", "Pause activity charge", "paused as a whole");
    hand.does(activity, "act=kind-resume", "Resume activity charge", "Pause holds them again");
    let policy = "act=kind-policy&f-policy=%7B%22max_attempts%22%3A9%7D";
    hand.does(activity, policy, "Set the policy of charge", "Policy that is set");
    hand.does(activity, "act=kind-unset", "Remove the policy of charge", "No policy is set");
    let queue = "gates?queue=default";
    hand.does(queue, "act=kind-pause", "Pause queue default", "One kind of calls is paused");
    hand.does(queue, "act=kind-resume", "Resume queue default", "Nothing is paused as a whole");
    let schedule = "schedules?id=nightly";
    hand.does(schedule, "act=schedule-pause", "Pause nightly", "Resume nightly");
    hand.does(schedule, "act=schedule-resume", "Resume nightly", "fires");
    hand.does(schedule, "act=schedule-run", "Run nightly now", "last");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn everything_that_can_be_decided_for_a_group_is_decided() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    let hand = Hand { browser: &browser, shop: &shop };
    let decide = |kind: &str, deed: &str, button: &str, then: &str| {
        browser.load("about:blank");
        browser.load(&shop.view("inbox"));
        browser.says("wait");
        let link = format!(
            "return document.querySelector('.groups a[href*=\"kind={kind}\"]').hash.slice(2)"
        );
        let view = browser.run(&link);
        hand.does(view.as_str().unwrap(), deed, button, then);
    };
    for number in 1..=2 {
        shop.start(&format!("letter-{number}"), letter(number)).await;
    }
    browser.load(&shop.view("inbox"));
    browser.says("Two calls wait for one decision");
    decide("paused", "act=fail&f-message=lost", "Fail 2\u{a0}calls", "Done: 2 of 2 changed");
    for number in 1..=2 {
        shop.start(&format!("parcel-{number}"), parcel(number)).await;
    }
    browser.load(&shop.view("inbox"));
    browser.says("Two calls wait for one decision");
    decide("dead", "act=redrive&f-spread=0", "Redrive 2\u{a0}letters", "Done: 2 of 2 changed");
    browser.load("about:blank");
    browser.load(&shop.view("inbox"));
    browser.says("Two calls wait for one decision");
    decide("dead", "act=discard", "Discard 2\u{a0}letters", "Done: 2 of 2 changed");
    browser.says("Nothing waits for a decision");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}
