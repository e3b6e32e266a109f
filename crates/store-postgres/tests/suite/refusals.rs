//! What people run into when they connect, and what they are told.

use resurgam_core::Shard;
use resurgam_postgres_server::Server;
use resurgam_store::rows::TaskRow;
use resurgam_store::{Error, Inspect, Runnable, Work};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::support::*;

async fn refused(url: &str) -> Error {
    let connected = PostgresStore::connect(url, few()).await;
    connected.map(|_| "it was opened").unwrap_err()
}

fn says(error: &Error, words: &[&str]) {
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
async fn a_url_that_cannot_be_read_is_answered_with_one_that_can() {
    for url in ["mysql://localhost", "postgres://localhost:port", "postgres://h/d?colour=red"] {
        let error = refused(url).await;
        assert!(error.is_unusable(), "{error}");
        says(&error, &["postgres://user:password@host:5432/database"]);
    }
}

#[test]
async fn a_server_that_does_not_answer_may_answer_later() {
    let error = refused("postgres://somebody@127.0.0.1:1/orders").await;
    assert!(error.is_transient(), "{error}");
    says(&error, &["orders at 127.0.0.1:1", "check that the server runs"]);
}

#[test]
async fn a_wrong_password_is_named_and_never_shown() {
    let url = database().await.tcp_url().replace("a%20test", "s3cret");
    let error = refused(&url).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["the password is wrong", "28P01"]);
    assert!(!error.to_string().contains("s3cret"), "{error}");
    let error = refused(&url.replace(":s3cret", "")).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["asks for a password"]);
}

#[test]
async fn a_right_password_opens_the_same_database() {
    let database = database().await;
    PostgresStore::connect(&database.tcp_url(), few()).await.unwrap();
}

#[test]
async fn a_database_that_is_not_there_is_named() {
    let url = Server::shared().url("nowhere");
    let error = refused(&url).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["nowhere at", "there is no such database", "createdb"]);
}

#[test]
async fn who_may_not_make_a_schema_is_told_who_can() {
    let database = Server::shared().database().await;
    database.run("CREATE ROLE guest LOGIN").await;
    let url = database.url().replace("resurgam@", "guest@");
    let error = refused(&url).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["make schema resurgam", "CREATE SCHEMA", "GRANT CREATE ON DATABASE"]);

    // Somebody else makes it.
    let store = connect(&database).await;
    let error = refused(&url).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["may not read it", "GRANT USAGE ON SCHEMA"]);
    database
        .run(
            "GRANT USAGE ON SCHEMA resurgam TO guest;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA resurgam TO guest",
        )
        .await;
    let guest = PostgresStore::connect(&url, few()).await.unwrap();
    write(&guest, [start(1)]).await;
    drop(store);
}

/// The statements of the guide, as they stand there.
#[test]
async fn the_roles_of_the_guide_can_do_what_they_are_for() {
    let guide = include_str!("../../../../docs/production.md");
    let (_, roles) = guide.split_once("## Roles").unwrap();
    let (_, roles) = roles.split_once("```sql\n").unwrap();
    let database = Server::shared().database().await;
    database.run(roles.split_once("```").unwrap().0).await;
    let url = |role: &str| database.url().replace("resurgam@", &format!("{role}@"));

    let error = refused(&url("orders_work")).await;
    says(&error, &["make schema resurgam", "this user may not"]);
    PostgresStore::connect(&url("orders_owner"), few()).await.unwrap();
    let worker = PostgresStore::connect(&url("orders_work"), few()).await.unwrap();
    let _right = own(&worker, "node-a").await;
    write(&worker, [start(1)]).await;
    let looking = few().looking_only();
    let looking = PostgresStore::connect_existing(&url("orders_look"), looking).await.unwrap();
    assert_eq!(looking.history(run(1)).await.unwrap().len(), 2);
    let error = refused(&url("orders_look")).await;
    says(&error, &["read-only for this user", "use a user that may write"]);
}

#[test]
async fn the_tables_of_another_program_are_left_alone() {
    let database = Server::shared().database().await;
    database.run("CREATE SCHEMA resurgam; CREATE TABLE resurgam.meta (format int)").await;
    let error = refused(&database.url()).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["tables of another program", "name another schema"]);
    assert_eq!(
        database.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'resurgam'").await,
        "1"
    );
    let elsewhere = few().schema("orders");
    PostgresStore::connect(&database.url(), elsewhere).await.unwrap();
}

#[test]
async fn a_newer_format_is_refused_with_both_versions() {
    let database = database().await;
    let newer = "UPDATE resurgam.meta SET format = 99, min_reader = 98, made_by = '9.9.9'";
    database.run(newer).await;
    let error = refused(&database.url()).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["made by Resurgam 9.9.9", "format 99", "format 98", "newer"]);
    // One that only added can be used.
    database.run("UPDATE resurgam.meta SET min_reader = 1").await;
    connect(&database).await;
}

#[test]
async fn a_task_of_format_3_keeps_its_gate_under_the_new_name() {
    let database = Server::shared().database().await;
    database.run("CREATE SCHEMA resurgam").await;
    for migration in [
        include_str!("../../src/schema.sql"),
        include_str!("../../src/workflows.sql"),
        include_str!("../../src/lacking.sql"),
    ] {
        database.run(&migration.replace('@', "resurgam.")).await;
    }
    let uid = run(1).uid;
    let rows = format!(
        "INSERT INTO resurgam.meta VALUES (1, 3, 3, {}, '{}', '0.1.0');
         INSERT INTO resurgam.task (shard, uid, run, seq, name, queue, lane, priority, policy,
                                    attempt, wake_at, progress)
         VALUES ({}, '{:032x}', 1, 2, 'charge', 'default', 'stripe', 0, 'p', 0, 0, '{{}}')",
        Shard::COUNT,
        Shard::HASH,
        uid.shard().0,
        uid.0
    );
    database.run(&rows).await;

    let store = connect(&database).await;
    let expected = TaskRow { gate: "stripe".into(), ..task(run(1), 2) };
    assert_eq!(store.tasks(run(1)).await.unwrap(), [expected]);
    let _right = own(&store, "node-a").await;
    let due = store.due_tasks(Runnable::default(), LATER, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    write(&store, [start(2)]).await;
    assert_eq!(database.ask("SELECT format FROM resurgam.meta").await, "16");
}

#[test]
async fn another_way_to_spread_instances_is_refused() {
    let database = database().await;
    database.run("UPDATE resurgam.meta SET hash = 'md5'").await;
    let error = refused(&database.url()).await;
    assert!(error.is_unusable(), "{error}");
    says(&error, &["256 shards by \"md5\"", "fnv1a"]);
}

#[test]
async fn a_closed_store_says_so() {
    use resurgam_store::Commit;
    let store = open().await;
    store.close().await;
    let find = store.find("order-1").await.map(|_| ()).unwrap_err();
    let commit = store.commit([start(1)].into()).await.map(|_| ()).unwrap_err();
    for error in [find, commit] {
        assert!(error.is_unusable(), "{error}");
        says(&error, &["the store is closed"]);
    }
}
