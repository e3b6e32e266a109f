//! The promises behind PgBouncer in transaction mode, which keeps nothing of a session.

use resurgam_watchdog::test;

use resurgam_postgres_server::Server;
use resurgam_store_postgres::PostgresStore;

use crate::support::{Open, database, few};

async fn fresh() -> Open {
    let database = database().await;
    let url = Server::shared().pooler().url(database.name());
    let options = few().listen_url(database.url());
    let store = PostgresStore::connect(&url, options).await.unwrap();
    Open { store, database }
}

resurgam_store::conformance_tests!(fresh);
