//! SQL runs on a database that the engine made, beside a table of the reader's own.

use resurgam::App;
use resurgam_postgres_server::Server;

use crate::snippets::of_kind;
use crate::snippets::page::{Block, Page};

/// The table that the guides write to beside ours.
const OWN: &str = "CREATE TABLE customer_order (id TEXT PRIMARY KEY, cents INTEGER NOT NULL)";

/// Where the statements of a block are for: it says so, or it names the schema.
fn is_for_postgres(block: &Block) -> bool {
    block.info.contains("postgres") || block.text.contains("resurgam.")
}

pub(crate) async fn on_sqlite(pages: &[Page]) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages {
        let blocks: Vec<&Block> = of_kind(page, "sql").filter(|b| !is_for_postgres(b)).collect();
        if blocks.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.db");
        App::builder().sqlite(&file).await.unwrap().stop().await.unwrap();
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.execute_batch(OWN).unwrap();
        for block in blocks {
            let ran = connection.execute_batch(&block.text);
            complaints.extend(ran.err().map(|error| format!("{}: {error}", block.at())));
        }
    }
    complaints
}

pub(crate) async fn on_postgres(pages: &[Page]) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages {
        let blocks: Vec<&Block> = of_kind(page, "sql").filter(|b| is_for_postgres(b)).collect();
        if blocks.is_empty() {
            continue;
        }
        let database = Server::shared().database().await;
        App::builder().postgres(&database.url()).await.unwrap().stop().await.unwrap();
        let (client, connection) = connect(&database.url()).await;
        client.batch_execute(OWN).await.unwrap();
        for block in blocks {
            let ran = client.batch_execute(&block.text).await;
            complaints.extend(ran.err().map(|error| format!("{}: {error:?}", block.at())));
        }
        drop(client);
        connection.await.unwrap();
    }
    complaints
}

async fn connect(
    url: &str,
) -> (resurgam::postgres::tokio_postgres::Client, tokio::task::JoinHandle<()>) {
    let tls = resurgam::postgres::tokio_postgres::NoTls;
    let (client, connection) = resurgam::postgres::tokio_postgres::connect(url, tls).await.unwrap();
    (client, tokio::spawn(async move { connection.await.unwrap() }))
}
