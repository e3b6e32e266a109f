//! Waiting for an instance, with a look at what it does.

use std::time::Duration;

use resurgam::{Client, Error, Status};

use super::ended::Ended;
use super::screen::Screen;
use crate::signals::Signals;
use crate::trouble::Trouble;

/// How often an instance is looked at, when somebody watches and when nobody does.
const WATCHED: Duration = Duration::from_millis(100);
const UNWATCHED: Duration = Duration::from_millis(500);

/// Waits until an instance is closed, is blocked, or somebody wants us to end.
pub(super) async fn until_closed(
    client: &Client,
    id: &str,
    screen: &Screen,
    signals: &mut Signals,
) -> Result<Ended, Trouble> {
    let unknown = || Trouble::from(Error::no_instance(&format!("wait for {id}")));
    let row = client.find(id).await?.ok_or_else(unknown)?;
    let outcome = client.handle().outcome(row.uid);
    tokio::pin!(outcome);
    let tick = if screen.is_live() { WATCHED } else { UNWATCHED };
    let ended = loop {
        let description = client.describe(id).await?.ok_or_else(unknown)?;
        if description.instance.status == Status::Blocked {
            break Ended::Blocked(description.instance.error.unwrap_or_default());
        }
        screen.show(&description, client.handle().now());
        tokio::select! {
            biased;
            outcome = &mut outcome => break Ended::Closed(outcome?),
            () = signals.wait() => break Ended::Interrupted,
            () = tokio::time::sleep(tick) => {}
        }
    };
    screen.clear();
    Ok(ended)
}
