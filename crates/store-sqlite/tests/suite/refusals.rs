//! What cannot be opened is refused with what to do about it, and is left as it was.

use std::time::{Duration, Instant};

use crate::support::*;
use resurgam_store::rows::TaskRow;
use resurgam_store::{Error, Inspect, Runnable, Work};
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_watchdog::test;
use rusqlite::Connection;

#[test]
async fn a_database_of_a_newer_version_is_refused() {
    let folder = Folder::new();
    folder.open().close().await;
    let newer = "UPDATE meta SET format = 18, min_reader = 18, made_by = '3.4.5'";
    folder.sql().execute_batch(newer).unwrap();
    let error = refusal(&folder.path, Options::default());
    unusable(&error, &["orders.db", "3.4.5", "format 18", "knows 17", "newer"]);
    assert_eq!(folder.names(), ["orders.db"]);
}

#[test]
async fn a_newer_database_that_allows_us_is_opened() {
    let folder = Folder::new();
    folder.open().close().await;
    let newer = "UPDATE meta SET format = 18, made_by = '3.4.5'; ALTER TABLE task ADD colour TEXT";
    folder.sql().execute_batch(newer).unwrap();
    let store = folder.open();
    write(&store, [start(1)]).await;
    store.close().await;
    let format: i64 =
        folder.sql().query_row("SELECT format FROM meta", [], |row| row.get(0)).unwrap();
    assert_eq!(format, 18);
}

#[test]
fn a_database_of_another_application_is_refused_and_left_alone() {
    let folder = Folder::new();
    let make = "CREATE TABLE customer (name TEXT)";
    folder.sql().execute_batch(make).unwrap();
    let before = std::fs::read(&folder.path).unwrap();
    let error = refusal(&folder.path, Options::default());
    unusable(&error, &["orders.db", "another application", "another file"]);
    assert_eq!(std::fs::read(&folder.path).unwrap(), before);
    assert_eq!(folder.names(), ["orders.db"]);

    let marked = Folder::new();
    marked.sql().execute_batch("PRAGMA application_id = 7").unwrap();
    unusable(&refusal(&marked.path, Options::default()), &["another application"]);
}

#[test]
async fn tables_of_the_user_beside_ours_are_welcome() {
    let folder = Folder::new();
    folder.open().close().await;
    folder.sql().execute_batch("CREATE TABLE customer (name TEXT)").unwrap();
    write(&folder.open(), [start(1)]).await;
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = Folder::new();
    let text = "these are my notes\n".repeat(1_000);
    std::fs::write(&folder.path, &text).unwrap();
    unusable(&refusal(&folder.path, Options::default()), &["orders.db", "not a SQLite database"]);
    assert_eq!(std::fs::read_to_string(&folder.path).unwrap(), text);
    assert_eq!(folder.names(), ["orders.db"]);
}

#[test]
fn an_empty_file_becomes_a_database() {
    let folder = Folder::new();
    std::fs::write(&folder.path, "").unwrap();
    folder.open();
}

#[test]
fn a_missing_folder_is_named() {
    let folder = Folder::new();
    let error = refusal(&folder.file("missing/orders.db"), Options::default());
    unusable(&error, &["missing/orders.db", "folder does not exist"]);
}

#[test]
fn a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder_are_refused() {
    let folder = Folder::new();
    std::fs::write(folder.file("notes"), "").unwrap();
    std::fs::create_dir(&folder.path).unwrap();
    unusable(&refusal(&folder.path, Options::default()), &["orders.db", "this is a folder"]);
    let error = refusal(&folder.file("notes/orders.db"), Options::default());
    unusable(&error, &["notes/orders.db", "folder does not exist"]);
}

#[test]
fn a_missing_file_is_refused_when_it_must_be_there() {
    let folder = Folder::new();
    let error = refusal(&folder.path, Options::default().create(false));
    unusable(&error, &["orders.db", "no such file"]);
    assert!(!folder.path.exists());
}

#[test]
async fn an_existing_file_is_opened_without_the_right_to_create() {
    let folder = Folder::new();
    write(&folder.open(), [start(1)]).await;
    let store = SqliteStore::open(&folder.path, Options::default().create(false)).unwrap();
    assert!(store.find("order-1").await.unwrap().is_some());
}

#[test]
fn a_locked_file_is_refused_for_now() {
    let folder = Folder::new();
    let other = folder.sql();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE x (y)").unwrap();
    locked(&folder);
    other.execute_batch("ROLLBACK").unwrap();
    folder.open();
}

#[test]
async fn a_file_that_another_program_keeps_to_itself_is_refused_for_now() {
    let folder = Folder::new();
    folder.open().close().await;
    let other = folder.sql();
    let keep = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE meta SET hash = hash";
    other.execute_batch(keep).unwrap();
    locked(&folder);
    drop(other);
    folder.open();
}

#[test]
async fn a_file_that_is_open_elsewhere_and_being_written_is_opened_all_the_same() {
    let folder = Folder::new();
    folder.open().close().await;
    let other = folder.sql();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    folder.open();
}

#[test]
async fn a_database_of_format_1_is_brought_up_to_date() {
    let folder = Folder::new();
    let old = folder.sql();
    old.execute_batch("PRAGMA journal_mode = WAL; PRAGMA application_id = 0x5253474D").unwrap();
    old.execute_batch(include_str!("../../src/schema.sql")).unwrap();
    let rows = "INSERT INTO meta VALUES (1, 1, 1, 1, 'none', '0.1.0');
                INSERT INTO tag (uid, name, value) VALUES (zeroblob(16), 'customer', 'ada');
                INSERT INTO message (uid, id, due_at, kind, head, encoding, body)
                VALUES (zeroblob(16), 'paid', 5, 'SignalReceived', '{}', 'json', '1')";
    old.execute_batch(rows).unwrap();
    // It takes the write lock, so it waits for whoever has that.
    old.execute_batch("BEGIN IMMEDIATE").unwrap();
    locked(&folder);
    old.execute_batch("COMMIT").unwrap();
    let store = folder.open();
    assert_eq!(store.due_messages(LATER, 10).await.unwrap().len(), 1);
    own(&store, "node-a").await;
    write(&store, [start(1)]).await;
}

#[test]
async fn a_task_of_format_6_keeps_its_gate_under_the_new_name() {
    let folder = Folder::new();
    let old = of_format_6(&folder);
    let task_of = "INSERT INTO task (uid, run, seq, name, queue, lane, priority, policy, attempt,
                                     wake_at, progress)
                   VALUES (?1, 1, 2, 'charge', 'default', 'stripe', 0, 'p', 0, 0, '{}')";
    old.execute(task_of, [run(1).uid.to_bytes()]).unwrap();
    let expected = TaskRow { gate: "stripe".into(), ..task(run(1), 2) };

    let store = folder.open();
    assert_eq!(store.tasks(run(1)).await.unwrap(), [expected]);
    let due = store.due_tasks(Runnable::default(), LATER, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    own(&store, "node-a").await;
    write(&store, [start(2)]).await;
    store.close().await;
    let format: i64 = old.query_row("SELECT format FROM meta", [], |row| row.get(0)).unwrap();
    assert_eq!(format, 17);
}

#[test]
async fn views_of_the_user_follow_the_new_name_and_broken_ones_are_left_alone() {
    let folder = Folder::new();
    let old = of_format_6(&folder);
    let views = "CREATE VIEW waiting AS SELECT lane AS dependency FROM task;
                 CREATE VIEW broken AS SELECT name FROM customer";
    old.execute_batch(views).unwrap();
    write(&folder.open(), [start(1)]).await;
    let gate: String =
        old.query_row("SELECT dependency FROM waiting", [], |row| row.get(0)).unwrap();
    assert_eq!(gate, "charge");
    let broken = "SELECT sql FROM sqlite_schema WHERE name = 'broken'";
    let broken: String = old.query_row(broken, [], |row| row.get(0)).unwrap();
    assert_eq!(broken, "CREATE VIEW broken AS SELECT name FROM customer");
}

/// A database as the program before the column `gate` made it.
fn of_format_6(folder: &Folder) -> Connection {
    let old = folder.sql();
    old.execute_batch("PRAGMA journal_mode = WAL; PRAGMA application_id = 0x5253474D").unwrap();
    for migration in [
        include_str!("../../src/schema.sql"),
        include_str!("../../src/owner.sql"),
        include_str!("../../src/families.sql"),
        include_str!("../../src/deadlines.sql"),
        include_str!("../../src/schedules.sql"),
        include_str!("../../src/held_up.sql"),
        "INSERT INTO meta (one, format, min_reader, shards, hash, made_by)
         VALUES (1, 6, 5, 1, 'none', '0.1.0')",
    ] {
        old.execute_batch(migration).unwrap();
    }
    old
}

/// Opens a database that somebody keeps locked, until the time is up.
fn locked(folder: &Folder) {
    let timeout = Duration::from_millis(100);
    let (since, before) = (Instant::now(), folder.names());
    let error = refusal(&folder.path, Options::default().busy_timeout(timeout));
    assert!(error.is_transient(), "{error}");
    for word in ["orders.db: another process keeps it locked", "busy timeout"] {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
    let waited = since.elapsed();
    println!("refused after {waited:?}");
    // It waits for so long and not less: load only makes it later.
    assert!(waited >= timeout, "{waited:?}");
    assert_eq!(folder.names(), before);
}

#[test]
async fn a_damaged_file_is_refused() {
    let folder = Folder::new();
    folder.open().close().await;
    let mut bytes = std::fs::read(&folder.path).unwrap();
    bytes[100..4_000].fill(0xff);
    std::fs::write(&folder.path, bytes).unwrap();
    unusable(&refusal(&folder.path, Options::default()), &["orders.db", "damaged"]);
}

#[test]
async fn the_schema_is_complete_and_can_be_read_by_anybody() {
    let folder = Folder::new();
    folder.open().close().await;
    let sql: Connection = folder.sql();
    let mut tables =
        sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let expected = [
        "attempt",
        "event",
        "inbox",
        "inbox_seen",
        "instance",
        "kv",
        "message",
        "meta",
        "policy",
        "resurgam_action",
        "resurgam_api_token",
        "resurgam_audit",
        "resurgam_bulk",
        "resurgam_dead_letter",
        "resurgam_gate",
        "resurgam_gate_count",
        "resurgam_graph_template",
        "resurgam_hold",
        "resurgam_login",
        "resurgam_policy_override",
        "resurgam_pressure",
        "resurgam_remote_activity",
        "resurgam_worker_session",
        "schedule",
        "tag",
        "task",
    ];
    assert_eq!(tables, expected);
    let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

fn unusable(error: &Error, words: &[&str]) {
    assert!(error.is_unusable(), "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
}
