//! What is measured, one file each.

pub(crate) mod bulk;
pub(crate) mod chain;
pub(crate) mod fanout;
pub(crate) mod gated;
pub(crate) mod growth;
pub(crate) mod idle;
pub(crate) mod kills;
pub(crate) mod latency;
pub(crate) mod limit;
pub(crate) mod outage;
pub(crate) mod replay;
pub(crate) mod retries;
