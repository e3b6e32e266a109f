//! A connection, and what its session remembers.
//!
//! Reading a statement and planning it takes the server longer than carrying it out. Where the
//! session is ours alone, a statement is prepared when it is first used. Behind a pooler in
//! transaction mode the next transaction may be another server's, so there nothing is prepared; how
//! that is told apart is in `changes`.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::slice;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement as Prepared};

use crate::statement::{Schema, Shape, Statement, shapes};
use crate::together;

/// The statements that are prepared on a connection, by what they are made of.
pub(crate) type Known = HashMap<Vec<Shape>, Prepared>;

/// How many statements a session remembers: more than we have.
const MOST: usize = 200;

/// A connection with the statements that are prepared on it.
pub(crate) struct Session {
    client: Client,
    settled: bool,
    known: Known,
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Session { client, settled: false, known: Known::new() }
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

    /// Prepares what is used for the first time. What is wrong with a statement is said when it is
    /// sent.
    pub(crate) async fn prepare(&mut self, schema: &Schema, statements: &[&Statement<'_>]) {
        for statement in statements {
            self.prepare_together(schema, slice::from_ref(statement)).await;
        }
    }

    /// Prepares one statement that does what all of these do, and says whether it is there.
    pub(crate) async fn prepare_together(
        &mut self,
        schema: &Schema,
        statements: &[&Statement<'_>],
    ) -> bool {
        let shapes = shapes(statements);
        if self.known.contains_key(&shapes) {
            return true;
        }
        if self.known.len() >= MOST {
            return false;
        }
        let sql = schema.sql(&together::text(statements));
        let types: Vec<Type> = statements.iter().flat_map(|one| one.types()).collect();
        let prepared = self.client.prepare_typed(&sql, &types).await;
        prepared.is_ok_and(|prepared| {
            self.known.insert(shapes, prepared);
            true
        })
    }

    /// What is prepared.
    pub(crate) fn known(&self) -> &Known {
        &self.known
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
