//! What is asked of a node: start, signal, cancel, wait, stop.

pub(crate) mod request;
pub(crate) mod stop;
