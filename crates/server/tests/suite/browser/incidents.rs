//! What somebody does who is woken: what fails and since when, which calls wait, what changed, and
//! what to do about it.

use resurgam_watchdog::test;

use super::*;

#[test(minutes = 20, threads = 2)]
async fn from_the_first_page_all_calls_that_wait_for_a_dependency_are_tried_again() {
    let shop = Shop::open().await;
    for number in 1..=3 {
        shop.start(&format!("order-{number}"), order(number)).await;
    }
    let browser = Browser::open(390);
    browser.load(&format!("{}/", shop.address));
    browser.says("charge fails with BankDown, and 3\u{a0}calls wait for another attempt");
    browser.says("the first was made");
    browser.says("the next attempt begins in");
    browser.run("[...document.querySelectorAll('main a')].find((it) => it.innerText === 'retry all now').click()");
    browser.says("Retrying calls that match become due now.");
    browser.click("#bulk-spread option[value='0']");
    browser.click(".deed div:not(.acts):not(.choices) > button[type=button]:not([aria-label])");
    browser.says("3\u{a0}calls match now");
    browser.fill("#why", "the bank is back");
    browser.click(".deed [type=submit]");
    browser.says("Done: 3 of 3 changed, 0 refused");
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person. No call has failed that is still open.");
    // What somebody did is told on the same page.
    browser.says("the bank is back");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn failures_by_minute_lead_to_what_they_failed_with_and_to_their_calls() {
    let shop = Shop::open().await;
    for number in 1..=3 {
        shop.start(&format!("order-{number}"), order(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    // What is counted in memory is stored after ten seconds.
    let column = "document.querySelector('.pressure a[aria-label*=\"BankDown\"]')";
    browser.until(&format!("{column} !== null"));
    let note = browser.run(&format!("return {column}.getAttribute('aria-label')"));
    assert!(note.as_str().unwrap().starts_with("charge, "), "{note}");
    browser.run(&format!("location.hash = {column}.getAttribute('href')"));
    browser.says("charge fails the most");
    browser.until("[...document.querySelectorAll('td')].some((it) => it.innerText === 'BankDown')");
    browser.run("location.hash = document.querySelector('td a').getAttribute('href')");
    browser.says("That is all: 3\u{a0}instances");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn recorded_calls_follow_another_policy_beside_what_happened() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("call/{uid}.1.2?act=retry&why=now")));
    browser.says("Waits for attempt 2 of charge");
    browser.click(".deed [type=submit]");
    browser.says("Has completed");
    browser.load(&shop.view("activities?name=charge"));
    browser.says("Of 1\u{a0}recorded call");
    // A slider is moved, and the address holds what it says.
    browser.run("const it = document.querySelector('#knob-attempts'); it.value = 1; it.dispatchEvent(new Event('input', { bubbles: true }))");
    browser.until("document.querySelector('output[for=knob-attempts]').innerText.endsWith('1')");
    browser.says("1 fewer would have succeeded");
    browser.until("location.hash.includes('max_attempts%22%3A1')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_policy_of_any_dialect_is_explained_drawn_and_converted_or_refused_with_its_place() {
    let shop = Shop::open().await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("now"));
    browser.says("Nothing needs a person");
    browser.press("gl");
    browser.says("gives up after attempt 8");
    browser.until("document.querySelector('.chart svg [role=img]') !== null");
    browser.says("BackoffCoefficient");
    browser.says("jitter: the dialect has none");
    browser.click("#from option[value=rappel_ir]");
    browser.says("gives up after attempt 5");
    browser.click("#from option[value=canonical]");
    browser.says("gives up after attempt 8");
    browser.run("document.querySelector('#policy').select()");
    browser.fill("#policy", r#"{"max_attempt": 3}"#);
    browser.says("did you mean \"max_attempts\"?");
    browser.run("document.querySelector('#policy').select()");
    browser.fill("#policy", "three times");
    browser.says("That is not JSON.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn another_policy_for_a_call_is_explained_beside_the_one_that_decides_now() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    let policy = r#"{"max_attempts":9,"backoff":{"type":"fixed","delay":"2h"}}"#;
    browser.load(&shop.view(&format!("call/{uid}.1.2?act=policy&f-policy={policy}")));
    browser.says("now: Up to 5 attempts");
    browser.says("then: Up to 9 attempts");
    browser.until("document.querySelector('.deed .chart svg') !== null");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}
