//! What is stored of gates, and tasks by the gates that they are behind.
//!
//! Tasks of many gates are merged in the order of their times. The gates are found by hopping along
//! the index from one to the next, and each step reads the rows of the gate whose next task is due
//! first, as far as no other gate has an earlier one. So a row is read at most twice: once to see
//! when it is due, and once to answer with it. Rows behind a gate that is left out are not read,
//! but for the first, which the hop lands on.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::Timestamp;
use resurgam_store::decode::{self, Columns, GATE};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{DueTask, TaskRow};
use resurgam_store::{GateCount, GateRow, GateScope, GateWaiting, Hold, Result, StoredGates};
use rusqlite::params;

use super::Reading;
use super::work::Filter;
use crate::decode::Fetched;
use crate::encode::whole;

/// The first task behind the first gate that is not before this one.
const FIRST: &str = "SELECT gate, wake_at FROM task INDEXED BY task_gate
    WHERE claimed_by IS NULL AND bad IS NULL AND gate >= ?1 ORDER BY gate, wake_at LIMIT 1";

/// The first task behind the first gate after this one.
const NEXT: &str = "SELECT gate, wake_at FROM task INDEXED BY task_gate
    WHERE claimed_by IS NULL AND bad IS NULL AND gate > ?1 ORDER BY gate, wake_at LIMIT 1";

/// The first task behind a gate that is not due before this time.
const HEAD: &str = "SELECT wake_at FROM task INDEXED BY task_gate
    WHERE claimed_by IS NULL AND bad IS NULL AND gate = ?1 AND wake_at >= ?2
    ORDER BY wake_at LIMIT 1";

/// Tasks of some gates that wait and are due, the earliest first.
pub(super) fn due_tasks_of(
    reading: &mut Reading<'_>,
    filter: &Filter<'_>,
    scope: &GateScope,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    match scope {
        GateScope::All => Ok(Vec::new()),
        GateScope::Except(_) => merged(reading, filter, scope, before, limit),
        GateScope::Only(gates) => {
            let mut found = Vec::new();
            for (gate, most) in gates.iter() {
                let most = (*most).min(limit);
                found.extend(behind(reading, filter, gate, (EARLIEST, before), most)?);
            }
            found.sort_by(|one, other| {
                one.wake_at.cmp(&other.wake_at).then_with(|| one.gate.cmp(&other.gate))
            });
            found.truncate(limit);
            Ok(found)
        }
    }
}

const EARLIEST: Timestamp = Timestamp::from_millis(i64::MIN);

fn merged(
    reading: &mut Reading<'_>,
    filter: &Filter<'_>,
    scope: &GateScope,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueTask>> {
    let mut heads = heads(reading, scope, before)?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some((at, gate)) = heads.pop_first()
    {
        // As far as the others have nothing that is due earlier.
        let next = heads.first().map_or(before, |(next, _)| *next);
        let end = next.max(Timestamp::from_millis(at.as_millis().saturating_add(1))).min(before);
        found.extend(behind(reading, filter, &gate, (at, end), limit - found.len())?);
        if end < before {
            heads.extend(head(reading, &gate, end)?.filter(|at| *at < before).map(|at| (at, gate)));
        }
    }
    Ok(found)
}

/// When the first task behind each gate is due, of those gates that have one.
fn heads(
    reading: &Reading<'_>,
    scope: &GateScope,
    before: Timestamp,
) -> Result<BTreeSet<(Timestamp, String)>> {
    let mut heads = BTreeSet::new();
    let mut next = hop(reading, FIRST, "")?;
    while let Some((gate, at)) = next {
        next = hop(reading, NEXT, &gate)?;
        if at < before && scope.has(&gate) {
            heads.insert((at, gate));
        }
    }
    Ok(heads)
}

fn hop(reading: &Reading<'_>, sql: &str, from: &str) -> Result<Option<(String, Timestamp)>> {
    let read = |row: Fetched<'_>| Ok((row.string(0)?, row.timestamp(1)?));
    reading.one(sql, [from], read, || "look for gates that tasks wait behind".to_string())
}

fn head(reading: &Reading<'_>, gate: &str, from: Timestamp) -> Result<Option<Timestamp>> {
    let what = || format!("look for a task that waits behind gate {gate:?}");
    reading.one(HEAD, params![gate, from.as_millis()], |row| row.timestamp(0), what)
}

/// Tasks behind one gate that are due from one time until another.
fn behind(
    reading: &mut Reading<'_>,
    filter: &Filter<'_>,
    gate: &str,
    (from, before): (Timestamp, Timestamp),
    limit: usize,
) -> Result<Vec<DueTask>> {
    let sql = "SELECT uid, run, seq, wake_at, queue, name, priority, gate, rowid
               FROM task INDEXED BY task_gate
               WHERE claimed_by IS NULL AND bad IS NULL AND wake_at < ?1
                 AND (?2 IS NULL OR name IN (SELECT value FROM json_each(?2)))
                 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
                 AND (?4 IS NULL OR instr(progress, ?5) = 0
                      OR EXISTS (SELECT 1 FROM json_each(?4) WHERE instr(progress, value) > 0))
                 AND name NOT IN (SELECT value FROM json_each(?6))
                 AND queue NOT IN (SELECT value FROM json_each(?7))
                 AND gate = ?8 AND wake_at >= ?9
               ORDER BY wake_at, rowid";
    let Filter { names, queues, provides, lacking, paused: [activities, paused_queues] } = filter;
    let values = params![
        before.as_millis(),
        names,
        queues,
        provides,
        lacking,
        activities,
        paused_queues,
        gate,
        from.as_millis()
    ];
    reading.many(Table::Task, sql, values, limit, |row| decode::due_task(&row))
}

/// Every gate of which something is stored, and everything that is paused. Both are few.
pub(crate) fn gates(reading: &mut Reading<'_>) -> Result<StoredGates> {
    let what = || "read what is stored of gates".to_string();
    let sql =
        |than| format!("SELECT {GATE} FROM resurgam_gate WHERE key {than} ?1 ORDER BY key LIMIT 1");
    let (first, next) = (sql(">="), sql(">"));
    let mut gates: Vec<GateRow> = Vec::new();
    loop {
        let (sql, from) = gates.last().map_or((&first, ""), |row| (&next, &row.key));
        let Some(row) = reading.one(sql, [from], |row| decode::gate(&row), what)? else { break };
        gates.push(row);
    }
    Ok(StoredGates { gates, holds: holds(reading)? })
}

fn holds(reading: &Reading<'_>) -> Result<Vec<Hold>> {
    let sql = "SELECT kind, name, by, reason, since FROM resurgam_hold
               WHERE (kind, name) > (?1, ?2) ORDER BY kind, name LIMIT 1";
    let what = || "read what is paused".to_string();
    let mut holds: Vec<Hold> = Vec::new();
    loop {
        let after = holds.last().map_or(["", ""], |hold| [hold.kind.name(), &hold.name]);
        let Some(hold) = reading.one(sql, after, |row| decode::hold(&row), what)? else { break };
        holds.push(hold);
    }
    Ok(holds)
}

/// What nodes counted from this time on.
pub(crate) fn gate_counts(reading: &mut Reading<'_>, from: Timestamp) -> Result<Vec<GateCount>> {
    let sql = "SELECT gate, at, node, counts FROM resurgam_gate_count WHERE at >= ?1";
    let read = |row: Fetched<'_>| decode::gate_count(&row);
    let found = reading
        .every(sql, [from.as_millis()], read, || "read what was counted at gates".to_string())?;
    let sorted: BTreeMap<_, _> = found
        .into_iter()
        .map(|count| ((count.gate.clone(), count.at, count.node.clone()), count))
        .collect();
    Ok(sorted.into_values().collect())
}

/// The keys of gates behind this one that tasks wait behind.
pub(crate) fn waiting_gates(
    reading: &mut Reading<'_>,
    after: &str,
    limit: usize,
) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    while found.len() < limit {
        let last = found.last().map_or(after, String::as_str);
        let Some((gate, _)) = hop(reading, NEXT, last)? else { break };
        found.push(gate);
    }
    Ok(found)
}

/// How many tasks wait behind each of these gates.
pub(crate) fn count_waiting(
    reading: &mut Reading<'_>,
    gates: &[String],
    before: Timestamp,
    at_most: usize,
) -> Result<Vec<GateWaiting>> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM task INDEXED BY task_gate
                   WHERE claimed_by IS NULL AND bad IS NULL AND gate = ?1 AND wake_at < ?2 LIMIT ?3)";
    let before = before.min(TaskRow::NEVER).as_millis();
    let mut waiting = Vec::with_capacity(gates.len());
    for gate in gates {
        let what = || format!("count the tasks that wait behind gate {gate:?}");
        let values = params![gate, before, whole(at_most as u64)];
        let due = reading.one(sql, values, |row| row.number(0), what)?.unwrap_or_default();
        let first = head(reading, gate, EARLIEST)?.filter(|at| *at < TaskRow::NEVER);
        let due = usize::try_from(due).unwrap_or_default();
        waiting.push(GateWaiting { gate: gate.clone(), due, first });
    }
    Ok(waiting)
}
