use resurgam::Typed;
use resurgam_core::Failure;
use resurgam_macros::{FailureType, activity};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, FailureType)]
struct NoError;

#[derive(Debug, FailureType)]
struct NoSerde;

impl std::fmt::Display for NoSerde {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no")
    }
}

impl std::error::Error for NoSerde {}

#[derive(Debug)]
struct NoType;

impl std::fmt::Display for NoType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no")
    }
}

impl std::error::Error for NoType {}

#[activity]
async fn charge() -> Result<(), Failure> {
    Err(NoType).typed()
}

fn main() {
    let _call = charge();
    let _error: Option<NoType> = Failure::new("no").as_error();
}
