//! Reads what a batch depends on, inside the transaction that writes it.

use std::collections::BTreeSet;

use resurgam_core::{CallKey, RunKey, Seq, Uid};
use resurgam_store::{InstanceWrite, Step, TaskWrite};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::judge::Known;
use crate::encode::whole;
use crate::statement::Statement;

/// The current holders of ids.
const HOLDERS: &str = "SELECT id, uid, status FROM @instance WHERE current AND id = ANY($1)";

const REQUESTS: &str = "SELECT request_id FROM @instance WHERE request_id = ANY($1)";

const INSTANCES: &str = "
    SELECT i.uid, i.status FROM @instance i
    JOIN unnest($1::smallint[], $2::uuid[]) AS u(shard, uid)
      ON i.shard = u.shard AND i.uid = u.uid";

const TASKS: &str = "
    SELECT t.uid, t.run, t.seq FROM @task t
    JOIN unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
      ON t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq";

const EVENTS: &str = "
    SELECT e.uid, e.run, e.seq FROM @event e
    JOIN unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
      ON e.shard = u.shard AND e.uid = u.uid AND e.run = u.run AND e.seq = u.seq";

/// The questions about a batch.
pub(super) fn questions(batch: &[Step]) -> [Statement<'_>; 5] {
    let mut asked = Asked::default();
    batch.iter().for_each(|step| asked.about(step));
    let Asked { ids, requests, uids, tasks, events } = asked;
    [
        Statement::rows("look for holders of ids", HOLDERS).texts(ids.into_iter()),
        Statement::rows("look for requests", REQUESTS).texts(requests.into_iter()),
        Statement::rows("look for instances", INSTANCES).uids(uids.iter().copied()),
        places(Statement::rows("look for tasks", TASKS), &tasks),
        places(Statement::rows("look for events", EVENTS), &events),
    ]
}

/// What the answers to [`questions`] say.
pub(super) fn known(answers: Vec<Vec<Row>>) -> Result<Known, Error> {
    let mut known = Known::default();
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or_default();
    for row in next() {
        let uid = uid(&row, 1)?;
        known.holders.insert(row.try_get(0)?, uid);
        known.closed.insert(uid, is_closed(row.try_get(2)?));
    }
    for row in next() {
        known.requests.insert(row.try_get(0)?);
    }
    for row in next() {
        known.closed.insert(uid(&row, 0)?, is_closed(row.try_get(1)?));
    }
    for row in next() {
        known.tasks.insert(call(&row)?);
    }
    for row in next() {
        let call = call(&row)?;
        known.events.insert((call.run, call.seq));
    }
    Ok(known)
}

/// What a batch depends on.
#[derive(Default)]
struct Asked<'b> {
    ids: BTreeSet<&'b str>,
    requests: BTreeSet<&'b str>,
    uids: BTreeSet<Uid>,
    tasks: BTreeSet<CallKey>,
    events: BTreeSet<CallKey>,
}

impl<'b> Asked<'b> {
    fn about(&mut self, step: &'b Step) {
        let started = match &step.instance {
            Some(InstanceWrite::Insert { row, .. }) => Some(row),
            _ => None,
        };
        for row in started.into_iter().chain(step.births.iter().map(|birth| &birth.row)) {
            self.ids.insert(&row.id);
            self.requests.extend(row.request_id.as_deref());
            self.uids.insert(row.uid);
        }
        match &step.instance {
            Some(InstanceWrite::Open { uid } | InstanceWrite::Status { uid, .. }) => {
                self.uids.insert(*uid);
            }
            Some(InstanceWrite::Continue { run, .. }) => {
                self.uids.insert(run.uid);
            }
            Some(InstanceWrite::Insert { .. }) | None => {}
        }
        self.events.extend(step.events.iter().map(|(run, event)| run.call(event.seq)));
        self.tasks.extend(step.tasks.iter().filter_map(|write| match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) => Some(row.call),
            TaskWrite::Delete(call) => Some(*call),
            TaskWrite::Discard(_) | TaskWrite::DeleteAll(_) => None,
        }));
    }
}

fn places<'s>(statement: Statement<'s>, calls: &BTreeSet<CallKey>) -> Statement<'s> {
    statement
        .uids(calls.iter().map(|call| call.run.uid))
        .bigs(calls.iter().map(|call| i64::from(call.run.run)))
        .bigs(calls.iter().map(|call| whole(call.seq.0)))
}

/// A status that this version does not know counts as open: a newer one may have reason to keep it.
fn is_closed(status: &str) -> bool {
    resurgam_store::rows::Status::named(status).is_some_and(|status| status.is_closed())
}

fn uid(row: &Row, column: usize) -> Result<Uid, Error> {
    Ok(Uid(row.try_get::<_, Uuid>(column)?.as_u128()))
}

fn call(row: &Row) -> Result<CallKey, Error> {
    let run = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
    let run = RunKey { uid: uid(row, 0)?, run };
    Ok(run.call(Seq(row.try_get::<_, i64>(2)?.unsigned_abs())))
}
