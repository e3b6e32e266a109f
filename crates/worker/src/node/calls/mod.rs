//! Activity calls: when they are due, who gets a slot, claims, deadlines, what follows when an
//! attempt ends, and what a process that died left behind.

pub(crate) mod attempt_result;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod deadline;
pub(crate) mod due;
pub(crate) mod failure_log;
pub(crate) mod lingering;
pub(crate) mod load_tasks;
pub(crate) mod slots;
pub(crate) mod timeouts;
pub(crate) mod transactions;
pub(crate) mod waiting;
