// Each lint as on the plain function, and once.
#![deny(warnings)]

use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn chargeCard(Bad: u64, idle: String) -> Result<u64, Failure> {
    let twice = Bad * 2;
    Ok(Bad)
}

fn main() {
    let _call = chargeCard(1, String::new());
}
