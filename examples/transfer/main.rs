//! A bank in the same file: money moves between two accounts exactly once.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin transfer -- bank.db
//! ```
//!
//! The first attempt of every transfer fails after it has written: nothing of it stays. Kill the
//! program and start it again, as often as you like: the money moves once, and no idempotency key
//! is needed for that, because the accounts and the workflow are in one database.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::sqlite::TransactionExt;
use resurgam::sqlite::rusqlite::Transaction;
use serde::{Deserialize, Serialize};

const PATIENT: RetryPolicy = RetryPolicy::fixed(Duration::from_millis(100)).max_attempts(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Receipt {
    from: String,
    to: String,
    cents: i64,
    left: i64,
}

#[workflow]
async fn pay(
    ctx: WorkflowContext,
    from: String,
    to: String,
    cents: i64,
) -> Result<Receipt, Failure> {
    let receipt = ctx.call(transfer(from, to, cents)).await?;
    ctx.call(tell(receipt.clone())).await?;
    Ok(receipt)
}

/// What is written in here and the receipt are recorded together, or neither is.
#[activity(retry = PATIENT)]
async fn transfer(
    ctx: ActivityContext,
    from: String,
    to: String,
    cents: i64,
) -> Result<Receipt, Failure> {
    let attempt = ctx.attempt();
    ctx.transaction(move |tx| {
        let left = balance(tx, &from)? - cents;
        if left < 0 {
            // Never again: the policy is not asked.
            return Err(Failure::terminal(format!("{from} lacks {} cents", -left)));
        }
        tx.execute("UPDATE account SET cents = cents - ?2 WHERE name = ?1", (&from, cents))?;
        tx.execute("UPDATE account SET cents = cents + ?2 WHERE name = ?1", (&to, cents))?;
        if attempt == 1 {
            return Err(Failure::new("the pen broke after both lines were written"));
        }
        Ok(Receipt { from: from.clone(), to: to.clone(), cents, left })
    })
    .await
}

/// An ordinary activity: it may happen more than once, which is harmless here.
#[activity]
async fn tell(receipt: Receipt) -> Result<(), Failure> {
    println!("{} gets {} cents from {}", receipt.to, receipt.cents, receipt.from);
    Ok(())
}

/// Any function that takes a connection can be used inside a transaction.
fn balance(tx: &Transaction<'_>, name: &str) -> Result<i64, Failure> {
    Ok(tx.query_row("SELECT cents FROM account WHERE name = ?1", [name], |row| row.get(0))?)
}

/// Runs at every start, before any workflow goes on.
fn set_up(tx: &Transaction<'_>) -> Result<(), Failure> {
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS account (
             name  TEXT PRIMARY KEY,
             cents INTEGER NOT NULL CHECK (cents >= 0)
         ) STRICT;
         INSERT OR IGNORE INTO account VALUES ('ada', 10000), ('bob', 0);",
    )?;
    Ok(())
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "bank.db".to_string());
    let app = App::builder()
        .workflow(pay)
        .activity(transfer)
        .activity(tell)
        .sqlite_setup(set_up)
        .sqlite(&file)
        .await?;

    let rent = pay("ada".to_string(), "bob".to_string(), 3_000);
    match app.start("rent-july", rent).await {
        Ok(_) => println!("the rent is on its way, in {file}"),
        Err(error) if error.is_already_exists() => println!("the rent was on its way before"),
        Err(error) => return Err(error),
    }
    if let Some(rent) = app.instance::<Receipt>("rent-july").await? {
        println!("{} cents are left\n", rent.result().await?.left);
        print!("{}", rent.history().await?);
    }

    // Nobody else in this process opens the file: the app reads it for us.
    let balances = app.tables().read(|tx| Ok((balance(tx, "ada")?, balance(tx, "bob")?)));
    let (ada, bob) = balances.await?;
    println!("\nada has {ada} cents, bob has {bob}");
    app.stop().await
}

#[cfg(test)]
mod tests;
