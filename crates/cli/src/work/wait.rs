//! Waiting for an instance, with a look at what it does; and for a database that does not answer.

use std::time::Duration;

use resurgam::{Error, Status};

use super::ended::Ended;
use super::screen::Screen;
use crate::operator::Operator;
use crate::policy::complaint::printable;
use crate::signals::Signals;
use crate::trouble::Trouble;

/// How often an instance is looked at, when somebody watches and when nobody does.
const WATCHED: Duration = Duration::from_millis(100);
const UNWATCHED: Duration = Duration::from_millis(500);

/// How long until a database is asked again that did not answer.
const AGAIN: Duration = Duration::from_millis(500);

/// Waits until an instance is closed, is blocked, or somebody wants us to end.
pub(super) async fn until_closed(
    operator: &Operator,
    id: &str,
    screen: &Screen,
    signals: &mut Signals,
) -> Result<Ended, Trouble> {
    let ended = tokio::select! {
        biased;
        ended = closed(operator, id, screen) => ended,
        () = signals.wait() => Ok(Ended::Interrupted),
    };
    screen.clear();
    ended
}

async fn closed(operator: &Operator, id: &str, screen: &Screen) -> Result<Ended, Trouble> {
    let unknown = || Trouble::from(Error::no_instance(&format!("wait for {id}")));
    let found = answered(operator, screen, async || operator.find(id).await).await?;
    let outcome = operator.outcome(found.ok_or_else(unknown)?.uid);
    tokio::pin!(outcome);
    let tick = if screen.is_live() { WATCHED } else { UNWATCHED };
    loop {
        let described = answered(operator, screen, async || operator.describe(id).await).await?;
        let description = described.ok_or_else(unknown)?;
        if description.instance.status == Status::Blocked {
            return Ok(Ended::Blocked(description.instance.error.unwrap_or_default()));
        }
        screen.show(&description, operator.now());
        tokio::select! {
            biased;
            outcome = &mut outcome => return Ok(Ended::Closed(outcome?)),
            () = tokio::time::sleep(tick) => {}
        }
    }
}

/// Asks until the database, or the server, answers: one that restarts is no reason to give up. Says
/// once that it does not, and once that it does again.
pub(super) async fn answered<T>(
    operator: &Operator,
    screen: &Screen,
    mut ask: impl AsyncFnMut() -> resurgam::Result<T>,
) -> resurgam::Result<T> {
    let mut is_told = false;
    loop {
        match ask().await {
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut is_told, true) {
                    screen.clear();
                    let error = printable(&error.to_string());
                    let noun = operator.noun();
                    screen.say(&format!("the {noun} does not answer; waiting for it: {error}\n"));
                }
                tokio::time::sleep(AGAIN).await;
            }
            answer => {
                if is_told {
                    screen.say(&format!("the {} answers again\n", operator.noun()));
                }
                return answer;
            }
        }
    }
}
