//! The user's own tables in the SQLite file of the engine.
//!
//! A Python function gets a [`Db`] for as long as its transaction lasts. It runs on the thread that
//! writes to the file and holds the interpreter's lock: everybody's commits wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};
use resurgam::sqlite::TransactionExt;
use resurgam::sqlite::rusqlite::types::{Value as Sql, ValueRef};
use resurgam::sqlite::rusqlite::{self, Transaction, params_from_iter};
use resurgam::{Client, Failure};
use serde_json::value::RawValue;

use crate::app::App;
use crate::ask::{spawn, told};
use crate::attempt::{Context, read_failure};
use crate::port::Port;

/// A transaction, as long as it lasts.
#[pyclass(frozen)]
pub(crate) struct Db {
    transaction: AtomicPtr<Transaction<'static>>,
}

fn sql(value: &Bound<'_, PyAny>) -> PyResult<Sql> {
    Ok(if value.is_none() {
        Sql::Null
    } else if value.is_instance_of::<PyBool>() {
        Sql::Integer(i64::from(value.extract::<bool>()?))
    } else if value.is_instance_of::<PyInt>() {
        Sql::Integer(value.extract()?)
    } else if value.is_instance_of::<PyFloat>() {
        Sql::Real(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        Sql::Text(value.extract()?)
    } else if value.is_instance_of::<PyBytes>() {
        Sql::Blob(value.extract()?)
    } else {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a parameter is None, a bool, an int, a float, a text or bytes, not {kind}"
        )));
    })
}

fn python<'py>(py: Python<'py>, value: ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    match value {
        ValueRef::Null => Ok(py.None().into_bound(py)),
        ValueRef::Integer(number) => number.into_bound_py_any(py),
        ValueRef::Real(number) => number.into_bound_py_any(py),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_bound_py_any(py),
        ValueRef::Blob(bytes) => PyBytes::new(py, bytes).into_bound_py_any(py),
    }
}

fn trouble(error: rusqlite::Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Db {
    /// Runs one statement: the rows that it answers with, and how many it has changed.
    fn execute<'py>(
        &self,
        py: Python<'py>,
        statement: &str,
        parameters: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Bound<'py, PyTuple>>, u64)> {
        // SAFETY: `run` stores a transaction for the time of its call, on this very thread, and
        // takes it out before the transaction ends; the interpreter's lock keeps others away.
        let transaction = unsafe { self.transaction.load(Ordering::Acquire).as_ref() };
        let Some(transaction) = transaction else {
            return Err(PyRuntimeError::new_err("the transaction is over"));
        };
        let values: Vec<Sql> = parameters.iter().map(sql).collect::<PyResult<_>>()?;
        let mut prepared = transaction.prepare(statement).map_err(trouble)?;
        let columns = prepared.column_count();
        if columns == 0 {
            let changed = prepared.execute(params_from_iter(values));
            return Ok((Vec::new(), changed.map_err(trouble)? as u64));
        }
        let mut rows = Vec::new();
        let mut found = prepared.query(params_from_iter(values)).map_err(trouble)?;
        while let Some(row) = found.next().map_err(trouble)? {
            let values: Vec<Bound<'py, PyAny>> = (0..columns)
                .map(|column| python(py, row.get_ref(column).map_err(trouble)?))
                .collect::<PyResult<_>>()?;
            rows.push(PyTuple::new(py, values)?);
        }
        Ok((rows, transaction.changes()))
    }
}

/// Takes the transaction away from Python, however the function ends.
struct Lent<'a>(&'a Db);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.transaction.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Runs a Python function in a transaction: `work(db) -> (is it done, result or failure as JSON)`.
fn run(transaction: &Transaction<'_>, work: &Py<PyAny>) -> Result<String, Failure> {
    let answer = Python::try_attach(|py| {
        let pointer = std::ptr::from_ref(transaction).cast_mut().cast::<Transaction<'static>>();
        let db = Db { transaction: AtomicPtr::new(pointer) };
        let db = Py::new(py, db).map_err(|error| Failure::new(error.to_string()))?;
        let answer = {
            let _lent = Lent(db.get());
            work.call1(py, (db.clone_ref(py),)).and_then(|answer| answer.extract(py))
        };
        let (is_done, text): (bool, String) =
            answer.map_err(|error| Failure::new(error.to_string()))?;
        if is_done {
            return Ok(text);
        }
        // What is not allowed, or took too long, the store finds out by itself.
        Err(read_failure(&text))
    });
    answer.unwrap_or_else(|| Err(Failure::new("the interpreter has ended")))
}

#[pymethods]
impl Context {
    /// Runs a function in a transaction that also records its result. When that is done the attempt
    /// is over, and nobody waits for the answer; else the answer is the failure.
    fn transaction(&self, port: &Port, token: u64, work: Py<PyAny>) -> PyResult<()> {
        let (ctx, port) = (self.0.ctx()?, port.0.clone());
        let work = Arc::new(work);
        crate::runtime().spawn(async move {
            let ended = ctx.transaction::<Box<RawValue>, _>(move |transaction| {
                let text = run(transaction, &work)?;
                RawValue::from_string(text).map_err(Failure::from)
            });
            let answer = match ended.await {
                Ok(result) => Ok(Some(result.get().to_string())),
                Err(failure) => {
                    Err(serde_json::json!({"outcome": "failed", "failure": failure}).to_string())
                }
            };
            drop(ctx);
            port.answer(token, answer);
        });
        Ok(())
    }
}

#[pymethods]
impl App {
    /// Runs a function on the user's own tables, outside of activities.
    fn tables(&self, token: u64, work: Py<PyAny>, writes: bool) {
        let (target, work) = (self.target.clone(), Arc::new(work));
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (tables, work) = (client.tables(), work.clone());
                Box::pin(async move {
                    match writes {
                        true => tables.write(move |transaction| run(transaction, &work)).await,
                        false => tables.read(move |transaction| run(transaction, &work)).await,
                    }
                })
            };
            target.ask("use tables", ask).await.map(Some).map_err(|error| told(&error))
        });
    }
}
