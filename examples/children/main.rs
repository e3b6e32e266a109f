//! Children: a round of deliveries starts one workflow for each parcel. A delivery that fails is
//! tried again from the beginning, by a policy of its own; the round sees only how it ended.
//!
//! ```sh
//! cargo run -p resurgam-examples --bin children -- deliveries.db
//! ```

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use resurgam::prelude::*;
use serde::{Deserialize, Serialize};

/// Three runs of a delivery, a moment apart.
const ANOTHER_DAY: RetryPolicy = RetryPolicy::fixed(Duration::from_millis(100)).max_attempts(3);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parcel {
    number: String,
    street: String,
}

#[workflow]
async fn round(ctx: WorkflowContext, parcels: Vec<Parcel>) -> Result<Vec<String>, Failure> {
    // Children have ids, so that they can be looked at, signalled and cancelled by themselves.
    let deliveries = parcels.into_iter().map(|parcel| {
        let id = format!("delivery-{}", parcel.number);
        ctx.child(deliver(parcel)).id(id).retry(ANOTHER_DAY)
    });
    ctx.join_all(deliveries).await
}

/// One run of a delivery. Another run begins from the beginning: what must not be lost in between
/// is in the instance's own data.
#[workflow]
async fn deliver(ctx: WorkflowContext, parcel: Parcel) -> Result<String, Failure> {
    let tries = ctx.get::<u32>("tries").unwrap_or(0) + 1;
    ctx.set("tries", &tries);
    // One attempt: what to do when nobody is at home is for the delivery to say, not for the door.
    ctx.call(ring(parcel.clone())).retry(RetryPolicy::once()).await?;
    Ok(format!("{} is delivered, at try {tries}", parcel.number))
}

#[activity]
async fn ring(ctx: ActivityContext, parcel: Parcel) -> Result<(), Failure> {
    match ctx.state::<Doors>().ring(&parcel.street) {
        1 if parcel.street.starts_with("Empty") => Err(Failure::of_type("NobodyHome", "no answer")),
        _ => Ok(()),
    }
}

/// Which doors were rung how often.
#[derive(Debug, Default)]
struct Doors(Mutex<HashMap<String, u32>>);

impl Doors {
    fn ring(&self, street: &str) -> u32 {
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = doors.entry(street.to_string()).or_default();
        *times += 1;
        *times
    }
}

fn parcels() -> Vec<Parcel> {
    let streets = [("1", "Harbour Street"), ("2", "Empty Street")];
    let parcel = |(number, street): (&str, &str)| Parcel {
        number: number.to_string(),
        street: street.to_string(),
    };
    streets.into_iter().map(parcel).collect()
}

#[tokio::main]
async fn main() -> resurgam::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "deliveries.db".to_string());
    let app = App::builder()
        .workflow(round)
        .workflow(deliver)
        .activity(ring)
        .state(Doors::default())
        .sqlite(&file)
        .await?;
    match app.start("round-1", round(parcels())).await {
        Err(error) if !error.is_already_exists() => return Err(error),
        _ => println!("round-1 has {} parcels", parcels().len()),
    }
    if let Some(run) = app.instance::<Vec<String>>("round-1").await? {
        for delivered in run.result().await? {
            println!("  {delivered}");
        }
        println!("\n{}", run.history().await?);
    }
    app.stop().await
}

#[cfg(test)]
mod tests {
    //! In virtual time.
    #![allow(clippy::unwrap_used)]

    use resurgam_testing::{TestApp, TestBuilder};

    use super::*;

    fn builder() -> TestBuilder {
        TestApp::builder().workflow(round).workflow(deliver)
    }

    #[tokio::test]
    async fn a_delivery_that_fails_is_tried_again_and_the_round_hears_nothing_of_it() {
        let app = builder().activity(ring).state(Doors::default()).start().await;
        let run = app.start("round-1", round(parcels())).await;
        let delivered = run.result().await.unwrap();
        assert_eq!(delivered, ["1 is delivered, at try 1", "2 is delivered, at try 2"]);
        let history = run.history().await;
        assert_eq!(history.matches("ChildStarted").count(), 2, "{history}");
        assert_eq!(history.matches("ChildFailed").count(), 0, "{history}");
    }

    #[tokio::test]
    async fn a_delivery_that_always_fails_fails_the_round_after_three_runs() {
        let app = builder()
            .stub(ring, |_, _| Err(Failure::of_type("NobodyHome", "no answer")))
            .start()
            .await;
        let run = app.start("round-1", round(parcels())).await;
        let failure = run.failure().await;
        assert_eq!(failure.type_name.as_deref(), Some("NobodyHome"));
        // Two parcels, three runs of each.
        assert_eq!(app.attempts(ring), 6);
    }
}
