//! Asking for something to be done to an activity call or to a run: what a handle can be asked.
//!
//! A request is stored first, for the node that holds the shard of the call: this one or another.
//! Whoever asked waits for the answer, which is stored with what the action changed; so the answer
//! is the same however often it is asked for with the same id. Where nobody works there is none
//! yet, and nobody waits.

use std::fmt;

use resurgam_core::action::ActionAnswer;
use resurgam_core::{CallKey, Seq};
use resurgam_store::rows::{ActionRequest, MessageRow};

use crate::error::{Error, Result};
use crate::handle::{Handle, given};
use crate::node::Request;

/// What came of an action that was asked for.
///
/// ```
/// use resurgam_core::action::ActionAnswer;
/// use resurgam_worker::Acted;
///
/// let done = Acted::Answered(ActionAnswer::done("retried charge#6 now"));
/// assert!(done.changed());
/// assert_eq!(done.to_string(), "retried charge#6 now");
/// assert_eq!(Acted::Stored.to_string(), "stored; no worker is running yet");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acted {
    /// It was carried out, or refused.
    Answered(ActionAnswer),
    /// Nobody works on the store. It is carried out, or refused, by who does next.
    Stored,
}

impl Acted {
    /// True when it changed something.
    pub fn changed(&self) -> bool {
        matches!(self, Acted::Answered(answer) if answer.changed)
    }
}

impl fmt::Display for Acted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Acted::Answered(answer) => answer.fmt(f),
            Acted::Stored => f.write_str("stored; no worker is running yet"),
        }
    }
}

impl Handle {
    /// Has something done to a call, or to a run where the place of the call is [`Seq::RUN`], and
    /// answers with what came of it. `what` says what is attempted, for people.
    pub async fn act(&self, what: &str, call: CallKey, request: ActionRequest) -> Result<Acted> {
        given(what, "the request id", &request.id)?;
        let (uid, id) = (call.run.uid, request.id.clone());
        let mut changed = self.watch(uid).await?;
        let busy = self.busy();
        let trouble = |error| Error::store(what, error);
        if let Some(row) = self.store().action(uid, &id).await.map_err(trouble)? {
            return Ok(Acted::Answered(row.answer));
        }
        let request = Box::new(request);
        let asked = self.ask(what, |reply| Request::Act { call, request, reply });
        drop(busy);
        match asked.await {
            Err(error) if error.is_closed() => return Ok(too_late(call)),
            asked => asked?,
        }
        loop {
            changed.borrow_and_update();
            if let Some(acted) = self.answer_to(what, call, &id).await? {
                return Ok(acted);
            }
            changed.changed().await.map_err(|_| Error::stopped(what))?;
        }
    }

    /// What came of an action; `None` while somebody works who has not looked at it yet.
    async fn answer_to(&self, what: &str, call: CallKey, id: &str) -> Result<Option<Acted>> {
        let _busy = self.busy();
        let (uid, trouble) = (call.run.uid, |error| Error::store(what, error));
        let store = self.store();
        // The message goes in the commit that brings the answer: without one, the answer is there.
        let messages = store.messages(uid).await.map_err(trouble)?;
        let waits = messages.iter().any(|row| row.id == MessageRow::action_id(id));
        if let Some(row) = store.action(uid, id).await.map_err(trouble)? {
            return Ok(Some(Acted::Answered(row.answer)));
        }
        if !waits {
            return Ok(Some(too_late(call)));
        }
        let owner = store.owner().await.map_err(trouble)?;
        Ok(owner.is_none().then_some(Acted::Stored))
    }
}

/// The run ended before anybody could do something to it, or to its call.
fn too_late(call: CallKey) -> Acted {
    let why = match call.seq {
        Seq::RUN => "the instance ended before anybody could act".to_string(),
        seq => format!("call #{seq} ended with its run before anybody could act"),
    };
    Acted::Answered(ActionAnswer::refused(why))
}
