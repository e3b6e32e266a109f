//! Decides what becomes of each step of a batch, from what the database knew before it.
//!
//! Pure. The database said no to the batch as a whole; here its steps are gone through one by one
//! with what was read, each seeing what those before it leave behind. A step whose id is taken or
//! whose instance is closed is left out, and a row that cannot be written is an error that names
//! it.

use std::collections::{HashMap, HashSet};

use resurgam_core::{CallKey, RunKey, Seq, Uid};
use resurgam_store::rows::{InstanceRow, Message, MessageRow};
use resurgam_store::{
    BulkWrite, ChildStart, Error, InboxRow, InboxWrite, InstanceWrite, LetterState, LetterWrite,
    MessageWrite, Replaces, Result, ScheduleWrite, Step, StepResult, TaskWrite,
};

use super::look::first_copied;
use super::plan::{Plan, Started};

/// What the database knew before the batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredBefore {
    /// Who holds the ids that the batch asks for.
    pub(crate) holders: HashMap<String, Uid>,
    /// Request ids that were seen.
    pub(crate) requests: HashSet<String>,
    /// Instances: whether they are closed.
    pub(crate) closed: HashMap<Uid, bool>,
    /// Instances whose ids others have taken over.
    pub(crate) replaced: HashSet<Uid>,
    /// Tasks that are there.
    pub(crate) tasks: HashSet<CallKey>,
    /// Events that are there.
    pub(crate) events: HashSet<(RunKey, Seq)>,
    /// How many signals wait for the instances that need room for one.
    pub(crate) signals: HashMap<Uid, i64>,
    /// Messages that are there, of those instances and named by the batch.
    pub(crate) messages: HashMap<(Uid, String), Waiting>,
    /// Schedules that are there, with their revisions.
    pub(crate) schedules: HashMap<String, Revision>,
    /// Bulk jobs that are there, with their revisions, and whether they go on.
    pub(crate) bulk: HashMap<String, (Revision, bool)>,
    /// Dead letters that are there, and whether they are open.
    pub(crate) letters: HashMap<CallKey, bool>,
    /// Rows of the inbox that nobody has taken or refused.
    pub(crate) inbox: HashMap<i64, InboxRow>,
    /// Ids of rows that were taken.
    pub(crate) seen: HashSet<String>,
}

/// What is known of a message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// It is a signal.
    pub(crate) is_signal: bool,
    /// The run that it belongs to.
    pub(crate) run: Option<u32>,
}

/// The revision of a schedule, or of a bulk job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    /// As it was read.
    Read(i64),
    /// Given by this batch: nobody can know it yet.
    New,
}

/// What is written of a batch, and what became of its steps.
pub(crate) fn plan_and_results(
    batch: &[Step],
    mut known: StoredBefore,
) -> Result<(Plan<'_>, Vec<StepResult>)> {
    let mut plan = Plan::default();
    let mut results = Vec::with_capacity(batch.len());
    for step in batch {
        let result = match known.refusal(step)? {
            Some(refusal) => refusal,
            None => known.instance(step.instance.as_ref())?,
        };
        results.push(result);
        if result == StepResult::Written {
            known.events(step)?;
            known.tasks(step)?;
            let started: Vec<Started> =
                step.child_starts.iter().map(|child| known.start_child(child)).collect();
            known.messages(step);
            known.schedule(step.schedule.as_deref());
            known.inbox(step.inbox.as_deref());
            known.bulk(step.bulk.as_deref());
            known.letters(step);
            plan.add(step, &started);
        } else if let Some(arrival) = known.repeated(step.inbox.as_deref()) {
            plan.drop_repeated(arrival);
        }
    }
    Ok((plan, results))
}

impl StoredBefore {
    /// Whether a schedule, a row of the inbox, a bulk job or a dead letter is not what it was.
    fn refusal(&self, step: &Step) -> Result<Option<StepResult>> {
        let follows = match step.schedule.as_deref() {
            None => true,
            Some(ScheduleWrite::Insert(row)) => !self.schedules.contains_key(&row.id),
            Some(ScheduleWrite::Update { row, revision }) => {
                self.schedules.get(&row.id) == Some(&Revision::Read(revision.cast_signed()))
            }
            Some(ScheduleWrite::Delete { id }) => self.schedules.contains_key(id),
        };
        let is_new = match step.inbox.as_deref() {
            Some(InboxWrite::Take { row, .. }) => self.is_there(row) && !self.is_seen(row),
            Some(InboxWrite::Refuse { .. } | InboxWrite::Forget { .. }) | None => true,
        };
        let follows = follows && self.bulk_follows(step.bulk.as_deref());
        let stored = |call: CallKey| Ok(self.letters.get(&call).copied());
        let follows = follows && LetterWrite::all_follow(&step.letters, stored)?;
        Ok((!follows || !is_new).then_some(StepResult::Missed))
    }

    /// The row of a step that is not written because one with its id was taken before.
    fn repeated(&mut self, write: Option<&InboxWrite>) -> Option<i64> {
        let Some(InboxWrite::Take { row, .. }) = write else { return None };
        let repeated = self.is_there(row) && self.is_seen(row);
        if repeated {
            self.inbox.remove(&row.arrival);
        }
        repeated.then_some(row.arrival)
    }

    fn is_there(&self, row: &InboxRow) -> bool {
        self.inbox.get(&row.arrival) == Some(row)
    }

    fn is_seen(&self, row: &InboxRow) -> bool {
        row.id.as_ref().is_some_and(|id| self.seen.contains(id))
    }

    fn instance(&mut self, write: Option<&InstanceWrite>) -> Result<StepResult> {
        match write {
            None => Ok(StepResult::Written),
            Some(InstanceWrite::Insert { row, replaces }) => match self.start(row, *replaces) {
                Started::New => Ok(StepResult::Written),
                Started::IdTaken => Ok(StepResult::Duplicate),
                Started::Before => Err(Error::data(format!(
                    "insert instance {:?}: its uid {} is that of another start",
                    row.id, row.uid
                ))),
            },
            Some(InstanceWrite::Open { uid, signals_below }) => {
                Ok(match (self.closed.get(uid), signals_below) {
                    (Some(false), Some(below)) if !self.has_room(*uid, *below) => StepResult::Full,
                    (Some(false), _) => StepResult::Written,
                    (Some(true) | None, _) => StepResult::Closed,
                })
            }
            Some(InstanceWrite::Continue { run, .. }) if self.replaced.contains(&run.uid) => {
                Ok(StepResult::Duplicate)
            }
            Some(InstanceWrite::Continue { run, .. }) => self.changes(run.uid, false, || {
                format!("continue instance {} with run {}", run.uid, run.run)
            }),
            Some(
                InstanceWrite::Status { uid, status, .. }
                | InstanceWrite::Pause { uid, status, .. },
            ) => self.changes(*uid, status.is_closed(), || {
                format!("set instance {uid} to {}", status.name())
            }),
        }
    }

    fn has_room(&self, uid: Uid, below: usize) -> bool {
        let waiting = self.signals.get(&uid).copied().unwrap_or_default();
        i64::try_from(below).is_ok_and(|below| waiting < below)
    }

    fn changes(&mut self, uid: Uid, closed: bool, what: impl Fn() -> String) -> Result<StepResult> {
        match self.closed.get_mut(&uid) {
            Some(known) => *known = closed,
            None => return Err(Error::data(format!("{}: there is no such instance", what()))),
        }
        Ok(StepResult::Written)
    }

    /// What becomes of a start. Who holds the id, or asked before, is looked at first: a start that
    /// is repeated is a duplicate also when it repeats its uid.
    fn start(&mut self, row: &InstanceRow, replaces: Replaces) -> Started {
        let holder = self.holders.get(&row.id);
        let holder = holder.map(|holder| (*holder, self.closed.get(holder) == Some(&true)));
        if !replaces.frees(holder) || self.knows_request(row) {
            return Started::IdTaken;
        }
        if self.closed.contains_key(&row.uid) {
            return Started::Before;
        }
        self.replaced.extend(self.holders.insert(row.id.clone(), row.uid));
        self.requests.extend(row.request_id.clone());
        self.closed.insert(row.uid, row.status.is_closed());
        Started::New
    }

    /// One that is there already by its uid was started by the same command, before a crash.
    fn start_child(&mut self, child: &ChildStart) -> Started {
        if self.closed.contains_key(&child.row.uid) {
            return Started::Before;
        }
        let started = self.start(&child.row, child.replaces);
        match (started, &child.otherwise) {
            (Started::New, _) => self.arrives(&child.start),
            (Started::IdTaken, Some(otherwise)) => self.arrives(otherwise),
            (Started::Before | Started::IdTaken, _) => {}
        }
        started
    }

    fn knows_request(&self, row: &InstanceRow) -> bool {
        row.request_id.as_ref().is_some_and(|request| self.requests.contains(request))
    }

    fn events(&mut self, step: &Step) -> Result<()> {
        for (run, event) in &step.events {
            if !self.events.insert((*run, event.seq)) {
                return Err(Error::data(format!(
                    "append event {} to run {} of instance {}: there is one already",
                    event.seq, run.run, run.uid
                )));
            }
        }
        if let Some(rewind) = step.rewind.as_deref().filter(|rewind| rewind.before > Seq(2)) {
            let CallKey { run, seq } = first_copied(rewind);
            if !self.events.insert((run, seq)) {
                return Err(Error::data(format!(
                    "copy events to run {} of instance {}: it has some already",
                    run.run, run.uid
                )));
            }
        }
        Ok(())
    }

    fn tasks(&mut self, step: &Step) -> Result<()> {
        for write in &step.tasks {
            match write {
                TaskWrite::Insert(row) => {
                    let new = self.tasks.insert(row.call);
                    must(new, "insert", row.call, "there is one already")?;
                }
                TaskWrite::Update(row) => {
                    let there = self.tasks.contains(&row.call);
                    must(there, "update", row.call, "there is no such task")?;
                }
                TaskWrite::Delete(call) => {
                    let there = self.tasks.remove(call);
                    must(there, "delete", *call, "there is no such task")?;
                }
                TaskWrite::Amend(_) => {}
                TaskWrite::Discard(call) => {
                    self.tasks.remove(call);
                }
                TaskWrite::DeleteAll(run) => self.tasks.retain(|call| call.run != *run),
            }
        }
        Ok(())
    }

    /// Signals that come take room, and signals that go make room.
    fn messages(&mut self, step: &Step) {
        for write in &step.messages {
            match write {
                MessageWrite::Insert(row) => self.arrives(row),
                MessageWrite::InsertIfOpen(row) if self.closed.get(&row.uid) == Some(&false) => {
                    self.arrives(row);
                }
                MessageWrite::Delete { uid, id } => {
                    let deleted = self.messages.remove(&(*uid, id.clone()));
                    if deleted.is_some_and(|deleted| deleted.is_signal)
                        && let Some(waiting) = self.signals.get_mut(uid)
                    {
                        *waiting -= 1;
                    }
                }
                // Timers and results belong to runs, signals do not.
                MessageWrite::DeleteRun(run) => {
                    let of_run = |uid: Uid, message: &Waiting| {
                        uid == run.uid && message.run == Some(run.run)
                    };
                    self.messages.retain(|(uid, _), message| !of_run(*uid, message));
                }
                MessageWrite::InsertIfOpen(_)
                | MessageWrite::Defer { .. }
                | MessageWrite::Park(_)
                | MessageWrite::Unpark(_) => {}
            }
        }
    }

    fn arrives(&mut self, row: &MessageRow) {
        let is_signal = matches!(row.body, Message::Signal { .. });
        let known = self.messages.contains_key(&(row.uid, row.id.clone()));
        if !known {
            let waiting = Waiting { is_signal, run: row.body.run() };
            self.messages.insert((row.uid, row.id.clone()), waiting);
            *self.signals.entry(row.uid).or_default() += i64::from(is_signal);
        }
    }

    fn schedule(&mut self, write: Option<&ScheduleWrite>) {
        match write {
            Some(ScheduleWrite::Insert(row) | ScheduleWrite::Update { row, .. }) => {
                self.schedules.insert(row.id.clone(), Revision::New);
            }
            Some(ScheduleWrite::Delete { id }) => {
                self.schedules.remove(id);
            }
            None => {}
        }
    }

    fn bulk_follows(&self, write: Option<&BulkWrite>) -> bool {
        let stored = |id: &str| self.bulk.get(id);
        match write {
            None => true,
            Some(BulkWrite::Insert(row)) => stored(&row.id).is_none(),
            Some(BulkWrite::Update { row, revision }) => {
                let read = Revision::Read(revision.cast_signed());
                stored(&row.id).is_some_and(|(stored, _)| *stored == read)
            }
            Some(BulkWrite::Stop { id, .. }) => stored(id).is_some_and(|(_, goes_on)| *goes_on),
        }
    }

    fn bulk(&mut self, write: Option<&BulkWrite>) {
        match write {
            Some(BulkWrite::Insert(row) | BulkWrite::Update { row, .. }) => {
                let goes_on = row.closed_at.is_none() && row.stopped_by.is_none();
                self.bulk.insert(row.id.clone(), (Revision::New, goes_on));
            }
            Some(BulkWrite::Stop { id, .. }) => {
                self.bulk.insert(id.clone(), (Revision::New, false));
            }
            None => {}
        }
    }

    fn letters(&mut self, step: &Step) {
        for write in &step.letters {
            match write {
                LetterWrite::Insert(letter) => {
                    self.letters.entry(letter.call).or_insert(letter.state == LetterState::Open);
                }
                LetterWrite::Settle { call, state, .. } => {
                    self.letters.insert(*call, *state == LetterState::Open);
                }
            }
        }
    }

    fn inbox(&mut self, write: Option<&InboxWrite>) {
        match write {
            Some(InboxWrite::Take { row, .. }) => {
                self.inbox.remove(&row.arrival);
                self.seen.extend(row.id.clone());
            }
            Some(InboxWrite::Refuse { arrival, .. }) => {
                self.inbox.remove(arrival);
            }
            Some(InboxWrite::Forget { .. }) | None => {}
        }
    }
}

fn must(holds: bool, verb: &str, call: CallKey, why: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::data(format!("{verb} the task of call {call}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use StepResult::{Closed, Duplicate, Full, Missed, Written};
    use resurgam_core::{Payload, Timestamp};
    use resurgam_store::ScheduleRow;
    use resurgam_store::rows::Status;
    use resurgam_watchdog::test;

    use super::*;

    const A: Uid = Uid(1);
    const B: Uid = Uid(2);

    fn instance(uid: Uid, id: &str) -> InstanceRow {
        InstanceRow::new(uid, id, "fulfil", Payload::null(), Timestamp::EPOCH)
    }

    fn start(uid: Uid, id: &str, replaces: Replaces) -> Step {
        let write = InstanceWrite::Insert { row: instance(uid, id).into(), replaces };
        Step { instance: Some(write), ..Step::default() }
    }

    fn set(uid: Uid, status: Status) -> Step {
        let write = InstanceWrite::Status {
            uid,
            status,
            outcome: None,
            compensation: None,
            error: None,
            closed_at: None,
        };
        Step { instance: Some(write), ..Step::default() }
    }

    fn tell(uid: Uid) -> Step {
        let body = Message::Cancel { reason: String::new() };
        let row = MessageRow { uid, id: "m".into(), due_at: Timestamp::EPOCH, body };
        Step {
            instance: Some(InstanceWrite::Open { uid, signals_below: None }),
            messages: vec![MessageWrite::Insert(row)],
            ..Step::default()
        }
    }

    /// What becomes of a batch when `a` is held by this instance, open or closed.
    fn check(closed: Option<bool>, batch: &[Step]) -> Vec<StepResult> {
        let mut known = StoredBefore::default();
        if let Some(closed) = closed {
            known.holders.insert("a".to_string(), A);
            known.closed.insert(A, closed);
        }
        plan_and_results(batch, known).expect("no row is to blame").1
    }

    #[test]
    fn a_start_wins_its_id_or_is_a_duplicate() {
        assert_eq!(check(None, &[start(B, "a", Replaces::Nobody)]), [Written]);
        assert_eq!(check(Some(false), &[start(B, "a", Replaces::Nobody)]), [Duplicate]);
        assert_eq!(check(Some(false), &[start(B, "a", Replaces::Closed)]), [Duplicate]);
        assert_eq!(check(Some(true), &[start(B, "a", Replaces::Nobody)]), [Duplicate]);
        assert_eq!(check(Some(true), &[start(B, "a", Replaces::Closed)]), [Written]);
        let twice = [start(A, "a", Replaces::Nobody), start(B, "a", Replaces::Closed)];
        assert_eq!(check(None, &twice), [Written, Duplicate]);
    }

    #[test]
    fn each_step_sees_what_those_before_it_leave_behind() {
        let batch = [
            start(B, "a", Replaces::Closed),
            set(A, Status::Completed),
            tell(A),
            start(B, "a", Replaces::Closed),
            tell(B),
        ];
        assert_eq!(check(Some(false), &batch), [Duplicate, Written, Closed, Written, Written]);
    }

    #[test]
    fn a_birth_knows_its_own_start_from_that_of_another() {
        let body = Message::Start;
        let start = MessageRow { uid: B, id: "s".into(), due_at: Timestamp::EPOCH, body };
        let child = |uid, id: &str| ChildStart {
            row: instance(uid, id),
            replaces: Replaces::Nobody,
            start: start.clone(),
            otherwise: None,
        };
        let mut known = StoredBefore::default();
        known.holders.insert("a".to_string(), A);
        known.closed.insert(A, false);
        assert_eq!(known.start_child(&child(A, "a")), Started::Before);
        assert_eq!(known.start_child(&child(B, "a")), Started::IdTaken);
        assert_eq!(known.start_child(&child(B, "b")), Started::New);
        assert_eq!(known.start_child(&child(B, "b")), Started::Before);
        known.closed.insert(A, true);
        let c = Uid(3);
        assert_eq!(known.start_child(&child(c, "a")), Started::IdTaken);
        assert_eq!(
            known.start_child(&ChildStart { replaces: Replaces::Closed, ..child(c, "a") }),
            Started::New
        );
    }

    #[test]
    fn signals_that_come_take_room_and_signals_that_go_make_it() {
        let signal = |id: &str| {
            let body = Message::Signal { name: "paid".into(), value: Payload::null() };
            MessageRow { uid: A, id: id.into(), due_at: Timestamp::EPOCH, body }
        };
        let tell = |id: &str| Step {
            instance: Some(InstanceWrite::Open { uid: A, signals_below: Some(2) }),
            messages: vec![MessageWrite::Insert(signal(id))],
            ..Step::default()
        };
        let read = |id: &str| Step {
            messages: vec![MessageWrite::Delete { uid: A, id: id.into() }],
            ..Step::default()
        };
        let mut known = StoredBefore::default();
        known.closed.insert(A, false);
        known.signals.insert(A, 1);
        known.messages.insert((A, "a".into()), Waiting { is_signal: true, run: None });
        let batch = [tell("a"), tell("b"), tell("c"), read("x"), tell("d"), read("a"), tell("e")];
        let results = plan_and_results(&batch, known).expect("no row is to blame").1;
        assert_eq!(results, [Written, Written, Full, Written, Full, Written, Written]);
    }

    #[test]
    fn a_change_of_a_schedule_follows_from_what_was_read_and_from_nothing_else() {
        let row = || ScheduleRow {
            id: "nightly".into(),
            workflow: "report".into(),
            input: Payload::null(),
            rule: "{}".into(),
            options: "{}".into(),
            state: "{}".into(),
            paused: false,
            next_at: None,
            waits: false,
            last: None,
            error: None,
            created_at: Timestamp::EPOCH,
        };
        let step = |write| Step { schedule: Some(Box::new(write)), ..Step::default() };
        let insert = || step(ScheduleWrite::Insert(row()));
        let update = |revision| step(ScheduleWrite::Update { row: row(), revision });
        let delete = || step(ScheduleWrite::Delete { id: "nightly".into() });
        let check = |read: Option<i64>, batch: &[Step]| {
            let schedules = read.map(|read| ("nightly".into(), Revision::Read(read)));
            let known = StoredBefore {
                schedules: schedules.into_iter().collect(),
                ..StoredBefore::default()
            };
            plan_and_results(batch, known).expect("no row is to blame").1
        };
        assert_eq!(check(None, &[update(7), delete(), insert()]), [Missed, Missed, Written]);
        assert_eq!(check(Some(7), &[insert(), update(6), update(7)]), [Missed, Missed, Written]);
        assert_eq!(check(Some(7), &[update(7), update(7)]), [Written, Missed]);
        assert_eq!(check(Some(7), &[delete(), insert(), update(7)]), [Written, Written, Missed]);
    }

    #[test]
    fn a_row_of_the_inbox_is_taken_once_and_goes_when_it_is_repeated() {
        let row = |arrival, id: Option<&str>| InboxRow {
            arrival,
            id: id.map(str::to_string),
            instance: "a".into(),
            kind: "start".into(),
            name: None,
            body: None,
        };
        let take = |row| Step {
            inbox: Some(InboxWrite::Take { row, at: Timestamp::EPOCH }.into()),
            ..Step::default()
        };
        let there = [row(1, None), row(2, Some("x")), row(3, Some("x")), row(4, Some("y"))];
        let known = StoredBefore {
            inbox: there.iter().map(|row| (row.arrival, row.clone())).collect(),
            seen: ["y".to_string()].into(),
            ..StoredBefore::default()
        };
        let [one, two, three, four] = there;
        let changed = InboxRow { kind: "signal".into(), ..one.clone() };
        let batch =
            [take(changed), take(one.clone()), take(one), take(two), take(three), take(four)];
        let (plan, results) = plan_and_results(&batch, known).expect("no row is to blame");
        assert_eq!(results, [Missed, Written, Missed, Written, Missed, Missed]);
        let dropped: Vec<i64> =
            plan.waves().iter().flat_map(|wave| wave.dropped.iter().copied()).collect();
        assert_eq!(dropped, [3, 4]);
    }
}
