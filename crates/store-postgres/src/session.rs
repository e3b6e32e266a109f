//! A connection, and what its session remembers.
//!
//! Reading a statement and planning it takes the server longer than carrying it out. Where the
//! session is ours alone, a statement is prepared when it is first used. Behind a pooler in
//! transaction mode the next transaction may be another server's, so there nothing is prepared; how
//! that is told apart is in `changes`. Nor is it with the extension Citus, which does not know how
//! to route a statement that is prepared.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use resurgam_store::fleet::{ServerAccess, ServerReport};
use tokio::sync::watch;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement as Prepared};

use crate::combine;
use crate::connect::{Held, Warnings};
use crate::statement::{Part, Schema, Shape, Statement};

/// How many statements a session remembers before it begins anew. What is written together differs
/// from batch to batch, and a program has its habits: far fewer than this.
const MOST: usize = 200;

/// For how long a standby is read before a primary is looked for again.
const STANDBY: Duration = Duration::from_secs(5);

/// The name of a WAL file begins with the timeline, and a standby writes none.
const SAME_SERVER: &str = "
    SELECT 1 / (CASE WHEN pg_is_in_recovery() THEN false
                     ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) = $1 END)::int";

/// A connection with the statements that are prepared on it.
pub(crate) struct Session {
    client: Client,
    /// What keeps the connection driven.
    _held: Held,
    warnings: Warnings,
    /// How often the primary has become another one.
    moves: watch::Receiver<u64>,
    /// How often the primary had become another one when this connection was made.
    made_after: u64,
    made: Instant,
    access: ServerAccess,
    timeline: Option<u32>,
    /// Whether statements may be prepared where the session is ours alone.
    may_prepare: bool,
    settled: bool,
    /// What is prepared, by what it is made of.
    known: HashMap<Vec<Shape>, Prepared>,
}

impl Session {
    pub(crate) fn new(
        client: Client,
        held: Held,
        warnings: Warnings,
        moves: watch::Receiver<u64>,
    ) -> Self {
        let made_after = *moves.borrow();
        Session {
            client,
            _held: held,
            warnings,
            moves,
            made_after,
            made: Instant::now(),
            access: ServerAccess::Writable,
            timeline: None,
            may_prepare: true,
            settled: false,
            known: HashMap::new(),
        }
    }

    /// The connection leads to this server, which was the one to use after so many moves.
    pub(crate) fn belongs_to(&mut self, moves: u64, server: &ServerReport) {
        (self.made_after, self.access) = (moves, server.access);
        self.timeline = server.timeline();
    }

    /// Leaves everything unprepared: the server could not carry it out.
    pub(crate) fn without_preparing(self) -> Self {
        Session { may_prepare: false, ..self }
    }

    /// Whether it still leads to the server that is to be used.
    pub(crate) fn is_usable(&self) -> bool {
        let is_stale = self.access == ServerAccess::Standby && self.made.elapsed() > STANDBY;
        !self.client.is_closed() && !is_stale && !self.has_moved()
    }

    /// Whether the primary has become another one since the connection was made. What the server
    /// has answered after that counts for nothing.
    pub(crate) fn has_moved(&self) -> bool {
        *self.moves.borrow() != self.made_after
    }

    /// What fails where another server answers than the one that was connected to: behind a pooler
    /// every transaction may be another server's. None where the session is ours alone, and where
    /// the server does not tell its timeline.
    pub(crate) fn server_check(&self) -> Option<Statement<'static>> {
        let timeline = self.timeline.filter(|_| !self.settled)?;
        Some(Statement::check(Part::Server, SAME_SERVER).text(format!("{timeline:08X}")))
    }

    /// Ready when the primary has become another one.
    pub(crate) async fn moved(&self) {
        let (mut moves, made_after) = (self.moves.clone(), self.made_after);
        // An error is the end of the store.
        let _moved = moves.wait_for(|moves| *moves != made_after).await;
    }

    /// How many warnings have come so far.
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Tells a session that is ours alone what holds for all transactions.
    pub(crate) async fn settle(&mut self, settings: &str) {
        if !self.settled && self.may_prepare {
            self.settled = self.client.batch_execute(settings).await.is_ok();
        }
    }

    /// True when the session is ours alone.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// One statement that does what all of these do, prepared when it is first used. None when that
    /// cannot be done; what is wrong is said when they are sent one by one.
    pub(crate) async fn prepared(
        &mut self,
        schema: &Schema,
        statements: &[&Statement<'_>],
    ) -> Option<Prepared> {
        let shapes: Vec<Shape> = statements.iter().map(|one| one.shape.clone()).collect();
        if let Some(known) = self.known.get(&shapes) {
            return Some(known.clone());
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let sql = schema.sql(&combine::text(statements)?);
        let types: Vec<Type> = statements.iter().flat_map(|one| one.types()).collect();
        let prepared = self.client.prepare_typed(&sql, &types).await.ok()?;
        self.known.insert(shapes, prepared.clone());
        Some(prepared)
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
