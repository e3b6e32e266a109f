//! A connection, and what its session remembers.
//!
//! Reading a statement and planning it takes the server longer than carrying it out. Where the
//! session is ours alone, a statement is prepared when it is first used. Behind a pooler in
//! transaction mode the next transaction may be another server's, so there nothing is prepared; how
//! that is told apart is in `changes`.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement as Prepared};

use crate::combine;
use crate::statement::{Schema, Shape, Statement};

/// How many statements a session remembers before it begins anew. What is written together differs
/// from batch to batch, and a program has its habits: far fewer than this.
const MOST: usize = 200;

/// A connection with the statements that are prepared on it.
pub(crate) struct Session {
    client: Client,
    settled: bool,
    /// What is prepared, by what it is made of.
    known: HashMap<Vec<Shape>, Prepared>,
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Session { client, settled: false, known: HashMap::new() }
    }

    /// Tells a session that is ours alone what holds for all transactions.
    pub(crate) async fn settle(&mut self, settings: &str) {
        if !self.settled {
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
