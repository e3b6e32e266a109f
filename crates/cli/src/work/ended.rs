//! How waiting for an instance ended, and what is printed about that.

use resurgam::{AttemptRow, InstanceRow, Outcome};
use resurgam_core::{Event, EventKind, Failure};

use super::screen::Screen;
use super::{forms, wait};
use crate::exit::Exit;
use crate::form::{Form, line, readable, value};
use crate::operator::Operator;
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
    operator: &Operator,
    id: &str,
    ended: Ended,
    screen: &Screen,
    json: bool,
) -> Result<Output, Trouble> {
    let found = match ended.is_early() {
        // Who was told to end waits for nothing any more.
        true => match find(operator, id, &ended).await {
            Err(error) if error.is_transient() => Found::Code { gave_up: None },
            found => found?,
        },
        false => {
            wait::answered(operator, screen, async || find(operator, id, &ended).await).await?
        }
    };
    let (form, gave_up) = match &found {
        Found::Nothing if ended.is_early() => return Ok(not_begun(id, json)),
        Found::Nothing => (None, None),
        Found::Code { gave_up } => (None, gave_up.as_deref()),
        Found::Graph(graph) => (Some(graph_form(graph, &ended)?), None),
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
    let stderr = if json { String::new() } else { text(id, &ended, gave_up) };
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
    /// A program, or a workflow of somebody's code; with the activity that gave up, where it failed
    /// by that.
    Code {
        gave_up: Option<String>,
    },
    Graph(Box<Graph>),
}

/// A graph, and what happened to it.
struct Graph {
    row: InstanceRow,
    events: Vec<Event>,
    attempts: Vec<AttemptRow>,
}

async fn find(operator: &Operator, id: &str, ended: &Ended) -> resurgam::Result<Found> {
    let Some(row) = operator.find(id).await? else { return Ok(Found::Nothing) };
    if Kind::of(&row.input) != Ok(Kind::Graph) {
        let gave_up = match ended {
            Ended::Closed(Outcome::Failed(failure)) => match attempted(failure) {
                Some(failure) => activity_of(&operator.events(row.uid, None).await?, failure),
                None => None,
            },
            _ => None,
        };
        return Ok(Found::Code { gave_up });
    }
    let (events, attempts) =
        (operator.events(row.uid, None).await?, operator.attempts(row.uid, None).await?);
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

/// The failure of an activity that a workflow failed by: the workflow's own, or what caused it.
fn attempted(failure: &Failure) -> Option<&Failure> {
    let chain = std::iter::successors(Some(failure), |failure| failure.cause.as_ref());
    chain.into_iter().find(|failure| failure.attempts.is_some())
}

/// The activity that ended with this failure, as its workflow got it. That of a child's activity is
/// in the history of the child.
fn activity_of(events: &[Event], failure: &Failure) -> Option<String> {
    let call = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::ActivityFailed(failed) => {
            let is_it = failed.failure.message == failure.message
                && Some(failed.attempt) == failure.attempts
                && Some(&failed.why) == failure.why.as_ref();
            is_it.then_some(failed.activity)
        }
        _ => None,
    })?;
    events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled(scheduled) if event.seq == call => {
            Some(scheduled.name.clone())
        }
        _ => None,
    })
}

/// `charge gave up after 5 attempts (max_attempts): gateway down`, where an activity did.
fn why_failed(failure: &Failure, activity: Option<&str>) -> String {
    let Some(cause) = attempted(failure) else { return failure.to_string() };
    let name = activity.map(|name| format!("{name} ")).unwrap_or_default();
    let attempts = match cause.attempts {
        Some(1) => "1 attempt".to_string(),
        attempts => format!("{} attempts", attempts.unwrap_or_default()),
    };
    let why = cause.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let gave_up = format!("{name}gave up after {attempts}{why}: {cause}");
    match failure.attempts {
        Some(_) => gave_up,
        None => format!("{failure}; {gave_up}"),
    }
}

fn text(id: &str, ended: &Ended, gave_up: Option<&str>) -> String {
    let (style, what) = match ended {
        Ended::Closed(Outcome::Completed(_)) => return String::new(),
        Ended::Closed(Outcome::Failed(failure)) => {
            (style::ERROR, format!("failed: {}", why_failed(failure, gave_up)))
        }
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

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn gave_up(message: &str, attempts: u32) -> Failure {
        let mut failure = Failure::of_type("Down", message);
        (failure.attempts, failure.why) = (Some(attempts), Some("max_attempts".to_string()));
        failure
    }

    #[test]
    fn a_failure_names_the_activity_and_its_attempts_where_it_knows_them() {
        let charge = gave_up("gateway down", 5);
        let told = "charge gave up after 5 attempts (max_attempts): Down: gateway down";
        assert_eq!(why_failed(&charge, Some("charge")), told);
        let wrapped = Failure::of_type("NoSale", "sorry").caused_by(charge);
        assert_eq!(why_failed(&wrapped, Some("charge")), format!("NoSale: sorry; {told}"));
        // That of a child, whose history is another one.
        let told = "gave up after 1 attempt (max_attempts): Down: no";
        assert_eq!(why_failed(&gave_up("no", 1), None), told);
        assert_eq!(why_failed(&Failure::new("too early"), None), "too early");
    }
}
