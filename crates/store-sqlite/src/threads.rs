//! Threads that tell an async caller when they have ended.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use resurgam_store::{Error, Result};
use tokio::sync::oneshot;

/// The threads of one kind.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Vec<Thread>>);

struct Thread {
    ended: oneshot::Receiver<()>,
    handle: JoinHandle<()>,
}

impl Threads {
    /// Starts one.
    pub(crate) fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let (alive, ended) = oneshot::channel();
        let body = move || {
            work();
            // Dropped by a panic as well, which is how its end is always heard of.
            drop::<oneshot::Sender<()>>(alive);
        };
        let handle = thread::Builder::new().name(name.to_string()).spawn(body);
        let handle = handle
            .map_err(|error| Error::transient(format!("start thread {name}")).because(error))?;
        self.list().push(Thread { ended, handle });
        Ok(())
    }

    /// Waits until all of them have ended, without blocking the caller's thread.
    pub(crate) async fn ended(&self) {
        let threads = std::mem::take(&mut *self.list());
        for thread in threads {
            // Nothing is ever sent: the error says that the other side is gone.
            let _ = thread.ended.await;
            // A panic was reported where it happened, and callers were told by their channels.
            let _ = thread.handle.join();
        }
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Thread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
