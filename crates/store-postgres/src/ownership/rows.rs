//! The statements about nodes and shards. Each is one statement and one transaction.

use resurgam_core::{Shard, Timestamp};
use resurgam_store::rows::Owner;
use resurgam_store::{Error, Result};
use tokio_postgres::Row;

use crate::decode::{Decoded, Unreadable, get};
use crate::pool::Pool;
use crate::statement::Statement;

/// A node that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Its name, which nobody had before.
    pub node: String,
    /// What it raises to show that it is alive.
    pub beat: i64,
    /// The queues it serves; all with `None`.
    pub queues: Option<Vec<String>>,
    /// The build of its program.
    pub build: Option<String>,
    /// The id of its process.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Since when, by the clock of the database.
    pub started_at: Timestamp,
}

/// Who is there, and who has what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// When, by the clock of the database.
    pub now: Timestamp,
    /// The nodes, dead ones too.
    pub nodes: Vec<NodeRow>,
    /// Every shard with its owner and its epoch.
    pub shards: Vec<(Shard, Option<String>, i64)>,
}

impl From<&NodeRow> for Owner {
    fn from(row: &NodeRow) -> Owner {
        let NodeRow { node, pid, program, started_at, .. } = row.clone();
        Owner { node, pid, program, since: started_at }
    }
}

const JOIN: &str = "
    INSERT INTO @node (node, beat, queues, build, started_at, pid, program)
    VALUES ($1, 0, $2, $3, (extract(epoch FROM now()) * 1000)::bigint, $4, $5)
    ON CONFLICT (node) DO UPDATE SET beat = @node.beat + 1, started_at = excluded.started_at";

/// Beats and looks in one statement, for an idle node should hardly be felt: the row without a name
/// tells whether the beat found its node, and who has which shard; the others are the nodes.
const LOOK: &str = "
    WITH beaten AS (UPDATE @node SET beat = beat + 1 WHERE node = $1 RETURNING 1)
    SELECT NULL::text, (SELECT count(*) FROM beaten), NULL::text[], NULL::text, NULL::bigint,
           NULL::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, array_agg(owner ORDER BY shard), array_agg(epoch ORDER BY shard)
    FROM @shard
    UNION ALL
    SELECT node, beat, queues, build, pid, program, started_at, NULL::text[], NULL::bigint[]
    FROM @node";

/// Waits for commits of the owner before, in the order in which commits lock, and takes only what
/// nobody has taken meanwhile.
const TAKE: &str = "
    WITH free AS (
        SELECT s.shard FROM @shard s
        JOIN unnest($2::smallint[], $3::bigint[]) AS u(shard, epoch)
          ON s.shard = u.shard AND s.epoch = u.epoch
        ORDER BY s.shard FOR UPDATE OF s)
    UPDATE @shard s SET owner = $1, epoch = s.epoch + 1 FROM free WHERE s.shard = free.shard
    RETURNING s.shard, s.epoch";

const RELEASE: &str = "UPDATE @shard SET owner = NULL WHERE owner = $1 AND shard = ANY($2)";

const LEAVE: &str = "
    WITH released AS (UPDATE @shard SET owner = NULL WHERE owner = $1)
    DELETE FROM @node WHERE node = $1";

/// Writes the row of a node that begins to work.
pub(super) async fn join(
    pool: &Pool,
    node: &str,
    queues: Option<Vec<String>>,
    build: Option<&str>,
) -> Result<()> {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
    let join = Statement::rows("register a node", JOIN)
        .text(node)
        .list(queues)
        .maybe_text(build)
        .big(i64::from(std::process::id()))
        .text(program);
    pool.ask(join).await.map(drop)
}

/// Raises a node's beat, and tells who is there and who has what; false when somebody has removed
/// its row.
pub(super) async fn beat(pool: &Pool, node: &str) -> Result<(bool, View)> {
    view(pool.ask(Statement::rows("beat", LOOK).maybe_text(Some(node))).await?)
}

/// Who is there, and who has what.
pub(super) async fn look(pool: &Pool) -> Result<View> {
    let look = Statement::rows("look who works on what", LOOK).maybe_text(None::<&str>);
    Ok(view(pool.ask(look).await?)?.1)
}

fn view(rows: Vec<Row>) -> Result<(bool, View)> {
    let what = "look who works on what";
    let unreadable = |why: Unreadable| Error::data(what).because(why);
    let is_node = |row: &&Row| row.try_get::<_, Option<&str>>(0).is_ok_and(|node| node.is_some());
    let Some(shards) = rows.iter().find(|row| !is_node(row)) else {
        return Err(Error::transient(format!("{what}: no answer")));
    };
    let nodes =
        rows.iter().filter(is_node).map(node).collect::<Decoded<_>>().map_err(unreadable)?;
    let now = get(shards, 6).map(Timestamp::from_millis).map_err(unreadable)?;
    let beaten = get::<i64>(shards, 1).map_err(unreadable)? == 1;
    let shards = shards_of(shards).map_err(unreadable)?;
    Ok((beaten, View { now, nodes, shards }))
}

/// Takes shards that are still at these epochs; those that were got, with their new epochs.
pub(super) async fn take(
    pool: &Pool,
    node: &str,
    shards: &[(Shard, i64)],
) -> Result<Vec<(Shard, i64)>> {
    let take = Statement::rows("take shards", TAKE)
        .text(node)
        .shards(shards.iter().map(|(shard, _)| shard.0.cast_signed()))
        .bigs(shards.iter().map(|(_, epoch)| *epoch));
    let rows = pool.ask(take).await?;
    let taken = |row: &Row| Ok((Shard(get::<i16>(row, 0)?.cast_unsigned()), get(row, 1)?));
    let taken: Decoded<Vec<(Shard, i64)>> = rows.iter().map(taken).collect();
    taken.map_err(|why| Error::data("take shards").because(why))
}

/// Gives shards up, so that anybody may take them at once.
pub(super) async fn release(pool: &Pool, node: &str, shards: &[Shard]) -> Result<()> {
    let release = Statement::rows("release shards", RELEASE)
        .text(node)
        .shards(shards.iter().map(|shard| shard.0.cast_signed()));
    pool.ask(release).await.map(drop)
}

/// Removes a node and gives up everything it had: because it stops, or because it is dead.
pub(super) async fn leave(pool: &Pool, node: &str) -> Result<()> {
    pool.ask(Statement::rows("release all shards of a node", LEAVE).text(node)).await.map(drop)
}

fn node(row: &Row) -> Decoded<NodeRow> {
    Ok(NodeRow {
        node: get(row, 0)?,
        beat: get(row, 1)?,
        queues: get(row, 2)?,
        build: get(row, 3)?,
        pid: u32::try_from(get::<i64>(row, 4)?).unwrap_or_default(),
        program: get(row, 5)?,
        started_at: Timestamp::from_millis(get(row, 6)?),
    })
}

fn shards_of(row: &Row) -> Decoded<Vec<(Shard, Option<String>, i64)>> {
    let owners: Option<Vec<Option<String>>> = get(row, 7)?;
    let epochs: Option<Vec<i64>> = get(row, 8)?;
    let both = owners.unwrap_or_default().into_iter().zip(epochs.unwrap_or_default());
    Ok(Shard::all().zip(both).map(|(shard, (owner, epoch))| (shard, owner, epoch)).collect())
}
