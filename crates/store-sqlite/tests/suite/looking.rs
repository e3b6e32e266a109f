//! Who only looks finds a database as it is, and leaves it so.

use crate::support::*;
use resurgam_core::Code;
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{Commit, Inspect, Own};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

fn look(folder: &Folder) -> resurgam_store::Result<SqliteStore> {
    SqliteStore::open_existing(&folder.path, patient())
}

#[test]
fn a_file_that_is_missing_or_empty_is_told_and_stays_so() {
    let folder = Folder::new();
    let error = look(&folder).unwrap_err();
    assert!(error.is_missing() && error.code() == Code::C4, "{error}");
    assert!(error.to_string().contains("orders.db: there is no such file"), "{error}");
    assert!(folder.names().is_empty());
    std::fs::write(&folder.path, "").unwrap();
    let error = look(&folder).unwrap_err();
    assert!(error.is_missing(), "{error}");
    for words in ["there is no Resurgam in this file", "begin your app, or `resurgam worker`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(folder.names(), ["orders.db"]);
    assert_eq!(std::fs::read(&folder.path).unwrap(), b"");
}

#[test]
async fn a_database_of_an_older_version_is_told_and_not_brought_up_to_date() {
    let folder = Folder::new();
    folder.open().close().await;
    folder.sql().execute_batch("UPDATE meta SET format = 4, made_by = '0.0.1'").unwrap();
    let error = look(&folder).unwrap_err();
    assert_eq!(error.code(), Code::D8, "{error}");
    assert!(error.to_string().contains("format 4 of Resurgam 0.0.1"), "{error}");
    let sql = "SELECT format FROM meta";
    assert_eq!(folder.sql().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 4);
}

#[test]
async fn marks_of_unreadable_rows_are_neither_cleared_nor_made_by_looking() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1), start(2), start(3)]).await;
    let damage = "UPDATE instance SET bad = 'long ago' WHERE id = 'order-1';
                  UPDATE instance SET input_encoding = 'x' WHERE id = 'order-2'";
    folder.sql().execute_batch(damage).unwrap();
    let looking = look(&folder).unwrap();
    assert!(!looking.list(InstanceFilter::default()).await.unwrap().is_empty());
    looking.close().await;
    let marks: Vec<String> =
        store.bad_rows(10).await.unwrap().into_iter().map(|row| row.why).collect();
    assert_eq!(marks, ["long ago"]);
}

#[test]
async fn one_that_looks_can_ask_those_who_work() {
    let folder = Folder::new();
    let store = folder.open();
    let looking = look(&folder).unwrap();
    let mut changes = looking.changes();
    write(&looking, [start(1)]).await;
    assert!(store.find("order-1").await.unwrap().is_some());
    write(&store, [start(2)]).await;
    changes.changed().await.unwrap();
    assert!(looking.find("order-2").await.unwrap().is_some());
}

#[test]
async fn looking_leaves_a_single_file_as_it_was() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    store.close().await;
    let before = std::fs::read(&folder.path).unwrap();
    let looking = look(&folder).unwrap();
    assert!(looking.find("order-1").await.unwrap().is_some());
    assert!(looking.owner().await.unwrap().is_none());
    looking.close().await;
    assert_eq!(folder.names(), ["orders.db"]);
    assert!(std::fs::read(&folder.path).unwrap() == before, "not a byte has changed");
}

#[cfg(unix)]
#[test]
async fn a_store_notices_that_its_file_was_removed_and_makes_no_other() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, [start(1)]).await;
    let mut changes = store.changes();
    assert!(store.gone().is_none());
    std::fs::remove_file(&folder.path).unwrap();
    while store.gone().is_none() {
        changes.changed().await.unwrap();
    }
    let gone = store.gone().unwrap();
    assert!(gone.is_missing(), "{gone}");
    assert!(gone.to_string().contains("was removed or replaced while it was in use"), "{gone}");
    assert!(store.commit([start(2)].into()).await.unwrap_err().is_missing());
    assert!(!folder.path.exists());
}
