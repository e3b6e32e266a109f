//! Signals of a run: kept in order of arrival, also before anybody waits.
//!
//! | state of a waiter | what happens              | next                                  |
//! |-------------------|---------------------------|---------------------------------------|
//! | Waiting           | a signal of its name      | Given (the first waiter in line gets it) |
//! | Waiting           | the run is cancelled      | Given                                 |
//! | Given             | its future takes it       | forgotten                             |
//! | Given             | its future is dropped     | forgotten, the signal is next in line again |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Poll, Waker};

use crate::{Failure, Payload};

/// A place in the line for signals of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    name: String,
    place: u64,
}

#[derive(Debug, Default)]
pub(super) struct Signals {
    by_name: BTreeMap<String, Line>,
    next_place: u64,
    cancelled: Option<Failure>,
    /// The ids of signals that came with one.
    known: BTreeSet<String>,
}

/// The signals of one name that nobody was given, and those who wait. One of both is empty.
#[derive(Debug, Default)]
struct Line {
    unread: VecDeque<Payload>,
    waiters: BTreeMap<u64, State>,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Given(Result<Payload, Failure>),
}

impl Signals {
    pub(super) fn wait(&mut self, name: &str) -> Waiter {
        let place = self.next_place;
        self.next_place += 1;
        let line = self.by_name.entry(name.to_string()).or_default();
        let state = match (line.unread.pop_front(), &self.cancelled) {
            (Some(value), _) => State::Given(Ok(value)),
            (None, Some(failure)) => State::Given(Err(failure.clone())),
            (None, None) => State::Waiting(None),
        };
        line.waiters.insert(place, state);
        Waiter { name: name.to_string(), place }
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    pub(super) fn receive(&mut self, name: &str, value: Payload, id: Option<&str>) {
        self.known.extend(id.map(str::to_string));
        let line = self.by_name.entry(name.to_string()).or_default();
        line.give(value, VecDeque::push_back);
    }

    pub(super) fn poll(
        &mut self,
        waiter: &Waiter,
        waker: &Waker,
    ) -> Poll<Result<Payload, Failure>> {
        let Some(line) = self.by_name.get_mut(&waiter.name) else { return Poll::Pending };
        match line.waiters.remove(&waiter.place) {
            Some(State::Given(outcome)) => Poll::Ready(outcome),
            Some(State::Waiting(_)) => {
                line.waiters.insert(waiter.place, State::Waiting(Some(waker.clone())));
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }

    pub(super) fn forget(&mut self, waiter: &Waiter) {
        let Some(line) = self.by_name.get_mut(&waiter.name) else { return };
        if let Some(State::Given(Ok(value))) = line.waiters.remove(&waiter.place) {
            line.give(value, VecDeque::push_front);
        }
    }

    pub(super) fn cancel(&mut self, failure: &Failure) {
        self.cancelled = Some(failure.clone());
        for state in self.by_name.values_mut().flat_map(|line| line.waiters.values_mut()) {
            if let State::Waiting(waker) = state {
                let waker = waker.take();
                *state = State::Given(Err(failure.clone()));
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }

    pub(super) fn has_waiters(&self) -> bool {
        let waiting = |state: &State| matches!(state, State::Waiting(_));
        self.by_name.values().any(|line| line.waiters.values().any(waiting))
    }

    pub(super) fn unread(&self) -> usize {
        self.by_name.values().map(|line| line.unread.len()).sum()
    }
}

impl Line {
    /// Gives a signal to the first who waits, or keeps it.
    fn give(&mut self, value: Payload, keep: impl FnOnce(&mut VecDeque<Payload>, Payload)) {
        let first = self.waiters.values_mut().find(|state| matches!(state, State::Waiting(_)));
        match first {
            Some(state) => {
                let State::Waiting(waker) = std::mem::replace(state, State::Given(Ok(value)))
                else {
                    return;
                };
                waker.into_iter().for_each(Waker::wake);
            }
            None => keep(&mut self.unread, value),
        }
    }
}
