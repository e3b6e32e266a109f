//! Random batches mean the same to SQLite as to the model.

use std::sync::Arc;

use resurgam_core::{Payload, UserWork};
use resurgam_store::conformance::differential::{self, Subject, Tally};
use resurgam_store::{InboxRow, Store};
use resurgam_store_sqlite::{SqliteStore, SqliteWork};
use resurgam_watchdog::test;

struct InMemory(SqliteStore);

impl Subject for InMemory {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    fn other(&self) -> Option<&dyn Store> {
        None
    }

    async fn insert_inbox(&self, row: InboxRow) {
        let quoted =
            |text: Option<&str>| text.map_or("NULL".to_string(), |text| format!("'{text}'"));
        let sql = format!(
            "INSERT INTO inbox (id, instance, kind, name, body) VALUES ({}, '{}', '{}', {}, {})",
            quoted(row.id.as_deref()),
            row.instance,
            row.kind,
            quoted(row.name.as_deref()),
            quoted(row.body.as_ref().map(Payload::as_str)),
        );
        self.0.run_on_writer(&sql).await.unwrap();
    }

    fn work(&self, result: Payload) -> UserWork {
        Arc::new(SqliteWork::new(move |_| Ok(result.clone())))
    }
}

#[test]
async fn random_batches_mean_what_the_model_says() {
    let (seeds, mut tally) = (differential::seeds(8), Tally::default());
    for seed in &seeds {
        let subject = InMemory(SqliteStore::in_memory().unwrap());
        differential::compare(&subject, *seed, 35, &mut tally).await;
        subject.0.close().await;
    }
    println!("{tally:?}");
    if seeds.len() > 1 {
        tally.assert_everything_came();
    }
}
