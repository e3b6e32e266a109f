//! Migrations: SQL files that are part of the program, applied in order.
//!
//! All that are missing are applied in one transaction, which begins by taking an advisory lock
//! that ends with it, so of many processes that start at once one migrates and the others find it
//! done. A schema knows its own number (`meta.format`) and the lowest number that a program must
//! know to use it (`meta.min_reader`): migrations that only add do not lock out the program of
//! yesterday.

use resurgam_core::{Code, Shard};
use resurgam_store::{Error, Result};
use tokio_postgres::{Client, Row};

use crate::connect::Connector;
use crate::statement::{Schema, Statement, query};

/// One step of the schema.
struct Migration {
    sql: &'static str,
    /// The number of the oldest migration whose programs can use the schema after this one.
    min_reader: i64,
}

/// Migration n stands at place n - 1. Published ones are never changed.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("schema.sql"), min_reader: 1 },
    // A node that does not say which workflows it knows counts as one that knows all.
    Migration { sql: include_str!("workflows.sql"), min_reader: 1 },
    // A holder that claims tasks by itself that others may claim as well must not work on it.
    Migration { sql: include_str!("lacking.sql"), min_reader: 3 },
    // A program that asks for the column by its old name cannot use the schema.
    Migration { sql: include_str!("gate.sql"), min_reader: 4 },
    // A program that knows nothing of timelines leaves the columns alone.
    Migration { sql: include_str!("timelines.sql"), min_reader: 4 },
    // A node that knows no paused calls would go by the end of time, and set actions aside.
    Migration { sql: include_str!("actions.sql"), min_reader: 6 },
    // A node that knows no paused instances would let them go on, or not read them.
    Migration { sql: include_str!("runs.sql"), min_reader: 7 },
    // A node that writes no letters would lose them, and one that sets no fingerprint would hide
    // paused calls.
    Migration { sql: include_str!("dead_letters.sql"), min_reader: 8 },
    // A node that does not know of the mark runs such calls beside each other, and keeps the mark
    // out of what it writes.
    Migration { sql: include_str!("poison.sql"), min_reader: 8 },
    // A node that knows nothing of these policies would decide by others.
    Migration { sql: include_str!("policy_overrides.sql"), min_reader: 10 },
    // A node that works on no bulk jobs would leave them lying.
    Migration { sql: include_str!("bulk.sql"), min_reader: 11 },
    // A node that knows no gates would begin what is held back.
    Migration { sql: include_str!("gates.sql"), min_reader: 12 },
    // A program that knows no tokens lets nobody in by them.
    Migration { sql: include_str!("tokens.sql"), min_reader: 12 },
    // A program that keeps no gate with a letter has it tried behind its activity's.
    Migration { sql: include_str!("letter_gate.sql"), min_reader: 12 },
    // A program that knows none of these tables counts nothing and keeps nothing there.
    Migration { sql: include_str!("server.sql"), min_reader: 12 },
    // A program that knows nothing of remote workers leaves the tables alone.
    Migration { sql: include_str!("remote.sql"), min_reader: 12 },
];

/// The number of the newest migration that this program knows.
const FORMAT: i64 = MIGRATIONS.len() as i64;

/// The oldest server that knows all we use, as PostgreSQL counts versions.
const OLDEST_SERVER: i32 = 130_000;

/// The tables of the schema, and of which server. Asked before anything else.
const LOOK: &str = "
    SELECT current_setting('server_version_num')::int,
           (SELECT count(*) FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')),
           (SELECT count(*) FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relname = 'meta' AND NOT a.attisdropped
              AND a.attname IN ('format', 'min_reader', 'shards', 'hash', 'made_by'))";

/// A role that owns a schema which somebody made for it may not even ask to make it where it is not
/// there: PostgreSQL looks at the rights first.
const THERE: &str = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";

const META: &str = "SELECT format, min_reader, shards, hash, made_by FROM @meta";

/// What a schema says about itself.
struct Meta {
    format: i64,
    min_reader: i64,
    shards: i16,
    hash: String,
    made_by: String,
}

/// Brings a schema up to date, or refuses one that is not ours or that only newer programs
/// understand.
pub(crate) async fn migrate(client: &Client, connector: &Connector, schema: &Schema) -> Result<()> {
    // Looking first keeps clients from waiting for the lock on every start, and lets programs
    // start that have no right to make tables.
    if missing(schema, meta(client, connector, schema).await?)?.is_empty() {
        return Ok(());
    }
    let failed = |error| not_made(connector, schema, error);
    client.batch_execute(&lock(schema)).await.map_err(failed)?;
    let todo = match meta(client, connector, schema).await {
        Ok(meta) => missing(schema, meta)?,
        Err(error) => return Err(error),
    };
    let there = Statement::rows("look for the schema", THERE).text(schema.name());
    let is_there = !query(client, schema, &there).await.map_err(failed)?.is_empty();
    for message in script(schema, todo, is_there) {
        client.batch_execute(&message).await.map_err(failed)?;
    }
    Ok(())
}

/// Refuses a schema that is not there or lacks a migration, and changes nothing.
pub(crate) async fn check(client: &Client, connector: &Connector, schema: &Schema) -> Result<()> {
    let (name, place) = (schema.name(), connector.place());
    let Some(meta) = meta(client, connector, schema).await? else {
        return Err(Error::missing(format!(
            "use schema {name} of {place}: there is no Resurgam in this database; a program that \
             works on it makes the schema: begin your app, or `resurgam worker`, first"
        )));
    };
    let (format, made_by) = (meta.format, meta.made_by.clone());
    if missing(schema, Some(meta))?.is_empty() {
        return Ok(());
    }
    Err(Error::unusable(format!(
        "use schema {name} of {place}: it has format {format} of Resurgam {made_by}, and this \
         program reads {FORMAT}; a program that works on it brings it up to date: begin your app, \
         or `resurgam worker`, of this version first"
    ))
    .with_code(Code::D8))
}

/// A transaction of its own that nobody else is in at the same time.
fn lock(schema: &Schema) -> String {
    let name = schema.name().replace('\'', "''");
    format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('resurgam {name}', 0))")
}

/// What is left to send. The schema is made by a message of its own: Citus, which gives each schema
/// a server, takes it in no other way.
fn script(schema: &Schema, todo: &[Migration], is_there: bool) -> Vec<String> {
    let Some(last) = todo.last() else { return vec!["COMMIT".to_string()] };
    let make = format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema.name()));
    let make = Some(make).filter(|_| !is_there);
    let mut script = String::new();
    for migration in todo {
        script.push_str(&schema.sql(migration.sql));
    }
    script.push_str(&schema.sql(&format!(
        "INSERT INTO @meta AS m (one, format, min_reader, shards, hash, made_by)
         VALUES (1, {FORMAT}, {}, {}, '{}', '{}')
         ON CONFLICT (one) DO UPDATE SET format = excluded.format,
                                         min_reader = greatest(m.min_reader, excluded.min_reader),
                                         made_by = excluded.made_by;
         COMMIT",
        last.min_reader,
        Shard::COUNT,
        Shard::HASH,
        env!("CARGO_PKG_VERSION"),
    )));
    make.into_iter().chain([script]).collect()
}

/// What the schema says about itself, `None` when it is empty or not there.
async fn meta(client: &Client, connector: &Connector, schema: &Schema) -> Result<Option<Meta>> {
    let failed = |error| connector.trouble(error);
    let look = Statement::rows("look at the schema", LOOK).text(schema.name());
    let rows = query(client, schema, &look).await.map_err(failed)?;
    let look = rows.first().ok_or_else(|| Error::unusable("look at the schema: no answer"))?;
    check_version(look.try_get(0).map_err(failed)?)?;
    let (tables, columns): (i64, i64) =
        (look.try_get(1).map_err(failed)?, look.try_get(2).map_err(failed)?);
    match (tables, columns) {
        (0, _) => Ok(None),
        (_, 5) => read_meta(client, connector, schema).await,
        _ => Err(Error::unusable(format!(
            "use schema {} of {}: it holds tables of another program; name another schema",
            schema.name(),
            connector.place()
        ))
        .with_code(Code::D4)),
    }
}

async fn read_meta(
    client: &Client,
    connector: &Connector,
    schema: &Schema,
) -> Result<Option<Meta>> {
    let rows = query(client, schema, &Statement::rows("read meta", META)).await;
    let rows = rows.map_err(|error| no_rights(connector, schema, error))?;
    let read = |row: &Row| -> std::result::Result<Meta, tokio_postgres::Error> {
        Ok(Meta {
            format: row.try_get(0)?,
            min_reader: row.try_get(1)?,
            shards: row.try_get(2)?,
            hash: row.try_get(3)?,
            made_by: row.try_get(4)?,
        })
    };
    rows.first().map(read).transpose().map_err(|error| connector.trouble(error))
}

/// The migrations that a schema lacks.
fn missing(schema: &Schema, meta: Option<Meta>) -> Result<&'static [Migration]> {
    let Some(meta) = meta else { return Ok(MIGRATIONS) };
    if meta.min_reader > FORMAT {
        return Err(Error::unusable(format!(
            "use schema {}: it was made by Resurgam {} in format {}, which needs a program that \
             knows format {}, and this one knows {FORMAT}; use that version or a newer one",
            schema.name(),
            meta.made_by,
            meta.format,
            meta.min_reader
        ))
        .with_code(Code::D3));
    }
    if (meta.shards, meta.hash.as_str()) != (Shard::COUNT.cast_signed(), Shard::HASH) {
        return Err(Error::unusable(format!(
            "use schema {}: its instances are spread over {} shards by {:?}, and this program \
             spreads them over {} by {:?}; use the version that made it",
            schema.name(),
            meta.shards,
            meta.hash,
            Shard::COUNT,
            Shard::HASH
        ))
        .with_code(Code::D3));
    }
    let done = usize::try_from(meta.format).unwrap_or(0);
    Ok(MIGRATIONS.get(done..).unwrap_or_default())
}

fn check_version(number: i32) -> Result<()> {
    match number >= OLDEST_SERVER {
        true => Ok(()),
        false => Err(Error::unusable(format!(
            "use this server: it is PostgreSQL {}.{}, and {} is the oldest that knows what we \
             need; upgrade it",
            number / 10_000,
            number % 10_000,
            OLDEST_SERVER / 10_000
        ))),
    }
}

/// Trouble while making the schema: usually that somebody else must make it.
fn not_made(connector: &Connector, schema: &Schema, error: tokio_postgres::Error) -> Error {
    if error.code().map(|code| code.code()) != Some("42501") {
        return connector.trouble(error);
    }
    Error::unusable(format!(
        "make schema {0} in {1}: this user may not; let an administrator run CREATE SCHEMA {2} \
         AUTHORIZATION this user, or GRANT CREATE ON DATABASE",
        schema.name(),
        connector.place(),
        quoted(schema.name())
    ))
    .because(crate::errors::said(&error))
}

/// Trouble while reading the schema: usually that somebody else made it.
fn no_rights(connector: &Connector, schema: &Schema, error: tokio_postgres::Error) -> Error {
    if error.code().map(|code| code.code()) != Some("42501") {
        return connector.trouble(error);
    }
    Error::unusable(format!(
        "use schema {0} of {1}: this user may not read it; let its owner run GRANT USAGE ON SCHEMA \
         {2}, and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {2}, to this user; \
         SELECT is enough for looking",
        schema.name(),
        connector.place(),
        quoted(schema.name())
    ))
    .because(crate::errors::said(&error))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused_with_its_version() {
        assert!(check_version(130_000).is_ok());
        assert!(check_version(180_001).is_ok());
        let error = check_version(120_017).unwrap_err();
        assert!(error.is_unusable());
        assert!(error.to_string().contains("PostgreSQL 12.17"), "{error}");
        assert!(error.to_string().contains("13 is the oldest"), "{error}");
    }
}
