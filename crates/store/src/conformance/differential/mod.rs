//! Random batches mean the same to a store as to the [model](crate::model).
//!
//! Each round does one thing to both, mostly commits a random batch, and compares the answer: the
//! results of the steps, or the class of the error. Then it compares every read. Ids are drawn from
//! a small space, so that duplicates, closed instances, missing tasks, taken places and full
//! mailboxes all occur.
//!
//! A seed decides everything. It is printed when a test fails, and `RESURGAM_SEED` repeats it;
//! `RESURGAM_SEEDS` says how many are tried. What a store is free to choose is levelled before it
//! is compared, in `reads`: the order of what is due at the same moment, revisions of schedules,
//! tokens of claims.
//!
//! - `batches`: draws batches and other changes, of the random rows in `rows`. `reads`: every read,
//!   as text.

mod batches;
mod reads;
mod rows;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use resurgam_core::{CallKey, Payload, RunKey, Seq, Uid, UserWork};

use self::batches::{Batches, Change};
use self::reads::{class, reads};
use super::fixtures::at;
use crate::model::{Model, ModelDatabase, ModelStore, ModelWork, Sharing};
use crate::{
    AttemptTransaction, Bulk, BulkWrite, Commit, Deleted, Inbox, InboxRow, Node, Ownership, Owning,
    Result, Retain, Runnable, ScheduleWrite, Schedules, Step, Store, Tables, TaskWrite, Transacted,
};

/// A store to compare, with what only its kind can do.
pub trait Subject {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Another store on the same database, where many nodes can work.
    fn other(&self) -> Option<&dyn Store>;

    /// Inserts a row into the inbox with SQL. Its arrival is the database's to choose.
    fn insert_inbox(&self, row: InboxRow) -> impl Future<Output = ()>;

    /// Code of the user that returns this.
    fn work(&self, result: Payload) -> UserWork;

    /// After how many rounds everything is read and compared: over two hundred questions, each a
    /// round trip where the store is a server.
    fn rounds_between_reads(&self) -> usize {
        1
    }
}

/// The seeds to try: the one that `RESURGAM_SEED` names, or the first `RESURGAM_SEEDS`.
pub fn seeds(usual: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number("RESURGAM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("RESURGAM_SEEDS").unwrap_or(usual)).collect(),
    }
}

/// How often each answer came.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// Says so when some answer that a commit can have never came: then little was compared.
    pub fn assert_everything_came(&self) {
        let answers = ["Written", "Duplicate", "Closed", "Full", "Missed", "data", "fenced"];
        for answer in answers.into_iter().chain(["Done", "Refused", "deleted"]) {
            assert!(self.0.contains_key(answer), "{answer} never came: {self:?}");
        }
    }

    fn count(&mut self, answer: impl Into<String>) {
        *self.0.entry(answer.into()).or_default() += 1;
    }
}

/// Compares a fresh store with the model for so many rounds.
pub async fn compare<S: Subject>(subject: &S, seed: u64, rounds: usize, tally: &mut Tally) {
    let mut pair = Pair::new(subject, seed);
    for round in 0..rounds {
        pair.round(round).await;
    }
    for (answer, count) in pair.tally.0 {
        *tally.0.entry(answer).or_default() += count;
    }
}

/// Compares two nodes on a fresh database with the model: one holds all shards and serves one
/// queue, and the other claims what the first one leaves.
pub async fn compare_claims<S: Subject>(subject: &S, seed: u64, rounds: usize) {
    let mut pair = Pair::new(subject, seed);
    let (Some(other), model) = (subject.other(), ModelStore::on(&pair.database)) else {
        panic!("one node works on this store");
    };
    let holder = Node { queues: Some(Arc::new(["q1".to_string()])), ..Node::new("holder") };
    let mut rights = vec![own(subject.store(), holder.clone()).await];
    rights.push(own(&pair.model, holder).await);
    for store in [other, &model] {
        rights.push(own(store, Node::new("other")).await);
    }
    for round in 0..rounds {
        let batch = pair.batches.batch(&pair.database.lock());
        pair.commit(round, batch).await;
        let claim = pair.batches.claim();
        let [found, expected] = [other, &model].map(|store| claim.carry_out(store));
        pair.expect(round, &claim, found.await, expected.await);
        pair.compare_reads(round).await;
    }
}

/// Checks for so many rounds that a batch that the model refuses leaves it exactly as it was, with
/// every index, and that others mean the same when they are written once more from there.
pub fn refused_batches_leave_no_trace(seed: u64, rounds: usize) {
    let mut model = Model::new(Sharing::OneNode);
    let mut batches = Batches::new(seed);
    let blamed = Step { tasks: vec![TaskWrite::Delete(NO_CALL)], ..Step::default() };
    for round in 0..rounds {
        let before = format!("{model:?}");
        let batch = batches.batch(&model);
        let refused = [batch.as_slice(), std::slice::from_ref(&blamed)].concat();
        model.commit(&refused).expect_err("there is no such task");
        let seed = format!("RESURGAM_SEED={seed}, round {round}");
        assert_eq!(format!("{model:?}"), before, "{seed}: {batch:#?}");
        let mut copy = model.clone();
        let (results, again) = (model.commit(&batch), copy.commit(&batch));
        assert_eq!(format!("{again:?} {copy:?}"), format!("{results:?} {model:?}"), "{seed}");
    }
}

/// A call that no batch makes.
const NO_CALL: CallKey = RunKey::first(Uid(0)).call(Seq(1));

/// A store and the model that it is compared with.
struct Pair<'s, S> {
    subject: &'s S,
    database: ModelDatabase,
    model: ModelStore,
    batches: Batches,
    seed: u64,
    /// The rights to work on both, while a node does.
    rights: Option<[Ownership; 2]>,
    /// How many nodes have worked.
    nodes: usize,
    tally: Tally,
}

impl<'s, S: Subject> Pair<'s, S> {
    fn new(subject: &'s S, seed: u64) -> Self {
        let is_shared = subject.store().is_shared();
        let sharing = if is_shared { Sharing::ManyNodes } else { Sharing::OneNode };
        let database = ModelDatabase::new(Model::new(sharing));
        let model = ModelStore::on(&database);
        let batches = Batches::new(seed);
        Pair {
            subject,
            database,
            model,
            batches,
            seed,
            rights: None,
            nodes: 0,
            tally: Tally::default(),
        }
    }

    async fn round(&mut self, round: usize) {
        let change = self.batches.change(&self.database.lock(), self.rights.is_some());
        match change {
            Change::Commit(batch) => self.commit(round, batch).await,
            Change::Inbox(row) => self.insert_inbox(row).await,
            Change::Own => self.change_owner().await,
            Change::Delete(wanted) => {
                let found = self.subject.store().delete_closed(wanted.clone()).await;
                let expected = self.model.delete_closed(wanted.clone()).await;
                if expected.as_ref().is_ok_and(|done| done.instances > 0) {
                    self.tally.count("deleted");
                }
                self.expect(round, &wanted, level(found), level(expected));
            }
            Change::Transact { call, token, message } => {
                let attempt = |work| {
                    let message = message.clone();
                    let message = Box::new(move |_: Payload| Ok(message.clone()));
                    Arc::new(AttemptTransaction { call, token, work, message })
                };
                let result = || Payload::from_text("7");
                let found = self.subject.store().transact(attempt(self.subject.work(result())));
                let work = Arc::new(ModelWork::new(move || Ok(result())));
                let expected = self.model.transact(attempt(work));
                let (found, expected) = (found.await, expected.await);
                match &expected {
                    Ok(Transacted::Done(_)) => self.tally.count("Done"),
                    Ok(Transacted::Refused) => self.tally.count("Refused"),
                    Ok(Transacted::Failed(_)) | Err(_) => {}
                }
                let what = ("transact", call, token);
                self.expect(round, &what, ended(found), ended(expected));
            }
        }
        self.compare_reads(round).await;
    }

    async fn commit(&mut self, round: usize, batch: Vec<Step>) {
        let theirs = self.with_their_revisions(batch.clone()).await;
        let found = self.subject.store().commit(theirs.into()).await;
        let expected = self.model.commit(batch.clone().into()).await;
        let text = |answer: &Result<_>| format!("{:?}", answer.as_ref().map_err(class));
        if text(&found) != text(&expected) {
            println!("found {found:?}\nexpected {expected:?}");
        }
        self.expect(round, &batch, text(&found), text(&expected));
        match &expected {
            Ok(results) => results.iter().for_each(|done| self.tally.count(format!("{done:?}"))),
            Err(error) => self.tally.count(class(error)),
        }
    }

    /// The same batch with the revisions of schedules and bulk jobs as the store that is compared
    /// has them.
    async fn with_their_revisions(&self, mut batch: Vec<Step>) -> Vec<Step> {
        for step in &mut batch {
            if let Some(ScheduleWrite::Update { row, revision }) = step.schedule.as_deref_mut() {
                let stored = self.model.schedule(&row.id).await.unwrap();
                if stored.is_some_and(|stored| stored.revision == *revision) {
                    let theirs = self.subject.store().schedule(&row.id).await.unwrap();
                    *revision = theirs.map_or(*revision, |theirs| theirs.revision);
                }
            }
            if let Some(BulkWrite::Update { row, revision }) = step.bulk.as_deref_mut() {
                let stored = self.model.bulk(&row.id).await.unwrap();
                if stored.is_some_and(|stored| stored.revision == *revision) {
                    let theirs = self.subject.store().bulk(&row.id).await.unwrap();
                    *revision = theirs.map_or(*revision, |theirs| theirs.revision);
                }
            }
        }
        batch
    }

    /// Inserts a row on both sides, under the arrival that the database chooses.
    async fn insert_inbox(&self, row: InboxRow) {
        self.subject.insert_inbox(row).await;
        let known = self.model.inbox(usize::MAX).await.unwrap();
        let found = self.subject.store().inbox(1_000).await.unwrap();
        let is_new = |row: &InboxRow| !known.iter().any(|known| known.arrival == row.arrival);
        found.into_iter().filter(is_new).for_each(|row| self.database.insert_inbox(row));
    }

    /// A node begins to work where none does; otherwise the one that works ends.
    async fn change_owner(&mut self) {
        match self.rights.take() {
            None => {
                self.nodes += 1;
                let node = Node::new(format!("owner-{}", self.nodes));
                let found = own(self.subject.store(), node.clone()).await;
                self.rights = Some([found, own(&self.model, node).await]);
            }
            Some(rights) => {
                drop(rights);
                for store in [self.subject.store(), &self.model] {
                    store.disown().await.unwrap();
                    store.flush().await.unwrap();
                }
            }
        }
    }

    async fn compare_reads(&self, round: usize) {
        if !(round + 1).is_multiple_of(self.subject.rounds_between_reads()) {
            return;
        }
        let ask = {
            let model = self.database.lock();
            self.batches.questions(&model)
        };
        let found = reads(self.subject.store(), &ask).await;
        let expected = reads(&self.model, &ask).await;
        for (found, expected) in found.into_iter().zip(expected) {
            let what = expected.0;
            self.expect(round, &what, found.1, expected.1);
        }
    }

    fn expect<T: PartialEq + std::fmt::Debug>(
        &self,
        round: usize,
        what: &dyn std::fmt::Debug,
        found: T,
        expected: T,
    ) {
        let seed = self.seed;
        assert_eq!(found, expected, "RESURGAM_SEED={seed}, round {round}: {what:#?}");
    }
}

async fn own(store: &dyn Store, node: Node) -> Ownership {
    match store.try_own(node).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// A place is the store's own number.
fn level(deleted: Result<Deleted>) -> String {
    let deleted = deleted.map(|done| (Deleted { go_on: None, ..done }, done.go_on.is_some()));
    format!("{:?}", deleted.map_err(|error| class(&error)))
}

fn ended(ended: Result<Transacted>) -> String {
    format!("{:?}", ended.map_err(|error| class(&error)))
}

/// A claim of tasks that others leave.
#[derive(Debug)]
enum ClaimShared {
    /// Of everything that can be run.
    All(Runnable),
    /// Of one call.
    One(CallKey),
}

impl ClaimShared {
    /// What is claimed, without the tokens. As much is claimed as there is: which tasks come first
    /// is the store's to choose.
    async fn carry_out(&self, store: &dyn Store) -> String {
        let (node, now) = ("other", at(30));
        let (mut claimed, next) = match self {
            ClaimShared::All(runnable) => {
                store.claim_shared(node, runnable.clone(), now, 1_000).await.unwrap()
            }
            ClaimShared::One(call) => {
                let claimed = store.claim_shared_call(node, *call, now).await.unwrap();
                (claimed.into_iter().collect(), None)
            }
        };
        reads::level_tasks(&mut claimed);
        format!("{claimed:?}, next {next:?}")
    }
}
