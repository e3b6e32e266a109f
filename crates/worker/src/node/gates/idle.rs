//! Gates that are forgotten: keys may come from templates (`bank:{customer}`), and be seen once.
//!
//! A gate is idle when learning it anew would make no difference: it flows and has for a while,
//! nobody waits or runs behind it, nothing has failed lately, and its rate has rested. Where more
//! than a few are known, idle ones are forgotten each time their number has doubled, so that
//! looking for them costs little for each. What is stored of one that was shut goes with it.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam_core::gate::Gate;
use resurgam_store::{GateWrite, Step};

use super::known_gate::KnownGate;
use super::{GateId, Gates};
use crate::node::Node;

/// How many gates are known before any of them is forgotten.
const FEW: usize = 1_000;

/// Where there are more, how often idle ones are looked for at least: so long does a gate flow
/// until its trouble is forgotten.
const LOOKED_FOR: Duration = Duration::from_secs(600);

impl Gates {
    /// True when there are so many that those of no use are to be forgotten.
    fn are_many(&self) -> bool {
        let count = self.ids.len();
        count > FEW
            && (count >= 2 * self.left.max(FEW / 2)
                || self.now >= self.looked_at.saturating_add(LOOKED_FOR))
    }

    /// Forgets the gates that are idle, but for these. Answers with the keys of those of which
    /// something is stored that is to go with them.
    fn forget_idle(&mut self, in_use: &BTreeSet<GateId>, decides: bool) -> Vec<String> {
        let (now, mut stored) = (self.now, Vec::new());
        let is_idle = |id: &GateId| {
            let gate = &self.known[*id];
            !in_use.contains(id)
                && !self.after_outage.contains(id)
                && gate.is_idle(now)
                && (decides || !gate.is_stored())
        };
        let idle: Vec<GateId> = self.ids.values().copied().filter(is_idle).collect();
        for id in idle {
            let nobody = KnownGate::new(String::new(), Gate::default(), None, now);
            let gate = std::mem::replace(&mut self.known[id], nobody);
            self.ids.remove(gate.key());
            self.active.remove(&id);
            self.telling.remove(&id);
            self.free.push(id);
            stored.extend(gate.is_stored().then(|| gate.key().to_string()));
        }
        (self.left, self.looked_at) = (self.ids.len(), now);
        stored
    }
}

#[cfg(test)]
impl Node {
    /// The keys of the gates that are known.
    pub(crate) fn known_gates(&self) -> Vec<&str> {
        self.memory.slots.gates().ids.keys().map(String::as_str).collect()
    }
}

impl Node {
    /// Forgets gates of which nothing need be known.
    pub(super) fn forget_idle_gates(&mut self) {
        if !self.memory.slots.gates().are_many() {
            return;
        }
        let in_use = self.memory.slots.gates_in_line().chain(self.memory.due.gates()).collect();
        let decides = self.decides_about_gates();
        let stored = self.memory.slots.gates_mut().forget_idle(&in_use, decides);
        if !stored.is_empty() {
            let gates = stored.into_iter().map(|key| GateWrite::Forget { key }).collect();
            self.outbox.push(Step { gates, ..Step::default() }, Vec::new());
        }
    }
}
