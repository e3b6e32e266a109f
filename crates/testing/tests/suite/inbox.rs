//! Rows that anybody inserts with plain SQL start, signal and cancel, once each and in order. Tests
//! that wait for the disk again and again have a quarter of an hour.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::{InstanceFilter, Status};
use resurgam_testing::{Crash, StoreCall, TestApp};
use resurgam_watchdog::test;
use tokio::sync::mpsc;

use crate::common::ground::Ground;
use crate::common::{crashes, many};

/// Tells the tests that it was begun.
#[derive(Clone)]
struct Told(mpsc::UnboundedSender<u64>);

#[activity]
async fn tell(ctx: ActivityContext, cents: u64) -> Result<(), Failure> {
    // Not every test listens.
    let _nobody = ctx.state::<Told>().0.send(cents);
    Ok(())
}

#[workflow]
async fn fulfil(ctx: WorkflowContext, cents: u64) -> Result<u64, Failure> {
    ctx.call(tell(cents)).await?;
    Ok(cents)
}

/// Collects three words.
#[workflow]
async fn collect(ctx: WorkflowContext) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    while words.len() < 3 {
        words.push(ctx.signal("word").await?);
    }
    Ok(words)
}

/// Why the rows were refused; every one must have been.
async fn reasons(ground: &Ground) -> Vec<String> {
    ground.left().await.into_iter().map(Option::unwrap).collect()
}

/// An app in virtual time: it finds what was inserted before it began.
async fn start(ground: &Ground) -> TestApp {
    let builder = TestApp::builder().workflow(fulfil).workflow(collect).activity(tell);
    ground.start(builder.state(Told(mpsc::unbounded_channel().0))).await
}

/// An app as people have it, in wall time, and what it tells.
async fn begin(ground: &Ground) -> (App, mpsc::UnboundedReceiver<u64>) {
    let (sender, told) = mpsc::unbounded_channel();
    let builder = App::builder().workflow(fulfil).workflow(collect).activity(tell);
    (ground.begin(builder.state(Told(sender))).await, told)
}

/// Lets everything that was inserted take effect, in virtual time.
async fn settle(app: &TestApp) {
    app.advance(Duration::from_secs(1)).await;
}

async fn result(app: &TestApp, id: &str) -> String {
    let row = app.client().find(id).await.unwrap().unwrap();
    format!(
        "{} {}",
        row.status.name(),
        row.outcome.map(|value| value.to_string()).unwrap_or_default()
    )
}

#[test]
async fn rows_start_signal_and_cancel_in_their_order() {
    let ground = Ground::new().await;
    ground
        .insert(
            "(NULL, 'order-1', 'start', 'fulfil', '{\"cents\":42}'),
         (NULL, 'words', 'start', 'collect', NULL),
         (NULL, 'words', 'signal', 'word', '\"one\"'),
         (NULL, 'ended', 'start', 'collect', '{}'),
         (NULL, 'words', 'signal', 'word', '\"two\"'),
         (NULL, 'ended', 'cancel', NULL, '\"enough\"'),
         (NULL, 'words', 'signal', 'word', '\"three\"')",
        )
        .await;
    let app = start(&ground).await;
    settle(&app).await;
    assert_eq!(result(&app, "order-1").await, "completed 42");
    assert_eq!(result(&app, "words").await, r#"completed ["one","two","three"]"#);
    let ended = result(&app, "ended").await;
    assert!(ended.starts_with("cancelled") && ended.contains("enough"), "{ended}");
    assert_eq!(ground.left().await, []);
}

#[test]
async fn a_refused_row_stays_with_the_reason_and_holds_up_no_other() {
    let ground = Ground::new().await;
    ground
        .insert(
            "(NULL, 'a', 'dance', NULL, NULL),
         (NULL, 'a', 'start', NULL, NULL),
         (NULL, 'z', 'start', 'no_such', '{}'),
         (NULL, 'a', 'start', 'fulfil', '{\"cents\":\"many\"}'),
         (NULL, 'a', 'start', 'fulfil', 'hello'),
         (NULL, '', 'start', 'fulfil', '{\"cents\":1}'),
         (NULL, 'a', 'signal', 'word', '1'),
         (NULL, 'a', 'cancel', NULL, NULL),
         (NULL, 'b', 'start', 'fulfil', '{\"cents\":1}'),
         (NULL, 'b', 'start', 'fulfil', '{\"cents\":2}'),
         (NULL, 'c', 'start', 'collect', NULL),
         (NULL, 'c', 'signal', '', '1'),
         (NULL, 'c', 'signal', 'word', 'unquoted'),
         (NULL, 'c', 'cancel', NULL, '{}')",
        )
        .await;
    ground.insert(ground.unreadable().0).await;
    let app = start(&ground).await;
    settle(&app).await;
    let refusals = reasons(&ground).await;
    let expected = [
        "dance a: the kind \"dance\" is unknown; write start, signal or cancel",
        "start a: the name is missing; give that of the workflow",
        "start a: ",
        "start a: the body is not JSON: ",
        "start : the instance is empty; give its id",
        "signal a: there is no instance of this id",
        "cancel a: there is no instance of this id",
        "start b: an instance of this id exists",
        "signal c: the name is missing; give that of the signal",
        "signal c: the body is not JSON: ",
        "cancel c: the body of a cancellation is a reason, a JSON string: ",
        ground.unreadable().1,
    ];
    assert_eq!(refusals.len(), expected.len(), "{refusals:#?}");
    for (refusal, expected) in refusals.iter().zip(expected) {
        assert!(refusal.starts_with(expected), "{refusal:?} begins not with {expected:?}");
    }
    assert_eq!(result(&app, "b").await, "completed 1");
    // Another node may know the workflow, or the next version of this one.
    let unknown = app.describe("z").await.instance;
    assert_eq!(unknown.status, Status::Running);
    assert!(unknown.error.unwrap().starts_with("B5 workflow no_such is not registered"));

    // Closed by now.
    ground.insert("(NULL, 'b', 'signal', 'word', '1'), (NULL, 'b', 'cancel', NULL, NULL)").await;
    app.restart().await;
    settle(&app).await;
    let refusals = reasons(&ground).await;
    assert_eq!(
        refusals[12..],
        ["signal b: the instance is closed", "cancel b: the instance is closed"]
    );

    // A row that is mended is taken.
    let mend = "UPDATE inbox SET error = NULL, kind = 'start', name = 'fulfil',
                body = '{\"cents\":3}' WHERE kind = 'dance'";
    ground.run(mend).await;
    app.restart().await;
    settle(&app).await;
    assert_eq!(result(&app, "a").await, "completed 3");
}

#[test]
async fn a_row_that_is_too_large_is_refused() {
    let ground = Ground::new().await;
    let large = "x".repeat(3 << 20);
    ground.insert(&format!("(NULL, 'c', 'signal', 'word', '\"{large}\"')")).await;
    let app = start(&ground).await;
    settle(&app).await;
    let refusal = &reasons(&ground).await[0];
    assert!(refusal.contains("bytes, 2097152 are allowed"), "{refusal}");
}

#[test]
async fn a_row_with_an_id_that_was_seen_is_dropped() {
    let ground = Ground::new().await;
    ground
        .insert(
            "('1', 'words', 'start', 'collect', NULL),
         ('1', 'words', 'start', 'collect', NULL),
         ('2', 'words', 'signal', 'word', '\"one\"'),
         ('2', 'words', 'signal', 'word', '\"one\"'),
         (NULL, 'words', 'signal', 'word', '\"two\"')",
        )
        .await;
    let app = start(&ground).await;
    settle(&app).await;
    assert_eq!(ground.left().await, []);
    ground
        .insert(
            "('2', 'words', 'signal', 'word', '\"one\"'), ('1', 'other', 'start', 'collect', NULL)",
        )
        .await;
    app.restart().await;
    settle(&app).await;
    assert_eq!(ground.left().await, []);
    assert!(app.client().find("other").await.unwrap().is_none());

    // Seven days later an id is forgotten when others are taken; the signal is not.
    app.advance(Duration::from_secs(8 * 86_400)).await;
    ground.insert("('3', 'else', 'start', 'collect', NULL)").await;
    app.restart().await;
    settle(&app).await;
    // An app that is restarted after it took a row may not have forgotten yet: the next row does.
    for _ in 0..3 {
        ground
            .insert(
                "('2', 'words', 'signal', 'word', '\"one\"'),
                 ('1', 'other', 'start', 'collect', NULL)",
            )
            .await;
        app.restart().await;
        settle(&app).await;
        assert_eq!(ground.left().await, []);
        if app.client().find("other").await.unwrap().is_some() {
            break;
        }
    }
    assert!(app.client().find("other").await.unwrap().is_some());
    ground.insert("(NULL, 'words', 'signal', 'word', '\"three\"')").await;
    app.restart().await;
    settle(&app).await;
    assert_eq!(result(&app, "words").await, r#"completed ["one","two","three"]"#);
}

/// Counts words for ever.
#[workflow]
async fn count(ctx: WorkflowContext, words: u64) -> Result<(), Failure> {
    for more in 1..=500 {
        ctx.signal::<String>("word").await?;
        ctx.set("words", &(words + more));
    }
    ctx.continue_as_new(count(words + 500))
}

#[test(minutes = 15)]
async fn a_signal_that_a_client_sent_before_is_dropped_also_when_its_run_has_forgotten_it() {
    let ground = Ground::new().await;
    let app = ground.start(TestApp::builder().workflow(count)).await;
    app.start("count", count(0)).await;
    let (client, words) = (app.client(), many(1_600));
    let signals = async {
        for number in 0..words {
            client.signal_once("count", "word", &"a", format!("word-{number}")).await.unwrap();
        }
    };
    app.wait_for("all signals", signals).await;
    ground.insert("('word-0', 'count', 'signal', 'word', '\"a\"')").await;
    app.restart().await;
    settle(&app).await;
    assert_eq!(app.client().value::<u64>("count", "words").await.unwrap(), Some(words));
    // The answer is the first one, whatever became of the instance.
    app.cancel("count", "enough").await.unwrap();
    settle(&app).await;
    ground.insert("('word-1', 'count', 'signal', 'word', '\"a\"')").await;
    app.restart().await;
    settle(&app).await;
    assert_eq!(ground.left().await, []);
}

#[test(minutes = 15)]
async fn rows_take_effect_once_with_a_crash_at_every_commit() {
    let play = |crash: Option<Crash>| async move {
        let ground = Ground::new().await;
        ground
            .insert(
                "('1', 'order-1', 'start', 'fulfil', '{\"cents\":42}'),
             (NULL, 'words', 'start', 'collect', NULL),
             ('2', 'words', 'signal', 'word', '\"one\"'),
             (NULL, 'words', 'signal', 'word', '\"two\"'),
             (NULL, 'words', 'start', 'collect', NULL),
             (NULL, 'nobody', 'signal', 'word', '\"two\"'),
             ('2', 'words', 'signal', 'word', '\"one\"'),
             (NULL, 'words', 'signal', 'word', '\"three\"')",
            )
            .await;
        let app = start(&ground).await;
        crash.into_iter().for_each(|crash| app.faults().crash(crash));
        // A crash takes its moment, and so does hearing of a file.
        for _ in 0..100 {
            settle(&app).await;
            let open = InstanceFilter { status: vec![Status::Running], ..Default::default() };
            let is_idle = app.client().list(open).await.unwrap().is_empty();
            if is_idle && ground.left().await.len() == 2 {
                break;
            }
        }
        assert_eq!(result(&app, "order-1").await, "completed 42", "{crash:?}");
        let words = result(&app, "words").await;
        assert_eq!(words, r#"completed ["one","two","three"]"#, "{crash:?}");
        let refused = ["start words: an instance of this id exists", "signal nobody: there is no"];
        let refusals = reasons(&ground).await;
        assert_eq!(refusals.len(), 2, "{crash:?} {refusals:?}");
        assert_eq!(refusals[0], refused[0], "{crash:?}");
        assert!(refusals[1].starts_with(refused[1]), "{crash:?}");
        app.commits()
    };
    let commits = play(None).await;
    assert!(commits > 5);
    for crash in crashes(commits) {
        play(Some(crash)).await;
    }
}

#[test]
async fn a_store_in_trouble_delays_rows_and_loses_none() {
    let ground = Ground::new().await;
    ground.insert("(NULL, 'order-1', 'start', 'fulfil', '{\"cents\":42}')").await;
    let app = start(&ground).await;
    app.faults().refuse(StoreCall::Inbox, 5);
    app.faults().refuse(StoreCall::Commit, 3);
    while app.faults().refusals_left(StoreCall::Inbox) > 0
        || app.faults().refusals_left(StoreCall::Commit) > 0
    {
        settle(&app).await;
    }
    app.advance(Duration::from_secs(60)).await;
    assert_eq!(result(&app, "order-1").await, "completed 42");
}

#[test]
async fn thousands_of_rows_are_routed_page_by_page() {
    let ground = Ground::new().await;
    let order = |i| format!("('{i}', 'order-{i}', 'start', 'fulfil', '{{\"cents\":{i}}}')");
    ground.insert(&(1..=2_000).map(order).collect::<Vec<_>>().join(",")).await;
    let app = start(&ground).await;
    app.advance(Duration::from_secs(5)).await;
    assert_eq!(ground.left().await, []);
    let done = InstanceFilter {
        status: vec![Status::Completed],
        limit: 10_000,
        ..InstanceFilter::default()
    };
    assert_eq!(app.client().list(done).await.unwrap().len(), 2_000);
    assert!(app.commits() < 500, "{} commits", app.commits());
}

#[test]
async fn a_signal_that_comes_while_its_run_is_being_read_is_not_left_behind() {
    let ground = Ground::new().await;
    let start_of = |i| format!("(NULL, 'words-{i}', 'start', 'collect', NULL)");
    ground.insert(&(1..=200).map(start_of).collect::<Vec<_>>().join(",")).await;
    for word in ["one", "two", "three"] {
        let signal = |i| format!("(NULL, 'words-{i}', 'signal', 'word', '\"{word}\"')");
        ground.insert(&(1..=200).map(signal).collect::<Vec<_>>().join(",")).await;
    }
    let app = start(&ground).await;
    settle(&app).await;
    assert_eq!(ground.left().await, []);
    for number in 1..=200 {
        let id = format!("words-{number}");
        assert_eq!(result(&app, &id).await, r#"completed ["one","two","three"]"#, "{id}");
    }
}

/// The examples of the guide.
fn guide() -> Vec<String> {
    let text = include_str!("../../../../docs/inbox.md");
    let blocks = text.split("```sql\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
async fn the_examples_of_the_guide_work_in_the_transaction_of_somebody_else() {
    let ground = Ground::new().await;
    let (app, mut told) = begin(&ground).await;
    ground.run("CREATE TABLE customer_order (id TEXT, cents INTEGER)").await;
    let guide = guide();
    assert_eq!(guide.len(), 4);
    let (order, wishes, refused) = (&guide[ground.order()], &guide[1], &guide[2]);

    // Rolled back: nothing happens, and nobody hears of it.
    ground.run(&order.replace("COMMIT", "ROLLBACK").replace("4200", "1")).await;
    ground.run(order).await;
    assert_eq!(told.recv().await, Some(4200));
    let run = app.instance::<u64>("order-42").await.unwrap().unwrap();
    assert_eq!(run.result().await.unwrap(), 4200);
    assert_eq!(ground.number("SELECT count(*) FROM customer_order").await, 1);

    // The order is closed by now; a word to somebody who waits comes after these.
    let run = app.start("words", collect()).await.unwrap();
    ground.run(wishes).await;
    ground
        .insert(
            "(NULL, 'words', 'signal', 'word', '\"a\"'), (NULL, 'words', 'signal', 'word', '\"b\"'),
             (NULL, 'words', 'signal', 'word', '\"c\"')",
        )
        .await;
    assert_eq!(run.result().await.unwrap(), ["a", "b", "c"]);
    app.stop().await.unwrap();
    assert_eq!(
        reasons(&ground).await,
        ["signal order-42: the instance is closed", "cancel order-42: the instance is closed"]
    );
    ground.run(refused).await;
}

#[test]
async fn every_row_is_noticed_while_the_app_runs() {
    let ground = Ground::new().await;
    let (app, mut told) = begin(&ground).await;
    let mut waits = Vec::new();
    for number in 0..20 {
        let row = format!("(NULL, 'o{number}', 'start', 'fulfil', '{{\"cents\":{number}}}')");
        let since = std::time::Instant::now();
        ground.insert(&row).await;
        assert_eq!(told.recv().await, Some(number));
        waits.push(since.elapsed());
    }
    waits.sort();
    println!("from a row to the activity that it starts: {waits:?}");
    app.stop().await.unwrap();
}
