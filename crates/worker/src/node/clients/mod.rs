//! What is asked of a node: start, signal, cancel, wait, stop.

pub(crate) mod deferred;
pub(crate) mod request;
pub(crate) mod stop;
pub(crate) mod stopping;
