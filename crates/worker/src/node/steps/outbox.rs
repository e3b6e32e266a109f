//! Steps on their way to the disk.
//!
//! A store may take several batches at a time. Then steps go by the shard of their instance: what
//! concerns one instance keeps its order, and batches on different lanes write different shards, so
//! that they do not wait for each other there. With one lane, everything is in order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_store::{Result, Step, StepResult};

use super::batch_writer::{BatchWriter, Done};
use super::effect::Effect;
use super::pending::{Limits, Pending};
use super::split_step;
use crate::node::output::Batch;

/// Steps on their way to the disk.
pub(crate) struct Outbox {
    lanes: Vec<Lane>,
    limits: Limits,
    /// The calls that wait when a step is durable, and the number of those steps.
    waiting: BTreeMap<CallKey, usize>,
}

#[derive(Default)]
struct Lane {
    ready: VecDeque<Pending>,
    /// The batch that is with the store.
    writing: Option<BatchWriter>,
    /// Policies that are in the store. A database that goes back in time may lose what one lane has
    /// written, and not what another has; each finds out for itself, and knows nothing of the rest.
    stored: BTreeSet<String>,
}

/// What follows from the store's answer.
#[derive(Debug)]
pub(crate) enum Answered {
    /// More is to be written, or the same again.
    Go(Batch),
    /// It is known what became of the batch, which was with the store since then.
    Done(Timestamp, Done),
    /// It is known what became of a batch that the node has abandoned.
    TooLate(Done),
}

impl Outbox {
    /// As many lanes as the store takes batches at a time.
    pub(crate) fn new(lanes: usize, limits: Limits) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| Lane::default()).collect();
        Outbox { lanes, limits, waiting: BTreeMap::new() }
    }

    /// Hands over a step.
    pub(crate) fn push(&mut self, step: Step, effects: Vec<Effect>) {
        let lane = self.lane_of(step.shard());
        self.push_on(lane, step, effects);
    }

    /// Has something happen when everything is durable that was handed over for an instance.
    pub(crate) fn after(&mut self, uid: Uid, effect: Effect) {
        let lane = self.lane_of(Some(uid.shard()));
        self.push_on(lane, Step::default(), vec![effect]);
    }

    /// The start of an instance, while it is on its way.
    pub(crate) fn start_of(&mut self, uid: Uid) -> Option<&mut Pending> {
        let lane = self.lane_of(Some(uid.shard()));
        let Lane { ready, writing, .. } = &mut self.lanes[lane];
        let writing = writing.iter_mut().flat_map(BatchWriter::steps_mut);
        writing.chain(ready).find(|pending| pending.effects.iter().any(|effect| effect.starts(uid)))
    }

    /// Somebody starts an instance that is being started: the answer comes behind that of the
    /// first. They find the first one there when they ask the store about it, or hear that it was
    /// refused, as whoever asked for the first one does.
    pub(crate) fn behind_start(&mut self, uid: Uid, answer: Effect) {
        match self.start_of(uid) {
            Some(start) => start.then(answer),
            None => self.after(uid, answer),
        }
    }

    /// Has something happen when everything is durable that was handed over before.
    pub(crate) fn after_all(&mut self, effect: Effect) {
        // Whichever lane gets there last finds that it has the only part left.
        let parts = Arc::new(Mutex::new(effect));
        for lane in 0..self.lanes.len() {
            self.push_on(lane, Step::default(), vec![Effect::Part(parts.clone())]);
        }
    }

    fn push_on(&mut self, lane: usize, step: Step, effects: Vec<Effect>) {
        let policies = step.policies.iter().map(|policy| policy.hash.clone()).collect();
        let parts = split_step::parts(step, self.limits);
        for call in effects.iter().filter_map(Effect::waits) {
            *self.waiting.entry(call).or_default() += 1;
        }
        let pending = Pending { lane, parts, effects, policies };
        self.lanes[lane].ready.push_back(pending);
    }

    /// True when a call waits as soon as a step is durable that is on its way: what is stored of it
    /// is out of date.
    pub(crate) fn is_storing(&self, call: CallKey) -> bool {
        self.waiting.contains_key(&call)
    }

    /// It is known what became of a step, or nothing will.
    fn is_over(&mut self, pending: &Pending) {
        for call in pending.effects.iter().filter_map(Effect::waits) {
            if let Entry::Occupied(mut steps) = self.waiting.entry(call) {
                match steps.get().saturating_sub(1) {
                    0 => drop(steps.remove()),
                    left => *steps.get_mut() = left,
                }
            }
        }
    }

    fn lane_of(&self, shard: Option<Shard>) -> usize {
        shard.map_or(0, |shard| usize::from(shard.0) % self.lanes.len())
    }

    /// True when this policy of a call is not known to be in the store.
    pub(crate) fn is_new_policy(&self, call: CallKey, hash: &str) -> bool {
        !self.lanes[self.lane_of(Some(call.run.uid.shard()))].stored.contains(hash)
    }

    /// Policies that were written on a lane are in the store.
    pub(crate) fn knows_policies(&mut self, written: &mut Pending) {
        self.lanes[written.lane].stored.extend(written.policies.drain(..));
    }

    /// The database may have lost them.
    pub(crate) fn forget_policies(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.stored.clear());
    }

    /// What is with the store was decided by a node that has stepped down.
    pub(crate) fn abandon(&mut self) {
        let writing = self.lanes.iter_mut().filter_map(|lane| lane.writing.as_mut());
        writing.for_each(|writing| writing.abandoned = true);
    }

    /// Everything that is not with the store yet.
    pub(crate) fn take_ready(&mut self) -> Vec<Pending> {
        let ready = self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.ready));
        let ready: Vec<Pending> = ready.collect();
        ready.iter().for_each(|pending| self.is_over(pending));
        ready
    }

    /// Since when a batch is with the store, when one is.
    pub(crate) fn in_flight_since(&self) -> Option<Timestamp> {
        self.lanes.iter().filter_map(|lane| Some(lane.writing.as_ref()?.since)).min()
    }

    /// True when nothing is on its way that could concern an instance.
    pub(crate) fn is_idle_for(&self, uid: Uid) -> bool {
        let lane = &self.lanes[self.lane_of(Some(uid.shard()))];
        lane.ready.is_empty() && lane.writing.is_none()
    }

    /// How many steps are on their way.
    pub(crate) fn len(&self) -> usize {
        let writing = |lane: &Lane| lane.writing.as_ref().map_or(0, BatchWriter::len);
        self.lanes.iter().map(|lane| lane.ready.len() + writing(lane)).sum()
    }

    /// The next batch that can be sent: on which lane, and how many steps it has.
    pub(crate) fn next_batch(&mut self, now: Timestamp) -> Option<(usize, usize, Batch)> {
        let is_free = |lane: &Lane| lane.writing.is_none() && !lane.ready.is_empty();
        let place = self.lanes.iter().position(is_free)?;
        let lane = &mut self.lanes[place];
        let batch = lane.batch(self.limits);
        let count = batch.len();
        let (writing, next) = BatchWriter::new(batch, now);
        lane.writing = Some(writing);
        Some((place, count, next))
    }

    /// The store has answered what was sent on a lane.
    pub(crate) fn answered(
        &mut self,
        lane: usize,
        answer: Result<Vec<StepResult>>,
        patient: bool,
    ) -> Answered {
        let writing = self.lanes[lane].writing.take();
        let mut writing = writing.expect("the store answers what was sent");
        let since = writing.since;
        if writing.abandoned {
            writing.answered_too_late(answer);
            return Answered::TooLate(self.done(writing));
        }
        match writing.answered(answer, patient) {
            Some(next) => {
                self.lanes[lane].writing = Some(writing);
                Answered::Go(next)
            }
            None => Answered::Done(since, self.done(writing)),
        }
    }

    fn done(&mut self, writing: BatchWriter) -> Done {
        let done = writing.into_done();
        done.iter().for_each(|(pending, _)| self.is_over(pending));
        done
    }
}

impl Lane {
    /// As many steps as fit one transaction, at least one.
    fn batch(&mut self, limits: Limits) -> Vec<Pending> {
        let (mut rows, mut bytes) = (0, 0);
        let mut batch = Vec::with_capacity(self.ready.len());
        while let Some(next) = self.ready.front() {
            rows += next.parts.iter().map(Step::rows).sum::<usize>();
            bytes += next.parts.iter().map(Step::bytes).sum::<usize>();
            let wide = next.parts.len() > 1;
            if !batch.is_empty() && (wide || !limits.admit(rows, bytes)) {
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
