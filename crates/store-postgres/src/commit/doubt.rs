//! Where a lane is: its number in the database, and what became of a batch whose answer was lost.
//!
//! | the database's number is | what that means |
//! |---|---|
//! | the lane's | nothing is in doubt |
//! | one more | the batch in doubt is in |
//! | two more | it is not, and never will be: somebody else raised the number past it |
//! | anything else, or none | the database went back in time |
//!
//! Who does not know what became of a batch raises the number by two, from the one that the batch
//! expects too. Should the server still be busy with the batch, this waits for it; and when it got
//! through, the batch cannot any more, however much of it still lies in a buffer somewhere.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use resurgam_store::{Error, Result};

use super::lane::{Lane, refused};
use crate::backoff::Backoff;
use crate::session::Session;
use crate::statement::{Part, Sent, Statement, pipeline, query};
use crate::trouble::Attempted;

/// Rows of writers that have not committed for so long are removed.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3_600);
/// A lane that was idle for so long expects that its row may be gone.
const IDLE: Duration = Duration::from_secs(24 * 3_600);
const NUMBER: &str = "SELECT n FROM @lane WHERE node = $1 AND lane = $2";

/// Decides about a batch whose fate is unknown: it is in, or it never will be.
const FORESTALL: &str = "
    UPDATE @lane SET n = n + 2 WHERE node = $1 AND lane = $2 AND n = $3";

const NEW: &str = "
    INSERT INTO @lane (node, lane, n, at)
    VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000)::bigint)";

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
        let client = self.ready().await?;
        let age = i64::try_from(ABANDONED.as_millis()).unwrap_or(i64::MAX);
        let sweep = Statement::rows("remove abandoned lanes", SWEEP).big(age);
        let swept = query(&client, &self.shared.schema, &sweep).await;
        self.client = Some(client);
        swept.attempted(|| "remove abandoned lanes".into()).map(drop)
    }

    /// The number or the fence was refused.
    pub(super) async fn out_of_place(&mut self, part: Part, error: tokio_postgres::Error) -> Error {
        match part {
            Part::Fence => Error::fenced(
                "another node owns a shard of it by now, or this one was taken for dead",
            ),
            Part::Lane => match self.read_number().await {
                Ok(Some(n)) if n == self.n => refused(part, error),
                Ok(None) if self.seen.is_some_and(|seen| seen.elapsed() > IDLE) => {
                    self.adopt(None);
                    Error::transient("the lane was idle for so long that its row is gone")
                }
                Ok(n) => self.rewound(n),
                Err(error) => error,
            },
            Part::Claim | Part::Rows(_) => refused(part, error),
        }
    }

    /// Finds out whether the batch whose answer was lost is in. Waits for the database as long as
    /// it takes: whoever asked must not be told something that may be wrong.
    pub(super) async fn settle(&mut self) -> Result<bool> {
        let asked = ("find out what became of a commit", self.number.unsigned_abs().into());
        let mut backoff = Backoff::default();
        loop {
            match self.shared.connector.connect().await {
                Err(error) => {
                    let error = self.shared.connector.trouble(error);
                    self.shared.outages.refused(asked, &error);
                }
                Ok(client) => {
                    self.client = Some(client);
                    let number = self.forestall().await;
                    self.shared.outages.heard(asked, &number);
                    match number {
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
}
