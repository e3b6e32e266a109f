//! The database of an app under test: in memory, or on PostgreSQL where these sources are built
//! for that.

use std::any::Any;
use std::sync::Arc;

use resurgam::SqliteOptions;
use resurgam::sqlite::Setup;
use resurgam_store::Store;

/// A store with nothing in it, and what must be kept as long as it is used.
pub(crate) type Fresh = (Arc<dyn Store>, Box<dyn Any + Send + Sync>);

#[cfg(not(feature = "postgres"))]
pub(crate) async fn fresh(sqlite: SqliteOptions, setup: Setup) -> Fresh {
    let store = resurgam_store_sqlite::SqliteStore::in_memory_with(sqlite);
    let store = store.expect("an in-memory database");
    setup.run(&store).await.expect("tables that can be made");
    (Arc::new(store), Box::new(()))
}

/// A database of its own on a server that all tests of the process share.
#[cfg(feature = "postgres")]
pub(crate) async fn fresh(_: SqliteOptions, _: Setup) -> Fresh {
    use resurgam_postgres_server::Server;
    use resurgam_store_postgres::{Options, PostgresStore};

    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url, Options::default()).await;
        store.expect("a database that can be used").close().await;
    };
    let database = Server::shared().copy(prepare).await;
    let options = Options::default().without_listening();
    let store = PostgresStore::connect(&database.url(), options).await;
    (Arc::new(store.expect("a database that can be used")), Box::new(database))
}
