//! What an outage of a dependency costs under a policy, without a gate before the dependency and
//! with one.
//!
//! The numbers are those of `resurgam-bench outage`, which does the same with a real server and
//! real databases.

mod dependency;
mod world;

use std::time::Duration;

use serde::Serialize;

pub use world::{Second, Story, World};

/// A second.
pub const SECOND: Duration = Duration::from_secs(1);

/// How far a second has passed when a world begins, so far as one is to have passed when its outage
/// begins.
pub fn begins_at(phase: Duration, before: Duration) -> Duration {
    let before = Duration::from_nanos(u64::from(before.subsec_nanos()));
    let begins = phase + SECOND - before;
    if begins >= SECOND { begins - SECOND } else { begins }
}

/// When within a second of the clock an outage may begin. Over these, how long a gate takes to
/// notice is on average what it is over all.
const PHASES: [Duration; 4] = [
    Duration::from_millis(125),
    Duration::from_millis(375),
    Duration::from_millis(625),
    Duration::from_millis(875),
];

/// What is told about a world.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// There is a gate before the dependency.
    pub gate: bool,
    /// Requests that came to nothing since the outage began, also those that the dependency refused
    /// when it was back.
    pub futile: u64,
    /// How many they are at least, depending on when within a second it begins.
    pub futile_least: u64,
    /// And how many at most.
    pub futile_most: u64,
    /// Calls that waited when it ended.
    pub waiting: u64,
    /// Requests in the first minute after it, each second.
    pub offered_per_s: f64,
    /// Those in the worst second.
    pub offered_peak: u64,
    /// How long after its end the first request was served.
    pub found_ms: Option<u64>,
    /// How long it was from then on until nobody waited.
    pub drained_s: Option<f64>,
    /// It came to that.
    pub recovers: bool,
    /// Calls that were given up.
    pub lost: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Failures that used up no attempt.
    pub free: u64,
    /// What happened, second by second.
    #[serde(skip)]
    pub story: Story,
}

/// What is told about worlds with the same outage.
#[derive(Debug, Serialize)]
pub struct Simulated<'a> {
    /// How long it lasts.
    pub seconds_of_outage: f64,
    /// Without a gate, and with one where there is one.
    #[serde(rename = "worlds")]
    pub told: &'a [Told],
}

impl Told {
    /// What happens on average, whenever within a second the outage begins. The story is of one
    /// that begins with a second.
    pub fn over_phases(world: &World) -> Self {
        let all = PHASES.map(|phase| Told::of(&World { phase, ..world.clone() }));
        let mean = |of: fn(&Told) -> u64| mean(all.iter().map(of));
        let seconds = |of: fn(&Told) -> Option<f64>| {
            let all: Option<Vec<f64>> = all.iter().map(of).collect();
            all.map(|all| all.iter().sum::<f64>() / PHASES.len() as f64)
        };
        Told {
            futile: mean(|told| told.futile),
            futile_least: all.iter().map(|told| told.futile).min().unwrap_or_default(),
            futile_most: all.iter().map(|told| told.futile).max().unwrap_or_default(),
            waiting: mean(|told| told.waiting),
            offered_per_s: seconds(|told| Some(told.offered_per_s)).unwrap_or_default(),
            offered_peak: mean(|told| told.offered_peak),
            found_ms: seconds(|told| told.found_ms.map(|found| found as f64))
                .map(|found| found as u64),
            drained_s: seconds(|told| told.drained_s),
            recovers: all.iter().all(|told| told.recovers),
            lost: mean(|told| told.lost),
            succeeded: mean(|told| told.succeeded),
            free: mean(|told| told.free),
            ..Told::of(world)
        }
    }

    /// What happens when the outage begins as the world says.
    pub fn of(world: &World) -> Self {
        let story = world.story();
        let out = world.before.as_secs() as usize;
        let back = (world.before + world.outage).as_secs() as usize;
        let seconds = &story.seconds;
        let during = seconds.get(out..back.min(seconds.len())).unwrap_or_default();
        let after = seconds.get(back..).unwrap_or_default();
        let minute = &after[..after.len().min(60)];
        let offered = |of: &[Second]| of.iter().map(|second| second.offered).sum::<u64>();
        let served = |of: &[Second]| of.iter().map(|second| second.served).sum::<u64>();
        let end = world.before + world.outage;
        let found = story.found.map(|found| found.saturating_sub(end));
        let drained = story.drained.zip(story.found);
        let since = seconds.get(out..).unwrap_or_default();
        let futile = offered(since).saturating_sub(served(since));
        Told {
            gate: world.gate.is_some(),
            futile,
            futile_least: futile,
            futile_most: futile,
            waiting: during.last().map_or(0, |second| second.waiting),
            offered_per_s: offered(minute) as f64 / minute.len().max(1) as f64,
            offered_peak: after.iter().map(|second| second.offered).max().unwrap_or(0),
            found_ms: found.and_then(|found| u64::try_from(found.as_millis()).ok()),
            drained_s: drained.map(|(drained, found)| drained.saturating_sub(found).as_secs_f64()),
            recovers: story.drained.is_some(),
            lost: story.lost,
            succeeded: story.succeeded,
            free: story.free,
            story,
        }
    }
}

fn mean(of: impl Iterator<Item = u64>) -> u64 {
    let sum: u64 = of.sum();
    let count = PHASES.len() as u64;
    (sum + count / 2) / count
}

#[cfg(test)]
mod tests {
    use resurgam_core::gate::{Breaker, Gate};
    use resurgam_core::retry::RetryPolicy;
    use resurgam_watchdog::test;

    use super::*;

    /// Five attempts in a quarter of a minute, as in the drill.
    fn world(gate: Option<Gate>) -> World {
        let policy = RetryPolicy::exponential(Duration::from_secs(1)).max_attempts(5);
        World {
            policy: policy.check().unwrap(),
            gate,
            rate: 200.0,
            calls: None,
            capacity: 300.0,
            refusal: 0.3,
            before: Duration::from_secs(20),
            outage: Duration::from_secs(120),
            slots: 256,
            phase: Duration::ZERO,
        }
    }

    /// A gate judges the last whole second and what followed, so it notices soonest an outage that
    /// begins in the middle of one: after half a second, on average after three quarters.
    #[test]
    fn how_soon_a_gate_notices_depends_on_when_within_a_second_the_outage_begins() {
        let gate = Some(Gate::new().breaker(Breaker::new()));
        // It refuses nothing when it is back.
        let outage = Duration::from_secs(60);
        let world = World { capacity: 1_000.0, outage, ..world(gate) };
        let futile = |phase| {
            let phase = Duration::from_millis(phase);
            Told::of(&World { phase, ..world.clone() }).futile
        };
        let per_second = 200.0;
        let after = |seconds: f64| (seconds * per_second) as u64;
        // What probes come to is the same for all.
        let probes = futile(0) - after(1.0);
        assert!(probes <= 30, "{probes}");
        for (phase, seconds) in [(125, 0.875), (500, 0.5), (875, 0.875)] {
            let early = futile(phase).abs_diff(after(seconds) + probes);
            assert!(early <= 15, "{phase}: {}", futile(phase));
        }
        let told = Told::over_phases(&world);
        assert!(told.futile.abs_diff(after(0.75) + probes) <= 15, "{told:?}");
        assert!(told.futile_least < told.futile && told.futile < told.futile_most);
    }

    #[test]
    fn an_outage_begins_as_far_within_a_second_as_is_asked_for() {
        let millis = Duration::from_millis;
        for (phase, before, begins) in [(250, 20_000, 250), (250, 1_400, 850), (0, 1_000, 0)] {
            let began = begins_at(millis(phase), millis(before));
            assert_eq!(began, millis(begins), "{phase} {before}");
        }
    }

    #[test]
    fn a_gate_loses_no_call_and_asks_in_vain_for_few() {
        let gate = Gate::new().breaker(Breaker::new());
        let [without, with] = [None, Some(gate)].map(|gate| Told::of(&world(gate)));
        assert!(without.lost > 10_000 && without.futile > 50_000, "{without:?}");
        assert_eq!(with.lost, 0);
        assert!(with.futile * 20 < without.futile, "{}", with.futile);
        assert!(with.recovers && with.offered_per_s <= 450.0, "{}", with.offered_per_s);
        // What waited is served beside what goes on coming.
        let shortest = with.waiting as f64 / 100.0;
        assert!(with.drained_s.unwrap() <= 1.5 * shortest, "{:?} {shortest}", with.drained_s);
    }

    #[test]
    fn calls_that_never_give_up_may_keep_a_dependency_down() {
        let policy = RetryPolicy::fixed(Duration::from_secs(1)).unlimited();
        let outage = Duration::from_secs(30);
        let few = World { rate: 20.0, capacity: 30.0, refusal: 0.9, outage, ..world(None) };
        let told = Told::of(&World { policy: policy.check().unwrap(), ..few });
        assert!(!told.recovers && told.offered_peak > 500, "{told:?}");
    }

    #[test]
    fn the_same_world_gives_the_same_story() {
        let gate = || Some(Gate::new().breaker(Breaker::new()));
        let [one, other] = [gate(), gate()].map(|gate| world(gate).story());
        assert_eq!(one.seconds, other.seconds);
    }

    #[test]
    fn a_number_of_calls_ends_by_itself() {
        let world = World { calls: Some(5_000), ..world(None) };
        let story = world.story();
        assert_eq!(story.succeeded + story.lost, 5_000);
    }
}
