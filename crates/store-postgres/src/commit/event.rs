//! Events: appended and never changed.

use super::plan::Plan;
use crate::encode::{encoding, text, whole};
use crate::statement::Statement;

const INSERT: &str = "
    INSERT INTO @event (shard, uid, run, seq, at, kind, head, encoding, body)
    SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[],
                         $6::text[], $7::text[], $8::text[], $9::text[])";

/// Adds the statement for the events of a batch.
pub(super) fn statements<'p>(plan: &'p Plan<'_>, add: &mut Vec<Statement<'p>>) {
    let events = || plan.events.iter();
    if plan.events.is_empty() {
        return;
    }
    let body = || events().map(|(_, _, stored)| stored.body.as_ref());
    add.push(
        Statement::rows("append events", INSERT)
            .uids(events().map(|(run, ..)| run.uid))
            .bigs(events().map(|(run, ..)| i64::from(run.run)))
            .bigs(events().map(|(_, event, _)| whole(event.seq.0)))
            .bigs(events().map(|(_, event, _)| event.at.as_millis()))
            .texts(events().map(|(_, _, stored)| stored.kind))
            .texts(events().map(|(_, _, stored)| &*stored.head))
            .maybe_texts(body().map(|body| body.map(encoding)))
            .maybe_texts(body().map(|body| body.map(text))),
    );
}
