//! A warehouse that delivers to streets.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tracking {
    pub(crate) order: String,
    pub(crate) route: String,
}

#[derive(Debug)]
pub(crate) struct UnknownAddress(String);

/// The way to an address.
pub(crate) fn route(address: &str) -> Result<String, UnknownAddress> {
    match address.ends_with("Street") {
        true => Ok(format!("by van to {address}")),
        false => Err(UnknownAddress(address.to_string())),
    }
}

impl fmt::Display for UnknownAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no way to {:?}", self.0)
    }
}

impl std::error::Error for UnknownAddress {}
