//! What nobody asks for: schedules fire, rows of the inbox are routed, what is closed and old is
//! deleted.

pub(crate) mod inbox;
pub(crate) mod retention;
pub(crate) mod schedule;
