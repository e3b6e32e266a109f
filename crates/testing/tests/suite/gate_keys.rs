//! Which gate a call is behind: what the call says, else its activity, else the activity's name.

use std::time::Duration;

use resurgam::RunKey;
use resurgam::prelude::*;
use resurgam::retry::Exhausted;
use resurgam_core::machine::INVALID_NAME;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;

#[activity]
async fn plain(n: u32) -> Result<(), Failure> {
    Err(Failure::new(format!("{n} does not work")))
}

#[activity(gate = "stripe")]
async fn charge(n: u32) -> Result<(), Failure> {
    Err(Failure::new(format!("{n} does not work")))
}

#[activity(gate = "host:{url.host}")]
async fn fetch(url: String) -> Result<(), Failure> {
    Err(Failure::new(format!("{url} does not answer")))
}

#[workflow]
async fn several(ctx: WorkflowContext) -> Result<(), Failure> {
    let url = "https://api.example.com:8443/v1".to_string();
    let calls = vec![
        ctx.call(plain(1)).boxed(),
        ctx.call(charge(2)).boxed(),
        ctx.call(fetch(url.clone())).boxed(),
        ctx.call(fetch(url)).gate("mirror").boxed(),
    ];
    ctx.join_all(calls).await?;
    Ok(())
}

/// The gates of the open calls of an instance.
async fn gates(app: &TestApp, id: &str) -> Vec<String> {
    let row = app.describe(id).await.instance;
    let key = RunKey { uid: row.uid, run: row.run };
    let tasks = app.client().handle().store().tasks(key).await.unwrap();
    tasks.into_iter().map(|task| task.gate).collect()
}

#[test]
async fn a_call_is_behind_the_gate_that_it_names_or_its_activity_or_that_of_its_name() {
    let app = TestApp::builder().workflow(several);
    let app = app.activity(plain).activity(charge).activity(fetch).start().await;
    drop(app.start("it", several()).await);
    app.advance(Duration::from_millis(1)).await;
    let expected = ["plain", "stripe", "host:api.example.com", "mirror"];
    assert_eq!(gates(&app, "it").await, expected);
    // It stays so.
    app.advance(Duration::from_millis(500)).await;
    assert_eq!(gates(&app, "it").await, expected);
}

#[test]
async fn a_call_is_behind_its_gate_also_where_nobody_knows_the_activity() {
    let app = TestApp::builder().workflow(several).start().await;
    drop(app.start("it", several()).await);
    app.advance(Duration::from_millis(1)).await;
    let expected = ["plain", "stripe", "host:api.example.com", "mirror"];
    assert_eq!(gates(&app, "it").await, expected);
}

#[test]
async fn a_bare_activity_and_a_stub_are_behind_the_gate_of_the_activity() {
    let app = TestApp::builder()
        .activity(charge)
        .stub(fetch, |call, _| Err(Failure::new(format!("{} does not answer", call.url))));
    let app = app.start().await;
    drop(app.submit("one", charge(1)).await);
    drop(app.submit("two", fetch("ftp://files.example.com/a".to_string())).await);
    app.advance(Duration::from_millis(1)).await;
    assert_eq!(gates(&app, "one").await, ["stripe"]);
    assert_eq!(gates(&app, "two").await, ["host:files.example.com"]);
}

#[workflow]
async fn kept(ctx: WorkflowContext) -> Result<(), Failure> {
    let policy =
        RetryPolicy::fixed(Duration::ZERO).max_attempts(1).on_exhausted(Exhausted::DeadLetter);
    ctx.call(plain(1)).gate("mirror").retry(policy.clone()).await.ok();
    ctx.call(charge(2)).retry(policy.clone()).await.ok();
    ctx.call(plain(3)).retry(policy).await.ok();
    Ok(())
}

#[test]
async fn a_call_that_is_tried_again_as_new_is_behind_the_gate_that_it_was_behind() {
    for many in [false, true] {
        let app = TestApp::builder().workflow(kept).activity(plain).activity(charge).start().await;
        app.start("it", kept()).await.result().await.unwrap();
        let mut letters = app.client().dead_letters(Default::default()).await.unwrap();
        letters.sort_by_key(|letter| letter.call);
        let kept: Vec<&str> = letters.iter().map(|letter| &*letter.gate).collect();
        assert_eq!(kept, ["mirror", "stripe", "plain"]);
        for gate in &kept {
            app.client().shut_gate(*gate).await.unwrap();
        }
        match many {
            false => {
                for letter in &letters {
                    app.client().redrive(letter.call).as_new().await.unwrap();
                }
            }
            true => {
                app.client().redrive_all(Default::default()).as_new().start().await.unwrap();
            }
        }
        app.advance(Duration::from_secs(10)).await;
        for (letter, gate) in letters.iter().zip(&kept) {
            let call = letter.call;
            let id = format!("redrive/{}.{}.{}", call.run.uid, call.run.run, call.seq);
            assert_eq!(gates(&app, &id).await, [*gate], "{id} ({many})");
        }
    }
}

#[workflow]
async fn misnamed(ctx: WorkflowContext) -> Result<(), Failure> {
    ctx.call(plain(1)).gate("two\nlines").await
}

#[test]
async fn a_gate_that_cannot_be_one_fails_its_call_at_once() {
    let app = TestApp::builder().workflow(misnamed).activity(plain).start().await;
    let failure = app.start("it", misnamed()).await.failure().await;
    assert_eq!(failure.type_name.as_deref(), Some(INVALID_NAME));
    assert!(failure.message.contains("the gate \"two\\nlines\" has a control character"));
}
