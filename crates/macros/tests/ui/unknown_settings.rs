use resurgam::WorkflowContext;
use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

#[activity(time_out = 1)]
async fn misspelled() -> Result<(), Failure> {
    Ok(())
}

#[activity(colour = "blue")]
async fn unknown() -> Result<(), Failure> {
    Ok(())
}

#[activity(max_attempts = 3)]
async fn of_the_policy() -> Result<(), Failure> {
    Ok(())
}

#[activity(version = 2)]
async fn versioned() -> Result<(), Failure> {
    Ok(())
}

#[workflow(retry = 1)]
async fn retried_by_its_start(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

#[workflow(heartbeat_timeout = 1)]
async fn watched(_ctx: WorkflowContext) -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let _calls = (misspelled(), unknown(), of_the_policy(), versioned(), retried_by_its_start(), watched());
}
