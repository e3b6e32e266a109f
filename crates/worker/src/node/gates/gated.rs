//! How many calls wait behind gates that hold some back.
//!
//! The store is asked, by the node that decides and while it does something anyway: nobody wakes up
//! to count.

use std::sync::Arc;
use std::time::Duration;

use resurgam_store::GateWaiting;

use super::watched::LABELS;
use super::{GateId, Gates};
use crate::node::Node;
use crate::node::store_request::StoreRequest;

/// How often it is counted at most how many calls wait.
const COUNTED: Duration = Duration::from_secs(10);

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
