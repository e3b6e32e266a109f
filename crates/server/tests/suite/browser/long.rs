//! What is long: histories, runs of many calls, children, and databases of many instances.

use std::time::Instant;

use resurgam_watchdog::test;
use tokio::task::JoinSet;

use super::*;

/// As long as a history may be, but for its beginning and its end.
const LONG: u32 = 49_990;

#[test(minutes = 20, threads = 2)]
async fn a_history_of_50_000_events_is_there_as_a_whole_and_drawn_in_part() {
    let shop = Shop::open().await;
    let uid = shop.start("long", counter(LONG)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.says("Has completed");
    browser.says("RunCompleted");
    browser.says("49,992\u{a0}events");
    let drawn = "document.querySelectorAll('#history .line').length";
    assert!(browser.run(&format!("return {drawn}")).as_u64().unwrap() < 2_000);
    // Its other end is as near as this one.
    browser.run("document.querySelector('#history').lastElementChild.scrollIntoView()");
    browser.says("RunStarted");
    assert!(browser.run(&format!("return {drawn}")).as_u64().unwrap() < 2_000);
    // A link is about one event.
    browser.load("about:blank");
    browser.load(&shop.view(&format!("instance/{uid}?event=25000")));
    browser.until("document.querySelector('#history [aria-current] .n')?.innerText === '25000'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn a_run_of_10_000_calls_can_be_looked_at() {
    let shop = Shop::open().await;
    let uid = shop.start("crowd", crowd(10_000)).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.says("Has completed");
    browser.says("20,002\u{a0}events");
    let drawn = browser.run("return document.querySelectorAll('main *').length");
    assert!(drawn.as_u64().unwrap() < 20_000, "{drawn} elements");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 20, threads = 2)]
async fn what_a_child_does_is_drawn_in_the_run_that_started_it() {
    let shop = Shop::open().await;
    let uid = shop.start("family-1", family()).await;
    let browser = Browser::open(1440);
    browser.load(&shop.view(&format!("instance/{uid}")));
    browser.until(
        "document.querySelector('.chart a[aria-label=\"Call charge#2 of a child\"]') !== null",
    );
    browser.until("[...document.querySelectorAll('.chart [role=img]')].some((it) => it.getAttribute('aria-label').includes('no answer from the bank'))");
    // The child leads back.
    let child = "document.querySelector('.chart a[aria-label^=Child]').getAttribute('href')";
    let child = browser.run(&format!("return {child}"));
    browser.load("about:blank");
    browser.load(&format!("{}/ui/{}", shop.address, child.as_str().unwrap()));
    browser.says("child of family-1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(browser);
    shop.close().await;
}

#[test(minutes = 60, threads = 2)]
#[ignore = "starts 200,000 instances, and prints how long the first view takes"]
async fn the_first_view_of_200_000_instances_comes_at_once() {
    let shop = Shop::open().await;
    shop.app.shut_gate("charge").await.unwrap();
    let mut starting = JoinSet::new();
    for number in 0..200_000 {
        let client: Client = shop.app.clone();
        starting.spawn(async move {
            client.start(format!("order-{number}"), order(number)).await.map(drop)
        });
        while starting.len() >= 500 {
            starting.join_next().await.unwrap().unwrap().unwrap();
        }
    }
    for started in starting.join_all().await {
        started.unwrap();
    }
    let browser = Browser::open(1440);
    for view in ["now", "instances", "instances?status=running&workflow=order"] {
        let begin = Instant::now();
        browser.load("about:blank");
        browser.load(&shop.view(view));
        browser.settled();
        println!("{view}: {:?}", begin.elapsed());
    }
    drop(browser);
    shop.close().await;
}
