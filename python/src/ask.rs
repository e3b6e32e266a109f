//! Whom an app asks: an engine's client, or an app under test, where time passes while somebody
//! waits.

use std::future::IntoFuture;
use std::sync::Arc;

use resurgam::{Client, Error, Failure, Outcome, Result};
use resurgam_testing::TestApp;
use serde_json::{Value, json};

use crate::port::{Answer, Shared};

/// Whom to ask.
#[derive(Clone)]
pub(crate) enum Target {
    Real(Client),
    Test(TestApp),
}

impl Target {
    /// Asks. After a crash of an app under test it is asked again.
    pub(crate) async fn ask<T, A>(&self, what: &str, ask: impl Fn(&Client) -> A) -> Result<T>
    where
        A: IntoFuture<Output = Result<T>>,
    {
        match self {
            Target::Real(client) => ask(client).into_future().await,
            Target::Test(app) => app.ask(what, ask).await,
        }
    }
}

/// An error as JSON: what kind it is, for the package to find a class.
pub(crate) fn told(error: &Error) -> String {
    if let Some(failure) = error.failure() {
        return failed("failed", failure);
    }
    let kind = match error {
        error if error.is_already_exists() => "already_exists",
        error if error.is_unknown() => "not_found",
        error if error.is_closed() => "closed",
        error if error.is_too_large() => "too_large",
        error if error.is_full() => "full",
        error if error.is_invalid() => "invalid",
        error if error.is_stopped() => "stopped",
        error if error.is_transient() => "transient",
        _ => "error",
    };
    json!({"error": kind, "code": error.code().to_string(), "message": error.to_string()})
        .to_string()
}

fn failed(outcome: &str, failure: &Failure) -> String {
    json!({"outcome": outcome, "failure": failure}).to_string()
}

/// An outcome as an answer: the result, or the failure.
pub(crate) fn outcome(outcome: Result<Outcome>) -> Answer {
    match outcome {
        Ok(Outcome::Completed(result)) => Ok(Some(result.as_str().to_string())),
        Ok(Outcome::Failed(failure)) => Err(failed("failed", &failure)),
        Ok(Outcome::Cancelled(failure)) => Err(failed("cancelled", &failure)),
        Ok(Outcome::Terminated(failure)) => Err(failed("terminated", &failure)),
        Err(error) => Err(told(&error)),
    }
}

/// A value as an answer.
pub(crate) fn value(answer: Result<Value>) -> Answer {
    match answer {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value.to_string())),
        Err(error) => Err(told(&error)),
    }
}

/// Lets something be asked in the background; its answer goes through the port. A test that waits
/// in vain panics: the panic's text is the answer.
pub(crate) fn spawn(
    port: &Arc<Shared>,
    token: u64,
    asked: impl Future<Output = Answer> + Send + 'static,
) {
    let port = port.clone();
    crate::runtime().spawn(async move {
        let answer = match tokio::spawn(asked).await {
            Ok(answer) => answer,
            Err(died) => Err(match died.try_into_panic() {
                Ok(panic) => resurgam_core::turn::panic_message(&*panic),
                Err(died) => died.to_string(),
            }),
        };
        port.answer(token, answer);
    });
}
