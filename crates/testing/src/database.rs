//! The database of an app under test: in memory, or on PostgreSQL where these sources are built
//! for that.

use std::any::Any;
use std::sync::Arc;

use resurgam::SqliteOptions;
use resurgam::sqlite::Setup;
use resurgam_store::Store;

/// How it is used.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) sqlite: SqliteOptions,
    pub(crate) setup: Setup,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: resurgam::PostgresOptions,
}

/// A store with nothing in it, and what must be kept as long as it is used.
pub(crate) type Fresh = (Arc<dyn Store>, Box<dyn Any + Send + Sync>);

#[cfg(not(feature = "postgres"))]
impl Settings {
    pub(crate) async fn fresh(self) -> Fresh {
        let store = resurgam_store_sqlite::SqliteStore::in_memory_with(self.sqlite);
        let store = store.expect("an in-memory database");
        self.setup.run(&store).await.expect("tables that can be made");
        (Arc::new(store), Box::new(()))
    }
}

#[cfg(feature = "postgres")]
impl Settings {
    pub(crate) async fn fresh(self) -> Fresh {
        let database = postgres_database().await;
        let options = self.postgres.without_listening();
        let store = resurgam_store_postgres::PostgresStore::connect(&database.url(), options).await;
        (Arc::new(store.expect("a database that can be used")), Box::new(database))
    }
}

/// A database of its own, with all our tables, on a server that all tests of the process share.
///
/// # Panics
/// When there is no PostgreSQL.
#[cfg(feature = "postgres")]
pub async fn postgres_database() -> resurgam_postgres_server::Database<'static> {
    use resurgam_store_postgres::{Options, PostgresStore};

    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url, Options::default()).await;
        store.expect("a database that can be used").close().await;
    };
    resurgam_postgres_server::Server::shared().copy(prepare).await
}
