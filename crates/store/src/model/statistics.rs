//! What was counted of attempts, what was done, and graphs that are kept by name: rows that no
//! step writes.

use std::collections::BTreeMap;

use resurgam_core::{Timestamp, Uid};

use super::Model;
use crate::rows::ActionRow;
use crate::{
    AuditRange, AuditRow, GraphTemplateRow, GraphTemplateWrite, PressureCounts, PressureRange,
    PressureRow,
};

impl Model {
    /// Adds what was counted, and deletes what is old.
    pub fn add_pressure(&mut self, rows: &[PressureRow], forget_before: Timestamp) {
        let table = &mut self.tables.pressure;
        for row in rows {
            let key = (row.at, row.activity.clone(), row.failure_type.clone());
            let mut counts = table.map().get(&key).copied().unwrap_or_default();
            counts.add(row.counts);
            table.put(key, Some(counts));
        }
        let old = table.map().keys().take_while(|(at, ..)| *at < forget_before).cloned();
        for key in old.collect::<Vec<_>>() {
            table.put(key, None);
        }
    }

    /// What was counted.
    pub fn pressure(&self, range: &PressureRange) -> Vec<PressureRow> {
        let first = (range.from, String::new(), String::new());
        let minutes = self.tables.pressure.map().range(first..);
        let mut found: BTreeMap<_, PressureCounts> = BTreeMap::new();
        for ((at, activity, failure_type), counts) in minutes {
            if *at >= range.to {
                break;
            }
            if range.activity.as_ref().is_none_or(|only| only == activity) {
                let key = (range.begin_of(*at), activity.clone(), failure_type.clone());
                found.entry(key).or_default().add(*counts);
            }
        }
        let row = |((at, activity, failure_type), counts)| PressureRow {
            at,
            activity,
            failure_type,
            counts,
        };
        found.into_iter().map(row).take(range.limit).collect()
    }

    /// Adds what was done, and deletes what is old.
    pub fn add_audit(&mut self, rows: &[AuditRow], forget_before: Timestamp) {
        let table = &mut self.tables.audit;
        for row in rows {
            if !table.map().values().any(|known| known.id == row.id) {
                table.put((row.at, row.id.clone()), Some(row.clone()));
            }
        }
        let old = table.map().keys().take_while(|(at, _)| *at < forget_before).cloned();
        for key in old.collect::<Vec<_>>() {
            table.put(key, None);
        }
    }

    /// What was done, the newest first.
    pub fn audit(&self, range: &AuditRange<String>) -> Vec<AuditRow> {
        let rows = self.tables.audit.map().values().rev();
        rows.filter(|row| range.has(row.at, &row.id)).take(range.limit).cloned().collect()
    }

    /// What operators did to calls and runs, the newest first.
    pub fn newest_actions(&self, range: &AuditRange<(Uid, String)>) -> Vec<ActionRow> {
        let rows = self.tables.actions.map().iter();
        let mut found: Vec<_> = rows.filter(|(key, row)| range.has(row.at, key)).collect();
        found.sort_by_key(|(key, row)| std::cmp::Reverse((row.at, *key)));
        found.into_iter().take(range.limit).map(|(_, row)| row.clone()).collect()
    }

    /// Graphs behind a name.
    pub fn graph_templates(&self, after: &str, limit: usize) -> Vec<GraphTemplateRow> {
        let rows = self.tables.graph_templates.map().values();
        rows.filter(|row| row.name.as_str() > after).take(limit).cloned().collect()
    }

    /// The graph of a name.
    pub fn graph_template(&self, name: &str) -> Option<GraphTemplateRow> {
        self.tables.graph_templates.map().get(name).cloned()
    }

    /// Changes one graph; false when there was none before.
    pub fn write_graph_template(&mut self, write: GraphTemplateWrite) -> bool {
        let rows = &mut self.tables.graph_templates;
        match write {
            GraphTemplateWrite::Put(row) => {
                let before = rows.map().get(&row.name).map(|before| before.created_at);
                let created_at = before.unwrap_or(row.created_at);
                rows.put(row.name.clone(), Some(GraphTemplateRow { created_at, ..row })).is_some()
            }
            GraphTemplateWrite::Delete { name } => rows.put(name, None).is_some(),
        }
    }
}
