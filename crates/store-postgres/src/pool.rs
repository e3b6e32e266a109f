//! Connections that read.
//!
//! Our own few lines instead of a pool from outside: nothing has to be reset between two uses,
//! because nothing here leaves anything behind in a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resurgam_store::{Error, Result};
use tokio::sync::Semaphore;
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::errors::{self, Meaning, is_of_another_server, meaning, translated};
use crate::limits;
use crate::session::Session;
use crate::statement::{Schema, Sent, Statement, pipeline};

/// A few connections, made when they are needed.
pub(crate) struct Pool {
    connector: Connector,
    schema: Schema,
    begin_to_write: String,
    /// How long an answer may take.
    limit: Duration,
    /// Whether rows that cannot be read are marked.
    pub(crate) marks: bool,
    /// Whether connections have sessions of their own.
    sessions: Arc<AtomicBool>,
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
}

/// Why there is no answer.
enum Unanswered {
    /// The server says why.
    Said(tokio_postgres::Error),
    /// Another server answers than the one that was connected to, or another one is the primary by
    /// now.
    AnotherServer,
}

impl Unanswered {
    /// Whether another connection may lead to an answer.
    fn is_of_the_connection(&self) -> bool {
        match self {
            Unanswered::Said(error) => meaning(error) == Meaning::Lost,
            Unanswered::AnotherServer => true,
        }
    }

    fn translated(self, statements: &[Statement<'_>]) -> Error {
        match self {
            Unanswered::Said(error) => translated(error, what(statements)),
            Unanswered::AnotherServer => errors::another_server().within(what(statements)),
        }
    }
}

type Answer = std::result::Result<Vec<Vec<Row>>, Unanswered>;

/// Several questions see one state of the database.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off";

/// Around a single statement that would do without, where the server must be looked at first.
const CHECKED: (&str, &str) = ("BEGIN", "COMMIT");

/// Changes that may as well happen twice, and that hold up nobody for long.
fn begin_to_write(lease: Duration) -> String {
    let timeout = (lease / 5).as_millis().max(1);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off;
         SET LOCAL lock_timeout = {timeout}; SET LOCAL statement_timeout = 0;
         SET LOCAL idle_in_transaction_session_timeout = {timeout}"
    )
}

impl Pool {
    pub(crate) fn new(connector: Connector, schema: Schema, lease: Duration, size: usize) -> Self {
        let (idle, permits) = (Mutex::default(), Semaphore::new(size));
        let begin_to_write = begin_to_write(lease);
        let limit = limits::read();
        let sessions = Arc::default();
        Pool { connector, schema, begin_to_write, limit, marks: true, sessions, idle, permits }
    }

    /// This pool, told here whether its connections have sessions of their own.
    pub(crate) fn with_sessions(self, sessions: Arc<AtomicBool>) -> Self {
        Pool { sessions, ..self }
    }

    /// This pool, whose answers may take so long.
    pub(crate) fn with_limit(self, limit: Duration) -> Self {
        Pool { limit, ..self }
    }

    /// This pool, which leaves rows that it cannot read as they are.
    pub(crate) fn without_marks(self) -> Self {
        Pool { marks: false, ..self }
    }

    /// Takes in a connection that was made for something else.
    pub(crate) fn give(&self, client: Session) {
        self.idle().push(client);
    }

    /// The hosts that did not answer when all were asked last.
    pub(crate) fn silent_hosts(&self) -> Vec<String> {
        self.connector.silent_hosts()
    }

    /// Asks one question.
    pub(crate) async fn ask(&self, statement: Statement<'_>) -> Result<Vec<Row>> {
        let mut answers = self.ask_all(&[statement]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Asks one question that the server might take for a large one. Compiling its plan would take
    /// the server longer than any of ours takes, so that is forbidden, for which there must be a
    /// transaction; it is one round trip all the same.
    pub(crate) async fn ask_widely(&self, statement: Statement<'_>) -> Result<Vec<Row>> {
        let mut answers = self.send(Some((BEGIN, "ROLLBACK")), &[statement]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Asks several questions in one round trip, all of one state of the database. A connection
    /// that had ended unnoticed is replaced once.
    pub(crate) async fn ask_all(&self, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        let around = (statements.len() > 1).then_some((BEGIN, "ROLLBACK"));
        self.send(around, statements).await
    }

    /// Changes something in one transaction and one round trip. An answer that is lost is an error,
    /// and then nobody knows: for what may as well happen twice.
    pub(crate) async fn change(&self, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        self.send(Some((&self.begin_to_write, "COMMIT")), statements).await
    }

    /// Commits a transaction that answers nothing.
    pub(crate) async fn tell(&self, transaction: &str) -> Result<()> {
        self.send(Some((transaction, "COMMIT")), &[]).await.map(drop)
    }

    async fn send(
        &self,
        around: Option<(&str, &str)>,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let closed = || Error::unusable("the store is closed");
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let kept = self.idle().pop().filter(Session::is_usable);
        if let Some(client) = kept {
            match self.ask_in_time(client, around, statements).await? {
                Err(why) if why.is_of_the_connection() => {}
                answer => return answer.map_err(|why| why.translated(statements)),
            }
        }
        let client = self.connector.connect().await?;
        let answer = self.ask_in_time(client, around, statements).await?;
        answer.map_err(|why| why.translated(statements))
    }

    /// Asks on a connection. One that does not answer in time is given up.
    async fn ask_in_time(
        &self,
        client: Session,
        around: Option<(&str, &str)>,
        statements: &[Statement<'_>],
    ) -> Result<Answer> {
        let asked = self.ask_on(client, around, statements);
        limits::within(self.limit, &what(statements), asked).await
    }

    /// Later calls are errors, and the connections end.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    async fn ask_on(
        &self,
        client: Session,
        around: Option<(&str, &str)>,
        statements: &[Statement<'_>],
    ) -> Answer {
        let is_shared = !self.sessions.load(Ordering::Relaxed);
        let check = client.server_check().filter(|_| is_shared);
        let around = around.or(check.as_ref().map(|_| CHECKED));
        let mut sent = Vec::with_capacity(statements.len() + 3);
        sent.extend(around.map(|(begin, _)| Sent::Plain(begin)));
        sent.extend(check.as_ref().map(Sent::Values));
        let first = sent.len();
        sent.extend(statements.iter().map(Sent::Values));
        sent.extend(around.map(|(_, end)| Sent::Plain(end)));
        let answers = pipeline(&client, &self.schema, &sent).await;
        if client.has_moved() {
            return Err(Unanswered::AnotherServer);
        }
        let complete = answers.len() == sent.len();
        let mut rows = Vec::with_capacity(answers.len());
        let mut trouble = None;
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(found) => rows.push(found),
                Err(error) if is_of_another_server(&sent[place], &error) => {
                    return Err(Unanswered::AnotherServer);
                }
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        if complete && client.is_usable() {
            self.idle().push(client);
        }
        match trouble {
            Some(error) => Err(Unanswered::Said(error)),
            None => Ok(rows.into_iter().skip(first).take(statements.len()).collect()),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn what(statements: &[Statement<'_>]) -> String {
    match statements.first().map(|statement| statement.part) {
        Some(crate::statement::Part::Rows(what)) => what.to_string(),
        _ => "read".to_string(),
    }
}
