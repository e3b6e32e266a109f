//! Writing a batch of steps: one transaction in one round trip.
//!
//! `BEGIN`, the number of the batch, the fence, the statements and `COMMIT` are sent in one go and
//! answered in one go; where a session is ours alone they are even one statement (`combine`).
//! Everything that must hold is checked inside the database: where a count is short, a division by
//! zero takes the transaction down, and the `COMMIT` that follows is a rollback. So the way of
//! nearly every batch costs **one** round trip, however long it is.
//!
//! The plan behind that is hopeful: every id is free, every instance is open, every task is there.
//! When the database disagrees nothing was written, and the batch goes the careful way, which costs
//! **two** round trips more: look at everything the batch depends on, let `slow_path` decide step
//! by step in memory what is a duplicate, what is closed and which row is to blame, then write what
//! is left with the same checks. They fail only when somebody else was faster meanwhile; then it is
//! done again.
//!
//! - `waves`, `wave`, `plan`: pure; group the changes of a batch into statements without losing its
//!   order.
//! - one file for each table: the statements.
//! - `slow_path`, `look`: the careful way. `lane`: the numbered transaction. `in_doubt`: lost
//!   answers.
//! - `transact`: attempts that write to the user's own tables. `shared`: claims of tasks that the
//!   owner of a shard leaves to others.

mod action;
mod attempt;
mod bulk;
mod event;
mod gate;
mod in_doubt;
mod inbox;
mod instance;
mod kv;
pub(crate) mod lane;
mod letter;
mod look;
mod message;
mod plan;
mod policy;
mod schedule;
pub(crate) mod shared;
mod slow_path;
mod task;
mod transact;
mod wave;
mod waves;

use plan::Plan;

use crate::statement::Statement;

/// The server's clock in microseconds, the same for all statements of a transaction.
const NOW: &str = "(extract(epoch FROM now()) * 1000000)::bigint";

/// The statements of a plan in the order in which they must be sent.
fn statements<'p>(
    plan: &'p Plan<'_>,
    ledger_rows: u32,
    known_policy: impl Fn(&str) -> bool,
) -> Vec<Statement<'p>> {
    let mut all = Vec::new();
    instance::room(plan, &mut all);
    event::statements(plan, &mut all);
    for (number, wave) in plan.waves().iter().enumerate() {
        let first = all.len();
        instance::statements(wave, &mut all);
        task::statements(wave, &mut all);
        message::statements(wave, &mut all);
        schedule::statements(wave, &mut all);
        inbox::statements(wave, &mut all);
        bulk::statements(wave, &mut all);
        letter::statements(wave, &mut all);
        gate::statements(wave, &mut all);
        if let Some(statement) = all.get_mut(first) {
            statement.follows |= number > 0;
        }
    }
    attempt::statements(plan, ledger_rows, &mut all);
    action::statements(plan, &mut all);
    kv::statements(plan, &mut all);
    policy::statements(plan, known_policy, &mut all);
    policy::overrides(plan, &mut all);
    all
}
