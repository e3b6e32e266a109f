//! What the activities share: the journal, how fast time passes, and the way to a crash.

use std::sync::Arc;
use std::time::Duration;

use resurgam::{ActivityContext, Failure};
use resurgam_server::Switch;

use super::crash::Brink;
use super::journal::Journal;

#[derive(Clone, Debug)]
pub(super) struct Shop {
    journal: Journal,
    speed: u32,
    pub(super) brink: Arc<Brink>,
    /// What turns the payment gateway off, where somebody can.
    gateway: Option<Switch>,
}

impl Shop {
    pub(super) fn new(journal: Journal, speed: u32, crash: bool) -> Self {
        Shop { journal, speed, brink: Arc::new(Brink::new(crash)), gateway: None }
    }

    /// One whose payment gateway can be turned off.
    pub(super) fn behind(mut self, gateway: &Switch) -> Self {
        self.gateway = Some(gateway.clone());
        self
    }

    /// Whether the payment gateway is turned off.
    pub(super) fn is_out(&self) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| !gateway.is_on())
    }

    /// Every attempt begins with this.
    pub(super) fn begin(ctx: &ActivityContext) -> Result<Arc<Shop>, Failure> {
        let shop = ctx.state::<Shop>();
        shop.journal.append(ctx).map_err(|error| {
            Failure::new(format!("append to {}: {error}", shop.journal.path().display()))
        })?;
        Ok(shop)
    }

    /// Works for so many milliseconds.
    pub(super) async fn work(&self, ctx: &ActivityContext, millis: u64) {
        ctx.sleep(self.hurried(Duration::from_millis(millis))).await;
        self.brink.pass().await;
    }

    /// A time of the story as a time of the clock.
    pub(super) fn hurried(&self, time: Duration) -> Duration {
        time / self.speed
    }
}
