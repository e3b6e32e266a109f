//! A workflow that is a Python coroutine, driven by the turns of the engine.
//!
//! The package makes an event loop for each run ([`Code::driver`]); a turn hands it what has
//! happened and lets it run until nothing is ready. What the coroutine waits for is known here by a
//! key ([`Op`]), and all waits are shielded from the run's cancellation: a run that is cancelled is
//! told once, in its main task, as asyncio does it.

use std::collections::HashMap;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;
use resurgam::{Failure, Payload, WorkflowDefinition};
use resurgam_core::Seq;
use resurgam_core::command::{ActivityCall, ChildCall};
use resurgam_core::event::ParentClose;
use resurgam_core::gate::KeyTemplate;
use resurgam_core::machine::{Ask, CONTINUE_AS_NEW, SharedMachine, Undo, Waiter};
use resurgam_core::turn::{NotDurable, WorkflowFuture};
use serde_json::Value;

use crate::attempt::{read_failure, seconds};
use crate::port::lock;
use crate::settings::{Given, mistake};
use crate::turns::Queue;

/// Something durable that the code waits for.
#[derive(Clone)]
enum Op {
    Call(Seq),
    Timer(Seq),
    Child(Seq),
    Signal(Waiter),
}

/// What a wait came to.
type Outcome = (u64, Result<Option<Payload>, Failure>);

#[derive(Default)]
struct Waits {
    next: u64,
    ops: HashMap<u64, (Op, Waker)>,
    /// Those that were woken, in order.
    woken: Vec<u64>,
    turn: Option<Waker>,
}

struct Wakes {
    key: u64,
    waits: Arc<Mutex<Waits>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let turn = {
            let mut waits = lock(&self.waits);
            waits.woken.push(self.key);
            waits.turn.clone()
        };
        turn.into_iter().for_each(Waker::wake);
    }
}

/// What a run asks the engine for.
#[pyclass(frozen)]
pub(crate) struct Run {
    machine: SharedMachine,
    waits: Arc<Mutex<Waits>>,
}

impl Run {
    fn open(&self, op: Op) -> u64 {
        let mut waits = lock(&self.waits);
        let key = waits.next;
        waits.next += 1;
        let waker = Waker::from(Arc::new(Wakes { key, waits: self.waits.clone() }));
        waits.ops.insert(key, (op, waker));
        // Asked for the first time when the code has parked.
        waits.woken.push(key);
        key
    }

    /// The outcomes of what was woken.
    fn outcomes(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        loop {
            let woken = std::mem::take(&mut lock(&self.waits).woken);
            if woken.is_empty() {
                return outcomes;
            }
            for key in woken {
                let Some((op, waker)) = lock(&self.waits).ops.get(&key).cloned() else { continue };
                let mut machine = self.machine.lock();
                let polled = match &op {
                    Op::Call(seq) => machine.poll_activity(*seq, &waker).map_ok(Some),
                    Op::Timer(seq) => machine.poll_timer(*seq, &waker).map_ok(|()| None),
                    Op::Child(seq) => machine.poll_child(*seq, &waker).map_ok(Some),
                    Op::Signal(waiter) => machine.poll_signal(waiter, &waker).map_ok(Some),
                };
                drop(machine);
                if let Poll::Ready(outcome) = polled {
                    lock(&self.waits).ops.remove(&key);
                    outcomes.push((key, outcome));
                }
            }
        }
    }
}

fn activity_call(name: &str, input: &str, options: Option<&str>) -> PyResult<ActivityCall> {
    let mut options = Given::read(options)?.of_call()?;
    let input = Payload::from_text(input);
    if let Some(gate) = options.gate.take() {
        let key = KeyTemplate::parse(&gate).map_err(mistake)?;
        options.gate = Some(key.key(&input.decode::<Value>().unwrap_or_default()));
    }
    Ok(ActivityCall { name: name.to_string(), input, options, compensates: None })
}

/// A call as the package describes it: the name, the arguments, the options.
type Described = (String, String, Option<String>);

#[pymethods]
impl Run {
    /// Calls an activity. `undo` takes the result as JSON and describes what undoes it.
    #[pyo3(signature = (name, input, options=None, undo=None))]
    fn call(
        &self,
        name: &str,
        input: &str,
        options: Option<&str>,
        undo: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let call = activity_call(name, input, options)?;
        let policy = Given::read(options)?.compensation_policy()?;
        let undo = undo.map(|undo| {
            let undo = Undo::new(move |result| {
                let described = Python::attach(|py| {
                    let (name, input, options): Described =
                        undo.call1(py, (result.as_str(),))?.extract(py)?;
                    activity_call(&name, &input, options.as_deref())
                });
                described.unwrap_or_else(|error| resume_unwind(Box::new(error.to_string())))
            });
            match policy {
                Some(policy) => undo.with_retry(policy),
                None => undo,
            }
        });
        let seq = self.machine.lock().schedule_activity(call, Ask { shielded: true, undo });
        Ok(self.open(Op::Call(seq)))
    }

    #[pyo3(signature = (name, input, options=None))]
    fn compensate(&self, name: &str, input: &str, options: Option<&str>) -> PyResult<()> {
        self.machine.lock().compensate(activity_call(name, input, options)?);
        Ok(())
    }

    fn timer(&self, time: f64) -> u64 {
        let time = Duration::try_from_secs_f64(time).unwrap_or_default();
        let seq = self.machine.lock().start_timer(time, true);
        self.open(Op::Timer(seq))
    }

    /// Starts another workflow. The answer is none for one that nobody waits for.
    #[pyo3(signature = (workflow, input, options=None))]
    fn child(&self, workflow: &str, input: &str, options: Option<&str>) -> PyResult<Option<u64>> {
        let options = Given::read(options)?;
        let call = ChildCall {
            id: options.id.clone(),
            workflow: workflow.to_string(),
            input: Payload::from_text(input),
            parent_close: options.parent_close()?,
            settings: options.of_instance()?,
        };
        let is_detached = call.parent_close == ParentClose::Detached;
        let seq = self.machine.lock().start_child(call, true);
        Ok((!is_detached).then(|| self.open(Op::Child(seq))))
    }

    fn signal(&self, name: &str) -> u64 {
        let waiter = self.machine.lock().wait_for_signal(name, true);
        self.open(Op::Signal(waiter))
    }

    /// The code no longer waits for this.
    fn forget(&self, key: u64) {
        let Some((op, _)) = lock(&self.waits).ops.remove(&key) else { return };
        let mut machine = self.machine.lock();
        match op {
            Op::Call(seq) => machine.drop_activity(seq),
            Op::Timer(seq) => machine.drop_timer(seq),
            Op::Child(seq) => machine.drop_child(seq),
            Op::Signal(waiter) => machine.drop_signal(&waiter),
        }
    }

    #[getter]
    fn instance_id(&self) -> String {
        self.machine.lock().instance().to_string()
    }

    #[getter]
    fn workflow(&self) -> String {
        self.machine.lock().workflow().to_string()
    }

    #[getter]
    fn number(&self) -> u32 {
        self.machine.lock().run().run
    }

    /// True while the history says what comes next.
    #[getter]
    fn is_replaying(&self) -> bool {
        self.machine.lock().is_replaying()
    }

    #[getter]
    fn cancelled(&self) -> Option<String> {
        self.machine.lock().cancelled().map(|why| why.message.clone())
    }

    fn now(&self) -> f64 {
        seconds(self.machine.lock().now())
    }

    fn random(&self) -> u64 {
        self.machine.lock().random()
    }

    fn set_status(&self, value: &str) {
        self.machine.lock().set_status(Payload::from_text(value));
    }

    fn get(&self, key: &str) -> Option<String> {
        self.machine.lock().kv(key).map(|value| value.as_str().to_string())
    }

    fn set(&self, key: &str, value: &str) {
        self.machine.lock().set_kv(key, Payload::from_text(value));
    }

    fn version(&self, change: &str, newest: u32) -> u32 {
        self.machine.lock().version(change, newest)
    }
}

/// The code of a run.
struct Code {
    run: Py<Run>,
    machine: SharedMachine,
    make: Arc<Py<PyAny>>,
    input: Payload,
    turns: Arc<Queue>,
    /// The event loop with the coroutine as its main task, from the first turn on.
    driver: Option<Py<PyAny>>,
    is_told_cancelled: bool,
}

/// How a turn of the driver ended.
const RETURNED: u8 = 0;
const FAILED: u8 = 1;
const CONTINUES: u8 = 2;
const CANCELLED: u8 = 3;
const BLOCKED: u8 = 4;

impl Code {
    fn turn(
        &mut self,
        py: Python<'_>,
        outcomes: Vec<Outcome>,
        cancelled: Option<String>,
    ) -> PyResult<Option<Result<Payload, Failure>>> {
        if self.driver.is_none() {
            let made = self.make.call1(py, (self.run.clone_ref(py), self.input.as_str()))?;
            self.driver = Some(made);
        }
        let Some(driver) = &self.driver else { return Ok(None) };
        let list = PyList::empty(py);
        for (key, outcome) in &outcomes {
            let item = match outcome {
                Ok(None) => (key, true, py.None()).into_bound_py_any(py)?,
                Ok(Some(value)) => (key, true, value.as_str()).into_bound_py_any(py)?,
                Err(failure) => {
                    let text = serde_json::to_string(failure).unwrap_or_default();
                    (key, false, text).into_bound_py_any(py)?
                }
            };
            list.append(item)?;
        }
        let answer = driver.call_method1(py, "turn", (list, cancelled))?;
        if answer.is_none(py) {
            return Ok(None);
        }
        let (kind, text): (u8, String) = answer.extract(py)?;
        Ok(Some(match kind {
            RETURNED => Ok(Payload::from_text(text)),
            FAILED => Err(read_failure(&text)),
            CONTINUES => {
                self.machine.lock().continue_as_new(Payload::from_text(text));
                Err(Failure::terminal("the next run goes on").with_type(CONTINUE_AS_NEW))
            }
            CANCELLED => Err(self.machine.lock().cancelled().cloned().unwrap_or_default()),
            BLOCKED => resume_unwind(Box::new(NotDurable(text))),
            other => resume_unwind(Box::new(format!("a turn that ended as {other}: {text}"))),
        }))
    }
}

impl Future for Code {
    type Output = Result<Payload, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let run = Python::attach(|py| self.run.clone_ref(py));
        let run = run.get();
        lock(&run.waits).turn = Some(context.waker().clone());
        let mut outcomes = run.outcomes();
        let cancelled = self.machine.lock().cancelled().map(|why| why.message.clone());
        let mut cancelled = cancelled.filter(|_| !self.is_told_cancelled);
        self.is_told_cancelled |= cancelled.is_some();
        if self.driver.is_some() && outcomes.is_empty() && cancelled.is_none() {
            return Poll::Pending;
        }
        Python::attach(|py| {
            loop {
                let turned = self.turn(py, std::mem::take(&mut outcomes), cancelled.take());
                match turned {
                    Err(error) => {
                        let text = format!("{}: {error}", self.machine.lock().workflow());
                        resume_unwind(Box::new(NotDurable(text)))
                    }
                    Ok(Some(result)) => return Poll::Ready(result),
                    Ok(None) => outcomes = run.outcomes(),
                }
                if outcomes.is_empty() {
                    return Poll::Pending;
                }
            }
        })
    }
}

impl Drop for Code {
    /// Evicted or over: the coroutines are closed on the thread that takes turns, in order, and not
    /// by a garbage collector on some other thread.
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            self.turns.close(driver);
        }
    }
}

/// A workflow whose runs are made by a Python callable: `make(run, input) -> driver`.
pub(crate) fn definition(
    name: String,
    version: u32,
    make: Py<PyAny>,
    turns: Arc<Queue>,
) -> WorkflowDefinition {
    let make = Arc::new(make);
    let thread = turns.clone();
    let begin = move |machine: SharedMachine, input: &Payload| {
        let run = Run { machine: machine.clone(), waits: Arc::default() };
        let code: WorkflowFuture = Box::pin(Begins {
            parts: Some((run, machine, make.clone(), input.clone(), turns.clone())),
            code: None,
        });
        Ok(code)
    };
    let mut definition = WorkflowDefinition::new(name, begin).taking_turns_on(thread);
    definition.version = version;
    definition
}

type Parts = (Run, SharedMachine, Arc<Py<PyAny>>, Payload, Arc<Queue>);

/// The code before its first turn. It is made without the interpreter's lock.
struct Begins {
    parts: Option<Parts>,
    code: Option<Code>,
}

impl Future for Begins {
    type Output = Result<Payload, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some((run, machine, make, input, turns)) = self.parts.take() {
            let run = Python::attach(|py| Py::new(py, run));
            let run = run.unwrap_or_else(|error| resume_unwind(Box::new(error.to_string())));
            let (driver, is_told_cancelled) = (None, false);
            self.code = Some(Code { run, machine, make, input, turns, driver, is_told_cancelled });
        }
        match &mut self.code {
            Some(code) => Pin::new(code).poll(context),
            None => Poll::Pending,
        }
    }
}
