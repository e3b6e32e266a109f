//! Steps on their way to the disk.
//!
//! A store may take several batches at a time. Then steps go by the shard of their instance: what
//! concerns one instance keeps its order, and batches on different lanes write different shards, so
//! that they do not wait for each other there. With one lane, everything is in order.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use resurgam_core::{Shard, Timestamp, Uid};
use resurgam_store::Step;

use super::commit::{BYTES, Fate, Pending, ROWS};
use super::effect::Effect;
use super::wide;

/// A batch that is with the store.
pub(super) type InFlight = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What became of a batch.
pub(super) type Done = Vec<(Pending, Fate)>;

/// Steps on their way to the disk.
pub(super) struct Outbox {
    lanes: Vec<Lane>,
    /// Policies that are in the store.
    stored: BTreeSet<String>,
    /// Counts what happens, for choosing what to evict.
    pub(super) ticks: u64,
}

#[derive(Default)]
struct Lane {
    ready: VecDeque<Pending>,
    /// The batch that is with the store, and since when.
    in_flight: Option<(Timestamp, InFlight)>,
}

impl Outbox {
    /// As many lanes as the store takes batches at a time.
    pub(super) fn new(lanes: usize) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| Lane::default()).collect();
        Outbox { lanes, stored: BTreeSet::new(), ticks: 0 }
    }

    /// Hands over a step.
    pub(super) fn push(&mut self, step: Step, effects: Vec<Effect>) {
        let lane = self.lane_of(step.shard());
        self.push_on(lane, step, effects);
    }

    /// Has something happen when everything is durable that was handed over for an instance.
    pub(super) fn after(&mut self, uid: Uid, effect: Effect) {
        let lane = self.lane_of(Some(uid.shard()));
        self.push_on(lane, Step::default(), vec![effect]);
    }

    /// Has something happen when everything is durable that was handed over before.
    pub(super) fn after_all(&mut self, effect: Effect) {
        // Whichever lane gets there last finds that it has the only part left.
        let parts = Arc::new(Mutex::new(effect));
        for lane in 0..self.lanes.len() {
            self.push_on(lane, Step::default(), vec![Effect::Part(parts.clone())]);
        }
    }

    fn push_on(&mut self, lane: usize, step: Step, effects: Vec<Effect>) {
        let policies = step.policies.iter().map(|policy| policy.hash.clone()).collect();
        let pending = Pending { parts: wide::parts(step), effects, policies };
        self.lanes[lane].ready.push_back(pending);
    }

    fn lane_of(&self, shard: Option<Shard>) -> usize {
        shard.map_or(0, |shard| usize::from(shard.0) % self.lanes.len())
    }

    /// True when this policy is not known to be in the store.
    pub(super) fn is_new_policy(&self, hash: &str) -> bool {
        !self.stored.contains(hash)
    }

    /// Policies are in the store.
    pub(super) fn knows_policies(&mut self, hashes: Vec<String>) {
        self.stored.extend(hashes);
    }

    /// Everything that is not with the store yet.
    pub(super) fn take_ready(&mut self) -> Vec<Pending> {
        self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.ready)).collect()
    }

    /// Since when a batch is with the store, when one is.
    pub(super) fn in_flight_since(&self) -> Option<Timestamp> {
        let in_flight = self.lanes.iter().filter_map(|lane| lane.in_flight.as_ref());
        in_flight.map(|(since, _)| *since).min()
    }

    /// True when nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ready.is_empty() && lane.in_flight.is_none())
    }

    /// The next batch that can be sent, and on which lane.
    pub(super) fn next_batch(&mut self) -> Option<(usize, Vec<Pending>)> {
        let is_free = |lane: &Lane| lane.in_flight.is_none() && !lane.ready.is_empty();
        let lane = self.lanes.iter().position(is_free)?;
        Some((lane, self.lanes[lane].batch()))
    }

    /// A batch is with the store.
    pub(super) fn sent(&mut self, lane: usize, now: Timestamp, commit: InFlight) {
        self.lanes[lane].in_flight = Some((now, commit));
    }

    /// Lets the batches get on that are with the store: nothing is sent before the first look.
    /// Answers with one that is done, and since when it was with the store.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Timestamp, Done)> {
        for lane in &mut self.lanes {
            let Some((since, commit)) = &mut lane.in_flight else { continue };
            if let Poll::Ready(done) = commit.as_mut().poll(context) {
                let since = *since;
                lane.in_flight = None;
                return Poll::Ready((since, done));
            }
        }
        Poll::Pending
    }
}

impl Lane {
    /// As many steps as fit one transaction, at least one.
    fn batch(&mut self) -> Vec<Pending> {
        let (mut rows, mut bytes) = (0, 0);
        let mut batch: Vec<Pending> = Vec::new();
        while let Some(next) = self.ready.front() {
            rows += next.parts.iter().map(Step::rows).sum::<usize>();
            bytes += next.parts.iter().map(Step::bytes).sum::<usize>();
            let wide = next.parts.len() > 1;
            if !batch.is_empty() && (wide || rows > ROWS || bytes > BYTES) {
                break;
            }
            batch.extend(self.ready.pop_front());
            if wide {
                break;
            }
        }
        batch
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready: usize = self.lanes.iter().map(|lane| lane.ready.len()).sum();
        write!(f, "{ready} steps ready")
    }
}
