//! Runs the engine's own code on a simulated database, under every fault, from a seed.
//!
//! Several nodes (`resurgam_worker::node`) run random programs on the model store
//! (`resurgam_store::model`), which a simulated network lies between. One seed decides everything:
//! what the programs do, how their attempts end, and what goes wrong when. Everything that happens
//! is checked against what is promised (`promises.rs`), and the same seed gives the same trace.
//!
//! ```text
//!   users ── requests ──► host: Node ── outputs ──► world ── wire, faults ──► database: Model
//!                           ▲                         │                         │
//!                           └──── inputs, answers ────┘◄──────── promises ◄─────┘
//! ```
//!
//! - `plan`, `random`, `program`: what a seed decides.
//! - `world`: lets one thing happen after another. `host`: a process. `attempts`: what the code of
//!   activities does. `users`, `asking`, `keepers`, `operators`, `bulk`: what people want.
//!   `dependencies`: what stands behind gates, and is out now and then.
//! - `network`, `trouble`, `faults`: what goes wrong.
//! - `store`, `file`, `server`, `wire`: the store of a process. `database`: what it talks to.
//! - `promises`: what must hold. `trace`: what happened, for people.

mod asking;
mod attempts;
mod bulk;
mod database;
mod dependencies;
mod faults;
mod file;
mod host;
mod keepers;
mod network;
mod operators;
mod plan;
mod program;
mod promises;
mod random;
mod server;
mod store;
mod timeline;
mod trace;
mod trouble;
mod users;
mod wire;
mod world;

use std::fmt;
use std::time::Duration;

pub use faults::{Counts, Fault};
pub use plan::{Plan, Wishes};
pub use promises::Violation;

use trace::Trace;
use world::World;

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// How much time passed in it.
    pub simulated: Duration,
    /// How many inputs nodes were given.
    pub inputs: u64,
    /// What went wrong, and how often.
    pub counts: Counts,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
}

/// Simulates what a plan says.
pub fn simulate(plan: &Plan) -> Report {
    run(plan, Trace::Off).0
}

/// Simulates what a plan says, and tells everything that happened as text.
pub fn simulate_traced(plan: &Plan) -> (Report, String) {
    let (report, trace) = run(plan, Trace::All(String::new()));
    (report, trace.into_text())
}

/// The last things that happened to the instance that a broken promise is about, or all faults when
/// it is about none.
pub fn last_events(plan: &Plan, violation: &Violation) -> String {
    let trace = violation.uid.map_or(Trace::Of(Vec::new(), Default::default()), Trace::of);
    run(plan, trace).1.into_text()
}

/// Leaves out faults and instances for as long as a promise is still broken.
pub fn minimise(plan: &Plan) -> Plan {
    let mut least = plan.clone();
    let fails = |plan: &Plan| simulate(plan).violation.is_some();
    for fault in plan.faults.clone() {
        let mut without = least.clone();
        without.faults.remove(&fault);
        if fails(&without) {
            least = without;
        }
    }
    let mut pieces = 2;
    while pieces <= plan.instances.max(2) * 2 {
        for piece in 0..pieces {
            let size = plan.instances.div_ceil(pieces);
            let mut without = least.clone();
            without.without.extend(piece * size..((piece + 1) * size).min(plan.instances));
            if without.without.len() > least.without.len() && fails(&without) {
                least = without;
            }
        }
        pieces *= 2;
    }
    least
}

fn run(plan: &Plan, trace: Trace) -> (Report, Trace) {
    let mut world = World::new(plan.clone(), trace);
    let violation = world.run().err();
    let changed = world.database.promises.actions_that_changed_something();
    changed.for_each(|action| world.counts.add_change(action));
    world.note_ends();
    let report = Report {
        seed: plan.seed,
        simulated: world.timeline.now(),
        inputs: world.inputs,
        counts: world.counts,
        violation,
    };
    (report, world.trace)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3_600.0;
        write!(f, "seed {}: {hours:.1} hours, {} inputs", self.seed, self.inputs)?;
        match &self.violation {
            Some(violation) => write!(f, ", BROKEN: {violation}"),
            None => Ok(()),
        }
    }
}
