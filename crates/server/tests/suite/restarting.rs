//! Attempts of remote workers outlive their server: the next one on the database takes reports,
//! waits for workers that come back, and loses what nobody names.

use std::time::Duration;

use resurgam::{AttemptOutcome, WaitsFor};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use crate::support::{get, send};
use crate::working::{BEAT, POLL, REPORT, SECOND, World};

/// A world in which a worker has an attempt, by its name.
async fn begun() -> (World, Value) {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    world.start("one", 3).await;
    let task = world.tasks("w").await[0]["task"].clone();
    (world, task)
}

#[test]
async fn a_finished_report_is_recorded_although_the_server_was_restarted_meanwhile() {
    let (mut world, task) = begun().await;
    world.restart().await;
    // Nobody has polled, and the new server was never told what `charge` is.
    let answer = world.report("w", json!({"task": task, "result": {"paid": 3}})).await;
    assert_eq!((&answer["recorded"], &answer["over"]), (&json!([task]), &json!([])));
    assert_eq!(world.result("one").await, json!({"paid": 3}));
    assert_eq!(world.outcomes("one").await, []);
    let again = world.report("w", json!({"task": task, "result": 4})).await;
    assert_eq!(again["over"], json!([task]));
}

#[test]
async fn a_worker_that_comes_back_goes_on_with_what_it_has() {
    let (mut world, task) = begun().await;
    world.restart().await;
    for _ in 0..9 {
        world.app.advance(10 * SECOND).await;
        let busy = world.poll("w", json!({"running": [task]})).await;
        assert_eq!((&busy["tasks"], &busy["cancel"]), (&json!([]), &json!([])));
        assert_eq!(world.poll("other", json!({})).await["tasks"], json!([]));
    }
    world.report("w", json!({"task": task, "heartbeat": {"row": 9}})).await;
    world.restart().await;
    let failure = json!({"type": "Busy", "message": "try later"});
    world.report("w", json!({"task": task, "failure": failure})).await;
    let next = world.tasks("w").await;
    assert_eq!((&next[0]["attempt"], &next[0]["last_heartbeat"]), (&json!(2), &json!({"row": 9})));
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Failed]);
}

#[test]
async fn a_task_that_outlasts_two_leases_and_a_restart_is_kept_by_beats() {
    let (mut world, task) = begun().await;
    for beat in 0..9 {
        if beat == 4 {
            world.restart().await;
        }
        world.app.advance(10 * SECOND).await;
        let body = json!({"protocol": 1, "session": "w", "running": [task]});
        let answer = world.asked(BEAT, body).await;
        assert_eq!((&answer["over"], &answer["cancel"]), (&json!([]), &json!([])));
    }
    world.report("w", json!({"task": task, "result": 1})).await;
    assert_eq!(world.result("one").await, 1);
    assert_eq!(world.outcomes("one").await, []);
}

#[test]
async fn a_worker_that_never_comes_back_loses_its_attempt_a_lease_after_the_restart() {
    let (mut world, task) = begun().await;
    world.app.advance(20 * SECOND).await;
    world.restart().await;
    world.poll("other", json!({})).await;
    world.app.advance(29 * SECOND).await;
    assert_eq!(world.outcomes("one").await, []);
    world.poll("other", json!({})).await;
    world.app.advance(7 * SECOND).await;
    assert_eq!(world.outcomes("one").await, [AttemptOutcome::Lost]);
    let tasks = world.tasks("other").await;
    assert_eq!(tasks[0]["attempt"], 2);
    // Whoever had it hears that it is too late.
    let late = world.report("w", json!({"task": task, "result": 1})).await;
    assert_eq!(late["over"], json!([task]));
    world.report("other", json!({"task": tasks[0]["task"], "result": 2})).await;
    assert_eq!(world.result("one").await, 2);
}

#[test]
async fn a_stop_leaves_attempts_to_their_workers_and_hands_back_what_none_has_taken() {
    let world = World::new().await;
    world.poll("w", json!({})).await;
    for id in ["one", "two"] {
        world.start(id, 3).await;
    }
    world.app.advance(SECOND).await;
    let taken = world.poll("w", json!({"max": 1})).await["tasks"][0].clone();
    // No time passes: a stop waits for no worker.
    let before = world.app.now();
    world.app.stop().await;
    assert_eq!(world.app.now(), before);
    let mut world = world;
    world.restart().await;
    world.report("w", json!({"task": taken["task"], "result": 1})).await;
    let other = world.tasks("w").await[0].clone();
    assert_eq!(other["attempt"], 1);
    world.report("w", json!({"task": other["task"], "result": 1})).await;
    for id in ["one", "two"] {
        assert_eq!((world.result(id).await, world.outcomes(id).await), (json!(1), vec![]));
    }
}

#[test]
async fn a_report_to_a_server_that_has_stopped_is_refused_for_now() {
    let (mut world, task) = begun().await;
    world.app.stop().await;
    let body = json!({"protocol": 1, "session": "w", "reports": [{"task": task, "result": 1}]});
    let answer = world.app.wait_for("an answer", send(&world.router, "POST", REPORT, &body, None));
    assert_eq!(answer.await.status.as_u16(), 503);
    world.restart().await;
    let answer = world.report("w", json!({"task": task, "result": 1})).await;
    assert_eq!(answer["recorded"], json!([task]));
    assert_eq!(world.result("one").await, 1);
}

#[test]
async fn a_cancel_while_no_server_was_there_reaches_the_worker() {
    let (mut world, task) = begun().await;
    world.app.client().cancel("one", "a mistake").await.unwrap();
    world.restart().await;
    let busy = json!({"running": [task], "wait_ms": 10_000});
    assert_eq!(world.poll("w", busy).await["cancel"], json!([task]));
    world.report("w", json!({"task": task, "cancelled": true})).await;
    let instance = world.app.client().instance::<Value>("one").await.unwrap().unwrap();
    assert!(world.app.wait_for("the end", instance.result()).await.is_err());
}

#[test]
async fn the_clock_of_a_heartbeat_timeout_begins_again_with_a_restart() {
    let mut world = World::new().await;
    world.poll("w", json!({})).await;
    world.app.client().start_named::<Value>("one", "watched", &json!({})).await.unwrap();
    let task = world.tasks("w").await[0]["task"].clone();
    world.app.advance(8 * SECOND).await;
    world.restart().await;
    world.app.advance(8 * SECOND).await;
    assert_eq!(world.outcomes("one").await, []);
    world.poll("w", json!({"running": [task]})).await;
    world.app.advance(3 * SECOND).await;
    let ledger = world.app.ledger("one").await;
    assert_eq!(ledger[0].failure.as_ref().unwrap().kind, resurgam::Kind::HeartbeatTimeout);
}

#[test]
async fn whoever_does_not_know_the_name_of_an_attempt_cannot_speak_for_it() {
    let (mut world, task) = begun().await;
    world.restart().await;
    let name = task.as_str().unwrap();
    let (call, token) = name.rsplit_once('.').unwrap();
    let other = u64::from_str_radix(token, 16).unwrap() ^ 1;
    let guessed = format!("{call}.{other:016x}");
    let answer = world.report("thief", json!({"task": guessed, "result": 0})).await;
    assert_eq!(answer["over"], json!([guessed]));
    world.report("w", json!({"task": task, "result": 1})).await;
    assert_eq!(world.result("one").await, 1);
}

#[test]
async fn after_a_restart_calls_are_made_with_the_policy_that_workers_brought() {
    let mut world = World::new().await;
    let once = json!({"activities": [{"name": "charge", "retry": {"max_attempts": 1}}]});
    world.poll("w", once.clone()).await;
    world.restart().await;
    world.start("one", 3).await;
    world.app.advance(SECOND).await;
    let found = world.app.describe("one").await;
    let call = &found.pending[0];
    assert_eq!(call.waits_for.map(WaitsFor::name), Some("lacking"));
    let lacks = call.lacks.as_deref();
    assert_eq!(lacks, Some("a worker for charge, which none has offered for 1s"));
    let task = world.poll("w", json!({"activities": once["activities"], "wait_ms": 10_000})).await;
    let task = task["tasks"][0].clone();
    assert_eq!(task["attempt"], 1);
    world.report("w", json!({"task": task["task"], "failure": {"message": "no"}})).await;
    let instance = world.app.client().instance::<Value>("one").await.unwrap().unwrap();
    assert!(world.app.wait_for("the end", instance.result()).await.is_err());
}

#[test]
async fn a_week_after_the_last_worker_an_activity_is_not_known_any_more() {
    let mut world = World::new().await;
    world.poll("w", json!({})).await;
    let day = Duration::from_secs(24 * 3_600);
    world.app.advance(6 * day).await;
    world.poll("other", json!({"activities": [{"name": "refund"}]})).await;
    world.restart().await;
    let waits = async |world: &World, id: &str| {
        world.start(id, 3).await;
        world.app.advance(SECOND).await;
        world.app.describe(id).await.pending[0].waits_for.map(WaitsFor::name)
    };
    assert_eq!(waits(&world, "before").await, Some("lacking"));
    world.app.advance(2 * day).await;
    world.poll("other", json!({"activities": [{"name": "refund"}]})).await;
    world.restart().await;
    assert_eq!(waits(&world, "after").await, Some("unregistered"));
}

#[test]
async fn workers_are_listed_by_every_server_on_the_database() {
    let world = World::new().await;
    world.poll("worker-1", json!({})).await;
    let beside = crate::support::router(&world.app);
    let workers = world.app.wait_for("workers", get(&beside, "/api/v1/workers")).await;
    assert_eq!(workers["items"][0]["session"], "worker-1");
    assert_eq!(workers["items"][0]["activities"], json!(["charge"]));
    world.app.advance(40 * SECOND).await;
    let workers = world.app.wait_for("workers", get(&beside, "/api/v1/workers")).await;
    assert_eq!(workers["items"], json!([]));
    let refused = json!({"protocol": 1, "session": "w", "activities": []});
    let answer = world.app.wait_for("a poll", send(&beside, "POST", POLL, &refused, None)).await;
    assert_eq!(answer.status.as_u16(), 503);
}
