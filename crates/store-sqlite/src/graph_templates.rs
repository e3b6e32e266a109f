//! Graphs that are kept under a name.

use resurgam_store::decode::{self, GRAPH_TEMPLATE};
use resurgam_store::{Answer, GraphTemplateRow, GraphTemplateWrite, GraphTemplates, Result};
use rusqlite::{Connection, params};

use crate::errors::Attempted;
use crate::store::SqliteStore;

impl GraphTemplates for SqliteStore {
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>> {
        let (after, what) = (after.to_string(), || "read graphs".to_string());
        self.read(what, move |reading| {
            let sql = format!(
                "SELECT {GRAPH_TEMPLATE} FROM resurgam_graph_template WHERE name > ?1
                 ORDER BY name LIMIT ?2"
            );
            let values = params![after, i64::try_from(limit).unwrap_or(i64::MAX)];
            reading.every(&sql, values, |row| decode::graph_template(&row), what)
        })
    }

    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>> {
        let name = name.to_string();
        self.read(
            || "read a graph".to_string(),
            move |reading| {
                let sql =
                    format!("SELECT {GRAPH_TEMPLATE} FROM resurgam_graph_template WHERE name = ?1");
                let what = || format!("read graph {name:?}");
                reading.one(&sql, [&name], |row| decode::graph_template(&row), what)
            },
        )
    }

    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool> {
        Box::pin(self.change_apart("change a graph", move |connection| change(connection, &write)))
    }
}

/// True when there was one before.
fn change(connection: &Connection, write: &GraphTemplateWrite) -> Result<bool> {
    let what = || "change a graph".to_string();
    match write {
        GraphTemplateWrite::Put(row) => {
            let GraphTemplateRow { name, template, secrets, by, created_at, changed_at } = row;
            let sql = "UPDATE resurgam_graph_template
                       SET template = ?2, secrets = ?3, by = ?4, changed_at = ?5 WHERE name = ?1";
            let values = params![name, template, secrets, by, changed_at.as_millis()];
            if connection.execute(sql, values).attempted(what)? > 0 {
                return Ok(true);
            }
            let sql = "INSERT INTO resurgam_graph_template
                           (name, template, secrets, by, created_at, changed_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let times = (created_at.as_millis(), changed_at.as_millis());
            let values = params![name, template, secrets, by, times.0, times.1];
            connection.execute(sql, values).attempted(what)?;
            Ok(false)
        }
        GraphTemplateWrite::Delete { name } => {
            let sql = "DELETE FROM resurgam_graph_template WHERE name = ?1";
            Ok(connection.execute(sql, [name]).attempted(what)? > 0)
        }
    }
}
