//! Graphs that are kept under a name, to be started by it.

use resurgam_core::Timestamp;

use crate::Answer;

/// Keeping graphs.
pub trait GraphTemplates {
    /// Graphs behind this name, in the order of their names, at most `limit`.
    fn graph_templates(&self, after: &str, limit: usize) -> Answer<'_, Vec<GraphTemplateRow>>;

    /// The graph of this name.
    fn graph_template(&self, name: &str) -> Answer<'_, Option<GraphTemplateRow>>;

    /// Changes one graph. False when there was none before: none was replaced, or there is none to
    /// delete.
    fn write_graph_template(&self, write: GraphTemplateWrite) -> Answer<'_, bool>;
}

/// A graph that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphTemplateRow {
    /// What it is started by.
    pub name: String,
    /// The graph, as JSON. Its secrets are not in it.
    pub template: String,
    /// Its secrets by their names, as JSON.
    pub secrets: String,
    /// Who wrote it.
    pub by: String,
    /// When it was first kept. A row that replaces another one keeps that one's time.
    pub created_at: Timestamp,
    /// When it was last written.
    pub changed_at: Timestamp,
}

/// A change of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphTemplateWrite {
    /// Keep one, in the place of the one that has its name.
    Put(GraphTemplateRow),
    /// Keep one no longer.
    Delete {
        /// Which.
        name: String,
    },
}
