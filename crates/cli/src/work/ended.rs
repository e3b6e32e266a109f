//! How waiting for an instance ended, and what is printed about that.

use resurgam::{Client, InstanceRow, Outcome};
use resurgam_core::Failure;

use super::forms;
use crate::exit::Exit;
use crate::form::{Form, line, value};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::program::Kind;
use crate::style;
use crate::trouble::Trouble;

/// How waiting for an instance ended.
#[derive(Debug)]
pub(super) enum Ended {
    Closed(Outcome),
    /// Nothing goes on until somebody does something; why.
    Blocked(String),
    /// Somebody wants us to end; the instance stays.
    Interrupted,
}

/// What is printed in the end.
pub(super) async fn output(
    client: &Client,
    id: &str,
    ended: Ended,
    json: bool,
) -> Result<Output, Trouble> {
    let row = client.find(id).await?;
    if row.is_none() && matches!(ended, Ended::Interrupted) {
        return Ok(not_begun(id, json));
    }
    let graph = row.as_ref().is_some_and(|row| Kind::of(&row.input) == Ok(Kind::Graph));
    let form = match row.filter(|_| graph) {
        Some(row) => Some(graph_form(client, &row, &ended).await?),
        None => None,
    };
    let (exit, status) = match &ended {
        Ended::Closed(Outcome::Completed(_)) => (Exit::Done, "completed"),
        Ended::Closed(Outcome::Failed(_)) => (Exit::Unexpected, "failed"),
        Ended::Closed(Outcome::Cancelled(_)) => (Exit::Unexpected, "cancelled"),
        Ended::Blocked(_) => (Exit::Blocked, "blocked"),
        Ended::Interrupted => (Exit::Stopped, "running"),
    };
    let stdout = match (&ended, form, json) {
        (_, Some(form), _) => line(&form) + "\n",
        (_, None, true) => line(&program_form(id, status, &ended)) + "\n",
        (Ended::Closed(Outcome::Completed(result)), None, false) => format!("{result}\n"),
        (_, None, false) => String::new(),
    };
    let stderr = if json { String::new() } else { text(id, &ended) };
    Ok(Output { stdout, stderr, exit })
}

/// Somebody wanted us to end before the instance was there.
pub(super) fn not_begun(id: &str, json: bool) -> Output {
    let message = format!("interrupted before {id} was stored; run the same again to start it");
    Output { exit: Exit::Stopped, ..Trouble::failed(message).output(json) }
}

/// `{"id","status","result"|"failure"}`
fn program_form(id: &str, status: &str, ended: &Ended) -> Form {
    let form = Form::default().with("id", id).with("status", status);
    match ended {
        Ended::Closed(Outcome::Completed(result)) => form.with("result", value(result)),
        Ended::Closed(Outcome::Failed(failure) | Outcome::Cancelled(failure)) => {
            form.with("failure", failure)
        }
        Ended::Blocked(why) => form.with("error", why),
        Ended::Interrupted => form,
    }
}

/// `{"id","status","run_status","states"}`
async fn graph_form(client: &Client, row: &InstanceRow, ended: &Ended) -> Result<Form, Trouble> {
    let mut form = Form::default().with("id", &row.id).with("status", row.status.name());
    match ended {
        Ended::Closed(Outcome::Cancelled(failure)) => form.set("failure", failure),
        Ended::Closed(Outcome::Failed(failure)) if !is_of_graph(failure) => {
            form.set("failure", failure);
        }
        Ended::Blocked(why) => form.set("error", why),
        _ => {}
    }
    Ok(form.and(forms::listing(client, &row.id).await?))
}

/// What the states tell is not told again.
fn is_of_graph(failure: &Failure) -> bool {
    failure.type_name.as_deref() == Some("GraphFailed")
}

fn text(id: &str, ended: &Ended) -> String {
    let (style, what) = match ended {
        Ended::Closed(Outcome::Completed(_)) => return String::new(),
        Ended::Closed(Outcome::Failed(failure)) => (style::ERROR, format!("failed: {failure}")),
        Ended::Closed(Outcome::Cancelled(failure)) => {
            (style::WARNING, format!("was cancelled: {failure}"))
        }
        Ended::Blocked(why) => (
            style::ERROR,
            format!("is blocked: {why}; it goes on by itself when that is mended, see `show {id}`"),
        ),
        Ended::Interrupted => {
            (style::WARNING, format!("stays; run the same again with --id {id} to go on"))
        }
    };
    format!("{style}{}{style:#} {}\n", printable(id), printable(&what))
}
