//! Answers to requests: a request carries a number, and its answer is an output with that number.
//! Who waits for a number is the driver's business ([`Replies`]).

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use crate::error::Result;
use crate::handle::{Outcome, Started};

/// Where an answer goes. It is used up by answering, so that nobody is answered twice.
#[derive(Debug)]
pub struct Reply<T>(u64, PhantomData<fn(T)>);

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    to: u64,
    what: Answered,
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answered {
    /// To a start.
    Started(Result<Started>),
    /// To a wait.
    Ended(Result<Outcome>),
    /// To everything else.
    Done(Result<()>),
}

/// Something that requests are answered with.
pub trait Answers: Sized + Send + 'static {
    /// As an answer to any request.
    fn into_answer(answer: Result<Self>) -> Answered;

    /// As the answer to a request that wants this, which it always is.
    fn from_answer(answer: Answered) -> Option<Result<Self>>;
}

macro_rules! answers {
    ($($type:ty => $variant:ident),*) => {$(
        impl Answers for $type {
            fn into_answer(answer: Result<Self>) -> Answered {
                Answered::$variant(answer)
            }

            fn from_answer(answer: Answered) -> Option<Result<Self>> {
                match answer {
                    Answered::$variant(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    )*};
}

answers!(Started => Started, Outcome => Ended, () => Done);

impl<T: Answers> Reply<T> {
    /// The answer to the request.
    pub(crate) fn with(self, answer: Result<T>) -> Answer {
        Answer { to: self.0, what: T::into_answer(answer) }
    }
}

/// Somebody who waits for the answer to a request.
pub struct Waiter {
    number: u64,
    then: Box<dyn FnOnce(Answered) + Send>,
}

impl Waiter {
    /// What happens with the answer that has this number, which nobody else may have.
    pub fn new<T: Answers>(
        number: u64,
        then: impl FnOnce(Result<T>) + Send + 'static,
    ) -> (Reply<T>, Self) {
        let then = move |answer| {
            if let Some(answer) = T::from_answer(answer) {
                then(answer);
            }
        };
        (Reply(number, PhantomData), Waiter { number, then: Box::new(then) })
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({})", self.number)
    }
}

/// Those who wait for answers. When this is dropped, they hear that nobody answers.
#[derive(Debug, Default)]
pub struct Replies(BTreeMap<u64, Waiter>);

impl Replies {
    /// Somebody waits for an answer.
    pub fn expect(&mut self, waiter: Waiter) {
        self.0.insert(waiter.number, waiter);
    }

    /// Hands an answer to whoever waits for it.
    pub fn hand_over(&mut self, answer: Answer) {
        if let Some(waiter) = self.0.remove(&answer.to) {
            (waiter.then)(answer.what);
        }
    }
}
