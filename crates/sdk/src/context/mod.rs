//! What a workflow can ask for. Every durable point of a workflow is visible as `ctx.`.

mod call;
mod join;
mod signal;
mod sleep;

use std::future::IntoFuture;
use std::time::Duration;

use resurgam_core::machine::SharedMachine;
use resurgam_core::{Failure, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Activity;
pub use call::{Call, CallFuture, call_by_name};
pub use join::{JoinAll, Race};
pub use signal::SignalFuture;
pub use sleep::{Elapsed, Sleep, Timeout};

/// What a workflow waits through. Cloning gives another handle to the same run.
#[derive(Clone, Debug)]
pub struct WorkflowContext {
    machine: SharedMachine,
}

impl WorkflowContext {
    /// The context of a run.
    pub fn new(machine: SharedMachine) -> Self {
        WorkflowContext { machine }
    }

    /// Calls an activity. Nothing happens until the call is awaited; dropping it before it is
    /// done cancels it.
    ///
    /// ```ignore
    /// let receipt = ctx.call(charge(order_id, 4200)).retry(PAYMENT).queue("payments").await?;
    /// ```
    pub fn call<A: Activity>(&self, activity: A) -> Call<A> {
        Call::new(self.machine.clone(), activity)
    }

    /// Waits, across restarts. Ends early with a failure when the run is cancelled.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(self.machine.clone(), time)
    }

    /// Waits for something, but no longer than this. What is not done by then is dropped, and so
    /// cancelled.
    pub fn timeout<F: IntoFuture>(&self, time: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(time), future.into_future(), time)
    }

    /// Waits until all are done, then answers with all values, or with the first failure in the
    /// order given.
    pub fn join_all<I>(&self, futures: I) -> JoinAll<<I::Item as IntoFuture>::IntoFuture>
    where
        I: IntoIterator<Item: IntoFuture>,
    {
        JoinAll::new(futures.into_iter().map(IntoFuture::into_future))
    }

    /// Waits until one is done, and answers with its place and its value. The others are dropped,
    /// and so cancelled.
    pub fn race<I>(&self, futures: I) -> Race<<I::Item as IntoFuture>::IntoFuture>
    where
        I: IntoIterator<Item: IntoFuture>,
    {
        Race::new(futures.into_iter().map(IntoFuture::into_future))
    }

    /// Waits for the next signal of this name. Signals are kept in order of arrival, also when
    /// they come before anybody waits.
    pub fn signal<T: DeserializeOwned>(&self, name: &str) -> SignalFuture<T> {
        SignalFuture::new(self.machine.clone(), name)
    }

    /// Tells the world where the run is.
    ///
    /// # Panics
    /// When the value has no JSON form; the run is then blocked until the code is mended.
    pub fn set_status<T: Serialize + ?Sized>(&self, value: &T) {
        let value = Payload::encode(value)
            .unwrap_or_else(|error| panic!("set_status: the value has no JSON form: {error}"));
        self.machine.lock().set_status(value);
    }

    /// The time of the event that brought the code here; the same on replay.
    pub fn now(&self) -> Timestamp {
        self.machine.lock().now()
    }

    /// A random number from 0 (included) to 1 (excluded); the same on replay.
    pub fn random(&self) -> f64 {
        (self.machine.lock().random() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4); the same on replay.
    pub fn uuid(&self) -> String {
        let mut machine = self.machine.lock();
        let bits = (u128::from(machine.random()) << 64) | u128::from(machine.random());
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }

    /// The failure that every wait ends with, once the run was cancelled.
    pub fn cancelled(&self) -> Option<Failure> {
        self.machine.lock().cancelled().cloned()
    }
}
