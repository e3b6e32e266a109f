//! A SQLite file, and somebody who speaks SQL to it. `ground_postgres.rs` has the same face, so
//! that one source of tests is for both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use resurgam::{App, AppBuilder};
use resurgam_store_sqlite::{Options, SqliteStore};
use resurgam_testing::{TestApp, TestBuilder};
use rusqlite::Connection;
use tempfile::TempDir;

/// The values of a row that cannot be read, and how its refusal begins.
pub(crate) const UNREADABLE: (&str, &str) =
    ("(NULL, CAST(x'ff' AS TEXT), 'start', 'fulfil', '{}')", "column 3: ");

/// Which of the guide's examples is the order in somebody's own transaction.
pub(crate) const ORDER: usize = 0;

pub(crate) struct Ground {
    folder: TempDir,
}

impl Ground {
    /// A file with all its tables.
    pub(crate) async fn new() -> Self {
        let ground = Ground { folder: TempDir::new().unwrap() };
        drop(ground.store());
        ground
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("orders.db")
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(self.file(), Options::default()).unwrap()
    }

    fn sql(&self) -> Connection {
        let sql = Connection::open(self.file()).unwrap();
        sql.busy_timeout(Duration::from_secs(5)).unwrap();
        sql
    }

    /// Runs statements, as somebody does who knows nothing of us.
    pub(crate) async fn run(&self, sql: &str) {
        self.sql().execute_batch(sql).unwrap();
    }

    /// Inserts rows: id, instance, kind, name, body.
    pub(crate) async fn insert(&self, values: &str) {
        self.run(&format!("INSERT INTO inbox (id, instance, kind, name, body) VALUES {values}"))
            .await;
    }

    /// The number that a query answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// What is left in the inbox: why each row was refused, if it was.
    pub(crate) async fn left(&self) -> Vec<Option<String>> {
        let sql = self.sql();
        let mut rows = sql.prepare("SELECT error FROM inbox ORDER BY arrival").unwrap();
        let rows = rows.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Begins an app in virtual time: it finds what was inserted before it began.
    pub(crate) async fn start(&self, builder: TestBuilder) -> TestApp {
        builder.start_on(Arc::new(self.store()))
    }

    /// Begins an app as people do.
    pub(crate) async fn begin(&self, builder: AppBuilder) -> App {
        builder.sqlite(self.file()).await.unwrap()
    }
}
