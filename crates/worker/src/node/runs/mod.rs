//! Runs: those in memory, which take news turn by turn, and those that are read when something
//! happens to them.

pub(crate) mod continuation;
pub(crate) mod draft;
pub(crate) mod hot_run;
pub(crate) mod instance_info;
pub(crate) mod load_run;
pub(crate) mod pending_messages;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod unloaded;
pub(crate) mod unread_signals;
