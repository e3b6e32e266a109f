//! What a seed decides before anything happens.
//!
//! Seeds differ in what goes wrong and in how often it does. One that knows few kinds of faults
//! meets them often, and so meets each together with the others of its few, which a seed that knows
//! all of them hardly does. Small seeds come to their end soon, so that many are tried.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam_core::gate::Gate;
use resurgam_store::model::Sharing;

use crate::dependencies;
use crate::faults::Fault;
use crate::random::Random;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Everything else follows from this.
    pub seed: u64,
    /// A file with one process that works, or a server with several.
    pub sharing: Sharing,
    /// How many processes there are that work.
    pub nodes: usize,
    /// How many there are that only ask.
    pub clients: usize,
    /// How many schedules there are.
    pub schedules: usize,
    /// How long operators do nothing to calls and instances at the most; `None` when there are no
    /// operators.
    pub operators: Option<Duration>,
    /// How long closed instances stay; for ever with `None`.
    pub stays: Option<Duration>,
    /// For how long things go wrong.
    pub trouble: Duration,
    /// How many instances users start in that time.
    pub instances: usize,
    /// The gates before the dependencies of calls.
    pub gates: Vec<Gate>,
    /// What goes wrong.
    pub faults: BTreeSet<Fault>,
    /// How many times more often than usual it does.
    pub often: u64,
    /// Instances that are not started: see [`minimise`](crate::minimise).
    pub without: BTreeSet<usize>,
}

/// What somebody asks for in place of what the seed says.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// How many processes there are.
    pub nodes: Option<usize>,
    /// For how long things go wrong.
    pub trouble: Option<Duration>,
    /// What goes wrong.
    pub faults: Option<BTreeSet<Fault>>,
}

impl Plan {
    /// What a seed decides.
    pub fn new(seed: u64, wishes: &Wishes) -> Self {
        let mut random = Random::new(seed);
        let sharing = if random.one_in(4) { Sharing::OneNode } else { Sharing::ManyNodes };
        let nodes = wishes.nodes.unwrap_or(random.between(1, 4) as usize);
        let is_small = random.one_in(2);
        let seconds = if is_small { random.between(20, 60) } else { 60 * random.between(1, 4) };
        let trouble = wishes.trouble.unwrap_or(Duration::from_secs(seconds));
        let density = random.between(2, 12);
        // One in so many kinds of faults, and how often they come.
        let (one_in, often) = match random.below(4) {
            0 => (1, random.between(1, 2)),
            1 => (2, random.between(1, 4)),
            _ => (4, 1 << random.between(0, 4)),
        };
        let all = wishes.faults.clone().unwrap_or(Fault::ALL.into_iter().collect());
        let faults: BTreeSet<Fault> = all
            .into_iter()
            .filter(|_| random.one_in(one_in))
            .filter(|fault| sharing == Sharing::ManyNodes || fault.happens_on_a_file())
            .collect();
        let gates = dependencies::of_seed(seed);
        let instances = (trouble.as_secs() * density / 60) as usize + 1;
        let clients = if random.one_in(2) { random.between(1, 2) as usize } else { 0 };
        let schedules = if random.one_in(2) { random.between(1, 2) as usize } else { 0 };
        let stays = random.one_in(3).then(|| Duration::from_secs(random.between(1, 60)));
        let lull = if random.one_in(2) { 3 } else { 20 };
        let operators = random.one_in(2).then_some(Duration::from_secs(lull));
        let without = BTreeSet::new();
        Plan {
            seed,
            sharing,
            nodes,
            clients,
            schedules,
            operators,
            stays,
            trouble,
            instances,
            gates,
            faults,
            often,
            without,
        }
    }
}
