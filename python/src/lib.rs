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
mod logging;
mod look;
mod port;
mod run;
mod schedule;
mod settings;
mod turns;

use std::sync::OnceLock;

use pyo3::prelude::*;
use tokio::runtime::Runtime;

/// The engine's threads. There is one set for all apps of the process, made when the first app
/// opens: importing starts no thread.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("resurgam").enable_all();
        builder.build().expect("threads for the engine")
    })
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<port::Port>()?;
    module.add_class::<attempt::Context>()?;
    module.add_class::<turns::Turns>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<app::Builder>()?;
    module.add_class::<app::App>()?;
    module.add_function(wrap_pyfunction!(logging::log_lines, module)?)?;
    module.add_function(wrap_pyfunction!(settings::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(settings::import_policy, module)?)?;
    Ok(())
}
