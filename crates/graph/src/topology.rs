//! Which node follows which.
//!
//! There are two kinds of edges: from a node to its next nodes, and from the target of a uniting
//! node to that node. Nodes are numbers here, their places in the list. Edges to nodes that do not
//! exist are left out; `check.rs` has told about them.

use std::collections::{HashMap, VecDeque};

use crate::model::Node;

/// The edges of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// The next nodes of each node that exist.
    pub(crate) next: Vec<Vec<usize>>,
    /// The target of each node that unites.
    pub(crate) target: Vec<Option<usize>>,
    /// The nodes that unite on each node.
    pub(crate) uniting: Vec<Vec<usize>>,
    /// The nodes that each node is a next node of.
    previous: Vec<Vec<usize>>,
}

impl Topology {
    pub(crate) fn of(nodes: &[Node]) -> Self {
        // Where an identifier is taken twice, the first one counts.
        let mut place = HashMap::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            place.entry(node.identifier.as_str()).or_insert(index);
        }
        let find = |name: &String| place.get(name.as_str()).copied();
        let next: Vec<Vec<usize>> =
            nodes.iter().map(|node| node.next_nodes.iter().filter_map(find).collect()).collect();
        let target: Vec<Option<usize>> = nodes
            .iter()
            .enumerate()
            .map(|(own, node)| {
                let target = find(&node.unites.as_ref()?.identifier)?;
                (target != own).then_some(target)
            })
            .collect();
        let (mut previous, mut uniting) =
            (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
        for (from, followers) in next.iter().enumerate() {
            followers.iter().for_each(|to| previous[*to].push(from));
        }
        for (node, target) in target.iter().enumerate() {
            target.iter().for_each(|target| uniting[*target].push(node));
        }
        Topology { next, target, uniting, previous }
    }

    pub(crate) fn len(&self) -> usize {
        self.next.len()
    }

    /// Everything that an edge leads to from a node.
    fn followers(&self, node: usize) -> impl Iterator<Item = usize> {
        self.next[node].iter().chain(&self.uniting[node]).copied()
    }

    /// How many edges lead to a node.
    fn in_degree(&self, node: usize) -> usize {
        self.previous[node].len() + usize::from(self.target[node].is_some())
    }

    /// The nodes that no edge leads to.
    pub(crate) fn roots(&self) -> Vec<usize> {
        (0..self.len()).filter(|node| self.in_degree(*node) == 0).collect()
    }

    /// The nodes that can be put in order, in an order in which every edge leads forward. Nodes on
    /// a cycle, and those behind one, are not among them.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = (0..self.len()).map(|node| self.in_degree(node)).collect();
        let mut order = self.roots();
        let mut done = 0;
        while let Some(node) = order.get(done).copied() {
            done += 1;
            for follower in self.followers(node) {
                missing[follower] -= 1;
                if missing[follower] == 0 {
                    order.push(follower);
                }
            }
        }
        order
    }

    /// The nodes on cycles (and on ways from one cycle to another).
    pub(crate) fn cyclic(&self) -> Vec<usize> {
        let mut left = vec![true; self.len()];
        self.order().into_iter().for_each(|node| left[node] = false);
        // What is left lies on a cycle or behind one. What leads to nothing that is left is only
        // behind one, and goes, last first.
        let mut ahead: Vec<usize> = (0..self.len())
            .map(|node| self.followers(node).filter(|follower| left[*follower]).count())
            .collect();
        let mut ends: Vec<usize> =
            (0..self.len()).filter(|node| left[*node] && ahead[*node] == 0).collect();
        while let Some(node) = ends.pop() {
            left[node] = false;
            for before in self.previous[node].iter().copied().chain(self.target[node]) {
                ahead[before] -= 1;
                if left[before] && ahead[before] == 0 {
                    ends.push(before);
                }
            }
        }
        (0..self.len()).filter(|node| left[*node]).collect()
    }

    /// A shortest way from a node back to itself, the node at both ends; `None` when there is none.
    pub(crate) fn cycle(&self, node: usize) -> Option<Vec<usize>> {
        let mut before = vec![None; self.len()];
        let mut open = VecDeque::from([node]);
        while let Some(from) = open.pop_front() {
            for to in self.followers(from) {
                if to == node {
                    let back = std::iter::successors(Some(from), |at| before[*at]);
                    let mut way: Vec<usize> = std::iter::once(node).chain(back).collect();
                    way.reverse();
                    return Some(way);
                }
                if before[to].is_none() {
                    before[to] = Some(from);
                    open.push_back(to);
                }
            }
        }
        None
    }

    /// Everything that edges lead to from a node, without the node itself unless it is on a cycle.
    pub(crate) fn below(&self, node: usize) -> Set {
        let mut found = Set::empty(self.len());
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            for follower in self.followers(node) {
                if found.insert(follower) {
                    open.push(follower);
                }
            }
        }
        found
    }

    /// For each node the nodes whose outputs it can refer to: those before it. Before a node that
    /// unites are its target and what is before that, but not the branches it brings together.
    /// `None` for nodes that cannot be put in order.
    pub(crate) fn ancestors(&self) -> Vec<Option<Set>> {
        let mut all: Vec<Option<Set>> = vec![None; self.len()];
        for node in self.order() {
            let mut set = Set::empty(self.len());
            let before: &[usize] = match &self.target[node] {
                Some(target) => std::slice::from_ref(target),
                None => &self.previous[node],
            };
            for parent in before {
                set.insert(*parent);
                all[*parent].iter().for_each(|above| set.join(above));
            }
            all[node] = Some(set);
        }
        all
    }
}

/// A set of nodes, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn empty(nodes: usize) -> Self {
        Set(vec![0; nodes.div_ceil(64)])
    }

    /// False when it was there.
    pub(crate) fn insert(&mut self, node: usize) -> bool {
        let (word, bit) = (&mut self.0[node / 64], 1 << (node % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(crate) fn contains(&self, node: usize) -> bool {
        self.0[node / 64] & (1 << (node % 64)) != 0
    }

    pub(crate) fn join(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }
}
