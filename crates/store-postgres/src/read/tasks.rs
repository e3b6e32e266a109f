//! Tasks with everything an attempt needs.

use std::collections::{BTreeSet, HashMap};

use resurgam_core::{CallKey, Uid};
use resurgam_store::decode::{self, ATTEMPT, TASK};
use resurgam_store::quarantine::Table;
use resurgam_store::rows::{AttemptRow, TaskRecord};
use resurgam_store::{Error, Result};
use tokio_postgres::Row;

use super::set_aside;
use crate::batched_reads::Answers;
use crate::decode::{Columns, Fetched, Unreadable, get};
use crate::pool::Pool;
use crate::quarantine::{Quarantined, readable};
use crate::statement::Statement;

/// How many rows of a call's ledger an attempt is given, from each end.
const LEDGER_ENDS: i64 = 10;

/// Tasks with their inputs, their policies, their instances' ids and the ends of their ledgers. One
/// that cannot be read is set aside.
pub(crate) async fn load_tasks(
    pool: &Pool,
    calls: &[CallKey],
) -> Result<Answers<CallKey, TaskRecord>> {
    if calls.is_empty() {
        return Ok(Answers::new());
    }
    let answers = pool.ask_all(&task_questions(calls)).await?;
    let [tasks, inputs, policies, instances, ledger] = answers.as_slice() else {
        return Err(Error::transient("load tasks: no answer"));
    };
    let mut bad = Vec::new();
    let mut about = About::of(inputs, policies, instances);
    for row in readable(Table::Attempt, ledger, &mut bad, |row| decode::attempt(&row)) {
        about.ledgers.entry(row.call).or_default().push(row);
    }
    let mut found = Answers::with_capacity(tasks.len());
    for row in tasks {
        let Ok(call) = decode::call(&Fetched(row)) else { continue };
        let record = about.complete(call, row);
        if let Err(error) = &record {
            // No attempt can be made of it, so it must not be found due again and again.
            bad.push(Quarantined::new(Table::Task, row, error.to_string()));
        }
        found.insert(call, record);
    }
    set_aside(pool, bad).await;
    Ok(found)
}

/// Each call is looked up by its key, whatever the server believes about its tables.
fn task_questions(calls: &[CallKey]) -> [Statement<'static>; 5] {
    const CALLS: &str = "unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[])
        AS u(of_shard, of_uid, of_run, of_seq)";
    const CALL: &str = "shard = of_shard AND uid = of_uid AND run = of_run AND seq = of_seq";
    let of = |columns: &str, rows: String| {
        let sql = format!("SELECT {columns} FROM {CALLS} CROSS JOIN LATERAL ({rows}) AS found");
        Statement::rows("load tasks", sql).calls(calls.iter().copied())
    };
    let uids: BTreeSet<Uid> = calls.iter().map(|call| call.run.uid).collect();
    let instances = "SELECT uid, id FROM unnest($1::smallint[], $2::uuid[]) AS u(of_shard, of_uid)
        CROSS JOIN LATERAL
            (SELECT uid, id FROM @instance WHERE shard = of_shard AND uid = of_uid LIMIT 1) AS i";
    [
        of(TASK, format!("SELECT * FROM @task WHERE {CALL} LIMIT 1")),
        of("uid, run, seq, encoding, body", format!("SELECT * FROM @event WHERE {CALL} LIMIT 1")),
        of(
            "DISTINCT hash, text",
            format!(
                "SELECT hash, text FROM @policy
                 WHERE hash = (SELECT policy FROM @task WHERE {CALL} LIMIT 1)"
            ),
        ),
        Statement::rows("load tasks", instances).uids(uids.iter().copied()),
        of(
            &format!("{ATTEMPT}, place"),
            format!(
                "(SELECT * FROM @attempt WHERE {CALL} ORDER BY place LIMIT {LEDGER_ENDS})
                 UNION
                 (SELECT * FROM @attempt WHERE {CALL} ORDER BY place DESC LIMIT {LEDGER_ENDS})
                 ORDER BY place"
            ),
        ),
    ]
}

/// What is to be known of tasks beside their rows.
struct About<'a> {
    inputs: HashMap<CallKey, &'a Row>,
    policies: HashMap<&'a str, &'a Row>,
    instances: HashMap<Uid, &'a Row>,
    ledgers: HashMap<CallKey, Vec<AttemptRow>>,
}

impl<'a> About<'a> {
    fn of(inputs: &'a [Row], policies: &'a [Row], instances: &'a [Row]) -> Self {
        let call = |row: &'a Row| Some((decode::call(&Fetched(row)).ok()?, row));
        let policy = |row: &'a Row| Some((get(row, 0).ok()?, row));
        let instance = |row: &'a Row| Some((Fetched(row).uid(0).ok()?, row));
        About {
            inputs: inputs.iter().filter_map(call).collect(),
            policies: policies.iter().filter_map(policy).collect(),
            instances: instances.iter().filter_map(instance).collect(),
            ledgers: HashMap::new(),
        }
    }

    fn complete(&mut self, call: CallKey, row: &Row) -> Result<TaskRecord> {
        let unreadable = |what: String| move |why: Unreadable| Error::data(what).because(why);
        let what = format!("read the task of call {call}");
        let task = decode::task(&Fetched(row)).map_err(unreadable(what))?;
        let Some(instance) = self.instances.get(&call.run.uid) else {
            let why = "there is no such instance";
            return Err(Error::data(format!("load the task of call {call}: {why}")));
        };
        let instance = get(instance, 1).map_err(unreadable("read the id of an instance".into()))?;
        let what = format!("read the input of call {call}");
        let input = self.inputs.get(&call).map(|row| Fetched(row).payload(3)).transpose();
        let input = input.map_err(unreadable(what.clone()))?.flatten();
        let input = input.ok_or_else(|| Error::data(format!("{what}: its event is missing")))?;
        let policy =
            self.policies.get(task.policy.as_str()).map(|row| decode::policy(&Fetched(row)));
        let what = format!("read policy {}", task.policy);
        let policy = policy.transpose().map_err(unreadable(what))?;
        let ledger = self.ledgers.remove(&call).unwrap_or_default();
        Ok(TaskRecord { task, input, policy, instance, ledger })
    }
}
