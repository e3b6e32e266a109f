use resurgam::{Activity, Constructor, Registry};
use resurgam_core::Failure;
use resurgam_macros::activity;

fn register<Args, F>(registry: &mut Registry, _name: F)
where
    F: Constructor<Args>,
    F::Built: Activity,
{
    registry.add_activity::<F::Built>().unwrap();
}

#[activity]
async fn charge(order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

async fn plain(order_id: String) -> Result<String, Failure> {
    Ok(order_id)
}

fn main() {
    let mut registry = Registry::default();
    register(&mut registry, charge);
    register(&mut registry, charge("order-42".to_string()));
    register(&mut registry, plain);
}
