#![deny(unused_must_use)]

use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn charge(cents: u64) -> Result<u64, Failure> {
    Ok(cents)
}

fn main() {
    charge(1);
}
