//! What the engine has for the user's event loop: attempts to make, attempts to cancel, answers.
//!
//! A queue, and one byte on a socket pair that wakes the loop however much there is. Filling it
//! takes no lock of the interpreter.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;
use resurgam::{Failure, Payload};
use tokio::sync::oneshot;

use crate::attempt::{Attempt, Context, read_failure};

/// An answer: text, or the error as JSON.
pub(crate) type Answer = Result<Option<String>, String>;

/// Something for the event loop.
pub(crate) enum News {
    /// An attempt of the activity in this place begins.
    Attempt { id: u64, place: usize, input: Payload, ctx: Arc<Attempt> },
    /// An attempt is to end.
    Cancel { id: u64 },
    /// A question is answered.
    Answer { token: u64, answer: Answer },
}

/// What both sides of a port share.
pub(crate) struct Shared {
    queue: Mutex<Vec<News>>,
    is_told: AtomicBool,
    write: UnixStream,
    read: UnixStream,
    next: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Result<Payload, Failure>>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// One byte wakes the loop, however much there is.
    pub(crate) fn push(&self, news: News) {
        lock(&self.queue).push(news);
        self.wake();
    }

    /// Has the loop look.
    pub(crate) fn wake(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            // A pipe that is full wakes the loop, too.
            let _full = (&self.write).write(&[1]);
        }
    }

    pub(crate) fn answer(&self, token: u64, answer: Answer) {
        self.push(News::Answer { token, answer });
    }

    /// Keeps a place for the outcome of an attempt.
    pub(crate) fn expect(
        self: &Arc<Self>,
    ) -> (Expected, oneshot::Receiver<Result<Payload, Failure>>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, result) = oneshot::channel();
        lock(&self.open).insert(id, send);
        (Expected { port: self.clone(), id }, result)
    }

    fn ends(&self, id: u64, result: Result<Payload, Failure>) {
        if let Some(open) = lock(&self.open).remove(&id) {
            // An attempt that was dropped is not heard any more.
            let _dropped = open.send(result);
        }
    }
}

/// The place that is kept for the outcome of an attempt. Dropping it cancels the attempt.
pub(crate) struct Expected {
    port: Arc<Shared>,
    pub(crate) id: u64,
}

impl Drop for Expected {
    fn drop(&mut self) {
        if lock(&self.port.open).remove(&self.id).is_some() {
            self.port.push(News::Cancel { id: self.id });
        }
    }
}

/// The side of the event loop.
#[pyclass(frozen)]
pub(crate) struct Port(pub(crate) Arc<Shared>);

#[pymethods]
impl Port {
    #[new]
    fn new() -> PyResult<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Port(Arc::new(Shared {
            queue: Mutex::default(),
            is_told: AtomicBool::new(false),
            write,
            read,
            next: AtomicU64::new(1),
            open: Mutex::default(),
        })))
    }

    fn fileno(&self) -> i32 {
        self.0.read.as_raw_fd()
    }

    /// Everything there is: `(0, id, place, input, ctx)`, `(1, id)`, `(2, token, ok, text)`.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut bytes = [0; 64];
        while matches!((&self.0.read).read(&mut bytes), Ok(64)) {}
        self.0.is_told.store(false, Ordering::Release);
        let news = std::mem::take(&mut *lock(&self.0.queue));
        let list = PyList::empty(py);
        for news in news {
            let item = match news {
                News::Attempt { id, place, input, ctx } => {
                    (0, id, place, input.as_str(), Context(ctx)).into_bound_py_any(py)?
                }
                News::Cancel { id } => (1, id).into_bound_py_any(py)?,
                News::Answer { token, answer: Ok(text) } => {
                    (2, token, true, text).into_bound_py_any(py)?
                }
                News::Answer { token, answer: Err(text) } => {
                    (2, token, false, text).into_bound_py_any(py)?
                }
            };
            list.append(item)?;
        }
        Ok(list)
    }

    /// An attempt has returned this.
    fn complete(&self, id: u64, result: &str) {
        self.0.ends(id, Ok(Payload::from_text(result)));
    }

    /// An attempt has failed with this, a failure as JSON.
    fn fail(&self, id: u64, failure: &str) {
        self.0.ends(id, Err(read_failure(failure)));
    }
}
