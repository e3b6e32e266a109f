//! What is measured, one file each.

pub(crate) mod chain;
pub(crate) mod growth;
pub(crate) mod latency;
