//! What one node knows of the others, and what it decides from every look at their rows.
//!
//! | the node is told that | what follows |
//! |---|---|
//! | it has joined | the shards that it takes at once |
//! | its beat was answered | a new [`Assignment`], and the nodes that are dead and to be removed |
//! | its row was gone, or one of its shards has another owner or epoch | it was overtaken |
//! | a shard is its own by the database, and it neither holds nor wants it | releases it |
//! | nothing, for two thirds of a lease | it may begin no attempt |
//!
//! Two times belong to an answer, and which one counts is a matter of safety. The others have seen
//! a beat no earlier than when it was asked for, so the node trusts it from then on. The node has
//! seen the others no later than when it got the answer, so their time begins to count there. Both
//! ways no node is taken for dead before it knows that it may be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use resurgam_core::Shard;

use super::sharers::{known_elsewhere, sharers, why_aside};
use super::{Fence, Moves, NodeRow, Observer, ShardRow, View, spread};
use crate::Assignment;

/// What one process knows of the nodes of its database, and the node that it is, if it is one.
///
/// It lives as long as the process uses the database, as a client and as one node after the other.
/// The caller reads and writes the rows, one thing at a time, and keeps the [`Fence`].
///
/// ```
/// use std::time::Duration;
/// use resurgam_core::{Shard, Timestamp};
/// use resurgam_store::fleet::{Beat, Fence, Membership, NodeRow, Observation, ShardRow, View};
///
/// let row = NodeRow {
///     node: "node-1".into(),
///     beat: 0,
///     pid: 1,
///     program: "orders".into(),
///     started_at: Timestamp::EPOCH,
///     workflows: None,
/// };
/// let free = Shard::all().map(|shard| ShardRow { shard, owner: None, epoch: 0 });
/// let (now, shards) = (Timestamp::EPOCH, free.collect());
/// let view = View { now, leaves_tasks: false, nodes: vec![row], shards };
/// let at = |millis| Observation {
///     asked: Duration::from_millis(millis),
///     answered: Duration::from_millis(millis + 2),
///     beaten: true,
///     view: &view,
/// };
///
/// let mut membership = Membership::new(Duration::from_secs(9));
/// assert_eq!(membership.joined("node-1", at(0)).len(), 256);
/// // It may begin attempts for two thirds of a lease after a beat.
/// assert!(membership.may_begin(Duration::from_millis(5_999)));
/// assert!(!membership.may_begin(Duration::from_secs(6)));
/// // It believes to hold a shard that is free by the database.
/// let fence = Fence::new("node-1", [(Shard(3), 1)]);
/// assert_eq!(membership.beaten(&fence, at(1_000)), Beat::Overtaken);
/// ```
#[derive(Clone, Debug)]
pub struct Membership {
    lease: Duration,
    observer: Observer,
    present: Option<Present>,
    assignment: Assignment,
}

/// A node that works.
#[derive(Clone, Debug)]
struct Present {
    node: String,
    /// When it last showed that it is alive.
    beaten: Duration,
    /// The nodes that were there then.
    seen: BTreeSet<String>,
}

/// An answer of the database about nodes and shards, with the times of the one who asked.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'v> {
    /// Before the question was sent.
    pub asked: Duration,
    /// When the answer was there.
    pub answered: Duration,
    /// The question came with a beat, and that has found the row of its node.
    pub beaten: bool,
    /// What was found.
    pub view: &'v View,
}

/// What became of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat<'v> {
    /// The node is alive.
    Alive {
        /// Other nodes that are dead. Their rows are to be removed unless their beats have moved
        /// since, and their shards are free then.
        dead: Vec<&'v NodeRow>,
        /// Shards that are the node's by the database, and that it neither holds nor takes: a
        /// request to take them arrived after they were given up. They are to be released, for
        /// nobody else can take them.
        stray: Vec<Shard>,
    },
    /// The node has left.
    Over,
    /// Others took the node for dead, or have shards of it.
    Overtaken,
}

/// How often a node looks while shards should move, when nobody tells it.
const MOVING: Duration = Duration::from_millis(100);

impl Membership {
    /// What a process knows that has seen nobody yet. Whose beat stands still for a whole lease is
    /// dead.
    pub fn new(lease: Duration) -> Self {
        Membership {
            lease,
            observer: Observer::new(lease),
            present: None,
            assignment: Assignment { may_begin: true, ..Assignment::default() },
        }
    }

    /// What the node should do.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The node that works, from when it has joined until it has left.
    pub fn node(&self) -> Option<&str> {
        self.present.as_ref().map(|present| present.node.as_str())
    }

    /// The row of this node was made, and this is the answer to its first beat. Answers with the
    /// shards that it is to take at once.
    pub fn joined(&mut self, node: &str, found: Observation<'_>) -> Vec<Shard> {
        let seen = names(found.view);
        self.present = Some(Present { node: node.to_string(), beaten: found.asked, seen });
        let moves = self.decide(&Fence::new(node, []), found);
        (self.assignment.take, self.assignment.give) = (Vec::new(), Vec::new());
        self.assignment.may_begin = true;
        moves.take
    }

    /// The node within this fence has shown that it is alive, or tried to.
    pub fn beaten<'v>(&mut self, fence: &Fence, found: Observation<'v>) -> Beat<'v> {
        let Some(present) = self.present.as_mut().filter(|present| present.node == fence.node())
        else {
            return Beat::Over;
        };
        if !found.beaten || !fence.holds(found.view) {
            return Beat::Overtaken;
        }
        present.beaten = found.asked;
        let before = std::mem::replace(&mut present.seen, names(found.view));
        let departed = !before.is_subset(&present.seen);
        let Moves { take, release } = self.decide(fence, found);
        self.assignment.departed += u64::from(departed);
        (self.assignment.take, self.assignment.give) = (take, release);
        self.assignment.may_begin = true;
        let others = found.view.nodes.iter().filter(|row| row.node != fence.node());
        let dead = others.filter(|row| self.observer.is_dead(&row.node)).collect();
        let is_own = |row: &&ShardRow| row.owner.as_deref() == Some(fence.node());
        let own = found.view.shards.iter().filter(is_own).map(|row| row.shard);
        let takes = |shard: &Shard| self.assignment.take.contains(shard);
        let stray = own.filter(|shard| !fence.has(*shard) && !takes(shard)).collect();
        Beat::Alive { dead, stray }
    }

    /// A node that owns something and is not known to be dead, as one sees who is none.
    pub fn owner<'v>(&mut self, found: Observation<'v>) -> Option<&'v NodeRow> {
        self.observe(found);
        let owns = |row: &NodeRow| {
            found.view.shards.iter().any(|shard| shard.owner.as_ref() == Some(&row.node))
        };
        found.view.nodes.iter().find(|row| owns(row) && !self.observer.is_dead(&row.node))
    }

    /// The nodes that are not known to be dead.
    pub fn alive<'v>(&mut self, found: Observation<'v>) -> impl Iterator<Item = &'v NodeRow> {
        // One that works observes the others when it beats.
        if self.present.is_none() {
            self.observe(found);
        }
        found.view.nodes.iter().filter(|row| !self.observer.is_dead(&row.node))
    }

    /// The node has taken those of these shards that it could get.
    pub fn taken(&mut self, shards: &[Shard]) {
        self.assignment.take.retain(|shard| !shards.contains(shard));
    }

    /// The node has given these shards up.
    pub fn released(&mut self, shards: &[Shard]) {
        self.assignment.give.retain(|shard| !shards.contains(shard));
    }

    /// A node of this process has left.
    pub fn left(&mut self, node: &str) {
        self.present.take_if(|present| present.node == node);
        (self.assignment.take, self.assignment.give) = (Vec::new(), Vec::new());
    }

    /// Whether the node may begin an attempt: not when it could not beat for two thirds of a
    /// lease, for others may soon take it for dead.
    pub fn may_begin(&self, now: Duration) -> bool {
        self.may_begin_until().is_none_or(|until| now < until)
    }

    /// When the node must stop beginning attempts unless it beats before.
    pub fn may_begin_until(&self) -> Option<Duration> {
        self.present.as_ref().map(|present| present.beaten + self.lease * 2 / 3)
    }

    /// Says in the assignment whether the node may begin attempts at this time.
    pub fn note_may_begin(&mut self, now: Duration) {
        self.assignment.may_begin = self.may_begin(now);
    }

    /// How long to wait before the next beat: so short that a few lost beats kill nobody, shorter
    /// while shards should move, and never beyond the moment from which nothing may begin.
    pub fn next_beat(&self, now: Duration) -> Duration {
        let every = if self.is_moving() { MOVING.min(self.lease / 7) } else { self.lease / 7 };
        let left = self.may_begin_until().map(|until| until.saturating_sub(now));
        left.filter(|left| !left.is_zero()).map_or(every, |left| left.min(every))
    }

    /// How long one beat may take before the next one gets another connection.
    pub fn beat_timeout(&self) -> Duration {
        self.lease / 4
    }

    fn is_moving(&self) -> bool {
        !self.assignment.take.is_empty() || !self.assignment.give.is_empty()
    }

    /// What should move, as far as the node within this fence is concerned; what else there is to
    /// know goes into the assignment. What is the node's own by the database and not inside the
    /// fence it may as well take: the answer of an earlier time was lost.
    fn decide(&mut self, fence: &Fence, found: Observation<'_>) -> Moves {
        self.observe(found);
        let (node, view) = (fence.node(), found.view);
        let is_alive = |row: &&NodeRow| row.node == node || !self.observer.is_dead(&row.node);
        let live: Vec<&NodeRow> = view.nodes.iter().filter(is_alive).collect();
        let sharers = sharers(&live);
        let owner = |shard: &ShardRow| -> Option<&str> {
            let row = live.iter().find(|row| Some(&row.node) == shard.owner.as_ref())?;
            (row.node != node || fence.has(shard.shard)).then_some(row.node.as_str())
        };
        let owners: Vec<(Shard, Option<&str>)> =
            view.shards.iter().map(|row| (row.shard, owner(row))).collect();
        let names: Vec<&str> = sharers.iter().map(|row| row.node.as_str()).collect();
        let moves = spread(node, &names, &owners);

        let me = live.iter().find(|row| row.node == node);
        let known = me.map(|me| known_elsewhere(me, &live)).unwrap_or_default();
        let assignment = &mut self.assignment;
        assignment.aside = me.and_then(|me| why_aside(me, &live, &sharers));
        assignment.others_work = live.iter().any(|row| row.node != node);
        let nodes: BTreeSet<String> = live.iter().map(|row| row.node.clone()).collect();
        if *assignment.nodes != nodes {
            assignment.nodes = Arc::new(nodes);
        }
        (assignment.others_leave_tasks, assignment.hands) = (view.leaves_tasks, view.hands());
        if *assignment.known_elsewhere != known {
            assignment.known_elsewhere = Arc::new(known);
        }
        moves
    }

    fn observe(&mut self, found: Observation<'_>) {
        let beats = found.view.nodes.iter().map(|row| (row.node.as_str(), row.beat));
        self.observer.look(found.answered, beats);
    }
}

fn names(view: &View) -> BTreeSet<String> {
    view.nodes.iter().map(|row| row.node.clone()).collect()
}

#[cfg(test)]
mod tests {
    use resurgam_core::Timestamp;
    use resurgam_watchdog::test;

    use super::*;
    use crate::Aside;

    const LEASE: Duration = Duration::from_secs(9);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn node(name: &str, beat: i64) -> NodeRow {
        NodeRow {
            node: name.to_string(),
            beat,
            pid: 1,
            program: "orders".to_string(),
            started_at: Timestamp::EPOCH,
            workflows: None,
        }
    }

    fn nodes(names: &[&str]) -> Vec<NodeRow> {
        names.iter().map(|name| node(name, 0)).collect()
    }

    fn knowing(name: &str, workflows: &[&str]) -> NodeRow {
        let workflows = Some(workflows.iter().map(ToString::to_string).collect());
        NodeRow { workflows, ..node(name, 0) }
    }

    /// Four shards with these owners; the epoch of each is 1.
    fn view(nodes: &[NodeRow], owners: [&str; 4]) -> View {
        let owner = |name: &str| Some(name.to_string()).filter(|name| !name.is_empty());
        let row = |(shard, name)| ShardRow { shard: Shard(shard), owner: owner(name), epoch: 1 };
        View {
            now: Timestamp::EPOCH,
            leaves_tasks: false,
            nodes: nodes.to_vec(),
            shards: (0..).zip(owners).map(row).collect(),
        }
    }

    /// An answer that came at once.
    fn at(second: u64, view: &View) -> Observation<'_> {
        Observation { asked: secs(second), answered: secs(second), beaten: true, view }
    }

    fn fence(node: &str, shards: &[u16]) -> Fence {
        Fence::new(node, shards.iter().map(|shard| (Shard(*shard), 1)))
    }

    fn shards(numbers: &[u16]) -> Vec<Shard> {
        numbers.iter().copied().map(Shard).collect()
    }

    /// Node `a`, which joined at second 0, when this was there.
    fn joined(view: &View) -> Membership {
        let mut membership = Membership::new(LEASE);
        membership.joined("a", at(0, view));
        membership
    }

    #[test]
    fn what_a_node_that_joins_takes_at_once() {
        type Case<'t> = (&'t str, &'t [&'t str], [&'t str; 4], &'t [u16]);
        let table: [Case<'_>; 6] = [
            ("everything, when it is alone", &["a"], ["", "", "", ""], &[0, 1, 2, 3]),
            ("half of what is free", &["a", "b"], ["", "", "", ""], &[0, 1]),
            ("nothing that another one has", &["a", "b"], ["b"; 4], &[]),
            ("up to its share", &["a", "b"], ["b", "", "b", ""], &[1, 3]),
            ("what a node has that is gone", &["a"], ["c"; 4], &[0, 1, 2, 3]),
            ("what has its name already", &["a"], ["a"; 4], &[0, 1, 2, 3]),
        ];
        for (what, names, owners, expected) in table {
            let mut membership = Membership::new(LEASE);
            let take = membership.joined("a", at(0, &view(&nodes(names), owners)));
            assert_eq!(take, shards(expected), "{what}");
            // What it takes at once it is not told to take.
            let Assignment { take, give, others_work, .. } = membership.assignment();
            assert_eq!((take.len(), give.len()), (0, 0), "{what}");
            assert_eq!(*others_work, names.len() > 1, "{what}");
        }
    }

    #[test]
    fn what_a_beat_finds() {
        type Case<'t> = (&'t str, &'t [&'t str], [&'t str; 4], &'t [u16], &'t [u16], &'t [u16]);
        let table: [Case<'_>; 6] = [
            ("nothing to do", &["a"], ["a"; 4], &[0, 1, 2, 3], &[], &[]),
            ("free shards", &["a"], ["a", "a", "", ""], &[0, 1], &[2, 3], &[]),
            ("too many", &["a", "b"], ["a"; 4], &[0, 1, 2, 3], &[], &[3, 0]),
            ("its share", &["a", "b"], ["a", "a", "", ""], &[0, 1], &[], &[]),
            ("what it took, by a lost answer", &["a"], ["a"; 4], &[0, 1], &[2, 3], &[]),
            ("a node that left", &["a"], ["a", "a", "b", "b"], &[0, 1], &[2, 3], &[]),
        ];
        for (what, names, owners, held, take, give) in table {
            let view = view(&nodes(names), owners);
            let mut membership = joined(&view);
            let beat = membership.beaten(&fence("a", held), at(1, &view));
            assert_eq!(beat, Beat::Alive { dead: Vec::new(), stray: Vec::new() }, "{what}");
            let assignment = membership.assignment();
            assert_eq!(assignment.take, shards(take), "{what}");
            assert_eq!(assignment.give, shards(give), "{what}");
        }
    }

    #[test]
    fn a_node_is_overtaken_when_its_row_is_gone_or_a_shard_is_not_its_own() {
        let view = view(&[node("a", 0), node("b", 5)], ["a", "a", "b", ""]);
        let row_gone = Observation { beaten: false, ..at(1, &view) };
        let another_epoch = Fence::new("a", [(Shard(0), 1), (Shard(1), 2)]);
        let table = [
            ("its row is gone", fence("a", &[0, 1]), row_gone),
            ("a shard is another's", fence("a", &[0, 1, 2]), at(1, &view)),
            ("a shard is free", fence("a", &[0, 1, 3]), at(1, &view)),
            ("a shard was taken once more", another_epoch, at(1, &view)),
        ];
        for (what, fence, found) in table {
            let mut membership = joined(&view);
            assert_eq!(membership.beaten(&fence, found), Beat::Overtaken, "{what}");
            // It has shown nobody that it is alive.
            assert_eq!(membership.may_begin_until(), Some(secs(6)), "{what}");
        }
    }

    #[test]
    fn a_shard_that_is_the_nodes_by_the_database_only_is_taken_or_released() {
        let view = view(&nodes(&["a", "b"]), ["a", "a", "a", "b"]);
        let mut membership = joined(&view);
        let stray = shards(&[2]);
        let beat = membership.beaten(&fence("a", &[0, 1]), at(1, &view));
        assert_eq!(beat, Beat::Alive { dead: Vec::new(), stray });
        // It has room for that one.
        let beat = membership.beaten(&fence("a", &[0]), at(2, &view));
        assert_eq!(membership.assignment().take, shards(&[1]));
        assert_eq!(beat, Beat::Alive { dead: Vec::new(), stray: shards(&[2]) });
    }

    #[test]
    fn a_node_that_has_left_beats_no_more() {
        let view = view(&[node("a", 0)], ["a", "a", "", ""]);
        let mut membership = joined(&view);
        let fence = fence("a", &[0, 1]);
        membership.beaten(&fence, at(1, &view));
        assert_eq!(membership.assignment().take, shards(&[2, 3]));
        membership.left("another one");
        assert_eq!(membership.node(), Some("a"));
        membership.left("a");
        assert_eq!(membership.beaten(&fence, at(2, &view)), Beat::Over);
        assert_eq!((membership.node(), membership.assignment().take.len()), (None, 0));
        // Nobody waits for its beat.
        assert!(membership.may_begin(secs(1_000)));
    }

    #[test]
    fn a_node_whose_beat_stands_still_for_a_lease_is_dead_and_its_shards_are_free() {
        let owners = ["a", "a", "b", "b"];
        let before = view(&[node("a", 0), node("b", 5)], owners);
        let mut membership = joined(&before);
        let fence = fence("a", &[0, 1]);
        for second in [3, 6] {
            let beat = membership.beaten(&fence, at(second, &before));
            assert_eq!(
                beat,
                Beat::Alive { dead: Vec::new(), stray: Vec::new() },
                "after {second} seconds"
            );
            assert!(membership.assignment().others_work);
        }
        // A slow answer counts from when it came.
        let late = Observation { answered: secs(9), ..at(8, &before) };
        let beat = membership.beaten(&fence, late);
        assert_eq!(beat, Beat::Alive { dead: vec![&before.nodes[1]], stray: Vec::new() });
        assert_eq!(membership.assignment().take, shards(&[2, 3]));
        assert!(!membership.assignment().others_work);
        assert_eq!(membership.assignment().departed, 0);
        // What it claimed is abandoned when its row is gone.
        let after = view(&[node("a", 0)], ["a", "a", "", ""]);
        membership.beaten(&fence, at(10, &after));
        assert_eq!(membership.assignment().departed, 1);
        membership.beaten(&fence, at(11, &after));
        assert_eq!(membership.assignment().departed, 1);
    }

    #[test]
    fn a_standing_says_what_others_know_and_leave() {
        let nodes = [knowing("a", &["x"]), knowing("b", &["x", "y"])];
        let mut seen = view(&nodes, ["a", "a", "", ""]);
        let mut membership = joined(&seen);
        membership.beaten(&fence("a", &[0, 1]), at(1, &seen));
        let assignment = membership.assignment().clone();
        assert_eq!(assignment.aside, Some(Aside::KnowsLess { than: "b".to_string() }));
        assert_eq!(*assignment.known_elsewhere, BTreeSet::from(["y".to_string()]));
        assert_eq!(assignment.give, shards(&[0, 1]));
        assert_eq!((assignment.others_leave_tasks, assignment.hands), (false, 0));
        seen.leaves_tasks = true;
        membership.beaten(&fence("a", &[0, 1]), at(2, &seen));
        let assignment = membership.assignment();
        assert_eq!((assignment.others_leave_tasks, assignment.hands), (true, 4));
    }

    #[test]
    fn what_was_done_is_not_asked_for_any_more() {
        let free = view(&[node("a", 0)], ["a", "", "", ""]);
        let mut membership = joined(&free);
        membership.beaten(&fence("a", &[0]), at(1, &free));
        membership.taken(&shards(&[1, 3]));
        assert_eq!(membership.assignment().take, shards(&[2]));
        let shared = view(&[node("a", 0), node("b", 5)], ["a"; 4]);
        membership.beaten(&fence("a", &[0, 1, 2, 3]), at(2, &shared));
        membership.released(&shards(&[0]));
        assert_eq!(membership.assignment().give, shards(&[3]));
    }

    #[test]
    fn a_node_that_could_not_beat_for_two_thirds_of_a_lease_begins_nothing() {
        let view = view(&[node("a", 0)], ["a"; 4]);
        let mut membership = Membership::new(LEASE);
        assert!(membership.may_begin(secs(1_000)), "a client begins nothing that could be lost");
        // What others have seen is not younger than the question, however late the answer.
        let late = Observation { answered: secs(12), ..at(10, &view) };
        membership.joined("a", late);
        for (millis, may_begin) in [(12_000, true), (15_999, true), (16_000, false)] {
            let now = Duration::from_millis(millis);
            assert_eq!(membership.may_begin(now), may_begin, "after {millis} ms");
            membership.note_may_begin(now);
            assert_eq!(membership.assignment().may_begin, may_begin, "after {millis} ms");
        }
        membership.beaten(&fence("a", &[0, 1, 2, 3]), at(17, &view));
        assert!(membership.assignment().may_begin && membership.may_begin(secs(22)));
    }

    #[test]
    fn when_a_node_beats() {
        let view = view(&nodes(&["a"]), ["a"; 4]);
        let (seventh, soon) = (LEASE / 7, Duration::from_millis(100));
        type Case<'t> = (&'t str, &'t [u16], u64, Duration);
        let table: [Case<'_>; 4] = [
            ("at rest", &[0, 1, 2, 3], 1_000, seventh),
            ("while shards move", &[0, 1, 2], 1_000, soon),
            ("in time to begin nothing", &[0, 1, 2, 3], 6_500, Duration::from_millis(500)),
            ("when nothing may begin any more", &[0, 1, 2, 3], 7_000, seventh),
        ];
        for (what, held, now, expected) in table {
            let mut membership = joined(&view);
            membership.beaten(&fence("a", held), at(1, &view));
            assert_eq!(membership.next_beat(Duration::from_millis(now)), expected, "{what}");
        }
    }

    #[test]
    fn a_client_names_an_owner_that_is_not_known_to_be_dead() {
        let mut membership = Membership::new(LEASE);
        let seen = |b| view(&[node("idle", 0), node("a", 3), node("b", b)], ["a", "a", "b", ""]);
        for second in 0..=9 {
            let view = seen(i64::try_from(second).unwrap());
            let owner = membership.owner(at(second, &view)).map(|row| row.node.clone());
            let expected = if second < 9 { "a" } else { "b" };
            assert_eq!(owner.as_deref(), Some(expected), "after {second} seconds");
        }
        let free = view(&[node("idle", 0)], ["", "", "", ""]);
        assert_eq!(membership.owner(at(10, &free)), None);
    }
}
