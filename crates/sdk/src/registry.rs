//! Workflows and activities by name.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use resurgam_core::gate::KeyTemplate;
use resurgam_core::machine::SharedMachine;
use resurgam_core::retry::{CheckedPolicy, RetryPolicy};
use resurgam_core::turn::WorkflowFuture;
use resurgam_core::{Failure, Payload, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Activity, ActivityContext, ActivityOptions, TurnThread, Workflow, WorkflowContext};

/// The workflows and activities of an app.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    activities: BTreeMap<String, Arc<ActivityDefinition>>,
    /// Every workflow in all its versions.
    workflows: BTreeMap<String, BTreeMap<u32, Arc<WorkflowDefinition>>>,
    /// Where activities are found that are not registered.
    sources: Vec<Arc<dyn ActivitySource>>,
    /// What runs instances of workflows that are not registered.
    any_workflow: Option<Arc<WorkflowDefinition>>,
    /// Where turns are taken, unless a workflow says otherwise.
    turns: Option<Arc<dyn TurnThread>>,
}

/// Activities that come and go while the program runs, such as executables in a folder.
///
/// A call of an activity that is not there waits, as a call of one that is not registered does.
/// When something has come, the engine is to be told, so that it looks for what waits.
///
/// `AppBuilder` of the main crate has an example.
pub trait ActivitySource: fmt::Debug + Send + Sync {
    /// The activity of this name, if it is there now. The engine asks for every call, on its own
    /// thread: this must not wait for anything.
    fn find(&self, name: &str) -> Option<Arc<ActivityDefinition>>;

    /// The names of all that are there now.
    fn names(&self) -> Vec<String>;

    /// What waits for an attempt of this activity that outlives the process which began it, whether
    /// or not the activity is there now. See [`ActivityDefinition::outlives`].
    fn resumed(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        self.find(name).filter(|activity| activity.outlives)
    }

    /// Hears what is stored of an activity that somebody has offered, and when that was last:
    /// before anything begins on what is stored, and again later. True when it is there now and was
    /// not before.
    fn learns(&self, name: &str, offered_at: Timestamp, offer: &str) -> bool {
        let _nothing_is_stored_for_it = (name, offered_at, offer);
        false
    }

    /// What its activities may lack and have now, in the words of [`ActivityDefinition::lacking`]:
    /// calls that were found to lack it are taken.
    fn provides(&self) -> Vec<String> {
        Vec::new()
    }
}

type AttemptFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;
type RunAttempt = Box<dyn Fn(ActivityContext, Payload) -> AttemptFuture + Send + Sync>;
type Lacks = Box<dyn Fn(&Payload) -> Option<String> + Send + Sync>;
type CheckOutput = Box<dyn Fn(&Payload) -> Result<(), String> + Send + Sync>;
type BeginRun =
    Box<dyn Fn(SharedMachine, &Payload) -> Result<WorkflowFuture, String> + Send + Sync>;

/// An activity without its types.
///
/// ```
/// use resurgam::{ActivityDefinition, Payload};
///
/// // Answers with its arguments, whatever they are.
/// let echo =
///     ActivityDefinition::new("echo", |_ctx, input: Payload| Box::pin(async { Ok(input) }));
/// assert_eq!((echo.name.as_str(), echo.blocking), ("echo", false));
/// ```
pub struct ActivityDefinition {
    /// Its name.
    pub name: String,
    /// What holds for its calls unless they say otherwise.
    pub options: ActivityOptions,
    /// True for a plain function that blocks its thread.
    pub blocking: bool,
    /// True when every heartbeat is stored at once, where otherwise the store is spared some: for
    /// attempts in other processes, which are told when it is stored.
    pub stores_heartbeats: bool,
    /// True when its attempts run in other processes and outlive this one: whoever works on their
    /// instances next waits for them, under the same token, and finds what waits for them with
    /// [`ActivitySource::resumed`].
    pub outlives: bool,
    run: RunAttempt,
    lacks: Option<Lacks>,
    check_output: Option<CheckOutput>,
}

/// A workflow without its types.
///
/// ```
/// use resurgam::WorkflowDefinition;
/// use resurgam::prelude::*;
///
/// #[workflow(version = 3)]
/// async fn nap(_ctx: WorkflowContext) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// let definition = WorkflowDefinition::of::<nap>();
/// assert_eq!((definition.name.as_str(), definition.version), ("nap", 3));
/// ```
pub struct WorkflowDefinition {
    /// Its name.
    pub name: String,
    /// Its version: a run stays on the one that it began with.
    pub version: u32,
    begin: BeginRun,
    reads: Option<ReadsArgument>,
    turns: Option<Arc<dyn TurnThread>>,
}

/// Whether an argument is one of a workflow's.
type ReadsArgument = Box<dyn Fn(&Payload) -> bool + Send + Sync>;

/// A name that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Registry {
    /// Adds an activity.
    pub fn add_activity<A: Activity>(&mut self) -> Result<(), Error> {
        self.add_activity_definition(ActivityDefinition::of::<A>(), A::ALIASES)
    }

    /// Adds an activity that is known at run time only: an executable, a stub.
    pub fn add_activity_definition(
        &mut self,
        definition: ActivityDefinition,
        aliases: &[&str],
    ) -> Result<(), Error> {
        if let Some(policy) = &definition.options.retry {
            let what = format!("register activity {}", definition.name);
            policy.check().map_err(|error| Error(format!("{what}: {error}")))?;
        }
        let definition = Arc::new(definition);
        let names = names("activity", &definition.name, aliases)?;
        for name in names {
            insert(&mut self.activities, "activity", name, definition.clone())?;
        }
        Ok(())
    }

    /// Checks that what a policy falls back to does not fall back itself, or wait for anybody, as
    /// far as it is known here; `default` holds for activities without a policy of their own.
    pub fn check_fallbacks(
        &self,
        policy: &CheckedPolicy,
        default: &RetryPolicy,
    ) -> Result<(), String> {
        for name in policy.fallbacks() {
            let Some(activity) = self.activity(name) else { continue };
            let own = activity.options.retry.as_ref().unwrap_or(default);
            let own = own.check().map_err(|error| format!("the policy of {name}: {error}"))?;
            own.refuses_fallback(name).map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Checks what every activity, and an activity without a policy of its own, falls back to.
    pub fn check_all_fallbacks(&self, default: &RetryPolicy) -> Result<(), Error> {
        let policies = self.activities.values().filter_map(|activity| {
            Some((format!("activity {}", activity.name), activity.options.retry.as_ref()?))
        });
        let of_app = ("the app's retry policy".to_string(), default);
        for (what, policy) in policies.chain([of_app]) {
            let checked = policy.check().map_err(|error| Error(format!("{what}: {error}")))?;
            let checked = self.check_fallbacks(&checked, default);
            checked.map_err(|error| Error(format!("{what}: {error}")))?;
        }
        Ok(())
    }

    /// Puts an activity in the place of one of the same name, for tests.
    pub fn replace_activity(&mut self, definition: ActivityDefinition) {
        self.activities.insert(definition.name.clone(), Arc::new(definition));
    }

    /// Adds a workflow.
    pub fn add_workflow<W: Workflow>(&mut self) -> Result<(), Error> {
        let definition = Arc::new(WorkflowDefinition::of::<W>());
        for name in names("workflow", W::NAME, W::ALIASES)? {
            self.insert_workflow(name, definition.clone())?;
        }
        Ok(())
    }

    /// Adds a workflow that is known at run time only.
    pub fn add_workflow_definition(&mut self, definition: WorkflowDefinition) -> Result<(), Error> {
        let name = definition.name.clone();
        self.insert_workflow(&name, Arc::new(definition))
    }

    fn insert_workflow(
        &mut self,
        name: &str,
        definition: Arc<WorkflowDefinition>,
    ) -> Result<(), Error> {
        let version = definition.version;
        let versions = self.workflows.entry(name.to_string()).or_default();
        match versions.insert(version, definition) {
            None => Ok(()),
            Some(_) => Err(Error(format!(
                "register workflow {name}: version {version} of it is there already; give one of \
                 them another name or version with #[workflow(name = \"...\", version = 2)]"
            ))),
        }
    }

    /// Has activities that are not registered looked for here, behind those that were named before.
    pub fn find_activities_in(&mut self, source: Arc<dyn ActivitySource>) {
        self.sources.push(source);
    }

    /// True when activities come and go.
    pub fn finds_activities(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Has instances of all workflows that are not registered run by this one. It is for
    /// interpreters: what is to be done is in the argument, and the name is for people. Instances
    /// whose argument it does not read ([`WorkflowDefinition::reading`]) wait.
    pub fn run_any_workflow_by(&mut self, definition: WorkflowDefinition) {
        self.any_workflow = Some(Arc::new(definition));
    }

    /// Has the turns of all workflows taken there that have no place of their own
    /// ([`WorkflowDefinition::taking_turns_on`]).
    pub fn take_turns_on(&mut self, thread: Arc<dyn TurnThread>) {
        self.turns = Some(thread);
    }

    /// Where the turns of a workflow are taken, when that is not on the engine's thread.
    pub fn turn_thread(&self, workflow: &WorkflowDefinition) -> Option<Arc<dyn TurnThread>> {
        workflow.turn_thread().or(self.turns.as_ref()).cloned()
    }

    /// The activity of this name.
    pub fn activity(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        let found = || self.sources.iter().find_map(|source| source.find(name));
        self.activities.get(name).cloned().or_else(found)
    }

    /// What waits for an attempt of this activity that outlives the process which began it.
    pub fn resumed(&self, name: &str) -> Option<Arc<ActivityDefinition>> {
        match self.activities.get(name) {
            Some(activity) => Some(activity.clone()).filter(|activity| activity.outlives),
            None => self.sources.iter().find_map(|source| source.resumed(name)),
        }
    }

    /// Tells those who offer activities what is stored of one. True when it is there now and was
    /// not before.
    pub fn learns(&self, name: &str, offered_at: Timestamp, offer: &str) -> bool {
        let learns = |source: &Arc<dyn ActivitySource>| source.learns(name, offered_at, offer);
        self.sources.iter().filter(|source| learns(source)).count() > 0
    }

    /// What activities that are not registered lacked some time ago and have now.
    pub fn provides(&self) -> Vec<String> {
        self.sources.iter().flat_map(|source| source.provides()).collect()
    }

    /// Whether an activity of this name is registered here, whatever is found elsewhere.
    pub fn has_activity(&self, name: &str) -> bool {
        self.activities.contains_key(name)
    }

    /// The newest version of the workflow of this name.
    pub fn workflow(&self, name: &str) -> Option<&Arc<WorkflowDefinition>> {
        match self.workflows.get(name) {
            Some(versions) => versions.last_key_value().map(|(_, newest)| newest),
            None => self.any_workflow.as_ref(),
        }
    }

    /// The workflow of this name in this version.
    pub fn workflow_version(&self, name: &str, version: u32) -> Option<&Arc<WorkflowDefinition>> {
        match self.workflows.get(name) {
            Some(versions) => versions.get(&version),
            None => self.any_workflow.as_ref().filter(|any| any.version == version),
        }
    }

    /// What a node tells other nodes about the workflows that it can run: the name and the version
    /// of each, and a star where it runs all that it can read. Without those that we add ourselves.
    pub fn known_workflows(&self) -> Arc<[String]> {
        let named = self.workflows.iter().filter(|(name, _)| !name.starts_with("resurgam."));
        let versions = named.flat_map(|(name, versions)| {
            versions.keys().map(move |version| format!("{name} {version}"))
        });
        let any = self.any_workflow.iter().map(|any| format!("* {}", any.name));
        let mut known: Vec<String> = versions.chain(any).collect();
        known.sort_unstable();
        known.into()
    }

    /// The activities that bound how many of their attempts run at once.
    pub fn limits(&self) -> Vec<(String, usize)> {
        let limit = |(name, activity): (&String, &Arc<ActivityDefinition>)| {
            Some((name.clone(), activity.options.max_concurrent?))
        };
        self.activities.iter().filter_map(limit).collect()
    }

    /// The names of all activities, also of those that are there now and were not registered.
    pub fn activity_names(&self) -> Arc<[String]> {
        let found = self.sources.iter().flat_map(|source| source.names());
        self.activities.keys().cloned().chain(found).collect()
    }

    /// The names of all workflows, sorted; without those that we add ourselves.
    pub fn workflow_names(&self) -> Vec<&str> {
        let names = self.workflows.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|name| !name.starts_with("resurgam.")).collect();
        names.sort_unstable();
        names
    }
}

fn names<'a>(what: &str, name: &'a str, aliases: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    let names: Vec<&str> = std::iter::once(name).chain(aliases.iter().copied()).collect();
    match names.iter().any(|name| name.trim().is_empty()) {
        true => Err(Error(format!("register {what} {name:?}: an empty name is not allowed"))),
        false => Ok(names),
    }
}

fn insert<T>(
    known: &mut BTreeMap<String, Arc<T>>,
    what: &str,
    name: &str,
    definition: Arc<T>,
) -> Result<(), Error> {
    match known.insert(name.to_string(), definition) {
        None => Ok(()),
        Some(_) => Err(Error(format!(
            "register {what} {name}: the name is taken; give one of them another with \
             #[{what}(name = \"...\")]"
        ))),
    }
}

impl ActivityDefinition {
    /// The definition of a type.
    pub fn of<A: Activity>() -> Self {
        let run = |ctx: ActivityContext, input: Payload| -> AttemptFuture {
            Box::pin(async move {
                let call: A = decode(&input, "arguments", A::NAME)?;
                encode(&call.run(ctx.returning::<A::Output>()).await?, A::NAME)
            })
        };
        let mut options = A::options();
        options.gate = options.gate.or_else(|| A::GATE.map(str::to_string));
        ActivityDefinition {
            name: A::NAME.to_string(),
            options,
            blocking: A::BLOCKING,
            stores_heartbeats: false,
            outlives: false,
            run: Box::new(run),
            lacks: None,
            check_output: None,
        }
        .checking_output(|value| {
            value.decode::<A::Output>().map(drop).map_err(|error| error.to_string())
        })
    }

    /// A definition that is known at run time only.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(ActivityContext, Payload) -> AttemptFuture + Send + Sync + 'static,
    ) -> Self {
        ActivityDefinition {
            name: name.into(),
            options: ActivityOptions::default(),
            blocking: false,
            stores_heartbeats: false,
            outlives: false,
            run: Box::new(run),
            lacks: None,
            check_output: None,
        }
    }

    /// The key of the gate that a call with these arguments is behind.
    ///
    /// ```
    /// use resurgam::{ActivityDefinition, Payload};
    ///
    /// let mut fetch = ActivityDefinition::new("fetch", |_, input| Box::pin(async { Ok(input) }));
    /// let call = Payload::from_text(r#"{"url":"https://example.com/a"}"#);
    /// assert_eq!(fetch.gate_of(&call), "fetch");
    /// fetch.options.gate = Some("host:{url.host}".to_string());
    /// assert_eq!(fetch.gate_of(&call), "host:example.com");
    /// ```
    pub fn gate_of(&self, input: &Payload) -> String {
        match &self.options.gate {
            Some(template) => gate_key(template, input),
            None => self.name.clone(),
        }
    }

    /// Has calls wait that this process cannot run, although it knows the activity: `lacks` tells
    /// from the arguments of a call what is missing here, such as `licence 7`, and `None` when
    /// nothing is. The engine asks on its own thread: this must not wait for anything.
    ///
    /// Such a call uses up no attempt. What is missing is written down with the call, and from then
    /// on only a process takes it that has these words in its `Options::provides`: this one after a
    /// restart, or another one on the same PostgreSQL. Whoever uses `lacking` therefore sets
    /// `provides` as well. To find out by asking `lacks` again, a process would have to read the
    /// arguments of all calls that wait so, each time it begins or gets shards.
    ///
    /// ```
    /// use resurgam::{ActivityDefinition, Payload};
    ///
    /// let echo = ActivityDefinition::new("echo", |_, input| Box::pin(async { Ok(input) }))
    ///     .lacking(|input: &Payload| {
    ///         input.as_str().contains("gpu").then(|| "graphics card".to_string())
    ///     });
    /// assert_eq!(echo.lacks(&Payload::null()), None);
    /// assert_eq!(echo.lacks(&Payload::from_text("\"gpu\"")).as_deref(), Some("graphics card"));
    /// ```
    #[must_use]
    pub fn lacking(
        mut self,
        lacks: impl Fn(&Payload) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.lacks = Some(Box::new(lacks));
        self
    }

    /// What is missing here to run a call with these arguments.
    pub fn lacks(&self, input: &Payload) -> Option<String> {
        self.lacks.as_ref().and_then(|lacks| lacks(input))
    }

    /// Says which values its calls can be completed with by an operator: the error says why a value
    /// is none that a workflow could read. Without this every value is one.
    ///
    /// ```
    /// use resurgam::{ActivityDefinition, Payload};
    ///
    /// let echo = ActivityDefinition::new("echo", |_, input| Box::pin(async { Ok(input) }))
    ///     .checking_output(|value: &Payload| {
    ///         value.decode::<u32>().map(drop).map_err(|error| error.to_string())
    ///     });
    /// assert!(echo.check_output(&Payload::from_text("7")).is_ok());
    /// assert!(echo.check_output(&Payload::from_text("\"seven\"")).is_err());
    /// ```
    #[must_use]
    pub fn checking_output(
        mut self,
        check: impl Fn(&Payload) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check_output = Some(Box::new(check));
        self
    }

    /// Whether a workflow could read this value as the result of a call; the error says why not.
    pub fn check_output(&self, value: &Payload) -> Result<(), String> {
        self.check_output.as_ref().map_or(Ok(()), |check| check(value))
    }

    /// Makes one attempt.
    pub fn run(&self, ctx: ActivityContext, input: Payload) -> AttemptFuture {
        (self.run)(ctx, input)
    }
}

impl WorkflowDefinition {
    /// The definition of a type.
    pub fn of<W: Workflow>() -> Self {
        let begin = |machine: SharedMachine, input: &Payload| {
            let error = |error| format!("the argument of {} cannot be read: {error}", W::NAME);
            let call: W = input.decode().map_err(error)?;
            let ctx = WorkflowContext::new(machine);
            let code: WorkflowFuture =
                Box::pin(async move { encode(&call.run(ctx).await?, W::NAME) });
            Ok(code)
        };
        let (name, version) = (W::NAME.to_string(), W::VERSION);
        WorkflowDefinition { name, version, begin: Box::new(begin), reads: None, turns: None }
    }

    /// A definition that is known at run time only.
    pub fn new(
        name: impl Into<String>,
        begin: impl Fn(SharedMachine, &Payload) -> Result<WorkflowFuture, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        WorkflowDefinition {
            name: name.into(),
            version: 1,
            begin: Box::new(begin),
            reads: None,
            turns: None,
        }
    }

    /// Limits it to instances whose argument it can read. Where it runs instances of any name,
    /// those of other programs are not its own: they wait for a process that knows their workflow.
    pub fn reading(mut self, reads: impl Fn(&Payload) -> bool + Send + Sync + 'static) -> Self {
        self.reads = Some(Box::new(reads));
        self
    }

    /// True unless the argument is none of this workflow's.
    pub fn reads(&self, argument: &Payload) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads(argument))
    }

    /// Has the turns of its runs taken on a thread of their own, because their code needs something
    /// that the engine must not wait for, such as the lock of an interpreter. [`TurnThread`] has an
    /// example.
    #[must_use]
    pub fn taking_turns_on(mut self, thread: Arc<dyn TurnThread>) -> Self {
        self.turns = Some(thread);
        self
    }

    /// Where the turns of its runs are taken, when that is not on the engine's thread.
    pub fn turn_thread(&self) -> Option<&Arc<dyn TurnThread>> {
        self.turns.as_ref()
    }

    /// Begins the code of a run. The error says why its argument cannot be read.
    pub fn begin(&self, machine: SharedMachine, input: &Payload) -> Result<WorkflowFuture, String> {
        (self.begin)(machine, input)
    }
}

/// Reads arguments. What cannot be read now cannot be read by the next attempt either.
fn decode<T: DeserializeOwned>(input: &Payload, what: &str, name: &str) -> Result<T, Failure> {
    input.decode().map_err(|error| {
        Failure::terminal(format!("read the {what} of {name}: {error}")).with_type("BadInput")
    })
}

fn encode<T: Serialize>(value: &T, name: &str) -> Result<Payload, Failure> {
    Payload::encode(value).map_err(|error| {
        Failure::terminal(format!("write the result of {name}: {error}")).with_type("BadOutput")
    })
}

impl fmt::Debug for ActivityDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "activity {}", self.name)
    }
}

impl fmt::Debug for WorkflowDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workflow {}", self.name)
    }
}

/// The key that a template makes of arguments. One that cannot be read is a key itself: a call must
/// not fail for want of a gate.
pub(crate) fn gate_key(template: &str, input: &Payload) -> String {
    if !template.contains(['{', '}']) {
        return template.to_string();
    }
    match KeyTemplate::parse(template) {
        Ok(parsed) => parsed.key(&input.decode::<serde_json::Value>().unwrap_or_default()),
        Err(_) => template.to_string(),
    }
}
