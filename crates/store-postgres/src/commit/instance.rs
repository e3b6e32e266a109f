//! Instances: a start that wins its id or is refused, and changes of status.

use std::sync::LazyLock;

use resurgam_core::event::Compensation;
use resurgam_core::{Payload, Uid};
use resurgam_store::rows::InstanceRow;

use super::NOW;
use super::plan::Plan;
use super::wave::{StatusWrite, Wave};
use crate::encode::{encoding, millis, prose, settings, text, whole};
use crate::statement::{Part, Statement, is_count};

/// The statuses in which nothing further happens.
pub(super) const CLOSED: &str = "('completed', 'failed', 'cancelled', 'terminated')";

/// Waits for a commit that closes one of them, and makes one wait that is about to.
static OPEN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM (
            SELECT 1 FROM @instance i
            JOIN unnest($1::smallint[], $2::uuid[]) AS u(shard, uid)
              ON i.shard = u.shard AND i.uid = u.uid
            WHERE i.status NOT IN {CLOSED}
            ORDER BY i.shard, i.uid FOR SHARE OF i) AS open",
        is_count(3)
    )
});

const STATUS: &str = "
    UPDATE @instance i SET status = u.status, outcome_encoding = u.outcome_encoding,
                           outcome = u.outcome, error = u.error, closed_at = u.closed_at,
                           compensation = u.compensation
    FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[],
                $7::bigint[], $8::text[])
         AS u(shard, uid, status, outcome_encoding, outcome, error, closed_at, compensation)
    WHERE i.shard = u.shard AND i.uid = u.uid";

const CONTINUE: &str = "
    UPDATE @instance i SET run = u.run, input_encoding = u.encoding, input = u.input,
                           status = 'running', error = NULL, closed_at = NULL
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[])
         AS u(shard, uid, run, encoding, input)
    WHERE i.shard = u.shard AND i.uid = u.uid";

const RELEASE: &str = "
    UPDATE @instance i SET current = false FROM unnest($1::text[]) AS u(id)
    WHERE i.id = u.id AND i.current AND i.status IN ";

const COLUMNS: &str = "shard, uid, id, arrival, workflow, status, run, priority, queue, request_id,
        parent, parent_run, parent_seq, schedule, settings, input_encoding, input,
        outcome_encoding, outcome, compensation, error, created_at, closed_at";

const ROWS: &str = "unnest($1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::text[],
        $6::text[], $7::bigint[], $8::integer[], $9::text[], $10::text[], $11::uuid[],
        $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[], $17::text[],
        $18::text[], $19::text[], $20::text[], $21::text[], $22::bigint[], $23::bigint[])";

/// Every unique index may refuse a start: the uid's, the id's and the request id's.
static INSERT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO @instance ({COLUMNS})
         SELECT shard, uid, id, {NOW} + arrival, workflow, status, run, priority, queue, request_id,
                parent, parent_run, parent_seq, schedule, settings, input_encoding, input,
                outcome_encoding, outcome, compensation, error, created_at, closed_at
         FROM {ROWS} AS u({COLUMNS})
         ON CONFLICT DO NOTHING"
    )
});

const TAG: &str = "
    INSERT INTO @tag (shard, uid, name, value, created_at, arrival)
    SELECT shard, uid, name, value, created_at, arrival + ";

const TAG_ROWS: &str = "
    FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
         AS u(shard, uid, name, value, created_at, arrival)";

/// Counts no further than it must. Two who send at the same time may both find the last place: the
/// limit is there to stop a flood, and one more does no harm.
const ROOM: &str = "
    SELECT 1 / (count(*) = 0)::int
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS u(shard, uid, below)
    WHERE u.below <= (SELECT count(*) FROM (
        SELECT 1 FROM @message m
        WHERE m.shard = u.shard AND m.uid = u.uid AND m.kind = 'SignalReceived'
        LIMIT greatest(u.below, 0)) AS waiting)";

/// Adds the statement that looks whether there is room for the signals of a batch.
pub(super) fn room<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    if !plan.room.is_empty() {
        add.push(
            Statement::check(Part::Rows("look whether there is room for signals"), ROOM)
                .uids(plan.room.keys().copied())
                .bigs(plan.room.values().copied()),
        );
    }
}

/// Adds the statements for the instances of a wave. Changes of status come before starts, which may
/// take over the id of one that has just closed.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.open.is_empty() {
        add.push(open(wave.open.iter().copied()));
    }
    if !wave.statuses.is_empty() {
        add.push(statuses(&wave.statuses));
    }
    if !wave.continued.is_empty() {
        let runs = || wave.continued.iter();
        add.push(
            Statement::rows("continue instances", CONTINUE)
                .uids(runs().map(|(run, _)| run.uid))
                .bigs(runs().map(|(run, _)| i64::from(run.run)))
                .texts(runs().map(|(_, input)| encoding(input)))
                .texts(runs().map(|(_, input)| text(input)))
                .exactly(wave.continued.len()),
        );
    }
    if !wave.released.is_empty() {
        let release = Statement::rows("release ids", format!("{RELEASE}{CLOSED}"));
        add.push(release.texts(wave.released.iter().copied()));
    }
    if !wave.started.is_empty() {
        let insert = insert(&wave.started);
        add.push(if wave.released.is_empty() { insert } else { insert.following() });
        tags(&wave.started, add);
    }
}

fn open<'p>(uids: impl ExactSizeIterator<Item = Uid> + Clone) -> Statement<'p> {
    let expected = whole(uids.len() as u64);
    Statement::check(Part::Rows("look whether instances are open"), OPEN.as_str())
        .uids(uids)
        .big(expected)
}

fn statuses<'p>(writes: &'p [StatusWrite<'_>]) -> Statement<'p> {
    let writes = || writes.iter();
    Statement::rows("change the status of instances", STATUS)
        .uids(writes().map(|write| write.uid))
        .texts(writes().map(|write| write.status.name()))
        .maybe_texts(writes().map(|write| write.outcome.map(encoding)))
        .maybe_texts(writes().map(|write| write.outcome.map(text)))
        .maybe_texts(writes().map(|write| write.error.map(prose)))
        .maybe_bigs(writes().map(|write| millis(write.closed_at)))
        .maybe_texts(writes().map(|write| write.compensation.map(Compensation::name)))
        .exactly(writes().len())
}

fn insert<'p>(rows: &'p [(i64, &InstanceRow)]) -> Statement<'p> {
    let places = rows;
    let rows = || places.iter().map(|(_, row)| *row);
    Statement::rows("insert instances", INSERT.as_str())
        .uids(rows().map(|row| row.uid))
        .texts(rows().map(|row| &*row.id))
        .bigs(places.iter().map(|(arrival, _)| *arrival))
        .texts(rows().map(|row| &*row.workflow))
        .texts(rows().map(|row| row.status.name()))
        .bigs(rows().map(|row| i64::from(row.run)))
        .ints(rows().map(|row| row.priority))
        .texts(rows().map(|row| &*row.queue))
        .maybe_texts(rows().map(|row| row.request_id.as_deref()))
        .only_uids(rows().map(|row| row.parent.map(|parent| parent.run.uid)))
        .maybe_bigs(rows().map(|row| row.parent.map(|parent| i64::from(parent.run.run))))
        .maybe_bigs(rows().map(|row| row.parent.map(|parent| whole(parent.seq.0))))
        .maybe_texts(rows().map(|row| row.schedule.as_deref()))
        .texts(rows().map(|row| settings(&row.settings)))
        .texts(rows().map(|row| encoding(&row.input)))
        .texts(rows().map(|row| text(&row.input)))
        .maybe_texts(rows().map(|row| outcome(row).map(encoding)))
        .maybe_texts(rows().map(|row| outcome(row).map(text)))
        .maybe_texts(rows().map(|row| row.compensation.map(Compensation::name)))
        .maybe_texts(rows().map(|row| row.error.as_deref().map(prose)))
        .bigs(rows().map(|row| row.created_at.as_millis()))
        .maybe_bigs(rows().map(|row| millis(row.closed_at)))
        .exactly(rows().len())
}

fn outcome(row: &InstanceRow) -> Option<&Payload> {
    row.outcome.as_ref()
}

fn tags<'p>(rows: &'p [(i64, &InstanceRow)], add: &mut Vec<Statement<'p>>) {
    let tags =
        || rows.iter().flat_map(|(nth, row)| row.tags.iter().map(move |tag| (nth, *row, tag)));
    if tags().next().is_some() {
        add.push(
            Statement::rows("tag instances", format!("{TAG}{NOW}{TAG_ROWS}"))
                .uids(tags().map(|(_, row, _)| row.uid))
                .texts(tags().map(|(_, _, (name, _))| &**name))
                .texts(tags().map(|(_, _, (_, value))| &**value))
                .bigs(tags().map(|(_, row, _)| row.created_at.as_millis()))
                .bigs(tags().map(|(nth, ..)| *nth)),
        );
    }
}
