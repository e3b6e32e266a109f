//! What is done once for the whole store: schedules fire, rows of the inbox are routed, what is
//! closed and old is deleted.

pub(crate) mod inbox;
pub(crate) mod retention;
pub(crate) mod schedule;
