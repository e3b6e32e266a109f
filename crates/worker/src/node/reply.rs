//! Where an answer goes.

use std::fmt;

use crate::error::Result;

/// Where an answer goes.
pub struct Reply<T>(Box<dyn FnOnce(Result<T>) + Send>);

impl<T> Reply<T> {
    /// An answer that makes something happen.
    pub fn call(answer: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Reply(Box::new(answer))
    }

    pub fn send(self, answer: Result<T>) {
        (self.0)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
