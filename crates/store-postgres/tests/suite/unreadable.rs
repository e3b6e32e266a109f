//! Rows that cannot be read hold up nobody, and an operator sees them.

use resurgam_core::Seq;
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{
    Inspect, MessageWrite, Runnable, ScheduleWrite, Schedules, Step, TaskWrite, Work,
};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::support::*;

/// A store with three instances, after this was done to the rows of the second.
async fn damaged(sql: &str) -> Open {
    let open = open().await;
    write(&open, [start(1), start(2), start(3)]).await;
    open.database.run(&format!("{sql} uid = '{}'", run(2).uid)).await;
    open
}

async fn marks(store: &PostgresStore) -> Vec<String> {
    let rows = store.bad_rows(100).await.unwrap();
    rows.into_iter().map(|row| format!("{}: {}", row.table, row.why)).collect()
}

#[test]
async fn an_event_that_cannot_be_read_blocks_its_run_and_is_named() {
    for damage in [
        "kind = 'ActivityPondered'",
        "head = '{'",
        "encoding = 'zstd'",
        "encoding = NULL",
        "body = NULL",
    ] {
        let damage = format!("UPDATE resurgam.event SET {damage} WHERE seq = 2 AND");
        let store = damaged(&damage).await;
        let load = store.load_run(run(2).uid).await.unwrap_err();
        let history = store.history(run(2)).await.unwrap_err();
        for error in [load, history] {
            assert!(error.is_data(), "{error}");
            for word in ["\"order-2\"", "event 2 cannot be read", "version", "backup"] {
                assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
            }
        }
        assert!(store.load_run(run(1).uid).await.unwrap().is_some());
    }
}

#[test]
async fn a_task_with_a_broken_value_is_an_error_once_and_then_out_of_the_way() {
    let store = damaged("UPDATE resurgam.task SET progress = 'x' WHERE").await;
    let call = run(2).call(Seq(2));
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 3);
    let error = store.load_task(call).await.unwrap_err();
    assert!(error.is_data(), "{error}");
    assert!(error.to_string().contains(&call.to_string()), "{error}");
    assert!(marks(&store).await[0].contains("the progress: "));
    assert_eq!(store.database.ask("SELECT state FROM resurgam.task WHERE bad <> ''").await, "bad");
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 2);
    // A turn without one of its tasks would go wrong, so that run waits for an operator.
    assert!(store.load_run(run(2).uid).await.unwrap_err().is_data());
    assert!(store.tasks(run(2)).await.unwrap().is_empty());

    // One that is written again is well again.
    let mended = vec![TaskWrite::Update(task(run(2), 2))];
    write(&store, [Step { tasks: mended, ..Step::default() }]).await;
    assert_eq!(marks(&store).await, [""; 0]);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 3);
    assert!(store.load_run(run(2).uid).await.unwrap().is_some());
}

#[test]
async fn a_task_whose_input_is_lost_is_out_of_the_way_too() {
    let store = damaged("DELETE FROM resurgam.event WHERE seq = 2 AND").await;
    let error = store.load_task(run(2).call(Seq(2))).await.unwrap_err();
    assert!(error.is_data() && error.to_string().contains("its event is missing"), "{error}");
    assert_eq!(marks(&store).await.len(), 1);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 2);
}

#[test]
async fn a_message_that_cannot_be_read_is_set_aside_and_its_run_goes_on() {
    let store = damaged("UPDATE resurgam.message SET kind = 'Rumour' WHERE").await;
    let again = MessageWrite::Insert(signal(run(2).uid, "again"));
    write(&store, [Step { messages: vec![again], ..Step::default() }]).await;
    assert_eq!(store.due_messages(LATER, 10).await.unwrap().len(), 4);
    let record = store.load_run(run(2).uid).await.unwrap().unwrap();
    assert_eq!(record.messages, [signal(run(2).uid, "again")]);
    let unknown = "message: the kind \"Rumour\" is unknown to this version";
    assert_eq!(marks(&store).await, [unknown]);
    assert_eq!(store.due_messages(LATER, 10).await.unwrap().len(), 3);

    // Another program that connects gets another look.
    store.database.run("UPDATE resurgam.message SET kind = 'SignalReceived'").await;
    let another = connect(&store.database).await;
    assert_eq!(marks(&another).await, [""; 0]);
    assert_eq!(another.load_run(run(2).uid).await.unwrap().unwrap().messages.len(), 2);
}

#[test]
async fn an_instance_that_cannot_be_read_is_left_out_of_lists() {
    let store = damaged("UPDATE resurgam.instance SET input_encoding = 'x' WHERE").await;
    assert_eq!(store.list(InstanceFilter::default()).await.unwrap().len(), 2);
    assert_eq!(marks(&store).await, ["instance: the encoding \"x\" is unknown to this version"]);
    let error = store.find("order-2").await.unwrap_err();
    assert!(error.is_data() && error.to_string().contains("order-2"), "{error}");
}

#[test]
async fn a_schedule_that_cannot_be_read_is_set_aside_and_the_others_fire() {
    let store = open().await;
    let row = |id: &str| resurgam_store::ScheduleRow {
        id: id.into(),
        workflow: "report".into(),
        input: resurgam_core::Payload::null(),
        rule: "{}".into(),
        options: r#"{"queue":"reports"}"#.into(),
        state: "{}".into(),
        paused: false,
        next_at: Some(resurgam_core::Timestamp::EPOCH),
        waits: false,
        last: None,
        error: None,
        created_at: resurgam_core::Timestamp::EPOCH,
    };
    let insert =
        |id| Step { schedule: Some(ScheduleWrite::Insert(row(id)).into()), ..Step::default() };
    write(&store, [insert("a"), insert("b")]).await;
    let queue = "SELECT string_agg(queue, ' ') FROM resurgam.schedule";
    assert_eq!(store.database.ask(queue).await, "reports reports");
    store.database.run("UPDATE resurgam.schedule SET encoding = 'x' WHERE id = 'a'").await;
    let due = async || store.due_schedules(LATER, 10).await.unwrap().due;
    let ids = |due: Vec<resurgam_store::ScheduleRecord>| {
        due.into_iter().map(|record| record.row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(due().await), ["b"]);
    assert_eq!(marks(&store).await, ["schedule: the encoding \"x\" is unknown to this version"]);
    let error = store.schedule("a").await.unwrap_err();
    assert!(error.is_data() && error.to_string().contains("\"a\""), "{error}");
    // One that is written again is well again.
    let revision = "SELECT revision FROM resurgam.schedule WHERE id = 'a'";
    let revision = store.database.ask(revision).await.parse().unwrap();
    let mended = ScheduleWrite::Update { row: row("a"), revision };
    write(&store, [Step { schedule: Some(mended.into()), ..Step::default() }]).await;
    assert_eq!(ids(due().await), ["a", "b"]);
    assert_eq!(marks(&store).await, [""; 0]);
}
