//! What the tests of programs share.
#![allow(dead_code)]

use resurgam::{Failure, Outcome};
use resurgam_ir::{Dialect, Program, Value, workflow};
use resurgam_testing::{TestApp, TestBuilder, TestInstance};
use serde_json::{Value as Json, json};

/// The name that programs run under.
pub(crate) const NAME: &str = "program";

/// A builder that knows how to run programs.
pub(crate) fn builder() -> TestBuilder {
    TestApp::builder().workflow_definition(workflow(NAME))
}

/// A whole program around some lines: `main` without inputs.
pub(crate) fn main_of(lines: &str) -> String {
    let lines: Vec<String> = lines.lines().map(|line| format!("    {line}")).collect();
    format!("fn main(input: [], output: [result]):\n{}\n", lines.join("\n"))
}

/// Starts a program.
pub(crate) async fn start(app: &TestApp, text: &str, inputs: Json) -> TestInstance<Json> {
    start_in(app, text, inputs, None).await
}

/// Starts a program in a dialect.
pub(crate) async fn start_in(
    app: &TestApp,
    text: &str,
    inputs: Json,
    dialect: Option<Dialect>,
) -> TestInstance<Json> {
    let program = match Program::read("test.rap", text, dialect) {
        Ok(program) => program,
        Err(errors) => panic!("{errors}"),
    };
    let input = program.input(Value::from_json(&inputs).unwrap()).unwrap();
    app.start_named("run", NAME, &input).await
}

/// The end of a program without inputs.
pub(crate) async fn run(app: &TestApp, text: &str) -> Result<Json, Failure> {
    let ended = start(app, text, json!({})).await.result().await;
    ended.map_err(|error| error.failure().expect("a failure of the program").clone())
}

/// What some lines return, as text: JSON, or the failure.
pub(crate) async fn returned(lines: &str) -> String {
    let app = builder().start().await;
    match start(&app, &main_of(lines), json!({})).await.outcome().await {
        Outcome::Completed(result) => result.to_string(),
        Outcome::Failed(failure) | Outcome::Cancelled(failure) | Outcome::Terminated(failure) => {
            failure.to_string()
        }
    }
}

/// What an expression comes to.
pub(crate) async fn value(expression: &str) -> String {
    returned(&format!("return {expression}")).await
}
