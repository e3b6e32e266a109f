//! What operators asked for, and what came of it.

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::history::ActionLine;
use resurgam_core::{CallKey, Seq, Timestamp};

/// What somebody asks to be done to a call, or to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRequest {
    /// What makes a repeated request the same one, for its instance.
    pub id: String,
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// For what.
    pub action: Action,
}

/// What an operator did to a call or to a run, and what came of it.
///
/// ```
/// use resurgam_core::action::{Action, ActionAnswer};
/// use resurgam_core::history::ActionLine;
/// use resurgam_core::{RunKey, Seq, Timestamp, Uid};
/// use resurgam_store::rows::{ActionRequest, ActionRow};
///
/// let row = ActionRow {
///     call: RunKey::first(Uid(7)).call(Seq(6)),
///     at: Timestamp::from_millis(2_000),
///     request: ActionRequest {
///         id: "ticket-17".to_string(),
///         by: "ana".to_string(),
///         reason: Some("bank is back".to_string()),
///         action: Action::Retry { reset: false, due: None },
///     },
///     answer: ActionAnswer::done("retried charge#6 now"),
/// };
/// assert_eq!(ActionLine::from(&row).by, "ana");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRow {
    /// The call; of an action on a run, the place [`Seq::RUN`] in it.
    pub call: CallKey,
    /// When it was carried out, or refused.
    pub at: Timestamp,
    /// What was asked for.
    pub request: ActionRequest,
    /// What came of it.
    pub answer: ActionAnswer,
}

impl ActionRow {
    /// True when it was done to the run, and not to a call.
    pub fn is_on_run(&self) -> bool {
        self.call.seq == Seq::RUN
    }
}

/// What a printed history says about an action.
impl From<&ActionRow> for ActionLine {
    fn from(row: &ActionRow) -> Self {
        ActionLine {
            at: row.at,
            by: row.request.by.clone(),
            answer: row.answer.text.clone(),
            reason: row.request.reason.clone(),
        }
    }
}
