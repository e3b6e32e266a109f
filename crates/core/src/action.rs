//! What an operator does to an activity call or to a run, and what comes of it.
//!
//! An action is data: it is stored as a message until the holder of the shard carries it out, and
//! kept with its answer for as long as the instance is there. Whether it can be carried out is for
//! the engine to say; here is what can be asked for, and the stored form of it.
//!
//! | action       | what it asks for                                                          |
//! |--------------|---------------------------------------------------------------------------|
//! | `retry`      | the next attempt is due now                                               |
//! | `pause`      | no attempt begins until somebody resumes the call                         |
//! | `resume`     | a paused call goes on where it stood                                      |
//! | `complete`   | the call ends with a value, and the workflow gets it                      |
//! | `fail`       | the call ends with a failure, and the workflow gets it                    |
//! | `set_policy` | another policy decides about the call from now on                         |
//!
//! | on a run           | what it asks for                                                    |
//! |--------------------|---------------------------------------------------------------------|
//! | `pause_run`        | the run takes no turn until somebody resumes it                     |
//! | `resume_run`       | a paused run goes on                                                |
//! | `restart`          | a closed instance begins again                                      |
//! | `reset`            | the next run goes on from a place in the history of this one        |
//! | `redrive`          | the next run goes on from before a call that was given up           |
//!
//! | on a dead letter   | what it asks for                                                    |
//! |--------------------|---------------------------------------------------------------------|
//! | `redrive_as_new`   | the activity runs once more by itself                               |
//! | `discard`          | nothing: it is settled                                              |
//!
//! `pause_with_run` and `resume_with_run` are what a pause of a run asks for of its open calls.

use serde::{Deserialize, Serialize};

use crate::{Failure, Payload, Seq, Timestamp};

/// What an operator does to an activity call, or to a run.
///
/// ```
/// use resurgam_core::Payload;
/// use resurgam_core::action::Action;
///
/// let skip = Action::Complete { value: Payload::from_text("[1]"), unchecked: false };
/// let (head, body) = skip.to_stored();
/// assert_eq!((skip.name(), head.as_str()), ("complete", r#"{"v":1,"action":"complete"}"#));
/// assert_eq!(Action::from_stored(&head, body), Ok(skip));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The next attempt is due now, or soon.
    Retry {
        /// Failures are counted from 0 again, and the time of the call begins again.
        reset: bool,
        /// When it is due, where many are spread over a time.
        due: Option<Timestamp>,
    },
    /// No attempt begins until somebody resumes the call.
    Pause {
        /// The times that bound the call go on while it is paused.
        clock_runs: bool,
    },
    /// A paused call goes on.
    Resume {
        /// Failures are counted from 0 again, and the time of the call begins again.
        reset: bool,
        /// When its next attempt is due at the earliest, where many are spread over a time.
        due: Option<Timestamp>,
    },
    /// The call ends with a value.
    Complete {
        /// What the workflow gets.
        value: Payload,
        /// The value is taken although nobody can say whether the workflow can read it.
        unchecked: bool,
    },
    /// The call ends with a failure.
    Fail {
        /// What the workflow gets.
        failure: Failure,
    },
    /// Another policy decides about the call from now on.
    SetPolicy {
        /// The policy in its stored form. Timeouts that it does not name stay as they are.
        policy: String,
    },
    /// The call is paused because its run is.
    PauseWithRun,
    /// A call that was paused with its run goes on with it.
    ResumeWithRun,
    /// The run takes no turn until somebody resumes it.
    PauseRun {
        /// Its open calls are paused too.
        calls: bool,
    },
    /// A paused run goes on, with the calls that were paused with it.
    ResumeRun,
    /// A closed instance begins again, under its id, with its input, options and tags.
    Restart,
    /// The next run begins with a copy of the history before some event, and goes on from there.
    Reset(Reset),
    /// A call that was given up, and failed its run, is made again: the next run goes on from
    /// before it.
    Redrive(RedriveCall),
    /// The activity of a call that was given up runs once more by itself.
    RedriveAsNew,
    /// Nothing is to be done about a call that was given up.
    Discard,
}

/// A call that was given up and is to be made again in its run.
///
/// ```
/// use resurgam_core::Seq;
/// use resurgam_core::action::{Action, RedriveCall};
///
/// let redrive = Action::Redrive(RedriveCall { call: Seq(6), new_key: false, delay_ms: None });
/// assert_eq!(redrive.to_stored().0, r#"{"v":1,"action":"redrive","call":6}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveCall {
    /// The call.
    pub call: Seq,
    /// It gets another idempotency key than it had.
    pub new_key: bool,
    /// How much later its first attempt begins.
    pub delay_ms: Option<u64>,
}

/// Where a reset goes back to, and what it does about what came after that.
///
/// ```
/// use resurgam_core::Seq;
/// use resurgam_core::action::{Reset, ResetTo};
///
/// let reset = Reset::to(ResetTo::Event(Seq(5)));
/// assert!(!reset.drop_signals && !reset.even_if_undone);
/// assert_eq!(reset.to.to_string(), "event 5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The event that the copy ends before.
    pub to: ResetTo,
    /// Signals that were taken after that do not come again.
    pub drop_signals: bool,
    /// It is done although something of the run was undone.
    pub even_if_undone: bool,
}

impl Reset {
    /// A reset to this place that lets signals come again and refuses to undo what was undone.
    pub const fn to(to: ResetTo) -> Self {
        Reset { to, drop_signals: false, even_if_undone: false }
    }
}

/// A place in the history of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetTo {
    /// This event.
    Event(Seq),
    /// The event that scheduled the call, or started the child, that failed last.
    LastFailure,
    /// The event that last scheduled a call of this activity.
    Before(String),
}

impl std::fmt::Display for ResetTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ResetTo::Event(seq) => write!(f, "event {seq}"),
            ResetTo::LastFailure => f.write_str("the last failure"),
            ResetTo::Before(activity) => write!(f, "the last call of {activity}"),
        }
    }
}

/// The stored form of an action, apart from the user's value. Additive: unknown fields are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    v: u32,
    action: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reset: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clock_runs: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unchecked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    calls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<ResetTo>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    drop_signals: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    even_if_undone: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Seq>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    new_key: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

impl Action {
    /// The name that is stored and shown.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::Retry { .. } => "retry",
            Action::Pause { .. } => "pause",
            Action::Resume { .. } => "resume",
            Action::Complete { .. } => "complete",
            Action::Fail { .. } => "fail",
            Action::SetPolicy { .. } => "set_policy",
            Action::PauseWithRun => "pause_with_run",
            Action::ResumeWithRun => "resume_with_run",
            Action::PauseRun { .. } => "pause_run",
            Action::ResumeRun => "resume_run",
            Action::Restart => "restart",
            Action::Reset(_) => "reset",
            Action::Redrive(_) => "redrive",
            Action::RedriveAsNew => "redrive_as_new",
            Action::Discard => "discard",
        }
    }

    /// True when it is done to a run, and not to a call.
    pub const fn is_on_run(&self) -> bool {
        matches!(
            self,
            Action::PauseRun { .. }
                | Action::ResumeRun
                | Action::Restart
                | Action::Reset(_)
                | Action::Redrive(_)
        )
    }

    /// True when it is a decision about a call that was given up.
    pub const fn is_on_letter(&self) -> bool {
        matches!(self, Action::Redrive(_) | Action::RedriveAsNew | Action::Discard)
    }

    /// True when it can be done to an instance that is closed.
    pub const fn is_on_closed(&self) -> bool {
        matches!(self, Action::Restart | Action::Reset(_) | Action::Redrive(_))
    }

    /// The engine's part as text, and the user's value.
    pub fn to_stored(&self) -> (String, Option<Payload>) {
        let mut head = Head { v: 1, action: self.name().to_string(), ..Head::default() };
        let mut body = None;
        match self {
            Action::Retry { reset, due } | Action::Resume { reset, due } => {
                (head.reset, head.due) = (*reset, *due);
            }
            Action::Pause { clock_runs } => head.clock_runs = *clock_runs,
            Action::Complete { value, unchecked } => {
                body = Some(value.clone());
                head.unchecked = *unchecked;
            }
            Action::Fail { failure } => head.failure = Some(failure.clone()),
            Action::SetPolicy { policy } => head.policy = Some(policy.clone()),
            Action::PauseRun { calls } => head.calls = *calls,
            Action::Reset(Reset { to, drop_signals, even_if_undone }) => {
                head.to = Some(to.clone());
                head.drop_signals = *drop_signals;
                head.even_if_undone = *even_if_undone;
            }
            Action::Redrive(RedriveCall { call, new_key, delay_ms }) => {
                head.call = Some(*call);
                head.new_key = *new_key;
                head.delay_ms = *delay_ms;
            }
            Action::PauseWithRun
            | Action::ResumeWithRun
            | Action::ResumeRun
            | Action::Restart
            | Action::RedriveAsNew
            | Action::Discard => {}
        }
        let text = serde_json::to_string(&head).expect("an action holds nothing that JSON cannot");
        (text, body)
    }

    /// Reads what [`Action::to_stored`] wrote.
    pub fn from_stored(head: &str, body: Option<Payload>) -> Result<Self, String> {
        let head: Head = serde_json::from_str(head).map_err(|error| format!("action: {error}"))?;
        let missing = |what: &str| format!("action {}: the {what} is missing", head.action);
        Ok(match head.action.as_str() {
            "retry" => Action::Retry { reset: head.reset, due: head.due },
            "pause" => Action::Pause { clock_runs: head.clock_runs },
            "resume" => Action::Resume { reset: head.reset, due: head.due },
            "complete" => {
                let value = body.ok_or_else(|| missing("value"))?;
                Action::Complete { value, unchecked: head.unchecked }
            }
            "fail" => {
                let failure = head.failure.clone();
                Action::Fail { failure: failure.ok_or_else(|| missing("failure"))? }
            }
            "set_policy" => {
                let policy = head.policy.clone();
                Action::SetPolicy { policy: policy.ok_or_else(|| missing("policy"))? }
            }
            "pause_with_run" => Action::PauseWithRun,
            "resume_with_run" => Action::ResumeWithRun,
            "pause_run" => Action::PauseRun { calls: head.calls },
            "resume_run" => Action::ResumeRun,
            "restart" => Action::Restart,
            "reset" => Action::Reset(Reset {
                to: head.to.clone().ok_or_else(|| missing("place"))?,
                drop_signals: head.drop_signals,
                even_if_undone: head.even_if_undone,
            }),
            "redrive" => Action::Redrive(RedriveCall {
                call: head.call.ok_or_else(|| missing("call"))?,
                new_key: head.new_key,
                delay_ms: head.delay_ms,
            }),
            "redrive_as_new" => Action::RedriveAsNew,
            "discard" => Action::Discard,
            other => return Err(format!("the action {other:?} is unknown to this version")),
        })
    }
}

/// What came of an action.
///
/// ```
/// use resurgam_core::action::ActionAnswer;
///
/// let answer = ActionAnswer::refused("charge#6 is running attempt 3; nothing to retry");
/// assert!(!answer.changed);
/// assert_eq!(answer.to_string(), "charge#6 is running attempt 3; nothing to retry");
/// assert!(ActionAnswer::done("retried charge#6 now").changed);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionAnswer {
    /// Whether it changed anything.
    pub changed: bool,
    /// What it changed, or why it changed nothing: a sentence for people, without a full stop.
    pub text: String,
}

impl ActionAnswer {
    /// It was carried out.
    pub fn done(text: impl Into<String>) -> Self {
        ActionAnswer { changed: true, text: text.into() }
    }

    /// It changed nothing.
    pub fn refused(text: impl Into<String>) -> Self {
        ActionAnswer { changed: false, text: text.into() }
    }
}

impl std::fmt::Display for ActionAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        for action in [
            Action::Retry { reset: false, due: None },
            Action::Retry { reset: true, due: Some(Timestamp::from_millis(7)) },
            Action::Pause { clock_runs: true },
            Action::Resume { reset: true, due: None },
            Action::Complete { value: Payload::from_text("{\"id\":7}"), unchecked: true },
            Action::Fail { failure: Failure::terminal("we give up").with_type("Skipped") },
            Action::SetPolicy { policy: "{\"max_attempts\":3}".to_string() },
            Action::PauseWithRun,
            Action::ResumeWithRun,
            Action::PauseRun { calls: true },
            Action::ResumeRun,
            Action::Restart,
            Action::Reset(Reset::to(ResetTo::Event(Seq(7)))),
            Action::Reset(Reset { drop_signals: true, ..Reset::to(ResetTo::LastFailure) }),
            Action::Reset(Reset {
                even_if_undone: true,
                ..Reset::to(ResetTo::Before("charge".to_string()))
            }),
            Action::Redrive(RedriveCall { call: Seq(6), new_key: true, delay_ms: Some(1_500) }),
            Action::RedriveAsNew,
            Action::Discard,
        ] {
            let (head, body) = action.to_stored();
            assert_eq!(Action::from_stored(&head, body), Ok(action));
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let read = |head: &str| Action::from_stored(head, None).unwrap_err();
        assert_eq!(read(r#"{"action":"complete"}"#), "action complete: the value is missing");
        assert_eq!(read(r#"{"action":"fail"}"#), "action fail: the failure is missing");
        assert_eq!(read(r#"{"action":"set_policy"}"#), "action set_policy: the policy is missing");
        assert_eq!(read(r#"{"action":"reset"}"#), "action reset: the place is missing");
        assert_eq!(read(r#"{"action":"redrive"}"#), "action redrive: the call is missing");
        assert_eq!(read(r#"{"action":"x"}"#), "the action \"x\" is unknown to this version");
        assert!(read("[").starts_with("action: "), "{}", read("["));
    }
}
