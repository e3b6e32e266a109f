//! Recorded histories against today's code.

use std::error::Error;
use std::fmt;

use resurgam::{Constructor, Parts, Workflow};
use resurgam_core::export::{Export, ExportedRun};
use resurgam_core::turn::{Blocked, Run};
use resurgam_core::{Event, EventKind, RunKey, history};
use resurgam_sdk::WorkflowDefinition;

/// How many events before the place of a mismatch are shown.
const SHOWN: usize = 5;

/// Failures that a run ends with although its code did not ask for it.
const LIMITS: [&str; 2] = ["HistoryLimit", "OpenCallsLimit"];

/// Checks that today's code takes the way that a recorded history says. The history is what
/// [`Client::export_history`](resurgam::Client::export_history) wrote; `workflow` is the name of
/// the function, without calling it. Nothing is run but the workflow's own code: no activity, no
/// timer, no database.
///
/// Open and closed runs can be replayed, and all runs of an instance are. When the history is of
/// several versions of a workflow, or of a workflow and what it continued as, use [`Replayer`].
///
/// ```
/// use resurgam::prelude::*;
///
/// #[activity]
/// async fn greet(name: String) -> Result<String, Failure> {
///     Ok(format!("hello, {name}"))
/// }
///
/// #[workflow]
/// async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///     ctx.call(greet(name)).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use resurgam_testing::TestApp;
/// # let app = TestApp::builder().workflow(welcome).activity(greet).start().await;
/// # app.start("welcome-1", welcome("Ada".into())).await.result().await.unwrap();
/// let recorded = app.client().export_history("welcome-1").await.unwrap().unwrap();
/// resurgam_testing::replay(&recorded, welcome).unwrap();
///
/// // Later, somebody changes the code:
/// mod changed {
///     use resurgam::prelude::*;
///
///     #[workflow]
///     pub async fn welcome(ctx: WorkflowContext, name: String) -> Result<String, Failure> {
///         ctx.call(super::greet(name.to_uppercase())).await
///     }
/// }
/// let error = resurgam_testing::replay(&recorded, changed::welcome).unwrap_err();
/// assert!(error.is_nondeterminism());
/// let asked = "but the code asks for\n  ActivityScheduled greet {\"name\":\"ADA\"}";
/// assert!(error.to_string().contains(asked));
/// # }
/// ```
pub fn replay<Args, F>(history: &str, workflow: F) -> Result<(), ReplayError>
where
    F: Constructor<Args>,
    F::Built: Workflow,
{
    Replayer::new().workflow(workflow).replay(history)
}

/// [`replay`], for tests that have nothing else to do with an error than to show it.
///
/// ```should_panic
/// use resurgam::prelude::*;
///
/// #[workflow]
/// async fn nap(_ctx: WorkflowContext) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// resurgam_testing::assert_replays("not a history", nap);
/// ```
///
/// # Panics
/// When the code takes another way.
#[track_caller]
pub fn assert_replays<Args, F>(history: &str, workflow: F)
where
    F: Constructor<Args>,
    F::Built: Workflow,
{
    if let Err(error) = replay(history, workflow) {
        panic!("{error}");
    }
}

/// Replays histories with several workflows, or several versions of one.
///
/// ```
/// use resurgam::prelude::*;
/// use resurgam_testing::{Replayer, TestApp};
///
/// #[workflow(name = "greet")]
/// async fn greet_v1(_ctx: WorkflowContext) -> Result<String, Failure> {
///     Ok("good day".to_string())
/// }
///
/// #[workflow(name = "greet", version = 2)]
/// async fn greet(_ctx: WorkflowContext) -> Result<String, Failure> {
///     Ok("hello".to_string())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = TestApp::builder().workflow(greet_v1).start().await;
/// app.start("greet-1", greet_v1()).await.result().await.unwrap();
/// let old = app.client().export_history("greet-1").await.unwrap().unwrap();
///
/// // It is replayed with the version that it began with.
/// Replayer::new().workflow(greet_v1).workflow(greet).replay(&old).unwrap();
/// let error = Replayer::new().workflow(greet).replay(&old).unwrap_err();
/// assert!(!error.is_nondeterminism() && !error.is_panic()); // that version is not known
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Replayer(Parts);

impl Replayer {
    /// A replayer that knows no workflow.
    pub fn new() -> Self {
        Replayer::default()
    }

    /// Adds a workflow by the name of its function. Each run is replayed with the version that it
    /// began with.
    pub fn workflow<Args, F>(mut self, constructor: F) -> Self
    where
        F: Constructor<Args>,
        F::Built: Workflow,
    {
        self.0.workflow(constructor);
        self
    }

    /// Adds a workflow that is no Rust function, such as that of graphs, or of a program in another
    /// language.
    ///
    /// ```
    /// use resurgam::prelude::*;
    /// use resurgam::WorkflowDefinition;
    /// use resurgam_testing::Replayer;
    ///
    /// #[workflow]
    /// async fn nap(_ctx: WorkflowContext) -> Result<(), Failure> {
    ///     Ok(())
    /// }
    ///
    /// let replayer = Replayer::new().workflow_definition(WorkflowDefinition::of::<nap>());
    /// assert!(replayer.replay("not a history").is_err());
    /// ```
    pub fn workflow_definition(mut self, definition: WorkflowDefinition) -> Self {
        let added = self.0.registry.add_workflow_definition(definition);
        self.0.note(added);
        self
    }

    /// Checks a recorded history, see [`replay`].
    ///
    /// # Panics
    /// When the workflows cannot be registered together.
    pub fn replay(&self, history: &str) -> Result<(), ReplayError> {
        assert!(self.0.mistake.is_none(), "{}", self.0.mistake.as_deref().unwrap_or_default());
        let export = Export::from_json(history).map_err(|message| ReplayError {
            what: "replay".to_string(),
            cause: Cause::Unreadable(message),
            before: String::new(),
        })?;
        export.runs.iter().try_for_each(|run| self.replay_run(&export, run))
    }

    fn replay_run(&self, export: &Export, run: &ExportedRun) -> Result<(), ReplayError> {
        let Some(EventKind::RunStarted(started)) = run.events.first().map(|event| &event.kind)
        else {
            return Ok(());
        };
        let events = without_limit(&run.events);
        let fail = |cause| ReplayError {
            what: format!("replay {}, run {}", export.instance, run.run),
            before: before(&run.events, &cause),
            cause,
        };
        let definition = self.definition(&started.workflow, started.version);
        let definition = definition.map_err(|message| fail(Cause::Unreadable(message)))?;
        let key = RunKey { uid: export.uid, run: run.run };
        let mut begun = Ok(());
        let mut code = Run::new(key, |machine| {
            definition.begin(machine, &started.input).unwrap_or_else(|error| {
                begun = Err(Cause::Unreadable(error));
                Box::pin(std::future::pending())
            })
        });
        begun.map_err(&fail)?;
        // What the last turn asks for beyond its records, the engine would record now.
        let _more = code.replay(events).map_err(|blocked| fail(Cause::Blocked(blocked)))?;
        Ok(())
    }

    fn definition(&self, workflow: &str, version: u32) -> Result<&WorkflowDefinition, String> {
        let registry = &self.0.registry;
        let found = registry.workflow_version(workflow, version);
        found.map(|definition| &**definition).ok_or_else(|| match registry.workflow(workflow) {
            Some(other) => format!(
                "the run is on version {version} of {workflow}; given is version {}",
                other.version
            ),
            None => {
                let known = registry.workflow_names().join(", ");
                format!("the run is of workflow {workflow}; given is {known}")
            }
        })
    }
}

/// The events without the end that a limit of the engine set, which no code asks for.
fn without_limit(events: &[Event]) -> &[Event] {
    match events {
        [before @ .., Event { kind: EventKind::RunFailed { failure, .. }, .. }]
            if LIMITS.iter().any(|limit| failure.has_type(limit, false)) =>
        {
            before
        }
        events => events,
    }
}

/// The history up to the place of a mismatch.
fn before(events: &[Event], cause: &Cause) -> String {
    let Cause::Blocked(Blocked::Nondeterminism(mismatch)) = cause else { return String::new() };
    let known = events.partition_point(|event| event.seq < mismatch.seq);
    let start = known.saturating_sub(SHOWN);
    let lines = events[start..known]
        .iter()
        .map(|event| format!("\n  {} {}", event.seq, history::line(&event.kind)));
    lines.collect()
}

/// A recorded history that today's code does not take.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayError {
    what: String,
    cause: Cause,
    before: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Cause {
    Blocked(Blocked),
    Unreadable(String),
}

impl ReplayError {
    /// True when the code asks for something else than it did when the history was recorded: a run
    /// like this one would be blocked by a deployment.
    pub fn is_nondeterminism(&self) -> bool {
        matches!(self.cause, Cause::Blocked(Blocked::Nondeterminism(_)))
    }

    /// True when the code panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Blocked(Blocked::Panic { .. }))
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Blocked(blocked) => write!(f, "{}: {blocked}", self.what)?,
            Cause::Unreadable(message) => write!(f, "{}: {message}", self.what)?,
        }
        match self.before.is_empty() {
            true => Ok(()),
            false => write!(f, "\nWhat came before:{}", self.before),
        }
    }
}

impl Error for ReplayError {}
