//! A program goes on after a crash at any commit, with the same end.

use resurgam::Failure;
use resurgam_testing::{Crash, TestApp};
use resurgam_watchdog::test;
use serde_json::{Value as Json, json};

use crate::support::{builder, start};

const PROGRAM: &str = "\
fn main(input: [items], output: [out]):
    out = []
    prices = spread items:i -> @price(item=i) [retry: 2, backoff: 10s]
    for p in prices:
        sleep 30
        out = out + [p]
    try:
        @doomed() [Gone -> retry: 1, backoff: 1m]
    except Gone as e:
        out = out + [e.message]
    a, b = parallel:
        pay(sum=prices[0] + prices[1])
        @price(item=7)
    return out + [a, b]

fn pay(input: [sum], output: [r]):
    @sleep(duration=5)
    return @price(item=sum)
";

async fn app() -> TestApp {
    builder()
        .action("price", |args, attempt| match (args["item"].as_i64(), attempt) {
            (Some(2), 1) => Err(Failure::of_type("Down", "down")),
            (Some(item), _) => Ok(json!(item * 10)),
            _ => Err(Failure::terminal("no number")),
        })
        .action("doomed", |_, _| Err(Failure::of_type("Gone", "gone")))
        .start()
        .await
}

async fn play(app: &TestApp) -> (Json, usize) {
    let instance = start(app, PROGRAM, json!({"items": [1, 2, 3]})).await;
    let result = instance.result().await.unwrap();
    (result, app.client().events("run").await.unwrap().len())
}

#[test]
async fn a_program_survives_a_crash_at_every_commit() {
    let quiet = app().await;
    let expected = play(&quiet).await;
    assert_eq!(expected.0, json!([10, 20, 30, "gone", 300, 70]));
    let commits = quiet.commits();
    assert!(commits > 10, "{commits}");
    for k in 1..=commits {
        for crash in [Crash::BeforeCommit(k), Crash::AfterCommit(k)] {
            let app = app().await;
            app.faults().crash(crash);
            assert_eq!(play(&app).await, expected, "{crash:?}\n{}", app.history("run").await);
        }
    }
}

#[test]
async fn the_text_is_stored_so_that_an_edited_file_changes_nothing() {
    let app = app().await;
    let text = crate::support::main_of("x = @price(item=1)\nsleep 3600\nreturn x + 1");
    let instance = start(&app, &text, json!({})).await;
    app.advance(std::time::Duration::from_secs(60)).await;
    app.restart().await;
    assert_eq!(instance.result().await.unwrap(), json!(11));
    let history = app.history("run").await;
    assert!(history.contains("sleep 3600"), "{history}");
}
