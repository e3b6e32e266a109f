use resurgam_macros::activity;

#[activity]
async fn charge(cents: u64) -> u64 {
    cents
}

#[activity]
async fn refund(cents: u64) {
    println!("{cents}");
}

#[activity]
async fn list(count: usize) -> Vec<usize> {
    vec![count]
}

#[activity]
fn later(cents: u64) -> impl Future<Output = u64> {
    async move { cents }
}

struct Receipt;

#[activity]
async fn bill(cents: u64) -> Receipt {
    println!("{cents}");
    Receipt
}

fn main() {}
