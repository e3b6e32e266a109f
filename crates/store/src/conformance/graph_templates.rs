//! Graphs are kept by their names.

use super::fixtures::*;

use crate::{GraphTemplateRow, GraphTemplateWrite, Store};

fn graph(name: &str, written: i64) -> GraphTemplateRow {
    GraphTemplateRow {
        name: name.to_string(),
        template: r#"{"nodes":["ü'\""]}"#.to_string(),
        secrets: r#"{"key":"a\u0000b"}"#.to_string(),
        by: format!("ana {written}"),
        created_at: at(written),
        changed_at: at(written),
    }
}

pub async fn a_graph_is_kept_replaced_and_deleted_by_its_name(store: &dyn Store) {
    let put = |row: &GraphTemplateRow| GraphTemplateWrite::Put(row.clone());
    let delete = || GraphTemplateWrite::Delete { name: "a/b".to_string() };
    assert_eq!(store.graph_template("a/b").await.unwrap(), None);
    assert!(!store.write_graph_template(delete()).await.unwrap());
    assert!(!store.write_graph_template(put(&graph("a/b", 5))).await.unwrap());
    assert_eq!(store.graph_template("a/b").await.unwrap(), Some(graph("a/b", 5)));
    assert!(store.write_graph_template(put(&graph("a/b", 9))).await.unwrap());
    let expected = GraphTemplateRow { created_at: at(5), ..graph("a/b", 9) };
    assert_eq!(store.graph_template("a/b").await.unwrap(), Some(expected));
    assert!(store.write_graph_template(delete()).await.unwrap());
    assert_eq!(store.graph_template("a/b").await.unwrap(), None);
}

pub async fn graphs_are_listed_by_their_names(store: &dyn Store) {
    for name in ["b", "Z", "a"] {
        let write = GraphTemplateWrite::Put(graph(name, 5));
        store.write_graph_template(write).await.unwrap();
    }
    let listed = store.graph_templates("", 10).await.unwrap();
    assert_eq!(listed, [graph("Z", 5), graph("a", 5), graph("b", 5)]);
    assert_eq!(store.graph_templates("Z", 1).await.unwrap(), listed[1..2]);
}
