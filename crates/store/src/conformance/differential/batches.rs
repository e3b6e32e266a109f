//! Random batches, and what else is done to a store between them.

use std::sync::Arc;

use resurgam_core::{CallKey, RunKey, Seq};

use super::super::fixtures::{at, uid};
use super::ClaimShared;
use super::reads::Questions;
use super::rows::{
    ACTIVITIES, IDS, INSTANCES, JOBS, KEYS, LACKING, NODES, PLACES, QUEUES, RUNS, Random,
    SCHEDULES, TOKENS, WORKFLOWS,
};
use crate::model::{Model, ShardSet};
use crate::rows::{MessageRow, RunPause, Status};
use crate::{
    BulkWrite, ChildStart, Deletion, GateScope, InboxRow, InboxWrite, InstanceWrite, MessageWrite,
    PausedKinds, Replaces, Runnable, ScheduleWrite, Step, Sweep, TaskWrite,
};

/// A revision that no schedule has, and no bulk job.
const NO_REVISION: u64 = i64::MAX.cast_unsigned();

/// Draws what is done to a store.
#[derive(Debug)]
pub(super) struct Batches {
    random: Random,
    /// Rows of the inbox that were there once.
    inbox: Vec<InboxRow>,
}

/// What is done to a store in one round.
#[expect(clippy::large_enum_variant, reason = "there is one of them at a time")]
#[derive(Debug)]
pub(super) enum Change {
    Commit(Vec<Step>),
    /// Somebody inserts a row.
    Inbox(InboxRow),
    /// A node begins to work, or the one that works ends.
    Own,
    Delete(Deletion),
    /// An attempt ends its call in a transaction of its own.
    Transact {
        call: CallKey,
        token: u64,
        message: MessageRow,
    },
}

impl Batches {
    pub(super) fn new(seed: u64) -> Self {
        Batches { random: Random(seed), inbox: Vec::new() }
    }

    /// What is done next to a store that is as this model. Who does not work can do little, so a
    /// node begins to work again soon.
    pub(super) fn change(&mut self, model: &Model, works: bool) -> Change {
        match self.random.below(100) {
            0..6 => Change::Inbox(self.random.inbox_row()),
            6..14 => Change::Delete(self.deletion(model)),
            14..20 => self.transact(model),
            20..24 => Change::Own,
            24..44 if !works => Change::Own,
            _ => Change::Commit(self.batch(model)),
        }
    }

    /// A batch. In most batches, steps that blame a row are drawn again: one of them takes the
    /// whole batch with it.
    pub(super) fn batch(&mut self, model: &Model) -> Vec<Step> {
        let mut after = model.clone();
        let tries = if self.random.percent(20) { 0 } else { 20 };
        let mut batch = Vec::new();
        for _ in 0..=self.random.below(4) {
            let mut step = self.step(model);
            for _ in 0..tries {
                if after.commit(&[step.clone()]).is_ok() {
                    break;
                }
                step = self.step(model);
            }
            batch.push(step);
        }
        // Whether an id is still remembered that a step before forgets is open.
        let forgets =
            |step: &Step| matches!(step.inbox.as_deref(), Some(InboxWrite::Forget { .. }));
        if let Some(place) = batch.iter().position(forgets) {
            batch.iter_mut().skip(place + 1).for_each(|step| step.inbox = None);
        }
        batch
    }

    fn step(&mut self, model: &Model) -> Step {
        let random = &mut self.random;
        let schedule = random.maybe(10, |random| Box::new(schedule_write(random, model)));
        let bulk = random.maybe(10, |random| Box::new(bulk_write(random, model)));
        let inbox = self.random.percent(12).then(|| Box::new(self.inbox_write(model)));
        let random = &mut self.random;
        Step {
            instance: random.maybe(60, instance_write),
            events: random.some(2, Random::event),
            // A copy onto places that are taken is an error, which a random one nearly always is.
            rewind: None,
            policies: random.some(1, Random::policy),
            tasks: task_writes(random),
            child_starts: if random.percent(15) { random.some(2, child_start) } else { Vec::new() },
            messages: random.some(3, message_write),
            attempts: random.some(1, Random::attempt),
            actions: random.some(1, Random::action),
            letters: if random.percent(40) { random.some(2, Random::letter) } else { Vec::new() },
            kv: random.some(2, Random::kv),
            // How often one is set twice in a batch is counted differently.
            policy_overrides: Vec::new(),
            gates: if random.percent(30) { random.some(3, Random::gate_write) } else { Vec::new() },
            schedule,
            inbox,
            bulk,
        }
    }

    /// Mostly takes a row that is there; sometimes one that is not as it was, or is gone.
    fn inbox_write(&mut self, model: &Model) -> InboxWrite {
        let random = &mut self.random;
        let there = model.inbox(ShardSet::ALL, usize::MAX);
        self.inbox.extend(there.iter().cloned());
        let known = if random.percent(70) { &there } else { &self.inbox };
        if known.is_empty() || random.percent(20) {
            return InboxWrite::Forget { before: random.time() };
        }
        let mut row = random.one_of(known);
        if random.percent(20) {
            return InboxWrite::Refuse { arrival: row.arrival, error: "why".to_string() };
        }
        if random.percent(10) {
            row.name = Some("another".to_string());
        }
        InboxWrite::Take { row, at: random.time() }
    }

    /// Mostly a closed instance, or those that closed as one did.
    fn deletion(&mut self, model: &Model) -> Deletion {
        let random = &mut self.random;
        let closed = model.closed(&(1..=INSTANCES).map(uid).collect::<Vec<_>>());
        let one = (!closed.is_empty()).then(|| random.one_of(&closed));
        if random.percent(30) {
            return Deletion::One(one.map_or_else(|| random.uid(), |row| row.uid));
        }
        if random.percent(20) {
            return Deletion::Letters { before: random.time() };
        }
        if random.percent(20) {
            return Deletion::Bulk { before: random.time() };
        }
        Deletion::Many(Sweep {
            status: one.map_or(Status::Completed, |row| row.status),
            closed_before: if random.percent(70) { at(100) } else { random.time() },
            workflow: random.maybe(20, |random| random.text(&WORKFLOWS)),
            tag: random.maybe(20, |random| ("k1".to_string(), random.text(&IDS))),
            after: None,
        })
    }

    /// Mostly the end of an attempt that runs.
    fn transact(&mut self, model: &Model) -> Change {
        let random = &mut self.random;
        let tasks: Vec<_> = all_runs().flat_map(|run| model.tasks(run)).collect();
        let running: Vec<(CallKey, u64)> =
            tasks.iter().filter_map(|row| Some((row.call, row.claim.as_ref()?.token))).collect();
        let (call, token) = match running.is_empty() || random.percent(20) {
            true => (random.call(), random.one_of(&TOKENS)),
            false => random.one_of(&running),
        };
        Change::Transact { call, token, message: random.message() }
    }

    /// A claim of tasks that others leave.
    pub(super) fn claim(&mut self) -> ClaimShared {
        let random = &mut self.random;
        if random.percent(30) {
            return ClaimShared::One(random.call());
        }
        ClaimShared::All(runnable(random))
    }

    /// Every read there is, in the space that rows are drawn from. Which tasks can be loaded is
    /// told by the model: a store sets aside what cannot.
    pub(super) fn questions(&self, model: &Model) -> Questions {
        let mut random = Random(self.random.0 ^ 1);
        let calls: Vec<CallKey> =
            all_runs().flat_map(|run| (1..=PLACES).map(move |seq| run.call(Seq(seq)))).collect();
        let is_loadable = |call: &&CallKey| matches!(model.load_task(**call), Ok(Some(_)));
        Questions {
            uids: (1..=INSTANCES).map(uid).collect(),
            runs: all_runs().collect(),
            loadable: calls.iter().filter(is_loadable).copied().collect(),
            calls,
            runnable: runnable(&mut random),
            before: random.time(),
            limit: 1 + random.below(3) as usize,
            uid: random.uid(),
        }
    }
}

fn all_runs() -> impl Iterator<Item = RunKey> {
    let runs = |uid| (1..=RUNS).map(move |run| RunKey { uid, run });
    (1..=INSTANCES).map(uid).flat_map(runs)
}

fn runnable(random: &mut Random) -> Runnable {
    let mut names = |percent, all: &[&str]| {
        let chosen = |random: &mut Random| random.some(2, |random| random.text(all)).into();
        random.maybe(percent, chosen)
    };
    Runnable {
        activities: names(40, &ACTIVITIES),
        queues: names(40, &QUEUES),
        provides: names(60, &LACKING),
        no_poison: random.percent(30),
        gates: match random.below(4) {
            0 => GateScope::Except(random.some(2, |random| random.text(&KEYS)).into()),
            1 => GateScope::Only([(random.text(&KEYS), 1_000)].into()),
            _ => GateScope::All,
        },
        paused: PausedKinds {
            activities: paused(random, &ACTIVITIES),
            queues: paused(random, &QUEUES),
        },
        probing: random.percent(20),
    }
}

fn paused(random: &mut Random, all: &[&str]) -> Arc<[String]> {
    match random.percent(15) {
        true => random.some(1, |random| random.text(all)).into(),
        false => Arc::default(),
    }
}

fn instance_write(random: &mut Random) -> InstanceWrite {
    match random.below(10) {
        0..3 => InstanceWrite::Insert {
            row: Box::new(random.instance()),
            replaces: match random.below(5) {
                0..2 => Replaces::Nobody,
                2..4 => Replaces::Closed,
                _ => Replaces::Only(random.uid()),
            },
        },
        3..6 => InstanceWrite::Open {
            uid: random.uid(),
            signals_below: random.maybe(70, |random| random.below(4) as usize),
        },
        6 => InstanceWrite::Continue {
            run: random.run(),
            input: random.kv().value,
            pause: random.maybe(50, |random| {
                let stood_still_ms = random.below(3);
                Box::new(RunPause { stood_still_ms, ..RunPause::default() })
            }),
        },
        7 => InstanceWrite::Pause {
            uid: random.uid(),
            status: random.one_of(&[Status::Paused, Status::Running]),
            pause: RunPause {
                by: random.maybe(50, |random| random.text(&IDS)),
                stood_still_ms: random.below(3),
                ..RunPause::default()
            },
        },
        _ => {
            let status = random.one_of(&Status::ALL);
            InstanceWrite::Status {
                uid: random.uid(),
                status,
                outcome: random.maybe(50, |random| random.kv().value),
                compensation: random.compensation(),
                error: random.maybe(30, |_| "why".to_string()),
                closed_at: status.is_closed().then(|| random.time()),
            }
        }
    }
}

/// The tasks of a step; often a call that follows another one of its run, which some stores write
/// in a way of its own.
fn task_writes(random: &mut Random) -> Vec<TaskWrite> {
    if random.percent(20) {
        let (next, seq) = (random.task(), Seq(1 + random.below(PLACES)));
        let done = next.call.run.call(seq);
        let pair = [TaskWrite::Delete(done), TaskWrite::Insert(next)];
        return match random.percent(80) {
            true => pair.into(),
            false => pair.into_iter().rev().collect(),
        };
    }
    random.some(2, |random| match random.below(10) {
        0..4 => TaskWrite::Insert(random.task()),
        4..6 => TaskWrite::Update(random.task()),
        6 => TaskWrite::Amend(random.task()),
        7 => TaskWrite::Delete(random.call()),
        8 => TaskWrite::Discard(random.call()),
        _ => TaskWrite::DeleteAll(random.run()),
    })
}

fn child_start(random: &mut Random) -> ChildStart {
    let row = random.instance();
    let start = MessageRow { uid: row.uid, ..random.message() };
    let otherwise = random.maybe(50, Random::message);
    let replaces = if random.percent(30) { Replaces::Closed } else { Replaces::Nobody };
    ChildStart { row, replaces, start, otherwise }
}

fn message_write(random: &mut Random) -> MessageWrite {
    let (uid, id) = (random.uid(), random.message_id());
    match random.below(14) {
        0..6 => MessageWrite::Insert(random.message()),
        6..8 => MessageWrite::InsertIfOpen(random.message()),
        8..10 => MessageWrite::Delete { uid, id },
        10 => MessageWrite::Defer { uid, id },
        11 => MessageWrite::DeleteRun(random.run()),
        12 => MessageWrite::Park(uid),
        _ => MessageWrite::Unpark(uid),
    }
}

/// Mostly a change that follows from what is stored before the batch.
fn schedule_write(random: &mut Random, model: &Model) -> ScheduleWrite {
    let row = random.schedule();
    let stored = model.schedule(&row.id).map(|stored| stored.revision);
    match random.below(4) {
        0 => ScheduleWrite::Insert(row),
        1 => ScheduleWrite::Delete { id: random.text(&SCHEDULES) },
        _ => {
            let stale = stored.is_none() || random.percent(15);
            let revision = stored.filter(|_| !stale).unwrap_or(NO_REVISION);
            ScheduleWrite::Update { row, revision }
        }
    }
}

/// Mostly a change that follows from what is stored before the batch.
fn bulk_write(random: &mut Random, model: &Model) -> BulkWrite {
    let row = random.bulk();
    let stored = model.bulk(&row.id).map(|stored| stored.revision);
    match random.below(4) {
        0 => BulkWrite::Insert(row),
        1 => BulkWrite::Stop { id: random.text(&JOBS), by: random.text(&NODES) },
        _ => {
            let stale = stored.is_none() || random.percent(15);
            let revision = stored.filter(|_| !stale).unwrap_or(NO_REVISION);
            BulkWrite::Update { row, revision }
        }
    }
}
