//! Random batches mean the same to PostgreSQL as to the model, and so do claims of other nodes.

use std::sync::Arc;

use resurgam_core::{Payload, UserWork};
use resurgam_store::conformance::differential::{self, Subject, Tally};
use resurgam_store::{InboxRow, Store};
use resurgam_store_postgres::{PostgresStore, PostgresWork};
use resurgam_watchdog::test;

use crate::support::{Open, connect, open};

/// A store on a database of its own, and perhaps another one on the same.
struct OnServer {
    open: Open,
    other: Option<PostgresStore>,
}

impl Subject for OnServer {
    fn store(&self) -> &dyn Store {
        &self.open.store
    }

    fn other(&self) -> Option<&dyn Store> {
        self.other.as_ref().map(|store| store as &dyn Store)
    }

    async fn insert_inbox(&self, row: InboxRow) {
        let quoted =
            |text: Option<&str>| text.map_or("NULL".to_string(), |text| format!("'{text}'"));
        let values = format!(
            "({}, '{}', '{}', {}, {})",
            quoted(row.id.as_deref()),
            row.instance,
            row.kind,
            quoted(row.name.as_deref()),
            quoted(row.body.as_ref().map(Payload::as_str)),
        );
        let columns = "id, instance, kind, name, body";
        let sql = format!("INSERT INTO resurgam.inbox ({columns}) VALUES {values}");
        self.open.database.run(&sql).await;
    }

    fn work(&self, result: Payload) -> UserWork {
        Arc::new(PostgresWork::new(async move |_| Ok(result.clone())))
    }

    fn rounds_between_reads(&self) -> usize {
        5
    }
}

/// Fewer seeds than for SQLite, whose test shows that every answer comes: a server takes its time.
#[test]
async fn random_batches_mean_what_the_model_says() {
    let mut tally = Tally::default();
    for seed in differential::seeds(3) {
        let subject = OnServer { open: open().await, other: None };
        differential::compare(&subject, seed, 30, &mut tally).await;
        subject.open.close().await;
    }
    println!("{tally:?}");
}

#[test]
async fn random_claims_of_other_nodes_mean_what_the_model_says() {
    for seed in differential::seeds(2) {
        let open = open().await;
        let other = connect(&open.database).await;
        let subject = OnServer { open, other: Some(other) };
        differential::compare_claims(&subject, seed, 25).await;
    }
}
