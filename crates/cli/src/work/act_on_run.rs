//! `resurgam pause`, `resume`, `restart` and `reset`: what operators do to a run, or to many.

use resurgam::{Action, Reset, ResetTo, Seq, Timestamp};

use super::bulk::Runs;
use super::request::RequestArgs;
use crate::form::Form;
use crate::operator::{Many, On, Operator, Those};
use crate::output::Output;
use crate::trouble::Trouble;

/// Keep an instance from going on until somebody resumes it
///
/// Signals, timers and results are kept until then, and its own timeouts stand still. Its open
/// calls go on, unless --calls is given.
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    of: Of,
    /// Pause its open calls too; they go on with it
    #[arg(long)]
    calls: bool,
}

/// Let a paused instance go on
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    of: Of,
}

/// Begin a closed instance again, with the same input, options and tags
#[derive(Debug, clap::Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    of: Of,
}

/// Have an instance go on from an earlier place in its history
///
/// Its next run begins with a copy of the history before that event. Calls that were open there
/// begin again; signals that were taken after it come again.
#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    to: To,
    /// Drop the signals that were taken after that place
    #[arg(long)]
    drop_signals: bool,
    /// Reset it although it has begun to undo what it did; what is undone stays undone
    #[arg(long)]
    even_if_undone: bool,
}

/// Where to go back to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// Go back to before this event; `resurgam history` numbers them
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Go back to before the call, or the child, that failed last
    #[arg(long)]
    last_failure: bool,
    /// Go back to before the last call of this activity
    #[arg(long, value_name = "ACTIVITY")]
    before: Option<String>,
}

impl To {
    fn place(self) -> ResetTo {
        match self {
            To { to: Some(seq), .. } => ResetTo::Event(Seq(seq)),
            To { before: Some(activity), .. } => ResetTo::Before(activity),
            To { .. } => ResetTo::LastFailure,
        }
    }
}

impl RestartArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.of.act("restart", Action::Restart).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl ResetArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let ResetArgs { of, to, drop_signals, even_if_undone } = self;
        let reset = Reset { drop_signals, even_if_undone, ..Reset::to(to.place()) };
        of.act("reset", Action::Reset(reset)).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

/// Which instance, or which ones, and who does it.
#[derive(Debug, clap::Args)]
struct Of {
    /// The instance; options choose many unless given
    id: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    runs: Runs,
}

impl PauseArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.of.act("pause", Action::PauseRun { calls: self.calls }).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl ResumeArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.of.act("resume", Action::ResumeRun).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl Of {
    /// Does it to the instance that is named, or to all that options choose.
    async fn act(&self, verb: &str, action: Action) -> Result<Output, Trouble> {
        // Before the database is opened, so that a mistake costs nothing.
        self.runs.chosen(verb, self.id.as_deref(), Timestamp::EPOCH)?;
        if let Some(id) = &self.id {
            let named = Form::default().with("id", id);
            return self.request.act(verb, named, &On::Run(id.clone()), action).await;
        }
        let chosen = |operator: &Operator| {
            let filter = self.runs.chosen(verb, None, operator.now())?.unwrap_or_default();
            Ok(Many { those: Those::Runs(filter), action: action.clone() })
        };
        self.request.act_on_many(self.runs.how(), chosen).await
    }
}
