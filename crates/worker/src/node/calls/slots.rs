//! Slots: how many attempts run at once, and who gets the next one.
//!
//! A node has so many slots; a queue and an activity may be allowed fewer. A task that is due and
//! finds no slot waits in line, which costs an entry here and nothing else. Tasks that need the
//! same slots wait in the same line, so that an activity or a queue at its own limit does not hold
//! up the others. The next slot goes to the task of the highest priority, and among equals to the
//! one that has been due longest.
//!
//! Calls that lost their process several times in a row ([`Progress::poison`]) run one at a time on
//! a node, beside the others: they may be what kills it, and each that dies with another counts a
//! loss that was not its own.
//!
//! Tasks behind a gate (`gates/mod.rs`) wait in a line of their own, which gets slots as its gate
//! allows. Of a gate that bounds anything only a page of them is in line; the others are left to
//! the store.
//!
//! A task need not be in memory to wait: it is read when a slot is free for it. What a reader of
//! due tasks does not know, it finds then: such a call changes lines (`claim.rs`).
//!
//! [`Progress::poison`]: resurgam_store::rows::Progress::poison

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::{CallKey, Shard, Timestamp};
use resurgam_store::rows::TaskRow;

use crate::node::gates::known_gate::PAGE;
use crate::node::gates::{GateId, Gates};

/// How many attempts run at once, and who waits.
#[derive(Debug)]
pub(crate) struct Slots {
    free: usize,
    activities: BTreeMap<String, usize>,
    queues: BTreeMap<String, usize>,
    /// What activities and queues are allowed; the maps say which is whose.
    bounds: Vec<Bound>,
    /// Which of them is that of calls that may kill their process.
    poison: usize,
    gates: Gates,
    lines: BTreeMap<Needs, BTreeSet<Place>>,
}

/// A slot that is taken, to be given back with [`Slots::free`].
#[derive(Debug)]
#[must_use = "a slot that is not given back is lost"]
pub(crate) struct Slot {
    needs: Needs,
    /// The call of which an attempt has begun with it.
    begun: Option<CallKey>,
}

impl Slot {
    /// True when a task with this ticket may have it.
    pub(crate) fn suits(&self, ticket: Ticket) -> bool {
        self.needs == ticket.needs
    }
}

/// What decides when a task gets a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    needs: Needs,
    priority: i32,
}

impl Ticket {
    /// The gate that the task is behind, if anything is known of that.
    pub(super) fn gate(self) -> Option<GateId> {
        self.needs.gate.map(|(id, _)| id)
    }

    /// Where a task with this ticket stands that is due since then.
    fn place(self, at: Timestamp, call: CallKey) -> Place {
        (Reverse(self.priority), at, call)
    }
}

/// How many attempts of an activity, or of a queue, may run at once.
#[derive(Debug)]
struct Bound {
    most: usize,
    taken: usize,
}

/// What a task needs beside a slot of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Needs {
    /// The gate that it is behind, if anything is known of that; whether it is a retry, where the
    /// gate bounds those apart. First: the lines of a gate are beside each other.
    gate: Option<(GateId, bool)>,
    /// The bounds that it is under: its activity's and its queue's, where they have any, and that
    /// of calls that may kill their process, where it is one.
    bounds: [Option<usize>; 3],
}

/// Where a task stands among those that wait.
type Place = (Reverse<i32>, Timestamp, CallKey);

impl Slots {
    /// As many slots as the node has, and what activities and queues are allowed of them.
    pub(crate) fn new(
        node: usize,
        activities: impl IntoIterator<Item = (String, usize)>,
        queues: impl IntoIterator<Item = (String, usize)>,
        gates: Gates,
    ) -> Self {
        let mut bounds = Vec::new();
        let mut bound = |(name, most)| {
            bounds.push(Bound { most, taken: 0 });
            (name, bounds.len() - 1)
        };
        let activities = activities.into_iter().map(&mut bound).collect();
        let queues = queues.into_iter().map(&mut bound).collect();
        let poison = bounds.len();
        bounds.push(Bound { most: 1, taken: 0 });
        let lines = BTreeMap::new();
        Slots { free: node, activities, queues, bounds, poison, gates, lines }
    }

    /// What may begin behind which gate.
    pub(crate) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// What may begin behind which gate, to be changed.
    pub(crate) fn gates_mut(&mut self) -> &mut Gates {
        &mut self.gates
    }

    /// What decides when a task gets a slot, as far as it is known of one that is not in memory.
    pub(crate) fn ticket(
        &mut self,
        activity: &str,
        queue: &str,
        gate: &str,
        priority: i32,
    ) -> Ticket {
        let bounds =
            [self.activities.get(activity).copied(), self.queues.get(queue).copied(), None];
        let gate = self.gates.id_of(gate).map(|id| (id, false));
        Ticket { needs: Needs { bounds, gate }, priority }
    }

    /// The ticket of a task in memory.
    pub(crate) fn ticket_of(&mut self, task: &TaskRow) -> Ticket {
        let is_first = self.gates.is_first(task.call);
        let priority = if is_first { i32::MAX } else { task.priority };
        let mut ticket = self.ticket(&task.name, &task.queue, &task.gate, priority);
        ticket.needs.bounds[2] = task.progress.poison.then_some(self.poison);
        if let Some((id, is_retry)) = &mut ticket.needs.gate {
            *is_retry = task.attempt > 0 && self.gates.bounds_retries(*id);
        }
        ticket
    }

    /// True when a call may begin that may kill its process: none runs, and none waits here.
    pub(crate) fn has_room_for_poison(&self) -> bool {
        let is_poison = |needs: &Needs| needs.bounds[2].is_some();
        let bounds = [None, None, Some(self.poison)];
        self.has_room(Needs { bounds, gate: None }) && !self.lines.keys().any(is_poison)
    }

    /// Takes a slot for a task, unless there is none or somebody who waits goes first.
    pub(crate) fn take(&mut self, task: &TaskRow) -> Option<Slot> {
        let ticket = self.ticket_of(task);
        let place = ticket.place(task.wake_at, task.call);
        let is_first = self.first().is_none_or(|(first, _)| place < first);
        (is_first && self.has_room(ticket.needs)).then(|| self.take_of(ticket.needs))
    }

    /// Takes a slot for a task that is claimed already, unless there is none.
    pub(crate) fn take_now(&mut self, task: &TaskRow) -> Option<Slot> {
        let needs = self.ticket_of(task).needs;
        self.has_room(needs).then(|| self.take_of(needs))
    }

    /// An attempt of a task begins with a slot.
    pub(crate) fn begins(&mut self, slot: &mut Slot, task: &TaskRow) {
        slot.begun = Some(task.call);
        if let Some((id, _)) = slot.needs.gate {
            self.gates.begins(id, task.call, task.attempt > 1);
        }
    }

    /// An attempt of a task of another holder begins with a slot. Only that holder hears how it
    /// ends, and what that says about the gate.
    pub(crate) fn begins_elsewhere(&mut self, slot: &mut Slot, task: &TaskRow) {
        self.begins(slot, task);
        if let Some((id, _)) = slot.needs.gate {
            self.gates.is_judged_elsewhere(id, task.call);
        }
    }

    /// How many slots are free, those aside that somebody waits for.
    pub(crate) fn free_now(&self) -> usize {
        match self.first() {
            Some(_) => 0,
            None => self.free,
        }
    }

    /// Puts a task in line that is due since then. Answers with the task that there is no place
    /// for: it is left to the store.
    pub(crate) fn enqueue(
        &mut self,
        ticket: Ticket,
        at: Timestamp,
        call: CallKey,
    ) -> Option<CallKey> {
        let line = self.lines.entry(ticket.needs).or_default();
        line.insert(ticket.place(at, call));
        let (id, _) = ticket.needs.gate?;
        self.gates.is_due(id, at);
        if line.len() <= PAGE || !self.gates.bounds(id) {
            return None;
        }
        let (_, at, last) = line.pop_last()?;
        self.gates.left_to_store(id, at);
        Some(last)
    }

    /// A task is left to the store until then.
    pub(crate) fn left_to_store(&mut self, ticket: Ticket, at: Timestamp) {
        if let Some((id, _)) = ticket.needs.gate.filter(|(id, _)| self.gates.is_held(*id)) {
            self.gates.left_to_store(id, at);
        }
    }

    /// The gates that tasks in line are behind.
    pub(crate) fn gates_in_line(&self) -> impl Iterator<Item = GateId> {
        self.lines.keys().filter_map(|needs| needs.gate.map(|(id, _)| id))
    }

    /// How many tasks of a gate are in line.
    pub(crate) fn in_line(&self, id: GateId) -> usize {
        self.lines_of(id).map(BTreeSet::len).sum()
    }

    /// How many tasks of a gate are in line that were due before this time.
    pub(crate) fn in_line_before(&self, id: GateId, before: Timestamp) -> usize {
        let places = self.lines_of(id).flatten();
        places.filter(|(_, at, _)| *at < before).count()
    }

    fn lines_of(&self, id: GateId) -> impl Iterator<Item = &BTreeSet<Place>> {
        let first = Needs { gate: Some((id, false)), bounds: [None; 3] };
        let last = Needs { gate: Some((id, true)), bounds: [Some(usize::MAX); 3] };
        self.lines.range(first..=last).map(|(_, line)| line)
    }

    /// Takes a task out of its line, if it is in one, also that of a reader who knew less of it.
    pub(crate) fn dequeue(&mut self, task: &TaskRow) {
        let known = self.ticket(&task.name, &task.queue, &task.gate, task.priority);
        for ticket in [self.ticket_of(task), known] {
            self.leave(ticket.needs, ticket.place(task.wake_at, task.call));
        }
    }

    /// When something is to be done about gates, by a node that decides about them or not.
    pub(crate) fn next_of_gates(&self, decides: bool) -> Option<Timestamp> {
        self.gates.next(decides, |id| self.in_line(id))
    }

    /// Everybody leaves the lines: what is due is found in the store.
    pub(crate) fn forget_lines(&mut self) {
        self.lines.clear();
    }

    /// Takes all tasks of these shards out of their lines.
    pub(crate) fn drop_of(&mut self, shards: &BTreeSet<Shard>) {
        self.lines.retain(|_, line| {
            line.retain(|(_, _, call)| !shards.contains(&call.run.uid.shard()));
            !line.is_empty()
        });
    }

    /// Gives a slot to the task that is first in line, and due since then, if there is both.
    pub(crate) fn next_in_line(&mut self) -> Option<(Timestamp, CallKey, Slot)> {
        let (first, needs) = self.first()?;
        self.leave(needs, first);
        let (_, at, call) = first;
        Some((at, call, self.take_of(needs)))
    }

    /// Gives a slot back.
    pub(crate) fn free(&mut self, slot: Slot) {
        self.free += 1;
        for bound in slot.needs.bounds.into_iter().flatten() {
            self.bounds[bound].taken -= 1;
        }
        match (slot.needs.gate, slot.begun) {
            (Some((id, _)), Some(call)) => self.gates.ends(id, call),
            (Some((id, _)), None) => self.gates.gives_back(id),
            (None, _) => {}
        }
    }

    /// Who would get a slot now, of those who wait.
    fn first(&self) -> Option<(Place, Needs)> {
        let open = self.lines.iter().filter(|(needs, _)| self.has_room(**needs));
        open.filter_map(|(needs, line)| Some((self.first_of(*needs, line)?, *needs))).min()
    }

    /// Who is first in a line. Of calls that probe, those that did so last let others go first.
    fn first_of(&self, needs: Needs, line: &BTreeSet<Place>) -> Option<Place> {
        let Some((id, _)) = needs.gate else { return line.first().copied() };
        let mut others = line.iter().filter(|(_, _, call)| !self.gates.probed_last(id, *call));
        others.next().or_else(|| line.first()).copied()
    }

    fn leave(&mut self, needs: Needs, place: Place) {
        if let Some(line) = self.lines.get_mut(&needs) {
            line.remove(&place);
            if line.is_empty() {
                self.lines.remove(&needs);
            }
        }
    }

    fn take_of(&mut self, needs: Needs) -> Slot {
        self.free -= 1;
        for bound in needs.bounds.into_iter().flatten() {
            self.bounds[bound].taken += 1;
        }
        if let Some((id, _)) = needs.gate {
            self.gates.reserves(id);
        }
        Slot { needs, begun: None }
    }

    fn has_room(&self, needs: Needs) -> bool {
        let mut bounds = needs.bounds.into_iter().flatten().map(|bound| &self.bounds[bound]);
        let of_gate = |(id, is_retry)| self.gates.room(id, is_retry) != Some(0);
        self.free > 0
            && bounds.all(|bound| bound.taken < bound.most)
            && needs.gate.is_none_or(of_gate)
    }
}
