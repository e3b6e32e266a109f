use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn print(what: impl ToString) -> Result<String, Failure> {
    Ok(what.to_string())
}

#[activity]
async fn numbers() -> Result<impl Iterator<Item = u8>, Failure> {
    Ok(0..3)
}

fn main() {}
