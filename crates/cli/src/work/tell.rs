//! `resurgam signal`, `cancel` and `terminate`: telling an instance something.

use serde_json::Value;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::program::{Kind, Text};
use crate::trouble::{Mistake, Trouble};

/// Send a signal to an instance
#[derive(Debug, clap::Args)]
pub(crate) struct SignalArgs {
    /// The instance
    id: String,
    /// The name of the signal
    name: String,
    /// Its value as JSON; @FILE reads it from a file, - from standard input
    #[arg(default_value = "null")]
    value: String,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// Ask an instance to end
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The instance
    id: String,
    /// Why, for those who look at it later
    #[arg(long, default_value = "cancelled on the command line")]
    reason: String,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// End an instance without asking its code, which undoes nothing
///
/// For one that is blocked and that nobody will mend; otherwise use `cancel`.
#[derive(Debug, clap::Args)]
pub(crate) struct TerminateArgs {
    /// The instance
    id: String,
    /// Why, for those who look at it later
    #[arg(long, default_value = "terminated on the command line")]
    reason: String,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl SignalArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let Text { place, json } = Text::given("the value of the signal", &self.value)?;
        let value: Value = serde_json::from_str(&json)
            .map_err(|error| Trouble::refused(format!("{place} is not JSON: {error}")))?;
        let send = async |operator: &Operator| {
            if let Some(row) = operator.find(&self.id).await?
                && let Ok(kind) = Kind::of(&row.input)
            {
                return Err(reads_no_signals(&self.id, kind));
            }
            Ok(operator.signal(&self.id, &self.name, &value).await?)
        };
        self.reach.ask(send).await?;
        let form = Form::default().with("id", &self.id).with("signal", &self.name);
        Ok(told(&form, self.json, &format!("{} is sent to {}", self.name, self.id)))
    }
}

impl CancelArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.reach.ask(async |operator| Ok(operator.cancel(&self.id, &self.reason).await?)).await?;
        let form = Form::default().with("id", &self.id).with("cancel", &self.reason);
        Ok(told(&form, self.json, &format!("{} is asked to end", self.id)))
    }
}

impl TerminateArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        self.reach
            .ask(async |operator| Ok(operator.terminate(&self.id, &self.reason).await?))
            .await?;
        let form = Form::default().with("id", &self.id).with("terminate", &self.reason);
        Ok(told(&form, self.json, &format!("{} ends as it is", self.id)))
    }
}

/// A signal that nobody can ever read is a mistake of whoever sends it, and is not stored.
fn reads_no_signals(id: &str, kind: Kind) -> Trouble {
    let what = match kind {
        Kind::Program => "a program (.rap)",
        Kind::Graph => "a graph",
    };
    let message = format!("{id} runs {what}, and those cannot wait for signals; nothing was sent");
    let hint = "signals are for workflows in code; `cancel` and `terminate` work for all";
    Mistake::new(message).hint(hint).into()
}

/// It is durable: whoever works on the database sees to it.
fn told(form: &Form, json: bool, text: &str) -> Output {
    match json {
        true => Output::json(line(form), Exit::Done),
        false => Output::done(printable(text) + "\n"),
    }
}
