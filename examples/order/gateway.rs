//! A payment gateway that is often down.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use resurgam::Failure;
use serde::{Deserialize, Serialize};

/// The first attempts of every charge that it does not answer.
const SILENT: u32 = 2;

/// The card that it declines.
pub(crate) const DECLINED: &str = "4000-0002";

/// Shared by all attempts, see `ctx.state::<Gateway>()`.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// How often it was asked, by idempotency key.
    asked: Mutex<HashMap<String, u32>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) cents: u64,
}

/// An error's type is the name that policies know it by: `never_for(&["CardDeclined"])`.
#[derive(Debug)]
pub(crate) struct CardDeclined;

#[derive(Debug)]
pub(crate) struct Unreachable;

#[derive(Debug)]
pub(crate) struct BadCardNumber(String);

impl Gateway {
    pub(crate) fn new() -> Self {
        Gateway { asked: Mutex::default() }
    }

    /// Takes the money, once for each key.
    pub(crate) async fn charge(
        &self,
        key: &str,
        card: &str,
        cents: u64,
    ) -> Result<Receipt, Failure> {
        if self.ask(key) <= SILENT {
            Err(Unreachable)?;
        }
        if card == DECLINED {
            Err(CardDeclined)?;
        }
        Ok(Receipt { cents })
    }

    fn ask(&self, key: &str) -> u32 {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(key.to_string()).or_default();
        *times += 1;
        *times
    }
}

/// Whether a number can be that of a card.
pub(crate) fn check(card: &str) -> Result<(), BadCardNumber> {
    match card.chars().all(|c| c.is_ascii_digit() || c == '-') {
        true => Ok(()),
        false => Err(BadCardNumber(card.to_string())),
    }
}

impl fmt::Display for CardDeclined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bank declined the card")
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the gateway does not answer")
    }
}

impl fmt::Display for BadCardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the number of a card", self.0)
    }
}

impl std::error::Error for CardDeclined {}
impl std::error::Error for Unreachable {}
impl std::error::Error for BadCardNumber {}
