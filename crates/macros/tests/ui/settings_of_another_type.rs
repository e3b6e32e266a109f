use std::time::Duration;

use resurgam_core::Failure;
use resurgam_macros::activity;

const WAIT: Duration = Duration::from_secs(10);

#[activity(retry = WAIT)]
async fn retried() -> Result<(), Failure> {
    Ok(())
}

#[activity(timeout = WAIT.as_secs(), queue = 7, max_concurrent = "4")]
async fn bounded() -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let _calls = (retried(), bounded());
}
