//! Attempts of this node for other holders, and of others for this one. They report by message.

pub(crate) mod remote_attempts;
pub(crate) mod reports;
pub(crate) mod unserved_queues;
