//! A graph made ready to run: identifiers found, inputs taken apart, policies in the engine's
//! words.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use resurgam_core::gate::KeyTemplate;
use resurgam_core::retry::RetryPolicy;

use crate::model::{Graph, Node, UniteStrategy};
use crate::reference::Text;
use crate::topology::Topology;

/// What to do for each node, and where to begin.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<Step>,
    pub(crate) root: usize,
    places: HashMap<String, usize>,
}

/// What to do for a node. Nodes are numbers, their places in the list.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) identifier: String,
    pub(crate) node_name: String,
    pub(crate) inputs: BTreeMap<String, Text>,
    /// The next nodes that begin as soon as this one is done: all that do not unite anything.
    pub(crate) next: Vec<usize>,
    /// The nodes that unite on this one, each after those that lead to it.
    pub(crate) uniting: Vec<usize>,
    /// When this node unites: whether also on what failed or was pruned.
    pub(crate) takes_all_done: bool,
    /// When this node unites: the nodes that unite on the same target and come after this one.
    pub(crate) before: Vec<usize>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) gate: Option<KeyTemplate>,
}

impl Plan {
    /// Makes a graph ready. What was accepted as a template can be; the error is for one that was
    /// changed in a store.
    pub(crate) fn of(graph: &Graph) -> Result<Plan, String> {
        let root = Plan::root_of(graph).ok_or("the graph has not exactly one root")?;
        let topology = Topology::of(&graph.nodes);
        let order = topology.order();
        if order.len() < graph.nodes.len() {
            return Err("the graph has a cycle".to_string());
        }
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank_of, node)| rank[*node] = rank_of);
        let shared = graph.retry_policy.resolve().map_err(|problems| problems.to_string())?;
        let step = |(place, node)| step(place, node, &topology, &rank, &shared);
        let nodes: Result<Vec<Step>, String> = graph.nodes.iter().enumerate().map(step).collect();
        let places = graph.nodes.iter().enumerate();
        let places = places.map(|(place, node)| (node.identifier.clone(), place)).collect();
        Ok(Plan { nodes: nodes?, root, places })
    }

    /// The node where a run begins, when there is exactly one.
    pub(crate) fn root_of(graph: &Graph) -> Option<usize> {
        match Topology::of(&graph.nodes).roots()[..] {
            [root] => Some(root),
            _ => None,
        }
    }

    /// The node of this identifier.
    pub(crate) fn node(&self, identifier: &str) -> Option<usize> {
        self.places.get(identifier).copied()
    }
}

fn step(
    place: usize,
    node: &Node,
    topology: &Topology,
    rank: &[usize],
    shared: &RetryPolicy,
) -> Result<Step, String> {
    let parse = |(name, text): (&String, &String)| Ok((name.clone(), Text::parse(text)?));
    let inputs: Result<BTreeMap<String, Text>, String> = node.inputs.iter().map(parse).collect();
    let retry = match &node.retry_policy {
        Some(policy) => policy.resolve().map_err(|problems| problems.to_string())?,
        None => shared.clone(),
    };
    let unites = |node: &usize| topology.target[*node].is_some();
    let mut uniting = topology.uniting[place].clone();
    uniting.sort_by_key(|node| rank[*node]);
    let strategy = node.unites.as_ref().map(|unites| unites.strategy);
    Ok(Step {
        identifier: node.identifier.clone(),
        node_name: node.node_name.clone(),
        inputs: inputs?,
        next: topology.next[place].iter().copied().filter(|node| !unites(node)).collect(),
        uniting,
        takes_all_done: strategy == Some(UniteStrategy::AllDone),
        before: after_it(place, topology),
        retry,
        timeout: node.timeout_ms.map(Duration::from_millis),
        gate: node.gate.as_deref().map(KeyTemplate::parse).transpose()?,
    })
}

/// The nodes that unite on the same target as this one and come after it.
fn after_it(place: usize, topology: &Topology) -> Vec<usize> {
    let Some(target) = topology.target[place] else { return Vec::new() };
    let group = &topology.uniting[target];
    if group.len() == 1 {
        return Vec::new();
    }
    let below = topology.below(place);
    group.iter().copied().filter(|other| below.contains(*other)).collect()
}
