//! Gates: what is stored of them, and the tasks behind them.

use resurgam_core::Timestamp;

use super::Model;
use super::transaction::Transaction;
use crate::rows::TaskRow;
use crate::{GateCount, GateRow, GateWaiting, GateWrite, StoredGates};

impl Model {
    /// Every gate of which something is stored, and everything that is paused.
    pub fn gates(&self) -> StoredGates {
        let gates = self.tables.gates.map().values().cloned().collect();
        StoredGates { gates, holds: self.tables.holds.map().values().cloned().collect() }
    }

    /// What nodes counted from this time on.
    pub fn gate_counts(&self, from: Timestamp) -> Vec<GateCount> {
        let counts = self.tables.gate_counts.map().values();
        counts.filter(|count| count.at >= from).cloned().collect()
    }

    /// The keys of gates behind this one that tasks wait behind.
    pub fn waiting_gates(&self, after: &str, limit: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        while found.len() < limit {
            let last = found.last().map_or(after, String::as_str);
            let Some(next) = self.tables.tasks.gate_after(last) else { break };
            found.push(next.to_string());
        }
        found
    }

    /// How many tasks wait behind each of these gates.
    pub fn count_waiting(
        &self,
        gates: &[String],
        before: Timestamp,
        at_most: usize,
    ) -> Vec<GateWaiting> {
        let waiting = |gate: &String| {
            let rows = || {
                let rows = self.tables.tasks.behind(gate);
                rows.take_while(|row| row.wake_at < TaskRow::NEVER)
            };
            let due = rows().take_while(|row| row.wake_at < before).take(at_most).count();
            let first = rows().next().map(|row| row.wake_at);
            GateWaiting { gate: gate.clone(), due, first }
        };
        gates.iter().map(waiting).collect()
    }
}

impl Transaction<'_> {
    pub(super) fn write_gate(&mut self, write: &GateWrite) {
        match write {
            GateWrite::Set { key, settings } => {
                self.change_gate(key, |gate| gate.settings = Some(settings.clone()));
            }
            GateWrite::Hand { key, hand } => {
                self.change_gate(key, |gate| gate.hand = Some(hand.clone()));
            }
            GateWrite::Decide { key, decided } => {
                self.change_gate(key, |gate| gate.decided = Some(decided.clone()));
            }
            GateWrite::Forget { key } => {
                if self.tables().gates.map().get(key).is_some_and(|gate| !gate.is_set()) {
                    self.put_gate(key.clone(), None);
                }
            }
            GateWrite::Count(count) => {
                let key = (count.gate.clone(), count.at, count.node.clone());
                self.put_gate_count(key, Some(count.clone()));
            }
            GateWrite::ForgetCounts { before } => {
                let counts = self.tables().gate_counts.map().keys();
                let old: Vec<_> = counts.filter(|(_, at, _)| at < before).cloned().collect();
                old.into_iter().for_each(|key| self.put_gate_count(key, None));
            }
            GateWrite::Hold(hold) => {
                self.put_hold((hold.kind, hold.name.clone()), Some(hold.clone()));
            }
            GateWrite::Release { kind, name } => self.put_hold((*kind, name.clone()), None),
        }
    }

    fn change_gate(&mut self, key: &str, change: impl FnOnce(&mut GateRow)) {
        let stored = self.tables().gates.map().get(key).cloned();
        let mut gate = stored.unwrap_or_else(|| GateRow::new(key));
        gate.revision += 1;
        change(&mut gate);
        self.put_gate(key.to_string(), Some(gate));
    }
}
