//! The simulated database: the model store, with a clock, commit lanes that are numbered, beats of
//! nodes, and everything that can be wrong with a server.

use std::collections::BTreeMap;
use std::time::Duration;

use resurgam_core::{CallKey, Shard, Timestamp, Uid};
use resurgam_store::fleet::{Fence, NodeRow, ShardRow, View};
use resurgam_store::model::{Model, Sharing, Writer};
use resurgam_store::rows::{MessageRow, Owner, TaskRow};
use resurgam_store::{
    BulkWrite, Deleted, Deletion, Error, GateWrite, InboxRow, InstanceWrite, MessageWrite, Node,
    Result, Runnable, Step, StepResult, TaskWrite,
};

use crate::promises::{Promises, everything};

/// A database, and what was promised about it.
#[derive(Clone)]
pub(crate) struct Database {
    /// What is in it.
    pub(crate) model: Model,
    /// What was promised, and whether that held. It goes back in time with the rest.
    pub(crate) promises: Promises,
    /// What its clock says.
    pub(crate) now: Timestamp,
    /// Whether the disk is full.
    pub(crate) is_full: bool,
    /// It refuses everything for now.
    pub(crate) is_busy: bool,
    /// The next step with an event is refused, as by a trigger of the user's.
    pub(crate) refuses_next: bool,
    /// What others are to hear of since the world last looked.
    pub(crate) news: News,
    /// The last number of each commit lane, by its writer.
    lanes: BTreeMap<(String, i16), i64>,
    beats: BTreeMap<String, i64>,
    /// How many claims have a token. It never goes back.
    pub(crate) tokens: u64,
    /// How many rows arrived in the inbox. It never goes back.
    pub(crate) arrivals: i64,
    /// How long closed instances stay.
    pub(crate) stays: Option<Duration>,
}

/// What others are to hear of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Something was committed that is not its writer's own.
    pub(crate) committed: bool,
    /// Shards are free, or a node came or went.
    pub(crate) moves: bool,
}

/// What became of a numbered commit.
pub(crate) enum Numbered {
    /// It is in, or it would be if it were wanted: what becomes of each step.
    Results(Vec<StepResult>),
    /// Its number is not the next one.
    OutOfPlace,
}

impl Database {
    /// An empty database.
    pub(crate) fn new(sharing: Sharing, stays: Option<Duration>, now: Timestamp) -> Self {
        Database {
            model: Model::new(sharing),
            promises: Promises::default(),
            now,
            is_full: false,
            is_busy: false,
            refuses_next: false,
            news: News::default(),
            lanes: BTreeMap::new(),
            beats: BTreeMap::new(),
            tokens: 0,
            arrivals: 0,
            stays,
        }
    }

    /// Writes a batch, if what becomes of its steps is `wanted`.
    pub(crate) fn commit(
        &mut self,
        writer: &Writer,
        batch: &[Step],
        wanted: impl Fn(&[StepResult]) -> bool,
    ) -> Result<Vec<StepResult>> {
        self.must_be_writable()?;
        let has_events = batch.iter().any(|step| !step.events.is_empty());
        if has_events && std::mem::take(&mut self.refuses_next) {
            return Err(Error::data("a trigger refuses a row"));
        }
        let results = self.model.commit_if(writer, batch, &wanted)?;
        if wanted(&results) {
            self.promises.committed(&self.model, (batch, &results), self.now);
            self.news.committed |= self.is_news(writer, batch);
        }
        Ok(results)
    }

    /// Writes a batch on a lane, whose number must be this before it, if what becomes of its steps
    /// is `wanted`.
    pub(crate) fn commit_numbered(
        &mut self,
        (lane, number): (&Lane, i64),
        writer: &Writer,
        batch: &[Step],
        wanted: impl Fn(&[StepResult]) -> bool,
    ) -> Result<Numbered> {
        if self.number(lane) != Some(number) {
            return Ok(Numbered::OutOfPlace);
        }
        let results = self.commit(writer, batch, &wanted)?;
        if wanted(&results) {
            self.lanes.insert(lane.clone(), number + 1);
        }
        Ok(Numbered::Results(results))
    }

    /// Changes something on a lane, whose number must be this before it. The change says whether it
    /// is one; `None` when the number is not the next.
    pub(crate) fn change_numbered(
        &mut self,
        (lane, number): (&Lane, i64),
        change: impl FnOnce(&mut Database) -> Result<bool>,
    ) -> Result<Option<bool>> {
        if self.number(lane) != Some(number) {
            return Ok(None);
        }
        let is_changed = change(self)?;
        if is_changed {
            self.lanes.insert(lane.clone(), number + 1);
        }
        Ok(Some(is_changed))
    }

    /// A node claims tasks that others leave.
    pub(crate) fn claim(
        &mut self,
        node: &str,
        runnable: &Runnable,
        now: Timestamp,
        limit: usize,
    ) -> Result<Claimed> {
        let Database { model, tokens, promises, .. } = self;
        let claimed = model.claim_shared(node, runnable, now, limit, || next(tokens))?;
        claimed.0.iter().for_each(|row| promises.claimed(row));
        Ok(claimed)
    }

    /// The holder of a shard claims a call, so that nobody else does.
    pub(crate) fn claim_call(
        &mut self,
        node: &str,
        call: CallKey,
        now: Timestamp,
    ) -> Result<Option<TaskRow>> {
        let Database { model, tokens, promises, .. } = self;
        let claimed = model.claim_shared_call(node, call, now, || next(tokens))?;
        claimed.iter().for_each(|row| promises.claimed_to_end(row));
        Ok(claimed)
    }

    /// The holder of a shard takes the claim of an attempt elsewhere away.
    pub(crate) fn take_over(
        &mut self,
        node: &str,
        (call, token): (CallKey, u64),
        now: Timestamp,
    ) -> Result<Option<TaskRow>> {
        let Database { model, tokens, promises, .. } = self;
        let claimed = model.take_over(node, call, token, now, || next(tokens))?;
        if let Some(row) = &claimed {
            promises.taken_over(call, token);
            promises.claimed_to_end(row);
        }
        Ok(claimed)
    }

    /// An attempt ends its call in a transaction of its own.
    pub(crate) fn transact(
        &mut self,
        node: &str,
        (call, token): (CallKey, u64),
        message: &MessageRow,
    ) -> Result<bool> {
        self.must_be_writable()?;
        let is_done = self.model.end_claimed(node, call, token, message)?;
        if is_done {
            self.promises.transacted(message);
            self.news.committed = true;
        }
        Ok(is_done)
    }

    /// A transaction of a user's own inserts rows into the inbox: of this kind, for this instance.
    pub(crate) fn insert(&mut self, row: InboxRow) {
        self.arrivals += 1;
        let row = InboxRow { arrival: self.arrivals, ..row };
        self.model.insert_inbox(row.clone());
        self.promises.inserted(row);
        self.news.committed = true;
    }

    /// Deletes a piece of what is closed.
    pub(crate) fn delete_closed(&mut self, wanted: &Deletion) -> Result<Deleted> {
        self.must_be_writable()?;
        let before = self.model.list(&everything());
        let deleted = self.model.delete_closed(wanted);
        if deleted.instances > 0 {
            self.promises.swept(&self.model, before, self.stays, self.now);
        }
        Ok(deleted)
    }

    /// Everything is over: whether all that was promised came true.
    pub(crate) fn at_the_end(&mut self) {
        self.promises.at_the_end(&self.model, self.stays, self.now);
    }

    fn must_be_writable(&self) -> Result<()> {
        match (self.is_full, self.is_busy) {
            (true, _) => Err(Error::transient("the disk is full")),
            (_, true) => Err(Error::transient("the database has no time")),
            _ => Ok(()),
        }
    }

    /// The number of a lane; none without its row.
    pub(crate) fn number(&self, lane: &Lane) -> Option<i64> {
        self.lanes.get(lane).copied()
    }

    /// The numbers of all lanes of a writer.
    pub(crate) fn numbers(&self, writer: &str) -> Vec<(i16, i64)> {
        let lanes = self.lanes.iter().filter(|((of, _), _)| of == writer);
        lanes.map(|((_, lane), number)| (*lane, *number)).collect()
    }

    /// Makes the row of a lane. One that is there stays as it is: the answer to an earlier try was
    /// lost, or the number is another one, which the next batch finds.
    pub(crate) fn make_lane(&mut self, lane: Lane, number: i64) {
        self.lanes.entry(lane).or_insert(number);
    }

    /// Sees to it that a batch whose fate is unknown is in or never will be; the number after that.
    pub(crate) fn forestall(&mut self, lane: &Lane, number: i64) -> Option<i64> {
        let found = self.lanes.get_mut(lane)?;
        if *found == number {
            *found += 2;
        }
        Some(*found)
    }

    /// A node begins to work. Where one works and another one is there, the answer is that one.
    pub(crate) fn join(&mut self, node: Node) -> Option<Owner> {
        let name = node.name.clone();
        let process =
            Owner { node: name.clone(), pid: 1, program: "simulated".to_string(), since: self.now };
        let owner = self.model.join(node, process);
        if owner.is_none() {
            self.beats.insert(name, 0);
            self.news.moves = true;
        }
        owner
    }

    /// A node leaves, or is dead.
    pub(crate) fn leave(&mut self, node: &str) {
        self.model.leave(node);
        self.beats.remove(node);
        self.news.moves = true;
    }

    /// Removes nodes that are dead, unless their beats have moved since.
    pub(crate) fn bury(&mut self, dead: &[(String, i64)]) {
        for (node, beat) in dead {
            if self.beats.get(node) == Some(beat) {
                self.leave(node);
            }
        }
    }

    /// A node shows that it is alive; whether it is there, and what it sees.
    pub(crate) fn beat(&mut self, node: &str) -> (bool, View) {
        let beat = self.beats.get_mut(node);
        let is_there = beat.is_some();
        if let Some(beat) = beat {
            *beat += 1;
        }
        (is_there, self.view())
    }

    /// Who is there, and who has what.
    pub(crate) fn view(&self) -> View {
        let nodes = self.model.nodes().map(|(node, process)| NodeRow {
            node: node.name.clone(),
            beat: self.beats.get(&node.name).copied().unwrap_or_default(),
            pid: process.pid,
            program: process.program.clone(),
            started_at: process.since,
            workflows: node.workflows.as_ref().map(|known| known.iter().cloned().collect()),
        });
        let free = |shard| ShardRow { shard, owner: None, epoch: 0 };
        let mut shards: Vec<ShardRow> = Shard::all().map(free).collect();
        for (shard, node, epoch) in self.model.holdings() {
            let row = &mut shards[usize::from(shard.0)];
            (row.owner, row.epoch) = (node.map(str::to_string), epoch);
        }
        View {
            now: self.now,
            leaves_tasks: self.model.nodes().any(|(node, _)| node.queues.is_some()),
            nodes: nodes.collect(),
            shards,
        }
    }

    /// Whether others should hear of a batch: it ends something, or concerns shards that are not
    /// its writer's, or leaves a task to others, or is about all of them. The PostgreSQL store
    /// hints at the same, by the shards that a node believes to hold, and finds everything else
    /// when it looks, such as what a node writes to a shard that it has lost and not heard of.
    fn is_news(&self, writer: &Writer, batch: &[Step]) -> bool {
        let Writer::Node(fence) = writer else { return true };
        let is_own = |uid: Uid| self.holds(fence, uid.shard());
        let mut nodes = self.model.nodes().map(|(node, _)| node);
        let leaves = nodes.any(|node| node.name == fence.node() && node.queues.is_some());
        batch.iter().any(|step| {
            let ends = matches!(&step.instance, Some(InstanceWrite::Status { status, .. })
                if status.is_closed());
            let inserts = matches!(&step.instance, Some(InstanceWrite::Insert { row, .. })
                if !is_own(row.uid));
            let starts = step.child_starts.iter().any(|child| !is_own(child.row.uid));
            let tells = step.messages.iter().map(MessageWrite::uid).any(|uid| !is_own(uid));
            let waits = |write: &TaskWrite| match write {
                TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                    row.claim.is_none() && (leaves || row.progress.lacks.is_some())
                }
                TaskWrite::Delete(_) | TaskWrite::Discard(_) | TaskWrite::DeleteAll(_) => false,
            };
            let sets = !step.policy_overrides.is_empty();
            let schedule = step.schedule.as_deref();
            let schedules =
                schedule.is_some_and(|write| !self.holds(fence, Shard::of_id(write.id())));
            let bulk = step.bulk.as_deref().is_some_and(BulkWrite::is_news);
            let gates = step.gates.iter().any(GateWrite::is_news);
            let waits = step.tasks.iter().any(waits);
            ends || starts || tells || inserts || waits || sets || gates || schedules || bulk
        })
    }

    /// Whether a shard is a node's, as it believes.
    fn holds(&self, fence: &Fence, shard: Shard) -> bool {
        let is_it = |(other, node, epoch): (Shard, Option<&str>, i64)| {
            other == shard && node == Some(fence.node()) && Some(epoch) == fence.epoch(shard)
        };
        fence.has(shard) && self.model.holdings().any(is_it)
    }
}

/// Tasks that were claimed, and when the next one is due.
pub(crate) type Claimed = (Vec<TaskRow>, Option<Timestamp>);

/// A token that no other claim has.
fn next(tokens: &mut u64) -> u64 {
    *tokens += 1;
    *tokens
}

/// A commit lane: its writer, and which of the writer's lanes it is.
pub(crate) type Lane = (String, i16);

#[cfg(test)]
mod tests {
    use resurgam_core::Payload;
    use resurgam_store::{ScheduleRow, ScheduleWrite};
    use resurgam_watchdog::test;

    use super::*;

    fn created(id: &str) -> Step {
        let row = ScheduleRow {
            id: id.to_string(),
            workflow: "program".to_string(),
            input: Payload::null(),
            rule: String::new(),
            options: String::new(),
            state: String::new(),
            paused: false,
            next_at: None,
            waits: false,
            last: None,
            error: None,
            created_at: Timestamp::EPOCH,
        };
        Step { schedule: Some(ScheduleWrite::Insert(row).into()), ..Step::default() }
    }

    /// Whether others hear of a schedule that a node creates which believes to hold these shards,
    /// and holds them or has lost them.
    fn is_heard_of(believes: &[Shard], holds: bool, id: &str) -> bool {
        let mut database = Database::new(Sharing::ManyNodes, None, Timestamp::EPOCH);
        let node = Node { name: "a".to_string(), queues: None, workflows: None };
        database.join(node);
        let taken = database.model.take("a", believes.iter().copied());
        if !holds {
            database.model.release("a", believes.iter().copied());
        }
        database.is_news(&Writer::Node(Fence::new("a", taken)), &[created(id)])
    }

    #[test]
    fn the_holder_of_a_schedule_hears_what_another_node_writes_of_it() {
        let shard = Shard::of_id("every-0");
        assert!(is_heard_of(&[], true, "every-0"));
        assert!(!is_heard_of(&[shard], true, "every-0"));
    }

    #[test]
    fn what_a_node_writes_to_a_shard_that_it_has_lost_is_heard_of() {
        assert!(is_heard_of(&[Shard::of_id("every-0")], false, "every-0"));
    }

    #[test]
    fn what_was_read_before_the_database_went_back_changes_no_schedule() {
        let changed = |revision| {
            let Some(ScheduleWrite::Insert(row)) = created("every-0").schedule.map(|it| *it) else {
                panic!("a schedule is created by an insert");
            };
            let write = ScheduleWrite::Update { row, revision };
            Step { schedule: Some(write.into()), ..Step::default() }
        };
        let revision = |model: &Model| model.schedule("every-0").expect("it is there").revision;
        let mut model = Model::new(Sharing::ManyNodes);
        model.commit(&[created("every-0")]).expect("a new schedule");
        let mut restored = model.clone();
        model.commit(&[changed(revision(&model))]).expect("a change");
        let read = revision(&model);
        restored.counts_revisions_from(&model);
        restored.commit(&[changed(revision(&restored))]).expect("another change");
        assert_eq!(restored.commit(&[changed(read)]).expect("a late one"), [StepResult::Missed]);
    }
}
