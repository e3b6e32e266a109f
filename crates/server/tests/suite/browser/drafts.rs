//! Actions that are half filled in stand in the address, and what came of one offers what takes it
//! back.

use resurgam_watchdog::test;

use super::*;

#[test(minutes = 20, threads = 2)]
async fn a_link_opens_the_deed_as_a_colleague_has_filled_it_in() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("call/{uid}.1.2")));
    browser.says("Waits for attempt 2 of charge");
    browser.click("[data-act=fail]");
    browser.fill("#field-message", "the bank is closed");
    browser.fill("#why", "told so");
    browser.until("location.hash.includes('f-message=the+bank+is+closed') && location.hash.includes('why=told+so')");
    let link = browser.run("return location.href");
    // Somebody else opens it.
    browser.load("about:blank");
    browser.load(link.as_str().unwrap());
    browser.until("document.querySelector('#why')?.value === 'told so'");
    browser.until("document.querySelector('#field-message').value === 'the bank is closed'");
    assert_eq!(
        browser.run("return document.querySelector('.deed [type=submit]').innerText"),
        "Fail charge#2"
    );
    browser.click(".deed [type=submit]");
    browser.says("Has failed: the bank is closed");
    // What is done is in the address no more.
    browser.until("!location.hash.includes('why=')");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_link_shows_which_instances_are_selected_and_what_is_about_to_be_done() {
    let shop = Shop::open().await;
    for number in 1..=3 {
        shop.start(&format!("order-{number}"), order(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("instances?workflow=order"));
    browser.says("That is all: 3\u{a0}instances");
    browser.press("jxj");
    browser.press("x");
    browser.says("Act on 2 selected");
    browser.click("#act-on-all");
    browser.click(".deed [data-act=pause]");
    browser.fill("#why", "the bank asked us to");
    browser.until("/sel=.*do=pause.*why=the/.test(location.hash)");
    let link = browser.run("return location.href");
    browser.load("about:blank");
    browser.load(link.as_str().unwrap());
    browser.says("Act on 2 selected");
    browser.until("document.querySelector('#why')?.value === 'the bank asked us to'");
    assert_eq!(browser.run("return document.querySelectorAll('tr[aria-selected=true]').length"), 2);
    browser.click("#bulk-spread option[value='0']");
    browser.click(".deed div:not(.acts):not(.choices) > button[type=button]:not([aria-label])");
    browser.says("2\u{a0}calls match now");
    browser.click(".deed [type=submit]");
    browser.says("Done: 2 of 2 changed, 0 refused");
    // What takes it back is offered, for the same instances.
    browser.click(".inverse");
    browser.fill("#why", "the bank is back");
    browser.click("#bulk-spread option[value='0']");
    browser.click(".deed div:not(.acts):not(.choices) > button[type=button]:not([aria-label])");
    browser.says("2\u{a0}calls match now");
    browser.click(".deed [type=submit]");
    browser.says("Done: 2 of 2 changed, 0 refused");
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn what_came_of_an_action_offers_what_takes_it_back() {
    let shop = Shop::open().await;
    let uid = shop.start("order-1", order(300)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("call/{uid}.1.2?act=pause&why=night")));
    browser.click(".deed [type=submit]");
    browser.says("charge is paused by");
    browser.click(".deed .inverse");
    browser.fill("#why", "morning");
    assert_eq!(
        browser.run("return document.querySelector('.deed [type=submit]').innerText"),
        "Resume charge#2"
    );
    browser.click(".deed [type=submit]");
    browser.says("Waits for attempt 2 of charge");
    // A deed that is not possible any more says so, and nothing takes its place.
    browser.load("about:blank");
    browser.load(&shop.view(&format!("call/{uid}.1.2?act=resume&why=again")));
    browser.says("What was chosen here cannot be done any more");
    assert_eq!(
        browser.run("return document.querySelector('.deed [type=submit]')"),
        serde_json::Value::Null
    );
    drop(browser);
    shop.close().await;
}
