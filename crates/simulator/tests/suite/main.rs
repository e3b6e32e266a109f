//! The simulator's tests: a hundred seeds under every fault, and the same trace from the same
//! seed. `RESURGAM_SEED` chooses the first seed.

use resurgam_simulator::{Counts, Fault, Plan, Wishes, last_events, simulate, simulate_traced};
use resurgam_watchdog::test;

/// How many seeds each half of the test tries.
const SEEDS: u64 = 55;

fn first_seed() -> u64 {
    match std::env::var("RESURGAM_SEED") {
        Ok(seed) => seed.parse().expect("RESURGAM_SEED is a number"),
        Err(_) => 1,
    }
}

/// Simulates seeds, and fails with what a person needs to find out why.
fn try_seeds(first: u64) -> Counts {
    let mut counts = Counts::default();
    for seed in first..first + SEEDS {
        let plan = Plan::new(seed, &Wishes::default());
        let report = simulate(&plan);
        if let Some(violation) = &report.violation {
            panic!("RESURGAM_SEED={seed}: {report}\n{}", last_events(&plan, violation));
        }
        counts.add_all(&report.counts);
    }
    counts
}

fn no_promise_is_broken(first: u64) {
    println!("seeds {first} to {}", first + SEEDS - 1);
    let counts = try_seeds(first);
    println!("{counts}");
    for fault in Fault::ALL {
        assert!(counts.of(fault) >= 50, "{fault} came {} times only", counts.of(fault));
    }
}

// Two halves, for two cores.

#[test(minutes = 15)]
fn no_promise_is_broken_under_any_fault_in_the_first_half_of_the_seeds() {
    no_promise_is_broken(first_seed());
}

#[test(minutes = 15)]
fn no_promise_is_broken_under_any_fault_in_the_second_half_of_the_seeds() {
    no_promise_is_broken(first_seed() + SEEDS);
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in first_seed()..first_seed() + 3 {
        let plan = Plan::new(seed, &Wishes::default());
        let (report, trace) = simulate_traced(&plan);
        assert!(report.inputs > 100 && trace.lines().count() > 100, "{report}");
        assert!(trace == simulate_traced(&plan).1, "seed {seed} gave another trace");
    }
}
