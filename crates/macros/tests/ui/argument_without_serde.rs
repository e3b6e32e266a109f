use resurgam_core::Failure;
use resurgam_macros::activity;

struct Order {
    id: String,
}

#[activity]
async fn charge(order: Order) -> Result<String, Failure> {
    Ok(order.id)
}

fn main() {
    let _call = charge(Order { id: String::new() });
}
