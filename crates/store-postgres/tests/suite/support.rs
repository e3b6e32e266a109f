//! Databases, stores and steps to test with.

use std::ops::Deref;

use resurgam_postgres_server::{Database, Server};
use resurgam_store_postgres::{Options, PostgresStore};

/// A store on a database of its own.
pub(crate) struct Open {
    pub(crate) store: PostgresStore,
    pub(crate) database: Database<'static>,
}

impl Deref for Open {
    type Target = PostgresStore;

    fn deref(&self) -> &PostgresStore {
        &self.store
    }
}

/// A database with our schema and nothing in it.
pub(crate) async fn database() -> Database<'static> {
    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url, few()).await.unwrap();
        store.close().await;
    };
    Server::shared().copy(prepare).await
}

/// A store on a database of its own.
pub(crate) async fn open() -> Open {
    let database = database().await;
    let store = PostgresStore::connect(&database.url(), few()).await.unwrap();
    Open { store, database }
}

/// As few connections as will do: many tests run at a time.
pub(crate) fn few() -> Options {
    Options::default().lanes(1).readers(1)
}
