//! The limit on the size of files (`ulimit -f`), which is a full disk in another form.
//!
//! Whoever writes beyond it gets the signal SIGXFSZ, and a process that does not handle that signal
//! ends without a word. With any handler in place the write fails instead, and SQLite says so. A
//! handler is for this process alone: programs that it starts get the signal as they always did,
//! which they would not if it were ignored.

use std::sync::Once;

/// Has writes beyond the limit fail, from now on and for the whole process.
pub(crate) fn make_an_error() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // On a thread of its own, for it needs a runtime, and nobody may end one inside another.
        let handler = std::thread::Builder::new().name("resurgam-signal".into()).spawn(handle);
        // Without a handler a process still works, for as long as it does not meet the limit.
        let _ = handler.map(std::thread::JoinHandle::join);
    });
}

/// Installs a handler, which stays when the runtime is gone.
#[cfg(unix)]
fn handle() {
    use tokio::signal::unix::{SignalKind, signal};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _runtime = runtime.enter();
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

#[cfg(not(unix))]
fn handle() {}

/// The most bytes that a file may have; none without a limit.
#[cfg(unix)]
pub(crate) fn bytes() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

#[cfg(not(unix))]
pub(crate) fn bytes() -> Option<u64> {
    None
}
