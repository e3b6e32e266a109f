//! An order: its items are reserved, the card is charged, the parcel is shipped.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin order -- orders.db
//! ```
//!
//! The payment gateway is down for the first two attempts of every charge. Kill the program while
//! it waits and start it again: the order goes on where it was, and no card is charged twice.

mod gateway;
mod warehouse;

use std::time::Duration;

use gateway::{Gateway, Receipt};
use resurgam::prelude::*;
use serde::{Deserialize, Serialize};
use warehouse::Tracking;

/// 200 ms, 400 ms, 800 ms and so on, each spread by half, for eight attempts. A card that was
/// declined is declined the next time too.
const PAYMENT: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(200))
    .max_attempts(8)
    .max_delay(Duration::from_secs(30))
    .never_for(&["CardDeclined"]);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: String,
    items: Vec<String>,
    total_cents: u64,
    card: String,
    address: String,
}

/// Survives crashes: what is done is written down, and nothing that is done happens again.
#[workflow]
async fn fulfil(ctx: WorkflowContext, order: Order) -> Result<Tracking, Failure> {
    // All items at once. Each is retried by itself, and all are done when this returns.
    ctx.join_all(order.items.iter().map(|item| ctx.call(reserve(item.clone())))).await?;
    ctx.call(charge(order.card.clone(), order.total_cents)).await?;
    ctx.call(ship(order)).retry(PAYMENT.max_attempts(3)).await
}

/// Without a policy of its own it has the app's: ten attempts over about four minutes.
#[activity]
async fn reserve(item: String) -> Result<String, Failure> {
    Ok(format!("{item} is on shelf {}", item.len()))
}

#[activity(retry = PAYMENT, timeout = Duration::from_secs(10))]
async fn charge(ctx: ActivityContext, card: String, cents: u64) -> Result<Receipt, Failure> {
    let gateway = ctx.state::<Gateway>();
    // A number that makes no sense will not make more sense later: never again.
    gateway::check(&card).terminal()?;
    // Any other error is tried again by policy. The key is the same for every attempt, so a
    // gateway that took the money before it went silent takes it once.
    gateway.charge(&ctx.idempotency_key(), &card, cents).await
}

#[activity]
async fn ship(order: Order) -> Result<Tracking, Failure> {
    let route = warehouse::route(&order.address).terminal()?;
    Ok(Tracking { order: order.id, route })
}

fn an_order() -> Order {
    Order {
        id: "order-42".to_string(),
        items: vec!["lamp".to_string(), "bulb".to_string()],
        total_cents: 4_200,
        card: "4242-4242".to_string(),
        address: "1 Harbour Street".to_string(),
    }
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "orders.db".to_string());
    let app = App::builder()
        .workflow(fulfil)
        .activity(reserve)
        .activity(charge)
        .activity(ship)
        .state(Gateway::new())
        .sqlite(&file)
        .await?;

    let order = an_order();
    let id = order.id.clone();
    match app.start(&id, fulfil(order)).await {
        // It is on the disk: whatever happens to this process, the order will be fulfilled.
        Ok(_) => println!("{id} is started, in {file}"),
        // An id is taken once. Starting again is harmless: nobody has to remember having done it.
        Err(error) if error.is_already_exists() => println!("{id} was started before, in {file}"),
        Err(error) => return Err(error),
    }

    if let Some(order) = app.instance::<Tracking>(&id).await? {
        let tracking = order.result().await?;
        println!("{} goes {}\n", tracking.order, tracking.route);
        print!("{}", order.history().await?);
    }
    app.stop().await
}

#[cfg(test)]
mod tests;
