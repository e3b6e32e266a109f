//! What was asked before it was known whether this node works ([`DeferredRequests`]).

use crate::node::input::Request;
use crate::node::reply::Reply;

/// What was asked before it was known whether this node works.
#[derive(Debug, Default)]
pub(crate) struct DeferredRequests {
    requests: Vec<Request>,
    settled: Vec<Reply<()>>,
}

impl DeferredRequests {
    /// A request waits.
    pub(crate) fn add(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Somebody waits until it is known whether this node works.
    pub(crate) fn add_settled(&mut self, reply: Reply<()>) {
        self.settled.push(reply);
    }

    /// The requests, in the order in which they came.
    pub(crate) fn take(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Those who wait until it is known whether this node works.
    pub(crate) fn take_settled(&mut self) -> Vec<Reply<()>> {
        std::mem::take(&mut self.settled)
    }
}
