//! `resurgam call`: what operators do to an activity call, or to many.

use clap::Subcommand;
use resurgam::{Action, CallKey, Payload, RunKey, Seq, Timestamp, Uid};
use resurgam_core::retry::dialect::Dialect;
use serde_json::Value;

use super::bulk::Calls;
use super::request::RequestArgs;
use crate::form::Form;
use crate::help;
use crate::operator::{Many, On, Operator, Those, failed};
use crate::output::Output;
use crate::policy::source;
use crate::program::Text;
use crate::trouble::{Mistake, Trouble};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::CALL_RETRY)]
    Retry(RetryArgs),
    #[command(after_help = help::CALL_PAUSE)]
    Pause(PauseArgs),
    #[command(after_help = help::CALL_RESUME)]
    Resume(ResumeArgs),
    #[command(after_help = help::CALL_COMPLETE)]
    Complete(CompleteArgs),
    #[command(after_help = help::CALL_FAIL)]
    Fail(FailArgs),
    #[command(after_help = help::CALL_SET_POLICY)]
    SetPolicy(SetPolicyArgs),
}

/// Have the next attempt of a call begin now, or of many calls
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    of: OneOrMany,
    /// Count failures from 0 again, and let the time of the call begin again
    #[arg(long)]
    reset: bool,
}

/// Have no attempt of a call begin until somebody resumes it, or of many calls
///
/// An attempt that runs goes on: when it succeeds the call completes, when it fails the call is
/// paused.
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    of: OneOrMany,
    /// Let the times that bound the call go on while it is paused
    #[arg(long)]
    clock_runs: bool,
}

/// Let a paused call go on, or many
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    of: OneOrMany,
    /// Count failures from 0 again, and let the time of the call begin again
    #[arg(long)]
    reset: bool,
}

/// End a call with a value, which the workflow gets
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    of: Of,
    /// The value as JSON; @FILE reads it from a file, - from standard input
    #[arg(long, value_name = "JSON")]
    value: String,
    /// Take the value although no worker can check it
    #[arg(long)]
    unchecked: bool,
}

/// End a call with a failure, which the workflow gets, or many calls
#[derive(Debug, clap::Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    of: OneOrMany,
    /// The message of the failure
    #[arg(long)]
    message: String,
}

/// Have another policy decide about a call from now on, or about many calls
///
/// A call that waits after a failure is decided about again. Timeouts that the policy does not name
/// stay as they are.
#[derive(Debug, clap::Args)]
pub(crate) struct SetPolicyArgs {
    #[command(flatten)]
    of: OneOrMany,
    /// The policy: a file, - for standard input, or the name of a preset
    #[arg(long, value_name = "FILE")]
    policy: std::path::PathBuf,
}

/// Which call, and who does it.
#[derive(Debug, clap::Args)]
struct Of {
    /// The instance; or UID.RUN.SEQ, and then no call
    id: String,
    /// The call as histories name it: charge#6, or charge when one call of charge is open
    call: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

/// Which call, or which calls, and who does it.
#[derive(Debug, clap::Args)]
struct OneOrMany {
    /// The instance; or UID.RUN.SEQ, and then no call; options choose many calls unless given
    id: Option<String>,
    /// The call as histories name it: charge#6, or charge when one call of charge is open
    #[arg(requires = "id")]
    call: Option<String>,
    #[command(flatten)]
    calls: Calls,
    #[command(flatten)]
    request: RequestArgs,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::Retry(RetryArgs { of, reset }) => {
                of.act("retry", Action::Retry { reset, due: None }).await
            }
            Command::Pause(PauseArgs { of, clock_runs }) => {
                of.act("pause", Action::Pause { clock_runs }).await
            }
            Command::Resume(ResumeArgs { of, reset }) => {
                of.act("resume", Action::Resume { reset, due: None }).await
            }
            Command::Complete(args) => args.run().await,
            Command::Fail(FailArgs { of, message }) => of.act("fail", failed(&message)).await,
            Command::SetPolicy(args) => args.run().await,
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match self {
            Command::Retry(args) => args.of.request.json,
            Command::Pause(args) => args.of.request.json,
            Command::Resume(args) => args.of.request.json,
            Command::Complete(args) => args.of.request.json,
            Command::Fail(args) => args.of.request.json,
            Command::SetPolicy(args) => args.of.request.json,
        }
    }
}

impl CompleteArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let Text { place, json } = Text::given("--value", &self.value)?;
        let value: Value = serde_json::from_str(&json)
            .map_err(|error| Trouble::refused(format!("{place} is not JSON: {error}")))?;
        let value = Payload::encode(&value)
            .map_err(|error| Trouble::refused(format!("{place} has no JSON form: {error}")))?;
        let unchecked = self.unchecked;
        self.of.act("complete", Action::Complete { value, unchecked }).await
    }
}

impl SetPolicyArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let loaded = source::load(&self.policy, Dialect::Canonical)?;
        let policy = loaded.policy.into_inner().to_stored();
        self.of.act("set-policy", Action::SetPolicy { policy }).await
    }
}

impl OneOrMany {
    /// Does it to the call that is named, or to all that options choose.
    async fn act(self, verb: &str, action: Action) -> Result<Output, Trouble> {
        let OneOrMany { id, call, calls, request } = self;
        // Before the database is opened, so that a mistake costs nothing.
        calls.chosen(verb, id.as_deref(), Timestamp::EPOCH)?;
        if let Some(id) = id {
            return Of { id, call, request }.act(verb, action).await;
        }
        let chosen = |operator: &Operator| {
            let filter = calls.chosen(verb, None, operator.now())?.unwrap_or_default();
            Ok(Many { those: Those::Calls(filter), action: action.clone() })
        };
        request.act_on_many(calls.how(), chosen).await
    }
}

impl Of {
    async fn act(&self, verb: &str, action: Action) -> Result<Output, Trouble> {
        let on = match &self.call {
            Some(call) => On::Call { id: self.id.clone(), call: call.clone() },
            None => On::Key(key(&self.id).ok_or_else(|| names_no_call(verb, &self.id))?),
        };
        let named = Form::default().with("id", &self.id).with("call", &self.call);
        self.request.act(verb, named, &on, action).await
    }
}

/// A call by what identifies it for ever: `UID.RUN.SEQ`.
pub(crate) fn key(text: &str) -> Option<CallKey> {
    let mut parts = text.rsplitn(3, '.');
    let seq = Seq(parts.next()?.parse().ok()?);
    let run = parts.next()?.parse().ok()?;
    let uid = parts.next().filter(|uid| uid.len() == 32)?;
    let uid = Uid(u128::from_str_radix(uid, 16).ok()?);
    Some(RunKey { uid, run }.call(seq))
}

fn names_no_call(verb: &str, id: &str) -> Trouble {
    let message = format!("{verb} a call of {id}: the call is missing");
    let hint = format!("`resurgam show {id}` lists the open calls; name one, as in charge#6");
    Mistake::new(message).hint(hint).into()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_call_is_named_by_its_uid_its_run_and_its_place() {
        let uid = "0000000000000000000000000000002a";
        let expected = RunKey { uid: Uid(42), run: 3 }.call(Seq(6));
        assert_eq!(key(&format!("{uid}.3.6")), Some(expected));
        for wrong in ["order-42", "42.3.6", "0000000000000000000000000000002a.3", "a.b.c", ""] {
            assert_eq!(key(wrong), None, "{wrong:?}");
        }
    }
}
