//! Answering those who asked for something.

use super::Node;
use super::output::Output;
use super::reply::{Answers, Reply};
use super::steps::effect::Effect;
use super::steps::refusal::Refusal;
use crate::error::Result;

impl Node {
    /// Answers a request.
    pub(crate) fn answer<T: Answers>(&mut self, reply: Reply<T>, answer: Result<T>) {
        self.outputs.push(Output::Answer(reply.with(answer)));
    }

    /// Those who wait for a step hear of its fate.
    pub(crate) fn tell_fate(&mut self, effect: Effect, fate: std::result::Result<(), &Refusal>) {
        self.outputs.extend(effect.answer(fate).map(Output::Answer));
    }
}
