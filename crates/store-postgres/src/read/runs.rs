//! Runs, whole.

use std::collections::HashMap;

use resurgam_core::{Event, RunKey, Uid};
use resurgam_store::decode::{self, EVENT, MESSAGE, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{MessageRow, RunRecord, TaskRow};
use resurgam_store::{Error, EventPage, Gaps, Result};
use tokio_postgres::Row;

use super::set_aside;
use crate::batched_reads::Answers;
use crate::decode::{Columns, Fetched, INSTANCE, Unreadable};
use crate::pool::Pool;
use crate::quarantine::{Quarantined, readable};
use crate::statement::Statement;

/// The current runs of instances, whole.
pub(crate) async fn load_runs(pool: &Pool, uids: &[Uid]) -> Result<Answers<Uid, RunRecord>> {
    let answers = pool.ask_all(&run_questions(uids)).await?;
    let [instances, events, messages, tasks] = answers.as_slice() else {
        return Err(Error::transient("load runs: no answer"));
    };
    let mut bad = Vec::new();
    let mut parts = Parts::of(events, messages, tasks, &mut bad);
    let mut found = Answers::with_capacity(instances.len());
    for row in instances {
        let Ok(uid) = Fetched(row).uid(0) else { continue };
        found.insert(uid, parts.complete(uid, row));
    }
    set_aside(pool, bad).await;
    Ok(found)
}

/// Each run is looked up by its key, whatever the server believes about its tables.
fn run_questions(uids: &[Uid]) -> [Statement<'static>; 4] {
    const UIDS: &str = "unnest($1::smallint[], $2::uuid[]) AS u(of_shard, of_uid)";
    const UID: &str = "shard = of_shard AND uid = of_uid";
    // Without the offset the server might prefer to read a table whole.
    let of = |columns: &str, rows: String, order: &str| {
        let sql = format!(
            "SELECT {columns} FROM {UIDS} CROSS JOIN LATERAL ({rows} OFFSET 0) AS instance {order}"
        );
        Statement::rows("load runs", sql).uids(uids.iter().copied())
    };
    let run = format!("run = (SELECT run FROM @instance WHERE {UID} LIMIT 1)");
    [
        of(INSTANCE, format!("SELECT * FROM @instance WHERE {UID}"), ""),
        of(
            &format!("{EVENT}, uid"),
            format!("SELECT * FROM @event WHERE {UID} AND {run}"),
            "ORDER BY uid, seq",
        ),
        of(MESSAGE, format!("SELECT * FROM @message WHERE {UID}"), "ORDER BY arrival, id"),
        of(TASK, format!("SELECT * FROM @task WHERE {UID} AND {run}"), "ORDER BY uid, seq"),
    ]
}

/// What belongs to runs, by their instances.
struct Parts<'a> {
    events: HashMap<Uid, Vec<&'a Row>>,
    messages: HashMap<Uid, Vec<MessageRow>>,
    tasks: HashMap<Uid, Vec<TaskRow>>,
    /// Why a task of a run cannot be read.
    lost_tasks: HashMap<Uid, String>,
}

impl<'a> Parts<'a> {
    fn of(events: &'a [Row], messages: &[Row], tasks: &[Row], bad: &mut Vec<Quarantined>) -> Self {
        let mut parts = Parts {
            events: HashMap::new(),
            messages: HashMap::new(),
            tasks: HashMap::new(),
            lost_tasks: HashMap::new(),
        };
        for row in events {
            let Ok(uid) = Fetched(row).uid(6) else { continue };
            parts.events.entry(uid).or_default().push(row);
        }
        for message in readable(Table::Message, messages, bad, |row| decode::message(&row)) {
            parts.messages.entry(message.uid).or_default().push(message);
        }
        for row in tasks {
            match decode::task(&Fetched(row)) {
                Ok(task) => parts.tasks.entry(task.call.run.uid).or_default().push(task),
                Err(Unreadable(why)) => {
                    let uid = Fetched(row).uid(0).ok();
                    parts.lost_tasks.extend(uid.map(|uid| (uid, why.clone())));
                    bad.push(Quarantined::new(Table::Task, row, why));
                }
            }
        }
        parts
    }

    fn complete(&mut self, uid: Uid, row: &Row) -> Result<RunRecord> {
        let unreadable = |why| Error::data(format!("read instance {uid}")).because(why);
        let instance = decode::instance(&Fetched(row)).map_err(unreadable)?;
        let named = format!("instance {:?}, run {}", instance.id, instance.run);
        let events = self.events.remove(&uid).unwrap_or_default();
        let events = in_order(events.into_iter(), &named, Gaps::Refused)?;
        if let Some(why) = self.lost_tasks.remove(&uid) {
            return Err(Error::data(format!(
                "read the tasks of {named}: {why}; the row is marked in table task"
            )));
        }
        let messages = self.messages.remove(&uid).unwrap_or_default();
        let tasks = self.tasks.remove(&uid).unwrap_or_default();
        Ok(RunRecord { instance, events, messages, tasks })
    }
}

/// The events of a run as far as they are there.
pub(crate) async fn history(pool: &Pool, run: RunKey) -> Result<Vec<Event>> {
    let sql = format!(
        "SELECT {EVENT}, (SELECT id FROM @instance WHERE shard = $1 AND uid = $2)
         FROM @event WHERE shard = $1 AND uid = $2 AND run = $3 ORDER BY seq"
    );
    let events = Statement::rows("read a history", sql).uid(run.uid).big(i64::from(run.run));
    let rows = pool.ask(events).await?;
    let id = rows.first().and_then(|row| row.try_get::<_, Option<String>>(6).ok().flatten());
    let id = id.unwrap_or_else(|| run.uid.to_string());
    in_order(rows.iter(), &format!("instance {id:?}, run {}", run.run), Gaps::Shown)
}

/// A part of the events of a run as far as they are there.
pub(crate) async fn event_page(
    pool: &Pool,
    run: RunKey,
    page: EventPage,
    limit: usize,
) -> Result<Vec<Event>> {
    let id = "(SELECT id FROM @instance WHERE shard = $1 AND uid = $2)";
    let of = "FROM @event WHERE shard = $1 AND uid = $2 AND run = $3";
    let (sql, place) = match page {
        EventPage::After(place) => {
            (format!("SELECT {EVENT}, {id} {of} AND seq > $4 ORDER BY seq LIMIT $5"), Some(place))
        }
        EventPage::Before(place) => {
            (format!("SELECT {EVENT}, {id} {of} AND seq < $4 ORDER BY seq DESC LIMIT $5"), place)
        }
    };
    let big = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let events = Statement::rows("read a page of a history", sql).uid(run.uid);
    let events = events.big(i64::from(run.run)).big(place.map_or(i64::MAX, |place| big(place.0)));
    let mut rows = pool.ask(events.big(big(limit as u64))).await?;
    if matches!(page, EventPage::Before(_)) {
        rows.reverse();
    }
    let id = rows.first().and_then(|row| row.try_get::<_, Option<String>>(6).ok().flatten());
    let id = id.unwrap_or_else(|| run.uid.to_string());
    in_order(rows.iter(), &format!("instance {id:?}, run {}", run.run), Gaps::Shown)
}

/// Events from their rows. One that cannot be read blocks its run and is named.
fn in_order<'a>(
    rows: impl ExactSizeIterator<Item = &'a Row>,
    run: &str,
    gaps: Gaps,
) -> Result<Vec<Event>> {
    let what = || format!("read the history of {run}");
    let mut events: Vec<Event> = Vec::with_capacity(rows.len());
    for row in rows {
        let row = Fetched(row);
        let event = decode::event(&row).map_err(|why| decode::bad_event(&what(), &row, why))?;
        gaps.add(&mut events, event, what)?;
    }
    Ok(events)
}
