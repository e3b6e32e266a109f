//! A statement with its values, and how many of them travel in one go.
//!
//! Statements are typed by us, and unnamed unless a session is known to be ours alone (`session`),
//! so that the server keeps nothing of them and a pooler in transaction mode may stand between. `@`
//! in the text stands for the schema's name. Rows come as columns: one array for each. Statements
//! that write are made of pieces (`sql`), so that a few rows can be listed (`small_batch`) and many
//! statements become one (`combine`); those that read are plain text.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use resurgam_core::{CallKey, Uid};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement as Prepared};

use uuid::Uuid;

use crate::encode::whole;
use crate::small_batch;
use crate::sql::{Sql, is_count};

/// The name of our schema, ready to stand in front of a table's.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    name: String,
    prefix: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Schema { name: name.to_string(), prefix: format!("\"{}\".", name.replace('"', "\"\"")) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A text of ours as SQL.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace('@', &self.prefix)
    }
}

/// What a refused statement means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The number of the batch is not the one the lane expects.
    Lane,
    /// Another node owns a shard.
    Fence,
    /// It is another server than the one that was connected to.
    Server,
    /// The task is not the attempt's any more.
    Claim,
    /// Anything else; in the words of an error.
    Rows(&'static str),
}

/// A statement without its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    /// What it is made from, as in `WITH`; often nothing.
    with: Option<&'static Sql>,
    query: Query,
    /// How many rows its columns have, when they are few; otherwise 0.
    listed: usize,
}

impl Shape {
    /// Its text after this many values of others, for as many rows as there are. None for plain
    /// text, which is sent alone.
    pub(crate) fn after(&self, values: usize) -> Option<String> {
        match self.query {
            Query::Plain(_) => None,
            Query::Built(sql) => Some(sql.after(values, self.listed)),
        }
    }

    /// The text of what it is made from, after this many values of others.
    pub(crate) fn with_after(&self, values: usize) -> Option<String> {
        self.with.map(|with| with.after(values, self.listed))
    }
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Query {
    /// Text that is sent as it is.
    Plain(Cow<'static, str>),
    /// Pieces.
    Built(&'static Sql),
}

impl Query {
    /// Its text when it is sent alone, for any number of rows.
    fn alone(&self) -> &str {
        match self {
            Query::Plain(text) => text,
            Query::Built(sql) => sql.alone(),
        }
    }
}

impl From<&'static str> for Query {
    fn from(text: &'static str) -> Self {
        Query::Plain(text.into())
    }
}

impl From<String> for Query {
    fn from(text: String) -> Self {
        Query::Plain(text.into())
    }
}

impl From<&'static Sql> for Query {
    fn from(sql: &'static Sql) -> Self {
        Query::Built(sql)
    }
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// It reads or writes rows.
    Rows,
    /// It writes as many rows as its last value says, or fails.
    Exactly,
    /// It fails where something does not hold.
    Check,
}

/// A statement with its values.
pub(crate) struct Statement<'b> {
    pub(crate) part: Part,
    pub(crate) shape: Shape,
    /// Whether it must see what those before it have written, or waited for.
    pub(crate) follows: bool,
    values: Vec<(Box<dyn ToSql + Send + Sync + 'b>, Type)>,
}

impl<'b> Statement<'b> {
    pub(crate) fn new(part: Part, query: impl Into<Query>) -> Self {
        let shape = Shape { form: Form::Rows, with: None, query: query.into(), listed: 0 };
        Statement { part, shape, follows: false, values: Vec::new() }
    }

    /// A statement that fails with a division by zero where something does not hold.
    pub(crate) fn check(part: Part, query: impl Into<Query>) -> Self {
        Statement::new(part, query).form(Form::Check)
    }

    /// A statement that writes or reads rows.
    pub(crate) fn rows(what: &'static str, query: impl Into<Query>) -> Self {
        Statement::new(Part::Rows(what), query)
    }

    /// The queries by name that it is made from.
    pub(crate) fn made_from(mut self, with: &'static Sql) -> Self {
        self.shape.with = Some(with);
        self
    }

    /// It must see what the statements before it have written, or waited for.
    pub(crate) fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// It must write as many rows as this. Comes after all other values.
    pub(crate) fn exactly(self, rows: usize) -> Self {
        self.big(whole(rows as u64)).form(Form::Exactly)
    }

    fn form(mut self, form: Form) -> Self {
        self.shape.form = form;
        self
    }

    /// Its text when it is sent by itself, for any number of rows.
    pub(crate) fn alone(&self) -> Cow<'_, str> {
        self.assert_types();
        let Shape { form, with, query, .. } = &self.shape;
        let text = query.alone();
        match (form, with) {
            (Form::Exactly, _) => Cow::Owned(format!(
                "WITH done AS ({text} RETURNING 1) SELECT {} FROM done",
                is_count(self.values.len())
            )),
            (_, None) => Cow::Borrowed(text),
            (_, Some(with)) => Cow::Owned(format!("WITH {} {text}", with.alone())),
        }
    }

    /// The columns that were given are those that the pieces list. Tests see to it that every
    /// statement is sent.
    pub(crate) fn assert_types(&self) {
        let query = match self.shape.query {
            Query::Built(sql) => Some(sql),
            Query::Plain(_) => None,
        };
        let is_as_listed = |sql: &Sql| self.types().starts_with(&sql.row_types());
        debug_assert!(
            query.into_iter().chain(self.shape.with).all(is_as_listed),
            "other columns than those of {:?}: {:?}",
            self.shape,
            self.types()
        );
    }

    /// Its values, in the order of their numbers.
    pub(crate) fn values(&self) -> impl ExactSizeIterator<Item = &(dyn ToSql + Sync)> {
        self.values.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync))
    }

    /// One value for each row.
    fn column<T>(mut self, values: Vec<T>, kind: Type) -> Self
    where
        Vec<T>: ToSql + Send + Sync + 'b,
    {
        self.shape.listed = if values.len() <= small_batch::MOST { values.len() } else { 0 };
        self.with(values, kind)
    }

    fn with(mut self, value: impl ToSql + Send + Sync + 'b, kind: Type) -> Self {
        self.values.push((Box::new(value), kind));
        self
    }

    /// Two columns: the shards of these instances, and their uids.
    pub(crate) fn uids(self, uids: impl Iterator<Item = Uid> + Clone) -> Self {
        let shards: Vec<i16> = uids.clone().map(shard_of).collect();
        let uids: Vec<Uuid> = uids.map(uuid).collect();
        self.column(shards, Type::INT2_ARRAY).column(uids, Type::UUID_ARRAY)
    }

    /// Four columns: the shards of these calls, and what names them there.
    pub(crate) fn calls(self, calls: impl Iterator<Item = CallKey> + Clone) -> Self {
        self.uids(calls.clone().map(|call| call.run.uid))
            .bigs(calls.clone().map(|call| i64::from(call.run.run)))
            .bigs(calls.map(|call| whole(call.seq.0)))
    }

    /// Uids without their shards.
    pub(crate) fn only_uids(self, uids: impl Iterator<Item = Option<Uid>>) -> Self {
        let uids: Vec<Option<Uuid>> = uids.map(|uid| uid.map(uuid)).collect();
        self.column(uids, Type::UUID_ARRAY)
    }

    pub(crate) fn shards(self, shards: impl Iterator<Item = i16>) -> Self {
        self.column(shards.collect::<Vec<i16>>(), Type::INT2_ARRAY)
    }

    pub(crate) fn bigs(self, numbers: impl Iterator<Item = i64>) -> Self {
        self.column(numbers.collect::<Vec<i64>>(), Type::INT8_ARRAY)
    }

    pub(crate) fn maybe_bigs(self, numbers: impl Iterator<Item = Option<i64>>) -> Self {
        self.column(numbers.collect::<Vec<Option<i64>>>(), Type::INT8_ARRAY)
    }

    pub(crate) fn ints(self, numbers: impl Iterator<Item = i32>) -> Self {
        self.column(numbers.collect::<Vec<i32>>(), Type::INT4_ARRAY)
    }

    pub(crate) fn flags(self, flags: impl Iterator<Item = bool>) -> Self {
        self.column(flags.collect::<Vec<bool>>(), Type::BOOL_ARRAY)
    }

    pub(crate) fn texts<T: Into<Cow<'b, str>>>(self, texts: impl Iterator<Item = T>) -> Self {
        let texts: Vec<Cow<'b, str>> = texts.map(Into::into).collect();
        self.column(texts, Type::TEXT_ARRAY)
    }

    pub(crate) fn maybe_texts<T: Into<Cow<'b, str>>>(
        self,
        texts: impl Iterator<Item = Option<T>>,
    ) -> Self {
        let texts: Vec<Option<Cow<'b, str>>> = texts.map(|text| text.map(Into::into)).collect();
        self.column(texts, Type::TEXT_ARRAY)
    }

    /// The types of its values.
    pub(crate) fn types(&self) -> Vec<Type> {
        self.values.iter().map(|(_, kind)| kind.clone()).collect()
    }

    /// Names; none for all.
    pub(crate) fn names(self, names: &Option<Arc<[String]>>) -> Self {
        self.with(names.as_ref().map(|names| names.to_vec()), Type::TEXT_ARRAY)
    }

    /// One uid after its shard.
    pub(crate) fn uid(self, uid: Uid) -> Self {
        self.with(shard_of(uid), Type::INT2).with(uuid(uid), Type::UUID)
    }

    pub(crate) fn small(self, number: i16) -> Self {
        self.with(number, Type::INT2)
    }

    pub(crate) fn big(self, number: i64) -> Self {
        self.with(number, Type::INT8)
    }

    pub(crate) fn text(self, text: impl Into<Cow<'b, str>>) -> Self {
        self.with(text.into(), Type::TEXT)
    }

    pub(crate) fn maybe_text(self, text: Option<impl Into<Cow<'b, str>>>) -> Self {
        self.with(text.map(Into::into), Type::TEXT)
    }
}

/// A uid as PostgreSQL's type.
pub(crate) fn uuid(uid: Uid) -> Uuid {
    Uuid::from_u128(uid.0)
}

/// The column that leads every key.
pub(crate) fn shard_of(uid: Uid) -> i16 {
    uid.shard().0.cast_signed()
}

/// What travels in a pipeline.
pub(crate) enum Sent<'s> {
    /// SQL without values.
    Plain(&'s str),
    /// A statement.
    Values(&'s Statement<'s>),
    /// Several that are prepared as one.
    Together(&'s Prepared, &'s [&'s Statement<'s>]),
}

impl Sent<'_> {
    /// What it means when it is refused.
    pub(crate) fn part(&self) -> Part {
        match self {
            Sent::Values(statement) => statement.part,
            Sent::Plain(_) | Sent::Together(..) => Part::Rows("commit"),
        }
    }
}

/// Sends everything at once and waits for all the answers: one round trip, whatever its length.
/// Answers come in the order of what was sent. What cannot be sent ends the pipeline there, with
/// fewer answers than there were statements: a `COMMIT` must never follow a gap.
pub(crate) async fn pipeline(
    client: &Client,
    schema: &Schema,
    sent: &[Sent<'_>],
) -> Vec<Result<Vec<Row>, Error>> {
    let mut waiting: Vec<Waiting<'_>> = Vec::with_capacity(sent.len());
    let mut rest = sent.iter();
    poll_fn(|context| {
        // The first poll of each sends it, so this sends in order and awaits nothing before the
        // last one is on its way.
        while let Some(next) = rest.next() {
            let mut next = Waiting { asked: ask(client, schema, next), answer: None };
            next.look(context);
            if matches!(next.answer, Some(Err(_))) {
                rest = [].iter();
            }
            waiting.push(next);
        }
        let unanswered = waiting.iter_mut().map(|one| one.look(context)).filter(|here| !here);
        match unanswered.count() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    waiting.into_iter().filter_map(|one| one.answer).collect()
}

/// A statement that was sent.
struct Waiting<'s> {
    asked: Asked<'s>,
    answer: Option<Result<Vec<Row>, Error>>,
}

impl Waiting<'_> {
    /// True when the answer is here.
    fn look(&mut self, context: &mut Context<'_>) -> bool {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.asked.as_mut().poll(context)
        {
            self.answer = Some(answer);
        }
        self.answer.is_some()
    }
}

type Asked<'s> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 's>>;

fn ask<'s>(client: &'s Client, schema: &'s Schema, sent: &'s Sent<'s>) -> Asked<'s> {
    match sent {
        Sent::Plain(sql) => Box::pin(async move {
            client.batch_execute(sql).await?;
            Ok(Vec::new())
        }),
        Sent::Values(statement) => Box::pin(query(client, schema, statement)),
        Sent::Together(prepared, statements) => Box::pin(execute(client, prepared, statements)),
    }
}

/// Has what is prepared carried out with the values of these, and waits for its rows.
async fn execute(
    client: &Client,
    prepared: &Prepared,
    statements: &[&Statement<'_>],
) -> Result<Vec<Row>, Error> {
    let values: Vec<&(dyn ToSql + Sync)> =
        statements.iter().flat_map(|statement| statement.values()).collect();
    client.query(prepared, &values).await
}

/// Sends one statement and waits for its rows.
pub(crate) async fn query(
    client: &Client,
    schema: &Schema,
    statement: &Statement<'_>,
) -> Result<Vec<Row>, Error> {
    let values: Vec<(&(dyn ToSql + Sync), Type)> = statement
        .values
        .iter()
        .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
        .collect();
    client.query_typed(&schema.sql(&statement.alone()), &values).await
}
