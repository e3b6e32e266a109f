//! One connection that commits, a batch at a time.
//!
//! Batches of a lane are numbered: each transaction first raises the lane's number in the database
//! by one, from the one that is expected ([`BatchSequence`]). What follows from a lost answer is
//! done in `in_doubt`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use resurgam_store::fleet::{BatchFate, BatchSequence, Fence, Positions, Rewinds};
use resurgam_store::outage::OutageLog;
use resurgam_store::{Error, Result, Step, StepResult};
use tokio_postgres::{Row, Statement as Prepared};

use super::plan::Plan;
use super::slow_path::plan_and_results;
use super::{look, statements};
use crate::combine::pieces;
use crate::connect::Connector;
use crate::errors::{Attempted, Meaning, meaning, said, translated};
use crate::limits;
use crate::options::Options;
use crate::session::Session;
use crate::sql::Piece::{IsCount, Rows, Text, Value};
use crate::sql::{Column, SHARD, Sql};
use crate::statement::{Part, Schema, Sent, Statement, pipeline};

/// What all lanes of a store share.
pub(crate) struct Shared {
    pub(crate) connector: Connector,
    pub(crate) schema: Schema,
    /// The store's own name, which nobody had before.
    pub(crate) writer: String,
    ledger_rows: u32,
    /// How long a commit may take before its fate counts as unknown.
    limit: Duration,
    pub(super) begin: String,
    /// What a session is told once, where it is ours alone.
    settings: String,
    /// Whether connections have sessions of their own.
    sessions: Arc<AtomicBool>,
    pub(crate) counters: Counters,
    /// Policies that are known to be stored, so that they are not sent again and again.
    policies: Mutex<HashSet<String>>,
    /// How often lanes have told that the database went back in time.
    rewinds: Mutex<Rewinds>,
    /// Lanes count time from here.
    opened: Instant,
    pub(crate) outages: Arc<OutageLog>,
}

/// What was done since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) transactions: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) round_trips: AtomicU64,
}

/// A connection that commits.
pub(crate) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) number: i16,
    pub(super) batches: BatchSequence,
    pub(super) client: Option<Session>,
}

/// What became of a transaction.
pub(super) enum Ending {
    Committed,
    /// Nothing was written, and this part was refused.
    Refused(Part, tokio_postgres::Error),
    /// Nobody knows, for this reason.
    Lost(String),
    /// It was not sent to its end, so nothing was written.
    NotSent(Part, tokio_postgres::Error),
}

/// What became of a plan.
pub(super) enum Fate {
    Written,
    /// The database disagrees with it.
    Refused(Part, tokio_postgres::Error),
}

/// How often others may be faster before the caller is told to come again.
const RACES: usize = 10;

/// Begins a transaction. Its timeouts are below half a lease, so that the locks of a frozen process
/// go away before anybody takes its shards; and it is acknowledged only when the disk has it,
/// whatever the server's own setting says. How long a statement may take is for us to say
/// (`limits`).
fn begin(lease: Duration) -> String {
    let timeout = timeout(lease);
    format!(
        "{BEGIN};
         SET LOCAL lock_timeout = {timeout};
         SET LOCAL idle_in_transaction_session_timeout = {timeout};
         SET LOCAL statement_timeout = 0;
         SET LOCAL synchronous_commit = on;
         SET LOCAL jit = off"
    )
}

/// What a session is set to that is ours. A statement is planned once, and every statement of ours
/// finds its rows by their keys, also when it was planned while the tables were empty.
fn settings(lease: Duration) -> String {
    let timeout = timeout(lease);
    format!(
        "SET lock_timeout = {timeout};
         SET idle_in_transaction_session_timeout = {timeout};
         SET statement_timeout = 0;
         SET synchronous_commit = on;
         SET jit = off;
         SET default_transaction_isolation = 'read committed';
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off"
    )
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

fn timeout(lease: Duration) -> u128 {
    (lease * 2 / 5).as_millis().max(1)
}

static NEXT: Sql = Sql::new(&[
    Text(
        "UPDATE @lane SET n = n + 1, at = (extract(epoch FROM now()) * 1000)::bigint
         WHERE node = ",
    ),
    Value(1),
    Text(" AND lane = "),
    Value(2),
    Text(" AND n = "),
    Value(3),
]);

/// A shard, and the epoch in which a node took it.
const EPOCH: &[Column] = &[SHARD, Column::bigint("epoch")];

/// Locks the rows, so that whoever takes a shard over waits for this commit, and reads after it.
static FENCE: Sql = Sql::new(&[
    Text("SELECT "),
    IsCount(4),
    Text(" FROM (SELECT 1 FROM @shard s JOIN "),
    Rows(EPOCH),
    Text(" ON s.shard = u.shard WHERE s.owner = "),
    Value(3),
    Text(" AND s.epoch = u.epoch ORDER BY s.shard FOR SHARE OF s) AS held"),
]);

/// Makes whoever removes the node wait for this commit. Its beats go on meanwhile.
const ALIVE: &str = "
    SELECT 1 / (count(*) = 1)::int FROM (
        SELECT 1 FROM @node WHERE node = $1 FOR KEY SHARE) AS alive";

impl Counters {
    /// Counts a transaction that wrote so many rows of ours.
    pub(super) fn add(&self, rows: u64) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(
        connector: Connector,
        schema: Schema,
        writer: String,
        options: &Options,
    ) -> Self {
        Shared {
            connector,
            schema,
            writer,
            ledger_rows: options.ledger_rows,
            limit: limits::commit(options.lease),
            begin: begin(options.lease),
            settings: settings(options.lease),
            sessions: Arc::default(),
            counters: Counters::default(),
            policies: Mutex::default(),
            rewinds: Mutex::default(),
            opened: Instant::now(),
            outages: Arc::default(),
        }
    }

    /// The time by the process's own clock.
    pub(super) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    pub(crate) fn rewinds(&self) -> MutexGuard<'_, Rewinds> {
        self.rewinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when something is gone that was written when the lanes were there, now that these
    /// numbers were found. All lanes hear of it.
    pub(crate) fn has_lost(&self, before: &Positions, found: &[(i16, i64)]) -> bool {
        let mut rewinds = self.rewinds();
        let has_lost = rewinds.has_lost(self.now(), before, found);
        if has_lost {
            rewinds.tell();
            self.policies().clear();
        }
        has_lost
    }

    pub(super) fn policies(&self) -> MutexGuard<'_, HashSet<String>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections have sessions of their own, as it turns out.
    pub(crate) fn sessions(&self) -> Arc<AtomicBool> {
        self.sessions.clone()
    }

    /// These pieces as prepared statements, where the session is ours alone.
    async fn prepared(
        &self,
        client: &mut Session,
        pieces: &[&[&Statement<'_>]],
    ) -> Option<Vec<Prepared>> {
        if self.sessions.load(Ordering::Relaxed) {
            client.settle(&self.settings).await;
        }
        if !client.is_settled() {
            return None;
        }
        let mut prepared = Vec::with_capacity(pieces.len());
        for piece in pieces {
            prepared.push(client.prepared(&self.schema, piece).await?);
        }
        Some(prepared)
    }

    /// Sends, and waits for the answers as long as a commit may take, or until another server is
    /// the primary; an error after that. The connection must not be used again then.
    async fn send(&self, client: &Session, sent: &[Sent<'_>]) -> Result<Vec<Answered>> {
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            answers = self.in_time("commit", pipeline(client, &self.schema, sent)) => answers,
            () = client.moved() => Err(Error::transient("commit: another server was promoted")),
        }
    }

    /// Waits as long as a commit may take.
    pub(super) async fn in_time<T>(&self, what: &str, asked: impl Future<Output = T>) -> Result<T> {
        let asked = tokio::time::timeout(self.limit, asked).await;
        asked.map_err(|_| limits::commit_exceeded(what, self.limit))
    }
}

type Answered = std::result::Result<Vec<Row>, tokio_postgres::Error>;

impl Lane {
    pub(crate) fn new(shared: Arc<Shared>, number: i16) -> Self {
        Lane { shared, number, batches: BatchSequence::default(), client: None }
    }

    /// Writes the whole batch, or nothing of it, and says whether others should hear of it. An
    /// owner brings the fence that it must be inside.
    pub(crate) async fn commit(
        &mut self,
        batch: &[Step],
        fence: Option<&Fence>,
    ) -> Result<(Vec<StepResult>, bool)> {
        if batch.is_empty() {
            return Ok((Vec::new(), false));
        }
        let plan = Plan::hopeful(batch);
        let results = match self.hopefully(&plan, fence).await? {
            Fate::Written => vec![StepResult::Written; batch.len()],
            Fate::Refused(..) => self.carefully(batch, fence).await?,
        };
        self.count(batch, &results);
        Ok((results, plan.is_news(fence)))
    }

    /// One round trip: all in one, with every hope checked by the database.
    async fn hopefully(&mut self, plan: &Plan<'_>, fence: Option<&Fence>) -> Result<Fate> {
        let writes = self.writes(plan);
        let mut resent = false;
        loop {
            let mut client = self.ready().await?;
            let before = self.before(plan, fence, &client)?;
            let statements: Vec<&Statement<'_>> = before.iter().chain(&writes).collect();
            let pieces = pieces(&statements);
            let prepared = self.shared.prepared(&mut client, &pieces);
            let prepared = self.shared.in_time("prepare a commit", prepared).await?;
            self.batches.sent();
            let ending = match prepared {
                Some(prepared) => self.send_prepared(&client, &prepared, &pieces).await,
                None => self.transaction(&client, Some(&self.shared.begin), &statements).await,
            };
            if let Some(fate) = self.ended(client, ending, &mut resent).await? {
                self.remember(plan, &fate);
                return Ok(fate);
            }
        }
    }

    /// Two round trips: look, decide step by step, write. Done again when others were faster.
    async fn carefully(
        &mut self,
        batch: &[Step],
        fence: Option<&Fence>,
    ) -> Result<Vec<StepResult>> {
        let everything = Plan::hopeful(batch);
        for _ in 0..RACES {
            let client = self.ready().await?;
            let before = self.before(&everything, fence, &client)?;
            let (client, known) = self.look(client, &before, batch).await?;
            let (plan, results) = match plan_and_results(batch, known) {
                Ok(judged) => judged,
                Err(error) => {
                    self.roll_back(Some(client)).await;
                    return Err(error);
                }
            };
            let writes = self.writes(&plan);
            let statements: Vec<&Statement<'_>> = writes.iter().collect();
            self.batches.sent();
            let ending = self.transaction(&client, None, &statements).await;
            match self.ended(client, ending, &mut false).await? {
                Some(Fate::Written) => {
                    self.remember(&plan, &Fate::Written);
                    return Ok(results);
                }
                Some(Fate::Refused(part, error)) if !is_race(&error) => {
                    return Err(refused(part, error));
                }
                // Somebody else has written between the look and the commit, or the connection
                // went and nothing was written.
                Some(Fate::Refused(..)) | None => {}
            }
        }
        Err(Error::transient("others keep writing the same instances"))
    }

    /// Begins the transaction and reads what the batch depends on.
    async fn look(
        &mut self,
        client: Session,
        before: &[Statement<'_>],
        batch: &[Step],
    ) -> Result<(Session, super::slow_path::StoredBefore)> {
        let questions = look::questions(batch);
        let (client, rows) = self.ask_inside(client, before, &questions).await?;
        let known = look::known(rows);
        Ok((client, known.attempted(|| "look before a commit".into())?))
    }

    /// Begins a transaction and asks in it, after its number and its fence. What is wrong drops the
    /// connection, which ends the transaction.
    pub(super) async fn ask_inside(
        &mut self,
        client: Session,
        before: &[Statement<'_>],
        questions: &[Statement<'_>],
    ) -> Result<(Session, Vec<Vec<Row>>)> {
        let mut sent = vec![Sent::Plain(&self.shared.begin)];
        sent.extend(before.iter().chain(questions).map(Sent::Values));
        let answers = self.shared.send(&client, &sent).await?;
        let mut rows = Vec::with_capacity(answers.len());
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) => match place.checked_sub(1).and_then(|place| before.get(place)) {
                    Some(statement) if meaning(&error) == Meaning::Data => {
                        self.roll_back(Some(client)).await;
                        return Err(self.out_of_place(statement.part, error).await);
                    }
                    _ => return Err(translated(error, "look before a commit".into())),
                },
            }
        }
        Ok((client, rows.split_off(1 + before.len())))
    }

    /// The server, the number and the fence, which come first.
    pub(super) fn before(
        &self,
        plan: &Plan<'_>,
        fence: Option<&Fence>,
        client: &Session,
    ) -> Result<Vec<Statement<'static>>> {
        if fence.is_some_and(|fence| self.shared.rewinds().refuses(fence.node())) {
            let found = "the database went back in time, as another commit of this node has found";
            return Err(Error::rewound(found));
        }
        // The server first: the numbers of another one say nothing.
        let mut before = Vec::from_iter(client.server_check());
        let next = Statement::new(Part::Lane, &NEXT).text(self.shared.writer.clone());
        before.push(next.small(self.number).big(self.batches.last()).exactly(1));
        if let Some(fence) = fence
            && !plan.owned.is_empty()
        {
            let epochs = fence.epochs(plan.owned.iter().copied())?;
            before.push(
                Statement::check(Part::Fence, &FENCE)
                    .shards(epochs.iter().map(|(shard, _)| shard.0.cast_signed()))
                    .bigs(epochs.iter().map(|(_, epoch)| *epoch))
                    .text(fence.node().to_string())
                    .big(epochs.len() as i64),
            );
        }
        Ok(before)
    }

    pub(super) fn writes<'p>(&self, plan: &'p Plan<'_>) -> Vec<Statement<'p>> {
        let policies = self.shared.policies();
        statements(plan, self.shared.ledger_rows, |hash| policies.contains(hash))
    }

    /// Sends statements piece by piece. A single one is a transaction by itself.
    async fn send_prepared(
        &self,
        client: &Session,
        prepared: &[Prepared],
        pieces: &[&[&Statement<'_>]],
    ) -> Ending {
        let parts = prepared.iter().zip(pieces);
        let mut sent: Vec<Sent<'_>> =
            parts.map(|(prepared, piece)| Sent::Together(prepared, piece)).collect();
        if sent.len() > 1 {
            sent.insert(0, Sent::Plain(BEGIN));
            sent.push(Sent::Plain("COMMIT"));
        }
        self.sent(client, &sent).await
    }

    /// Sends statements and `COMMIT` in one go, after `begin`.
    pub(super) async fn transaction(
        &self,
        client: &Session,
        begin: Option<&str>,
        statements: &[&Statement<'_>],
    ) -> Ending {
        let mut sent: Vec<Sent<'_>> = begin.into_iter().map(Sent::Plain).collect();
        sent.extend(statements.iter().map(|statement| Sent::Values(statement)));
        sent.push(Sent::Plain("COMMIT"));
        self.sent(client, &sent).await
    }

    /// Sends what ends with a commit.
    async fn sent(&self, client: &Session, sent: &[Sent<'_>]) -> Ending {
        let warnings = client.warnings();
        let answers = match self.shared.send(client, sent).await {
            Ok(answers) => answers,
            Err(error) => return Ending::Lost(error.to_string()),
        };
        let complete = answers.len() == sent.len();
        let trouble = answers
            .into_iter()
            .enumerate()
            .find_map(|(place, answer)| answer.err().map(|error| (place, error)));
        match trouble {
            // What is committed there is not where everybody goes on.
            None if client.has_moved() => Ending::Lost("another server was promoted".to_string()),
            // It did not wait for the standby to the end: that one may not have it.
            None if client.warnings() != warnings => Ending::Lost("the server warns".to_string()),
            None => Ending::Committed,
            Some((place, error)) if !complete => Ending::NotSent(sent[place].part(), error),
            Some((_, error)) if meaning(&error) == Meaning::Lost => Ending::Lost(said(&error)),
            Some((place, error)) => Ending::Refused(sent[place].part(), error),
        }
    }

    /// What follows from an ending: a fate, an error, or another try.
    pub(super) async fn ended(
        &mut self,
        client: Session,
        ending: Ending,
        resent: &mut bool,
    ) -> Result<Option<Fate>> {
        match ending {
            Ending::Committed => {
                self.keep(client);
                self.batches.committed(self.shared.now());
                self.reached();
                Ok(Some(Fate::Written))
            }
            Ending::Refused(part, error) if meaning(&error) == Meaning::Data => {
                self.keep(client);
                self.does_not_hold(part, error).await
            }
            Ending::NotSent(part, error) if meaning(&error) == Meaning::Data => {
                // The answer came before the rest was sent. The transaction is open there still.
                drop(client);
                self.does_not_hold(part, error).await
            }
            Ending::Refused(part, error) => {
                self.batches.not_written();
                self.keep(client);
                Err(refused(part, error))
            }
            Ending::NotSent(_, error) if meaning(&error) == Meaning::Lost && !*resent => {
                // An idle connection that had ended unnoticed; the next one is fresh.
                self.batches.not_written();
                *resent = true;
                Ok(None)
            }
            Ending::NotSent(_, error) => {
                self.batches.not_written();
                Err(translated(error, "send a commit".into()))
            }
            Ending::Lost(why) => {
                tracing::debug!(why, "the answer to a commit was lost");
                drop(client);
                *resent = true;
                Ok(match self.settle().await? {
                    BatchFate::Written => Some(Fate::Written),
                    BatchFate::NeverWritten => None,
                })
            }
        }
    }

    /// Nothing was written, because a part of a plan does not hold.
    async fn does_not_hold(
        &mut self,
        part: Part,
        error: tokio_postgres::Error,
    ) -> Result<Option<Fate>> {
        self.batches.not_written();
        match part {
            Part::Lane | Part::Server | Part::Fence => Err(self.out_of_place(part, error).await),
            Part::Claim | Part::Rows(_) => Ok(Some(Fate::Refused(part, error))),
        }
    }

    pub(super) fn keep(&mut self, client: Session) {
        self.client = (!client.is_closed()).then_some(client);
    }

    fn remember(&self, plan: &Plan<'_>, fate: &Fate) {
        if let Fate::Written = fate
            && !plan.policies.is_empty()
        {
            let mut known = self.shared.policies();
            if known.len() > 10_000 {
                known.clear();
            }
            known.extend(plan.policies.keys().map(|hash| hash.to_string()));
        }
    }

    fn count(&self, batch: &[Step], results: &[StepResult]) {
        let written = batch.iter().zip(results);
        let rows: usize = written
            .filter(|(_, result)| **result == StepResult::Written)
            .map(|(step, _)| step.rows())
            .sum();
        self.shared.counters.add(rows as u64);
    }
}

/// The fence of what a node may do in any shard, for as long as it is alive.
pub(super) fn alive(node: &str) -> Statement<'static> {
    Statement::check(Part::Fence, ALIVE).text(node.to_string())
}

/// True when somebody else may have written what was still free a moment ago.
fn is_race(error: &tokio_postgres::Error) -> bool {
    matches!(error.code().map(|code| code.code()), Some("22012" | "23505"))
}

pub(super) fn refused(part: Part, error: tokio_postgres::Error) -> Error {
    let what = match part {
        Part::Lane => "count a commit",
        Part::Fence => "look who owns what",
        Part::Server => "look at the server",
        Part::Claim => "end the task of an attempt",
        Part::Rows(what) => what,
    };
    translated(error, what.to_string())
}
