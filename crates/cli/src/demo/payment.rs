//! A payment service that is often in trouble. What it answers follows from the order's place in
//! its batch and the attempt, so that every run meets the same trouble.

use std::time::Duration;

use resurgam::{ActivityContext, Failure};

use super::shop::Shop;

/// The type of the failure that is never tried again.
pub(super) const DECLINED: &str = "CardDeclined";

/// What the service says to one attempt.
#[derive(Clone, Copy)]
enum Answer {
    /// Nothing at all.
    Silence,
    /// 503.
    Down,
    /// 503, and whoever watches the demo did it.
    Out,
    /// 429, with the wish to be asked again later.
    Busy,
    /// The bank does not want to, and will not want to.
    Declined,
}

/// What the orders of a batch meet before they are paid, by place; then it begins anew.
const TROUBLE: [&[Answer]; 20] = {
    use Answer::*;
    [
        &[],
        &[Down],
        &[Silence],
        &[Declined],
        &[],
        &[Busy],
        &[Down, Down],
        &[],
        &[Silence, Down],
        &[],
        &[Busy],
        &[Down, Silence],
        &[],
        &[Down],
        &[Busy, Down],
        &[],
        &[Silence],
        &[],
        &[Down, Down, Down],
        &[],
    ]
};

/// Takes the money, or says why not.
pub(super) async fn charge(ctx: &ActivityContext, shop: &Shop, place: u32) -> Result<(), Failure> {
    let trouble = TROUBLE[(place as usize).saturating_sub(1) % TROUBLE.len()];
    let answer = match trouble.last() {
        // Also when the first attempt was cut off before it heard of this.
        Some(Answer::Declined) => Some(Answer::Declined),
        _ if shop.is_out() => Some(Answer::Out),
        _ => trouble.get(ctx.attempt() as usize - 1).copied(),
    };
    if let Some(Answer::Silence) = answer {
        // Nobody waits for ever: the attempt's timeout ends this.
        ctx.cancelled().await;
    }
    shop.work(ctx, 200 + 40 * u64::from(place % 5)).await;
    match answer {
        None => Ok(()),
        Some(Answer::Silence) => Err(Failure::new("no answer")),
        Some(Answer::Down) => Err(Failure::of_type("ServiceUnavailable", "503").with_code("503")),
        Some(Answer::Out) => {
            let failure = Failure::of_type("ServiceUnavailable", "the payment gateway is out");
            Err(failure.with_code("503"))
        }
        Some(Answer::Busy) => {
            let later = shop.hurried(Duration::from_millis(1_300));
            Err(Failure::retry_after(later, "429, retry after 1.3s").with_code("429"))
        }
        Some(Answer::Declined) => Err(Failure::of_type(DECLINED, "the bank declined the card")),
    }
}
