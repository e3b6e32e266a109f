//! Signals of a run: kept in order of arrival, also before anybody waits.
//!
//! | state of a waiter | what happens              | next                                  |
//! |-------------------|---------------------------|---------------------------------------|
//! | Waiting           | a signal of its name      | Given (the first waiter in line gets it) |
//! | Waiting           | the run is cancelled      | Given, unless it is shielded          |
//! | Given             | its future takes it       | forgotten                             |
//! | Given             | its future is dropped     | forgotten, the signal is next in line again |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Poll, Waker};

use crate::event::{Carried, UnreadSignal};
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
    arrivals: u64,
    cancelled: Option<Failure>,
    /// The ids of signals that came with one, and the order they came in.
    known: BTreeSet<String>,
    order: VecDeque<String>,
}

/// The signals of one name that nobody was given, and those who wait. One of both is empty.
#[derive(Debug, Default)]
struct Line {
    unread: VecDeque<Signal>,
    waiters: BTreeMap<u64, State>,
}

/// A signal with its place in the order of arrival.
#[derive(Clone, Debug)]
struct Signal {
    arrival: u64,
    value: Payload,
    id: Option<String>,
}

#[derive(Debug)]
enum State {
    Waiting { waker: Option<Waker>, shielded: bool },
    Given(Result<Signal, Failure>),
}

impl Signals {
    pub(super) fn wait(&mut self, name: &str, shielded: bool) -> Waiter {
        let place = self.next_place;
        self.next_place += 1;
        let line = self.by_name.entry(name.to_string()).or_default();
        let state = match &self.cancelled {
            Some(failure) if !shielded => State::Given(Err(failure.clone())),
            _ => match line.unread.pop_front() {
                Some(signal) => State::Given(Ok(signal)),
                None => State::Waiting { waker: None, shielded },
            },
        };
        line.waiters.insert(place, state);
        Waiter { name: name.to_string(), place }
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    pub(super) fn receive(&mut self, name: &str, value: Payload, id: Option<String>) {
        self.remember(id.as_slice());
        let signal = Signal { arrival: self.arrivals, value, id };
        self.arrivals += 1;
        let line = self.by_name.entry(name.to_string()).or_default();
        line.give(signal);
    }

    /// Remembers ids, so that signals that come again are not taken again.
    pub(super) fn remember(&mut self, ids: &[String]) {
        for id in ids {
            if self.known.insert(id.clone()) {
                self.order.push_back(id.clone());
            }
        }
    }

    /// The newest ids, which are handed to the next run, without those of unread signals: they come
    /// again with the signals.
    pub(super) fn known(&self) -> Vec<String> {
        let unread: BTreeSet<&String> =
            self.by_name.values().flat_map(Line::signals).filter_map(|it| it.id.as_ref()).collect();
        let read: Vec<&String> = self.order.iter().filter(|id| !unread.contains(id)).collect();
        let newest = read.len().saturating_sub(Carried::SIGNAL_IDS);
        read[newest..].iter().map(|id| (*id).clone()).collect()
    }

    pub(super) fn poll(
        &mut self,
        waiter: &Waiter,
        waker: &Waker,
    ) -> Poll<Result<Payload, Failure>> {
        let Some(line) = self.by_name.get_mut(&waiter.name) else { return Poll::Pending };
        match line.waiters.remove(&waiter.place) {
            Some(State::Given(outcome)) => Poll::Ready(outcome.map(|signal| signal.value)),
            Some(State::Waiting { shielded, .. }) => {
                let state = State::Waiting { waker: Some(waker.clone()), shielded };
                line.waiters.insert(waiter.place, state);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }

    pub(super) fn forget(&mut self, waiter: &Waiter) {
        let Some(line) = self.by_name.get_mut(&waiter.name) else { return };
        if let Some(State::Given(Ok(signal))) = line.waiters.remove(&waiter.place) {
            line.give(signal);
        }
    }

    pub(super) fn cancel(&mut self, failure: &Failure) {
        self.cancelled = Some(failure.clone());
        for state in self.by_name.values_mut().flat_map(|line| line.waiters.values_mut()) {
            if let State::Waiting { waker, shielded: false } = state {
                let waker = waker.take();
                *state = State::Given(Err(failure.clone()));
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// The names that somebody waits for.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &str> {
        let wanted = self.by_name.iter().filter(|(_, line)| line.has_waiters());
        wanted.map(|(name, _)| name.as_str())
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(Line::has_waiters)
    }

    /// Every signal that nobody has read, in order of arrival.
    pub(super) fn unread(&self) -> Vec<UnreadSignal> {
        let mut unread = BTreeMap::new();
        for (name, line) in &self.by_name {
            for Signal { arrival, value, id } in line.signals().cloned() {
                unread.insert(arrival, UnreadSignal { name: name.clone(), value, id });
            }
        }
        unread.into_values().collect()
    }
}

impl Line {
    fn has_waiters(&self) -> bool {
        self.waiters.values().any(|state| matches!(state, State::Waiting { .. }))
    }

    /// The signals that nobody has read, also those that are given and not taken.
    fn signals(&self) -> impl Iterator<Item = &Signal> {
        let given = self.waiters.values().filter_map(|state| match state {
            State::Given(Ok(signal)) => Some(signal),
            _ => None,
        });
        given.chain(&self.unread)
    }

    /// Gives a signal to the first who waits, or keeps it in its place.
    fn give(&mut self, signal: Signal) {
        let first = self.waiters.values_mut().find(|state| matches!(state, State::Waiting { .. }));
        match first {
            Some(state) => {
                let given = State::Given(Ok(signal));
                let State::Waiting { waker, .. } = std::mem::replace(state, given) else { return };
                waker.into_iter().for_each(Waker::wake);
            }
            None => {
                let place = self.unread.partition_point(|other| other.arrival < signal.arrival);
                self.unread.insert(place, signal);
            }
        }
    }
}
