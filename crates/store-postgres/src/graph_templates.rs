//! Graphs that are kept under a name.

use resurgam_store::decode::{self, Decoded, GRAPH_TEMPLATE};
use resurgam_store::{Answer, Error, GraphTemplateRow, GraphTemplateWrite, GraphTemplates, Result};
use tokio_postgres::Row;

use crate::decode::Fetched;
use crate::encode::whole;
use crate::pool::Pool;
use crate::statement::Statement;
use crate::store::PostgresStore;

impl GraphTemplates for PostgresStore {
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>> {
        let after = after.to_string();
        self.here(async move {
            let sql = format!(
                "SELECT {GRAPH_TEMPLATE} FROM @graph_template WHERE name > $1
                 ORDER BY name LIMIT $2"
            );
            let statement = Statement::rows("read graphs", sql).text(after);
            decoded(&self.pool().ask(statement.big(whole(limit as u64))).await?)
        })
    }

    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>> {
        let name = name.to_string();
        self.here(async move {
            let sql = format!("SELECT {GRAPH_TEMPLATE} FROM @graph_template WHERE name = $1");
            let rows = self.pool().ask(Statement::rows("read a graph", sql).text(name)).await?;
            Ok(decoded(&rows)?.pop())
        })
    }

    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool> {
        self.here(async move { change(self.pool(), &write).await })
    }
}

fn decoded(rows: &[Row]) -> Result<Vec<GraphTemplateRow>> {
    let found: Decoded<Vec<GraphTemplateRow>> =
        rows.iter().map(|row| decode::graph_template(&Fetched(row))).collect();
    found.map_err(|why| Error::data("read graphs").because(why))
}

/// True when there was one before.
async fn change(pool: &Pool, write: &GraphTemplateWrite) -> Result<bool> {
    let what = "change a graph";
    match write {
        GraphTemplateWrite::Put(row) => {
            // A row that was inserted has locked none.
            let sql = "INSERT INTO @graph_template AS g
                           (name, template, secrets, by, created_at, changed_at)
                       VALUES ($1, $2, $3, $4, $5, $6)
                       ON CONFLICT (name) DO UPDATE SET
                           template = excluded.template, secrets = excluded.secrets,
                           by = excluded.by, changed_at = excluded.changed_at
                       RETURNING xmax <> 0 AS replaced";
            let GraphTemplateRow { name, template, secrets, by, created_at, changed_at } = row;
            let statement = Statement::rows(what, sql).text(name).text(template).text(secrets);
            let statement = statement.text(by).big(created_at.as_millis());
            let rows = pool.ask(statement.big(changed_at.as_millis())).await?;
            let replaced = rows.first().map(|row| row.try_get(0)).transpose();
            replaced.map(Option::unwrap_or_default).map_err(|why| Error::data(what).because(why))
        }
        GraphTemplateWrite::Delete { name } => {
            let sql = "DELETE FROM @graph_template WHERE name = $1 RETURNING name";
            Ok(!pool.ask(Statement::rows(what, sql).text(name)).await?.is_empty())
        }
    }
}
