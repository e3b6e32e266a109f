//! Policies in the words of other systems.
//!
//! Foreign words are translated here, in one module per dialect, and nowhere else. Importing says
//! exactly what the dialect says: it adds no jitter and no limit. Exporting says what it can and
//! lists what it cannot. Where a system's documents contradict themselves, the module names the
//! reading it follows, and a test says so.

mod cadence;
mod duroxide;
mod edda;
mod error;
mod exosphere;
mod rappel;

use std::fmt;

use serde_json::Value;

use super::policy::*;
use crate::config::{At, Problems};
use crate::duration::Text;
pub use error::read_failure;
pub use rappel::{
    BadBracket, Bracket, CatchAll, Fallback, Growth, Wait, WhenExhausted, bracket_policy,
    is_bounded, parse_bracket, parse_brackets,
};

/// A way of writing a retry policy.
///
/// ```
/// use resurgam_core::retry::dialect::Dialect;
/// use serde_json::json;
///
/// let imported = Dialect::Exosphere.import(&json!({"max_retries": 3}))?;
/// assert_eq!(imported.policy.max_attempts.to_string(), "4");
///
/// let exported = Dialect::RappelIr.export(&imported.policy);
/// assert_eq!(exported.config, json!({"brackets": "[retry: 3, backoff: 2s]"}));
/// assert!(exported.lost.is_empty());
/// # Ok::<(), resurgam_core::config::Problems>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Our own form.
    Canonical,
    /// Edda's `RetryPolicy(...)`: seconds as floats.
    Edda,
    /// Duroxide's `RetryPolicy { .. }`: milliseconds.
    Duroxide,
    /// The brackets of Rappel's text IR.
    RappelIr,
    /// The `RetryPolicy(...)` of Rappel's Python API: seconds.
    RappelPy,
    /// Cadence's `RetryPolicy{..}`: seconds.
    Cadence,
    /// The `retry_policy` of an Exosphere graph: milliseconds.
    Exosphere,
}

/// A policy read from a dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The policy.
    pub policy: RetryPolicy,
    /// What was accepted and has no effect, as sentences.
    pub notes: Vec<String>,
}

/// A policy written in a dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The configuration, in the form that [`Dialect::import`] reads.
    pub config: Value,
    /// What the dialect cannot say, as sentences.
    pub lost: Vec<String>,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 7] = [
        Dialect::Canonical,
        Dialect::Edda,
        Dialect::Duroxide,
        Dialect::RappelIr,
        Dialect::RappelPy,
        Dialect::Cadence,
        Dialect::Exosphere,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Canonical => "canonical",
            Dialect::Edda => "edda",
            Dialect::Duroxide => "duroxide",
            Dialect::RappelIr => "rappel_ir",
            Dialect::RappelPy => "rappel_py",
            Dialect::Cadence => "cadence",
            Dialect::Exosphere => "exosphere",
        }
    }

    /// The dialect of this name.
    pub fn named(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Reads a configuration. The policy that comes out is valid.
    pub fn import(self, config: &Value) -> Result<Imported, Problems> {
        let at = At::root(config);
        let mut notes = Vec::new();
        let policy = match self {
            Dialect::Canonical => RetryPolicy::read(&at)?,
            Dialect::Edda => edda::import(&at)?,
            Dialect::Duroxide => duroxide::import(&at)?,
            Dialect::RappelIr => rappel::import_ir(&at)?,
            Dialect::RappelPy => rappel::import_py(&at)?,
            Dialect::Cadence => cadence::import(&at)?,
            Dialect::Exosphere => exosphere::import(&at, &mut notes)?,
        };
        let policy = policy.check()?.into_inner();
        Ok(Imported { policy, notes })
    }

    /// Writes a policy as far as the dialect can say it.
    pub fn export(self, policy: &RetryPolicy) -> Exported {
        let mut lost = Losses::default();
        let config = match self {
            Dialect::Canonical => serde_json::to_value(policy).unwrap_or(Value::Null),
            Dialect::Edda => edda::export(policy, &mut lost),
            Dialect::Duroxide => duroxide::export(policy, &mut lost),
            Dialect::RappelIr => rappel::export_ir(policy, &mut lost),
            Dialect::RappelPy => rappel::export_py(policy, &mut lost),
            Dialect::Cadence => cadence::export(policy, &mut lost),
            Dialect::Exosphere => exosphere::export(policy, &mut lost),
        };
        Exported { config, lost: lost.0 }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an export could not say.
#[derive(Debug, Default)]
struct Losses(Vec<String>);

impl Losses {
    fn add(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    fn add_if(&mut self, lost: bool, what: impl Into<String>) {
        if lost {
            self.add(what);
        }
    }

    /// Fields that no foreign dialect has.
    fn ours_only(&mut self, policy: &RetryPolicy) {
        let default = RetryPolicy::DEFAULT;
        self.add_if(policy.lost_worker != default.lost_worker, "lost_worker");
        self.add_if(policy.server_delay != default.server_delay, "server_delay");
        self.add_if(policy.idempotency != default.idempotency, "idempotency");
        self.add_if(policy.on_exhausted != default.on_exhausted, "on_exhausted");
        let total = policy.timeouts.total.map(|total| format!("timeouts.total ({})", Text(total)));
        total.into_iter().for_each(|total| self.add(total));
        let heartbeat = policy.timeouts.heartbeat;
        let heartbeat = heartbeat.map(|every| format!("timeouts.heartbeat ({})", Text(every)));
        heartbeat.into_iter().for_each(|heartbeat| self.add(heartbeat));
    }

    fn jitter(&mut self, policy: &RetryPolicy) {
        self.add_if(policy.jitter != Jitter::None, "jitter: the dialect has none");
    }

    fn max_elapsed(&mut self, policy: &RetryPolicy) {
        let max = policy.max_elapsed.map(|max| format!("max_elapsed ({})", Text(max)));
        max.into_iter().for_each(|max| self.add(max));
    }

    fn attempt_timeout(&mut self, policy: &RetryPolicy) {
        let timeout =
            policy.timeouts.attempt.map(|max| format!("timeouts.attempt ({})", Text(max)));
        timeout.into_iter().for_each(|timeout| self.add(timeout));
    }

    fn queue_timeout(&mut self, policy: &RetryPolicy) {
        let timeout = policy.timeouts.queue.map(|max| format!("timeouts.queue ({})", Text(max)));
        timeout.into_iter().for_each(|timeout| self.add(timeout));
    }

    /// Rules, and what stands for them, in a dialect that cannot tell failures apart.
    fn rules(&mut self, policy: &RetryPolicy) {
        self.add_if(!policy.never_for.is_empty(), "never_for: the dialect knows no types");
        for index in 0..policy.rules.len() {
            self.add(format!("rules[{index}]: the dialect knows no such rule"));
        }
        let otherwise = policy.otherwise != Verdict::Retry;
        self.add_if(otherwise, "otherwise: the dialect retries everything");
    }
}
