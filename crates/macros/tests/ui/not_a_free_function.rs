use resurgam_core::Failure;
use resurgam_macros::{activity, workflow};

struct Shop;

impl Shop {
    #[activity]
    async fn charge(&self, cents: u64) -> Result<u64, Failure> {
        Ok(cents)
    }
}

#[workflow]
struct Order {
    id: String,
}

fn main() {
    let _shop = Shop;
}
