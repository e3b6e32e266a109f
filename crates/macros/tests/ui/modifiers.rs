use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity]
unsafe fn read(address: usize) -> Result<u8, Failure> {
    Ok(address as u8)
}

#[activity]
extern "C" fn call(number: u8) -> Result<u8, Failure> {
    Ok(number)
}

#[activity]
const fn constant(number: u8) -> Result<u8, Failure> {
    Ok(number)
}

fn main() {}
