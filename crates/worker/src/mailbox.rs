//! How the engine's loop hears of things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_core::Uid;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Busy, Clock};
use crate::driver::UserTransaction;
use crate::node::{Input, Request, Stamp, Waiter};

/// Something for the loop to take notice of. What is stored for a run is a *message*.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Something for the node.
    Input(Input),
    /// An attempt asks for a transaction.
    Transact(UserTransaction),
    /// A request, and who waits for its answer.
    Request(Request, Waiter),
    /// Answer with what changes whenever something of an instance is durable.
    Watch { uid: Uid, reply: oneshot::Sender<watch::Receiver<()>> },
}

impl From<Input> for Mail {
    fn from(input: Input) -> Self {
        Mail::Input(input)
    }
}

impl From<Request> for Mail {
    fn from(request: Request) -> Self {
        Mail::Input(Input::Request(request))
    }
}

/// What was sent, and the proof that work is under way until it is taken.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) mail: Mail,
    pub(crate) busy: Busy,
    /// When it was read, for what is worth nothing in another tenure.
    pub(crate) stamp: Option<Stamp>,
}

/// Where mail for the loop goes.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: mpsc::UnboundedSender<Envelope>,
    clock: Arc<dyn Clock>,
    stamp: Option<Stamp>,
    /// How many requests were sent.
    requests: Arc<AtomicU64>,
}

impl Mailbox {
    /// A mailbox, and where its mail comes out.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> (Self, mpsc::UnboundedReceiver<Envelope>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        (Mailbox { sender, clock, stamp: None, requests: Arc::default() }, inbox)
    }

    /// Hands over mail. When the loop is gone, whoever waits for an answer hears of it
    /// because the mail is dropped.
    pub(crate) fn send(&self, mail: impl Into<Mail>) {
        let busy = self.clock.busy(&"a message to the engine");
        let (stamp, mail) = (self.stamp, mail.into());
        let _loop_is_gone = self.sender.send(Envelope { mail, busy, stamp });
    }

    /// A number that no other request has.
    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// A mailbox for answers that are worth nothing in another tenure.
    pub(crate) fn stamped(&self, stamp: Option<Stamp>) -> Self {
        Mailbox { stamp, ..self.clone() }
    }

    /// True when the loop is gone: nobody wants to know anything any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
