//! What a batch writes, grouped so that each group is one statement.
//!
//! Pure: it knows steps and no database. Whether a step is written at all is decided before it is
//! added (see `slow_path`), or hoped for and checked inside the database.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use resurgam_core::event::Stored;
use resurgam_core::{Event, RunKey, Shard, Uid};
use resurgam_store::fleet::Fence;
use resurgam_store::rows::{
    ActionRow, AttemptRow, InstanceRow, KvRow, Message, MessageRow, PolicyOverride,
};
use resurgam_store::{
    BulkWrite, ChildStart, GateWrite, InboxWrite, InstanceWrite, LetterWrite, MessageWrite,
    Replaces, Rewind, ScheduleWrite, Step, TaskWrite,
};

use super::letter::SettledLetter;
use super::wave::{NewMessage, StatusWrite, Wave};
use super::waves::Need::{Alone, Shared};
use super::waves::{Need, Thing, Waves};

/// What a batch writes.
#[derive(Default)]
pub(crate) struct Plan<'b> {
    waves: Waves<'b>,
    placed: Vec<Wave<'b>>,
    pub(crate) events: Vec<(RunKey, &'b Event, Stored)>,
    pub(crate) policies: BTreeMap<&'b str, &'b str>,
    /// What operators set for activities; the last one counts.
    pub(crate) policy_overrides: BTreeMap<&'b str, &'b PolicyOverride>,
    pub(crate) attempts: Vec<&'b AttemptRow>,
    /// What operators did; the first of an id counts.
    pub(crate) actions: Vec<&'b ActionRow>,
    /// Entries of instances' own data; none for one that goes.
    pub(crate) kv: BTreeMap<(Uid, &'b str), Option<&'b KvRow>>,
    /// Histories that runs which are reset have of the runs before them.
    pub(crate) rewinds: Vec<&'b Rewind>,
    /// How many signals may wait for an instance before the batch: fewer than this.
    pub(crate) room: BTreeMap<Uid, i64>,
    /// How many signals the batch sends to an instance so far.
    signals: HashMap<Uid, i64>,
    /// Shards whose owner alone may write what is written there.
    pub(crate) owned: BTreeSet<Shard>,
    /// Shards in which something starts or is told, which concerns their owner.
    told: BTreeSet<Shard>,
    /// A task waits from now on.
    waits: bool,
    /// One of those lacks something that another node may have.
    lacks: bool,
    /// Whether an instance ends, which concerns whoever waits for it.
    ends: bool,
    /// A bulk job begins, or ends; something is decided about a gate.
    tells_all: bool,
    /// How many rows have an arrival so far.
    arrivals: i64,
    /// The last message for each instance so far: its wave, and how it is inserted.
    last_messages: HashMap<Uid, (usize, Inserted)>,
}

/// How a message is inserted. Within a wave these are two statements, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inserted {
    Always,
    IfOpen,
}

/// What becomes of an instance that a workflow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It is written.
    New,
    /// It was written before.
    Before,
    /// Another one has its id.
    IdTaken,
}

impl<'b> Plan<'b> {
    /// Everything that a batch asks for, when nothing stands in its way.
    pub(crate) fn hopeful(batch: &'b [Step]) -> Self {
        let mut plan = Plan::default();
        for step in batch {
            plan.hopes_for_room(step);
            let started: Vec<Started> = step.child_starts.iter().map(|_| Started::New).collect();
            plan.add(step, &started);
        }
        plan
    }

    /// The waves in order.
    pub(crate) fn waves(&self) -> &[Wave<'b>] {
        &self.placed
    }

    /// Whether others should hear of it. What an owner tells its own shards it knows already.
    pub(crate) fn is_news(&self, fence: Option<&Fence>) -> bool {
        let is_own = |shard: &Shard| fence.is_some_and(|fence| fence.has(*shard));
        let leaves = self.waits && fence.is_some_and(Fence::leaves_tasks);
        let sets = !self.policy_overrides.is_empty();
        self.ends || self.tells_all || leaves || sets || self.lacks || !self.told.iter().all(is_own)
    }

    /// Adds a step that is written, with what becomes of the instances that it starts.
    pub(crate) fn add(&mut self, step: &'b Step, started: &[Started]) {
        if let Some(write) = &step.instance {
            self.instance(write);
        }
        for (run, event) in &step.events {
            self.owned.insert(run.uid.shard());
            self.events.push((*run, event, event.kind.to_stored()));
        }
        if let Some(rewind) = step.rewind.as_deref() {
            self.rewind(rewind);
        }
        for row in &step.policies {
            self.policies.entry(&row.hash).or_insert(&row.text);
        }
        for write in &step.tasks {
            self.task(write);
        }
        for (child, started) in step.child_starts.iter().zip(started) {
            self.start_child(child, *started);
        }
        for write in &step.messages {
            self.message(write);
        }
        for row in &step.attempts {
            self.owned.insert(row.call.run.uid.shard());
            self.attempts.push(row);
        }
        for row in &step.actions {
            self.owned.insert(row.call.run.uid.shard());
            self.actions.push(row);
        }
        for write in &step.letters {
            self.letter(write);
        }
        for row in &step.kv {
            self.owned.insert(row.uid.shard());
            self.kv.insert((row.uid, &row.key), Some(row));
        }
        for row in &step.policy_overrides {
            self.policy_overrides.insert(&row.activity, row);
        }
        for write in &step.gates {
            self.gate(write);
        }
        if let Some(write) = step.schedule.as_deref() {
            self.schedule(write);
        }
        if let Some(write) = step.inbox.as_deref() {
            self.inbox(write);
        }
        if let Some(write) = step.bulk.as_deref() {
            self.bulk(write);
        }
    }

    /// Lets a row of the inbox go that was taken before.
    pub(crate) fn drop_repeated(&mut self, arrival: i64) {
        let wave = self.waves.place(&[Alone(Thing::Inbox(arrival))]);
        self.wave(wave).dropped.push(arrival);
    }

    /// What the steps before this one send takes room from it. That they may also make room is for
    /// the careful way to see.
    fn hopes_for_room(&mut self, step: &Step) {
        if let Some(InstanceWrite::Open { uid, signals_below: Some(below) }) = &step.instance {
            let sent = self.signals.get(uid).copied().unwrap_or_default();
            let room = i64::try_from(*below).unwrap_or(i64::MAX).saturating_sub(sent);
            let least = self.room.entry(*uid).or_insert(room);
            *least = room.min(*least);
        }
    }

    fn instance(&mut self, write: &'b InstanceWrite) {
        match write {
            InstanceWrite::Insert { row, replaces } => self.start(row, *replaces),
            InstanceWrite::Open { uid, .. } => {
                let wave = self.waves.place(&[Shared(Thing::Instance(*uid))]);
                self.wave(wave).open.insert(*uid);
            }
            InstanceWrite::Continue { run, input, pause } => {
                self.owned.insert(run.uid.shard());
                let needs = [Alone(Thing::Instance(run.uid)), Shared(Thing::Replacing)];
                let wave = self.waves.place(&needs);
                self.wave(wave).continued.push((*run, input, pause.as_deref()));
            }
            InstanceWrite::Pause { uid, status, pause } => {
                self.owned.insert(uid.shard());
                let needs = [Alone(Thing::Instance(*uid)), Shared(Thing::Replacing)];
                let wave = self.waves.place(&needs);
                self.wave(wave).paused.push((*uid, *status, pause));
            }
            InstanceWrite::Status { uid, status, outcome, compensation, error, closed_at } => {
                self.owned.insert(uid.shard());
                self.ends |= status.is_closed();
                let needs = [Alone(Thing::Instance(*uid)), Shared(Thing::Replacing)];
                let wave = self.waves.place(&needs);
                self.wave(wave).statuses.push(StatusWrite {
                    uid: *uid,
                    status: *status,
                    outcome: outcome.as_ref(),
                    compensation: *compensation,
                    error: error.as_deref(),
                    closed_at: *closed_at,
                });
            }
        }
    }

    /// The copy of a run's history, and entries of its instance's data that go.
    fn rewind(&mut self, rewind: &'b Rewind) {
        self.owned.insert(rewind.from.uid.shard());
        self.rewinds.push(rewind);
        let forgotten = rewind.forget.iter().map(|key| ((rewind.from.uid, &**key), None));
        self.kv.extend(forgotten);
    }

    fn start(&mut self, row: &'b InstanceRow, replaces: Replaces) {
        self.told.insert(row.uid.shard());
        let mut needs = vec![Alone(Thing::Instance(row.uid)), Alone(Thing::Id(&row.id))];
        needs.extend(row.request_id.as_deref().map(|request| Alone(Thing::Request(request))));
        needs.extend((replaces != Replaces::Nobody).then_some(Alone(Thing::Replacing)));
        if let Replaces::Only(uid) = replaces {
            needs.push(Alone(Thing::Instance(uid)));
        }
        let (wave, arrival) = (self.waves.place(&needs), self.arrival());
        let wave = self.wave(wave);
        match replaces {
            Replaces::Nobody => {}
            Replaces::Closed => wave.released.push(&row.id),
            Replaces::Only(uid) => wave.replaced.push(uid),
        }
        wave.started.push((arrival, row));
    }

    fn start_child(&mut self, child: &'b ChildStart, started: Started) {
        match (started, &child.otherwise) {
            (Started::New, _) => {
                self.start(&child.row, child.replaces);
                self.tell(&child.start);
            }
            (Started::IdTaken, Some(otherwise)) => self.tell(otherwise),
            (Started::Before | Started::IdTaken, _) => {}
        }
    }

    fn task(&mut self, write: &'b TaskWrite) {
        let (run, call) = match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) | TaskWrite::Amend(row) => {
                (row.call.run, Some(row.call))
            }
            TaskWrite::Delete(call) | TaskWrite::Discard(call) => (call.run, Some(*call)),
            TaskWrite::DeleteAll(run) => (*run, None),
        };
        self.owned.insert(run.uid.shard());
        self.waits |= matches!(write,
            TaskWrite::Insert(row) | TaskWrite::Update(row) if row.claim.is_none());
        self.lacks |= matches!(write,
            TaskWrite::Insert(row) | TaskWrite::Update(row) if row.progress.lacks.is_some());
        let wave = match call {
            Some(call) => self.waves.place(&[Alone(Thing::Call(call)), Shared(Thing::Tasks(run))]),
            None => self.waves.place(&[Alone(Thing::Tasks(run))]),
        };
        let wave = self.wave(wave);
        match write {
            TaskWrite::Insert(row) => wave.task_inserts.push(row),
            TaskWrite::Update(row) => wave.task_updates.push(row),
            TaskWrite::Amend(row) => wave.task_amends.push(row),
            TaskWrite::Delete(call) => wave.task_deletes.push(*call),
            TaskWrite::Discard(call) => wave.task_discards.push(*call),
            TaskWrite::DeleteAll(run) => wave.task_runs.push(*run),
        }
    }

    fn message(&mut self, write: &'b MessageWrite) {
        match write {
            MessageWrite::Insert(row) => self.tell(row),
            MessageWrite::InsertIfOpen(row) => self.tell_if_open(row),
            MessageWrite::Delete { uid, id } => {
                let wave = self.one_message(*uid, id);
                self.wave(wave).message_deletes.push((*uid, id));
            }
            MessageWrite::Defer { uid, id } => {
                let wave = self.one_message(*uid, id);
                self.wave(wave).message_defers.push((*uid, id));
            }
            MessageWrite::DeleteRun(run) => {
                let wave = self.all_messages(run.uid);
                self.wave(wave).message_runs.push(*run);
            }
            MessageWrite::Park(uid) => {
                let wave = self.all_messages(*uid);
                self.wave(wave).parked.push((*uid, true));
            }
            MessageWrite::Unpark(uid) => {
                let wave = self.all_messages(*uid);
                self.wave(wave).parked.push((*uid, false));
            }
        }
    }

    fn one_message(&mut self, uid: Uid, id: &'b str) -> usize {
        self.owned.insert(uid.shard());
        self.waves.place(&[Alone(Thing::Message(uid, id)), Shared(Thing::Messages(uid))])
    }

    fn all_messages(&mut self, uid: Uid) -> usize {
        self.owned.insert(uid.shard());
        self.waves.place(&[Alone(Thing::Messages(uid))])
    }

    /// A message that is there twice in one statement is no trouble: the first counts.
    fn tell(&mut self, row: &'b MessageRow) {
        let needs = [Shared(Thing::Message(row.uid, &row.id)), Shared(Thing::Messages(row.uid))];
        let wave = self.in_order(row.uid, Inserted::Always, &needs);
        let new = self.new_message(row);
        self.wave(wave).message_inserts.push(new);
    }

    fn tell_if_open(&mut self, row: &'b MessageRow) {
        let needs = [
            Alone(Thing::Message(row.uid, &row.id)),
            Shared(Thing::Messages(row.uid)),
            Shared(Thing::Instance(row.uid)),
        ];
        let wave = self.in_order(row.uid, Inserted::IfOpen, &needs);
        let new = self.new_message(row);
        self.wave(wave).message_inserts_if_open.push(new);
    }

    /// The wave of a message. Each statement lets its messages arrive after those that are there,
    /// so none may be sent before that of an earlier message for the same instance.
    fn in_order(&mut self, uid: Uid, inserted: Inserted, needs: &[Need<'b>]) -> usize {
        let first = match (self.last_messages.get(&uid), inserted) {
            (None, _) => 0,
            (Some((wave, Inserted::IfOpen)), Inserted::Always) => wave + 1,
            (Some((wave, _)), _) => *wave,
        };
        let wave = self.waves.place_from(first, needs);
        self.last_messages.insert(uid, (wave, inserted));
        wave
    }

    fn new_message(&mut self, row: &'b MessageRow) -> NewMessage<'b> {
        self.told.insert(row.uid.shard());
        if let Message::Signal { .. } = &row.body {
            *self.signals.entry(row.uid).or_default() += 1;
        }
        let (run, stored) = row.body.to_stored();
        NewMessage { arrival: self.arrival(), row, run, stored }
    }

    fn letter(&mut self, write: &'b LetterWrite) {
        let call = write.call();
        let wave = self.waves.place(&[Alone(Thing::Letter(call))]);
        match write {
            LetterWrite::Insert(letter) => {
                self.owned.insert(call.run.uid.shard());
                self.wave(wave).letter_inserts.push(letter);
            }
            LetterWrite::Settle { call, state, settled } => {
                let settled = SettledLetter { call: *call, state: *state, settled };
                self.wave(wave).letter_settles.push(settled);
            }
        }
    }

    fn schedule(&mut self, write: &'b ScheduleWrite) {
        self.told.insert(Shard::of_id(write.id()));
        let wave = self.waves.place(&[Alone(Thing::Schedule(write.id()))]);
        let wave = self.wave(wave);
        match write {
            ScheduleWrite::Insert(row) => wave.schedule_inserts.push(row),
            ScheduleWrite::Update { row, revision } => wave.schedule_updates.push((row, *revision)),
            ScheduleWrite::Delete { id } => wave.schedule_deletes.push(id),
        }
    }

    /// Whoever waits for a job hears of its end, and not of each of its pages.
    fn bulk(&mut self, write: &'b BulkWrite) {
        self.tells_all |= write.is_news();
        let wave = self.waves.place(&[Alone(Thing::Bulk(write.id()))]);
        let wave = self.wave(wave);
        match write {
            BulkWrite::Insert(row) => wave.bulk_inserts.push(row),
            BulkWrite::Update { row, revision } => wave.bulk_updates.push((row, *revision)),
            BulkWrite::Stop { id, by } => wave.bulk_stops.push((id, by)),
        }
    }

    fn gate(&mut self, write: &'b GateWrite) {
        self.tells_all |= write.is_news();
        if write.is_the_deciders() {
            self.owned.insert(GateWrite::DECIDER);
        }
        let wave = match write {
            GateWrite::Set { key, .. }
            | GateWrite::Hand { key, .. }
            | GateWrite::Decide { key, .. }
            | GateWrite::Forget { key } => self.waves.place(&[Alone(Thing::Gate(key))]),
            GateWrite::Count(count) => {
                let thing = Thing::GateCount(&count.gate, count.at.as_millis(), &count.node);
                self.waves.place(&[Alone(thing), Shared(Thing::GateCounts)])
            }
            GateWrite::ForgetCounts { .. } => self.waves.place(&[Alone(Thing::GateCounts)]),
            GateWrite::Hold(hold) => self.waves.place(&[Alone(Thing::Hold(hold.kind, &hold.name))]),
            GateWrite::Release { kind, name } => {
                self.waves.place(&[Alone(Thing::Hold(*kind, name))])
            }
        };
        self.wave(wave).gates.get_or_insert_default().add(write);
    }

    fn inbox(&mut self, write: &'b InboxWrite) {
        match write {
            InboxWrite::Take { row, at } => {
                let needs = [Alone(Thing::Inbox(row.arrival)), Shared(Thing::Seen)];
                let wave = self.waves.place(&needs);
                self.wave(wave).taken.push((row, *at));
            }
            InboxWrite::Refuse { arrival, error } => {
                let wave = self.waves.place(&[Alone(Thing::Inbox(*arrival))]);
                self.wave(wave).refused.push((*arrival, error));
            }
            InboxWrite::Forget { before } => {
                let wave = self.waves.place(&[Alone(Thing::Seen)]);
                self.wave(wave).forgotten = Some(*before);
            }
        }
    }

    fn arrival(&mut self) -> i64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn wave(&mut self, number: usize) -> &mut Wave<'b> {
        if self.placed.len() <= number {
            self.placed.resize_with(number + 1, Wave::default);
        }
        &mut self.placed[number]
    }
}
