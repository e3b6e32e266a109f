//! Compares what the engine recorded with what the world outside saw.
//!
//! The journal says which attempts began, when and in which process; history and ledger say what
//! the engine knows about them. Every call is checked for itself: its attempts are numbered without
//! gaps, each began at most once, in its turn and not before its time, what followed it is what the
//! policy says after the failures so far, and nothing began after the end.
//!
//! How late something was depends on the machine, and is printed. Times are compared only where
//! a busy machine makes what is compared later, or leaves both where they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write};
use std::process::ExitStatus;
use std::time::Duration;

use resurgam::retry::{self, CheckedPolicy, Decision, Idempotency, Reason};
use resurgam::{AttemptOutcome, AttemptRow, Failure, InstanceFilter, InstanceRow, Kind, Status};
use resurgam_core::event::RetryMetadata;
use resurgam_core::{CallKey, Event, EventKind, RunKey, Seq, Timestamp};
use resurgam_store::Inspect;
use resurgam_store::rows::Message;
use resurgam_store_sqlite::{Options, SqliteStore};

use super::Ground;
use super::journal::{self, Ending, Entry, What};
use super::past::{CLOCKS_MS, Past};
use super::program;
use super::workload::{self, Report, SNOOZE};

/// The clock of the engine and that of the journal are rounded apart.
const ROUNDING_MS: i64 = 1;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Killed,
    Stopped,
    /// It was told to stop, and killed before it had.
    KilledInItsStop,
}

impl Fate {
    /// That of a process that was told to stop.
    pub(crate) fn of_stopped(ended: ExitStatus) -> Self {
        match ended.code() {
            Some(0) => Fate::Stopped,
            Some(workload::GAVE_UP) => Fate::KilledInItsStop,
            // It had not heard of the signal yet, and ended by it.
            None => Fate::Killed,
            Some(code) => panic!("a process that was told to stop failed with {code}"),
        }
    }
}

/// What the world outside saw.
struct Witness {
    entries: Vec<Entry>,
    /// When each process was first seen at work, and how it ended.
    processes: BTreeMap<u32, (i64, Fate)>,
    /// When the test was about to end a process.
    ended_at: HashMap<u32, i64>,
    /// The attempts of each call.
    begins: HashMap<String, BTreeMap<u32, Vec<Seen>>>,
    ends: HashMap<(String, u32), Ending>,
    /// When the test did something to a node or to the server.
    damage: Vec<i64>,
    /// What was done to nodes that work at the same time; otherwise one process works at a time.
    past: Option<Past>,
}

/// Where and when an attempt was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: i64,
    process: u32,
    /// Its place in the journal.
    place: usize,
}

impl Witness {
    fn read(ground: &Ground, fates: &[Fate], past: Option<Past>) -> Self {
        let entries = journal::read(&ground.journal());
        let mut witness = Witness {
            processes: BTreeMap::new(),
            ended_at: HashMap::new(),
            begins: HashMap::new(),
            ends: HashMap::new(),
            entries: Vec::new(),
            damage: Vec::new(),
            past,
        };
        for (place, Entry { at, process, what }) in entries.iter().cloned().enumerate() {
            match what {
                What::Process | What::Works => witness.works(process, at, fates),
                What::Ends => {
                    witness.ended_at.insert(process, at);
                }
                What::Begin { key, attempt, .. } => {
                    witness.works(process, at, fates);
                    let attempts = witness.begins.entry(key).or_default();
                    attempts.entry(attempt).or_default().push(Seen { at, process, place });
                    if let Some(past) = &mut witness.past {
                        past.began(process, at);
                    }
                }
                What::End { key, attempt, ending } => {
                    witness.ends.insert((key, attempt), ending);
                }
                What::Damage { .. } => witness.damage.push(at),
                What::Slow { millis } => {
                    if let Some(past) = &mut witness.past {
                        past.slow(process, at - millis, at);
                    }
                }
                What::Starting { .. } | What::Started { .. } => {}
            }
        }
        Witness { entries, ..witness }
    }

    /// A process shows that it works, perhaps for the first time.
    fn works(&mut self, process: u32, at: i64, fates: &[Fate]) {
        let fate = fates[process as usize];
        self.processes.entry(process).or_insert((at, fate));
    }

    /// The last process that may have worked at a time: the one that was last seen at work by then,
    /// or the next one, where that one was about to be ended by then.
    fn process_at(&self, at: i64) -> u32 {
        let works = |(_, (began, _)): &(&u32, &(i64, Fate))| *began <= at + ROUNDING_MS;
        let Some((process, _)) = self.processes.iter().rev().find(works) else { return 0 };
        let is_over = self.ended_at.get(process).is_some_and(|ended| *ended <= at + ROUNDING_MS);
        let next = self.processes.range(process + 1..).next().filter(|_| is_over);
        next.map_or(*process, |(next, _)| *next)
    }

    fn fate(&self, process: u32) -> Fate {
        self.processes[&process].1
    }

    /// The earliest time at which something may be seen that is due at a time. Several nodes each
    /// have their own idea of the time, by which the engine's times are compared.
    fn earliest(&self, due: i64) -> i64 {
        match self.past {
            Some(_) => i64::MIN,
            None => due - ROUNDING_MS,
        }
    }

    /// How far the clocks may be apart by which two times were taken.
    fn apart(&self) -> i64 {
        self.past.as_ref().map_or(0, |_| CLOCKS_MS)
    }

    /// When a process last looked whether it may begin the attempt that was seen to begin in it.
    fn looked(&self, seen: Seen) -> i64 {
        self.past.as_ref().map_or(seen.at, |past| past.looked(seen.process, seen.at))
    }

    /// True when an attempt may be lost that is found to be so at this time.
    fn explains_loss(&self, seen: Seen, found: i64) -> bool {
        match &self.past {
            Some(past) => past.explains_loss(seen.process, seen.at, found),
            None => self.fate(seen.process) != Fate::Stopped,
        }
    }

    /// How long after it was due, and after the last damage before it, something began.
    fn recovery(&self, due: i64, began: i64) -> i64 {
        let before = self.damage.iter().rev().find(|at| **at <= began);
        began - before.map_or(due, |damage| due.max(*damage))
    }

    fn begun(&self, call: CallKey, attempt: u32) -> Option<Seen> {
        Some(self.begins.get(&call.to_string())?.get(&attempt)?[0])
    }

    fn ended(&self, call: CallKey, attempt: u32) -> Option<Ending> {
        self.ends.get(&(call.to_string(), attempt)).copied()
    }
}

/// What there was, for the reader of a passing test.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "it is printed as it is")]
struct Tally {
    instances: usize,
    calls: usize,
    attempts: usize,
    /// How long after it was due the most belated retry began.
    late_ms: i64,
    /// The same, counted from the last damage before it.
    recovery_ms: i64,
    /// How long after it was due the most belated timer fired.
    timer_late_ms: i64,
    outcomes: BTreeMap<&'static str, usize>,
}

/// Checks everything that was recorded and seen, when all processes have ended.
pub(crate) fn check(ground: Ground, seed: u64, fates: &[Fate]) {
    let witness = Witness::read(&ground, fates, None);
    let compared = program::runtime().block_on(async {
        let store = SqliteStore::open(ground.file(), Options::default()).unwrap();
        let compared = compare(&witness, &store, true).await;
        store.close().await;
        compared
    });
    tell(compared, ground, seed, fates);
}

/// The same for nodes that worked at the same time, to which all this was done. Whether any rows
/// are left that would wake a run can be asked at once there, for all instances.
pub(crate) async fn check_nodes(
    ground: Ground,
    store: &dyn Inspect,
    seed: u64,
    fates: &[Fate],
    past: Past,
    may_be_left: bool,
) {
    let witness = Witness::read(&ground, fates, Some(past));
    let compared = compare(&witness, store, may_be_left).await;
    tell(compared, ground, seed, fates);
}

fn tell(compared: Result<Tally, Wrong>, ground: Ground, seed: u64, fates: &[Fate]) {
    match compared {
        Ok(tally) => println!("{} processes: {tally:?}", fates.len()),
        Err(wrong) => {
            // What there is to look at stays.
            let folder = ground.folder.keep();
            panic!("RESURGAM_SEED={seed}, files in {}:\n{wrong}", folder.display());
        }
    }
}

async fn compare(
    witness: &Witness,
    store: &dyn Inspect,
    may_be_left: bool,
) -> Result<Tally, Wrong> {
    let everything = InstanceFilter { limit: 1_000_000, ..InstanceFilter::default() };
    let rows = store.list(everything).await.unwrap();
    let mut wrong = Wrong::default();
    let mut tally = Tally { instances: rows.len(), ..Tally::default() };
    wrong.extend(none_is_lost(witness, &rows));
    wrong.extend(none_began_twice(witness));
    let mut known = HashSet::new();
    for row in &rows {
        let run = RunKey { uid: row.uid, run: row.run };
        let story = Story {
            witness,
            row,
            run,
            events: store.history(run).await.unwrap(),
            ledger: store.attempts(run).await.unwrap(),
        };
        let open = if may_be_left { left_of(store, run).await } else { 0 };
        let before = wrong.what.len();
        wrong.extend(story.check(&mut tally, &mut known));
        wrong.expect(open == 0, || format!("{}: {open} tasks and messages are left", row.id));
        wrong.tell_the_story(before, &story);
    }
    wrong.expect(witness.begins.keys().all(|key| known.contains(key)), || {
        "an attempt of an unknown call began".to_string()
    });
    if wrong.what.is_empty() { Ok(tally) } else { Err(wrong) }
}

/// How many rows of a run are left that would wake it. A signal that was repeated as the run closed
/// may be: the sender was told that the run was open.
async fn left_of(store: &dyn Inspect, run: RunKey) -> usize {
    let mut left = store.messages(run.uid).await.unwrap();
    left.retain(|message| !matches!(message.body, Message::Signal { .. }));
    store.tasks(run).await.unwrap().len() + left.len()
}

/// What is wrong, and the whole story of the first instance that something is wrong with.
#[derive(Default)]
struct Wrong {
    what: Vec<String>,
    story: Option<String>,
}

impl Wrong {
    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.what.push(otherwise());
        }
    }

    fn extend(&mut self, others: Wrong) {
        self.what.extend(others.what);
    }

    /// Adds what is known about an instance when something new is wrong with it.
    fn tell_the_story(&mut self, before: usize, story: &Story<'_>) {
        if self.what.len() > before {
            self.story.get_or_insert_with(|| story.text());
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what.join("\n"))?;
        f.write_str(self.story.as_deref().unwrap_or_default())
    }
}

/// Every start that was acknowledged is there, and every start that was begun happened once.
fn none_is_lost(witness: &Witness, rows: &[InstanceRow]) -> Wrong {
    let mut wrong = Wrong::default();
    let mut ids: HashMap<&str, usize> = HashMap::new();
    rows.iter().for_each(|row| *ids.entry(&row.id).or_default() += 1);
    for entry in &witness.entries {
        if let What::Started { id } | What::Starting { id } = &entry.what {
            let count = ids.get(id.as_str()).copied().unwrap_or(0);
            wrong.expect(count == 1, || format!("{id} was started and is there {count} times"));
        }
    }
    wrong
}

fn none_began_twice(witness: &Witness) -> Wrong {
    let mut wrong = Wrong::default();
    for (key, attempts) in &witness.begins {
        for (attempt, seen) in attempts {
            wrong.expect(seen.len() == 1, || format!("attempt {attempt} of {key} began: {seen:?}"));
        }
    }
    wrong
}

/// Everything that is known about an instance.
struct Story<'a> {
    witness: &'a Witness,
    row: &'a InstanceRow,
    run: RunKey,
    events: Vec<Event>,
    ledger: Vec<AttemptRow>,
}

/// How a call ended.
enum End<'a> {
    Completed { attempt: u32, metadata: Option<&'a RetryMetadata> },
    Failed { attempt: u32, failure: &'a Failure, why: &'a str, metadata: Option<&'a RetryMetadata> },
    Cancelled,
}

impl Story<'_> {
    fn check(&self, tally: &mut Tally, known: &mut HashSet<String>) -> Wrong {
        let mut wrong = self.check_events(tally);
        let mut reported = Vec::new();
        for event in &self.events {
            let EventKind::ActivityScheduled(scheduled) = &event.kind else { continue };
            let key = self.run.call(event.seq);
            known.insert(key.to_string());
            let ends = self.ends(event.seq);
            let [(at, end)] = ends.as_slice() else {
                wrong.what.push(format!("{key}: it ended {} times", ends.len()));
                continue;
            };
            let rows: Vec<_> = self.ledger.iter().filter(|row| row.call == key).collect();
            let policy = workload::policy(&scheduled.name).check().unwrap();
            let call =
                Call { story: self, key, scheduled: event.at, ended: *at, rows, policy, end };
            wrong.extend(call.check());
            call.count(tally);
            reported.push(call.settled());
        }
        let outcome = self.row.outcome.as_ref().and_then(|outcome| outcome.decode().ok());
        let signal = if self.waits_for_signal() { self.row.id.clone() } else { String::new() };
        let expected = Report { calls: reported, signal };
        wrong.expect(outcome.as_ref() == Some(&expected), || {
            format!("{}: returned {outcome:?}, history says {expected:?}", self.row.id)
        });
        wrong
    }

    fn ends(&self, call: Seq) -> Vec<(Timestamp, End<'_>)> {
        let ends = self.events.iter().filter_map(|event| {
            let end = match &event.kind {
                EventKind::ActivityCompleted(done) if done.activity == call => {
                    End::Completed { attempt: done.attempt, metadata: done.retry_metadata.as_ref() }
                }
                EventKind::ActivityFailed(failed) if failed.activity == call => End::Failed {
                    attempt: failed.attempt,
                    failure: &failed.failure,
                    why: &failed.why,
                    metadata: failed.retry_metadata.as_ref(),
                },
                EventKind::ActivityCancelled { activity } if *activity == call => End::Cancelled,
                _ => return None,
            };
            Some((event.at, end))
        });
        ends.collect()
    }

    fn check_events(&self, tally: &mut Tally) -> Wrong {
        let mut wrong = Wrong::default();
        let (id, events) = (&self.row.id, &self.events);
        wrong.expect(self.row.status == Status::Completed, || {
            format!(
                "{id}: is {}: {:?} {:?}",
                self.row.status.name(),
                self.row.error,
                self.row.outcome
            )
        });
        let in_order = events.iter().zip(1..).all(|(event, seq)| event.seq == Seq(seq));
        wrong.expect(in_order, || format!("{id}: its events have gaps"));
        let in_time = events.windows(2).all(|two| two[0].at <= two[1].at);
        wrong.expect(in_time, || format!("{id}: its events go back in time"));
        let count =
            |is: fn(&EventKind) -> bool| events.iter().filter(|event| is(&event.kind)).count();
        let closes = count(EventKind::is_close);
        wrong.expect(closes == 1, || format!("{id}: it was closed {closes} times"));
        let signals = count(|kind| matches!(kind, EventKind::SignalReceived { .. }));
        let sent = usize::from(self.waits_for_signal());
        wrong.expect(signals == sent, || format!("{id}: {signals} signals came of {sent}"));
        for event in events {
            if let EventKind::TimerStarted { fire_at } = event.kind {
                wrong.extend(self.check_timer(event.seq, fire_at, tally));
            }
        }
        wrong
    }

    /// Every instance does, but for those trips that were told not to.
    fn waits_for_signal(&self) -> bool {
        let told = self.row.input.decode::<serde_json::Value>();
        told.map_or(true, |input| input.get("waits") != Some(&serde_json::Value::Bool(false)))
    }

    /// A timer fires once and not before its time, whatever happened to the process meanwhile.
    fn check_timer(&self, timer: Seq, fire_at: Timestamp, tally: &mut Tally) -> Wrong {
        let mut wrong = Wrong::default();
        let (mut ends, due) = (0, fire_at.as_millis());
        for event in &self.events {
            match event.kind {
                EventKind::TimerFired { timer: fired } if fired == timer => {
                    ends += 1;
                    let at = event.at.as_millis();
                    tally.timer_late_ms = tally.timer_late_ms.max(at - due);
                    wrong.expect(due <= at, || {
                        format!("{}: timer {timer} was due at {due} and fired at {at}", self.row.id)
                    });
                }
                EventKind::TimerCancelled { timer: cancelled } if cancelled == timer => ends += 1,
                _ => {}
            }
        }
        wrong.expect(ends == 1, || format!("{}: timer {timer} ended {ends} times", self.row.id));
        wrong
    }

    /// History, ledger and journal of the instance.
    fn text(&self) -> String {
        let mut text = format!("the story of {}:\n", self.row.id);
        for event in &self.events {
            writeln!(text, "  {} {} {:?}", event.seq, event.at.as_millis(), event.kind).unwrap();
        }
        for row in &self.ledger {
            let AttemptRow { call, attempt, outcome, delay_ms, why, .. } = row;
            let (began, ended) = (row.started_at.as_millis(), row.ended_at.as_millis());
            writeln!(
                text,
                "  ledger: call {} attempt {attempt} {} {began} to {ended}, then {delay_ms:?} ({why})",
                call.seq,
                outcome.name()
            )
            .unwrap();
        }
        let uid = self.run.uid.to_string();
        let times = || self.events.iter().map(|event| event.at.as_millis());
        let lived = times().min().unwrap_or(0) - 200..times().max().unwrap_or(0);
        let about = |entry: &&Entry| match &entry.what {
            What::Begin { key, .. } | What::End { key, .. } => key.starts_with(&uid),
            What::Process | What::Damage { .. } | What::Slow { .. } => lived.contains(&entry.at),
            _ => false,
        };
        for entry in self.witness.entries.iter().filter(about) {
            writeln!(text, "  journal: {} {} {:?}", entry.at, entry.process, entry.what).unwrap();
        }
        text
    }
}

/// Everything that is known about an activity call.
struct Call<'a> {
    story: &'a Story<'a>,
    key: CallKey,
    scheduled: Timestamp,
    ended: Timestamp,
    rows: Vec<&'a AttemptRow>,
    policy: CheckedPolicy,
    end: &'a End<'a>,
}

/// What follows an attempt that did not succeed.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Again(Duration),
    Stop(Reason),
}

impl Call<'_> {
    fn check(&self) -> Wrong {
        let mut wrong = Wrong::default();
        let begun = self.begun();
        let last = match self.end {
            End::Completed { attempt, .. } | End::Failed { attempt, .. } => *attempt,
            End::Cancelled => begun.last().map_or(0, |(attempt, _)| *attempt),
        };
        wrong.expect(begun.iter().all(|(attempt, _)| *attempt <= last), || {
            format!("{}: ended with attempt {last}, but began {begun:?}", self.key)
        });
        let numbers: Vec<u32> = self.rows.iter().map(|row| row.attempt).collect();
        let expected: Vec<u32> = match self.end {
            End::Completed { .. } => (1..last).collect(),
            End::Failed { .. } => (1..=last).collect(),
            // The last one may have been under way.
            End::Cancelled => (1..=u32::try_from(numbers.len()).unwrap()).collect(),
        };
        wrong.expect(numbers == expected, || {
            format!("{}: the ledger has {numbers:?} and not {expected:?}", self.key)
        });
        for row in &self.rows {
            wrong.extend(self.check_row(row));
        }
        wrong.extend(self.check_decisions());
        wrong.extend(self.check_end());
        wrong.extend(self.check_order());
        wrong.extend(self.check_times());
        wrong
    }

    /// The attempts that the world outside saw, in order.
    fn begun(&self) -> Vec<(u32, Seen)> {
        let attempts = self.story.witness.begins.get(&self.key.to_string());
        let attempts = attempts.into_iter().flatten();
        attempts.map(|(attempt, seen)| (*attempt, seen[0])).collect()
    }

    /// What a row says happened did happen.
    fn check_row(&self, row: &AttemptRow) -> Wrong {
        let mut wrong = Wrong::default();
        let witness = self.story.witness;
        let begun = witness.begun(self.key, row.attempt);
        let ended = witness.ended(self.key, row.attempt);
        let fate = begun.map(|seen| witness.fate(seen.process));
        let agrees = match row.outcome {
            AttemptOutcome::Failed => ended == Some(Ending::Failed),
            AttemptOutcome::Snoozed => ended == Some(Ending::Snoozed),
            // Its process may have died between the claim and the first line of the code.
            AttemptOutcome::Lost => {
                let found = row.ended_at.as_millis();
                begun.is_none_or(|seen| witness.explains_loss(seen, found))
            }
            // So may the stop have come, after the attempt was handed to the executor.
            AttemptOutcome::Interrupted => fate.is_none_or(|fate| fate != Fate::Killed),
            AttemptOutcome::Cancelled => false,
        };
        wrong.expect(agrees, || {
            format!("{}: {} {row:?}, seen: {fate:?} {ended:?}", self.key, row.outcome.name())
        });
        wrong
    }

    /// What followed each attempt is what the policy says, which depends on how many failures it
    /// still knows of.
    fn check_decisions(&self) -> Wrong {
        let mut wrong = Wrong::default();
        let (mut failures, mut lost_in_a_row) = (0, 0);
        for (place, row) in self.rows.iter().enumerate() {
            match row.outcome {
                AttemptOutcome::Failed => (failures, lost_in_a_row) = (failures + 1, 0),
                AttemptOutcome::Snoozed | AttemptOutcome::Interrupted => lost_in_a_row = 0,
                AttemptOutcome::Lost => lost_in_a_row += 1,
                _ => {}
            }
            let expected = self.decide(row, failures, lost_in_a_row);
            let is_last = place + 1 == self.rows.len();
            let actual = match (row.delay_ms, self.end) {
                (Some(delay), _) => Next::Again(Duration::from_millis(delay)),
                (None, End::Failed { why, .. }) if is_last && *why == expected.why() => {
                    continue;
                }
                (None, _) => Next::Stop(Reason::Cancelled),
            };
            wrong.expect(actual == expected, || {
                let attempt = row.attempt;
                format!("{}: after attempt {attempt}: {actual:?}, not {expected:?}", self.key)
            });
        }
        wrong
    }

    fn decide(&self, row: &AttemptRow, failures: u32, lost_in_a_row: u32) -> Next {
        let CallKey { run, seq } = self.key;
        let once = self.policy.idempotency == Idempotency::AtMostOnce;
        let decision = match row.outcome {
            AttemptOutcome::Snoozed => return Next::Again(SNOOZE),
            AttemptOutcome::Interrupted if once => return Next::Stop(Reason::WorkerLost),
            AttemptOutcome::Interrupted => return Next::Again(Duration::ZERO),
            AttemptOutcome::Lost => retry::decide_lost(&self.policy, lost_in_a_row),
            _ => {
                let state = retry::State::after(failures, self.scheduled);
                let u = retry::uniform(run.uid.0, run.run, seq.0, failures);
                let failure = row.failure.clone().unwrap_or_default();
                retry::decide(&self.policy, &state, &failure, row.ended_at, u)
            }
        };
        match decision {
            Decision::Retry { delay, .. } => Next::Again(delay),
            Decision::Stop { why } => Next::Stop(why.reason),
        }
    }

    /// The event that ended the call tells the same story as the ledger.
    fn check_end(&self) -> Wrong {
        let mut wrong = Wrong::default();
        let (attempt, metadata, exhausted) = match self.end {
            End::Completed { attempt, metadata } => {
                let ended = self.story.witness.ended(self.key, *attempt);
                wrong.expect(ended == Some(Ending::Succeeded), || {
                    format!("{}: attempt {attempt} completed, seen: {ended:?}", self.key)
                });
                (*attempt, *metadata, false)
            }
            End::Failed { attempt, failure, why, metadata } => {
                let lost = *why == Reason::WorkerLost.name();
                wrong.expect((failure.kind == Kind::WorkerLost) == lost, || {
                    format!("{}: {failure} because of {why}", self.key)
                });
                (*attempt, *metadata, *why == Reason::MaxAttempts.name())
            }
            End::Cancelled if self.story.witness.past.is_some() => return wrong,
            End::Cancelled => {
                // No process that came later began it again.
                let process = self.story.witness.process_at(self.ended.as_millis());
                let begun = self.begun();
                wrong.expect(begun.iter().all(|(_, seen)| seen.process <= process), || {
                    format!("{}: cancelled in process {process}, but: {begun:?}", self.key)
                });
                return wrong;
            }
        };
        let expected = self.metadata(attempt, exhausted);
        wrong.expect(self.same_metadata(metadata, expected.as_ref()), || {
            format!("{}: history says {metadata:?}, the ledger {expected:?}", self.key)
        });
        wrong
    }

    /// What the ledger says about the retries.
    fn metadata(&self, attempt: u32, exhausted: bool) -> Option<RetryMetadata> {
        let rows = self.rows.iter().filter(|row| row.outcome != AttemptOutcome::Snoozed);
        let errors: Vec<_> = rows
            .map(|row| {
                let failure = row.failure.clone().unwrap_or_default();
                resurgam_core::event::AttemptError {
                    attempt: row.attempt,
                    error_type: failure.kind.name().to_string(),
                    message: failure.message.clone(),
                    timestamp_ms: row.ended_at.as_millis(),
                }
            })
            .collect();
        let left_out = errors.len().saturating_sub(20);
        let kept =
            errors.iter().enumerate().filter(|(place, _)| *place < 10 || *place >= 10 + left_out);
        let first = self.rows.first().map_or(self.ended, |row| row.started_at);
        (attempt > 1).then(|| RetryMetadata {
            total_attempts: attempt,
            total_duration_ms: u64::try_from(self.ended.since(first).as_millis()).unwrap(),
            exhausted,
            last_error: errors.last().cloned(),
            errors: kept.map(|(_, error)| error.clone()).collect(),
            errors_left_out: u32::try_from(left_out).unwrap(),
        })
    }

    /// The duration ends when the outcome was known; the event may be a little, or a crash, later.
    /// Two nodes may have taken these times by different clocks.
    fn same_metadata(&self, one: Option<&RetryMetadata>, other: Option<&RetryMetadata>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return one == other };
        let total_duration_ms = one.total_duration_ms;
        let same = *one == RetryMetadata { total_duration_ms, ..other.clone() };
        let has_one_clock = self.story.witness.past.is_none();
        same && (!has_one_clock || total_duration_ms <= other.total_duration_ms)
    }

    /// Attempts began in the order of their numbers: none did when the next one had. One that its
    /// process was about to begin as it was stopped, or told to end, may do so late and in vain.
    fn check_order(&self) -> Wrong {
        let mut wrong = Wrong::default();
        for two in self.begun().windows(2) {
            let [(attempt, seen), (next, after)] = two else { continue };
            let in_order = seen.place < after.place
                || self.story.witness.looked(*seen) < seen.at
                || self.was_interrupted(*attempt);
            wrong.expect(in_order, || {
                format!("{}: attempt {attempt} began after attempt {next}", self.key)
            });
        }
        wrong
    }

    fn was_interrupted(&self, attempt: u32) -> bool {
        let row = self.rows.iter().find(|row| row.attempt == attempt);
        row.is_some_and(|row| row.outcome == AttemptOutcome::Interrupted)
    }

    /// No attempt began before the one before said it would: a crash does not shorten a wait. On a
    /// busy machine it begins later, and never sooner.
    fn check_times(&self) -> Wrong {
        let mut wrong = Wrong::default();
        let witness = self.story.witness;
        let apart = witness.apart();
        let mut due = self.scheduled.as_millis();
        let rows = self.rows.iter().map(|row| Some(*row)).chain([None]);
        for (attempt, row) in (1..).zip(rows) {
            if let Some(row) = row {
                let claimed = row.started_at.as_millis();
                wrong.expect(claimed >= due - apart, || {
                    format!("{}: attempt {attempt} due at {due} claimed at {claimed}", self.key)
                });
            }
            if let Some(seen @ Seen { at, .. }) = witness.begun(self.key, attempt) {
                wrong.expect(witness.earliest(due) <= at, || {
                    format!("{}: attempt {attempt} due at {due} began at {at}", self.key)
                });
                wrong.extend(self.check_not_after_the_end(attempt, seen));
            }
            if let Some(row) = row {
                let delay = i64::try_from(row.delay_ms.unwrap_or(0)).unwrap();
                due = row.ended_at.as_millis() + delay;
            }
        }
        wrong
    }

    /// Nothing begins when the end of the call is recorded, also not in a process that had slept
    /// meanwhile. What is cancelled or interrupted at the very moment at which it begins may still
    /// do so; that no later process begins what was cancelled is checked with how the call ended.
    fn check_not_after_the_end(&self, attempt: u32, seen: Seen) -> Wrong {
        let mut wrong = Wrong::default();
        if matches!(self.end, End::Cancelled) || self.was_interrupted(attempt) {
            return wrong;
        }
        let (at, ended) = (self.story.witness.looked(seen), self.ended.as_millis());
        let apart = self.story.witness.apart() + ROUNDING_MS;
        wrong.expect(at <= ended + apart, || {
            format!("{}: ended at {ended}, and attempt {attempt} began at {at}", self.key)
        });
        wrong
    }

    /// What the workflow must have been told.
    fn settled(&self) -> String {
        match self.end {
            End::Completed { .. } => "completed".to_string(),
            End::Failed { failure, why, .. } => {
                format!("failed as {} because of {why}", failure.kind.name())
            }
            End::Cancelled => "cancelled".to_string(),
        }
    }

    fn count(&self, tally: &mut Tally) {
        tally.calls += 1;
        tally.attempts += self.begun().len();
        for row in self.rows.iter().filter(|row| row.delay_ms.is_some()) {
            let due = row.ended_at.as_millis() + row.delay_ms.unwrap_or(0).cast_signed();
            let witness = self.story.witness;
            let Some(next) = witness.begun(self.key, row.attempt + 1) else { continue };
            tally.late_ms = tally.late_ms.max(next.at - due);
            tally.recovery_ms = tally.recovery_ms.max(witness.recovery(due, next.at));
        }
        for row in &self.rows {
            *tally.outcomes.entry(row.outcome.name()).or_default() += 1;
        }
        let end = match self.end {
            End::Completed { .. } => "calls completed",
            End::Failed { why, .. } if *why == Reason::WorkerLost.name() => "calls worker_lost",
            End::Failed { .. } => "calls exhausted",
            End::Cancelled => "calls cancelled",
        };
        *tally.outcomes.entry(end).or_default() += 1;
    }
}

impl Next {
    fn why(&self) -> &'static str {
        match self {
            Next::Stop(reason) => reason.name(),
            Next::Again(_) => "again",
        }
    }
}
