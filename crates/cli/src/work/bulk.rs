//! Actions on many calls, or on many runs: which ones, how they are told, and `resurgam bulk`.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Subcommand;
use resurgam::{
    Action, BulkJob, BulkState, BulkTarget, CallFilter, CallStatus, Refused, RunFilter, Status,
    Timestamp,
};

use resurgam_core::schedule::time_text;

use super::groups;
use super::listing::{List, Listed};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::{Moment, TimeArgs};
use crate::operator::{Many, Operator, Pace, Preview, Reach, Who};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

/// How often progress is drawn, and told where nobody draws.
const PACE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How many refused ones are printed; --json has all that are kept.
const PRINTED: usize = 10;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::BULK_LIST)]
    List(ListArgs),
    #[command(after_help = help::BULK_SHOW)]
    Show(ShowArgs),
    #[command(after_help = help::BULK_STOP)]
    Stop(StopArgs),
}

/// List actions on many calls or instances, the newest first
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Go on behind this one: the id that a list ends with
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Show how far an action on many has come, and what was refused
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The id that `list` prints
    id: String,
    /// Wait until it is over
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Have an action on many do no more
///
/// What it has done stays done.
#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// The id that `list` prints
    id: String,
    /// Who does it, for those who look at it later; the user of the operating system by default
    #[arg(long)]
    by: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Which calls, where many are meant.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Many calls")]
pub(super) struct Calls {
    /// Those of this activity
    #[arg(long, value_name = "NAME")]
    activity: Option<String>,
    /// Those of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Those of this instance; more than once for several
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// Those that stand so: waiting, retrying, running or paused
    #[arg(long, value_name = "STATUS", value_parser = call_status)]
    status: Option<CallStatus>,
    /// Those whose last failure is of this type
    #[arg(long, value_name = "TYPE")]
    failure_type: Option<String>,
    /// Those whose last failure has this code
    #[arg(long, value_name = "CODE")]
    failure_code: Option<String>,
    /// Those of instances with this tag
    #[arg(long, value_name = "NAME=VALUE", value_parser = tag)]
    tag: Option<(String, String)>,
    /// Those of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Those of instances started since then: how long ago (2h), a day or a time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    started_since: Option<Moment>,
    /// Those that failed last since then
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    failed_since: Option<Moment>,
    /// Those that are paused and of this group
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
    /// Every open call that the action is for
    #[arg(long = "all")]
    all: bool,
    #[command(flatten)]
    how: How,
}

/// What else narrows instances, also those that are listed.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(super) struct Such {
    /// Those with an open call of this activity, or of which one failed last
    #[arg(long, value_name = "NAME")]
    activity: Option<String>,
    /// Those whose last failure is of this type
    #[arg(long, value_name = "TYPE")]
    failure_type: Option<String>,
    /// Those whose last failure has this code
    #[arg(long, value_name = "CODE")]
    failure_code: Option<String>,
    /// Those that failed last since then: how long ago (2h), a day or a time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    failed_since: Option<Moment>,
    /// Those with this tag
    #[arg(long, value_name = "NAME=VALUE", value_parser = tag)]
    tag: Option<(String, String)>,
    /// Those that were started on this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
}

impl Such {
    /// The filter, narrowed by this.
    pub(super) fn narrows(&self, filter: RunFilter, now: Timestamp) -> RunFilter {
        RunFilter {
            activity: self.activity.clone(),
            failure_type: self.failure_type.clone(),
            failure_code: self.failure_code.clone(),
            failed_since: self.failed_since.map(|since| since.before(now)),
            tag: self.tag.clone(),
            queue: self.queue.clone(),
            ..filter
        }
    }
}

/// Which instances, where many are meant.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Many instances")]
pub(super) struct Runs {
    /// Those of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// This one; more than once for several
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// Those of this status; more than once for several
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Vec<Status>,
    /// Those started since then: how long ago (2h), a day or a time
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    started_since: Option<Moment>,
    #[command(flatten)]
    such: Such,
    /// Every instance that the action is for
    #[arg(long = "all")]
    all: bool,
    #[command(flatten)]
    how: How,
}

/// How it is done to many.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct How {
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Take that long for all of them, evenly, such as 60s
    #[arg(long, value_name = "TIME", value_parser = groups::time)]
    spread: Option<Duration>,
    /// Do it to so many first, and to the others only if these succeed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    first: Option<u32>,
    /// Change nothing; say how many there are, and list the first
    #[arg(long)]
    dry_run: bool,
    /// Do nothing when it would be done to another number than this: the one of a --dry-run
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    expect: Option<u64>,
    /// Do not wait until it is over
    #[arg(long)]
    no_wait: bool,
}

impl How {
    pub(super) fn is_given(&self) -> bool {
        let How { limit, spread, first, dry_run, expect, no_wait } = self;
        let numbers = limit.is_some() || first.is_some() || expect.is_some();
        numbers || spread.is_some() || *dry_run || *no_wait
    }

    fn pace(&self) -> Pace {
        let How { limit, spread, first, expect, .. } = *self;
        Pace { limit, spread: spread.unwrap_or_default(), first, expect }
    }

    /// Does it, or says what it would be done to.
    pub(super) async fn carry_out(
        &self,
        operator: &Operator,
        many: Many,
        who: Who<'_>,
        json: bool,
    ) -> Result<Output, Trouble> {
        if self.dry_run {
            return Ok(previewed(operator.preview(many, self.pace()).await?, json));
        }
        let job = operator.begin(many, self.pace(), who).await?;
        match self.no_wait {
            true => Ok(told(&job, json)),
            false => Ok(told(&followed(operator, &job, json).await?, json)),
        }
    }
}

impl Calls {
    /// The calls that are meant; none when one is named. Nobody means everything by saying nothing.
    pub(super) fn chosen(
        &self,
        verb: &str,
        named: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<CallFilter>, Trouble> {
        let filter = CallFilter {
            ids: self.ids.clone(),
            workflow: self.workflow.clone(),
            activity: self.activity.clone(),
            status: self.status,
            failure_type: self.failure_type.clone(),
            failure_code: self.failure_code.clone(),
            tag: self.tag.clone(),
            queue: self.queue.clone(),
            started_since: self.started_since.map(|since| since.before(now)),
            failed_since: self.failed_since.map(|since| since.before(now)),
            paused_since: None,
            fingerprint: self.fingerprint.clone(),
            until: None,
        };
        let chooses = !filter.is_empty() || self.all;
        let hint = "name one, as in order-42 charge#6, or choose with --activity, --workflow and \
                    others; --all is every one";
        which(verb, "calls", named, chooses, &self.how, hint)?;
        Ok(named.is_none().then_some(filter))
    }

    pub(super) fn how(&self) -> &How {
        &self.how
    }
}

impl Runs {
    /// The instances that are meant; none when one is named.
    pub(super) fn chosen(
        &self,
        verb: &str,
        named: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<RunFilter>, Trouble> {
        let filter = RunFilter {
            ids: self.ids.clone(),
            workflow: self.workflow.clone(),
            status: self.status.clone(),
            started_since: self.started_since.map(|since| since.before(now)),
            ..RunFilter::default()
        };
        let filter = self.such.narrows(filter, now);
        let chooses = filter != RunFilter::default() || self.all;
        let hint = "name one by its id, or choose with --workflow, --status, --activity and \
                    others; --all is every one";
        which(verb, "instances", named, chooses, &self.how, hint)?;
        Ok(named.is_none().then_some(filter))
    }

    pub(super) fn how(&self) -> &How {
        &self.how
    }
}

/// Either one is named, or options choose.
fn which(
    verb: &str,
    what: &str,
    named: Option<&str>,
    chooses: bool,
    how: &How,
    hint: &str,
) -> Result<(), Trouble> {
    match named {
        None if !chooses => {
            Err(Mistake::new(format!("{verb}: nobody says which {what}")).hint(hint).into())
        }
        Some(named) if chooses || how.is_given() => {
            let message = format!("{verb} {named}: options for many {what}, and one is named");
            let hint = "leave out the name, or the options";
            Err(Mistake::new(message).hint(hint).into())
        }
        _ => Ok(()),
    }
}

fn call_status(name: &str) -> Result<CallStatus, String> {
    CallStatus::named(name).ok_or_else(|| "write waiting, retrying, running or paused".to_string())
}

fn status(name: &str) -> Result<Status, String> {
    let names = "write running, completed, failed, cancelled, terminated, blocked or paused";
    Status::named(name).ok_or_else(|| names.to_string())
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// Waits until a job is over, and says meanwhile how far it has come: with a bar where somebody
/// looks, otherwise with a line now and then.
async fn followed(operator: &Operator, job: &BulkJob, json: bool) -> Result<BulkJob, Trouble> {
    let over = operator.bulk_over(&job.id);
    let mut over = std::pin::pin!(over);
    let (draws, mut drawn) = (std::io::stderr().is_terminal() && !json, false);
    let pace = if draws { PACE.0 } else { PACE.1 };
    let mut is_told = false;
    let ended = loop {
        tokio::select! {
            ended = &mut over => break ended,
            () = tokio::time::sleep(pace) => {}
        }
        let job = match operator.bulk_job(&job.id).await {
            // It goes on without us, and so does who waits for it.
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut is_told, true) {
                    let noun = operator.noun();
                    let what = format!("the {noun} does not answer; waiting for it: {error}");
                    super::warn(&[what]);
                }
                continue;
            }
            found => found?,
        };
        let Some(job) = job.filter(|_| !json) else { continue };
        let text = match draws {
            true => format!("\r{}\x1b[K", bar(Progress::of(&job))),
            false => format!("{}: {}\n", job.id, Progress::of(&job)),
        };
        drawn = draws;
        // Nobody reads standard error: then nobody wants to know.
        let _ = std::io::stderr().write_all(text.as_bytes());
    };
    if drawn {
        let _ = std::io::stderr().write_all(b"\r\x1b[K");
    }
    Ok(ended?)
}

/// How far a job has come: `60 of 100, 3 refused`.
#[derive(Clone, Copy, Debug)]
struct Progress {
    done: u64,
    all: u64,
    refused: u64,
}

impl Progress {
    fn of(job: &BulkJob) -> Self {
        let done = job.counts.changed + job.counts.refused;
        Progress { done, all: expected(job), refused: job.counts.refused }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { done, all, refused } = self;
        write!(f, "{done} of {all}")?;
        if *refused > 0 { write!(f, ", {refused} refused") } else { Ok(()) }
    }
}

/// `[##################............] 60 of 100, 3 refused`
fn bar(progress: Progress) -> String {
    const WIDTH: u64 = 30;
    let Progress { done, all, .. } = progress;
    let filled = (done * WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH) as usize;
    let bar: String = "#".repeat(filled) + &".".repeat(WIDTH as usize - filled);
    format!("[{bar}] {progress}")
}

fn expected(job: &BulkJob) -> u64 {
    let expected = job.options.expected.min(job.options.limit.unwrap_or(u64::MAX));
    expected.max(job.counts.matched)
}

/// How a job stands, or how it ended.
fn told(job: &BulkJob, json: bool) -> Output {
    let nothing = job.counts.changed == 0 && job.counts.refused > 0;
    let exit = match job.state() {
        BulkState::Failed => Exit::Unexpected,
        _ if nothing => Exit::BadInput,
        _ => Exit::Done,
    };
    if json {
        return Output::json(line(&form(job)), exit);
    }
    let mut text = printable(&job.to_string()) + "\n";
    // The same sentence ten thousand times helps nobody.
    for Refused { call, why } in job.counts.listed.iter().take(PRINTED) {
        text += &printable(&format!("  {call}: {why}"));
        text.push('\n');
    }
    let others = job.counts.refused.saturating_sub(PRINTED as u64);
    if others > 0 {
        text += &format!("  and {others} others\n");
    }
    if job.counts.refused > 0 && matches!(job.action, Action::Redrive(_)) {
        text += "with --as-new the activity of a letter runs by itself, with the same arguments\n";
    }
    if !job.state().is_over() {
        let id = printable(&job.id);
        text += &format!("`resurgam bulk show {id} --wait` follows it; `resurgam bulk stop {id}` ");
        text += "ends it\n";
    }
    Output { exit, ..Output::done(text) }
}

/// What it would be done to.
fn previewed(preview: Preview, json: bool) -> Output {
    let Preview { count, of, listed } = preview;
    if json {
        let names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
        let form = Form::default().with("count", count).with("first", names);
        return Output::json(line(&form), Exit::Done);
    }
    let what = of.map(|of| format!(" {of}")).unwrap_or_default();
    let plural = if count == 1 || what.is_empty() { "" } else { "s" };
    let mut text = format!("{count}{what}{plural} would be changed\n");
    for (_, name) in &listed {
        text += &printable(&format!("  {name}"));
        text.push('\n');
    }
    let others = count.saturating_sub(listed.len() as u64);
    if others > 0 {
        text += &format!("  and {others} others\n");
    }
    Output::done(text)
}

/// A job for programs.
fn form(job: &BulkJob) -> Form {
    let refused =
        |refused: &Refused| Form::default().with("call", &refused.call).with("why", &refused.why);
    let listed: Vec<Form> = job.counts.listed.iter().map(refused).collect();
    Form::default()
        .with("id", &job.id)
        .with("state", job.state().name())
        .with("action", job.action.name())
        .with("expected", expected(job))
        .with("matched", job.counts.matched)
        .with("changed", job.counts.changed)
        .with("refused", job.counts.refused)
        .with("listed", listed)
        .with("by", &job.by)
        .with("reason", &job.reason)
        .with("stopped_by", &job.stopped_by)
        .with("error", &job.error)
        .with("created_at_ms", job.created_at)
        .with("closed_at_ms", job.closed_at)
}

/// What a job is about, in a few words.
fn about(job: &BulkJob) -> String {
    let mut about = About::default();
    match &job.target {
        BulkTarget::Calls(filter) => {
            about.names([&filter.activity, &filter.workflow]);
            about.parts.extend(filter.status.map(|status| status.name().to_string()));
            about.names([&filter.failure_type, &filter.failure_code, &filter.fingerprint]);
            about.tag(&filter.tag);
            about.called("queue", &filter.queue);
            about.since("started", filter.started_since);
            about.since("failed", filter.failed_since);
            about.since("paused", filter.paused_since);
            about.ids(&filter.ids);
        }
        BulkTarget::Runs(filter) => {
            about.names([&filter.workflow, &filter.activity]);
            about.names([&filter.failure_type, &filter.failure_code]);
            about.parts.extend(filter.status.iter().map(|status| status.name().to_string()));
            about.tag(&filter.tag);
            about.called("queue", &filter.queue);
            about.since("started", filter.started_since);
            about.since("failed", filter.failed_since);
            about.ids(&filter.ids);
        }
        BulkTarget::Letters(filter) => {
            about.parts.push("dead letters".to_string());
            about.names([&filter.activity, &filter.workflow, &filter.fingerprint]);
            about.names([&filter.failure_type, &filter.failure_code]);
            about.called("queue", &filter.queue);
            about.since("given up", filter.since);
            about.ids(&filter.ids);
        }
    }
    about.parts.join(" ")
}

/// The words that say which ones are meant. Names that can be told by their looks come alone.
#[derive(Default)]
struct About {
    parts: Vec<String>,
}

impl About {
    fn names<const N: usize>(&mut self, names: [&Option<String>; N]) {
        self.parts.extend(names.into_iter().flatten().cloned());
    }

    fn called(&mut self, what: &str, name: &Option<String>) {
        self.parts.extend(name.iter().map(|name| format!("{what} {name}")));
    }

    fn tag(&mut self, tag: &Option<(String, String)>) {
        self.parts.extend(tag.iter().map(|(name, value)| format!("{name}={value}")));
    }

    fn since(&mut self, what: &str, since: Option<Timestamp>) {
        self.parts.extend(since.map(|since| format!("{what} since {}", time_text(since))));
    }

    fn ids(&mut self, ids: &[String]) {
        self.parts.extend((!ids.is_empty()).then(|| format!("{} ids", ids.len())));
    }
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Stop(args) => args.run().await,
        }
    }

    pub(super) fn json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Stop(args) => args.json,
        }
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let (limit, none) = (self.limit as usize, "no actions on many");
        let list = List { reach: &self.reach, limit, times: self.times, json: self.json, none };
        let read = async |operator: &Operator, _, limit| {
            let after = match &self.after {
                None => None,
                Some(id) => match operator.bulk_job(id).await? {
                    Some(job) => Some(job),
                    None => return Err(unknown("list those behind", id)),
                },
            };
            Ok(operator.bulk_jobs(after.as_ref(), limit).await?)
        };
        list.page(read).await
    }
}

impl Listed for BulkJob {
    fn columns(_: TimeArgs) -> Vec<&'static str> {
        vec!["ID", "ACTION", "OF", "STATE", "DONE", "AGE", "BY"]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        vec![
            self.id.clone(),
            self.action.name().replace('_', "-"),
            printable(&about(self)),
            self.state().name().to_string(),
            Progress::of(self).to_string(),
            times.age(self.created_at, now),
            printable(&self.by),
        ]
    }

    fn form(&self) -> Form {
        form(self)
    }

    fn cursor(&self) -> Option<String> {
        Some(self.id.clone())
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let look = async |operator: &Operator| {
            let Some(job) = operator.bulk_job(&self.id).await? else {
                return Err(unknown("show", &self.id));
            };
            match self.wait {
                true => followed(operator, &job, self.json).await,
                false => Ok(job),
            }
        };
        let job = match self.wait {
            true => self.reach.ask(look).await?,
            false => self.reach.look(look).await?,
        };
        let mut output = told(&job, self.json);
        output.exit = Exit::Done;
        if !self.json {
            let reason = job.reason.iter().map(|reason| format!(" ({reason:?})"));
            let reason: String = reason.collect();
            let head = format!(
                "{} {} by {}{reason}: {}, {}\n",
                job.action.name().replace('_', "-"),
                about(&job),
                job.by,
                job.state().name(),
                Progress::of(&job)
            );
            output.stdout = printable(head.trim_end()) + "\n" + &output.stdout;
        }
        Ok(output)
    }
}

impl StopArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let by = self.by.clone().unwrap_or_else(resurgam::os_user);
        let stop = async |operator: &Operator| {
            if operator.bulk_job(&self.id).await?.is_none() {
                return Err(unknown("stop", &self.id));
            }
            Ok(operator.stop_bulk(&self.id, &by).await?)
        };
        let stopped = self.reach.ask(stop).await?;
        let exit = if stopped { Exit::Done } else { Exit::BadInput };
        if self.json {
            let form = Form::default().with("id", &self.id).with("stopped", stopped);
            return Ok(Output::json(line(&form), exit));
        }
        let text = match stopped {
            true => "stopped; what it has asked for is carried out",
            false => "it was over, or stopped before",
        };
        Ok(Output { exit, ..Output::done(format!("{text}\n")) })
    }
}

fn unknown(verb: &str, id: &str) -> Trouble {
    let message = format!("{verb} {id}: there is no such action on many");
    Mistake::new(message).hint("`resurgam bulk list` lists them").into()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_bar_says_how_far_a_job_has_come() {
        let of = |done, all, refused| bar(Progress { done, all, refused });
        assert_eq!(of(0, 100, 0), "[..............................] 0 of 100");
        assert_eq!(of(60, 100, 3), "[##################............] 60 of 100, 3 refused");
        assert_eq!(of(99, 100, 0), "[#############################.] 99 of 100");
        assert_eq!(of(100, 100, 0), "[##############################] 100 of 100");
        assert_eq!(of(0, 0, 0), "[##############################] 0 of 0");
    }
}
