//! The database of an app under test, chosen when the test runs.

use std::any::Any;
use std::sync::Arc;

use resurgam::SqliteOptions;
use resurgam::sqlite::Setup;
use resurgam_store::Store;
use resurgam_store_sqlite::SqliteStore;

/// Where `RESURGAM_TEST_STORE` says that apps under test keep what they know.
///
/// ```
/// use resurgam_testing::TestStore;
///
/// # if std::env::var_os("RESURGAM_TEST_STORE").is_none() {
/// assert_eq!(TestStore::chosen(), TestStore::Memory);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStore {
    /// `memory`, or nothing: a SQLite database in memory.
    Memory,
    /// `file`: a SQLite file in a temporary folder.
    File,
    /// `postgres`: a database of its own on a private server, with the feature `postgres`.
    Postgres,
}

impl TestStore {
    /// The variable that names the store.
    pub const VARIABLE: &str = "RESURGAM_TEST_STORE";

    /// The store that apps under test use in this process.
    ///
    /// # Panics
    /// When `RESURGAM_TEST_STORE` names no store.
    pub fn chosen() -> Self {
        match std::env::var(TestStore::VARIABLE).as_deref() {
            Err(_) | Ok("memory") => TestStore::Memory,
            Ok("file") => TestStore::File,
            Ok("postgres") => TestStore::Postgres,
            Ok(other) => panic!(
                "{}={other}: there is no such store; memory, file and postgres are known",
                TestStore::VARIABLE
            ),
        }
    }
}

/// How it is used.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) sqlite: SqliteOptions,
    pub(crate) setup: Setup,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: resurgam::PostgresOptions,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sqlite: SqliteOptions::default(),
            setup: Setup::default(),
            // A session costs more than a small test does.
            #[cfg(feature = "postgres")]
            postgres: resurgam::PostgresOptions::default().lanes(1).readers(1),
        }
    }
}

/// A store with nothing in it, and what must be kept as long as it is used.
pub(crate) type Fresh = (Arc<dyn Store>, Box<dyn Any + Send + Sync>);

impl Settings {
    pub(crate) async fn fresh(self) -> Fresh {
        match TestStore::chosen() {
            TestStore::Memory => {
                let store = SqliteStore::in_memory_with(self.sqlite);
                let store = store.expect("an in-memory database");
                self.setup.run(&store).await.expect("tables that can be made");
                (Arc::new(store), Box::new(()))
            }
            TestStore::File => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let store = SqliteStore::open(folder.path().join("test.db"), self.sqlite);
                let store = store.expect("a database file");
                self.setup.run(&store).await.expect("tables that can be made");
                (Arc::new(store), Box::new(folder))
            }
            TestStore::Postgres => self.fresh_on_postgres().await,
        }
    }

    #[cfg(not(feature = "postgres"))]
    async fn fresh_on_postgres(self) -> Fresh {
        panic!("{}=postgres needs the feature `postgres` of resurgam-testing", TestStore::VARIABLE)
    }

    #[cfg(feature = "postgres")]
    async fn fresh_on_postgres(self) -> Fresh {
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
#[doc(hidden)]
pub async fn postgres_database() -> resurgam_postgres_server::Database<'static> {
    use resurgam_store_postgres::{Options, PostgresStore};

    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url, Options::default()).await;
        store.expect("a database that can be used").close().await;
    };
    resurgam_postgres_server::Server::shared().copy(prepare).await
}
