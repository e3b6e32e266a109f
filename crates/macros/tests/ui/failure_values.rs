use std::fmt;

use resurgam_macros::FailureType;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, FailureType)]
#[failure(code = satus, retry_after = wait)]
struct Busy {
    status: u16,
    wait: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl std::error::Error for Busy {}

fn main() {}
