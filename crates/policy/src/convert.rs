//! Writes a policy in the words of another system, and says what those words cannot say.

use resurgam_core::retry::RetryPolicy;
use resurgam_core::retry::dialect::{Dialect, Exported};
use serde::Serialize;
use serde_json::Value;

/// A configuration as it is printed. Our own form keeps the order of its fields, the most
/// important one first; a JSON value would sort them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Config<'a> {
    /// In our own form.
    Canonical(&'a RetryPolicy),
    /// In that of another system.
    Foreign(&'a Value),
}

impl<'a> Config<'a> {
    /// A policy in a dialect.
    pub fn of(policy: &'a RetryPolicy, to: Dialect, exported: &'a Exported) -> Self {
        match to {
            Dialect::Canonical => Config::Canonical(policy),
            _ => Config::Foreign(&exported.config),
        }
    }
}

/// A policy in another dialect, with what is lost.
#[derive(Debug, Serialize)]
pub struct Converted<'a> {
    config: Config<'a>,
    lost: &'a [String],
    notes: &'a [String],
}

impl<'a> Converted<'a> {
    /// A policy as it was exported to a dialect.
    pub fn of(
        policy: &'a RetryPolicy,
        notes: &'a [String],
        to: Dialect,
        exported: &'a Exported,
    ) -> Self {
        Converted { config: Config::of(policy, to, exported), lost: &exported.lost, notes }
    }
}
