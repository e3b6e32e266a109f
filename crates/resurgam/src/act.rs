//! What operators do to activity calls: retry, pause, resume, complete, fail, set a policy. What
//! they do to runs is in `act_on_run.rs`.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use resurgam_core::action::{Action, ActionAnswer};
use resurgam_core::history::end_of_call;
use resurgam_core::retry::RetryPolicy;
use resurgam_core::{CallKey, EventKind, Failure, Payload, RunKey, Seq};
use resurgam_store::rows::{ActionRequest, InstanceRow, Message, MessageRow, TaskRow};
use resurgam_worker::{Acted, Error, Result};
use serde::Serialize;

use crate::Client;
use crate::act_on_run::RunName;

/// An activity call that is not finished, to be acted on. Nothing is read before that.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity(retry = RetryPolicy::fixed(Duration::from_secs(3_600)).unlimited())]
/// async fn charge(cents: u64) -> Result<String, Failure> {
///     Err(Failure::of_type("BankDown", "no answer"))
/// }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext, cents: u64) -> Result<String, Failure> {
///     ctx.call(charge(cents)).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().workflow(order).activity(charge).start().await;
/// let run = app.start("order-42", order(700)).await;
/// app.advance(Duration::from_secs(60)).await; // the first attempt has failed
/// let call = app.client().call("order-42", "charge#2");
///
/// let retried = call.retry().by("ana").reason("the bank is back").await?;
/// assert_eq!(retried.to_string(), "retried charge#2 now");
/// app.advance(Duration::from_secs(60)).await; // it was not
/// assert!(call.pause().by("ana").await?.changed());
/// app.advance(Duration::from_secs(86_400)).await;
/// assert_eq!(app.attempts(charge), 2);
///
/// let refused = call.retry().await?;
/// assert_eq!(refused.to_string(), "charge#2 is paused; resume it instead");
/// assert!(call.complete(&"paid by hand").by("ana").await?.changed());
/// assert_eq!(run.result().await.unwrap(), "paid by hand");
/// assert!(app.history("order-42").await.contains("operator ana: completed charge#2"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CallHandle {
    client: Client,
    of: CallName,
}

/// How a call is named.
#[derive(Clone, Debug)]
pub(crate) enum CallName {
    /// By the id of its instance, and as `charge#6`.
    Named {
        id: String,
        call: String,
    },
    Key(CallKey),
}

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallName::Named { id, call } => write!(f, "{call} of {id}"),
            CallName::Key(key) => write!(f, "call {key}"),
        }
    }
}

impl Client {
    /// An activity call of an instance: `charge#6`, as histories name it, or `charge` when one call
    /// of that activity is open.
    pub fn call(&self, id: impl Into<String>, call: impl Into<String>) -> CallHandle {
        let of = CallName::Named { id: id.into(), call: call.into() };
        CallHandle { client: self.clone(), of }
    }

    /// An activity call by what identifies it for ever.
    pub fn call_of(&self, key: CallKey) -> CallHandle {
        CallHandle { client: self.clone(), of: CallName::Key(key) }
    }
}

impl CallHandle {
    /// Has the next attempt begin now. Refused while an attempt runs.
    pub fn retry(&self) -> Act {
        self.act(Ok(Action::Retry { reset: false, due: None }))
    }

    /// Has no attempt begin until somebody resumes it. An attempt that runs goes on: when it
    /// succeeds the call is completed, when it fails the call is paused.
    pub fn pause(&self) -> Act {
        self.act(Ok(Action::Pause { clock_runs: false }))
    }

    /// Lets a paused call go on: at its due time if that is ahead, otherwise now.
    pub fn resume(&self) -> Act {
        self.act(Ok(Action::Resume { reset: false, due: None }))
    }

    /// Ends it with a value, which the workflow gets. The process that works checks first that the
    /// value is one that the activity could have returned. An attempt that runs is told to end.
    pub fn complete(&self, value: &impl Serialize) -> Act {
        let value = Payload::encode(value).map_err(|error| error.to_string());
        self.act(value.map(|value| Action::Complete { value, unchecked: false }))
    }

    /// Ends it with a failure, which the workflow gets, caused by the last one. An attempt that
    /// runs is told to end.
    pub fn fail(&self, message: impl Into<String>) -> Act {
        let failure = Failure::terminal(message.into()).with_type("FailedByOperator");
        self.act(Ok(Action::Fail { failure }))
    }

    /// Has another policy decide about it from now on. A call that waits after a failure is decided
    /// about again. Timeouts that the policy does not name stay as they are.
    pub fn set_policy(&self, policy: impl Into<RetryPolicy>) -> Act {
        self.act(Ok(Action::SetPolicy { policy: policy.into().to_stored() }))
    }

    /// Does what a program asks for that has an action in its hands.
    #[doc(hidden)]
    pub fn does(&self, action: Action) -> Act {
        self.act(Ok(action))
    }

    fn act(&self, action: std::result::Result<Action, String>) -> Act {
        Act::new(self.client.clone(), On::Call(self.of.clone()), action)
    }
}

/// Something that is about to be done to a call or to a run; awaiting it does so, and answers with
/// what came of it. Who did it, when and why is kept with the instance and printed in its history.
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct Act {
    client: Client,
    on: On,
    pub(crate) action: std::result::Result<Action, String>,
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) request_id: Option<String>,
}

/// What something is done to.
#[derive(Clone, Debug)]
pub(crate) enum On {
    Call(CallName),
    Run(RunName),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Call(call) => call.fmt(f),
            On::Run(run) => run.fmt(f),
        }
    }
}

impl Act {
    pub(crate) fn new(client: Client, on: On, action: std::result::Result<Action, String>) -> Self {
        Act { client, on, action, by: None, reason: None, request_id: None }
    }

    /// Counts failures from 0 again, and lets the time of the call begin again. For
    /// [`CallHandle::retry`] and [`CallHandle::resume`].
    pub fn reset(mut self) -> Self {
        match &mut self.action {
            Ok(Action::Retry { reset, .. } | Action::Resume { reset, .. }) => *reset = true,
            other => *other = Err("only a retry and a resume can reset a call".to_string()),
        }
        self
    }

    /// Lets the times that bound the call go on while it is paused. For [`CallHandle::pause`].
    pub fn clock_runs(mut self) -> Self {
        match &mut self.action {
            Ok(Action::Pause { clock_runs }) => *clock_runs = true,
            other => *other = Err("clocks are for a pause".to_string()),
        }
        self
    }

    /// Takes the value although no process can check it. For [`CallHandle::complete`].
    pub fn unchecked(mut self) -> Self {
        match &mut self.action {
            Ok(Action::Complete { unchecked, .. }) => *unchecked = true,
            other => *other = Err("only a completion has a value to check".to_string()),
        }
        self
    }

    /// Who does it; the user of the operating system, unless set.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Makes a repeated request with the same id get the first answer.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }
}

impl Act {
    /// What it asks for; `None` when that makes no sense, which is told when it is awaited.
    pub fn action(&self) -> Option<&Action> {
        self.action.as_ref().ok()
    }
}

impl IntoFuture for Act {
    type Output = Result<Acted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Acted>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Act { client, on, action, by, reason, request_id } = self;
            let verb = action.as_ref().map_or("act on", Action::name).replace('_', "-");
            let verb = verb.strip_suffix("-run").unwrap_or(&verb);
            let what = format!("{verb} {on}");
            let action = action.map_err(|error| Error::invalid(format!("{what}: {error}")))?;
            // All that forgot to set one would be the same request, and only the first would do
            // anything.
            if request_id.as_deref() == Some("") {
                let message = format!("{what}: an empty request id is not allowed");
                return Err(Error::invalid(message));
            }
            let busy = client.handle().busy();
            let request = request_id.as_deref();
            let found = match &on {
                On::Call(of) => client.open_call(&what, of, request).await?,
                On::Run(of) => client.run_to_act_on(&what, of, &action, request).await?,
            };
            let call = match found {
                ToActOn::Found(call) => call,
                ToActOn::Refused(why) => return Ok(Acted::Answered(ActionAnswer::refused(why))),
                ToActOn::Answered(answer) => return Ok(Acted::Answered(answer)),
            };
            drop(busy);
            let by = by.unwrap_or_else(os_user);
            let id = request_id.unwrap_or_else(|| client.handle().new_name());
            client.handle().act(&what, call, ActionRequest { id, by, reason, action }).await
        })
    }
}

/// Who runs this process: as its environment says, or as the system does, because services and
/// containers have no such variables.
#[doc(hidden)]
pub fn os_user() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let named = name("USER").or_else(|| name("LOGNAME")).or_else(owner);
    named.unwrap_or_else(|| "unknown".to_string())
}

/// The owner of this process, by name, or by number where it has none.
#[cfg(unix)]
fn owner() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_string())
    });
    Some(named.unwrap_or_else(|| format!("uid {uid}")))
}

#[cfg(not(unix))]
fn owner() -> Option<String> {
    None
}

/// What somebody wants to act on, as it was found.
pub(crate) enum ToActOn {
    /// The call; a run is the place [`Seq::RUN`] in it.
    Found(CallKey),
    /// It is over, or not what the action is for; for people.
    Refused(String),
    /// It was acted on by the same request before.
    Answered(ActionAnswer),
}

impl Client {
    /// Finds a call by its name, or the answer that the same request got before.
    async fn open_call(
        &self,
        what: &str,
        name: &CallName,
        request: Option<&str>,
    ) -> Result<ToActOn> {
        let trouble = |error| Error::store(what, error);
        let store = self.handle().store();
        let (row, activity, seq) = match name {
            CallName::Key(key) => (store.instance(key.run.uid).await, None, Some(key.seq)),
            CallName::Named { id, call } => {
                let (activity, seq) = parsed(call).ok_or_else(|| unnamed(what, call))?;
                (store.find(id).await, activity, seq)
            }
        };
        let row = row.map_err(trouble)?.ok_or_else(|| Error::no_instance(what))?;
        if let Some(id) = request
            && let Some(row) = store.action(row.uid, id).await.map_err(trouble)?
        {
            return Ok(ToActOn::Answered(row.answer));
        }
        let run = match name {
            CallName::Key(key) => key.run,
            CallName::Named { .. } => RunKey { uid: row.uid, run: row.run },
        };
        let is_meant = |task: &&TaskRow| {
            let called = task.progress.fallback.as_ref().map(|of| of.activity.as_str());
            activity.is_none_or(|name| task.name == name || called == Some(name))
                && seq.is_none_or(|seq| task.call.seq == seq)
        };
        let tasks = store.tasks(run).await.map_err(trouble)?;
        let meant: Vec<&TaskRow> = tasks.iter().filter(is_meant).collect();
        match (meant.as_slice(), seq) {
            ([task], _) => Ok(ToActOn::Found(task.call)),
            ([], Some(seq)) => self.ended_call(what, &row, run.call(seq), activity).await,
            ([], None) => {
                let name = activity.unwrap_or_default();
                Ok(ToActOn::Refused(format!("no call of {name} is open")))
            }
            (several, _) => {
                let names = several.iter().map(|task| format!("{}#{}", task.name, task.call.seq));
                let names = names.collect::<Vec<_>>().join(", ");
                Err(Error::invalid(format!("{what}: several calls are open ({names}); name one")))
            }
        }
    }

    /// What became of a call that has no task.
    async fn ended_call(
        &self,
        what: &str,
        row: &InstanceRow,
        call: CallKey,
        activity: Option<&str>,
    ) -> Result<ToActOn> {
        let events = self.handle().store().history(call.run).await;
        let events = events.map_err(|error| Error::store(what, error))?;
        let scheduled = events.iter().find(|event| event.seq == call.seq);
        let Some(EventKind::ActivityScheduled(scheduled)) = scheduled.map(|event| &event.kind)
        else {
            let message = format!("{what}: #{} of {} is no activity call", call.seq, row.id);
            return Err(Error::invalid(message));
        };
        if activity.is_some_and(|activity| activity != scheduled.name) {
            let name = &scheduled.name;
            let message = format!("{what}: #{} of {} is a call of {name}", call.seq, row.id);
            return Err(Error::invalid(message));
        }
        let how = events.iter().find_map(|event| end_of_call(&event.kind, call.seq));
        let how = match how {
            Some(how) => how,
            None if row.status.is_closed() || call.run.run != row.run => {
                format!("ended with its run ({})", row.status.name())
            }
            None => self.untold_end(what, call).await?,
        };
        Ok(ToActOn::Refused(format!("{}#{} {how}", scheduled.name, call.seq)))
    }
}

impl Client {
    /// What became of a call without a task whose run goes on, and has not heard that it ended.
    async fn untold_end(&self, what: &str, call: CallKey) -> Result<String> {
        let messages = self.handle().store().messages(call.run.uid).await;
        let messages = messages.map_err(|error| Error::store(what, error))?;
        let ends = |row: &MessageRow| match &row.body {
            Message::Result { run, event } if *run == call.run.run => {
                end_of_call(event, call.seq).is_some()
            }
            _ => false,
        };
        Ok(match messages.iter().any(ends) {
            true => "has ended, and its workflow has not heard of it yet".to_string(),
            false => {
                "is not finished, but its task cannot be read and was set aside; the log of the \
                 worker says why"
                    .to_string()
            }
        })
    }
}

/// The activity and the place that a name means: `charge#6`, `#6`, `6` or `charge`.
fn parsed(call: &str) -> Option<(Option<&str>, Option<Seq>)> {
    let seq = |text: &str| text.parse::<u64>().ok().map(Seq);
    match call.rsplit_once('#') {
        Some(("", number)) => Some((None, Some(seq(number)?))),
        Some((name, number)) => Some((Some(name), Some(seq(number)?))),
        None if call.is_empty() => None,
        None => Some(match seq(call) {
            Some(number) => (None, Some(number)),
            None => (Some(call), None),
        }),
    }
}

fn unnamed(what: &str, call: &str) -> Error {
    Error::invalid(format!(
        "{what}: {call:?} names no call; write the activity and its place in the history, as in \
         charge#6"
    ))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_call_is_named_as_histories_name_it_or_by_its_activity_alone() {
        for (name, meant) in [
            ("charge#6", Some((Some("charge"), Some(Seq(6))))),
            ("a#b#12", Some((Some("a#b"), Some(Seq(12))))),
            ("#6", Some((None, Some(Seq(6))))),
            ("6", Some((None, Some(Seq(6))))),
            ("charge", Some((Some("charge"), None))),
            ("charge#", None),
            ("charge#six", None),
            ("", None),
        ] {
            assert_eq!(parsed(name), meant, "{name:?}");
        }
    }
}
