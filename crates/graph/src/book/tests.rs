//! Any graph, with any outcomes, in any order of results: the book says what the graph means.
//!
//! What a graph means is said here a second time, as a recursion that knows no order, no counters
//! and no scopes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use resurgam_core::{Failure, Payload, Timestamp};
use resurgam_watchdog::test;
use serde_json::{Value, json};

use super::{Book, StateId, Status};
use crate::Template;
use crate::plan::Plan;

/// A graph without references, as numbers: for each node but the first its parent, whether it
/// unites on that one and how, and more next nodes that come later.
#[derive(Clone, Debug)]
struct Shape(Vec<(usize, Option<bool>, Vec<usize>)>);

fn shapes() -> impl Strategy<Value = Shape> {
    let node = (
        any::<usize>(),
        proptest::option::weighted(0.4, any::<bool>()),
        proptest::collection::vec(any::<usize>(), 0..3),
    );
    proptest::collection::vec(node, 1..8).prop_map(Shape)
}

impl Shape {
    fn template(&self) -> Value {
        let count = self.0.len() + 1;
        let mut nodes: Vec<Value> = (0..count)
            .map(|i| {
                let identifier = format!("n{i}");
                json!({"node_name": "N", "namespace": "t", "identifier": identifier, "inputs": {},
                    "next_nodes": []})
            })
            .collect();
        let mut edge = |from: usize, to: usize| {
            let next = nodes[from]["next_nodes"].as_array_mut().unwrap();
            let to = json!(format!("n{to}"));
            if !next.contains(&to) {
                next.push(to);
            }
        };
        for (i, (parent, unites, more)) in self.0.iter().enumerate() {
            let (own, parent) = (i + 1, parent % (i + 1));
            if unites.is_none() {
                edge(parent, own);
            }
            let later = count - own - 1;
            more.iter().filter(|_| later > 0).for_each(|to| edge(own, own + 1 + to % later));
        }
        for (i, (parent, unites, _)) in self.0.iter().enumerate() {
            if let Some(all_done) = unites {
                let strategy = if *all_done { "ALL_DONE" } else { "ALL_SUCCESS" };
                nodes[i + 1]["unites"] =
                    json!({"identifier": format!("n{}", parent % (i + 1)), "strategy": strategy});
            }
        }
        json!({"secrets": {}, "nodes": nodes})
    }
}

/// How the call of a state ends, which depends on nothing but which state it is.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Outputs(usize),
    Failed,
    Pruned,
}

fn end(key: &str, seed: u64) -> End {
    let hash = key.bytes().fold(seed | 1, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    });
    match hash % 16 {
        0 | 1 => End::Failed,
        2 => End::Pruned,
        3 => End::Outputs(3),
        4 | 5 => End::Outputs(2),
        _ => End::Outputs(1),
    }
}

/// What the states of a graph are, by their way from the root.
type States = BTreeMap<String, Status>;

/// Everything that comes of calling a node.
fn meaning(plan: &Plan, node: usize, key: &str, seed: u64) -> States {
    let count = match end(key, seed) {
        End::Failed => return States::from([(key.to_string(), Status::Errored)]),
        End::Pruned => return States::from([(key.to_string(), Status::Pruned)]),
        End::Outputs(count) => count,
    };
    let mut all = States::new();
    for i in 0..count {
        let own = if i == 0 { key.to_string() } else { format!("{key}+{i}") };
        let below = |node: &usize| meaning(plan, *node, &format!("{own}/{node}"), seed);
        let ordinary: States = plan.nodes[node].next.iter().flat_map(below).collect();
        let mut united: Vec<(usize, States)> = Vec::new();
        for unites in &plan.nodes[node].uniting {
            let leads_here =
                |(other, _): &&(usize, States)| plan.nodes[*other].before.contains(unites);
            let earlier = united.iter().filter(leads_here).flat_map(|(_, states)| states.values());
            let success = ordinary.values().chain(earlier).all(|status| *status == Status::Success);
            if success || plan.nodes[*unites].takes_all_done {
                united.push((*unites, below(unites)));
            }
        }
        all.insert(own, Status::Success);
        all.extend(ordinary);
        all.extend(united.into_iter().flat_map(|(_, states)| states));
    }
    all
}

/// The way of a state from the root.
fn key(book: &Book, id: StateId) -> String {
    let state = book.state(id);
    if let Some(from) = state.fanned_from {
        let place = book.state(from).fanned.iter().position(|other| *other == id).unwrap();
        return format!("{}+{}", key(book, from), place + 1);
    }
    match state.parent {
        Some(parent) => format!("{}/{}", key(book, parent), state.node),
        None => state.node.to_string(),
    }
}

/// Runs a graph with results that come in an order of their own.
fn played(plan: Plan, seed: u64, mut order: u64) -> States {
    let (none, now) = (BTreeMap::new(), Timestamp::EPOCH);
    let mut book = Book::begin(plan, &none, none.clone(), 1 << 20, now).unwrap();
    let mut open = Vec::new();
    loop {
        open.extend(std::iter::from_fn(|| book.next()));
        if open.is_empty() {
            break;
        }
        order =
            order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = open.swap_remove((order >> 33) as usize % open.len());
        let outcome = match end(&key(&book, id), seed) {
            End::Failed => Err(Failure::new("broken")),
            End::Pruned => Err(Failure::prune()),
            End::Outputs(count) => Ok(Payload::encode(&vec![json!({}); count]).unwrap()),
        };
        book.settle(id, outcome, now);
    }
    let ids: Vec<StateId> = book.states().map(|(id, _)| id).collect();
    ids.into_iter().map(|id| (key(&book, id), book.state(id).status)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_order_of_results_changes_nothing_about_what_a_graph_means(
        shape in shapes(), seed in any::<u64>(), order in any::<u64>(),
    ) {
        let template = Template::from_value(&shape.template()).unwrap();
        let plan = || Plan::of(template.graph()).unwrap();
        let expected = meaning(&plan(), plan().root, &plan().root.to_string(), seed);
        prop_assume!(expected.len() < 2_000);
        prop_assert_eq!(played(plan(), seed, order), expected);
    }
}
