//! Statements are prepared where a connection has a session of its own, and nowhere else.

use std::time::{Duration, Instant};

use resurgam_postgres_server::Server;
use resurgam_store_postgres::PostgresStore;

use crate::support::{Open, database, few, note, poll, start, write};

/// How many statements of this schema the server carried out that were prepared before.
fn prepared(schema: &str) -> usize {
    let of_schema = format!("\"{schema}\".");
    let log = Server::shared().log();
    let is_prepared = |entry: &&str| entry.starts_with("execute s") && entry.contains(&of_schema);
    log.split("LOG:  ").filter(is_prepared).count()
}

/// A store whose statements the server writes down.
async fn watched(schema: &str, through: impl FnOnce(&str) -> String) -> Open {
    let database = database().await;
    let name = database.name();
    database.run(&format!("ALTER DATABASE {name} SET log_statement = 'all'")).await;
    let options = few().schema(schema);
    let store = PostgresStore::connect(&through(name), options).await.unwrap();
    Open { store, database }
}

#[tokio::test]
async fn a_connection_with_a_session_of_its_own_prepares_what_it_repeats() {
    let server = Server::shared();
    let store = watched("direct", |name| server.url(name)).await;
    write(&store, [start(1)]).await;
    let mut seq = 2;
    poll(async || {
        seq += 1;
        write(&store, [note(1, seq)]).await;
        (prepared("direct") > 0).then_some(())
    })
    .await;
    store.close().await;
}

#[tokio::test]
async fn behind_a_pooler_nothing_is_prepared_although_nobody_said_that_there_is_one() {
    let server = Server::shared();
    let store = watched("pooled", |name| server.pooler().url(name)).await;
    write(&store, [start(1)]).await;
    let (since, mut seq) = (Instant::now(), 2);
    while since.elapsed() < Duration::from_millis(500) {
        seq += 1;
        write(&store, [note(1, seq)]).await;
    }
    store.close().await;
    assert_eq!(prepared("pooled"), 0);
    assert!(Server::shared().log().contains("\"pooled\"."), "the server writes them down");
}
