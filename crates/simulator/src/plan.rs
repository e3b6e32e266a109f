//! What a seed decides before anything happens.

use std::collections::BTreeSet;
use std::time::Duration;

use resurgam_store::model::Sharing;

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
    /// Whether there are operators who do something to calls and to instances.
    pub operators: bool,
    /// How long closed instances stay; for ever with `None`.
    pub stays: Option<Duration>,
    /// For how long things go wrong.
    pub trouble: Duration,
    /// How many instances users start in that time.
    pub instances: usize,
    /// What goes wrong.
    pub faults: BTreeSet<Fault>,
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
        let minutes = random.between(1, 4);
        let trouble = wishes.trouble.unwrap_or(Duration::from_secs(60 * minutes));
        let density = random.between(2, 12);
        // Some seeds know few kinds, so that each is seen without the others, too.
        let few = random.one_in(3);
        let all = wishes.faults.clone().unwrap_or(Fault::ALL.into_iter().collect());
        let faults = all
            .into_iter()
            .filter(|_| !few || random.one_in(4))
            .filter(|fault| sharing == Sharing::ManyNodes || fault.happens_on_a_file())
            .collect();
        let instances = (trouble.as_secs() * density / 60) as usize + 1;
        let clients = if random.one_in(2) { random.between(1, 2) as usize } else { 0 };
        let schedules = if random.one_in(2) { random.between(1, 2) as usize } else { 0 };
        let stays = random.one_in(3).then(|| Duration::from_secs(random.between(1, 60)));
        let operators = random.one_in(2);
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
            faults,
            without,
        }
    }
}
