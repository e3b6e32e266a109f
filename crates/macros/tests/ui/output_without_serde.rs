use resurgam_core::Failure;
use resurgam_macros::activity;

struct Receipt;

#[activity]
async fn charge(cents: u64) -> Result<Receipt, Failure> {
    println!("{cents}");
    Ok(Receipt)
}

fn main() {
    let _call = charge(1);
}
