//! The promises of every store.

use resurgam_watchdog::test;

use crate::support::{Open, open};

async fn fresh() -> Open {
    open().await
}

resurgam_store::conformance_tests!(fresh);
