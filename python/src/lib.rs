//! The engine for Python: what the package `resurgam` is built on.
//!
//! Three rules keep the interpreter's lock cheap, and keep it away from the engine's loop:
//!
//! - turns of workflows are taken on one Python thread ([`turns`]), which holds the lock once for
//!   all that have gathered;
//! - attempts of `async def` activities, and answers, go to the user's event loop through a queue
//!   and one byte on a socket pair ([`port`]), written without the lock and drained in one go;
//! - attempts of plain functions take the lock on a thread of their own.
//!
//! Values cross as JSON text; what the text means is decided in Python.

mod act;
mod app;
mod ask;
mod attempt;
mod fork;
mod graph;
mod logging;
mod look;
mod operate;
mod port;
mod run;
mod schedule;
mod settings;
mod tables;
mod turns;

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use tokio::runtime::Runtime;

/// The engine's threads in one process.
struct Threads {
    process: u32,
    runtime: Runtime,
    /// A socket that only this runtime watches: what else is watched with it belongs to the engine.
    marker: tokio::net::UnixStream,
    /// Keeps the other end open.
    _other_end: UnixStream,
}

/// No lock: a process may be forked while a thread of the parent holds one.
static THREADS: AtomicPtr<Threads> = AtomicPtr::new(std::ptr::null_mut());

fn threads() -> Option<&'static Threads> {
    // SAFETY: what was stored there was leaked, so it lives as long as the process.
    unsafe { THREADS.load(Ordering::Acquire).as_ref() }
}

/// The engine's threads. There is one set for all apps of the process, made when the first app
/// opens: importing starts no thread. The child of a fork has none of its parent's threads, so it
/// gets a set of its own.
pub(crate) fn runtime() -> &'static Runtime {
    let process = std::process::id();
    let known = THREADS.load(Ordering::Acquire);
    if let Some(threads) = threads().filter(|threads| threads.process == process) {
        return &threads.runtime;
    }
    let made = Box::leak(Box::new(Threads::start(process).expect("threads for the engine")));
    // Another thread may have been faster; a second set of threads then idles, which harms nobody.
    match THREADS.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => &made.runtime,
        Err(_) => runtime(),
    }
}

impl Threads {
    fn start(process: u32) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("resurgam").enable_all().build()?;
        let (ours, other_end) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let _inside = runtime.enter();
        let marker = tokio::net::UnixStream::from_std(ours)?;
        Ok(Threads { process, runtime, marker, _other_end: other_end })
    }
}

/// The number of the socket that only the engine's threads watch, if they were ever started, here
/// or in the process that this one was forked from.
#[pyfunction]
fn marker() -> Option<c_int> {
    threads().map(|threads| threads.marker.as_raw_fd())
}

/// The engine's threads take the lock of the main interpreter, whoever has loaded the module.
fn refuse_sub_interpreter() -> PyResult<()> {
    // SAFETY: the interpreter that loads the module is the current one, and stays it meanwhile.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match number {
        0 => Ok(()),
        _ => Err(PyImportError::new_err("this is a sub-interpreter")),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_sub_interpreter()?;
    module.add_class::<port::Port>()?;
    module.add_class::<attempt::Context>()?;
    module.add_class::<turns::Turns>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<app::Builder>()?;
    module.add_class::<app::App>()?;
    module.add_class::<tables::Db>()?;
    module.add_function(wrap_pyfunction!(marker, module)?)?;
    module.add_function(wrap_pyfunction!(fork::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(fork::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(logging::log_lines, module)?)?;
    module.add_function(wrap_pyfunction!(graph::check_graph, module)?)?;
    module.add_function(wrap_pyfunction!(graph::start_graph, module)?)?;
    module.add_function(wrap_pyfunction!(graph::node_call, module)?)?;
    module.add_function(wrap_pyfunction!(graph::new_secrets_key, module)?)?;
    module.add_function(wrap_pyfunction!(settings::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(settings::import_policy, module)?)?;
    Ok(())
}
