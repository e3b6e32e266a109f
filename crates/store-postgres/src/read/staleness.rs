//! Why what is read may not be the latest.

use std::time::Duration;

use resurgam_store::{Error, Result, Staleness};

use crate::decode::{Unreadable, get};
use crate::pool::Pool;
use crate::statement::Statement;

/// The time of the last commit that the standby has carried out, by the clock of the primary.
const STALENESS: &str = "
    SELECT pg_is_in_recovery(),
           (extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::bigint";

/// Why what this pool reads may not be the latest; nothing on a primary that all others know.
pub(crate) async fn staleness(pool: &Pool) -> Result<Option<Staleness>> {
    let what = "ask how far the server is behind";
    let rows = pool.ask(Statement::rows(what, STALENESS)).await?;
    let row = rows.first().ok_or_else(|| Error::transient(format!("{what}: no answer")))?;
    let unreadable = |why: Unreadable| Error::data(what).because(why);
    if !get::<bool>(row, 0).map_err(unreadable)? {
        let hosts = pool.silent_hosts();
        return Ok((!hosts.is_empty()).then_some(Staleness::Unheard { hosts }));
    }
    let millis: Option<i64> = get(row, 1).map_err(unreadable)?;
    // Clocks that are apart can make it a time to come.
    let age = millis.map(|millis| Duration::from_millis(millis.max(0).unsigned_abs()));
    Ok(Some(Staleness::Standby { age }))
}
