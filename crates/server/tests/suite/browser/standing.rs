//! Lists that stand still under the mouse and under the focus.

use resurgam_watchdog::test;

use super::*;

/// The names of the groups of the inbox, in their order.
const GROUPS: &str =
    "[...document.querySelectorAll('.groups h3')].map((it) => it.innerText).join()";

#[test(minutes = 20, threads = 2)]
async fn rows_do_not_move_under_the_mouse_and_say_what_has_collected() {
    let shop = Shop::open().await;
    shop.start("letter-1", letter(1)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view("inbox"));
    browser.until(&format!("{GROUPS} === 'post'"));
    browser.point_at(".groups h3");
    for number in 1..=2 {
        shop.start(&format!("parcel-{number}"), parcel(number)).await;
    }
    // The sentence goes on; the list stands still, although the new group is the largest.
    browser.says("Three calls wait for 2\u{a0}decisions");
    browser.until("document.querySelector('.groups').closest('section').innerText.includes('1\u{a0}row changed, show it')");
    assert_eq!(browser.run(&format!("return {GROUPS}")), "post");
    browser.click(".fresh");
    browser.until(&format!("{GROUPS} === 'ship,post'"));
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn rows_do_not_leave_under_the_focus_and_come_when_nobody_looks_there() {
    let shop = Shop::open().await;
    for number in 1..=2 {
        shop.start(&format!("letter-{number}"), letter(number)).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("inbox"));
    browser.until(&format!("{GROUPS} === 'post'"));
    browser.press("j");
    browser.until("document.activeElement.closest('.groups') !== null");
    for number in 1..=3 {
        shop.start(&format!("parcel-{number}"), parcel(number)).await;
    }
    browser.says("1\u{a0}row changed, show it");
    assert_eq!(browser.run(&format!("return {GROUPS}")), "post");
    browser.run("document.activeElement.blur()");
    browser.until(&format!("{GROUPS} === 'ship,post'"));
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_list_of_instances_says_what_has_changed_and_loads_more() {
    let shop = Shop::open().await;
    for number in 1..=230 {
        shop.start(&format!("echo-{number}"), echo("x".to_string())).await;
    }
    let browser = Browser::open(1440);
    browser.load(&shop.view("instances"));
    browser.says("100 are shown");
    for shown in ["200 are shown", "That is all: 230\u{a0}instances"] {
        browser.click("main p.after button");
        browser.says(shown);
    }
    // Of so many rows those near the window are drawn.
    let drawn = browser.run("return document.querySelectorAll('tr[data-row]').length");
    assert!(drawn.as_u64().unwrap() < 230, "{drawn} rows are drawn");
    browser.run("document.querySelector('p.after').scrollIntoView()");
    browser.until("[...document.querySelectorAll('a.id')].some((it) => it.innerText === 'echo-1')");
    for number in 1..=23 {
        shop.start(&format!("late-{number}"), echo("x".to_string())).await;
    }
    browser.says("23\u{a0}rows changed, show them");
    browser.click(".fresh");
    browser.says("late-23");
    drop(browser);
    shop.close().await;
}
