//! What operators ask for, on its way from the message that asks for it to the step that does it.

use resurgam_core::{CallKey, RunKey};
use resurgam_store::rows::{ActionRequest, MessageRow};

/// An action that somebody asks for.
#[derive(Clone, Debug)]
pub(crate) struct PendingAction {
    /// The call that it is about; of an action on a run, the place `Seq::RUN` in it.
    pub(crate) call: CallKey,
    /// The message that asks for it, which goes with it.
    pub(crate) message: String,
    pub(crate) request: ActionRequest,
}

impl PendingAction {
    /// The run that it is about, or whose call it is about.
    pub(crate) fn run(&self) -> RunKey {
        self.call.run
    }

    /// This request, recorded under another run of the instance.
    pub(crate) fn on_run(self, run: RunKey) -> Self {
        PendingAction { call: run.call(self.call.seq), ..self }
    }

    /// True when both are the same request.
    pub(crate) fn is_same(&self, other: &PendingAction) -> bool {
        self.call.run.uid == other.call.run.uid && self.message == other.message
    }
}

/// A page of actions that a bulk job asks for; none when its commit carries all of it out, or when
/// the job is over.
#[derive(Debug)]
pub(crate) struct JobPage {
    pub(crate) job: String,
    pub(crate) messages: Vec<MessageRow>,
}
