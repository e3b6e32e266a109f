//! `resurgam policy set`, `unset` and `list`: policies for all calls of an activity.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use resurgam::retry::RetryPolicy;
use resurgam::{Acted, PolicyOverride};
use resurgam_core::retry::dialect::Dialect;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::TimeArgs;
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::policy::source;
use crate::style::STRONG;
use crate::trouble::Trouble;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::POLICY_SET)]
    Set(SetArgs),
    #[command(after_help = help::POLICY_UNSET)]
    Unset(UnsetArgs),
    #[command(after_help = help::POLICY_LIST)]
    List(ListArgs),
    #[command(after_help = help::WHAT_IF)]
    WhatIf(super::what_if::Arguments),
}

/// Have another policy decide about all calls of an activity, until it is removed
///
/// It holds for calls that are open and for those to come, and comes before the policies of calls,
/// activities and the app, but not before one that was set for a single call. Open calls that wait
/// after a failure are decided about again. Timeouts stay as they are, and calls that undo others
/// are left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The activity
    activity: String,
    /// The policy: a file, - for standard input, or the name of a preset
    policy: PathBuf,
    #[command(flatten)]
    by: ByArgs,
}

/// Remove the policy that is set for all calls of an activity
///
/// Its calls follow their own policies again; open ones that wait after a failure are decided about
/// again.
#[derive(Debug, clap::Args)]
pub(crate) struct UnsetArgs {
    /// The activity
    activity: String,
    #[command(flatten)]
    by: ByArgs,
}

/// List the policies that are set for activities
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Who does it, and where.
#[derive(Debug, clap::Args)]
pub(super) struct ByArgs {
    /// Who does it, for those who look at it later; the user of the operating system by default
    #[arg(long)]
    pub(super) by: Option<String>,
    /// Why, for those who look at it later
    #[arg(long)]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::Set(SetArgs { activity, policy, by }) => {
                let loaded = source::load(&policy, Dialect::Canonical)?;
                let policy = loaded.policy.into_inner();
                by.set("set", &activity, Some(policy)).await
            }
            Command::Unset(UnsetArgs { activity, by }) => by.set("unset", &activity, None).await,
            Command::List(args) => args.run().await,
            Command::WhatIf(args) => args.run().await,
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match self {
            Command::Set(args) => args.by.json,
            Command::Unset(args) => args.by.json,
            Command::List(args) => args.json,
            Command::WhatIf(args) => args.json,
        }
    }
}

impl ByArgs {
    async fn set(
        &self,
        verb: &str,
        activity: &str,
        policy: Option<RetryPolicy>,
    ) -> Result<Output, Trouble> {
        let set = async |operator: &Operator| {
            Ok(operator.set_policy(activity, policy, self.who()).await?)
        };
        let acted = self.reach.ask(set).await?;
        let exit = match &acted {
            Acted::Answered(answer) if !answer.changed => Exit::BadInput,
            _ => Exit::Done,
        };
        if !self.json {
            return Ok(Output { exit, ..Output::done(printable(&acted.to_string()) + "\n") });
        }
        let form = Form::default()
            .with("activity", activity)
            .with("action", verb)
            .with("changed", acted.changed())
            .with("stored", matches!(acted, Acted::Stored))
            .with("answer", acted.to_string());
        Ok(Output::json(line(&form), exit))
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let read = async |operator: &Operator| Ok((operator.policies().await?, operator.now()));
        let (policies, now) = self.reach.look(read).await?;
        if self.json {
            let list: Vec<Form> = policies.iter().map(form).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        if policies.is_empty() {
            let note = "no policy is set for any activity\n".to_string();
            return Ok(Output { stderr: note, ..Output::done(String::new()) });
        }
        let mut out = String::new();
        for set in &policies {
            let (activity, by) = (printable(&set.activity), printable(&set.by));
            let ago = self.times.past(set.at, now);
            let reason = set.reason.as_ref().map(|why| format!(" (\"{}\")", printable(why)));
            let reason = reason.unwrap_or_default();
            let text = set.policy.as_deref().map(policy_text).unwrap_or_default();
            let _infallible = writeln!(
                out,
                "{STRONG}{activity}{STRONG:#}  set by {by} {ago}{reason}\n  {}",
                printable(&text)
            );
        }
        Ok(Output::done(out))
    }
}

fn form(set: &PolicyOverride) -> Form {
    let policy = set.policy.as_deref().map(policy_text).unwrap_or_default();
    let policy: serde_json::Value = serde_json::from_str(&policy).unwrap_or_default();
    Form::default()
        .with("activity", &set.activity)
        .with("policy", policy)
        .with("by", &set.by)
        .with("reason", &set.reason)
        .with("at_ms", set.at)
        .with("revision", set.revision)
}

/// The policy as people write it.
fn policy_text(stored: &str) -> String {
    let stored: serde_json::Value = serde_json::from_str(stored).unwrap_or_default();
    stored.get("policy").map(ToString::to_string).unwrap_or_default()
}
