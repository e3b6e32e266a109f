//! One connection that commits, and what it does when an answer is lost.
//!
//! Batches of a lane are numbered. Each transaction first raises the lane's number in the database
//! by one, from the one that is expected. When the connection ends before the answer comes, another
//! one raises it by two from the same number: should the server still be busy with the batch, this
//! waits for it. Then the number says whether the batch is in, and should it not be, it can never
//! get in any more, however much of it still lies in a buffer somewhere.
//!
//! A number that is none of these means that the database went back in time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use resurgam_store::{Error, Result, Step, StepResult};
use tokio_postgres::{Client, Row};

use super::judge::judge;
use super::plan::Plan;
use super::{look, statements};
use crate::backoff::Backoff;
use crate::connect::Connector;
use crate::options::Options;
use crate::ownership::Fence;
use crate::statement::{Part, Schema, Sent, Statement, pipeline, query};
use crate::trouble::{Attempted, Meaning, meaning, said, translated};

/// What all lanes of a store share.
pub(crate) struct Shared {
    pub(crate) connector: Connector,
    pub(crate) schema: Schema,
    /// The store's own name, which nobody had before.
    pub(crate) writer: String,
    ledger_rows: u32,
    begin: String,
    pub(crate) counters: Counters,
    /// Policies that are known to be stored, so that they are not sent again and again.
    policies: Mutex<HashSet<String>>,
    /// How often the database was found to have gone back in time.
    rewinds: AtomicU64,
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
    number: i16,
    /// The number of the last batch.
    n: i64,
    client: Option<Client>,
    /// Whether the fate of batch `n + 1` is unknown.
    pub(super) doubt: bool,
    /// When the lane last heard of its row; `None` before it has one.
    seen: Option<Instant>,
    rewinds: u64,
}

/// What became of a transaction.
pub(super) enum Ending {
    Committed,
    /// Nothing was written, and this part was refused.
    Refused(Part, tokio_postgres::Error),
    /// Nobody knows.
    Lost(tokio_postgres::Error),
    /// It was not sent to its end, so nothing was written.
    NotSent(tokio_postgres::Error),
}

/// What became of a plan.
pub(super) enum Fate {
    Written,
    /// The database disagrees with it.
    Refused(Part, tokio_postgres::Error),
}

/// Rows of writers that have not committed for so long are removed.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3_600);
/// A lane that was idle for so long expects that its row may be gone.
const IDLE: Duration = Duration::from_secs(24 * 3_600);
/// How often others may be faster before the caller is told to come again.
const RACES: usize = 10;

/// Begins a transaction. Its timeouts are below half a lease, so that the locks of a frozen process
/// go away before anybody takes its shards; and it is acknowledged only when the disk has it,
/// whatever the server's own setting says.
fn begin(lease: Duration) -> String {
    let timeout = (lease * 2 / 5).as_millis().max(1);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;
         SET LOCAL lock_timeout = {timeout};
         SET LOCAL idle_in_transaction_session_timeout = {timeout};
         SET LOCAL synchronous_commit = on;
         SET LOCAL jit = off"
    )
}

const NEXT: &str = "
    WITH next AS (UPDATE @lane SET n = n + 1, at = (extract(epoch FROM now()) * 1000)::bigint
                  WHERE node = $1 AND lane = $2 AND n = $3 RETURNING 1)
    SELECT 1 / (count(*) = 1)::int FROM next";

/// Locks the rows, so that whoever takes a shard over waits for this commit, and reads after it.
const FENCE: &str = "
    SELECT 1 / (count(*) = $4::bigint)::int FROM (
        SELECT 1 FROM @shard s
        JOIN unnest($1::smallint[], $2::bigint[]) AS u(shard, epoch) ON s.shard = u.shard
        WHERE s.owner = $3 AND s.epoch = u.epoch
        ORDER BY s.shard FOR SHARE OF s) AS held";

/// Makes whoever removes the node wait for this commit. Its beats go on meanwhile.
const ALIVE: &str = "
    SELECT 1 / (count(*) = 1)::int FROM (
        SELECT 1 FROM @node WHERE node = $1 FOR KEY SHARE) AS alive";

const NUMBER: &str = "SELECT n FROM @lane WHERE node = $1 AND lane = $2";

/// Decides about a batch whose fate is unknown: it is in, or it never will be.
const FORESTALL: &str = "
    UPDATE @lane SET n = n + 2 WHERE node = $1 AND lane = $2 AND n = $3";

const NEW: &str = "
    INSERT INTO @lane (node, lane, n, at)
    VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000)::bigint)";

const SWEEP: &str = "DELETE FROM @lane WHERE at < (extract(epoch FROM now()) * 1000)::bigint - $1";

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
            begin: begin(options.lease),
            counters: Counters::default(),
            policies: Mutex::default(),
            rewinds: AtomicU64::new(0),
        }
    }

    fn policies(&self) -> MutexGuard<'_, HashSet<String>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, client: &Client, sent: &[Sent<'_>]) -> Vec<Answered> {
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        pipeline(client, &self.schema, sent).await
    }
}

type Answered = std::result::Result<Vec<Row>, tokio_postgres::Error>;

impl Lane {
    pub(crate) fn new(shared: Arc<Shared>, number: i16) -> Self {
        Lane { shared, number, n: 0, client: None, doubt: false, seen: None, rewinds: 0 }
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

    /// Connects, so that the first commit finds everything ready.
    pub(crate) async fn open(&mut self) -> Result<()> {
        let client = self.ready().await?;
        self.client = Some(client);
        Ok(())
    }

    /// Removes the rows of writers that went away long ago.
    pub(crate) async fn sweep(&mut self) -> Result<()> {
        let client = self.ready().await?;
        let age = i64::try_from(ABANDONED.as_millis()).unwrap_or(i64::MAX);
        let sweep = Statement::rows("remove abandoned lanes", SWEEP).big(age);
        let swept = query(&client, &self.shared.schema, &sweep).await;
        self.client = Some(client);
        swept.attempted(|| "remove abandoned lanes".into()).map(drop)
    }

    /// One round trip: all in one, with every hope checked by the database.
    async fn hopefully(&mut self, plan: &Plan<'_>, fence: Option<&Fence>) -> Result<Fate> {
        let writes = self.writes(plan);
        let mut resent = false;
        loop {
            let client = self.ready().await?;
            let before = self.before(plan, fence)?;
            let statements: Vec<&Statement<'_>> = before.iter().chain(&writes).collect();
            self.doubt = true;
            let ending = self.transaction(&client, Some(&self.shared.begin), &statements).await;
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
            let before = self.before(&everything, fence)?;
            let (client, known) = self.look(client, &before, batch).await?;
            let (plan, results) = match judge(batch, known) {
                Ok(judged) => judged,
                Err(error) => {
                    self.roll_back(Some(client)).await;
                    return Err(error);
                }
            };
            let writes = self.writes(&plan);
            let statements: Vec<&Statement<'_>> = writes.iter().collect();
            self.doubt = true;
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
        client: Client,
        before: &[Statement<'_>],
        batch: &[Step],
    ) -> Result<(Client, super::judge::Known)> {
        let questions = look::questions(batch);
        let (client, rows) = self.ask_inside(client, before, &questions).await?;
        let known = look::known(rows);
        Ok((client, known.attempted(|| "look before a commit".into())?))
    }

    /// Begins a transaction and asks in it, after its number and its fence. What is wrong drops the
    /// connection, which ends the transaction.
    pub(super) async fn ask_inside(
        &mut self,
        client: Client,
        before: &[Statement<'_>],
        questions: &[Statement<'_>],
    ) -> Result<(Client, Vec<Vec<Row>>)> {
        let mut sent = vec![Sent::Plain(&self.shared.begin)];
        sent.extend(before.iter().chain(questions).map(Sent::Values));
        let answers = self.shared.send(&client, &sent).await;
        let mut rows = Vec::with_capacity(answers.len());
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) => match place.checked_sub(1).and_then(|place| before.get(place)) {
                    Some(statement) if meaning(&error) == Meaning::Data => {
                        drop(client);
                        return Err(self.out_of_place(statement.part, error).await);
                    }
                    _ => return Err(translated(error, "look before a commit".into())),
                },
            }
        }
        Ok((client, rows.split_off(1 + before.len())))
    }

    /// The number and the fence, which come first.
    pub(super) fn before(
        &self,
        plan: &Plan<'_>,
        fence: Option<&Fence>,
    ) -> Result<Vec<Statement<'static>>> {
        let next = Statement::new(Part::Lane, NEXT).text(self.shared.writer.clone());
        let mut before = vec![next.small(self.number).big(self.n)];
        if let Some(fence) = fence
            && !plan.owned.is_empty()
        {
            let epochs = fence.epochs(plan.owned.iter().copied())?;
            before.push(
                Statement::new(Part::Fence, FENCE)
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

    /// Sends statements and `COMMIT` in one go, after `begin`.
    pub(super) async fn transaction(
        &self,
        client: &Client,
        begin: Option<&str>,
        statements: &[&Statement<'_>],
    ) -> Ending {
        let mut sent: Vec<Sent<'_>> = begin.into_iter().map(Sent::Plain).collect();
        let first = sent.len();
        sent.extend(statements.iter().map(|statement| Sent::Values(statement)));
        sent.push(Sent::Plain("COMMIT"));
        let answers = self.shared.send(client, &sent).await;
        let complete = answers.len() == sent.len();
        let trouble = answers
            .into_iter()
            .enumerate()
            .find_map(|(place, answer)| answer.err().map(|error| (place, error)));
        match trouble {
            None => Ending::Committed,
            Some((_, error)) if !complete => Ending::NotSent(error),
            Some((_, error)) if meaning(&error) == Meaning::Lost => Ending::Lost(error),
            Some((place, error)) => {
                let statement = place.checked_sub(first).and_then(|place| statements.get(place));
                let part = statement.map_or(Part::Rows("commit"), |statement| statement.part);
                Ending::Refused(part, error)
            }
        }
    }

    /// What follows from an ending: a fate, an error, or another try.
    pub(super) async fn ended(
        &mut self,
        client: Client,
        ending: Ending,
        resent: &mut bool,
    ) -> Result<Option<Fate>> {
        match ending {
            Ending::Committed => {
                self.keep(client);
                self.counted();
                Ok(Some(Fate::Written))
            }
            Ending::Refused(part, error) if meaning(&error) == Meaning::Data => {
                self.keep(client);
                match part {
                    Part::Lane | Part::Fence => Err(self.out_of_place(part, error).await),
                    Part::Claim | Part::Rows(_) => Ok(Some(Fate::Refused(part, error))),
                }
            }
            Ending::Refused(part, error) => {
                self.keep(client);
                Err(refused(part, error))
            }
            Ending::NotSent(error) if meaning(&error) == Meaning::Lost && !*resent => {
                // An idle connection that had ended unnoticed; the next one is fresh.
                self.doubt = false;
                *resent = true;
                Ok(None)
            }
            Ending::NotSent(error) => {
                self.doubt = false;
                Err(translated(error, "send a commit".into()))
            }
            Ending::Lost(error) => {
                tracing::warn!(error = said(&error), "the answer to a commit was lost");
                drop(client);
                *resent = true;
                Ok(self.settle().await?.then_some(Fate::Written))
            }
        }
    }

    pub(super) fn keep(&mut self, client: Client) {
        self.doubt = false;
        self.client = (!client.is_closed()).then_some(client);
    }

    fn counted(&mut self) {
        self.n += 1;
        self.doubt = false;
        self.seen = Some(Instant::now());
    }

    /// The number or the fence was refused.
    async fn out_of_place(&mut self, part: Part, error: tokio_postgres::Error) -> Error {
        match part {
            Part::Fence => Error::fenced(
                "another node owns a shard of it by now, or this one was taken for dead",
            ),
            Part::Lane => match self.read_number().await {
                Ok(Some(n)) if n == self.n => refused(part, error),
                Ok(n) => self.rewound(n),
                Err(error) => error,
            },
            Part::Claim | Part::Rows(_) => refused(part, error),
        }
    }

    /// Finds out whether the batch whose answer was lost is in. Waits for the database as long as
    /// it takes: whoever asked must not be told something that may be wrong.
    async fn settle(&mut self) -> Result<bool> {
        let mut backoff = Backoff::default();
        loop {
            match self.shared.connector.connect().await {
                Err(error) => {
                    tracing::warn!(error = said(&error), "the database does not answer");
                }
                Ok(client) => {
                    self.client = Some(client);
                    match self.forestall().await {
                        Ok(Some(n)) if n == self.n + 1 => {
                            self.counted();
                            return Ok(true);
                        }
                        Ok(Some(n)) if n == self.n + 2 => {
                            self.n = n;
                            self.doubt = false;
                            return Ok(false);
                        }
                        Ok(n) => return Err(self.rewound(n)),
                        Err(error) => {
                            self.client = None;
                            tracing::warn!(%error, "the fate of a commit is still unknown");
                        }
                    }
                }
            }
            backoff.wait().await;
        }
    }

    /// A connection whose lane is where we left it, out of our hands until it is given back: who
    /// stops waiting in the middle of a transaction drops it.
    pub(super) async fn ready(&mut self) -> Result<Client> {
        if self.doubt {
            self.client = None;
            self.settle().await?;
        }
        if let Some(client) = self.client.take_if(|client| !client.is_closed()) {
            return Ok(client);
        }
        let connected = self.shared.connector.connect().await;
        self.client = Some(connected.map_err(|error| self.shared.connector.trouble(error))?);
        let n = self.read_number().await?;
        if n == Some(self.n) && self.seen.is_some() {
            self.seen = Some(Instant::now());
        } else if self.seen.is_none_or(|seen| n.is_none() && seen.elapsed() > IDLE) {
            self.make_row().await?;
        } else if self.rewinds < self.shared.rewinds.load(Ordering::Relaxed) {
            // Another lane has told already, and everything in memory was read anew since.
            self.adopt(n);
        } else {
            return Err(self.rewound(n));
        }
        self.client.take().ok_or_else(|| Error::transient("the connection went away"))
    }

    /// The lane's number in the database; none without its row.
    async fn read_number(&self) -> Result<Option<i64>> {
        let number = Statement::rows("read the lane", NUMBER)
            .text(self.shared.writer.as_str())
            .small(self.number);
        self.ask_number(&[number]).await
    }

    /// Sees to it that a batch whose fate is unknown is in or never will be; the number after that.
    async fn forestall(&self) -> Result<Option<i64>> {
        let of_lane = |what, sql| {
            Statement::rows(what, sql).text(self.shared.writer.as_str()).small(self.number)
        };
        let forestall = of_lane("forestall a batch", FORESTALL).big(self.n);
        self.ask_number(&[forestall, of_lane("read the lane", NUMBER)]).await
    }

    /// Asks in one round trip; the last answer is the number.
    async fn ask_number(&self, statements: &[Statement<'_>]) -> Result<Option<i64>> {
        let what = || "read the lane".to_string();
        let Some(client) = &self.client else {
            return Err(Error::transient(format!("{}: there is no connection", what())));
        };
        let sent: Vec<Sent<'_>> = statements.iter().map(Sent::Values).collect();
        let mut last = Vec::new();
        for answer in pipeline(client, &self.shared.schema, &sent).await {
            last = answer.attempted(what)?;
        }
        last.first().map(|row| row.try_get(0)).transpose().attempted(what)
    }

    async fn make_row(&mut self) -> Result<()> {
        let new = Statement::rows("make the lane", NEW)
            .text(self.shared.writer.as_str())
            .small(self.number)
            .big(self.n);
        if let Some(client) = &self.client {
            let made = query(client, &self.shared.schema, &new).await;
            made.attempted(|| "make the lane".into())?;
        }
        self.seen = Some(Instant::now());
        Ok(())
    }

    /// The database is not where this lane left it.
    fn rewound(&mut self, n: Option<i64>) -> Error {
        let found = n.map_or_else(|| "none".to_string(), |n| n.to_string());
        let error = Error::rewound(format!(
            "the database went back in time: it knows {found} as the last commit of this lane, \
             which has made {}; was a backup restored, or did a replica take over that lagged?",
            self.n
        ));
        self.shared.rewinds.fetch_add(1, Ordering::Relaxed);
        self.shared.policies().clear();
        self.adopt(n);
        error
    }

    /// Goes on from where the database is.
    fn adopt(&mut self, n: Option<i64>) {
        self.rewinds = self.shared.rewinds.load(Ordering::Relaxed);
        self.doubt = false;
        match n {
            Some(n) => (self.n, self.seen) = (n, Some(Instant::now())),
            // Without a row the next use makes one.
            None => (self.n, self.seen, self.client) = (0, None, None),
        }
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
    Statement::new(Part::Fence, ALIVE).text(node.to_string())
}

/// True when somebody else may have written what was still free a moment ago.
fn is_race(error: &tokio_postgres::Error) -> bool {
    matches!(error.code().map(|code| code.code()), Some("22012" | "23505"))
}

pub(super) fn refused(part: Part, error: tokio_postgres::Error) -> Error {
    let what = match part {
        Part::Lane => "count a commit",
        Part::Fence => "look who owns what",
        Part::Claim => "end the task of an attempt",
        Part::Rows(what) => what,
    };
    translated(error, what.to_string())
}
