//! Which nodes share the shards: those that can run the same workflows.
//!
//! Pure. Every node decides from the same rows. A node that knows less than another one leaves its
//! shards to it, so in a rolling deployment the new nodes take over at once. Of nodes that know
//! different workflows, those that were there first work, and the others take no shards: whatever
//! they took would have to wait.

use std::collections::BTreeSet;

use resurgam_core::Timestamp;

use super::NodeRow;
use crate::Aside;

/// The nodes that share the shards, of those that are alive.
pub fn sharers<'n>(live: &[&'n NodeRow]) -> Vec<&'n NodeRow> {
    let most = live.iter().filter(|row| superset(row, live).is_none());
    let first = most.clone().filter(|row| row.workflows.is_some()).min_by_key(|row| age(row));
    let shares = |row: &&&NodeRow| {
        row.workflows.is_none() || first.is_some_and(|first| row.workflows == first.workflows)
    };
    most.filter(shares).copied().collect()
}

/// Why a node is not among those that share the shards.
pub(super) fn why_aside(me: &NodeRow, live: &[&NodeRow], sharers: &[&NodeRow]) -> Option<Aside> {
    if sharers.iter().any(|row| row.node == me.node) {
        return None;
    }
    if let Some(row) = superset(me, live) {
        return Some(Aside::KnowsLess { than: row.node.clone() });
    }
    let (mine, first) = (me.workflows.as_ref()?, sharers.iter().min_by_key(|row| age(row))?);
    let theirs = first.workflows.as_ref()?;
    Some(Aside::KnowsOthers {
        than: first.node.clone(),
        program: first.program.clone(),
        only_there: theirs.difference(mine).cloned().collect(),
        only_here: mine.difference(theirs).cloned().collect(),
    })
}

/// Workflows that other nodes can run and this one cannot.
pub(super) fn known_elsewhere(me: &NodeRow, live: &[&NodeRow]) -> BTreeSet<String> {
    let Some(mine) = &me.workflows else { return BTreeSet::new() };
    let all = live.iter().filter_map(|row| row.workflows.as_ref()).flatten();
    all.filter(|workflow| !mine.contains(*workflow)).cloned().collect()
}

/// A node that can run everything that this one can, and more.
fn superset<'n>(row: &NodeRow, live: &[&'n NodeRow]) -> Option<&'n NodeRow> {
    let mine = row.workflows.as_ref()?;
    let knows_more = |other: &&&NodeRow| {
        other.workflows.as_ref().is_some_and(|theirs| theirs != mine && theirs.is_superset(mine))
    };
    live.iter().find(knows_more).copied()
}

fn age(row: &NodeRow) -> (Timestamp, &str) {
    (row.started_at, &row.node)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn node(name: &str, started_at: i64, workflows: Option<&[&str]>) -> NodeRow {
        NodeRow {
            node: name.to_string(),
            beat: 0,
            pid: 1,
            program: format!("{name}d"),
            started_at: Timestamp::from_millis(started_at),
            workflows: workflows.map(|names| names.iter().map(ToString::to_string).collect()),
        }
    }

    fn share(nodes: &[NodeRow]) -> Vec<&str> {
        let live: Vec<&NodeRow> = nodes.iter().collect();
        sharers(&live).iter().map(|row| row.node.as_str()).collect()
    }

    #[test]
    fn nodes_with_the_same_workflows_share_the_shards() {
        let nodes = [node("a", 1, Some(&["x", "y"])), node("b", 2, Some(&["x", "y"]))];
        assert_eq!(share(&nodes), ["a", "b"]);
    }

    #[test]
    fn a_node_that_knows_less_leaves_its_shards_to_one_that_knows_more() {
        let nodes = [
            node("old-1", 1, Some(&["x"])),
            node("old-2", 2, Some(&["x"])),
            node("new", 3, Some(&["x", "y"])),
            node("activities-only", 0, Some(&[])),
        ];
        assert_eq!(share(&nodes), ["new"]);
        let live: Vec<&NodeRow> = nodes.iter().collect();
        let than = |row| why_aside(row, &live, &sharers(&live));
        assert_eq!(than(&nodes[0]), Some(Aside::KnowsLess { than: "new".to_string() }));
        assert_eq!(than(&nodes[2]), None);
        assert_eq!(known_elsewhere(&nodes[0], &live), BTreeSet::from(["y".to_string()]));
        // When the new one is gone, the old ones go on.
        assert_eq!(share(&nodes[..2]), ["old-1", "old-2"]);
    }

    #[test]
    fn of_nodes_with_different_workflows_the_first_ones_work() {
        let nodes = [
            node("worker", 2, Some(&["* any"])),
            node("app-1", 1, Some(&["x", "y"])),
            node("app-2", 3, Some(&["x", "y"])),
        ];
        assert_eq!(share(&nodes), ["app-1", "app-2"]);
        let live: Vec<&NodeRow> = nodes.iter().collect();
        let expected = Aside::KnowsOthers {
            than: "app-1".to_string(),
            program: "app-1d".to_string(),
            only_there: vec!["x".to_string(), "y".to_string()],
            only_here: vec!["* any".to_string()],
        };
        assert_eq!(why_aside(&nodes[0], &live, &sharers(&live)), Some(expected));
        // One that knows all of it is before all others.
        let all = node("both", 9, Some(&["x", "y", "* any"]));
        assert_eq!(share(&[nodes.to_vec(), vec![all]].concat()), ["both"]);
    }

    #[test]
    fn a_node_that_does_not_say_what_it_knows_shares_with_all() {
        let nodes = [
            node("older-program", 5, None),
            node("a", 1, Some(&["x"])),
            node("b", 2, Some(&["y"])),
        ];
        assert_eq!(share(&nodes), ["older-program", "a"]);
        assert_eq!(share(&nodes[..1]), ["older-program"]);
    }
}
