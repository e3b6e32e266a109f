//! Due tasks behind gates that hold them back: they are left to the store, and a page of them is
//! read when there is room in line for them. A gate that is shut reads nothing.

use std::sync::Arc;

use resurgam_core::Timestamp;
use resurgam_core::gate::Standing;
use resurgam_store::rows::DueTask;
use resurgam_store::{GateScope, Result, Runnable};

use super::known_gate::PAGE;
use crate::node::Node;
use crate::node::follow_up::FollowUp;
use crate::node::store_request::{AGAIN, StoreRequest};

/// Of how many gates at most due tasks are read at once.
const GATES: usize = 20;

impl Node {
    /// Does about gates what the time brings.
    pub(crate) fn wake_gates(&mut self) {
        if !self.is_owner() {
            return;
        }
        self.follow_place();
        self.forget_idle_gates();
        self.judge_after_outage();
        for id in self.memory.slots.gates().active() {
            self.judge(id);
        }
        self.wake_fleet();
        self.read_behind_gates();
        self.publish_bounds();
        self.count_gated();
    }

    /// Reads due tasks behind gates that let some begin and have few in line.
    pub(super) fn read_behind_gates(&mut self) {
        if self.memory.slots.gates().is_reading() || !self.may_begin() {
            return;
        }
        let now = self.now;
        let gates = self.memory.slots.gates();
        let wants = |id: &usize| gates.gate(*id).wants_due(self.memory.slots.in_line(*id), now);
        let wanted = gates.active().into_iter().filter(wants).take(GATES);
        let asked: Arc<[(String, usize)]> =
            wanted.map(|id| (gates.gate(id).key().to_string(), PAGE)).collect();
        if asked.is_empty() {
            return;
        }
        self.memory.slots.gates_mut().reads(true);
        let runnable = Runnable { gates: GateScope::Only(asked.clone()), ..self.runnable() };
        self.ask_store(StoreRequest::BehindGates { runnable, asked });
    }

    /// Due tasks behind gates were read, the earliest first: as many of each as were asked for.
    pub(crate) fn behind_gates_read(
        &mut self,
        asked: &[(String, usize)],
        found: Result<Vec<DueTask>>,
    ) {
        let now = self.now;
        let is_in_vain = self.memory.slots.gates().is_read_in_vain();
        self.memory.slots.gates_mut().reads(false);
        let found = match found {
            Ok(found) => found,
            Err(_) => {
                self.memory.outages.begin(now);
                let gates = self.memory.slots.gates_mut();
                for id in
                    asked.iter().filter_map(|(key, _)| gates.known_id(key)).collect::<Vec<_>>()
                {
                    gates.gate_mut(id).backlog_mut().is_refused(now.saturating_add(AGAIN));
                }
                return;
            }
        };
        self.then(FollowUp::StoreAnswers);
        for (key, most) in asked.iter().filter(|_| !is_in_vain) {
            let of_gate = found.iter().filter(|task| task.gate == *key);
            let count = of_gate.clone().count();
            let later = of_gate.map(|task| task.wake_at).find(|at| *at > now);
            self.page_is_read(key, count >= *most && later.is_none(), later);
        }
        let due = found.into_iter().filter(|task| task.wake_at <= now);
        for task in due.filter(|task| self.owns(task.call.run.uid)).collect::<Vec<_>>() {
            let DueTask { call, wake_at, queue, priority, name, gate } = task;
            let is_claimed = self.memory.calls.get(call).is_some_and(|call| call.is_claimed());
            if !is_claimed && self.registry.activity(&name).is_some() {
                let ticket = self.memory.slots.ticket(&name, &queue, &gate, priority);
                self.then(FollowUp::TaskDue(wake_at, call, ticket));
            }
        }
        self.then(FollowUp::FillSlots);
    }

    /// What is known of the due tasks of a gate that are not in line.
    fn page_is_read(&mut self, key: &str, more: bool, next_due: Option<Timestamp>) {
        let now = self.now;
        let gates = self.memory.slots.gates_mut();
        let Some(id) = gates.known_id(key) else { return };
        let flows = gates.gate(id).state().standing() == Standing::Flowing;
        gates.gate_mut(id).backlog_mut().is_read(more, next_due, now);
        if flows && !more {
            // It holds nothing back any more: what is due later is found as anything is.
            gates.gate_mut(id).backlog_mut().is_over();
            self.memory.due.rescan(now);
        }
    }
}
