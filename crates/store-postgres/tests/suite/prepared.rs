//! Statements are prepared where a connection has a session of its own, and nowhere else.

use resurgam_postgres_server::Server;
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::support::{few, note, poll, prepared, preparing, start, statements, watched, write};

#[test]
async fn a_connection_with_a_session_of_its_own_prepares_what_it_repeats() {
    let database = watched().await;
    let (store, _) = preparing(&database.url(), "direct", few()).await;
    store.close().await;
}

#[test]
async fn behind_a_pooler_nothing_is_prepared_although_nobody_said_that_there_is_one() {
    let database = watched().await;
    let url = Server::shared().pooler().url(database.name());
    let options = few().schema("pooled");
    let store = PostgresStore::connect(&url, options).await.unwrap();
    write(&store, [start(1)]).await;
    let mut seq = 2;
    // Until it has said something to itself, and for a while after that.
    poll("what it says to itself", async || {
        seq += 1;
        write(&store, [note(1, seq)]).await;
        says_something_to_itself("pooled").then_some(())
    })
    .await;
    for seq in seq + 1..seq + 101 {
        write(&store, [note(1, seq)]).await;
    }
    store.close().await;
    assert_eq!(prepared("pooled"), 0);
    assert!(!statements("pooled").is_empty(), "the server writes them down");
}

/// Citus cannot be installed everywhere, so only its name stands in the catalogue here: what is
/// tested is what is sent.
#[test]
async fn with_citus_nothing_is_prepared_and_the_schema_is_made_by_itself() {
    let database = watched().await;
    database
        .run(
            "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable,
                                       extversion)
             VALUES (99999, 'citus', 10, 11, false, '13.0')",
        )
        .await;
    let options = few().schema("spread");
    let store = PostgresStore::connect(&database.url(), options).await.unwrap();
    write(&store, [start(1)]).await;
    let mut seq = 2;
    poll("what it says to itself", async || {
        seq += 1;
        write(&store, [note(1, seq)]).await;
        says_something_to_itself("spread").then_some(())
    })
    .await;
    for seq in seq + 1..seq + 101 {
        write(&store, [note(1, seq)]).await;
    }
    store.close().await;
    assert_eq!(prepared("spread"), 0);
    let log = Server::shared().log();
    let made =
        log.split("LOG:  ").find(|entry| entry.contains("CREATE SCHEMA IF NOT EXISTS \"spread\""));
    assert!(made.is_some_and(|entry| !entry.contains("CREATE TABLE")), "{made:?}");
}

/// True once the store has tried to hear itself, as far as the server has written that down.
fn says_something_to_itself(schema: &str) -> bool {
    let to_all = format!("NOTIFY \"resurgam {schema}\"");
    Server::shared().log().lines().any(|line| line.contains(&to_all) && line.contains(" self'"))
}
