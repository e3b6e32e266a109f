//! Steps with what is to happen when they are durable, and what can become of them.

use resurgam_store::Step;

use super::effect::Effect;
use crate::options::Options;

/// How much one transaction may write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most rows.
    rows: usize,
    /// The most bytes.
    bytes: usize,
}

impl Limits {
    /// What an engine was told.
    pub(crate) fn of(options: &Options) -> Self {
        Limits { rows: options.max_batch_rows, bytes: options.max_batch_bytes }
    }

    /// True when a step of this size can take further news. It stays far below what one transaction
    /// may write, so that all inputs are in the first part when the last turn is wide.
    pub(crate) fn leave_room(self, rows: usize, bytes: usize) -> bool {
        rows < self.rows / 5 && bytes < self.bytes / 4
    }

    /// True when so much fits one transaction.
    pub(super) fn admit(self, rows: usize, bytes: usize) -> bool {
        rows <= self.rows && bytes <= self.bytes
    }
}

/// A step with its effects.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Where it goes.
    pub(super) lane: usize,
    /// Usually one; a wide turn comes in several parts, written one after another. Empty while
    /// they are with the store.
    pub(super) parts: Vec<Step>,
    pub(super) effects: Vec<Effect>,
    /// The policies in it.
    pub(super) policies: Vec<String>,
}

impl Pending {
    /// What is to happen when it is durable.
    pub(crate) fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// What is to happen, when its fate is known.
    pub(crate) fn into_effects(self) -> Vec<Effect> {
        self.effects
    }

    /// Has something else happen when it is durable.
    pub(crate) fn then(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// What goes to the store when it is not wide.
    pub(super) fn take_only_part(&mut self) -> Step {
        self.parts.pop().expect("a step that is not wide has one part")
    }

    /// What is written, while that is not with the store.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.parts
    }
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Fate {
    Written,
    /// Its id is taken.
    Duplicate,
    /// Its instance is not open.
    Closed,
    /// What it changes has changed meanwhile.
    Missed,
    /// Too many signals wait for its instance.
    Full,
    /// The store does not take it; the text says why.
    Refused(String),
    /// The store is in trouble that may pass, and whoever asked is told so.
    Trouble(String),
    /// Another node is the owner by now.
    Fenced,
}
