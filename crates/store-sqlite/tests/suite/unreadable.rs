//! Rows that cannot be read hold up nobody, and an operator sees them.

use crate::support::*;
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{Inspect, Runnable, Work};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

/// A store with three instances, after this was done to its tables.
async fn damaged(sql: &str) -> (Folder, SqliteStore) {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1), start(2), start(3)]).await;
    folder.sql().execute_batch(sql).unwrap();
    (folder, store)
}

/// The instances' uids end with their number.
const SECOND: &str = "WHERE substr(hex(uid), -1) = '2'";

#[test]
async fn an_event_that_cannot_be_read_blocks_its_run_and_is_named() {
    let damages = [
        "UPDATE event SET kind = 'ActivityPondered'",
        "UPDATE event SET head = '{'",
        "UPDATE event SET encoding = 'zstd'",
        "UPDATE event SET body = NULL",
    ];
    for damage in damages {
        let (_folder, store) = damaged(&format!("{damage} {SECOND} AND seq = 2")).await;
        let load = store.load_run(run(2).uid).await.unwrap_err();
        let history = store.history(run(2)).await.unwrap_err();
        for error in [load, history] {
            assert!(error.is_data(), "{error}");
            for word in ["\"order-2\"", "event 2 cannot be read", "version", "backup"] {
                assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
            }
        }
        assert!(store.load_run(run(1).uid).await.unwrap().is_some());
        assert!(store.load_run(run(3).uid).await.unwrap().is_some());
    }
}

#[test]
async fn a_task_with_a_broken_key_is_stepped_over() {
    let (folder, store) = damaged(&format!("UPDATE task SET uid = x'0102' {SECOND}")).await;
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 2);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 2).await.unwrap().len(), 2);
    assert_eq!(marks(&store).await, ["task: the uid has 2 bytes"]);
    let state = "SELECT state FROM task WHERE bad IS NOT NULL";
    let state: String = folder.sql().query_row(state, [], |row| row.get(0)).unwrap();
    assert_eq!(state, "bad");
}

#[test]
async fn a_task_with_a_broken_value_is_an_error_once_and_then_out_of_the_way() {
    let (_folder, store) = damaged(&format!("UPDATE task SET progress = 'x' {SECOND}")).await;
    let call = run(2).call(resurgam_core::Seq(2));
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 3);
    let error = store.load_task(call).await.unwrap_err();
    assert!(error.is_data(), "{error}");
    assert!(error.to_string().contains(&call.to_string()), "{error}");
    assert!(marks(&store).await[0].starts_with("task: the progress: "));
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 2);
    // A turn without one of its tasks would go wrong, so that run waits for an operator.
    assert!(store.load_run(run(2).uid).await.unwrap_err().is_data());
    assert!(store.tasks(run(2)).await.unwrap().is_empty());
}

#[test]
async fn a_task_whose_input_is_lost_is_out_of_the_way_too() {
    let (_folder, store) = damaged(&format!("DELETE FROM event {SECOND} AND seq = 2")).await;
    let error = store.load_task(run(2).call(resurgam_core::Seq(2))).await.unwrap_err();
    assert!(error.is_data() && error.to_string().contains("its event is missing"), "{error}");
    assert_eq!(marks(&store).await.len(), 1);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 2);
}

#[test]
async fn a_task_that_is_written_again_is_well_again() {
    let (_folder, store) = damaged(&format!("UPDATE task SET progress = 'x' {SECOND}")).await;
    assert!(store.load_run(run(2).uid).await.is_err());
    let mended = resurgam_store::TaskWrite::Update(task(run(2), 2));
    write(&store, [resurgam_store::Step { tasks: vec![mended], ..Default::default() }]).await;
    assert_eq!(marks(&store).await, [""; 0]);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 3);
    assert!(store.load_run(run(2).uid).await.unwrap().is_some());
}

#[test]
async fn a_message_that_cannot_be_read_is_set_aside_and_its_run_goes_on() {
    let (_folder, store) = damaged(&format!("UPDATE message SET kind = 'Rumour' {SECOND}")).await;
    write(&store, [another_signal()]).await;
    assert_eq!(store.due_messages(LATER, 10).await.unwrap().len(), 4);
    let record = store.load_run(run(2).uid).await.unwrap().unwrap();
    assert_eq!(record.messages, [signal(run(2).uid, "again")]);
    let unknown = "message: the kind \"Rumour\" is unknown to this version";
    assert_eq!(marks(&store).await, [unknown]);
    assert_eq!(store.due_messages(LATER, 10).await.unwrap().len(), 3);
}

#[test]
async fn an_instance_that_cannot_be_read_is_left_out_of_lists() {
    let (_folder, store) =
        damaged(&format!("UPDATE instance SET input_encoding = 'x' {SECOND}")).await;
    assert_eq!(store.list(InstanceFilter::default()).await.unwrap().len(), 2);
    assert_eq!(marks(&store).await, ["instance: the encoding \"x\" is unknown to this version"]);
    let error = store.find("order-2").await.unwrap_err();
    assert!(error.is_data() && error.to_string().contains("order-2"), "{error}");
}

#[test]
async fn marks_are_cleared_on_opening_so_that_another_version_can_try() {
    let (folder, store) = damaged(&format!("UPDATE message SET kind = 'Rumour' {SECOND}")).await;
    store.load_run(run(2).uid).await.unwrap();
    assert_eq!(marks(&store).await.len(), 1);
    store.close().await;
    folder.sql().execute_batch("UPDATE message SET kind = 'SignalReceived'").unwrap();
    let store = folder.open();
    assert_eq!(marks(&store).await, [""; 0]);
    assert_eq!(store.load_run(run(2).uid).await.unwrap().unwrap().messages.len(), 1);
}

#[test]
async fn rows_in_memory_are_set_aside_too() {
    let store = SqliteStore::in_memory().unwrap();
    write(&store, [start(1), start(2)]).await;
    let damage = format!("UPDATE task SET uid = x'01' {SECOND}");
    store.run_on_writer(&damage).await.unwrap();
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 10).await.unwrap().len(), 1);
    assert_eq!(marks(&store).await.len(), 1);
}

#[test]
async fn many_unreadable_rows_do_not_hide_the_good_one_behind_them() {
    let folder = Folder::new();
    let store = folder.open();
    let steps: Vec<_> = (1..=1_500).map(start).collect();
    write(&store, steps).await;
    let damage = "UPDATE task SET uid = CAST(rowid AS BLOB) WHERE rowid < 1500";
    folder.sql().execute_batch(damage).unwrap();
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 1).await.unwrap().len(), 1);
    assert_eq!(store.bad_rows(2_000).await.unwrap().len(), 1_000);
    assert_eq!(store.due_tasks(Runnable::default(), LATER, 1).await.unwrap().len(), 1);
    assert_eq!(store.bad_rows(2_000).await.unwrap().len(), 1_499);
    assert_eq!(store.bad_rows(3).await.unwrap().len(), 3);
}

fn another_signal() -> resurgam_store::Step {
    let message = resurgam_store::MessageWrite::Insert(signal(run(2).uid, "again"));
    resurgam_store::Step { messages: vec![message], ..Default::default() }
}

/// The marks, read by the writer and so after those that were asked for.
async fn marks(store: &SqliteStore) -> Vec<String> {
    let rows = store.bad_rows(100).await.unwrap();
    rows.into_iter().map(|row| format!("{}: {}", row.table, row.why)).collect()
}

#[test]
async fn a_schedule_that_cannot_be_read_holds_up_no_other() {
    use resurgam_store::{ScheduleRow, ScheduleWrite, Schedules, Step};
    let folder = Folder::new();
    let store = folder.open();
    for id in ["a", "b", "c"] {
        let row = ScheduleRow {
            id: id.to_string(),
            workflow: "report".to_string(),
            input: resurgam_core::Payload::null(),
            rule: String::new(),
            options: "{}".to_string(),
            state: String::new(),
            paused: false,
            next_at: Some(resurgam_core::Timestamp::EPOCH),
            waits: true,
            last: None,
            error: None,
            created_at: resurgam_core::Timestamp::EPOCH,
        };
        let schedule = Some(ScheduleWrite::Insert(row).into());
        write(&store, [Step { schedule, ..Step::default() }]).await;
    }
    folder.sql().execute_batch("UPDATE schedule SET encoding = 'zstd' WHERE id = 'b'").unwrap();
    let due = store.due_schedules(LATER, 10).await.unwrap().due;
    assert_eq!(due.iter().map(|record| record.row.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(marks(&store).await, ["schedule: the encoding \"zstd\" is unknown to this version"]);
    assert_eq!(store.due_schedules(LATER, 2).await.unwrap().due.len(), 2);
    assert_eq!(store.waiting_schedules("", 10).await.unwrap().len(), 2);
    assert!(store.schedule("b").await.unwrap_err().is_data());
}
