//! A PostgreSQL database, and somebody who speaks SQL to it, with the face of `ground_sqlite.rs`.

use std::sync::Arc;

use resurgam::{App, AppBuilder};
use resurgam_postgres_server::Database;
use resurgam_store_postgres::{Options, PostgresStore};
use resurgam_testing::{TestApp, TestBuilder};

/// The values of a row that cannot be read, and how its refusal begins.
pub(crate) const UNREADABLE: (&str, &str) = (
    "(NULL, 'unread', 'start', 'fulfil', '{}');
     UPDATE inbox SET encoding = 'zstd' WHERE instance = 'unread'",
    "the encoding \"zstd\" is not known here",
);

/// Which of the guide's examples is the order in somebody's own transaction.
pub(crate) const ORDER: usize = 3;

pub(crate) struct Ground {
    database: Database<'static>,
}

impl Ground {
    /// A database with all its tables. Who speaks SQL need not name the schema.
    pub(crate) async fn new() -> Self {
        let database = resurgam_testing::postgres_database().await;
        let name = database.name();
        let path = format!("ALTER DATABASE {name} SET search_path = public, resurgam");
        database.run(&path).await;
        Ground { database }
    }

    /// Runs statements, as somebody does who knows nothing of us.
    pub(crate) async fn run(&self, sql: &str) {
        self.database.run(sql).await;
    }

    /// Inserts rows: id, instance, kind, name, body.
    pub(crate) async fn insert(&self, values: &str) {
        let columns = "id, instance, kind, name, body";
        let told = "NOTIFY \"resurgam resurgam\"";
        self.run(&format!("INSERT INTO inbox ({columns}) VALUES {values}; {told}")).await;
    }

    /// The number that a query answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.database.ask(sql).await.parse().unwrap()
    }

    /// What is left in the inbox: why each row was refused, if it was.
    pub(crate) async fn left(&self) -> Vec<Option<String>> {
        let rows = "SELECT coalesce(json_agg(error ORDER BY arrival), '[]') FROM inbox";
        serde_json::from_str(&self.database.ask(rows).await).unwrap()
    }

    /// Begins an app in virtual time: it finds what was inserted before it began.
    pub(crate) async fn start(&self, builder: TestBuilder) -> TestApp {
        let options = Options::default().without_listening();
        let store = PostgresStore::connect(&self.database.url(), options).await.unwrap();
        builder.start_on(Arc::new(store))
    }

    /// Begins an app as people do.
    pub(crate) async fn begin(&self, builder: AppBuilder) -> App {
        builder.postgres(&self.database.url()).await.unwrap()
    }
}
