//! The demo's program: what happens to an order. This is what a user of Resurgam writes.

use std::time::Duration;

use resurgam::prelude::*;
use resurgam::retry::{Exhausted, LostWorker, Timeouts};
use serde::{Deserialize, Serialize};

use super::payment;
use super::shop::Shop;

/// The name of the workflow in the file, where it may stand beside others.
pub(super) const NAME: &str = <fulfil as resurgam::Workflow>::NAME;

/// Bounds the attempts of every call.
pub(super) const MAX_ATTEMPTS: u32 = 6;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) number: u32,
    pub(super) batch: Batch,
    items: Vec<String>,
    cents: u64,
}

/// Orders that were started together: `size` numbers from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) first: u32,
    pub(super) size: u32,
}

/// The argument of the workflow, as it is stored.
#[derive(Debug, Deserialize)]
pub(super) struct Argument {
    pub(super) order: Order,
}

/// Survives crashes: what is done is written down, and nothing that is done happens again.
#[workflow(name = "demo.order")]
pub(super) async fn fulfil(ctx: WorkflowContext, order: Order) -> Result<String, Failure> {
    let items = || order.items.iter().cloned();
    // All items at once; each is retried by itself.
    ctx.join_all(items().map(|item| ctx.call(reserve(item)))).await?;
    if let Err(failure) = ctx.call(charge(order.place(), order.cents)).await {
        // Retrying did not help, or would not: what was taken is given back.
        ctx.join_all(items().map(|item| ctx.call(release(item)))).await?;
        ctx.call(notify(format!("{} is cancelled: {failure}", order.id()))).await?;
        return Err(failure);
    }
    let parcel = ctx.call(ship(order.number)).await?;
    ctx.call(notify(format!("{} is on its way as {parcel}", order.id()))).await?;
    Ok(parcel)
}

/// Four people work in the warehouse: other items wait for a free pair of hands.
#[activity(max_concurrent = 4)]
async fn reserve(ctx: ActivityContext, item: String) -> Result<(), Failure> {
    let shop = Shop::begin(&ctx)?;
    shop.work(&ctx, 260 + 30 * (item.len() as u64 % 4)).await;
    Ok(())
}

#[activity]
async fn release(ctx: ActivityContext, item: String) -> Result<(), Failure> {
    let shop = Shop::begin(&ctx)?;
    shop.work(&ctx, 40 * item.len() as u64).await;
    Ok(())
}

#[activity]
async fn charge(ctx: ActivityContext, place: u32, cents: u64) -> Result<String, Failure> {
    let shop = Shop::begin(&ctx)?;
    payment::charge(&ctx, &shop, place).await?;
    // The key is the same for every attempt, so a service that took the money and then lost its
    // answer, or us, takes it once.
    Ok(format!("{cents} cents paid with key {}", ctx.idempotency_key()))
}

#[activity]
async fn ship(ctx: ActivityContext, number: u32) -> Result<String, Failure> {
    let shop = Shop::begin(&ctx)?;
    shop.work(&ctx, 350).await;
    Ok(format!("parcel-{number}"))
}

#[activity]
async fn notify(ctx: ActivityContext, text: String) -> Result<usize, Failure> {
    let shop = Shop::begin(&ctx)?;
    shop.work(&ctx, 150).await;
    // Every order ends with this, unless the attempt came too late.
    if !ctx.is_cancelled() {
        shop.brink.finish();
    }
    Ok(text.len())
}

/// The program on an app, everything `speed` times faster than life.
pub(super) fn app(shop: Shop, speed: u32, policy: RetryPolicy) -> resurgam::AppBuilder {
    App::builder()
        .workflow(fulfil)
        .activity(reserve)
        .activity(release)
        .activity(charge)
        .activity(ship)
        .activity(notify)
        .state(shop)
        .retry(policy)
        .grace(Duration::from_millis(400) / speed)
}

/// 0.4 s, 0.8 s, 1.6 s, each spread by half.
pub(super) fn policy(speed: u32) -> RetryPolicy {
    tries(Duration::from_millis(400), Duration::from_secs(4), speed)
}

/// For orders that are watched: 2 s, 4 s, 8 s, up to 20 s. Calls that run out of attempts wait for
/// somebody.
pub(super) fn patient(speed: u32) -> RetryPolicy {
    let tries = tries(Duration::from_secs(2), Duration::from_secs(20), speed);
    tries.on_exhausted(Exhausted::Pause { wait: None })
}

/// An attempt that takes longer than a second has failed, and a card that was declined is declined
/// the next time too.
fn tries(initial: Duration, max_delay: Duration, speed: u32) -> RetryPolicy {
    let timeouts =
        Timeouts { attempt: Some(Duration::from_secs(1) / speed), ..Timeouts::default() };
    RetryPolicy::exponential(initial / speed)
        .max_attempts(MAX_ATTEMPTS)
        .max_delay(max_delay / speed)
        .timeouts(timeouts)
        .never_for(&[payment::DECLINED])
        // People who crash the demo ten times in a row want to see it go on.
        .lost_worker(LostWorker { max: 1_000, initial: Duration::ZERO, ..LostWorker::DEFAULT })
}

impl Order {
    /// An order of a batch: what is in it follows from its number.
    pub(super) fn of(batch: Batch, number: u32) -> Self {
        const ITEMS: [&str; 7] = ["lamp", "bulb", "candle", "torch", "lantern", "wick", "match"];
        let count = 1 + number as usize % 3;
        let items = ITEMS.iter().cycle().skip(number as usize % 7).take(count);
        let items = items.map(ToString::to_string).collect();
        Order { number, batch, items, cents: 900 + u64::from(number) * 70 }
    }

    pub(super) fn id(&self) -> String {
        id(self.number)
    }

    /// Its place in the batch, from 1. Each batch meets the same trouble.
    fn place(&self) -> u32 {
        self.number.saturating_sub(self.batch.first).saturating_add(1)
    }
}

impl Batch {
    pub(super) fn numbers(self) -> std::ops::Range<u32> {
        self.first..self.first.saturating_add(self.size)
    }

    /// The number of an order of this batch.
    pub(super) fn number(self, id: &str) -> Option<u32> {
        let number = id.strip_prefix("order-")?.parse().ok()?;
        self.numbers().contains(&number).then_some(number)
    }
}

fn id(number: u32) -> String {
    format!("order-{number}")
}
