//! `resurgam signal` and `resurgam cancel`: telling an instance something.

use serde_json::Value;

use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::output::Output;
use crate::trouble::Trouble;

/// Send a signal to an instance
#[derive(Debug, clap::Args)]
pub(crate) struct SignalArgs {
    /// The instance
    id: String,
    /// The name of the signal
    name: String,
    /// Its value as JSON
    #[arg(default_value = "null")]
    value: String,
    #[command(flatten)]
    db: DbArgs,
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
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl SignalArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let value: Value = serde_json::from_str(&self.value).map_err(|error| {
            Trouble::refused(format!("the value of the signal is not JSON: {error}"))
        })?;
        let client = self.db.client().await?;
        client.signal(&self.id, &self.name, &value).await?;
        Ok(told(&Form::default().with("id", &self.id).with("signal", &self.name), self.json))
    }
}

impl CancelArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let client = self.db.client().await?;
        client.cancel(&self.id, &self.reason).await?;
        Ok(told(&Form::default().with("id", &self.id).with("cancel", &self.reason), self.json))
    }
}

/// It is durable; there is nothing to say but that.
fn told(form: &Form, json: bool) -> Output {
    match json {
        true => Output::json(line(form), Exit::Done),
        false => Output::done(String::new()),
    }
}
