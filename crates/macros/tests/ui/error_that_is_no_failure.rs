use resurgam_macros::activity;

struct Declined;

#[activity]
async fn charge(cents: u64) -> Result<u64, Declined> {
    if cents > 100 { Err(Declined) } else { Ok(cents) }
}

#[activity]
async fn refund(cents: u64) -> Result<u64, String> {
    Ok(cents)
}

fn main() {
    let _calls = (charge(1), refund(1));
}
