//! Gates, as far as a store keeps them: what operators set, what was decided, what nodes counted,
//! and the kinds of calls that are paused.
//!
//! A store decides nothing about gates. What was decided about one is text to it, and what nodes
//! count as well. Every task has the key of its gate in a column ([`TaskRow::gate`]), and due tasks
//! can be asked for by it ([`GateScope`]), so that tasks behind a gate that is shut are not even
//! looked at, and no row of theirs is written when it shuts or opens.
//!
//! [`TaskRow::gate`]: crate::rows::TaskRow::gate

use std::collections::HashMap;
use std::sync::Arc;

use resurgam_core::Timestamp;

use crate::Answer;

/// What is stored of gates.
pub trait Gates {
    /// Every gate of which something is stored, and everything that is paused. Both are few.
    fn gates(&self) -> Answer<'_, StoredGates>;

    /// What nodes counted from this time on, by gate, time and node.
    fn gate_counts(&self, from: Timestamp) -> Answer<'_, Vec<GateCount>>;

    /// The keys of gates that tasks wait behind, in any shard: those behind this one, in their
    /// order, at most `limit`. Keys are hopped over; how many tasks wait costs nothing.
    fn waiting_gates(&self, after: &str, limit: usize) -> Answer<'_, Vec<String>>;

    /// How many tasks wait behind each of these gates, in any shard. Nobody counts further than
    /// `at_most`. Calls that are paused are not among them.
    fn count_waiting(
        &self,
        gates: Arc<[String]>,
        before: Timestamp,
        at_most: usize,
    ) -> Answer<'_, Vec<GateWaiting>>;
}

/// Which tasks are looked for, by the gates that they are behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GateScope {
    /// All, whatever their gate.
    #[default]
    All,
    /// Only those behind other gates than these.
    Except(Arc<[String]>),
    /// Only those behind these gates, and of each at most so many, the earliest first. No gate is
    /// named twice.
    Only(Arc<[(String, usize)]>),
}

impl GateScope {
    /// Whether a task behind this gate is looked for.
    pub fn has(&self, gate: &str) -> bool {
        match self {
            GateScope::All => true,
            GateScope::Except(gates) => !gates.iter().any(|other| other == gate),
            GateScope::Only(gates) => gates.iter().any(|(other, _)| other == gate),
        }
    }
}

/// Counts what is taken of each gate of a scope.
#[derive(Debug)]
pub struct Quota<'s> {
    scope: &'s GateScope,
    taken: HashMap<&'s str, usize>,
}

impl<'s> Quota<'s> {
    /// Nothing is taken yet.
    pub fn of(scope: &'s GateScope) -> Self {
        Quota { scope, taken: HashMap::new() }
    }

    /// Whether one more task behind this gate is looked for.
    pub fn takes(&mut self, gate: &str) -> bool {
        let GateScope::Only(gates) = self.scope else { return self.scope.has(gate) };
        let Some((gate, most)) = gates.iter().find(|(other, _)| other == gate) else {
            return false;
        };
        let taken = self.taken.entry(gate).or_default();
        *taken += 1;
        *taken <= *most
    }
}

/// Kinds of calls of which no attempt begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PausedKinds {
    /// Activities.
    pub activities: Arc<[String]>,
    /// Queues.
    pub queues: Arc<[String]>,
}

impl PausedKinds {
    /// True when nothing is paused.
    pub fn is_empty(&self) -> bool {
        self.activities.is_empty() && self.queues.is_empty()
    }

    /// Whether calls of this activity in this queue are paused.
    pub fn has(&self, activity: &str, queue: &str) -> bool {
        self.activities.iter().any(|other| other == activity)
            || self.queues.iter().any(|other| other == queue)
    }
}

/// What is stored of gates and of paused kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredGates {
    /// Gates, by key.
    pub gates: Vec<GateRow>,
    /// What is paused: activities, then queues, by name.
    pub holds: Vec<Hold>,
}

/// What is stored of one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRow {
    /// Its key, or the prefix of keys that settings are for.
    pub key: String,
    /// What an operator set last, or removed.
    pub settings: Option<StoredSettings>,
    /// What an operator made of it last.
    pub hand: Option<ByHand>,
    /// What was decided about it: the versioned text of whoever decides.
    pub decided: Option<String>,
    /// How often it was written.
    pub revision: u64,
}

impl GateRow {
    /// A gate of which nothing is stored yet.
    pub fn new(key: impl Into<String>) -> Self {
        let (settings, hand, decided) = (None, None, None);
        GateRow { key: key.into(), settings, hand, decided, revision: 0 }
    }

    /// True when an operator has set something that still holds.
    pub fn is_set(&self) -> bool {
        let settings = self.settings.as_ref().is_some_and(|settings| settings.text.is_some());
        settings || self.hand.as_ref().is_some_and(|hand| hand.state != HandState::Auto)
    }
}

/// Settings of a gate that an operator stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSettings {
    /// Their stored form; `None` when there are none any more.
    pub text: Option<String>,
    /// Who set them, or removed them.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What an operator made of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByHand {
    /// What it is from then on.
    pub state: HandState,
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Until when, if there is an end.
    pub until: Option<Timestamp>,
}

/// The state of a gate that an operator has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandState {
    /// Nothing begins.
    Shut,
    /// Everything begins.
    Open,
    /// The gate decides again.
    Auto,
}

impl HandState {
    /// Every state.
    pub const ALL: [HandState; 3] = [HandState::Shut, HandState::Open, HandState::Auto];

    /// Its stored name.
    pub fn name(self) -> &'static str {
        match self {
            HandState::Shut => "shut",
            HandState::Open => "open",
            HandState::Auto => "auto",
        }
    }

    /// The state of this stored name.
    pub fn named(name: &str) -> Option<Self> {
        HandState::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What a node counted at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateCount {
    /// The key of the gate.
    pub gate: String,
    /// The second that it is about, by its beginning.
    pub at: Timestamp,
    /// The node.
    pub node: String,
    /// What it counted: the versioned text of whoever counts.
    pub counts: String,
}

/// How many tasks wait behind a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWaiting {
    /// The key of the gate.
    pub gate: String,
    /// How many are due before the time that was asked about, as far as was counted.
    pub due: usize,
    /// When the first of all that wait is due.
    pub first: Option<Timestamp>,
}

/// A kind of calls that an operator has paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What the name is of.
    pub kind: HoldKind,
    /// Which.
    pub name: String,
    /// Who paused it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// What can be paused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldKind {
    /// All calls of an activity.
    Activity,
    /// All calls in a queue.
    Queue,
}

impl HoldKind {
    /// Every kind.
    pub const ALL: [HoldKind; 2] = [HoldKind::Activity, HoldKind::Queue];

    /// Its stored name.
    pub fn name(self) -> &'static str {
        match self {
            HoldKind::Activity => "activity",
            HoldKind::Queue => "queue",
        }
    }

    /// The kind of this stored name.
    pub fn named(name: &str) -> Option<Self> {
        HoldKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A change of what is stored of gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateWrite {
    /// An operator sets a gate, or removes what was set.
    Set {
        /// The gate, or the prefix of keys.
        key: String,
        /// What was set.
        settings: StoredSettings,
    },
    /// An operator shuts or opens a gate, or lets it decide again.
    Hand {
        /// The gate.
        key: String,
        /// What was made of it.
        hand: ByHand,
    },
    /// What was decided about a gate. Only the node that holds [`GateWrite::DECIDER`] writes this.
    Decide {
        /// The gate.
        key: String,
        /// What it says.
        decided: String,
    },
    /// What was decided about a gate is no longer needed: its row goes, unless an operator has set
    /// something that holds ([`GateRow::is_set`]). Only the decider writes this, too.
    Forget {
        /// The gate.
        key: String,
    },
    /// What a node counted, in the place of what it counted before of that gate and second.
    Count(GateCount),
    /// The end of everything that was counted before this time.
    ForgetCounts {
        /// Until when.
        before: Timestamp,
    },
    /// Calls of a kind are paused, in the place of an earlier pause of that kind.
    Hold(Hold),
    /// Calls of a kind go on. It may be that they were not paused.
    Release {
        /// What the name is of.
        kind: HoldKind,
        /// Which.
        name: String,
    },
}

impl GateWrite {
    /// Whoever holds this shard decides about the gates of all nodes.
    pub const DECIDER: resurgam_core::Shard = resurgam_core::Shard(0);

    /// True when only the node that decides may write it.
    pub fn is_the_deciders(&self) -> bool {
        matches!(self, GateWrite::Decide { .. } | GateWrite::Forget { .. })
    }

    /// True when other nodes should hear of it.
    pub fn is_news(&self) -> bool {
        !matches!(self, GateWrite::Forget { .. } | GateWrite::ForgetCounts { .. })
    }
}
