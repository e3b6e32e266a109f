//! Attempts of activities that are written in Python.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use resurgam::{ActivityContext, ActivityDefinition, Failure, Payload};
use serde_json::value::RawValue;

use crate::port::{News, Port, Shared, lock};

/// A failure that was written by the package.
pub(crate) fn read_failure(text: &str) -> Failure {
    serde_json::from_str(text).unwrap_or_else(|error| {
        Failure::new(format!("a failure that cannot be read ({error}): {text}"))
    })
}

/// An `async def`, which runs on the user's event loop. It is known there by its place in the list
/// of activities.
pub(crate) fn on_loop(name: String, place: usize, port: Arc<Shared>) -> ActivityDefinition {
    ActivityDefinition::new(name, move |ctx: ActivityContext, input: Payload| {
        let port = port.clone();
        Box::pin(async move {
            let (expected, result) = port.expect();
            let id = expected.id;
            let told = port.clone();
            ctx.when_cancelled(move || told.push(News::Cancel { id }));
            let ctx = Attempt::new(ctx);
            let _over = Over(ctx.clone());
            port.push(News::Attempt { id, place, input, ctx });
            let ended = result.await;
            drop(expected);
            ended.unwrap_or_else(|_| Err(Failure::new("the event loop of the attempt has ended")))
        })
    })
}

/// A plain function, which gets a thread, and the interpreter's lock while it runs Python code.
pub(crate) fn on_thread(name: String, call: Py<PyAny>) -> ActivityDefinition {
    let call = Arc::new(call);
    let mut definition = ActivityDefinition::new(name, move |ctx, input: Payload| {
        let call = call.clone();
        Box::pin(async move {
            let ctx = Attempt::new(ctx);
            let _over = Over(ctx.clone());
            let answer = Python::try_attach(|py| {
                let answer = call.call1(py, (input.as_str(), Context(ctx)))?;
                answer.extract::<(bool, String)>(py)
            });
            match answer {
                Some(Ok((true, text))) => Ok(Payload::from_text(text)),
                Some(Ok((false, text))) => Err(read_failure(&text)),
                Some(Err(error)) => Err(Failure::new(error.to_string())),
                None => Err(Failure::new("the interpreter has ended")),
            }
        })
    });
    definition.blocking = true;
    definition
}

/// An attempt, as long as it goes on. Python code may keep what it was given for longer, such as in
/// the traceback of an exception: that must not count as work.
pub(crate) struct Attempt {
    number: u32,
    instance: String,
    activity: String,
    key: String,
    ctx: Mutex<Option<ActivityContext>>,
}

impl Attempt {
    fn new(ctx: ActivityContext) -> Arc<Self> {
        Arc::new(Attempt {
            number: ctx.attempt(),
            instance: ctx.instance().to_string(),
            activity: ctx.activity().to_string(),
            key: ctx.idempotency_key(),
            ctx: Mutex::new(Some(ctx)),
        })
    }

    pub(crate) fn ctx(&self) -> PyResult<ActivityContext> {
        lock(&self.ctx).clone().ok_or_else(|| {
            let (number, activity) = (self.number, &self.activity);
            PyRuntimeError::new_err(format!("attempt {number} of {activity} is over"))
        })
    }
}

/// Ends an attempt when it is dropped.
struct Over(Arc<Attempt>);

impl Drop for Over {
    fn drop(&mut self) {
        drop(lock(&self.0.ctx).take());
    }
}

/// What an attempt knows about itself.
#[pyclass(frozen, name = "Attempt")]
pub(crate) struct Context(pub(crate) Arc<Attempt>);

#[pymethods]
impl Context {
    #[getter]
    fn attempt(&self) -> u32 {
        self.0.number
    }

    #[getter]
    fn instance_id(&self) -> &str {
        &self.0.instance
    }

    #[getter]
    fn activity(&self) -> &str {
        &self.0.activity
    }

    #[getter]
    fn idempotency_key(&self) -> &str {
        &self.0.key
    }

    /// True also when the attempt is over.
    #[getter]
    fn is_cancelled(&self) -> bool {
        self.0.ctx().map_or(true, |ctx| ctx.is_cancelled())
    }

    /// Seconds since 1970 on the engine's clock.
    fn now(&self) -> PyResult<f64> {
        Ok(seconds(self.0.ctx()?.now()))
    }

    fn deadline(&self) -> PyResult<Option<f64>> {
        Ok(self.0.ctx()?.deadline().map(seconds))
    }

    /// The failure of the activity in whose place this one runs, as JSON.
    fn fallback_of(&self) -> PyResult<Option<String>> {
        let ctx = self.0.ctx()?;
        Ok(ctx.fallback_of().and_then(|failure| serde_json::to_string(failure).ok()))
    }

    /// Waits on the engine's clock; the answer comes through the port.
    fn sleep(&self, port: &Port, token: u64, time: f64) -> PyResult<()> {
        let (ctx, port) = (self.0.ctx()?, port.0.clone());
        let time = Duration::try_from_secs_f64(time).unwrap_or_default();
        crate::runtime().spawn(async move {
            ctx.sleep(time).await;
            drop(ctx);
            port.answer(token, Ok(None));
        });
        Ok(())
    }

    /// Says that the attempt is alive. Answers with why it is to end, as JSON.
    fn heartbeat(&self, py: Python<'_>, details: &str) -> PyResult<Option<String>> {
        let (ctx, details) = (self.0.ctx()?, RawValue::from_string(details.to_string()).ok());
        let told = py.detach(|| ctx.heartbeat(&details));
        Ok(told.err().and_then(|failure| serde_json::to_string(&failure).ok()))
    }

    fn last_heartbeat(&self) -> PyResult<Option<String>> {
        let last = self.0.ctx()?.last_heartbeat::<Box<RawValue>>();
        Ok(last.map(|raw| raw.get().to_string()))
    }
}

/// A time as Python's clocks have it.
pub(crate) fn seconds(time: resurgam::Timestamp) -> f64 {
    time.as_millis() as f64 / 1000.0
}
