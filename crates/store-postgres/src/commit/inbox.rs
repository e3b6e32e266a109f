//! The inbox: a row is taken once, together with what it causes.

use resurgam_core::Payload;

use super::wave::Wave;
use crate::encode::prose;
use crate::statement::Statement;

/// Somebody may have changed a row since it was read; then it is another one.
const TAKE: &str = "
    DELETE FROM @inbox i
    USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
          AS u(arrival, id, instance, kind, name, body)
    WHERE i.arrival = u.arrival AND i.error IS NULL AND i.id IS NOT DISTINCT FROM u.id
      AND i.instance = u.instance AND i.kind = u.kind AND i.name IS NOT DISTINCT FROM u.name
      AND i.body IS NOT DISTINCT FROM u.body";

/// In the order of the ids, so that two who take rows with the same cannot wait for each other.
const REMEMBER: &str = "
    INSERT INTO @inbox_seen (id, at)
    SELECT * FROM unnest($1::text[], $2::bigint[]) AS u(id, at) ORDER BY id
    ON CONFLICT DO NOTHING";

const DROP: &str = "DELETE FROM @inbox WHERE arrival = ANY($1) AND error IS NULL";

const REFUSE: &str = "
    UPDATE @inbox i SET error = u.error FROM unnest($1::bigint[], $2::text[]) AS u(arrival, error)
    WHERE i.arrival = u.arrival AND i.error IS NULL";

const FORGET: &str = "
    DELETE FROM @inbox_seen
    WHERE id IN (SELECT id FROM @inbox_seen WHERE at < $1 ORDER BY at LIMIT 1000)";

/// Adds the statements for the rows of the inbox of a wave.
pub(super) fn statements<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    if !wave.taken.is_empty() {
        take(wave, add);
    }
    if !wave.dropped.is_empty() {
        let dropped = Statement::rows("drop rows of the inbox", DROP);
        add.push(dropped.bigs(wave.dropped.iter().copied()));
    }
    if !wave.refused.is_empty() {
        let refused = || wave.refused.iter();
        add.push(
            Statement::rows("refuse rows of the inbox", REFUSE)
                .bigs(refused().map(|(arrival, _)| *arrival))
                .texts(refused().map(|(_, error)| prose(error))),
        );
    }
    if let Some(before) = wave.forgotten {
        add.push(Statement::rows("forget ids of the inbox", FORGET).big(before.as_millis()));
    }
}

fn take<'p>(wave: &'p Wave<'_>, add: &mut Vec<Statement<'p>>) {
    let rows = || wave.taken.iter().map(|(row, _)| *row);
    add.push(
        Statement::rows("take rows of the inbox", TAKE)
            .bigs(rows().map(|row| row.arrival))
            .maybe_texts(rows().map(|row| row.id.as_deref()))
            .texts(rows().map(|row| &*row.instance))
            .texts(rows().map(|row| &*row.kind))
            .maybe_texts(rows().map(|row| row.name.as_deref()))
            .maybe_texts(rows().map(|row| row.body.as_ref().map(Payload::as_str)))
            .exactly(wave.taken.len()),
    );
    let named = || {
        wave.taken.iter().filter_map(|(row, at)| row.id.as_deref().map(|id| (id, at.as_millis())))
    };
    if named().next().is_some() {
        add.push(
            Statement::rows("remember ids of the inbox", REMEMBER)
                .texts(named().map(|(id, _)| id))
                .bigs(named().map(|(_, at)| at))
                .exactly(named().count()),
        );
    }
}
