//! The statements about nodes and shards. Each is one statement and one transaction. Those that
//! wait for commits of others do not wait long: they are tried again.

use std::collections::BTreeSet;

use resurgam_core::{Shard, Timestamp};
use resurgam_store::fleet::{NodeRow, ShardRow, View};
use resurgam_store::{Error, Node, Result};
use tokio_postgres::Row;

use crate::decode::{Decoded, Unreadable, get};
use crate::pool::Pool;
use crate::statement::Statement;

const JOIN: &str = "
    INSERT INTO @node (node, beat, queues, started_at, pid, program, workflows)
    VALUES ($1, 0, $2, (extract(epoch FROM now()) * 1000)::bigint, $3, $4, $5)
    ON CONFLICT (node) DO UPDATE SET beat = @node.beat + 1, started_at = excluded.started_at";

/// Beats and looks in one statement, for an idle node should hardly be felt: the row without a name
/// tells whether the beat found its node, what time it is, whether some node serves chosen queues
/// only or some task lacks something, who has which shard, and where the lanes of this process are;
/// the others are the nodes.
///
/// It waits a second for the row at most, and says so in the same statement: a beat before it may
/// wait for a standby that does not answer, and beats must not queue up behind it in the server.
const BEAT: &str = "
    WITH brief AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true) AS it),
         beaten AS (UPDATE @node SET beat = beat + 1 FROM brief
                    WHERE node = $1 AND brief.it IS NOT NULL RETURNING 1),
         own AS (SELECT lane, n FROM @lane WHERE node = $2)";

/// Takes the place of [`BEAT`] for who may only read.
const NO_BEAT: &str = "
    WITH beaten AS (SELECT 1 WHERE false),
         own AS (SELECT 0::smallint AS lane, 0::bigint AS n WHERE false)";

const VIEW: &str = "
    SELECT NULL::text, (SELECT count(*) FROM beaten),
           (SELECT count(*) FROM @node WHERE queues IS NOT NULL)
             + EXISTS (SELECT 1 FROM @task WHERE claimed_by IS NULL AND bad IS NULL
                         AND strpos(progress, '\"lacks\":') > 0)::int, NULL::text,
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
           array_agg(owner ORDER BY shard), array_agg(epoch ORDER BY shard),
           (SELECT array_agg(lane ORDER BY lane) FROM own),
           (SELECT array_agg(n ORDER BY lane) FROM own)
    FROM @shard
    UNION ALL
    SELECT node, beat, pid, program, started_at, workflows, NULL::bigint[],
           NULL::smallint[], NULL::bigint[] FROM @node";

/// Waits for commits of the owner before, in the order in which commits lock. What somebody has
/// taken meanwhile is theirs, and who was taken for dead takes nothing. What is the node's own may
/// be taken once more: the answer of the first time may have been lost.
const TAKE: &str = "
    WITH free AS (
        SELECT s.shard FROM @shard s
        WHERE s.shard = ANY($2)
          AND (s.owner IS NULL OR s.owner = $1
               OR NOT EXISTS (SELECT 1 FROM @node n WHERE n.node = s.owner))
          AND EXISTS (SELECT 1 FROM @node n WHERE n.node = $1)
        ORDER BY s.shard FOR UPDATE OF s)
    UPDATE @shard s SET owner = $1, epoch = s.epoch + 1 FROM free WHERE s.shard = free.shard
    RETURNING s.shard, s.epoch";

const RELEASE: &str = "UPDATE @shard SET owner = NULL WHERE owner = $1 AND shard = ANY($2)";

const LEAVE: &str = "
    WITH released AS (UPDATE @shard SET owner = NULL WHERE owner = $1)
    DELETE FROM @node WHERE node = $1";

/// Only when it has not moved since it was seen to stand still.
const BURY: &str = "
    WITH dead AS (
        DELETE FROM @node n USING unnest($1::text[], $2::bigint[]) AS u(node, beat)
        WHERE n.node = u.node AND n.beat = u.beat RETURNING n.node)
    UPDATE @shard s SET owner = NULL FROM dead WHERE s.owner = dead.node";

/// Writes the row of a node that begins to work.
pub(super) async fn join(pool: &Pool, node: &Node) -> Result<()> {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
    let join = Statement::rows("register a node", JOIN)
        .text(node.name.as_str())
        .names(&node.queues)
        .big(i64::from(std::process::id()))
        .text(program)
        .names(&node.workflows);
    pool.change(&[join]).await.map(drop)
}

/// What the database answers to a beat.
pub(super) struct Beaten {
    /// Somebody may have removed the row of the node: then this is false.
    pub(super) is_there: bool,
    /// Who is there, and who has what.
    pub(super) view: View,
    /// The numbers of the lanes of this process.
    pub(super) lanes: Vec<(i16, i64)>,
}

/// Raises a node's beat, and tells who is there and who has what. The lanes are those of a writer.
pub(super) async fn beat(pool: &Pool, node: &str, writer: &str) -> Result<Beaten> {
    let beat = Statement::rows("beat", format!("{BEAT}{VIEW}")).text(node).text(writer);
    seen(&pool.ask(beat).await?)
}

/// Who is there, and who has what.
pub(super) async fn look(pool: &Pool) -> Result<View> {
    let look = Statement::rows("look who works on what", format!("{NO_BEAT}{VIEW}"));
    Ok(seen(&pool.ask(look).await?)?.view)
}

fn seen(rows: &[Row]) -> Result<Beaten> {
    let what = "look who works on what";
    let unreadable = |why: Unreadable| Error::data(what).because(why);
    let is_node = |row: &&Row| row.try_get::<_, Option<&str>>(0).is_ok_and(|node| node.is_some());
    let Some(first) = rows.iter().find(|row| !is_node(row)) else {
        return Err(Error::transient(format!("{what}: no answer")));
    };
    let nodes =
        rows.iter().filter(is_node).map(node).collect::<Decoded<_>>().map_err(unreadable)?;
    let is_there = get::<i64>(first, 1).map_err(unreadable)? == 1;
    let now = Timestamp::from_millis(get::<i64>(first, 4).map_err(unreadable)?);
    let leaves_tasks = get::<i64>(first, 2).map_err(unreadable)? > 0;
    let shards = shards_of(first).map_err(unreadable)?;
    let lanes = lanes_of(first).map_err(unreadable)?;
    Ok(Beaten { is_there, view: View { now, leaves_tasks, nodes, shards }, lanes })
}

/// Takes shards that are free; those that were got, with their new epochs.
pub(super) async fn take(pool: &Pool, node: &str, shards: &[Shard]) -> Result<Vec<(Shard, i64)>> {
    let take = Statement::rows("take shards", TAKE).text(node).shards(numbers(shards));
    let rows = pool.change(&[take]).await?.pop().unwrap_or_default();
    let taken = |row: &Row| Ok((Shard(get::<i16>(row, 0)?.cast_unsigned()), get(row, 1)?));
    let taken: Decoded<Vec<(Shard, i64)>> = rows.iter().map(taken).collect();
    taken.map_err(|why| Error::data("take shards").because(why))
}

/// Gives shards up, so that anybody may take them at once.
pub(super) async fn release(pool: &Pool, node: &str, shards: &[Shard]) -> Result<()> {
    let release = Statement::rows("release shards", RELEASE).text(node).shards(numbers(shards));
    pool.change(&[release]).await.map(drop)
}

/// Removes a node that stops, and gives up everything it had.
pub(super) async fn leave(pool: &Pool, node: &str) -> Result<()> {
    let leave = Statement::rows("release all shards of a node", LEAVE).text(node);
    pool.change(&[leave]).await.map(drop)
}

/// Removes nodes that are dead, and gives up everything they had.
pub(super) async fn bury(pool: &Pool, dead: &[&NodeRow]) -> Result<()> {
    let bury = Statement::rows("remove nodes that are dead", BURY)
        .texts(dead.iter().map(|row| row.node.as_str()))
        .bigs(dead.iter().map(|row| row.beat));
    pool.change(&[bury]).await.map(drop)
}

fn numbers(shards: &[Shard]) -> impl Iterator<Item = i16> {
    shards.iter().map(|shard| shard.0.cast_signed())
}

fn node(row: &Row) -> Decoded<NodeRow> {
    Ok(NodeRow {
        node: get(row, 0)?,
        beat: get(row, 1)?,
        pid: u32::try_from(get::<i64>(row, 2)?).unwrap_or_default(),
        program: get(row, 3)?,
        started_at: Timestamp::from_millis(get(row, 4)?),
        workflows: get::<Option<Vec<String>>>(row, 5)?.map(BTreeSet::from_iter),
    })
}

fn lanes_of(row: &Row) -> Decoded<Vec<(i16, i64)>> {
    let lanes: Option<Vec<i16>> = get(row, 7)?;
    let numbers: Option<Vec<i64>> = get(row, 8)?;
    Ok(lanes.unwrap_or_default().into_iter().zip(numbers.unwrap_or_default()).collect())
}

fn shards_of(row: &Row) -> Decoded<Vec<ShardRow>> {
    let owners: Option<Vec<Option<String>>> = get(row, 5)?;
    let epochs: Option<Vec<i64>> = get(row, 6)?;
    let both = owners.unwrap_or_default().into_iter().zip(epochs.unwrap_or_default());
    let row = |(shard, (owner, epoch))| ShardRow { shard, owner, epoch };
    Ok(Shard::all().zip(both).map(row).collect())
}
