//! A word with a PostgreSQL server, beside the store.

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::Result;

/// A connection of its own, without encryption: what is measured is nearby.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its end is no news: whoever still asks hears of it.
    tokio::spawn(connection);
    Ok(client)
}

/// Runs SQL.
pub(crate) async fn run(url: &str, sql: &str) -> Result<()> {
    Ok(connect(url).await?.batch_execute(sql).await?)
}

/// The single value that a query answers, as text.
pub(crate) async fn ask(url: &str, sql: &str) -> Result<String> {
    let messages = connect(url).await?.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.unwrap_or_default().to_string())
}
