//! What all commands that act on a call or on a run have in common: who asks for it and why, and
//! how the answer is printed.

use resurgam::{Act, Acted, BulkAct, Client};

use super::bulk::{How, Who};
use crate::database::DbArgs;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::Trouble;

/// Who asks for an action, and where.
#[derive(Debug, clap::Args)]
pub(super) struct RequestArgs {
    /// Who does it, for those who look at it later; the user of the operating system by default
    #[arg(long)]
    by: Option<String>,
    /// Why, for those who look at it later
    #[arg(long)]
    reason: Option<String>,
    /// What makes a repeated request one: it gets the first answer
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl RequestArgs {
    /// Has an action carried out and prints what came of it; `named` is what it is done to.
    pub(super) async fn act(
        &self,
        verb: &str,
        named: Form,
        act: impl Fn(&Client) -> Act,
    ) -> Result<Output, Trouble> {
        let acted = async |client: &Client| {
            let mut act = act(client);
            if let Some(by) = &self.by {
                act = act.by(by);
            }
            if let Some(reason) = &self.reason {
                act = act.reason(reason);
            }
            if let Some(id) = &self.request_id {
                act = act.request_id(id);
            }
            Ok(act.await?)
        };
        let acted = self.db.ask(acted).await?;
        Ok(self.told(verb, named, &acted))
    }

    /// Has an action carried out on many, and prints how that goes.
    pub(super) async fn act_on_many(
        &self,
        how: &How,
        act: impl Fn(&Client) -> Result<BulkAct, Trouble>,
    ) -> Result<Output, Trouble> {
        let acted = async |client: &Client| {
            let act = self.request_id.iter().fold(act(client)?, |act, id| act.request_id(id));
            let who = Who { by: self.by.as_deref(), reason: self.reason.as_deref() };
            how.carry_out(client, act, who, self.json).await
        };
        self.db.ask(acted).await
    }

    fn told(&self, verb: &str, named: Form, acted: &Acted) -> Output {
        let exit = match acted {
            Acted::Answered(answer) if !answer.changed => Exit::BadInput,
            _ => Exit::Done,
        };
        if !self.json {
            return Output { exit, ..Output::done(printable(&acted.to_string()) + "\n") };
        }
        let form = named
            .with("action", verb)
            .with("changed", acted.changed())
            .with("stored", matches!(acted, Acted::Stored))
            .with("answer", acted.to_string());
        Output::json(line(&form), exit)
    }
}
