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

#[cfg(test)]
mod tests {
    use resurgam_store::Runnable;
    use resurgam_watchdog::test;
    use rusqlite::{Connection, StatementStatus};

    use super::super::due_tasks;
    use super::*;
    use crate::schema;

    const LATER: Timestamp = Timestamp::from_millis(1_000_000);

    /// A database with so many due tasks behind each of some gates.
    fn database(gates: &[(&str, i64)]) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::copy_template(&mut connection).unwrap();
        let sql = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
             INSERT INTO task (uid, run, seq, name, queue, gate, priority, policy, attempt, wake_at,
                               progress)
             SELECT ?3, 1, n, 'charge', 'default', ?1, 0,
                    'p', 0, n, '{\"v\":1}' FROM n";
        for (number, (gate, count)) in gates.iter().enumerate() {
            let uid = (number as u128).to_be_bytes();
            connection.execute(sql, params![gate, count, uid]).unwrap();
        }
        connection
    }

    /// How many tasks are due, and in how many steps of SQLite's machine they were found.
    fn scan(connection: &Connection, gates: GateScope, limit: usize) -> (usize, i64) {
        let runnable = Runnable { gates, ..Runnable::default() };
        let mut steps = 0;
        let read = |reading: &mut Reading<'_>| {
            let found = due_tasks(reading, &runnable, LATER, limit)?;
            steps = reading.steps();
            Ok(found)
        };
        let (found, set_aside) = Reading::run(connection, read);
        assert!(set_aside.is_empty());
        (found.unwrap().len(), steps)
    }

    fn except(gate: &str) -> GateScope {
        GateScope::Except([gate.to_string()].into())
    }

    #[test]
    fn however_many_wait_behind_a_shut_gate_the_others_are_found_in_as_many_steps() {
        let others = [("charge", 200), ("refund", 200)];
        let few = database(&[others[0], others[1], ("stripe", 1)]);
        let many = database(&[others[0], others[1], ("stripe", 50_000)]);
        let found = scan(&few, except("stripe"), 1_000);
        assert_eq!(found.0, 400);
        assert_eq!(scan(&many, except("stripe"), 1_000), found);
    }

    #[test]
    fn a_scan_of_gates_whose_tasks_take_turns_costs_two_short_searches_for_each_task() {
        // The worst there is: each row is looked for and then read, by two statements of about
        // forty steps. What a scan begins with is not for its rows.
        let gated = database(&[("charge", 200), ("refund", 200), ("stripe", 10_000)]);
        let steps = |limit: usize| {
            let (found, steps) = scan(&gated, except("stripe"), limit);
            assert_eq!(found, limit);
            steps
        };
        let per_task = (steps(350) - steps(50)) / 300;
        assert!(per_task <= 100, "{per_task} steps");
    }

    #[test]
    fn what_is_decided_about_a_gate_writes_no_task() {
        let connection = database(&[("stripe", 1_000)]);
        let mut statements = crate::commit::Statements::prepare(&connection, 10).unwrap();
        let before = connection.total_changes();
        for decided in ["1 shut", "1 probing", "1 flowing"] {
            let key = "stripe".to_string();
            let decide = resurgam_store::GateWrite::Decide { key, decided: decided.to_string() };
            let step = resurgam_store::Step { gates: vec![decide], ..Default::default() };
            statements.write(&[step], None).unwrap();
        }
        assert_eq!(connection.total_changes() - before, 3);
    }

    #[test]
    fn a_task_that_is_inserted_claimed_enters_no_index_of_waiting_tasks() {
        let connection = database(&[]);
        let sql = "INSERT INTO task (uid, run, seq, name, queue, gate, priority, policy, attempt,
                                     wake_at, progress, claimed_by)
                   SELECT zeroblob(16), 1, value, 'charge', 'default', 'stripe', 0, 'p', 1, 0, '{}',
                          'node-a' FROM json_each('[1,2,3]')";
        connection.execute(sql, []).unwrap();
        for index in ["task_gate", "task_due"] {
            let sql = format!(
                "SELECT count(*) FROM task INDEXED BY {index}
                 WHERE claimed_by IS NULL AND bad IS NULL AND gate = 'stripe' AND wake_at < 1"
            );
            let count: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(count, 0, "{index}");
        }
        assert_eq!(scan(&connection, except("other"), 10).0, 0);
        // The other way to see that all of it is there.
        let sql = "SELECT count(*) FROM task WHERE claimed_by > ''";
        let mut statement = connection.prepare(sql).unwrap();
        assert_eq!(statement.query_row([], |row| row.get::<_, i64>(0)).unwrap(), 3);
        assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
    }
}
