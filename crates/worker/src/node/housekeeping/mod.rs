//! What nobody asks for: schedules fire, rows of the inbox are routed, what is closed and old is
//! deleted, calls follow the policies that operators set for their activities, bulk jobs go on.

pub(crate) mod bulk;
pub(crate) mod inbox;
pub(crate) mod policy_overrides;
pub(crate) mod retention;
pub(crate) mod schedule;
pub(crate) mod sweeper;
