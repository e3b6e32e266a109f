//! `resurgam paused`: calls that wait for an operator, and decisions about many of them.

use clap::Subcommand;
use resurgam::{
    Acted, Action, ActionAnswer, CallCursor, PausedCall, PausedFilter, PendingCall, Seq, Timestamp,
};

use super::call;
use super::groups::{self, Chosen, Pages, Which, name_of};
use super::listing::{self, List, Listed};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::TimeArgs;
use crate::operator::{Many, On, Operator, Reach, Those, failed};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::PAUSED_LIST)]
    List(ListArgs),
    #[command(after_help = help::PAUSED_SHOW)]
    Show(ShowArgs),
    #[command(after_help = help::PAUSED_RESUME)]
    Resume(ResumeArgs),
    #[command(after_help = help::PAUSED_FAIL)]
    Fail(FailArgs),
}

/// List paused calls by what they have in common
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Show a group of paused calls with the newest of them
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The fingerprint of the group
    fingerprint: String,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Let paused calls go on
///
/// Those that used up their attempts go on with failures counted from 0. Calls that are paused
/// meanwhile are left alone. It goes on when this command is ended; `resurgam bulk stop` ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// End paused calls with a failure, which their workflows get
#[derive(Debug, clap::Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// The message of the failure
    #[arg(long)]
    message: String,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Resume(ResumeArgs { chosen, reach, json }) => {
                act(&chosen, &reach, json, "resume", None).await
            }
            Command::Fail(FailArgs { chosen, message, reach, json }) => {
                act(&chosen, &reach, json, "fail", Some(message)).await
            }
        }
    }

    pub(super) fn json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Resume(args) => args.json,
            Command::Fail(args) => args.json,
        }
    }
}

fn filter(which: &Which, now: Timestamp) -> PausedFilter {
    PausedFilter {
        fingerprint: which.fingerprint.clone(),
        activity: which.activity.clone(),
        since: which.since(now),
        ..PausedFilter::default()
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let (limit, none) = (self.pages.limit as usize, "no paused calls");
        let list = List { reach: &self.reach, limit, times: self.times, json: self.json, none };
        let groups = async |operator: &Operator, now, _| {
            Ok(operator.paused_groups(filter(&self.which, now)).await?)
        };
        let each = async |operator: &Operator, now, limit| {
            let after = self.pages.after;
            let page = PausedFilter { after, limit, ..filter(&self.which, now) };
            Ok(operator.paused_calls(page).await?)
        };
        match self.pages.each {
            true => list.page(each).await,
            false => list.page(groups).await,
        }
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let of = PausedFilter {
            fingerprint: Some(self.fingerprint.clone()),
            limit: 10,
            ..PausedFilter::default()
        };
        let look = async |operator: &Operator| {
            let (now, group) = (operator.now(), operator.paused_groups(of.clone()).await?);
            Ok((group, operator.paused_calls(of.clone()).await?, now))
        };
        let (found, calls, now) = self.reach.look(look).await?;
        let Some(group) = found.first() else {
            let message = format!("show {}: no paused call has this fingerprint", self.fingerprint);
            let hint = "`resurgam paused list` lists those that some have";
            return Err(Mistake::new(message).hint(hint).into());
        };
        if self.json {
            let form = group.form().with("calls", listing::forms(&calls));
            return Ok(Output::json(line(&form), Exit::Done));
        }
        Ok(Output::done(groups::shown((group, "paused call"), &calls, now, self.times)))
    }
}

impl Listed for PausedCall {
    fn columns(_: TimeArgs) -> Vec<&'static str> {
        vec!["INSTANCE", "CALL", "PAUSED", "WHY", "ERROR"]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        let pause = self.task.progress.paused.as_deref();
        let by = pause.and_then(|pause| pause.by.as_ref()).map(|by| format!("by {by}"));
        let stopped = pause.and_then(|pause| pause.stopped.clone());
        let error = pause.and_then(|pause| pause.error.as_deref()).unwrap_or_default();
        vec![
            printable(&self.instance),
            printable(&format!("{}#{}", self.task.name, self.task.call.seq)),
            times.age(self.since(), now),
            printable(&stopped.or(by).unwrap_or_default()),
            printable(&groups::shortened(error)),
        ]
    }

    fn form(&self) -> Form {
        let pause = self.task.progress.paused.clone().unwrap_or_default();
        Form::default()
            .with("call", name_of(self.task.call))
            .with("instance", &self.instance)
            .with("workflow", &self.workflow)
            .with("activity", &self.task.name)
            .with("seq", self.task.call.seq)
            .with("queue", &self.task.queue)
            .with("attempt", self.task.attempt)
            .with("since_ms", self.since())
            .with("until_ms", pause.until)
            .with("stopped", &pause.stopped)
            .with("by", &pause.by)
            .with("reason", &pause.reason)
            .with("fingerprint", &pause.fingerprint)
            .with("error", &pause.error)
            .with("cursor", CallCursor::of_paused(self).to_string())
    }

    fn cursor(&self) -> Option<String> {
        Some(CallCursor::of_paused(self).to_string())
    }
}

/// Does something to one paused call, or to all that options choose.
async fn act(
    chosen: &Chosen,
    reach: &Reach,
    json: bool,
    verb: &str,
    message: Option<String>,
) -> Result<Output, Trouble> {
    let acted = async |operator: &Operator| {
        let Some((id, name)) = chosen.one(verb, None)? else {
            let those = Those::Paused(filter(&chosen.which, operator.now()));
            let action = match &message {
                Some(message) => failed(message),
                None => Action::Resume { reset: false, due: None },
            };
            return chosen.carry_out(operator, Many { those, action }, json).await;
        };
        let on = match (name, call::key(id)) {
            (Some(name), _) => On::Call { id: id.to_string(), call: name.to_string() },
            (None, Some(key)) => On::Key(key),
            (None, None) => return Err(groups::names_no_call(verb, id, None)),
        };
        let open = pending(operator, id, name).await?;
        let pause = open.as_ref().and_then(|call| call.paused.as_ref());
        let action = match (&message, &open) {
            (Some(_), Some(call)) if pause.is_none() => {
                let why = format!(
                    "{}#{} is not paused; `resurgam call fail` ends it",
                    call.activity, call.seq
                );
                return Ok(groups::answered(&Acted::Answered(ActionAnswer::refused(why)), json));
            }
            (Some(message), _) => failed(message),
            (None, _) => {
                let reset = pause.is_some_and(|pause| pause.stopped.is_some());
                Action::Resume { reset, due: None }
            }
        };
        let acted = operator.act(&on, action, chosen.who()).await?;
        Ok(groups::answered(&acted, json))
    };
    reach.ask(acted).await
}

/// The open call that is meant, as far as one is.
async fn pending(
    operator: &Operator,
    id: &str,
    name: Option<&str>,
) -> Result<Option<PendingCall>, Trouble> {
    let (key, seq, activity) = match name {
        None => (call::key(id), call::key(id).map(|key| key.seq), ""),
        Some(name) => match name.rsplit_once('#') {
            Some((activity, seq)) => (None, seq.parse().ok().map(Seq), activity),
            None => (None, name.parse().ok().map(Seq), name),
        },
    };
    let description = match key {
        Some(key) => Some(operator.describe_uid(key.run.uid).await?),
        None => operator.describe(id).await?,
    };
    let Some(description) = description else { return Ok(None) };
    let is_run = key.is_none_or(|key| key.run.run == description.instance.run);
    let is_meant = |call: &PendingCall| {
        let is_named = activity == call.activity || call.fallback_of.as_deref() == Some(activity);
        is_run && seq.map_or(is_named, |seq| seq == call.seq)
    };
    Ok(description.pending.into_iter().find(is_meant))
}
