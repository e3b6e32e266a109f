//! Rows that others insert are read in order and taken once, and what cannot be read is refused.

use crate::support::*;
use resurgam_core::{Payload, Timestamp};
use resurgam_store::{Commit, Inbox, InboxRow, InboxWrite, Inspect, Step, StepResult};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

fn insert(folder: &Folder, values: &str) {
    let sql = format!("INSERT INTO inbox (id, instance, kind, name, body) VALUES {values}");
    folder.sql().execute_batch(&sql).unwrap();
}

/// What is left in the inbox: the instance of each row, and why it was refused.
fn left(folder: &Folder) -> Vec<(String, Option<String>)> {
    let sql = folder.sql();
    let mut rows = sql.prepare("SELECT instance, error FROM inbox ORDER BY arrival").unwrap();
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

fn take(row: InboxRow, at: i64) -> Step {
    let inbox = Some(InboxWrite::Take { row, at: Timestamp::from_millis(at) }.into());
    Step { inbox, ..Step::default() }
}

/// A step that starts an instance because of this row.
fn starting(row: InboxRow, number: u128) -> Step {
    Step { inbox: take(row, 0).inbox, ..start(number) }
}

async fn only(store: &SqliteStore) -> InboxRow {
    let rows = store.inbox(10).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.into_iter().next().unwrap()
}

#[test]
async fn rows_come_in_the_order_of_their_arrival() {
    let folder = Folder::new();
    let store = folder.open();
    insert(&folder, "(NULL, 'b', 'start', 'fulfil', '{}'), ('7', 'a', 'signal', 'paid', NULL)");
    let rows = store.inbox(10).await.unwrap();
    let first = InboxRow {
        arrival: 1,
        id: None,
        instance: "b".into(),
        kind: "start".into(),
        name: Some("fulfil".into()),
        body: Some(Payload::from_text("{}")),
    };
    assert_eq!(rows[0], first);
    assert_eq!((rows[1].instance.as_str(), rows[1].id.as_deref()), ("a", Some("7")));
    assert_eq!(rows[1].body, None);
    assert_eq!(store.inbox(1).await.unwrap().len(), 1);
}

#[test]
async fn a_row_goes_with_what_it_causes_or_not_at_all() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    insert(&folder, "('7', 'order-1', 'start', 'fulfil', '{}')");
    let row = only(&store).await;
    let refused = Step { inbox: take(row.clone(), 0).inbox, ..start(1) };
    let refused = store.commit([refused].into()).await.unwrap();
    assert_eq!(refused, [StepResult::Duplicate]);
    assert_eq!(only(&store).await, row);
    write(&store, [starting(row, 2)]).await;
    assert_eq!(left(&folder), []);
    assert!(store.find("order-2").await.unwrap().is_some());
}

#[test]
async fn a_row_is_taken_once() {
    let folder = Folder::new();
    let store = folder.open();
    insert(&folder, "(NULL, 'order-1', 'start', 'fulfil', '{}')");
    let row = only(&store).await;
    let twice = [starting(row.clone(), 1), starting(row, 2)];
    let results = store.commit(twice.into()).await.unwrap();
    assert_eq!(results, [StepResult::Written, StepResult::Missed]);
    assert_eq!(store.find("order-2").await.unwrap(), None);
}

#[test]
async fn a_row_that_was_changed_meanwhile_is_left_alone() {
    let folder = Folder::new();
    let store = folder.open();
    insert(&folder, "(NULL, 'order-1', 'start', 'fulfil', '{}')");
    let row = only(&store).await;
    folder.sql().execute_batch("DELETE FROM inbox").unwrap();
    insert(&folder, "(NULL, 'order-1', 'start', 'fulfil', '{\"other\":1}')");
    let results = store.commit([starting(row.clone(), 1)].into()).await.unwrap();
    assert_eq!(results, [StepResult::Missed]);
    assert_eq!(only(&store).await.arrival, row.arrival, "SQLite used the number again");
}

#[test]
async fn a_row_that_came_before_is_dropped_for_as_long_as_its_id_is_remembered() {
    let folder = Folder::new();
    let store = folder.open();
    insert(&folder, "('7', 'order-1', 'start', 'fulfil', '{}')");
    write(&store, [take(only(&store).await, 1_000)]).await;

    insert(&folder, "('7', 'order-2', 'start', 'fulfil', '{}')");
    let again = starting(only(&store).await, 2);
    assert_eq!(store.commit([again].into()).await.unwrap(), [StepResult::Missed]);
    assert_eq!(left(&folder), []);
    assert_eq!(store.find("order-2").await.unwrap(), None);

    let forget = |before| Step {
        inbox: Some(InboxWrite::Forget { before: Timestamp::from_millis(before) }.into()),
        ..Step::default()
    };
    write(&store, [forget(1_000)]).await;
    insert(&folder, "('7', 'order-3', 'start', 'fulfil', '{}')");
    let again = take(only(&store).await, 2_000);
    assert_eq!(store.commit([again].into()).await.unwrap(), [StepResult::Missed]);
    write(&store, [forget(1_001)]).await;
    insert(&folder, "('7', 'order-4', 'start', 'fulfil', '{}')");
    write(&store, [starting(only(&store).await, 4)]).await;
}

#[test]
async fn a_refused_row_stays_with_the_reason_and_is_not_read_again() {
    let folder = Folder::new();
    let store = folder.open();
    insert(&folder, "('7', 'order-1', 'dance', NULL, NULL)");
    let arrival = only(&store).await.arrival;
    let error = "nobody dances".to_string();
    let inbox = Some(InboxWrite::Refuse { arrival, error: error.clone() }.into());
    write(&store, [Step { inbox, ..Step::default() }]).await;
    assert_eq!(store.inbox(10).await.unwrap(), []);
    assert_eq!(left(&folder), [("order-1".to_string(), Some(error))]);
    // Its id is not remembered: it can be mended.
    folder.sql().execute_batch("UPDATE inbox SET kind = 'start', error = NULL").unwrap();
    write(&store, [starting(only(&store).await, 1)]).await;
}

#[test]
async fn a_row_that_cannot_be_read_is_refused_and_holds_up_nobody() {
    let folder = Folder::new();
    let store = folder.open();
    insert(
        &folder,
        "(NULL, 'a', CAST(x'ff' AS TEXT), NULL, NULL), (NULL, 'b', 'start', 'fulfil', '{}')",
    );
    folder.sql().execute_batch("UPDATE inbox SET encoding = 'zstd' WHERE instance = 'b'").unwrap();
    insert(&folder, "(NULL, 'c', 'start', 'fulfil', '{}')");
    assert_eq!(only(&store).await.instance, "c");
    // The reader hands them to the writer, which has done so when it next answers.
    write(&store, [Step::default()]).await;
    let left = left(&folder);
    let refused = |place: usize| left[place].1.clone().unwrap();
    assert!(refused(0).contains("column 4"), "{}", refused(0));
    assert!(refused(1).contains("zstd"), "{}", refused(1));
    assert_eq!(left[2].1, None);
    // Opening the database again does not take the refusal back.
    store.close().await;
    let store = folder.open();
    assert_eq!(only(&store).await.instance, "c");
}
