#![allow(unused)]

use resurgam_core::Failure;
use resurgam_macros::activity;

#[activity(gate = "host:{addres.host}")]
async fn misspelled(address: String, body: String) -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = "shop:{shop}")]
async fn unknown(order: u64, cents: u64) -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = "host:{url}")]
async fn without_arguments() -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = "host:{url")]
async fn unpaired(url: String) -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = "host:{.host}")]
async fn nameless(url: String) -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = "")]
async fn empty() -> Result<(), Failure> {
    Ok(())
}

#[activity(gate = 7)]
async fn no_text() -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let (url, body) = (String::new(), String::new());
    let _calls = (misspelled(url.clone(), body), unknown(1, 2), without_arguments());
    let _others = (unpaired(url.clone()), nameless(url), empty(), no_text());
}
