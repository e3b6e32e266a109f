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
//! A task need not be in memory to wait: it is read when a slot is free for it. What a reader of
//! due tasks does not know, it finds then: such a call changes lines (`claim.rs`).
//!
//! [`Progress::poison`]: resurgam_store::rows::Progress::poison

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use resurgam_core::{CallKey, Shard, Timestamp};
use resurgam_store::rows::TaskRow;

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
    lines: BTreeMap<Needs, BTreeSet<Place>>,
}

/// A slot that is taken, to be given back with [`Slots::free`].
#[derive(Debug)]
#[must_use = "a slot that is not given back is lost"]
pub(crate) struct Slot(Needs);

impl Slot {
    /// True when a task with this ticket may have it.
    pub(crate) fn suits(&self, ticket: Ticket) -> bool {
        self.0 == ticket.needs
    }
}

/// What decides when a task gets a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    needs: Needs,
    priority: i32,
}

impl Ticket {
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

/// The bounds that a task is under: its activity's and its queue's, where they have any, and that
/// of calls that may kill their process, where it is one.
type Needs = [Option<usize>; 3];

/// Where a task stands among those that wait.
type Place = (Reverse<i32>, Timestamp, CallKey);

impl Slots {
    /// As many slots as the node has, and what activities and queues are allowed of them.
    pub(crate) fn new(
        node: usize,
        activities: impl IntoIterator<Item = (String, usize)>,
        queues: impl IntoIterator<Item = (String, usize)>,
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
        Slots { free: node, activities, queues, bounds, poison, lines: BTreeMap::new() }
    }

    /// What decides when a task gets a slot, as far as it is known of one that is not in memory.
    pub(crate) fn ticket(&self, activity: &str, queue: &str, priority: i32) -> Ticket {
        let needs = [self.activities.get(activity).copied(), self.queues.get(queue).copied(), None];
        Ticket { needs, priority }
    }

    /// The ticket of a task in memory.
    pub(crate) fn ticket_of(&self, task: &TaskRow) -> Ticket {
        let mut ticket = self.ticket(&task.name, &task.queue, task.priority);
        ticket.needs[2] = task.progress.poison.then_some(self.poison);
        ticket
    }

    /// True when a call may begin that may kill its process: none runs, and none waits here.
    pub(crate) fn has_room_for_poison(&self) -> bool {
        let is_poison = |needs: &Needs| needs[2].is_some();
        self.has_room([None, None, Some(self.poison)]) && !self.lines.keys().any(is_poison)
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

    /// How many slots are free, those aside that somebody waits for.
    pub(crate) fn free_now(&self) -> usize {
        match self.first() {
            Some(_) => 0,
            None => self.free,
        }
    }

    /// Puts a task in line that is due since then.
    pub(crate) fn enqueue(&mut self, ticket: Ticket, at: Timestamp, call: CallKey) {
        self.lines.entry(ticket.needs).or_default().insert(ticket.place(at, call));
    }

    /// Takes a task out of its line, if it is in one, also that of a reader who knew less of it.
    pub(crate) fn dequeue(&mut self, task: &TaskRow) {
        let known = self.ticket(&task.name, &task.queue, task.priority);
        for ticket in [self.ticket_of(task), known] {
            self.leave(ticket.needs, ticket.place(task.wake_at, task.call));
        }
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
        for bound in slot.0.into_iter().flatten() {
            self.bounds[bound].taken -= 1;
        }
    }

    /// Who would get a slot now, of those who wait.
    fn first(&self) -> Option<(Place, Needs)> {
        let open = self.lines.iter().filter(|(needs, _)| self.has_room(**needs));
        open.filter_map(|(needs, line)| Some((*line.first()?, *needs))).min()
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
        for bound in needs.into_iter().flatten() {
            self.bounds[bound].taken += 1;
        }
        Slot(needs)
    }

    fn has_room(&self, needs: Needs) -> bool {
        let mut bounds = needs.into_iter().flatten().map(|bound| &self.bounds[bound]);
        self.free > 0 && bounds.all(|bound| bound.taken < bound.most)
    }
}
