//! `resurgam paused`: calls that wait for an operator, and decisions about many of them.

use std::time::Duration;

use clap::Subcommand;
use comfy_table::{Table, presets};
use resurgam::{CallCursor, CallGroup, Client, GroupDone, PausedCall, PausedFilter, Timestamp};

use super::bulk::{How, Who};
use super::groups::{self, Chosen, Pages, Which, name_of};
use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::TimeArgs;
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
    db: DbArgs,
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
    db: DbArgs,
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
    /// Take that long for all of them, evenly, such as 60s
    #[arg(long, value_name = "TIME", value_parser = groups::time)]
    spread: Option<Duration>,
    #[command(flatten)]
    db: DbArgs,
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
    /// Take that long for all of them, evenly, such as 60s
    #[arg(long, value_name = "TIME", value_parser = groups::time)]
    spread: Option<Duration>,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Resume(ResumeArgs { chosen, spread, db, json }) => {
                act(&chosen, &db, json, "resumed", spread, None).await
            }
            Command::Fail(FailArgs { chosen, message, spread, db, json }) => {
                act(&chosen, &db, json, "failed", spread, Some(message)).await
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
        match self.pages.each {
            true => self.each().await,
            false => self.groups().await,
        }
    }

    async fn groups(self) -> Result<Output, Trouble> {
        let look = async |client: &Client| {
            let now = client.handle().now();
            Ok((client.paused_groups(filter(&self.which, now)).await?, now))
        };
        let (mut found, now) = self.db.look(look).await?;
        found.truncate(self.pages.limit as usize);
        if self.json {
            let list: Vec<Form> = found.iter().map(groups::form).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        Ok(Output::done(groups::table(&found, now, self.times, "no paused calls")))
    }

    async fn each(self) -> Result<Output, Trouble> {
        let limit = self.pages.limit as usize;
        let look = async |client: &Client| {
            let now = client.handle().now();
            // One more tells whether there are more.
            let page = PausedFilter {
                after: self.pages.after,
                limit: limit + 1,
                ..filter(&self.which, now)
            };
            Ok((client.paused_calls(page).await?, now))
        };
        let (mut calls, now) = self.db.look(look).await?;
        let has_more = calls.len() > limit;
        calls.truncate(limit);
        if self.json {
            let list: Vec<Form> = calls.iter().map(form).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        let more = calls.last().filter(|_| has_more).map(|call| {
            let cursor = CallCursor::of_paused(call);
            format!("there are more: the same with --after {cursor} lists the next ones\n")
        });
        let stdout = table(&calls, now, self.times);
        Ok(Output { stderr: more.unwrap_or_default(), ..Output::done(stdout) })
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let of = PausedFilter {
            fingerprint: Some(self.fingerprint.clone()),
            limit: 10,
            ..PausedFilter::default()
        };
        let look = async |client: &Client| {
            let (now, group) = (client.handle().now(), client.paused_groups(of.clone()).await?);
            Ok((group, client.paused_calls(of.clone()).await?, now))
        };
        let (found, calls, now) = self.db.look(look).await?;
        let Some(group) = found.first() else {
            let message = format!("show {}: no paused call has this fingerprint", self.fingerprint);
            let hint = "`resurgam paused list` lists those that some have";
            return Err(Mistake::new(message).hint(hint).into());
        };
        if self.json {
            let calls: Vec<Form> = calls.iter().map(form).collect();
            return Ok(Output::json(line(&groups::form(group).with("calls", calls)), Exit::Done));
        }
        Ok(Output::done(shown(group, &calls, now, self.times)))
    }
}

fn shown(group: &CallGroup, calls: &[PausedCall], now: Timestamp, times: TimeArgs) -> String {
    let count = if group.count == 1 { "call" } else { "calls" };
    let head = format!(
        "{} paused {count} of {}: {}\nthe first {}, the last {}\n\n",
        group.count,
        printable(&group.activity),
        printable(&group.error),
        times.past(group.oldest, now),
        times.past(group.newest, now),
    );
    head + &table(calls, now, times)
}

fn table(calls: &[PausedCall], now: Timestamp, times: TimeArgs) -> String {
    if calls.is_empty() {
        return "no paused calls\n".to_string();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["INSTANCE", "CALL", "PAUSED", "WHY", "ERROR"]);
    for call in calls {
        let pause = call.task.progress.paused.as_deref();
        let by = pause.and_then(|pause| pause.by.as_ref()).map(|by| format!("by {by}"));
        let stopped = pause.and_then(|pause| pause.stopped.clone());
        let error = pause.and_then(|pause| pause.error.as_deref()).unwrap_or_default();
        table.add_row([
            printable(&call.instance),
            printable(&format!("{}#{}", call.task.name, call.task.call.seq)),
            times.age(call.since(), now),
            printable(&stopped.or(by).unwrap_or_default()),
            printable(&groups::shortened(error)),
        ]);
    }
    table.to_string() + "\n"
}

fn form(call: &PausedCall) -> Form {
    let pause = call.task.progress.paused.clone().unwrap_or_default();
    Form::default()
        .with("call", name_of(call.task.call))
        .with("instance", &call.instance)
        .with("workflow", &call.workflow)
        .with("activity", &call.task.name)
        .with("seq", call.task.call.seq)
        .with("queue", &call.task.queue)
        .with("attempt", call.task.attempt)
        .with("since_ms", call.since())
        .with("until_ms", pause.until)
        .with("stopped", &pause.stopped)
        .with("by", &pause.by)
        .with("reason", &pause.reason)
        .with("fingerprint", &pause.fingerprint)
        .with("error", &pause.error)
        .with("cursor", CallCursor::of_paused(call).to_string())
}

/// Does something to one paused call, or to all that options choose.
async fn act(
    chosen: &Chosen,
    db: &DbArgs,
    json: bool,
    verb: &str,
    spread: Option<Duration>,
    message: Option<String>,
) -> Result<Output, Trouble> {
    let acted = async |client: &Client| {
        let now = client.handle().now();
        let filter = PausedFilter { limit: chosen.limit(), ..filter(&chosen.which, now) };
        if let Some(key) = chosen.one(client, &format!("paused calls to be {verb}")).await? {
            let call = client.call_of(key);
            let mut act = match &message {
                Some(message) => call.fail(message),
                None => call.resume().reset(),
            };
            act = chosen.by.iter().fold(act, |act, by| act.by(by));
            act = chosen.reason.iter().fold(act, |act, reason| act.reason(reason));
            let mut done = GroupDone::default();
            match act.await? {
                resurgam::Acted::Stored => done.stored = 1,
                resurgam::Acted::Answered(answer) if answer.changed => done.changed = 1,
                resurgam::Acted::Answered(answer) => done.refused.push((key, answer.text)),
            }
            return Ok(groups::told(&done, json));
        }
        if chosen.dry_run {
            let found = client.paused_groups(filter).await?;
            return Ok(groups::counted(&found, chosen.limit(), verb, json));
        }
        let act = match &message {
            Some(message) => client.fail_paused(filter, message),
            None => client.resume_paused(filter),
        };
        let who = Who { by: chosen.by.as_deref(), reason: chosen.reason.as_deref() };
        How::spread_over(spread).carry_out(client, act, who, json).await
    };
    db.ask(acted).await
}
