//! What all commands that act on a call or on a run have in common: who asks for it and why, and
//! how the answer is printed.

use resurgam::{Acted, Action};

use super::bulk::How;
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::{Many, On, Operator, Reach, Who};
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
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

impl RequestArgs {
    fn who(&self) -> Who<'_> {
        Who {
            by: self.by.as_deref(),
            reason: self.reason.as_deref(),
            request_id: self.request_id.as_deref(),
        }
    }

    /// Has an action carried out and prints what came of it; `named` is what it is done to.
    pub(super) async fn act(
        &self,
        verb: &str,
        named: Form,
        on: &On,
        action: Action,
    ) -> Result<Output, Trouble> {
        let acted = async |operator: &Operator| Ok(operator.act(on, action, self.who()).await?);
        let acted = self.reach.ask(acted).await?;
        Ok(self.told(verb, named, &acted))
    }

    /// Has an action carried out on many, and prints how that goes.
    pub(super) async fn act_on_many(
        &self,
        how: &How,
        many: impl Fn(&Operator) -> Result<Many, Trouble>,
    ) -> Result<Output, Trouble> {
        let acted = async |operator: &Operator| {
            how.carry_out(operator, many(operator)?, self.who(), self.json).await
        };
        self.reach.ask(acted).await
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
