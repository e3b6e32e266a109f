//! What those who watch many gates are told as numbers: how each stands, how fast its calls come
//! back, how many probe, and how many wait.
//!
//! Keys may come from templates, and every label costs whoever keeps the numbers. So the first
//! hundred gates that there is anything to say of have labels of their own.
//!
//! How many calls wait the store is asked, by the node that decides and while it does something
//! anyway: nobody wakes up to count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::gate::Standing;
use resurgam_store::GateWaiting;

use super::{GateId, Gates};
use crate::node::Node;
use crate::node::store_request::StoreRequest;

/// How many gates have labels of their own.
const LABELS: usize = 100;

/// The label of what is counted of all others.
const OTHERS: &str = "others";

/// How often it is counted at most how many calls wait.
const COUNTED: Duration = Duration::from_secs(10);

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    labels: BTreeSet<String>,
    /// How many calls wait behind gates that hold some back, as it was told last.
    gated: BTreeMap<String, usize>,
    counted_at: Option<Timestamp>,
    is_counting: bool,
}

impl Watched {
    /// The label of a gate, if it has one of its own.
    fn label(&mut self, key: &str) -> Option<String> {
        if !self.labels.contains(key) {
            if self.labels.len() >= LABELS {
                return None;
            }
            self.labels.insert(key.to_string());
        }
        Some(key.to_string())
    }

    /// A gate stands so from now on.
    pub(super) fn stands(&mut self, key: &str, standing: Standing, rate: Option<f64>) {
        let Some(label) = self.label(key) else { return };
        metrics::gauge!("resurgam.gate_state", "gate" => label.clone()).set(number_of(standing));
        metrics::gauge!("resurgam.gate_ramp", "gate" => label).set(rate.unwrap_or_default());
    }

    /// An attempt begins to see whether the dependency is back.
    pub(super) fn probes(&mut self, key: &str) {
        let label = self.label(key).unwrap_or_else(|| OTHERS.to_string());
        metrics::counter!("resurgam.probes", "gate" => label).increment(1);
    }

    /// So many calls wait behind a gate.
    fn wait(&mut self, key: &str, count: usize) {
        let Some(label) = self.label(key) else { return };
        let known = match count {
            0 => self.gated.remove(key),
            _ => self.gated.insert(key.to_string(), count),
        };
        if known.unwrap_or_default() != count {
            metrics::gauge!("resurgam.gated_calls", "gate" => label).set(count as f64);
        }
    }
}

impl Gates {
    /// True when there is nothing to count, and nothing to take back.
    fn counts_nothing(&self) -> bool {
        self.active.is_empty() && self.watched.gated.is_empty()
    }

    /// True when a gate of this key holds calls back in the store.
    fn holds(&self, key: &str) -> bool {
        self.known_id(key).is_some_and(|id| self.known[id].is_held())
    }
}

impl Node {
    /// Has calls counted that gates hold back, when it is time.
    pub(super) fn count_gated(&mut self) {
        if self.memory.slots.gates().counts_nothing() {
            return;
        }
        self.count_in_line();
        let (decides, now) = (self.decides_about_gates(), self.now);
        let gates = self.memory.slots.gates();
        let is_due = gates.watched.counted_at.is_none_or(|at| now >= at.saturating_add(COUNTED));
        if !decides || !is_due || gates.watched.is_counting {
            return;
        }
        let holds =
            |id: &&GateId| gates.gate(**id).is_held() || self.memory.slots.in_line(**id) > 0;
        let holding = gates.active.iter().filter(holds).take(LABELS);
        let holding: Arc<[String]> = holding.map(|id| gates.gate(*id).key().into()).collect();
        if !holding.is_empty() {
            let watched = &mut self.memory.slots.gates_mut().watched;
            (watched.is_counting, watched.counted_at) = (true, Some(now));
            self.ask_store(StoreRequest::Gated { gates: holding, now });
        }
    }

    /// Behind a gate that holds none back in the store, only those wait that are in line.
    fn count_in_line(&mut self) {
        let gates = self.memory.slots.gates();
        let told = gates.watched.gated.keys().filter(|key| !gates.holds(key));
        let in_line =
            |key: &String| gates.known_id(key).map_or(0, |id| self.memory.slots.in_line(id));
        let counts: Vec<(String, usize)> = told.map(|key| (key.clone(), in_line(key))).collect();
        let watched = &mut self.memory.slots.gates_mut().watched;
        counts.iter().for_each(|(key, count)| watched.wait(key, *count));
    }

    /// Calls were counted that gates hold back.
    pub(crate) fn gated_counted(&mut self, found: &[GateWaiting]) {
        let watched = &mut self.memory.slots.gates_mut().watched;
        watched.is_counting = false;
        found.iter().for_each(|GateWaiting { gate, due, .. }| watched.wait(gate, *due));
        self.count_in_line();
    }
}

/// How a gate stands, as a number for those who draw it.
fn number_of(standing: Standing) -> f64 {
    match standing {
        Standing::Flowing => 0.0,
        Standing::Ramping => 1.0,
        Standing::Probing => 2.0,
        Standing::Shut => 3.0,
    }
}
