//! What can only be said about a graph as a whole: its shape, and what its inputs refer to.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use resurgam_core::Code;

use crate::model::{Graph, Node};
use crate::notes::Notes;
use crate::reference::{Output, Piece, Text, shown};
use crate::topology::{Set, Topology};

/// How many nodes of a cycle are named.
const CYCLE: usize = 20;

/// How many cycles are looked for: each search may go through the whole graph.
const SEARCHES: usize = 100;

/// Finds everything that is wrong with a graph.
pub(crate) fn check(graph: &Graph, notes: &mut Notes) {
    identifiers(&graph.nodes, notes);
    edges(&graph.nodes, notes);
    let topology = Topology::of(&graph.nodes);
    shape(&graph.nodes, &topology, notes);
    references(graph, &topology, notes);
    odd_edges(&graph.nodes, &topology, notes);
    if !graph.triggers.is_empty() && !graph.store_config.required_keys.is_empty() {
        let message = "a trigger starts runs with an empty store, so required_keys make it fail";
        notes.warn("triggers", message);
    }
}

fn identifiers(nodes: &[Node], notes: &mut Notes) {
    let mut seen = HashSet::new();
    for (i, node) in nodes.iter().enumerate() {
        // One that could not be read was told about.
        if !node.identifier.is_empty() && !seen.insert(node.identifier.as_str()) {
            let message = format!("Node identifier {} is not unique", node.identifier);
            notes.refuse(Code::G2, format!("nodes[{i}].identifier"), message);
        }
    }
}

/// Every edge leads to a node that exists.
fn edges(nodes: &[Node], notes: &mut Notes) {
    let known: HashSet<&str> = nodes.iter().map(|node| node.identifier.as_str()).collect();
    for (i, node) in nodes.iter().enumerate() {
        for (j, next) in node.next_nodes.iter().enumerate() {
            if !known.contains(next.as_str()) {
                let message = format!("Node identifier {next} does not exist in the graph");
                notes.refuse(Code::G2, format!("nodes[{i}].next_nodes[{j}]"), message);
            }
        }
        let Some(unites) = &node.unites else { continue };
        let target = &unites.identifier;
        let what = match known.contains(target.as_str()) {
            true if *target == node.identifier => "is the same as the node itself",
            true => continue,
            false => "does not exist",
        };
        let message = format!("Node {} has an unites target {target} that {what}", node.identifier);
        notes.refuse(Code::G2, format!("nodes[{i}].unites.identifier"), message);
    }
}

/// One root, everything connected to it, no cycles.
fn shape(nodes: &[Node], topology: &Topology, notes: &mut Notes) {
    let roots = topology.roots();
    let root = match roots[..] {
        [root] => Some(root),
        _ => {
            let names: Vec<&str> = roots.iter().map(|root| &*nodes[*root].identifier).collect();
            let message = format!(
                "There should be exactly one root node in the graph but found {} nodes with zero \
                 in-degree: [{}]",
                roots.len(),
                shown(&names.join(", "))
            );
            notes.refuse(Code::G3, "nodes", message);
            None
        }
    };
    cycles(nodes, topology, notes);
    if let Some(root) = root {
        let connected = topology.below(root);
        let apart = (0..nodes.len()).filter(|node| *node != root && !connected.contains(*node));
        for node in apart {
            let message =
                format!("Node {} is not connected to the root node", nodes[node].identifier);
            notes.refuse(Code::G3, format!("nodes[{node}]"), message);
        }
    }
}

/// Every node on a cycle, and the cycle.
fn cycles(nodes: &[Node], topology: &Topology, notes: &mut Notes) {
    let mut known: HashMap<usize, Rc<[usize]>> = HashMap::new();
    let mut searches = 0;
    for node in topology.cyclic() {
        if !known.contains_key(&node) && searches < SEARCHES {
            searches += 1;
            let cycle: Rc<[usize]> = topology.cycle(node).unwrap_or_default().into();
            for on in cycle.iter() {
                known.entry(*on).or_insert_with(|| cycle.clone());
            }
        }
        let way = known.get(&node).map(|cycle| format!(": {}", way(nodes, cycle, node)));
        let way = way.unwrap_or_default();
        let message = format!("Node {} is not acyclic{way}", nodes[node].identifier);
        notes.refuse(Code::G3, format!("nodes[{node}]"), message);
    }
}

/// A cycle as a way from one of its nodes back to it: `a -> b -> a`. Of a long one the beginning.
fn way(nodes: &[Node], cycle: &[usize], from: usize) -> String {
    // Both ends are the same node.
    let round = &cycle[1..];
    let start = round.iter().position(|node| *node == from).unwrap_or(0);
    let order = round[start..].iter().chain(&round[..start]).chain([&from]);
    let names: Vec<&str> = order.take(CYCLE).map(|node| &*nodes[*node].identifier).collect();
    let rest = if cycle.len() > CYCLE { " -> .." } else { "" };
    shown(&names.join(" -> ")) + rest
}

/// What is said about a key that no store of the graph has.
pub(crate) fn undeclared(input: &str, key: &str) -> String {
    format!("Input {input} depends on {key} but {key} is not a required key or a default value")
}

/// What is said about a node that does not come before another one.
pub(crate) fn not_a_parent(input: &str, name: &str, own: &str) -> String {
    format!("Input {input} depends on {name} but {name} is not a parent of {own}")
}

/// What inputs refer to: is it there, and before them?
struct References<'a> {
    graph: &'a Graph,
    topology: &'a Topology,
    places: HashMap<&'a str, usize>,
    ancestors: Vec<Option<Set>>,
    /// What is below the nodes that were asked about.
    below: HashMap<usize, Set>,
    store: HashSet<&'a str>,
}

fn references(graph: &Graph, topology: &Topology, notes: &mut Notes) {
    let config = &graph.store_config;
    let mut places = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        places.entry(node.identifier.as_str()).or_insert(i);
    }
    let store = config.required_keys.iter().chain(config.default_values.keys());
    let mut references = References {
        graph,
        topology,
        places,
        ancestors: topology.ancestors(),
        below: HashMap::new(),
        store: store.map(String::as_str).collect(),
    };
    for (i, node) in graph.nodes.iter().enumerate() {
        for (name, input) in &node.inputs {
            let path = format!("nodes[{i}].inputs.{name}");
            match Text::parse(input) {
                Err(message) => notes.refuse(Code::G4, path, message),
                Ok(text) => {
                    let wrong = text.0.iter().filter_map(|piece| references.wrong(i, input, piece));
                    wrong.for_each(|message| notes.refuse(Code::G4, path.as_str(), message));
                }
            }
        }
    }
}

impl References<'_> {
    /// What is wrong with a reference in an input of a node.
    fn wrong(&mut self, node: usize, input: &str, piece: &Piece) -> Option<String> {
        let input = shown(input);
        match piece {
            Piece::Plain(_) => None,
            Piece::Store(key) => {
                (!self.store.contains(key.as_str())).then(|| undeclared(&input, key))
            }
            Piece::Output(output) => self.not_before(node, &input, output),
            Piece::Collected(output) => self.not_below(node, &input, output),
        }
    }

    fn not_before(&self, node: usize, input: &str, output: &Output) -> Option<String> {
        // On a cycle nothing is before anything; that was told.
        let ancestors = self.ancestors[node].as_ref()?;
        let place = self.places.get(output.identifier.as_str());
        let is_before = place.is_some_and(|place| ancestors.contains(*place));
        let name = &output.identifier;
        let own = &self.graph.nodes[node].identifier;
        (!is_before).then(|| not_a_parent(input, name, own))
    }

    /// All states of a node can be collected by a node that unites, when they are below its target.
    fn not_below(&mut self, node: usize, input: &str, output: &Output) -> Option<String> {
        let (name, own) = (&output.identifier, &self.graph.nodes[node].identifier);
        let Some(target) = self.topology.target[node] else {
            return self.graph.nodes[node].unites.is_none().then(|| {
                format!("Input {input} collects all of {name} but {own} does not unite anything")
            });
        };
        self.ancestors[node].as_ref()?;
        let place = self.places.get(name.as_str()).copied();
        let is_below = place.is_some_and(|place| {
            self.is_below(target, place) && place != node && !self.is_below(node, place)
        });
        let target = &self.graph.nodes[target].identifier;
        (!is_below).then(|| {
            format!(
                "Input {input} collects all of {name} but {name} is not below {target}, on which \
                 {own} unites"
            )
        })
    }
}

impl References<'_> {
    fn is_below(&mut self, above: usize, node: usize) -> bool {
        let topology = self.topology;
        self.below.entry(above).or_insert_with(|| topology.below(above)).contains(node)
    }
}

/// Edges to a node that unites on something else than what is before the edge: they do nothing.
fn odd_edges(nodes: &[Node], topology: &Topology, notes: &mut Notes) {
    let mut below: HashMap<usize, Set> = HashMap::new();
    for (from, followers) in topology.next.iter().enumerate() {
        for to in followers {
            let Some(target) = topology.target[*to] else { continue };
            let below = below.entry(target).or_insert_with(|| topology.below(target));
            if from != target && !below.contains(from) {
                let (from_name, to_name) = (&nodes[from].identifier, &nodes[*to].identifier);
                let target = &nodes[target].identifier;
                let message = format!(
                    "Node {to_name} unites on {target}, which is not before {from_name}: it does \
                     not wait for {from_name}"
                );
                notes.warn(format!("nodes[{from}].next_nodes"), message);
            }
        }
    }
}
