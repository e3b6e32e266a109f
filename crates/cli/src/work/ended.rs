//! How waiting for an instance ended, and what is printed about that.

use resurgam::{AttemptRow, Client, InstanceRow, Outcome};
use resurgam_core::{Event, Failure};

use super::screen::Screen;
use super::{forms, wait};
use crate::exit::Exit;
use crate::form::{Form, line, readable, value};
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
    /// Somebody who only watched the instance ends.
    Unwatched,
}

impl Ended {
    fn is_early(&self) -> bool {
        matches!(self, Ended::Interrupted | Ended::Unwatched)
    }
}

/// What is printed in the end.
pub(super) async fn output(
    client: &Client,
    id: &str,
    ended: Ended,
    screen: &Screen,
    json: bool,
) -> Result<Output, Trouble> {
    let found = match ended.is_early() {
        // Who was told to end waits for nothing any more.
        true => match find(client, id).await {
            Err(error) if error.is_transient() => Found::Code,
            found => found?,
        },
        false => wait::answered(screen, async || find(client, id).await).await?,
    };
    let form = match &found {
        Found::Nothing if ended.is_early() => return Ok(not_begun(id, json)),
        Found::Nothing | Found::Code => None,
        Found::Graph(graph) => Some(graph_form(graph, &ended)?),
    };
    let (exit, status) = match &ended {
        Ended::Closed(Outcome::Completed(_)) => (Exit::Done, "completed"),
        Ended::Closed(Outcome::Failed(_)) => (Exit::Unexpected, "failed"),
        Ended::Closed(Outcome::Cancelled(_)) => (Exit::Unexpected, "cancelled"),
        Ended::Closed(Outcome::Terminated(_)) => (Exit::Unexpected, "terminated"),
        Ended::Blocked(_) => (Exit::Blocked, "blocked"),
        Ended::Interrupted | Ended::Unwatched => (Exit::Stopped, "running"),
    };
    let stdout = match (&ended, form, json) {
        (_, Some(form), true) => line(&form) + "\n",
        (_, Some(form), false) => readable(&line(&form)) + "\n",
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
        Ended::Closed(
            Outcome::Failed(failure) | Outcome::Cancelled(failure) | Outcome::Terminated(failure),
        ) => form.with("failure", failure),
        Ended::Blocked(why) => form.with("error", why),
        Ended::Interrupted | Ended::Unwatched => form,
    }
}

/// What there is of an instance.
enum Found {
    Nothing,
    /// A program, or a workflow of somebody's code.
    Code,
    Graph(Box<Graph>),
}

/// A graph, and what happened to it.
struct Graph {
    row: InstanceRow,
    events: Vec<Event>,
    attempts: Vec<AttemptRow>,
}

async fn find(client: &Client, id: &str) -> resurgam::Result<Found> {
    let Some(row) = client.find(id).await? else { return Ok(Found::Nothing) };
    if Kind::of(&row.input) != Ok(Kind::Graph) {
        return Ok(Found::Code);
    }
    let (events, attempts) = (client.events(id).await?, client.attempts(id).await?);
    Ok(Found::Graph(Box::new(Graph { row, events, attempts })))
}

/// `{"id","status","run_status","states"}`
fn graph_form(graph: &Graph, ended: &Ended) -> Result<Form, Trouble> {
    let Graph { row, events, attempts } = graph;
    let mut form = Form::default().with("id", &row.id).with("status", row.status.name());
    match ended {
        Ended::Closed(Outcome::Cancelled(failure) | Outcome::Terminated(failure)) => {
            form.set("failure", failure);
        }
        Ended::Closed(Outcome::Failed(failure)) if !is_of_graph(failure) => {
            form.set("failure", failure);
        }
        Ended::Blocked(why) => form.set("error", why),
        _ => {}
    }
    Ok(form.and(forms::listing(&row.id, events, attempts)?))
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
        Ended::Closed(Outcome::Terminated(failure)) => {
            (style::WARNING, format!("was terminated: {failure}"))
        }
        Ended::Blocked(why) => (
            style::ERROR,
            format!("is blocked: {why}; it goes on by itself when that is mended, see `show {id}`"),
        ),
        Ended::Interrupted => {
            (style::WARNING, format!("stays; run the same again with --id {id} to go on"))
        }
        Ended::Unwatched => {
            let text = "is no longer watched, which changes nothing about it";
            let text = format!("{text}; `resurgam watch {id}` watches it again");
            (style::WARNING, text)
        }
    };
    format!("{style}{}{style:#} {}\n", printable(id), printable(&what))
}
