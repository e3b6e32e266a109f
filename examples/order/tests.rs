//! The order in virtual time: its waits pass at once.

use expect_test::{Expect, expect};
use resurgam_testing::{TestApp, TestInstance};

use super::*;

async fn app() -> TestApp {
    TestApp::builder()
        .workflow(fulfil)
        .activity(reserve)
        .activity(charge)
        .activity(ship)
        .state(Gateway::new())
        .start()
        .await
}

async fn check(run: &TestInstance<Tracking>, history: Expect) {
    // Delays are drawn from the instance's uid, which is another one each time.
    let text = run.history().await;
    let kept = text.lines().map(|line| line.split("; again in").next().unwrap_or(line));
    let untimed = kept.filter_map(|line| line.split_once(" +")?.1.split_once(' '));
    let lines: Vec<&str> = untimed.map(|(_time, line)| line).collect();
    history.assert_eq(&(lines.join("\n") + "\n"));
}

#[tokio::test]
async fn a_payment_that_fails_twice_succeeds_on_the_third_attempt() {
    let app = app().await;
    let run = app.start("order-42", fulfil(an_order())).await;
    let tracking = run.result().await.unwrap();
    assert_eq!(tracking.route, "by van to 1 Harbour Street");
    assert_eq!((app.attempts(reserve), app.attempts(charge), app.attempts(ship)), (2, 3, 1));
    check(&run, expect![[r#"
        RunStarted fulfil {"order":{"id":"order-42","items":["lamp","bulb"],"total_cents":4200,"card":"4242-4242","address":"1 Harbour Street"}}
        ActivityScheduled reserve {"item":"lamp"}
        ActivityScheduled reserve {"item":"bulb"}
        ActivityCompleted #2 "lamp is on shelf 4"
        ActivityCompleted #3 "bulb is on shelf 4"
        ActivityScheduled charge {"card":"4242-4242","cents":4200}
        charge#6 attempt 1 failed: Unreachable: the gateway does not answer
        charge#6 attempt 2 failed: Unreachable: the gateway does not answer
        ActivityCompleted #6 (attempt 3) {"cents":4200}
        ActivityScheduled ship {"order":{"id":"order-42","items":["lamp","bulb"],"total_cents":4200,"card":"4242-4242","address":"1 Harbour Street"}}
        ActivityCompleted #8 {"order":"order-42","route":"by van to 1 Harbour Street"}
        RunCompleted {"order":"order-42","route":"by van to 1 Harbour Street"}
    "#]]).await;
}

#[tokio::test]
async fn a_declined_card_is_not_tried_again() {
    let app = app().await;
    let order = Order { card: gateway::DECLINED.to_string(), ..an_order() };
    let run = app.start("order-42", fulfil(order)).await;
    let failure = run.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some("CardDeclined"));
    assert_eq!(failure.why.as_deref(), Some("non_retryable"));
    // Twice the gateway did not answer; the answer was final.
    assert_eq!((app.attempts(charge), app.attempts(ship)), (3, 0));
}

#[tokio::test]
async fn a_card_number_that_makes_no_sense_is_never_sent() {
    let app = app().await;
    let order = Order { card: "four two".to_string(), ..an_order() };
    let run = app.start("order-42", fulfil(order)).await;
    let failure = run.failure().await;
    assert_eq!(failure.why.as_deref(), Some("terminal"));
    assert_eq!(app.attempts(charge), 1);
}

#[tokio::test]
async fn an_unknown_address_is_terminal() {
    let app = app().await;
    let order = Order { address: "the moon".to_string(), ..an_order() };
    let run = app.start("order-42", fulfil(order)).await;
    let failure = run.failure().await;
    assert!(failure.is_terminal());
    assert_eq!((app.attempts(charge), app.attempts(ship)), (3, 1));
    check(&run, expect![[r#"
        RunStarted fulfil {"order":{"id":"order-42","items":["lamp","bulb"],"total_cents":4200,"card":"4242-4242","address":"the moon"}}
        ActivityScheduled reserve {"item":"lamp"}
        ActivityScheduled reserve {"item":"bulb"}
        ActivityCompleted #2 "lamp is on shelf 4"
        ActivityCompleted #3 "bulb is on shelf 4"
        ActivityScheduled charge {"card":"4242-4242","cents":4200}
        charge#6 attempt 1 failed: Unreachable: the gateway does not answer
        charge#6 attempt 2 failed: Unreachable: the gateway does not answer
        ActivityCompleted #6 (attempt 3) {"cents":4200}
        ActivityScheduled ship {"order":{"id":"order-42","items":["lamp","bulb"],"total_cents":4200,"card":"4242-4242","address":"the moon"}}
        ship#8 attempt 1 failed: UnknownAddress: there is no way to "the moon"
        ActivityFailed #8 terminal: UnknownAddress: there is no way to "the moon"
        RunFailed UnknownAddress: there is no way to "the moon"
    "#]]).await;
}

#[tokio::test]
async fn a_gateway_that_stays_down_is_asked_eight_times() {
    let app = TestApp::builder()
        .workflow(fulfil)
        .activity(reserve)
        .stub(charge, |_call, _attempt| Err(Failure::new("down")))
        .activity(ship)
        .start()
        .await;
    let run = app.start("order-42", fulfil(an_order())).await;
    let failure = run.failure().await;
    assert_eq!((failure.attempts, failure.why.as_deref()), (Some(8), Some("max_attempts")));
}
