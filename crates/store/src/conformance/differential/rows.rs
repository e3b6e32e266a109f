//! A small space of ids, times and values, and random rows of them.

use resurgam_core::action::Action;
use resurgam_core::event::{ActivityScheduled, Compensation};
use resurgam_core::{CallKey, Event, EventKind, Failure, Payload, RunKey, Seq, Timestamp, Uid};

use super::super::fixtures::{action, at, failed_attempt, instance, json, letter, uid};
use crate::rows::{
    ActionRow, AttemptOutcome, AttemptRow, Claim, Heartbeat, InstanceRow, KvRow, Message,
    MessageRow, Pause, PolicyRow, Progress, Status, TaskRow,
};
use crate::{
    BulkRow, ByHand, GateCount, GateWrite, HandState, Hold, HoldKind, InboxRow, LetterState,
    LetterWrite, Report, Reported, ScheduleRow, Settled, StoredSettings,
};

/// How many instances there are at most.
pub(super) const INSTANCES: u128 = 4;

/// How many runs an instance has at most.
pub(super) const RUNS: u32 = 2;

/// How many events a run has at most.
pub(super) const PLACES: u64 = 5;

pub(super) const IDS: [&str; 4] = ["a", "b", "c", "d"];
pub(super) const REQUESTS: [&str; 2] = ["r1", "r2"];
pub(super) const QUEUES: [&str; 2] = ["q1", "q2"];
pub(super) const ACTIVITIES: [&str; 2] = ["charge", "ship"];
pub(super) const LACKING: [&str; 2] = ["x", "key \"y\""];
pub(super) const POLICIES: [&str; 2] = ["p1", "p2"];
pub(super) const FINGERPRINTS: [&str; 2] = ["1:0a", "1:0b"];
pub(super) const KEYS: [&str; 2] = ["k1", "k2"];
pub(super) const WORKFLOWS: [&str; 2] = ["fulfil", "report"];
/// Nodes that claim tasks; whether they work is another matter.
pub(super) const NODES: [&str; 3] = ["node-a", "node-b", "owner-1"];
pub(super) const TOKENS: [u64; 2] = [7, u64::MAX];
/// Schedules are called as instances are, and start instances that are called so.
pub(super) const SCHEDULES: [&str; 2] = ["a", "b"];
pub(super) const JOBS: [&str; 2] = ["j1", "j2"];

/// Numbers from a seed, the same on every machine (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    pub(super) fn text(&mut self, all: &[&str]) -> String {
        self.one_of(all).to_string()
    }

    /// Something in so many of a hundred cases.
    pub(super) fn maybe<T>(
        &mut self,
        percent: u64,
        some: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.percent(percent).then(|| some(self))
    }

    /// So many at most.
    pub(super) fn some<T>(&mut self, most: u64, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.below(most + 1);
        (0..count).map(|_| one(self)).collect()
    }

    pub(super) fn time(&mut self) -> Timestamp {
        at(10 * self.below(7).cast_signed() - 10)
    }

    pub(super) fn uid(&mut self) -> Uid {
        uid(1 + u128::from(self.below(INSTANCES as u64)))
    }

    pub(super) fn run(&mut self) -> RunKey {
        let run = if self.percent(75) { 1 } else { RUNS };
        RunKey { uid: self.uid(), run }
    }

    pub(super) fn call(&mut self) -> CallKey {
        self.run().call(Seq(1 + self.below(PLACES)))
    }

    fn value(&mut self) -> Payload {
        json(&format!("[{}]", self.below(10)))
    }

    /// An instance, sometimes one that is closed already.
    pub(super) fn instance(&mut self) -> InstanceRow {
        let number = 1 + u128::from(self.below(INSTANCES as u64));
        let status = if self.percent(90) { Status::Running } else { self.one_of(&Status::ALL) };
        InstanceRow {
            workflow: self.text(&WORKFLOWS),
            status,
            request_id: self.maybe(45, |random| random.text(&REQUESTS)),
            priority: self.below(3) as i32 - 1,
            parent: self.maybe(20, Random::call),
            schedule: self.maybe(20, |random| random.text(&SCHEDULES)),
            tags: self
                .some(2, |random| (random.text(&KEYS), random.text(&IDS)))
                .into_iter()
                .collect(),
            input: self.value(),
            error: self.maybe(10, |_| "why".to_string()),
            created_at: self.time(),
            closed_at: status.is_closed().then(|| self.time()),
            ..instance(number, self.one_of(&IDS))
        }
    }

    pub(super) fn compensation(&mut self) -> Option<Compensation> {
        self.maybe(30, |random| random.one_of(&[Compensation::Complete, Compensation::Incomplete]))
    }

    pub(super) fn event(&mut self) -> (RunKey, Event) {
        let CallKey { run, seq } = self.call();
        let kind = match self.below(6) {
            0 => EventKind::CancelRequested { reason: "over".to_string() },
            1 => EventKind::SignalReceived {
                name: "paid".to_string(),
                value: self.value(),
                id: self.maybe(60, |random| random.text(&REQUESTS)),
            },
            2 => EventKind::TimerFired { timer: Seq(1) },
            _ => EventKind::ActivityScheduled(ActivityScheduled {
                name: self.text(&ACTIVITIES),
                input: self.value(),
                queue: self.text(&QUEUES),
                compensates: None,
            }),
        };
        (run, Event { seq, at: self.time(), kind })
    }

    /// A policy. The first text of a hash counts.
    pub(super) fn policy(&mut self) -> PolicyRow {
        PolicyRow { hash: self.text(&POLICIES), text: self.text(&KEYS) }
    }

    pub(super) fn task(&mut self) -> TaskRow {
        let claim = self.maybe(40, |random| Claim {
            node: random.text(&NODES),
            token: random.one_of(&TOKENS),
            started_at: random.time(),
        });
        TaskRow {
            call: self.call(),
            name: self.text(&ACTIVITIES),
            queue: self.text(&QUEUES),
            gate: self.text(&KEYS),
            priority: self.below(3) as i32 - 1,
            policy: self.text(&POLICIES),
            attempt: self.below(3) as u32,
            wake_at: if self.percent(10) { TaskRow::NEVER } else { self.time() },
            deadline_at: self.maybe(30, Random::time),
            claim,
            progress: self.progress(),
            heartbeat: self
                .maybe(20, |random| Heartbeat { details: random.value(), at: random.time() }),
        }
    }

    fn progress(&mut self) -> Progress {
        Progress {
            v: 1,
            failures: self.below(3) as u32,
            first_started: self.maybe(30, Random::time),
            probed: self.below(2) as u32,
            probing: self.percent(10),
            cancelled: self.percent(10),
            lacks: self.maybe(15, |random| random.text(&LACKING)),
            poison: self.percent(15),
            to_end: self.percent(5),
            paused: self.maybe(20, |random| Box::new(random.pause())),
            ..Progress::default()
        }
    }

    fn pause(&mut self) -> Pause {
        Pause {
            since: self.maybe(90, Random::time),
            fingerprint: self.maybe(80, |random| random.text(&FINGERPRINTS)),
            error: self.maybe(80, |random| random.text(&KEYS)),
            ..Pause::default()
        }
    }

    pub(super) fn attempt(&mut self) -> AttemptRow {
        AttemptRow {
            outcome: self.one_of(&AttemptOutcome::ALL),
            ended_at: self.time(),
            failure: self.maybe(50, |_| Failure::retryable("down")),
            ..failed_attempt(self.call(), 1 + self.below(3) as u32)
        }
    }

    pub(super) fn action(&mut self) -> ActionRow {
        let mut row = action(1, 1, "", 0);
        (row.call, row.at, row.request.id) = (self.call(), self.time(), self.text(&REQUESTS));
        if self.percent(30) {
            row.request.action = Action::Complete { value: self.value(), unchecked: false };
        }
        row.answer.changed = self.percent(70);
        row
    }

    pub(super) fn letter(&mut self) -> LetterWrite {
        let call = self.call();
        if self.percent(60) {
            let mut letter = letter(call, 0);
            letter.at = self.time();
            letter.activity = self.text(&ACTIVITIES);
            letter.fingerprint = self.text(&FINGERPRINTS);
            letter.error = self.text(&KEYS);
            letter.input = self.value();
            letter.ledger = self.some(2, |random| AttemptRow {
                name: letter.activity.clone(),
                call,
                ..random.attempt()
            });
            return LetterWrite::Insert(Box::new(letter));
        }
        let settled = Settled {
            at: self.time(),
            by: self.text(&NODES),
            reason: self.maybe(50, |random| random.text(&KEYS)),
            redriven_as: self.maybe(50, |random| random.text(&IDS)),
        };
        let state = self.one_of(&[LetterState::Redriven, LetterState::Discarded]);
        LetterWrite::Settle { call, state, settled }
    }

    pub(super) fn kv(&mut self) -> KvRow {
        KvRow { uid: self.uid(), key: self.text(&KEYS), value: self.value() }
    }

    /// The id of a message: few, so that they repeat.
    pub(super) fn message_id(&mut self) -> String {
        match self.below(3) {
            0 => format!("{}{}", MessageRow::REPEATABLE_SIGNAL, self.one_of(&REQUESTS)),
            _ => format!("m{}", self.below(3)),
        }
    }

    pub(super) fn message(&mut self) -> MessageRow {
        let CallKey { run, seq } = self.call();
        let mut id = self.message_id();
        let body = match self.below(9) {
            0 => Message::Start,
            1 => Message::Timer { run: run.run, timer: seq },
            2 => Message::Cancel { reason: "over".to_string() },
            3 => Message::Result { run: run.run, event: EventKind::RunTimedOut { total: true } },
            4 => {
                let (token, at) = (self.one_of(&TOKENS), self.time());
                let outcome = Reported::Interrupted;
                let report = Report { activity: seq, token, at, outcome, heartbeat: None };
                id = report.id(run.run);
                Message::Report { run: run.run, report: Box::new(report) }
            }
            5 => {
                let request = Box::new(self.action().request);
                id = MessageRow::action_id(&request.id);
                let activity = if self.percent(30) { Seq::RUN } else { seq };
                Message::Action { run: run.run, activity, request }
            }
            _ => Message::Signal { name: "paid".to_string(), value: self.value() },
        };
        MessageRow { uid: run.uid, id, due_at: self.time(), body }
    }

    pub(super) fn schedule(&mut self) -> ScheduleRow {
        ScheduleRow {
            id: self.text(&SCHEDULES),
            workflow: self.text(&WORKFLOWS),
            input: self.value(),
            rule: "{}".to_string(),
            options: self.one_of(&["{}", r#"{"queue":"q1"}"#, "no JSON"]).to_string(),
            state: "{}".to_string(),
            paused: self.percent(20),
            next_at: self.maybe(80, Random::time),
            waits: self.percent(40),
            last: self.maybe(60, |random| random.text(&IDS)),
            error: self.maybe(20, |_| "why".to_string()),
            created_at: self.time(),
        }
    }

    pub(super) fn bulk(&mut self) -> BulkRow {
        BulkRow {
            id: self.text(&JOBS),
            filter: "{}".to_string(),
            action: "{}".to_string(),
            options: "{}".to_string(),
            cursor: self.maybe(50, |random| random.text(&IDS)),
            counts: "{}".to_string(),
            page: "[]".to_string(),
            by: self.text(&NODES),
            reason: self.maybe(50, |random| random.text(&KEYS)),
            stopped_by: self.maybe(20, |random| random.text(&NODES)),
            error: self.maybe(20, |_| "why".to_string()),
            created_at: self.time(),
            closed_at: self.maybe(30, Random::time),
        }
    }

    /// A change of what is stored of gates and paused kinds.
    pub(super) fn gate_write(&mut self) -> GateWrite {
        let key = self.text(&KEYS);
        let (by, reason) = (self.text(&NODES), self.maybe(50, |random| random.text(&KEYS)));
        let kind = self.one_of(&HoldKind::ALL);
        let at = self.time();
        match self.below(8) {
            0 => {
                let text = self.maybe(60, |random| random.text(&KEYS));
                GateWrite::Set { key, settings: StoredSettings { text, by, reason, at } }
            }
            1 => {
                let (state, until) = (self.one_of(&HandState::ALL), self.maybe(50, Random::time));
                GateWrite::Hand { key, hand: ByHand { state, by, reason, at, until } }
            }
            2 => GateWrite::Decide { key, decided: self.text(&IDS) },
            3 => GateWrite::Forget { key },
            4 => GateWrite::Count(GateCount { gate: key, at, node: by, counts: self.text(&IDS) }),
            5 => GateWrite::ForgetCounts { before: at },
            6 => GateWrite::Hold(Hold { kind, name: key, by, reason, since: at }),
            _ => GateWrite::Release { kind, name: key },
        }
    }

    /// A row of the inbox, before it has an arrival.
    pub(super) fn inbox_row(&mut self) -> InboxRow {
        InboxRow {
            arrival: 0,
            id: self.maybe(70, |random| random.text(&REQUESTS)),
            instance: self.text(&IDS),
            kind: "start".to_string(),
            name: self.maybe(70, |random| random.text(&WORKFLOWS)),
            body: self.maybe(70, Random::value),
        }
    }
}
