//! What those who watch many gates are told as numbers: how each stands, how fast its calls come
//! back, how many probe, and how many wait.
//!
//! Keys may come from templates, and every label costs whoever keeps the numbers. So the first
//! hundred gates that there is anything to say of have labels of their own.
//!
//! This file knows no node: `gated.rs` counts the calls that wait.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::Timestamp;
use resurgam_core::gate::Standing;

/// How many gates have labels of their own.
pub(super) const LABELS: usize = 100;

/// The label of what is counted of all others.
const OTHERS: &str = "others";

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    labels: BTreeSet<String>,
    /// How many calls wait behind gates that hold some back, as it was told last.
    pub(super) gated: BTreeMap<String, usize>,
    pub(super) counted_at: Option<Timestamp>,
    pub(super) is_counting: bool,
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
    pub(super) fn wait(&mut self, key: &str, count: usize) {
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

/// How a gate stands, as a number for those who draw it.
fn number_of(standing: Standing) -> f64 {
    match standing {
        Standing::Flowing => 0.0,
        Standing::Ramping => 1.0,
        Standing::Probing => 2.0,
        Standing::Shut => 3.0,
    }
}
