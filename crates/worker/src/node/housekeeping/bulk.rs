//! Bulk jobs: one action on many calls, or on many runs.
//!
//! The node that holds the shard of a job works on it, a page at a time. One commit stores the
//! messages that ask for the action, the cursor behind the page, and the page itself; so whatever
//! crashes, each call is asked for at most once. The commit names the revision that it follows
//! from: of two nodes that both hold themselves for the holder, one writes.
//!
//! | where a job stands        | what happens                 | what follows                      |
//! |---------------------------|------------------------------|-----------------------------------|
//! | between two pages         | its time comes               | what matches next is read         |
//! | the next page is read     | something matches            | it is asked for, in one commit    |
//! |                           | it is decided about          | the same commit carries that out  |
//! |                           | nothing does, here           | it is read on                     |
//! |                           | nothing does any more        | the job is over                   |
//! | a page is asked for       | all of it is answered        | that is counted, with the next    |
//! |                           |                              | page's commit                     |
//! | the first ones are tried  | all of them have succeeded   | it goes on                        |
//! |                           | one has failed               | the job is over, and says so      |
//! | anywhere                  | somebody stops it            | what is asked for is counted, and |
//! |                           |                              | then the job is over              |
//! |                           | a commit comes too late      | it is read anew                   |
//!
//! The next page follows when the one before is carried out, and no sooner than the job's own pace
//! says (`bulk.rs` beside `node`): so jobs of any size need little memory, and other work goes on
//! beside them. What this node holds itself is read, and acted on, in one go for the whole page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resurgam_core::{Timestamp, Uid};
use resurgam_store::rows::MessageRow;
use resurgam_store::{AskedAnswer, BulkRecord, BulkRow, BulkWrite, MessageWrite, Step};

use crate::bulk::{BulkJob, Next, ToAsk, Tried, Verdict};
use crate::error::Error;
use crate::node::Node;
use crate::node::coalesced_read::CoalescedRead;
use crate::node::output::Output;
use crate::node::pending_action::JobPage;
use crate::node::reply::Reply;
use crate::node::steps::effect::Effect;
use crate::node::steps::refusal::Refusal;
use crate::node::store_request::StoreRequest;

/// How many jobs are worked on at a time.
pub(crate) const JOBS: usize = 16;

/// The shortest time between two reads because of what others have committed.
const PAUSE: Duration = Duration::from_secs(1);

/// The waits between two looks at what was asked for: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(30));

/// The wait before a job that could not be written is taken up again.
const AGAIN: Duration = Duration::from_secs(60);

/// What a node knows about bulk jobs.
#[derive(Debug, Default)]
pub(crate) struct BulkState {
    hearing: CoalescedRead,
    /// When they were read last.
    read_at: Option<Timestamp>,
    /// When to read them next.
    next: Option<Timestamp>,
    jobs: BTreeMap<String, Working>,
}

/// A job that this node works on.
#[derive(Debug)]
struct Working {
    job: BulkJob,
    revision: u64,
    /// The store is asked about it, or writes it.
    is_busy: bool,
    /// When to look at it next.
    look_at: Option<Timestamp>,
    /// How long to wait for that.
    wait: Duration,
    /// The messages of the page that this node itself carries out, and has not.
    own: BTreeSet<(Uid, String)>,
    /// Other nodes carry out some of the page.
    has_others: bool,
}

impl BulkState {
    /// When to look next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let read = self.next.filter(|_| !self.hearing.is_reading());
        let looks = self.jobs.values().filter(|working| !working.is_busy);
        looks.filter_map(|working| working.look_at).chain(read).min()
    }
}

impl Node {
    /// Reads which jobs are open.
    pub(crate) fn look_at_bulk(&mut self) {
        if self.is_owner() && self.memory.bulk.hearing.begin(&mut self.ticks).is_some() {
            self.memory.bulk.next = None;
            self.ask_store(StoreRequest::OpenBulk);
        }
    }

    /// Somebody else has committed something.
    pub(crate) fn hear_of_bulk(&mut self) {
        let now = self.now;
        let soon = self.memory.bulk.read_at.map(|at| at.saturating_add(PAUSE));
        match soon.filter(|at| *at > now) {
            Some(at) => self.memory.bulk.next = Some(at),
            None => self.look_at_bulk(),
        }
    }

    /// Goes on with the jobs whose time has come.
    pub(crate) fn wake_bulk(&mut self) {
        let now = self.now;
        if !self.is_owner() || self.stopping.is_some() {
            return;
        }
        if self.memory.bulk.next.is_some_and(|at| at <= now) {
            self.look_at_bulk();
        }
        let is_due =
            |working: &Working| !working.is_busy && working.look_at.is_some_and(|at| at <= now);
        let due = self.memory.bulk.jobs.iter().filter(|(_, working)| is_due(working));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        due.iter().for_each(|id| self.go_on_with(id));
    }

    /// The open jobs of this node's shards are known.
    pub(crate) fn bulk_read(&mut self, found: Vec<BulkRecord>) {
        self.memory.bulk.read_at = Some(self.now);
        if self.memory.bulk.hearing.end() {
            self.look_at_bulk();
        }
        let open: BTreeSet<&str> = found.iter().map(|record| record.row.id.as_str()).collect();
        self.memory.bulk.jobs.retain(|id, working| working.is_busy || open.contains(id.as_str()));
        for BulkRecord { row, revision } in found {
            let known = self.memory.bulk.jobs.get(&row.id);
            // What is written meanwhile is known better here, or is refused.
            if known.is_some_and(|known| known.is_busy || known.revision >= revision) {
                continue;
            }
            match BulkJob::read(&row) {
                Ok(job) => self.take_up(job, revision),
                Err(error) => self.give_up(row, revision, &error),
            }
        }
    }

    fn take_up(&mut self, job: BulkJob, revision: u64) {
        let id = job.id.clone();
        let working = Working {
            job,
            revision,
            is_busy: false,
            look_at: None,
            wait: LOOKS.0,
            own: BTreeSet::new(),
            has_others: false,
        };
        self.memory.bulk.jobs.insert(id.clone(), working);
        self.go_on_with(&id);
    }

    /// A job that cannot be read is over.
    fn give_up(&mut self, row: BulkRow, revision: u64, error: &str) {
        tracing::error!(job = %row.id, "a bulk job cannot be read: {error}");
        let job = row.id.clone();
        let error = Some(format!("it cannot be read: {error}"));
        let row = BulkRow { error, closed_at: Some(self.now), ..row };
        self.write_bulk(job, BulkWrite::Update { row, revision }, Step::default());
    }

    /// Does what a job does next.
    fn go_on_with(&mut self, id: &str) {
        let (now, page) = (self.now, self.options.bulk_page);
        if self.stopping.is_some() {
            return;
        }
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.look_at = None;
        let job = id.to_string();
        let read = match working.job.next(now, page) {
            Next::Look => StoreRequest::BulkAnswers { job, asked: working.job.asked().into() },
            Next::Try => StoreRequest::BulkTried { job, tried: working.job.to_try().into() },
            Next::Ask(limit) => {
                let target = Box::new(working.job.target.clone());
                let action = Box::new(working.job.action.clone());
                let after = working.job.cursor.clone();
                StoreRequest::BulkPage { job, target, action, after, limit }
            }
            Next::Wait(at) => {
                working.look_at = Some(at);
                return;
            }
            Next::End => return self.end_bulk(id),
        };
        working.is_busy = true;
        self.ask_store(read);
    }

    /// A job is over.
    fn end_bulk(&mut self, id: &str) {
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.job.closed_at = Some(self.now);
        let (row, revision) = (working.job.to_row(), working.revision);
        self.bulk_will_be_deleted();
        self.write_bulk(id.to_string(), BulkWrite::Update { row, revision }, Step::default());
    }

    /// Writes a job together with what a page of it asks for, or is carried out by this very step.
    fn write_bulk(&mut self, job: String, write: BulkWrite, page: Step) {
        if let Some(working) = self.memory.bulk.jobs.get_mut(&job) {
            working.is_busy = true;
        }
        let asked = page.messages.iter().filter_map(|write| match write {
            MessageWrite::Insert(row) => Some(row.clone()),
            _ => None,
        });
        let written = Effect::BulkWritten(Box::new(JobPage { job, messages: asked.collect() }));
        let begun = page.child_starts.iter().map(|start| Effect::Wake(start.row.uid));
        let effects = begun.chain([written]).collect();
        self.outbox.push(Step { bulk: Some(Box::new(write)), ..page }, effects);
    }

    /// What a job is about was read.
    pub(crate) fn bulk_page_read(&mut self, id: &str, found: Vec<ToAsk>, go_on: Option<String>) {
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.is_busy = false;
        if found.is_empty() {
            working.job.passes(go_on);
            return self.go_on_with(id);
        }
        let (now, random) = (self.now, &mut self.random);
        let page = match working.job.decides() {
            true => {
                let decided =
                    working.job.settles(found, go_on, now, |id: &str| random.uid(id, now));
                Step { letters: decided.letters, child_starts: decided.starts, ..Step::default() }
            }
            false => {
                let messages = working.job.asks(found, go_on, now);
                let messages = messages.into_iter().map(MessageWrite::Insert).collect();
                Step { messages, ..Step::default() }
            }
        };
        let (row, revision) = (working.job.to_row(), working.revision);
        self.write_bulk(id.to_string(), BulkWrite::Update { row, revision }, page);
    }

    /// A page is asked for, or the job is over.
    pub(crate) fn bulk_written(&mut self, page: JobPage) {
        let JobPage { job: id, messages } = page;
        self.outputs.push(Output::Changed(BulkJob::watched_as(&id)));
        let is_here = |row: &MessageRow| self.memory.shards.owns(row.uid.shard());
        let (own, others): (Vec<MessageRow>, Vec<MessageRow>) =
            messages.into_iter().partition(is_here);
        let Some(working) = self.memory.bulk.jobs.get_mut(&id) else { return };
        working.is_busy = false;
        working.revision += 1;
        if working.job.closed_at.is_some() {
            self.memory.bulk.jobs.remove(&id);
            return;
        }
        if own.is_empty() && others.is_empty() {
            return self.go_on_with(&id);
        }
        working.own = own.iter().map(|row| (row.uid, row.id.clone())).collect();
        working.has_others = !others.is_empty();
        // What goes with its run leaves no trace but that it is gone.
        working.wait = if working.has_others { LOOKS.0 } else { PAUSE };
        working.look_at = Some(self.now.saturating_add(working.wait));
        self.has_actions(own);
    }

    /// The store did not take what a job asks for.
    pub(crate) fn bulk_refused(&mut self, id: &str, refusal: &Refusal) {
        self.memory.bulk.jobs.remove(id);
        match refusal {
            Refusal::Missed => self.look_at_bulk(),
            refusal => {
                tracing::error!(job = %id, "a bulk job cannot be written: {refusal}");
                self.memory.bulk.next = Some(self.now.saturating_add(AGAIN));
            }
        }
    }

    /// A message of this node's own shards is carried out: when it was the last of its page, the
    /// job goes on.
    pub(crate) fn bulk_carried_out(&mut self, uid: Uid, message: &str) {
        let jobs = &mut self.memory.bulk.jobs;
        if jobs.values().all(|working| working.own.is_empty()) {
            return;
        }
        let key = (uid, message.to_string());
        let mut all_done = None;
        for (id, working) in jobs {
            if working.own.remove(&key) {
                let is_last = working.own.is_empty() && !working.has_others && !working.is_busy;
                all_done = is_last.then(|| id.clone());
                break;
            }
        }
        if let Some(id) = all_done {
            self.go_on_with(&id);
        }
    }

    /// What came of a page was read.
    pub(crate) fn bulk_answers_read(&mut self, id: &str, answers: Vec<AskedAnswer>) {
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.is_busy = false;
        match working.job.answered(answers) {
            true => {
                working.wait = LOOKS.0;
                self.go_on_with(id);
            }
            false => self.look_again(id),
        }
    }

    /// Those that were tried first were looked at.
    pub(crate) fn bulk_tried(&mut self, id: &str, found: &[Tried]) {
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.is_busy = false;
        match working.job.judges(found) {
            Verdict::Waits => self.look_again(id),
            Verdict::Succeeded | Verdict::Failed(_) => self.go_on_with(id),
        }
    }

    fn look_again(&mut self, id: &str) {
        let Some(working) = self.memory.bulk.jobs.get_mut(id) else { return };
        working.look_at = Some(self.now.saturating_add(working.wait));
        working.wait = working.wait.saturating_mul(2).min(LOOKS.1);
    }

    /// Stores what somebody wants of a job.
    pub(crate) fn ask_for_bulk(&mut self, write: BulkWrite, reply: Reply<()>) {
        if self.stopping.is_some() {
            return self.answer(reply, Err(Error::stopped("write a bulk job")));
        }
        let step = Step { bulk: Some(Box::new(write)), ..Step::default() };
        self.outbox.push(step, vec![Effect::Reply(reply), Effect::LookAtBulk]);
    }
}
