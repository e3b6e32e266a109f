//! Random batches, each refused once before it is written.

use resurgam_store::conformance::differential;
use resurgam_watchdog::test;

#[test]
fn a_refused_batch_leaves_the_model_exactly_as_it_was() {
    for seed in differential::seeds(20) {
        differential::refused_batches_leave_no_trace(seed, 60);
    }
}
