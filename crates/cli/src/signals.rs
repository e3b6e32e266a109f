//! Ctrl-C and SIGTERM: the wish that this process ends. And SIGXFSZ, which should not end it.

use std::io;

/// Has a write beyond the limit on the size of files fail, in place of ending this process: what is
/// logged goes to a file as a rule. Programs that are started get the signal as they always did.
/// Only inside of a runtime.
#[cfg(unix)]
pub(crate) fn outlive_file_limits() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Listens from the moment it is made, so that no signal is missed.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Ready when somebody wants us to end.
    pub(crate) async fn wait(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    /// Ready when somebody wants us to end.
    pub(crate) async fn wait(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Nobody can be heard, so nobody wants it.
            std::future::pending::<()>().await;
        }
    }
}
