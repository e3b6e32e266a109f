use std::borrow::Cow;

use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
async fn text(name: &str) -> Result<usize, Failure> {
    Ok(name.len())
}

#[activity]
async fn list(names: Option<&[String]>, best: &u8, other: Cow<'_, str>) -> Result<(), Failure> {
    println!("{names:?} {best} {other}");
    Ok(())
}

#[activity]
async fn result() -> Result<&'static str, Failure> {
    Ok("done")
}

fn main() {}
