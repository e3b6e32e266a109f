//! Where a lane is: its number in the database, and what became of a batch whose answer was lost.
//!
//! What follows from a number is decided by [`BatchSequence`], which has the table; here it is
//! asked for and acted on.

use resurgam_store::fleet::{BatchFate, BatchSequence, LaneRow, NumberRefused, Rewound};
use resurgam_store::{Error, Result};
use tokio_postgres::Row;

use super::lane::{Lane, refused};
use crate::backoff::Backoff;
use crate::errors::{self, Attempted, is_of_another_server, translated};
use crate::session::Session;
use crate::statement::{Part, Sent, Statement, pipeline};

const NUMBER: &str = "SELECT n FROM @lane WHERE node = $1 AND lane = $2";

const NUMBERS: &str = "SELECT lane, n FROM @lane WHERE node = $1";

/// Decides about a batch whose fate is unknown: it is in, or it never will be. It writes in either
/// case, so that it waits for a synchronous standby: when that has this, it has the batch too. A
/// batch may be in without that, when somebody ended the server's wait.
const FORESTALL: &str = "
    UPDATE @lane SET n = CASE WHEN n = $3 THEN n + 2 ELSE n END,
                     at = (extract(epoch FROM now()) * 1000)::bigint
    WHERE node = $1 AND lane = $2
    RETURNING n";

const NEW: &str = "
    INSERT INTO @lane (node, lane, n, at)
    VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000)::bigint)
    ON CONFLICT (node, lane) DO NOTHING";

const SWEEP: &str = "DELETE FROM @lane WHERE at < (extract(epoch FROM now()) * 1000)::bigint - $1";

impl Lane {
    /// Connects, so that the first commit finds everything ready.
    pub(crate) async fn open(&mut self) -> Result<()> {
        let client = self.ready().await?;
        self.client = Some(client);
        Ok(())
    }

    /// Removes the rows of writers that went away long ago.
    pub(crate) async fn sweep(&mut self) -> Result<()> {
        self.client = Some(self.ready().await?);
        let age = i64::try_from(BatchSequence::ABANDONED.as_millis()).unwrap_or(i64::MAX);
        let sweep = Statement::rows("remove abandoned lanes", SWEEP).big(age);
        self.ask("remove abandoned lanes", None, &sweep).await.map(drop)
    }

    /// The number or the fence was refused.
    pub(super) async fn out_of_place(&mut self, part: Part, error: tokio_postgres::Error) -> Error {
        match part {
            Part::Fence => Error::fenced(
                "another node owns a shard of it by now, or this one was taken for dead",
            ),
            Part::Server => {
                self.client = None;
                errors::another_server()
            }
            Part::Lane => match self.read_number().await {
                Ok(found) => self.number_refused(found, error),
                Err(error) => {
                    self.client = None;
                    error
                }
            },
            Part::Claim | Part::Rows(_) => refused(part, error),
        }
    }

    /// The number was refused with this error, and another one was found, or the same.
    fn number_refused(&mut self, found: Option<i64>, error: tokio_postgres::Error) -> Error {
        match self.batches.number_refused(self.shared.now(), found, self.rewinds()) {
            Ok(NumberRefused::InPlace) => refused(Part::Lane, error),
            Ok(NumberRefused::RowRemoved) => {
                self.look_again_without_row();
                Error::transient("the lane was idle for so long that its row is gone")
            }
            Err(rewound) => self.rewound(rewound),
        }
    }

    /// Finds out what became of the batch whose answer was lost. Waits for the database as long as
    /// it takes: whoever asked must not be told something that may be wrong.
    pub(super) async fn settle(&mut self) -> Result<BatchFate> {
        let asked = ("find out what became of a commit", self.number.unsigned_abs().into());
        let mut backoff = Backoff::default();
        loop {
            match self.shared.connector.connect().await {
                Err(error) => self.shared.outages.refused(asked, &error),
                Ok(client) => {
                    self.client = Some(client);
                    let number = self.forestall().await;
                    self.shared.outages.heard(asked, &number);
                    match number {
                        Ok(found) => {
                            let fate = self.batches.forestalled(self.shared.now(), found);
                            let fate = fate.map_err(|rewound| self.rewound(rewound))?;
                            self.reached();
                            return Ok(fate);
                        }
                        Err(_) => self.client = None,
                    }
                }
            }
            backoff.wait().await;
        }
    }

    /// A connection whose lane is where we left it, out of our hands until it is given back: who
    /// stops waiting in the middle of a transaction drops it.
    pub(super) async fn ready(&mut self) -> Result<Session> {
        if self.batches.is_in_doubt() {
            self.client = None;
            self.settle().await?;
        }
        if let Some(client) = self.client.take_if(|client| client.is_usable()) {
            return Ok(client);
        }
        self.client = Some(self.shared.connector.connect().await?);
        let looked = self.look_at_row().await;
        // A connection on which nobody has looked at the row is not used.
        let client = self.client.take().filter(|_| looked.is_ok());
        looked.and(client.ok_or_else(|| Error::transient("the connection went away")))
    }

    /// Looks at the row of the lane, and makes it when it is missing.
    async fn look_at_row(&mut self) -> Result<()> {
        let before = self.shared.rewinds().positions();
        let numbers = self.read_numbers().await?;
        let is_own = |(lane, _): &&(i16, i64)| *lane == self.number;
        let found = numbers.iter().find(is_own).map(|(_, number)| *number);
        if self.shared.rewinds().has_lost(self.shared.now(), &before, &numbers) {
            let last = self.batches.last();
            return Err(self.rewound(Rewound { last, found }));
        }
        match self.batches.looked(self.shared.now(), found, self.rewinds()) {
            Ok(LaneRow::InPlace) => {}
            Ok(LaneRow::Missing) => self.make_row().await?,
            Ok(LaneRow::Adopted) => self.look_again_without_row(),
            Err(rewound) => return Err(self.rewound(rewound)),
        }
        if self.batches.has_row() {
            self.reached();
        }
        Ok(())
    }

    /// Everybody may know where this lane is.
    pub(super) fn reached(&self) {
        let (now, last) = (self.shared.now(), self.batches.last());
        self.shared.rewinds().reached(now, self.number, last);
    }

    /// The numbers of all lanes of this process.
    async fn read_numbers(&self) -> Result<Vec<(i16, i64)>> {
        let what = "read the lanes";
        let numbers = Statement::rows(what, NUMBERS).text(self.shared.writer.as_str());
        let rows = self.ask(what, None, &numbers).await?;
        let number = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let numbers: std::result::Result<_, tokio_postgres::Error> =
            rows.iter().map(number).collect();
        numbers.attempted(|| what.into())
    }

    /// The lane's number in the database; none without its row.
    async fn read_number(&self) -> Result<Option<i64>> {
        let number = Statement::rows("read the lane", NUMBER)
            .text(self.shared.writer.as_str())
            .small(self.number);
        self.ask_number(None, &number).await
    }

    /// Sees to it that a batch whose fate is unknown is in or never will be; the number after that.
    async fn forestall(&self) -> Result<Option<i64>> {
        let forestall = Statement::rows("forestall a batch", FORESTALL)
            .text(self.shared.writer.as_str())
            .small(self.number)
            .big(self.batches.last());
        self.ask_number(Some(&self.shared.begin), &forestall).await
    }

    async fn ask_number(
        &self,
        begin: Option<&str>,
        statement: &Statement<'_>,
    ) -> Result<Option<i64>> {
        let what = "read the lane";
        let rows = self.ask(what, begin, statement).await?;
        rows.first().map(|row| row.try_get(0)).transpose().attempted(|| what.into())
    }

    /// Asks the server that was connected to, and no other, in one round trip and in a transaction
    /// that begins so. Without that, and where nobody else can answer, the statement is one.
    async fn ask(
        &self,
        what: &str,
        begin: Option<&str>,
        statement: &Statement<'_>,
    ) -> Result<Vec<Row>> {
        let Some(client) = &self.client else {
            return Err(Error::transient(format!("{what}: there is no connection")));
        };
        let (check, warnings) = (client.server_check(), client.warnings());
        let begin = begin.or(check.as_ref().map(|_| "BEGIN"));
        let mut sent = Vec::from_iter(begin.map(Sent::Plain));
        sent.extend(check.as_ref().map(Sent::Values));
        let place = sent.len();
        sent.push(Sent::Values(statement));
        sent.extend(begin.map(|_| Sent::Plain("COMMIT")));
        let answers = pipeline(client, &self.shared.schema, &sent);
        let mut rows = Vec::new();
        let answers = self.shared.in_time(what, answers).await?;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(found) if number == place => rows = found,
                Ok(_) => {}
                Err(error) if is_of_another_server(&sent[number], &error) => {
                    return Err(errors::another_server());
                }
                Err(error) => return Err(translated(error, what.into())),
            }
        }
        match client.warnings() == warnings {
            true => Ok(rows),
            false => Err(Error::transient(format!("{what}: the server warns"))),
        }
    }

    async fn make_row(&mut self) -> Result<()> {
        let new = Statement::rows("make the lane", NEW)
            .text(self.shared.writer.as_str())
            .small(self.number)
            .big(self.batches.last());
        self.ask("make the lane", None, &new).await?;
        self.batches.row_made(self.shared.now());
        Ok(())
    }

    /// The database is not where this lane left it, and whoever asked is told.
    fn rewound(&mut self, rewound: Rewound) -> Error {
        let rewinds = self.shared.rewinds().tell();
        self.shared.policies().clear();
        self.batches.accept(self.shared.now(), rewound, rewinds);
        self.look_again_without_row();
        rewound.into()
    }

    /// Without a row the next use makes one, on a new connection.
    fn look_again_without_row(&mut self) {
        if !self.batches.has_row() {
            self.client = None;
        }
    }

    fn rewinds(&self) -> u64 {
        self.shared.rewinds().told()
    }
}
