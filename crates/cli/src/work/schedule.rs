//! `resurgam schedule`: what starts programs and graphs by the clock.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Subcommand;
use resurgam::Timestamp;
use resurgam::schedule::{Overlap, Rule, Schedule, ScheduleDescription, When};
use resurgam_core::duration::{self, Human, Text};
use resurgam_core::schedule::{parse_time, time_text};
use resurgam_core::{Code, Payload};

use super::listing::{List, Listed};
use super::{forms, warn};
use crate::exit::Exit;
use crate::form::{Form, line, readable};
use crate::help;
use crate::moment::{Moment, TimeArgs};
use crate::operator::{NewSchedule, Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::program::{self, Argument, FileArgs, InputArgs};
use crate::style::FAINT;
use crate::trouble::{Mistake, Trouble};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List schedules, by id
    #[command(after_help = help::SCHEDULE_LIST)]
    List(ListArgs),
    /// Show a schedule, its next times and what it has started
    #[command(after_help = help::SCHEDULE_SHOW)]
    Show(ShowArgs),
    #[command(after_help = help::SCHEDULE_CREATE)]
    Create(Box<CreateArgs>),
    /// Pause a schedule: what would fire meanwhile is forgotten
    ///
    /// Its instances go on.
    #[command(after_help = help::SCHEDULE_PAUSE)]
    Pause(OneArgs),
    /// Let a paused schedule fire again, from now on
    #[command(after_help = help::SCHEDULE_RESUME)]
    Resume(OneArgs),
    /// Start an instance of a schedule now, also while it is paused
    #[command(after_help = help::SCHEDULE_RUN)]
    Run(OneArgs),
    #[command(after_help = help::SCHEDULE_BACKFILL)]
    Backfill(BackfillArgs),
    /// Delete a schedule; its instances go on
    #[command(after_help = help::SCHEDULE_DELETE)]
    Delete(OneArgs),
}

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

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The schedule
    id: String,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// The schedule
    id: String,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Create a schedule that starts a program or a graph by the clock
///
/// One of this id that says the same is left as it is, also when it is paused. One that says
/// something else is refused, unless --replace is given.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["cron", "every"]))]
pub(crate) struct CreateArgs {
    /// The id of the schedule; its instances are called ID/TIME
    id: String,
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    input: InputArgs,
    /// When, as a cron expression: minute, hour, day, month, weekday; or @daily
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The time zone of the cron expression, such as Europe/Berlin; UTC unless given
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// How often, as a fixed interval, such as 90m
    #[arg(long, value_name = "TIME", value_parser = time)]
    every: Option<Duration>,
    /// A time at which the interval fires
    #[arg(long, value_name = "TIME", value_parser = moment)]
    anchor: Option<Timestamp>,
    /// What a firing does while the last instance is open: skip, buffer_one or allow; skip unless
    /// given
    #[arg(long, value_name = "WHAT", value_parser = overlap)]
    overlap: Option<Overlap>,
    /// How late a firing may start when nobody worked at its time; 1m unless given
    #[arg(long, value_name = "TIME", value_parser = time)]
    catch_up: Option<Duration>,
    /// Delay each firing by a share of this
    #[arg(long, value_name = "TIME", value_parser = time)]
    jitter: Option<Duration>,
    /// No firing before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    not_before: Option<Timestamp>,
    /// No firing after this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    not_after: Option<Timestamp>,
    /// Create it paused
    #[arg(long)]
    paused: bool,
    /// Take the place of a schedule of this id that says something else
    #[arg(long)]
    replace: bool,
    /// The queue of the actions of its instances
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Start the firings of a past range now, all at once
///
/// Both ends count, and those that have their instance already are not started again: so a backfill
/// that was interrupted can be repeated. At most 10,000.
#[derive(Debug, clap::Args)]
pub(crate) struct BackfillArgs {
    /// The schedule
    id: String,
    /// The beginning: how long ago (2d), a day or a time (2026-11-15T09:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    from: Moment,
    /// The end, in the same way; now unless given
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    to: Option<Moment>,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|what| format!("this {what}"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    parse_time(text).map_err(|what| format!("this {what}"))
}

/// The names are those of the form in JSON.
const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("buffer_one", Overlap::BufferOne), ("allow", Overlap::Allow)];

fn overlap(name: &str) -> Result<Overlap, String> {
    let found = OVERLAPS.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, overlap)| overlap).ok_or_else(|| "write skip, buffer_one or allow".to_string())
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Create(args) => args.run().await,
            Command::Pause(args) => {
                args.reach
                    .ask(async |operator| Ok(operator.pause_schedule(&args.id).await?))
                    .await?;
                Ok(args.told("paused", true, "is paused"))
            }
            Command::Resume(args) => {
                args.reach
                    .ask(async |operator| Ok(operator.resume_schedule(&args.id).await?))
                    .await?;
                Ok(args.told("paused", false, "fires again"))
            }
            Command::Run(args) => {
                let run = async |operator: &Operator| Ok(operator.run_schedule(&args.id).await?);
                let instance = args.reach.ask(run).await?;
                Ok(match args.json {
                    true => args.told("instance", instance, ""),
                    false => Output::done(printable(&instance) + "\n"),
                })
            }
            Command::Backfill(args) => args.run().await,
            Command::Delete(args) => {
                args.reach
                    .ask(async |operator| Ok(operator.delete_schedule(&args.id).await?))
                    .await?;
                Ok(args.told("deleted", true, "is deleted; its instances go on"))
            }
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Create(args) => args.json,
            Command::Backfill(args) => args.json,
            Command::Pause(args)
            | Command::Resume(args)
            | Command::Run(args)
            | Command::Delete(args) => args.json,
        }
    }
}

impl OneArgs {
    /// What was done to it.
    fn told(&self, name: &'static str, value: impl serde::Serialize, text: &str) -> Output {
        match self.json {
            true => {
                let form = Form::default().with("id", &self.id).with(name, value);
                Output::json(line(&form), Exit::Done)
            }
            false => Output::done(format!("{} {text}\n", printable(&self.id))),
        }
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let (limit, none) = (usize::MAX, "no schedules");
        let list = List { reach: &self.reach, limit, times: self.times, json: self.json, none };
        list.page(async |operator: &Operator, _, _| Ok(operator.schedules().await?)).await
    }
}

impl Listed for ScheduleDescription {
    fn columns(_: TimeArgs) -> Vec<&'static str> {
        vec!["ID", "WORKFLOW", "WHEN", "NEXT", "STARTED", ""]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        let none = if self.paused { "-" } else { "never" };
        let next = self.next.first().map(|next| times.future(*next, now));
        vec![
            printable(&self.id),
            printable(&self.workflow),
            printable(&when(self)),
            next.unwrap_or_else(|| none.to_string()),
            self.started.to_string(),
            printable(&note(self)),
        ]
    }

    fn form(&self) -> Form {
        form(self)
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let read =
            async |operator: &Operator| Ok((find(operator, &self.id).await?, operator.now()));
        let (found, now) = self.reach.look(read).await?;
        Ok(match self.json {
            true => {
                let form = form(&found).with("input", forms::started_with(&found.input));
                Output::json(line(&form), Exit::Done)
            }
            false => Output::done(shown(&found, now, self.times)),
        })
    }
}

/// The schedule, which must be there.
async fn find(operator: &Operator, id: &str) -> Result<ScheduleDescription, Trouble> {
    let found = operator.schedule(id).await?;
    found.ok_or_else(|| {
        let message = format!("look at schedule {id}: there is no schedule of this id");
        Mistake::new(message).code(Code::E2).into()
    })
}

impl CreateArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let source = self.file.read()?;
        let Argument { payload, warnings } = self.input.argument(&source)?;
        warn(&source.warnings());
        warn(&warnings);
        let workflow = source.workflow();
        let create = async |operator: &Operator| {
            self.put(operator, &workflow, payload).await?;
            Ok((find(operator, &self.id).await?, operator.now()))
        };
        let (made, now) = self.reach.ask_new(create).await?;
        if self.json {
            return Ok(Output::json(line(&form(&made)), Exit::Done));
        }
        let text = match made.next.first() {
            _ if made.paused => "is paused; `resurgam schedule resume` lets it fire".to_string(),
            None => "never fires".to_string(),
            Some(next) => format!("fires next {}", self.times.future(*next, now)),
        };
        Ok(Output::done(format!("{} {text}\n", printable(&self.id))))
    }

    async fn put(
        &self,
        operator: &Operator,
        workflow: &str,
        payload: Payload,
    ) -> Result<(), Trouble> {
        let argument = self.argument(operator, workflow, payload).await?;
        let mut schedule = Schedule::new(self.id.clone(), self.rule());
        if let Some(overlap) = self.overlap {
            schedule = schedule.overlap(overlap);
        }
        if let Some(window) = self.catch_up {
            schedule = schedule.catch_up(window);
        }
        if let Some(jitter) = self.jitter {
            schedule = schedule.jitter(jitter);
        }
        if let Some(time) = self.not_before {
            schedule = schedule.not_before(time);
        }
        if let Some(time) = self.not_after {
            schedule = schedule.not_after(time);
        }
        if self.paused {
            schedule = schedule.paused(true);
        }
        let (workflow, queue) = (workflow.to_string(), self.queue.clone());
        let new = NewSchedule { schedule, workflow, argument, queue, replace: self.replace };
        match operator.put_schedule(new).await {
            Err(error) if error.is_already_exists() => {
                let mistake = Mistake::new(error.to_string()).code(error.code());
                Err(mistake.hint("--replace takes its place").into())
            }
            put => Ok(put?),
        }
    }

    fn rule(&self) -> Rule {
        let rule = match (&self.cron, self.every) {
            (Some(cron), _) => Rule::cron(cron.clone()),
            (None, every) => Rule::every(every.unwrap_or_default()),
        };
        let rule = self.zone.iter().fold(rule, |rule, zone| rule.in_zone(zone.clone()));
        self.anchor.into_iter().fold(rule, Rule::anchored_at)
    }

    /// The argument; that of the schedule of this id where it means the same. Secrets look
    /// different each time they are encrypted, and a layout changes nothing.
    async fn argument(
        &self,
        operator: &Operator,
        workflow: &str,
        new: Payload,
    ) -> Result<Payload, Trouble> {
        let Some(there) = operator.schedule_whole(&self.id).await? else { return Ok(new) };
        let shown = operator.shown(&new);
        let difference = program::difference(&there.input, &shown, program::key()?.as_ref());
        // Of secrets a server tells the names, so what it shows of them is not what is there.
        let is_whole = shown == new;
        let is_same = is_whole && there.workflow == workflow && difference.is_none();
        Ok(if is_same { there.input } else { new })
    }
}

impl BackfillArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let backfill = async |operator: &Operator| {
            let now = operator.now();
            let (from, to) = (self.from.before(now), self.to.map_or(now, |to| to.before(now)));
            Ok((operator.backfill(&self.id, from, to).await?, from, to))
        };
        let (started, from, to) = self.reach.ask(backfill).await?;
        if self.json {
            let form = Form::default().with("id", &self.id).with("started", started);
            let form = form.with("from_ms", from).with("to_ms", to);
            return Ok(Output::json(line(&form), Exit::Done));
        }
        let (id, from, to) = (printable(&self.id), time_text(from), time_text(to));
        Ok(Output::done(format!("{started} started for {id}, {from} to {to}\n")))
    }
}

/// When it fires, in the words of its options.
fn when(found: &ScheduleDescription) -> String {
    let Some(Schedule { rule, .. }) = &found.schedule else { return "?".to_string() };
    match (&rule.when, &rule.zone) {
        (When::Cron(cron), Some(zone)) => format!("{cron} {zone}"),
        (When::Cron(cron), None) => cron.to_string(),
        (When::Every(time), _) => format!("every {}", Text(*time)),
    }
}

/// What an operator should know, in few words.
fn note(found: &ScheduleDescription) -> String {
    let mut notes = Vec::new();
    if found.paused {
        notes.push("paused".to_string());
    }
    notes.extend(found.error.clone());
    for (times, what) in [(found.missed, "missed"), (found.skipped, "skipped")] {
        if times > 0 {
            notes.push(format!("{times} {what}"));
        }
    }
    notes.join(", ")
}

fn shown(found: &ScheduleDescription, now: Timestamp, times: TimeArgs) -> String {
    let mut out = String::new();
    let mut tell = |name: &str, value: &str| {
        let lines: Vec<String> = value.lines().map(printable).collect();
        let value = lines.join(&format!("\n{:11}", ""));
        let _infallible = writeln!(out, "{FAINT}{name:<10}{FAINT:#} {value}");
    };
    tell("id", &found.id);
    tell("workflow", &found.workflow);
    tell("when", &when(found));
    if let Some(schedule) = &found.schedule {
        let overlap = OVERLAPS.into_iter().find(|(_, overlap)| *overlap == schedule.overlap);
        tell("overlap", overlap.map_or("?", |(name, _)| name));
        tell("catch-up", &Human(schedule.catch_up).to_string());
        if !schedule.jitter.is_zero() {
            tell("jitter", &Human(schedule.jitter).to_string());
        }
        for (name, time) in [("not before", schedule.not_before), ("not after", schedule.not_after)]
        {
            if let Some(time) = time {
                tell(name, &time_text(time));
            }
        }
    }
    tell("created", &times.past(found.created_at, now));
    tell("input", &readable(forms::started_with(&found.input).get()));
    if found.paused {
        tell("paused", "it fires when it is resumed");
    }
    if let Some(error) = &found.error {
        tell("error", error);
    }
    let next: Vec<String> = found.next.iter().map(|next| time_text(*next)).collect();
    if !next.is_empty() {
        tell("next", &next.join("\n"));
    }
    if let Some(time) = found.buffered {
        tell("waits", &format!("the firing of {}, for the last instance", time_text(time)));
    }
    if let Some(last) = &found.last {
        let state = if found.last_open { " (open)" } else { "" };
        tell("last", &format!("{last}{state}"));
    }
    let ScheduleDescription { started, missed, skipped, .. } = found;
    tell("counts", &format!("{started} started, {missed} missed, {skipped} skipped"));
    out
}

/// A schedule for programs. What it says itself has the form of `docs/schedules.md`.
fn form(found: &ScheduleDescription) -> Form {
    Form::default()
        .with("id", &found.id)
        .with("workflow", &found.workflow)
        .with("schedule", &found.schedule)
        .with("paused", found.paused)
        .with("error", &found.error)
        .with("next_ms", &found.next)
        .with("buffered_ms", found.buffered)
        .with("last", &found.last)
        .with("last_open", found.last_open)
        .with("started", found.started)
        .with("missed", found.missed)
        .with("skipped", found.skipped)
        .with("created_at_ms", found.created_at)
}
