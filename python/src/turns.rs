//! The Python thread that takes turns.
//!
//! Everything that runs code of workflows happens here: first turns, replays, compensations that
//! are worked out, and closing coroutines of runs that leave memory. One thread, so that workflows
//! need no locks; a Python thread, so that debuggers and profilers know it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use resurgam::{PendingTurn, TurnThread};

/// A history that takes longer than this to go through lets others take turns meanwhile.
const SLICE: Duration = Duration::from_millis(5);

/// What the thread has to do.
enum Item {
    Turn(PendingTurn),
    /// The driver of a run that left memory.
    Close(Py<PyAny>),
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    ended: bool,
    /// Since when the turn is being taken.
    busy: Option<Instant>,
}

/// Turns that wait for the thread.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the Python thread for turns")
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: Item) {
        let mut state = self.lock();
        if !state.ended {
            state.items.push_back(item);
            self.changed.notify_one();
        }
    }

    /// Has the coroutines of a run closed.
    pub(crate) fn close(&self, driver: Py<PyAny>) {
        self.push(Item::Close(driver));
    }

    /// Everything that there is to do, once there is something; none when it is over.
    fn wait(&self) -> Option<VecDeque<Item>> {
        let mut state = self.lock();
        state.busy = None;
        loop {
            if !state.items.is_empty() {
                return Some(std::mem::take(&mut state.items));
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl TurnThread for Queue {
    fn take(&self, turn: PendingTurn) {
        self.push(Item::Turn(turn));
    }
}

/// The turns of one app.
#[pyclass(frozen)]
pub(crate) struct Turns(pub(crate) Arc<Queue>);

#[pymethods]
impl Turns {
    #[new]
    fn new() -> Self {
        Turns(Arc::default())
    }

    /// Takes turns until `end` is called; this is what the thread does.
    fn run(&self, py: Python<'_>) {
        while let Some(items) = py.detach(|| self.0.wait()) {
            for item in items {
                let begun = Instant::now();
                self.0.lock().busy = Some(begun);
                match item {
                    Item::Turn(turn) => {
                        if let Some(rest) = turn.take_while(|| begun.elapsed() < SLICE) {
                            self.0.push(Item::Turn(rest));
                        }
                    }
                    Item::Close(driver) => {
                        if let Err(error) = driver.call_method0(py, "close") {
                            error.write_unraisable(py, Some(driver.bind(py)));
                        }
                    }
                }
            }
        }
    }

    /// Lets the thread end when it has done what there is.
    fn end(&self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }

    /// For how many seconds the turn has been going on that is being taken.
    fn busy_for(&self) -> f64 {
        self.0.lock().busy.map_or(0.0, |since| since.elapsed().as_secs_f64())
    }
}
