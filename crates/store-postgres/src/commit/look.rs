//! Reads what a batch depends on, inside the transaction that writes it.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::{CallKey, Payload, RunKey, Seq, Uid};
use resurgam_store::{
    BulkWrite, InboxRow, InboxWrite, InstanceWrite, LetterWrite, MessageWrite, Rewind,
    ScheduleWrite, Step, TaskWrite,
};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::schedule;
use super::slow_path::{Revision, StoredBefore, Waiting};
use crate::encode::whole;
use crate::statement::Statement;

/// The current holders of ids.
const HOLDERS: &str = "SELECT id, uid, status FROM @instance WHERE current AND id = ANY($1)";

const REQUESTS: &str = "SELECT request_id FROM @instance WHERE request_id = ANY($1)";

const INSTANCES: &str = "
    SELECT i.uid, i.status, i.current FROM @instance i
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

/// Counts no further than a batch wants to know.
const SIGNALS: &str = "
    SELECT u.uid, (SELECT count(*) FROM (
        SELECT 1 FROM @message m
        WHERE m.shard = u.shard AND m.uid = u.uid AND m.kind = 'SignalReceived'
        LIMIT u.most) AS waiting)
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS u(shard, uid, most)";

const MESSAGES: &str = "
    SELECT m.uid, m.id, m.kind = 'SignalReceived', m.run FROM @message m
    JOIN unnest($1::smallint[], $2::uuid[], $3::text[]) AS u(shard, uid, id)
      ON m.shard = u.shard AND m.uid = u.uid AND m.id = u.id";

const SCHEDULES: &str = "
    SELECT s.id, s.revision FROM @schedule s
    JOIN unnest($1::smallint[], $2::text[]) AS u(shard, id) ON s.shard = u.shard AND s.id = u.id";

const BULK: &str = "
    SELECT s.id, s.revision, s.closed_at IS NULL AND s.stopped_by IS NULL FROM @bulk s
    JOIN unnest($1::smallint[], $2::text[]) AS u(shard, id) ON s.shard = u.shard AND s.id = u.id";

const LETTERS: &str = "
    SELECT t.uid, t.run, t.seq, t.state = 'open' FROM @dead_letter t
    JOIN unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS u(shard, uid, run, seq)
      ON t.shard = u.shard AND t.uid = u.uid AND t.run = u.run AND t.seq = u.seq";

const INBOX: &str = "
    SELECT arrival, id, instance, kind, name, body FROM @inbox
    WHERE arrival = ANY($1) AND error IS NULL";

const SEEN: &str = "SELECT id FROM @inbox_seen WHERE id = ANY($1)";

/// The questions about a batch.
pub(super) fn questions(batch: &[Step]) -> [Statement<'_>; 12] {
    let mut asked = Asked::default();
    batch.iter().for_each(|step| asked.about(step));
    batch.iter().for_each(|step| asked.about_messages(step));
    let Asked { ids, requests, uids, tasks, events, .. } = asked;
    let Asked { room, messages, schedules, inbox, seen, bulk, letters, .. } = asked;
    [
        Statement::rows("look for holders of ids", HOLDERS).texts(ids.into_iter()),
        Statement::rows("look for requests", REQUESTS).texts(requests.into_iter()),
        Statement::rows("look for instances", INSTANCES).uids(uids.iter().copied()),
        Statement::rows("look for tasks", TASKS).calls(tasks.iter().copied()),
        Statement::rows("look for events", EVENTS).calls(events.iter().copied()),
        Statement::rows("count signals", SIGNALS)
            .uids(room.keys().copied())
            .bigs(room.values().map(|most| most.saturating_add(whole(messages.len() as u64)))),
        Statement::rows("look for messages", MESSAGES)
            .uids(messages.iter().map(|(uid, _)| *uid))
            .texts(messages.into_iter().map(|(_, id)| id)),
        schedule::named(
            Statement::rows("look for schedules", SCHEDULES),
            schedules.into_iter().collect::<Vec<_>>().into_iter(),
        ),
        Statement::rows("look into the inbox", INBOX).bigs(inbox.into_iter()),
        Statement::rows("look for ids of the inbox", SEEN).texts(seen.into_iter()),
        schedule::named(
            Statement::rows("look for bulk jobs", BULK),
            bulk.into_iter().collect::<Vec<_>>().into_iter(),
        ),
        Statement::rows("look for dead letters", LETTERS).calls(letters.iter().copied()),
    ]
}

/// What the answers to [`questions`] say.
pub(super) fn known(answers: Vec<Vec<Row>>) -> Result<StoredBefore, Error> {
    let mut known = StoredBefore::default();
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
        let uid = uid(&row, 0)?;
        known.closed.insert(uid, is_closed(row.try_get(1)?));
        if !row.try_get::<_, bool>(2)? {
            known.replaced.insert(uid);
        }
    }
    for row in next() {
        known.tasks.insert(call(&row)?);
    }
    for row in next() {
        let call = call(&row)?;
        known.events.insert((call.run, call.seq));
    }
    for row in next() {
        known.signals.insert(uid(&row, 0)?, row.try_get(1)?);
    }
    for row in next() {
        let run = row.try_get::<_, Option<i64>>(3)?.and_then(|run| u32::try_from(run).ok());
        let waiting = Waiting { is_signal: row.try_get(2)?, run };
        known.messages.insert((uid(&row, 0)?, row.try_get(1)?), waiting);
    }
    for row in next() {
        known.schedules.insert(row.try_get(0)?, Revision::Read(row.try_get(1)?));
    }
    for row in next() {
        known.inbox.insert(row.try_get(0)?, inbox_row(&row)?);
    }
    for row in next() {
        known.seen.insert(row.try_get(0)?);
    }
    for row in next() {
        let revision = Revision::Read(row.try_get(1)?);
        known.bulk.insert(row.try_get(0)?, (revision, row.try_get(2)?));
    }
    for row in next() {
        known.letters.insert(call(&row)?, row.try_get(3)?);
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
    /// Instances that need room for a signal, and how many are as good as any number, beside
    /// those that the batch itself takes away.
    room: BTreeMap<Uid, i64>,
    messages: BTreeSet<(Uid, &'b str)>,
    schedules: BTreeSet<&'b str>,
    bulk: BTreeSet<&'b str>,
    letters: BTreeSet<CallKey>,
    inbox: BTreeSet<i64>,
    seen: BTreeSet<&'b str>,
}

impl<'b> Asked<'b> {
    fn about(&mut self, step: &'b Step) {
        let started = match &step.instance {
            Some(InstanceWrite::Insert { row, .. }) => Some(&**row),
            _ => None,
        };
        for row in started.into_iter().chain(step.child_starts.iter().map(|child| &child.row)) {
            self.ids.insert(&row.id);
            self.requests.extend(row.request_id.as_deref());
            self.uids.insert(row.uid);
        }
        match &step.instance {
            Some(InstanceWrite::Open { uid, signals_below }) => {
                self.uids.insert(*uid);
                if let Some(below) = signals_below {
                    let most = self.room.entry(*uid).or_default();
                    *most = whole(*below as u64).max(*most);
                }
            }
            Some(InstanceWrite::Status { uid, .. } | InstanceWrite::Pause { uid, .. }) => {
                self.uids.insert(*uid);
            }
            Some(InstanceWrite::Continue { run, .. }) => {
                self.uids.insert(run.uid);
            }
            Some(InstanceWrite::Insert { .. }) | None => {}
        }
        self.events.extend(step.events.iter().map(|(run, event)| run.call(event.seq)));
        self.events.extend(step.rewind.as_deref().map(first_copied));
        self.tasks.extend(step.tasks.iter().filter_map(|write| match write {
            TaskWrite::Insert(row) | TaskWrite::Update(row) => Some(row.call),
            TaskWrite::Delete(call) => Some(*call),
            TaskWrite::Amend(_) | TaskWrite::Discard(_) | TaskWrite::DeleteAll(_) => None,
        }));
        self.schedules.extend(step.schedule.as_deref().map(ScheduleWrite::id));
        self.bulk.extend(step.bulk.as_deref().map(BulkWrite::id));
        self.letters.extend(step.letters.iter().map(LetterWrite::call));
        if let Some(InboxWrite::Take { row, .. }) = step.inbox.as_deref() {
            self.inbox.insert(row.arrival);
            self.seen.extend(row.id.as_deref());
        }
    }

    /// Messages matter where signals are counted, which the whole batch must be asked for first.
    fn about_messages(&mut self, step: &'b Step) {
        for write in &step.messages {
            match write {
                MessageWrite::Insert(row) | MessageWrite::InsertIfOpen(row) => {
                    self.about_message(row.uid, &row.id);
                }
                MessageWrite::Delete { uid, id } => self.about_message(*uid, id),
                _ => {}
            }
        }
        for child in &step.child_starts {
            for row in [&child.start].into_iter().chain(&child.otherwise) {
                self.about_message(row.uid, &row.id);
            }
        }
    }

    fn about_message(&mut self, uid: Uid, id: &'b str) {
        if self.room.contains_key(&uid) {
            self.messages.insert((uid, id));
            self.uids.insert(uid);
        }
    }
}

/// The first place that a copy of a history is written to.
pub(super) fn first_copied(rewind: &Rewind) -> CallKey {
    RunKey { run: rewind.to, ..rewind.from }.call(Seq::FIRST.next())
}

/// A status that this version does not know counts as open: a newer one may have reason to keep it.
fn is_closed(status: &str) -> bool {
    resurgam_store::rows::Status::named(status).is_some_and(|status| status.is_closed())
}

fn inbox_row(row: &Row) -> Result<InboxRow, Error> {
    Ok(InboxRow {
        arrival: row.try_get(0)?,
        id: row.try_get(1)?,
        instance: row.try_get(2)?,
        kind: row.try_get(3)?,
        name: row.try_get(4)?,
        body: row.try_get::<_, Option<&str>>(5)?.map(Payload::from_text),
    })
}

fn uid(row: &Row, column: usize) -> Result<Uid, Error> {
    Ok(Uid(row.try_get::<_, Uuid>(column)?.as_u128()))
}

fn call(row: &Row) -> Result<CallKey, Error> {
    let run = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
    let run = RunKey { uid: uid(row, 0)?, run };
    Ok(run.call(Seq(row.try_get::<_, i64>(2)?.unsigned_abs())))
}
