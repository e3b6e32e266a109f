//! Questions about policies, answered as the command line answers them.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::Jitter;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::{router, send};

const HOUR: Duration = Duration::from_secs(3_600);

#[activity(retry = RetryPolicy::fixed(HOUR).max_attempts(3).jitter(Jitter::None))]
async fn charge(cents: u32) -> Result<u32, Failure> {
    match cents {
        0 => Err(Failure::of_type("BankDown", "no answer")),
        cents => Ok(cents),
    }
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u32) -> Result<u32, Failure> {
    ctx.call(charge(cents)).await
}

async fn asked(app: &TestApp, question: &str, body: &Value, status: u16) -> Value {
    let path = format!("/api/v1/policies/{question}");
    let router = router(app);
    let answer = send(&router, "POST", &path, body, None);
    let answer = app.wait_for("an answer", answer).await;
    assert_eq!(answer.status.as_u16(), status, "{question}: {answer:?}");
    answer.json()
}

#[test]
async fn a_policy_is_checked_and_what_is_wrong_with_it_is_the_answer() {
    let app = TestApp::builder().start().await;
    let good = asked(&app, "check", &json!({"policy": {"max_attempts": 3}}), 200).await;
    assert_eq!((&good["ok"], &good["errors"]), (&json!(true), &json!([])));
    let bad = asked(&app, "check", &json!({"policy": {"max_attempts": 0, "jiter": 1}}), 200).await;
    assert_eq!(bad["ok"], false);
    let errors = bad["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "{bad}");
    let of = |path: &str| errors.iter().find(|error| error["path"] == path).unwrap();
    assert_eq!((&of("max_attempts")["code"], &of("jiter")["line"]), (&json!("P3"), &json!(null)));
    let foreign = json!({"policy": {}, "from": "temporal"});
    let refused = asked(&app, "check", &foreign, 422).await;
    assert!(refused["detail"].as_str().unwrap().contains("canonical"), "{refused}");
}

#[test]
async fn a_policy_is_explained_converted_and_asked_about() {
    let app = TestApp::builder().start().await;
    let policy = json!({"max_attempts": 3, "backoff": {"type": "fixed", "delay": "2s"}});
    let told = asked(&app, "explain", &json!({"policy": policy}), 200).await;
    assert_eq!(told["schedules"][0]["attempts"].as_array().unwrap().len(), 2, "{told}");
    assert!(told["sentence"].as_str().unwrap().contains("3 attempts"), "{told}");
    asked(&app, "explain", &json!({"policy": {"max_attempts": 0}}), 422).await;

    let told = asked(&app, "convert", &json!({"policy": "edda.default", "to": "edda"}), 200).await;
    assert_eq!(told["lost"], json!([]), "{told}");
    asked(&app, "convert", &json!({"policy": "edda.default", "to": "x"}), 422).await;

    let question = json!({"dialect": "edda", "kind": "delay", "config": {}, "retry_index": 2});
    let told = asked(&app, "eval", &json!({"questions": [question, 7]}), 200).await;
    assert_eq!(told["items"][0], json!({"delay_ms": 2000}));
    assert!(told["items"][1]["error"].is_string(), "{told}");
}

#[test]
async fn recorded_calls_are_told_under_another_policy() {
    let app = TestApp::builder().workflow(order).activity(charge).start().await;
    app.start("good", order(7)).await.result().await.unwrap();
    let bad = app.start("bad", order(0)).await;
    app.advance(3 * HOUR).await;
    bad.result().await.unwrap_err();
    let body = json!({"policy": {"max_attempts": 1}, "activity": "charge"});
    let told = asked(&app, "what-if", &body, 200).await;
    assert_eq!((&told["calls"], &told["recorded"]["attempts"]), (&json!(2), &json!(4)), "{told}");
    assert_eq!(told["what_if"]["attempts"], 2);
    let none = json!({"policy": {"max_attempts": 1}, "activity": "ship"});
    assert_eq!(asked(&app, "what-if", &none, 200).await["calls"], 0);
}

#[test]
async fn an_outage_is_simulated_without_a_gate_and_with_one() {
    let app = TestApp::builder().start().await;
    let body = json!({
        "rate": 20, "capacity": 30, "outage_ms": 30_000, "calls": 2_000, "phase_ms": 0,
        "gate": {"breaker": {}},
    });
    let told = asked(&app, "simulate", &body, 200).await;
    assert_eq!(told["seconds_of_outage"], 30.0);
    let [without, with] = told["worlds"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&without["gate"], &with["gate"]), (&json!(false), &json!(true)));
    assert!(with["futile"].as_u64() < without["futile"].as_u64(), "{told}");
    let endless = json!({"rate": 1e6, "capacity": 1.0, "outage_ms": 3_600_000});
    asked(&app, "simulate", &endless, 422).await;
    let wrong = json!({"rate": 0, "capacity": 1.0, "outage_ms": 5});
    asked(&app, "simulate", &wrong, 422).await;
}
