//! Deleting closed instances, a short transaction at a time.
//!
//! Everything of an instance is found by its uid. The instance's own row goes last, so that one
//! whose deletion was cut short is found again; until then its history may be shorter than it was.
//! Policies stay: there are few, and others may name them.
//!
//! Looking is done before the transaction, which only deletes. Should somebody else delete the same
//! instances meanwhile, there is less to delete, and nothing else is different: an instance that is
//! closed stays so.

use resurgam_core::{Timestamp, Uid};
use resurgam_store::{Deleted, Deletion, Error, INSTANCES, Place, ROWS, Result, Sweep};
use tokio_postgres::Row;

use crate::decode::{Columns, Decoded, Fetched, Unreadable, get};
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;

/// The tables whose rows belong to an instance; the one that can be long first.
const TABLES: [&str; 7] = ["event", "attempt", "message", "task", "action", "kv", "tag"];

/// How many closed instances one piece looks at. Those that are not wanted cost a look each.
const LOOKS: usize = 5_000;

const WHAT: &str = "delete closed instances";
const LETTERS: &str = "delete old dead letters";

/// A closed instance.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: Place,
    uid: Uid,
    wanted: bool,
}

/// What one piece deletes.
#[derive(Debug, Default)]
struct Piece {
    /// With everything of theirs.
    whole: Vec<Uid>,
    /// As many rows of this one as there is room for.
    part: Option<(Uid, u64)>,
}

/// Deletes one piece of what is wanted.
pub(crate) async fn delete(pool: &Pool, wanted: &Deletion) -> Result<Deleted> {
    match wanted {
        Deletion::One(uid) => one(pool, *uid).await,
        Deletion::Many(sweep) => many(pool, sweep).await,
        Deletion::Letters { before } => letters(pool, *before).await,
        Deletion::Bulk { before } => bulk(pool, *before).await,
    }
}

/// Dead letters, the oldest first.
async fn letters(pool: &Pool, before: Timestamp) -> Result<Deleted> {
    by_time(pool, LETTERS, "dead_letter", "at", before).await
}

/// Bulk jobs, those that were over first going first.
async fn bulk(pool: &Pool, before: Timestamp) -> Result<Deleted> {
    by_time(pool, "delete old bulk jobs", "bulk", "closed_at", before).await
}

/// Rows of a table by a time of theirs, the oldest first.
async fn by_time(
    pool: &Pool,
    what: &'static str,
    table: &str,
    at: &str,
    before: Timestamp,
) -> Result<Deleted> {
    let sql = format!(
        "WITH gone AS (
             DELETE FROM @{table} WHERE ctid = ANY(ARRAY(
                 SELECT ctid FROM @{table} WHERE {at} < $1 ORDER BY {at} LIMIT $2))
             RETURNING 1)
         SELECT count(*) FROM gone"
    );
    let delete = Statement::rows(what, sql).big(before.as_millis()).big(whole(ROWS));
    let rows = count(&pool.ask(delete).await?)?;
    let first = format!("SELECT min({at}) FROM @{table}");
    let first = pool.ask(Statement::rows(what, first)).await?;
    let unreadable = |why: Unreadable| Error::data(what).because(why);
    let first = first.first().map(|row| Fetched(row).maybe_timestamp(0)).transpose();
    let first = first.map_err(unreadable)?.flatten();
    let more = first.is_some_and(|at| at < before);
    Ok(Deleted { rows, more, next: first.filter(|_| !more), ..Deleted::default() })
}

async fn one(pool: &Pool, uid: Uid) -> Result<Deleted> {
    let sql = "SELECT 1 FROM @instance WHERE shard = $1 AND uid = $2 AND closed_at IS NOT NULL";
    if pool.ask(Statement::rows(WHAT, sql).uid(uid)).await?.is_empty() {
        return Ok(Deleted::default());
    }
    let piece = fitting(&[uid], &counts(pool, &[uid]).await?);
    let (instances, rows) = carry_out(pool, &piece).await?;
    Ok(Deleted { instances, rows, more: piece.part.is_some(), ..Deleted::default() })
}

async fn many(pool: &Pool, sweep: &Sweep) -> Result<Deleted> {
    let candidates = candidates(pool, sweep).await?;
    let young = candidates.iter().position(|one| one.place.closed_at >= sweep.closed_before);
    let old = &candidates[..young.unwrap_or(candidates.len())];
    let wanted = old.iter().filter(|one| one.wanted).take(INSTANCES as usize);
    let uids: Vec<Uid> = wanted.map(|one| one.uid).collect();
    let piece = fitting(&uids, &counts(pool, &uids).await?);
    let (instances, rows) = carry_out(pool, &piece).await?;
    let done = passed(old, &piece);
    let more = done < old.len() || (young.is_none() && candidates.len() == LOOKS);
    let next = (!more).then(|| young.map(|place| candidates[place].place.closed_at)).flatten();
    Ok(Deleted { instances, rows, more, go_on: go_on(&candidates, done).or(sweep.after), next })
}

/// How many of the candidates are dealt with: deleted, or not wanted.
fn passed(old: &[Candidate], piece: &Piece) -> usize {
    let left = |one: &Candidate| one.wanted && !piece.whole.contains(&one.uid);
    old.iter().position(left).unwrap_or(old.len())
}

/// The last place that is dealt with. Two that started in one microsecond and closed in one
/// millisecond share a place, which is passed with the last of them.
fn go_on(candidates: &[Candidate], done: usize) -> Option<Place> {
    let next = candidates.get(done).or(candidates.last().filter(|_| candidates.len() == LOOKS));
    let shared = next.map(|next| next.place);
    let done = candidates[..done].iter().rev();
    done.map(|one| one.place).find(|place| Some(*place) != shared)
}

/// Those that closed first, from the place where the last piece ended.
async fn candidates(pool: &Pool, sweep: &Sweep) -> Result<Vec<Candidate>> {
    let sql = "
        SELECT uid, closed_at, arrival,
               ($4::text IS NULL OR workflow = $4)
               AND ($5::text IS NULL OR EXISTS (
                    SELECT 1 FROM @tag g WHERE g.shard = i.shard AND g.uid = i.uid
                    AND g.name = $5 AND g.value = $6))
        FROM @instance i
        WHERE status = $1 AND closed_at IS NOT NULL AND (closed_at, arrival) > ($2, $3)
        ORDER BY closed_at, arrival LIMIT $7";
    let first = Place { closed_at: Timestamp::from_millis(i64::MIN), row: i64::MIN };
    let after = sweep.after.unwrap_or(first);
    let (tag, value) = sweep.tag.clone().unzip();
    let look = Statement::rows(WHAT, sql)
        .text(sweep.status.name())
        .big(after.closed_at.as_millis())
        .big(after.row)
        .maybe_text(sweep.workflow.as_deref())
        .maybe_text(tag)
        .maybe_text(value)
        .big(whole(LOOKS as u64));
    let read = |row: Fetched<'_>| {
        let place = Place { closed_at: row.timestamp(1)?, row: row.number(2)? };
        Ok(Candidate { place, uid: row.uid(0)?, wanted: row.flag(3)? })
    };
    let rows = pool.ask_widely(look).await?;
    let found: Decoded<Vec<Candidate>> = rows.iter().map(Fetched).map(read).collect();
    found.map_err(|why| Error::data(WHAT).because(why))
}

/// How many rows each of these instances has, beside its own. The last one that is told may have
/// more than that, and those after it were not looked at, when that makes more rows than a piece
/// deletes: nested loops stop in the order of what they are given.
async fn counts(pool: &Pool, uids: &[Uid]) -> Result<Vec<u64>> {
    let of_table = |table| {
        format!(
            "(SELECT 1 FROM @{table} r WHERE r.shard = u.shard AND r.uid = u.uid LIMIT {limit})",
            limit = ROWS + 1
        )
    };
    let sql = format!(
        "SELECT nth, count(*) FROM (
             SELECT u.nth FROM unnest($1::smallint[], $2::uuid[])
                               WITH ORDINALITY AS u(shard, uid, nth)
             CROSS JOIN LATERAL ({}) AS r LIMIT {}) AS counted
         GROUP BY nth",
        TABLES.map(of_table).join(" UNION ALL "),
        ROWS + 1
    );
    let mut counts = vec![0; uids.len()];
    let count = Statement::rows(WHAT, sql).uids(uids.iter().copied());
    for row in pool.ask_widely(count).await? {
        let unreadable = |why: Unreadable| Error::data(WHAT).because(why);
        let (nth, count): (i64, i64) =
            (get(&row, 0).map_err(unreadable)?, get(&row, 1).map_err(unreadable)?);
        let place = usize::try_from(nth - 1).unwrap_or(usize::MAX);
        if let Some(counted) = counts.get_mut(place) {
            *counted = count.unsigned_abs();
        }
    }
    Ok(counts)
}

/// As many instances as fit into a piece, and a part of the next. An instance needs room for its
/// own row too.
fn fitting(uids: &[Uid], counts: &[u64]) -> Piece {
    let mut piece = Piece::default();
    let mut room = ROWS;
    for (uid, count) in uids.iter().zip(counts) {
        if *count >= room {
            piece.part = (room > 0).then_some((*uid, room));
            return piece;
        }
        room -= count + 1;
        piece.whole.push(*uid);
    }
    piece
}

/// Deletes a piece; how many instances went, and how many rows.
async fn carry_out(pool: &Pool, piece: &Piece) -> Result<(u64, u64)> {
    let mut statements = Vec::new();
    if !piece.whole.is_empty() {
        for table in TABLES.into_iter().chain(["instance"]) {
            let sql = format!(
                "WITH gone AS (
                     DELETE FROM @{table} r
                     USING unnest($1::smallint[], $2::uuid[]) AS u(shard, uid)
                     WHERE r.shard = u.shard AND r.uid = u.uid RETURNING 1)
                 SELECT count(*) FROM gone"
            );
            statements.push(Statement::rows(WHAT, sql).uids(piece.whole.iter().copied()));
        }
    }
    let mut counts = Vec::new();
    if !statements.is_empty() {
        for rows in pool.change(&statements).await? {
            counts.push(count(&rows)?);
        }
    }
    let instances = counts.last().copied().unwrap_or_default();
    let mut rows: u64 = counts.iter().sum();
    if let Some((uid, room)) = piece.part {
        rows += part(pool, uid, room).await?;
    }
    Ok((instances, rows))
}

/// Deletes as many rows of an instance as there is room for, the longest table first.
async fn part(pool: &Pool, uid: Uid, room: u64) -> Result<u64> {
    let mut deleted = 0;
    for table in TABLES {
        let sql = format!(
            "WITH gone AS (
                 DELETE FROM @{table} WHERE ctid = ANY(ARRAY(
                     SELECT ctid FROM @{table} WHERE shard = $1 AND uid = $2 LIMIT $3))
                 RETURNING 1)
             SELECT count(*) FROM gone"
        );
        let left = whole(room - deleted);
        deleted += count(&pool.ask(Statement::rows(WHAT, sql).uid(uid).big(left)).await?)?;
        if deleted >= room {
            break;
        }
    }
    Ok(deleted)
}

fn count(rows: &[Row]) -> Result<u64> {
    let count = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0));
    count.map(i64::unsigned_abs).map_err(|why| Error::data(WHAT).because(why))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn candidate(closed_at: i64, row: i64, number: u128, wanted: bool) -> Candidate {
        let place = Place { closed_at: Timestamp::from_millis(closed_at), row };
        Candidate { place, uid: Uid(number), wanted }
    }

    #[test]
    fn a_piece_takes_what_fits_and_a_part_of_what_does_not() {
        let uids = [Uid(1), Uid(2), Uid(3)];
        let piece = fitting(&uids, &[10, 20, 30]);
        assert_eq!((piece.whole.len(), piece.part), (3, None));
        let piece = fitting(&uids, &[10, ROWS - 11, 30]);
        assert_eq!((piece.whole, piece.part), (vec![Uid(1)], Some((Uid(2), ROWS - 11))));
        let piece = fitting(&uids, &[ROWS - 1, 1, 1]);
        assert_eq!((piece.whole, piece.part), (vec![Uid(1)], None));
        let piece = fitting(&uids, &[ROWS + 1, 0, 0]);
        assert_eq!((piece.whole, piece.part), (vec![], Some((Uid(1), ROWS))));
    }

    #[test]
    fn a_place_that_several_share_is_passed_with_the_last_of_them() {
        let all = [
            candidate(1, 1, 1, true),
            candidate(2, 1, 2, true),
            candidate(2, 1, 3, false),
            candidate(2, 2, 4, true),
        ];
        let piece = |whole: &[u128]| Piece {
            whole: whole.iter().map(|number| Uid(*number)).collect(),
            part: None,
        };
        assert_eq!(passed(&all, &piece(&[1])), 1);
        assert_eq!(passed(&all, &piece(&[1, 2])), 3);
        assert_eq!(passed(&all, &piece(&[1, 2, 4])), 4);
        let row = |done| go_on(&all, done).map(|place| (place.closed_at.as_millis(), place.row));
        assert_eq!(row(0), None);
        assert_eq!(row(1), Some((1, 1)));
        assert_eq!(row(2), Some((1, 1)));
        assert_eq!(row(3), Some((2, 1)));
        assert_eq!(row(4), Some((2, 2)));
    }
}
