//! `resurgam gate list|show|shut|open|auto|set|unset`, and `resurgam activity|queue pause|resume`:
//! gates, and kinds of calls as a whole.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use resurgam::gate::Gate;
use resurgam::{Acted, GateStatus, Hold, HoldKind, Timestamp};
use resurgam_core::duration;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::TimeArgs;
use crate::operator::{OnGate, Operator, Reach, Who};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::style::{FAINT, STRONG};
use crate::trouble::Trouble;
use crate::work::policy::ByArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::GATE_LIST)]
    List(ListArgs),
    #[command(after_help = help::GATE_SHOW)]
    Show(ShowArgs),
    #[command(after_help = help::GATE_SHUT)]
    Shut(ShutArgs),
    #[command(after_help = help::GATE_OPEN)]
    Open(OpenArgs),
    #[command(after_help = help::GATE_AUTO)]
    Auto(AutoArgs),
    #[command(after_help = help::GATE_SET)]
    Set(SetArgs),
    #[command(after_help = help::GATE_UNSET)]
    Unset(UnsetArgs),
}

/// List gates that did not always flow, that somebody set, or behind which calls are due
///
/// With them the activities and queues that are paused.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    look: LookArgs,
}

/// Show how a gate stands, why, and what waits behind it
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The key of the gate; the name of the activity, unless its calls name another one
    key: String,
    #[command(flatten)]
    look: LookArgs,
}

/// Have nothing begin behind a gate
///
/// Attempts that run go on. Calls that wait use up none of their attempts.
#[derive(Debug, clap::Args)]
pub(crate) struct ShutArgs {
    /// The key of the gate
    key: String,
    #[command(flatten)]
    time: ForArgs,
    #[command(flatten)]
    by: ByArgs,
}

/// Have calls begin behind a gate, whatever becomes of them
///
/// Bounds on their rate and on how many run at once stay.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// The key of the gate
    key: String,
    #[command(flatten)]
    time: ForArgs,
    #[command(flatten)]
    by: ByArgs,
}

/// Have a gate decide by itself again that was shut or opened
#[derive(Debug, clap::Args)]
pub(crate) struct AutoArgs {
    /// The key of the gate
    key: String,
    #[command(flatten)]
    by: ByArgs,
}

/// Store settings for a gate, which come before those in the code
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The key of the gate, or what keys begin with and a star: 'host:*'
    key: String,
    /// The settings: a JSON or TOML file, or - for standard input
    settings: PathBuf,
    #[command(flatten)]
    by: ByArgs,
}

/// Remove the settings that are stored for a gate
#[derive(Debug, clap::Args)]
pub(crate) struct UnsetArgs {
    /// The key of the gate, as it was set
    key: String,
    #[command(flatten)]
    by: ByArgs,
}

/// For how long.
#[derive(Debug, clap::Args)]
struct ForArgs {
    /// For how long, such as 2h; until somebody changes it, unless given
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    lasting: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct LookArgs {
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// What is done to all calls of an activity.
#[derive(Debug, Subcommand)]
pub(crate) enum ActivityCommand {
    /// Have no attempt of any call of an activity begin until it is resumed
    #[command(after_help = help::ACTIVITY_PAUSE)]
    Pause(KindArgs),
    /// Let the calls of an activity go on
    #[command(after_help = help::ACTIVITY_RESUME)]
    Resume(KindArgs),
}

/// What is done to all calls of a queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Have no attempt of any call of a queue begin until it is resumed
    #[command(after_help = help::QUEUE_PAUSE)]
    Pause(KindArgs),
    /// Let the calls of a queue go on
    #[command(after_help = help::QUEUE_RESUME)]
    Resume(KindArgs),
}

/// A kind of calls.
#[derive(Debug, clap::Args)]
pub(crate) struct KindArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    by: ByArgs,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Shut(ShutArgs { key, time, by }) => {
                by.act("shut", &key, OnGate::Shut(key.clone(), time.lasting)).await
            }
            Command::Open(OpenArgs { key, time, by }) => {
                by.act("open", &key, OnGate::Open(key.clone(), time.lasting)).await
            }
            Command::Auto(AutoArgs { key, by }) => {
                by.act("auto", &key, OnGate::Auto(key.clone())).await
            }
            Command::Set(SetArgs { key, settings, by }) => {
                let settings = Box::new(read_settings(&settings)?);
                by.act("set", &key, OnGate::Set(key.clone(), settings)).await
            }
            Command::Unset(UnsetArgs { key, by }) => {
                by.act("unset", &key, OnGate::Unset(key.clone())).await
            }
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match self {
            Command::List(args) => args.look.json,
            Command::Show(args) => args.look.json,
            Command::Shut(args) => args.by.json,
            Command::Open(args) => args.by.json,
            Command::Auto(args) => args.by.json,
            Command::Set(args) => args.by.json,
            Command::Unset(args) => args.by.json,
        }
    }
}

impl ActivityCommand {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            ActivityCommand::Pause(KindArgs { name, by }) => {
                by.act("pause", &name, OnGate::Pause(HoldKind::Activity, name.clone())).await
            }
            ActivityCommand::Resume(KindArgs { name, by }) => {
                by.act("resume", &name, OnGate::Resume(HoldKind::Activity, name.clone())).await
            }
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        let (ActivityCommand::Pause(args) | ActivityCommand::Resume(args)) = self;
        args.by.json
    }
}

impl QueueCommand {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            QueueCommand::Pause(KindArgs { name, by }) => {
                by.act("pause", &name, OnGate::Pause(HoldKind::Queue, name.clone())).await
            }
            QueueCommand::Resume(KindArgs { name, by }) => {
                by.act("resume", &name, OnGate::Resume(HoldKind::Queue, name.clone())).await
            }
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        let (QueueCommand::Pause(args) | QueueCommand::Resume(args)) = self;
        args.by.json
    }
}

impl ByArgs {
    /// Who asks for it, and why.
    pub(super) fn who(&self) -> Who<'_> {
        Who { by: self.by.as_deref(), reason: self.reason.as_deref(), request_id: None }
    }

    async fn act(&self, verb: &str, name: &str, does: OnGate) -> Result<Output, Trouble> {
        let act = async |operator: &Operator| Ok(operator.on_gate(does, self.who()).await?);
        let acted = self.reach.ask(act).await?;
        if !self.json {
            return Ok(Output::done(printable(&acted.to_string()) + "\n"));
        }
        let form = Form::default()
            .with("name", name)
            .with("action", verb)
            .with("changed", acted.changed())
            .with("stored", matches!(acted, Acted::Stored))
            .with("answer", acted.to_string());
        Ok(Output::json(line(&form), Exit::Done))
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let read = async |operator: &Operator| {
            let (gates, holds) = operator.gates().await?;
            Ok((gates, holds, operator.now()))
        };
        let (gates, holds, now) = self.look.reach.look(read).await?;
        if self.look.json {
            let gates: Vec<Form> = gates.iter().map(|gate| form(gate, now)).collect();
            let holds: Vec<Form> = holds.iter().map(hold_form).collect();
            let both = Form::default().with("gates", gates).with("paused", holds);
            return Ok(Output::json(line(&both), Exit::Done));
        }
        if gates.is_empty() && holds.is_empty() {
            let note = "every gate flows, and nothing is paused\n".to_string();
            return Ok(Output { stderr: note, ..Output::done(String::new()) });
        }
        let mut out = String::new();
        for gate in &gates {
            tell(&mut out, gate, now);
        }
        for hold in &holds {
            let (kind, name) = (hold.kind.name(), printable(&hold.name));
            let ago = self.look.times.past(hold.since, now);
            let reason = hold.reason.as_ref().map(|why| format!(" (\"{}\")", printable(why)));
            let _infallible = writeln!(
                out,
                "{STRONG}{name}{STRONG:#}  {kind} paused by {} {ago}{}",
                printable(&hold.by),
                reason.unwrap_or_default()
            );
        }
        Ok(Output::done(out))
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let read =
            async |operator: &Operator| Ok((operator.gate(&self.key).await?, operator.now()));
        let (gate, now) = self.look.reach.look(read).await?;
        let Some(gate) = gate else {
            let key = printable(&self.key);
            let text = format!("gate {key} flows: nothing is stored of it, and no call waits\n");
            return Ok(match self.look.json {
                true => Output::json("null\n".to_string(), Exit::Done),
                false => Output::done(text),
            });
        };
        if self.look.json {
            return Ok(Output::json(line(&form(&gate, now)), Exit::Done));
        }
        let mut out = String::new();
        tell(&mut out, &gate, now);
        Ok(Output::done(out))
    }
}

/// A gate in two or three lines.
fn tell(out: &mut String, gate: &GateStatus, now: Timestamp) {
    let (key, stands) = (printable(&gate.key), printable(&gate.told_at(now)));
    let _infallible = writeln!(out, "{STRONG}{key}{STRONG:#}  {stands}");
    let mut more = |text: &str| {
        let _infallible = writeln!(out, "  {FAINT}{}{FAINT:#}", printable(text));
    };
    match gate.due {
        0 => {}
        1 => more("1 call is due and waits"),
        due => more(&format!("{due} calls are due and wait")),
    }
    if let Some(settings) = &gate.settings {
        let by = gate.settings_by.as_deref().unwrap_or("somebody");
        let text = serde_json::to_string(settings).unwrap_or_default();
        more(&format!("settings by {by}: {text}"));
    }
}

/// How a gate stands, and what is due behind it.
pub(super) fn form(gate: &GateStatus, now: Timestamp) -> Form {
    let by_hand = gate.state.by_hand.as_ref().map(|by_hand| {
        Form::default()
            .with("shut", by_hand.shut)
            .with("by", &by_hand.by)
            .with("reason", &by_hand.reason)
            .with("since_ms", by_hand.since)
            .with("until_ms", by_hand.until)
    });
    Form::default()
        .with("key", &gate.key)
        .with("standing", gate.state.standing().name())
        .with("since_ms", gate.state.since)
        .with("why", gate.state.why.to_string())
        .with("told", gate.told_at(now))
        .with("next_change_ms", gate.state.next_change())
        .with("by_hand", by_hand)
        .with("settings", &gate.settings)
        .with("settings_by", &gate.settings_by)
        .with("bounds", &gate.bounds)
        .with("due", gate.due)
        .with("next_turn_ms", gate.next_turn(now))
        .with("first_due_ms", gate.first_due)
}

fn hold_form(hold: &Hold) -> Form {
    Form::default()
        .with("kind", hold.kind.name())
        .with("name", &hold.name)
        .with("by", &hold.by)
        .with("reason", &hold.reason)
        .with("since_ms", hold.since)
}

/// Reads settings that somebody wrote.
fn read_settings(path: &Path) -> Result<Gate, Trouble> {
    let named = path.display();
    let text = match path == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| Trouble::refused(format!("read {named}: {error}")))?;
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    let value: Result<serde_json::Value, String> = match is_toml {
        true => toml::from_str(&text).map_err(|error| error.to_string()),
        false => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    let gate = value.and_then(|value| Gate::from_value(&value).map_err(|why| why.to_string()));
    gate.map_err(|why| Trouble::refused(format!("the settings of a gate in {named}: {why}")))
}
