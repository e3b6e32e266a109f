use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn draw((x, y): (i32, i32)) -> Result<i32, Failure> {
    Ok(x + y)
}

#[activity]
async fn ignore(_: String) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
