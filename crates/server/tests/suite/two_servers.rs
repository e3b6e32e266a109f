//! A worker speaks with a server that does not wait for its attempts: what it says reaches the one
//! that does.

use resurgam::{AttemptOutcome, Kind};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::working::{BEAT, SECOND, World};

/// A world in which a worker has an attempt, another server there, and the name of the attempt.
async fn begun(workflow: &str) -> (World, World, Value) {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    let input = json!({"cents": 3});
    world.app.client().start_named::<Value>("one", workflow, &input).await.unwrap();
    let task = world.tasks("w").await[0]["task"].clone();
    let beside = world.beside();
    (world, beside, task)
}

#[test]
async fn a_report_to_another_server_is_recorded_and_the_attempt_given_to_nobody_again() {
    let (world, beside, task) = begun("order").await;
    let answer = beside.report("w", json!({"task": task, "result": {"paid": 3}})).await;
    assert_eq!((&answer["recorded"], &answer["over"]), (&json!([task]), &json!([])));
    assert_eq!(world.result("one").await, json!({"paid": 3}));
    assert_eq!(world.poll("w", json!({})).await["tasks"], json!([]));
    assert_eq!(world.outcomes("one").await, []);
    let again = beside.report("w", json!({"task": task, "result": 4})).await;
    assert_eq!(again["over"], json!([task]));
}

#[test]
async fn a_worker_that_speaks_with_another_server_only_keeps_its_attempt() {
    let (world, beside, task) = begun("order").await;
    for round in 0..9 {
        world.app.advance(10 * SECOND).await;
        let cancel = match round % 2 {
            0 => beside.poll("w", json!({"running": [task]})).await["cancel"].clone(),
            _ => {
                let body = json!({"protocol": 1, "session": "w", "running": [task]});
                let answer = beside.asked(BEAT, body).await;
                assert_eq!(answer["over"], json!([]));
                answer["cancel"].clone()
            }
        };
        assert_eq!(cancel, json!([]));
        world.poll("other", json!({})).await;
    }
    assert_eq!(world.outcomes("one").await, []);
    // It goes away, and loses it.
    for _ in 0..5 {
        world.app.advance(10 * SECOND).await;
        world.poll("other", json!({})).await;
    }
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Lost]);
    let late = beside.report("w", json!({"task": task, "result": 1})).await;
    assert_eq!(late["over"], json!([task]));
}

#[test]
async fn a_cancel_reaches_a_worker_that_waits_at_another_server_within_two_seconds() {
    let (world, beside, task) = begun("order").await;
    let busy = json!({"running": [task], "wait_ms": 10_000});
    let client = world.app.client();
    let cancel = async {
        client.cancel("one", "a mistake").await.unwrap();
        client.handle().now()
    };
    let (told, cancelled) = tokio::join!(beside.poll("w", busy), cancel);
    assert_eq!(told["cancel"], json!([task]));
    let took = client.handle().now().since(cancelled);
    assert!(took <= 2 * SECOND, "{took:?}");
}

#[test]
async fn heartbeats_at_another_server_are_stored_and_keep_the_attempt_from_timing_out() {
    let (world, beside, task) = begun("watched").await;
    for row in 0..4 {
        world.app.advance(8 * SECOND).await;
        let beat = beside.report("w", json!({"task": task, "heartbeat": {"row": row}})).await;
        assert_eq!(beat["recorded"], json!([task]));
    }
    world.app.advance(SECOND).await;
    assert_eq!(world.outcomes("one").await, []);
    let found = world.app.describe("one").await;
    let heartbeat = found.pending[0].heartbeat.as_ref().unwrap();
    assert_eq!(heartbeat.details.as_str(), r#"{"row":3}"#);
    world.app.advance(10 * SECOND).await;
    let ledger = world.app.ledger("one").await;
    assert_eq!(ledger[0].failure.as_ref().unwrap().kind, Kind::HeartbeatTimeout);
}
