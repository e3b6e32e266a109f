//! `resurgam pause`, `resume`, `restart` and `reset`: what operators do to a run.

use resurgam::{Act, ResetTo, RunHandle, Seq};

use super::request::RequestArgs;
use crate::form::Form;
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
        self.of.act("restart", |run| run.restart()).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl ResetArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let ResetArgs { of, to, drop_signals, even_if_undone } = self;
        let to = to.place();
        let reset = |run: &RunHandle| {
            let mut reset = run.reset(to.clone());
            if drop_signals {
                reset = reset.drop_signals();
            }
            if even_if_undone {
                reset = reset.even_if_undone();
            }
            reset
        };
        of.act("reset", reset).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

/// Which instance, and who does it.
#[derive(Debug, clap::Args)]
struct Of {
    /// The instance
    id: String,
    #[command(flatten)]
    request: RequestArgs,
}

impl PauseArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let calls = self.calls;
        let pause = |run: &RunHandle| match calls {
            true => run.pause().calls(),
            false => run.pause(),
        };
        self.of.act("pause", pause).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl ResumeArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.of.act("resume", |run| run.resume()).await
    }

    pub(super) fn json(&self) -> bool {
        self.of.request.json
    }
}

impl Of {
    async fn act(&self, verb: &str, act: impl Fn(&RunHandle) -> Act) -> Result<Output, Trouble> {
        let named = Form::default().with("id", &self.id);
        self.request.act(verb, named, |client| act(&client.run(&self.id))).await
    }
}
