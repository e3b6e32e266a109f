//! A database, and somebody who speaks SQL to it: a SQLite file, or PostgreSQL.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam::sqlite::rusqlite::Connection;
use resurgam::{App, AppBuilder};
use resurgam_postgres_server::Database;
use resurgam_store_postgres::PostgresStore;
use resurgam_store_sqlite::SqliteStore;
use resurgam_testing::{TestApp, TestBuilder, TestStore};
use tempfile::TempDir;

pub(crate) enum Ground {
    Sqlite(TempDir),
    Postgres(Database<'static>),
}

impl Ground {
    /// A database with all its tables. Who speaks SQL need not name the schema.
    pub(crate) async fn new() -> Self {
        if TestStore::chosen() == TestStore::Postgres {
            let database = resurgam_testing::postgres_database().await;
            let name = database.name();
            let path = format!("ALTER DATABASE {name} SET search_path = public, resurgam");
            database.run(&path).await;
            return Ground::Postgres(database);
        }
        let folder = TempDir::new().unwrap();
        drop(SqliteStore::open(file(&folder), resurgam::SqliteOptions::default()).unwrap());
        Ground::Sqlite(folder)
    }

    /// The values of a row that cannot be read, and how its refusal begins.
    pub(crate) fn unreadable(&self) -> (&'static str, &'static str) {
        match self {
            Ground::Sqlite(_) => {
                ("(NULL, CAST(x'ff' AS TEXT), 'start', 'fulfil', '{}')", "column 3: ")
            }
            Ground::Postgres(_) => (
                "(NULL, 'unread', 'start', 'fulfil', '{}');
                 UPDATE inbox SET encoding = 'zstd' WHERE instance = 'unread'",
                "the encoding \"zstd\" is not known here",
            ),
        }
    }

    /// Which of the guide's examples is the order in somebody's own transaction.
    pub(crate) fn order(&self) -> usize {
        match self {
            Ground::Sqlite(_) => 0,
            Ground::Postgres(_) => 3,
        }
    }

    /// Runs statements, as somebody does who knows nothing of us.
    pub(crate) async fn run(&self, sql: &str) {
        match self {
            Ground::Sqlite(folder) => connect(folder).execute_batch(sql).unwrap(),
            Ground::Postgres(database) => database.run(sql).await,
        }
    }

    /// Inserts rows: id, instance, kind, name, body.
    pub(crate) async fn insert(&self, values: &str) {
        let insert = format!("INSERT INTO inbox (id, instance, kind, name, body) VALUES {values}");
        match self {
            Ground::Sqlite(_) => self.run(&insert).await,
            Ground::Postgres(_) => {
                self.run(&format!("{insert}; NOTIFY \"resurgam resurgam\"")).await;
            }
        }
    }

    /// The number that a query answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match self {
            Ground::Sqlite(folder) => connect(folder).query_row(sql, [], |row| row.get(0)).unwrap(),
            Ground::Postgres(database) => database.ask(sql).await.parse().unwrap(),
        }
    }

    /// What is left in the inbox: why each row was refused, if it was.
    pub(crate) async fn left(&self) -> Vec<Option<String>> {
        match self {
            Ground::Sqlite(folder) => {
                let sql = connect(folder);
                let mut rows = sql.prepare("SELECT error FROM inbox ORDER BY arrival").unwrap();
                let rows = rows.query_map([], |row| row.get(0)).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Ground::Postgres(database) => {
                let rows = "SELECT coalesce(json_agg(error ORDER BY arrival), '[]') FROM inbox";
                serde_json::from_str(&database.ask(rows).await).unwrap()
            }
        }
    }

    /// Begins an app in virtual time: it finds what was inserted before it began.
    pub(crate) async fn start(&self, builder: TestBuilder) -> TestApp {
        match self {
            Ground::Sqlite(folder) => {
                let store = SqliteStore::open(file(folder), resurgam::SqliteOptions::default());
                builder.start_on(Arc::new(store.unwrap()))
            }
            Ground::Postgres(database) => {
                let options = resurgam::PostgresOptions::default().without_listening();
                let store = PostgresStore::connect(&database.url(), options).await;
                builder.start_on(Arc::new(store.unwrap()))
            }
        }
    }

    /// Begins an app as people do.
    pub(crate) async fn begin(&self, builder: AppBuilder) -> App {
        match self {
            Ground::Sqlite(folder) => builder.sqlite(file(folder)).await.unwrap(),
            Ground::Postgres(database) => builder.postgres(&database.url()).await.unwrap(),
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    Path::new(folder.path()).join("orders.db")
}

fn connect(folder: &TempDir) -> Connection {
    let sql = Connection::open(file(folder)).unwrap();
    sql.busy_timeout(Duration::from_secs(5)).unwrap();
    sql
}
