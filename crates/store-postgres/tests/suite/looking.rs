//! Who only looks finds a database as it is, and leaves it so.

use resurgam_core::Code;
use resurgam_postgres_server::{Database, Server};
use resurgam_store::rows::InstanceFilter;
use resurgam_store::{Commit, Error, Inspect, Own};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::support::*;

async fn look(url: &str) -> Result<PostgresStore, Error> {
    PostgresStore::connect_existing(url, few()).await
}

async fn schemas(database: &Database<'_>) -> String {
    database.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'resurgam'").await
}

#[test]
async fn an_empty_database_is_told_and_stays_empty() {
    let database = Server::shared().database().await;
    let error = look(&database.url()).await.unwrap_err();
    assert!(error.is_missing() && error.code() == Code::C4, "{error}");
    for words in ["there is no Resurgam in this database", "begin your app, or `resurgam worker`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(schemas(&database).await, "0");
}

#[test]
async fn a_schema_of_an_older_version_is_told_and_not_brought_up_to_date() {
    let database = database().await;
    database.run("UPDATE resurgam.meta SET format = 0, made_by = '0.0.1'").await;
    let error = look(&database.url()).await.unwrap_err();
    assert_eq!(error.code(), Code::D8, "{error}");
    assert!(error.to_string().contains("format 0 of Resurgam 0.0.1"), "{error}");
    assert_eq!(database.ask("SELECT format FROM resurgam.meta").await, "0");
}

#[test]
async fn the_right_to_read_is_enough_to_look_and_writes_nothing() {
    let open = open().await;
    write(&open, [start(1)]).await;
    let reader = format!("reader_of_{}", open.database.name());
    let sql = format!(
        "CREATE ROLE {reader} LOGIN; ALTER ROLE {reader} SET default_transaction_read_only = on;
         GRANT USAGE ON SCHEMA resurgam TO {reader};
         GRANT SELECT ON ALL TABLES IN SCHEMA resurgam TO {reader}"
    );
    open.database.run(&sql).await;
    let looking = look(&open.database.url().replace("resurgam@", &format!("{reader}@"))).await;
    let looking = looking.unwrap();
    assert!(looking.find("order-1").await.unwrap().is_some());
    assert_eq!(looking.history(run(1)).await.unwrap().len(), 2);
    assert_eq!(looking.list(InstanceFilter::default()).await.unwrap().len(), 1);
    assert!(looking.owner().await.unwrap().is_none());
    assert!(looking.commit([start(2)].into()).await.is_err());
    assert!(open.find("order-2").await.unwrap().is_none());
}

#[test]
async fn who_may_only_read_and_writes_is_told_what_to_do() {
    let open = open().await;
    let reader = format!("reader_of_{}", open.database.name());
    let sql = format!(
        "CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA resurgam TO {reader};
         GRANT SELECT ON ALL TABLES IN SCHEMA resurgam TO {reader}"
    );
    open.database.run(&sql).await;
    let url = open.database.url().replace("resurgam@", &format!("{reader}@"));
    let error = look(&url).await.unwrap().commit([start(2)].into()).await.unwrap_err();
    assert!(error.is_unusable(), "{error}");
    let said = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    let text = format!("{error}: {said}");
    assert!(text.contains("use one that may write the tables"), "{text}");
}

#[test]
async fn marks_of_unreadable_rows_are_neither_cleared_nor_made_by_looking() {
    let open = open().await;
    write(&open, [start(1), start(2), start(3)]).await;
    open.database
        .run(
            "UPDATE resurgam.instance SET bad = 'long ago' WHERE id = 'order-1';
             UPDATE resurgam.instance SET input_encoding = 'x' WHERE id = 'order-2'",
        )
        .await;
    let looking = look(&open.database.url()).await.unwrap();
    assert!(!looking.list(InstanceFilter::default()).await.unwrap().is_empty());
    let marks: Vec<String> =
        open.bad_rows(10).await.unwrap().into_iter().map(|row| row.why).collect();
    assert_eq!(marks, ["long ago"]);
}

#[test]
async fn a_store_notices_that_its_schema_was_removed_and_makes_no_other() {
    let open = open().await;
    write(&open, [start(1)]).await;
    assert!(open.gone().is_none());
    let mut changes = open.changes();
    open.database.run("DROP SCHEMA resurgam CASCADE").await;
    while open.gone().is_none() {
        within("news", changes.changed()).await.unwrap();
    }
    let gone = open.gone().unwrap();
    assert!(gone.is_missing(), "{gone}");
    assert!(gone.to_string().contains("schema resurgam of"), "{gone}");
    assert!(gone.to_string().contains("was removed while it was in use"), "{gone}");
    assert!(open.commit([start(2)].into()).await.unwrap_err().is_missing());
    assert_eq!(schemas(&open.database).await, "0");
}
