//! Rows that others have inserted.

use resurgam_core::Shard;
use resurgam_store::decode::{self, INBOX};
use resurgam_store::quarantine::Table;
use resurgam_store::{InboxRow, Result};

use super::{many, shards};
use crate::decode::{Columns, Fetched};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// How often rows are set apart before they are left for the next read.
const TIMES: usize = 5;

/// Each row gets the first time that is free after the one before it, in the order of their times
/// and then of the table, which is the one in which a statement inserts them.
const SET_APART: &str = "
    WITH nth AS (
        SELECT ctid, arrival, row_number() OVER (ORDER BY arrival, ctid) AS nth
        FROM @inbox WHERE error IS NULL AND arrival >= $1 ORDER BY arrival, ctid LIMIT 10000),
    place AS (
        SELECT ctid AS row, max(arrival - nth) OVER (ORDER BY nth) + nth AS arrival FROM nth)
    UPDATE @inbox i SET arrival = place.arrival FROM place
    WHERE i.ctid = place.row AND i.arrival <> place.arrival";

/// Whether another row arrived at the same time, for whoever it is.
const TIED: &str = "EXISTS (SELECT 1 FROM @inbox o WHERE o.error IS NULL
                             AND o.arrival = i.arrival AND o.ctid <> i.ctid)";

/// Rows that nobody has taken or refused, in the order of their arrival. The time of arrival tells
/// them apart from here on, so those of one microsecond get times of their own first.
pub(crate) async fn inbox(pool: &Pool, among: &[Shard], limit: usize) -> Result<Vec<InboxRow>> {
    let sql = format!(
        "SELECT {INBOX}, {TIED} FROM @inbox i WHERE error IS NULL AND shard = ANY($1)
         ORDER BY arrival, ctid LIMIT $2"
    );
    let mut found = Vec::new();
    for _ in 0..TIMES {
        let look = Statement::rows("look into the inbox", sql.clone()).shards(shards(among));
        let read = |row: Fetched<'_>| Ok((decode::inbox(&row)?, row.flag(7)?));
        found = many(pool, Table::Inbox, look.big(whole(limit as u64)), read).await?;
        let Some((first, _)) = found.iter().find(|(_, tied)| *tied) else { break };
        let apart = Statement::rows("set rows of the inbox apart", SET_APART).big(first.arrival);
        pool.ask(apart).await?;
    }
    // Those behind a row that is still tied wait with it, for the order's sake.
    Ok(found.into_iter().take_while(|(_, tied)| !tied).map(|(row, _)| row).collect())
}
