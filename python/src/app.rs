//! Apps: building, starting, asking.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use resurgam::gate::{Gate, KeyPattern};
use resurgam::{App as RustApp, AppBuilder, Client, InstanceFilter, Result, Status, Timestamp};
use resurgam_testing::{Replayer, TestApp, TestBuilder};
use resurgam_worker::Options;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ask::{Target, outcome, spawn, told, value};
use crate::attempt::{on_loop, on_thread, seconds};
use crate::port::{Port, Shared, lock};
use crate::settings::{Given, mistake, read_policy};
use crate::turns::{Queue, Turns};
use crate::{logging, look, run, runtime};

/// What an app knows.
#[pyclass]
pub(crate) struct Builder {
    pub(crate) activities: Vec<resurgam::ActivityDefinition>,
    pub(crate) workflows: Vec<resurgam::WorkflowDefinition>,
    options: Options,
    pub(crate) port: Arc<Shared>,
    turns: Arc<Queue>,
    /// Statements that make the user's own tables.
    setup: Option<String>,
}

fn trouble(error: impl ToString) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Builder {
    #[new]
    fn new(port: &Port, turns: &Turns, log_level: u8) -> Self {
        logging::listen(&port.0, log_level);
        Builder {
            activities: Vec::new(),
            workflows: Vec::new(),
            options: Options::default(),
            port: port.0.clone(),
            turns: turns.0.clone(),
            setup: None,
        }
    }

    /// An `async def`, by its place in the list of activities.
    #[pyo3(signature = (name, place, options=None))]
    fn activity(&mut self, name: &str, place: usize, options: Option<&str>) -> PyResult<()> {
        let mut definition = on_loop(name.to_string(), place, self.port.clone());
        definition.options = Given::read(options)?.of_activity()?;
        self.activities.push(definition);
        Ok(())
    }

    /// A plain `def`.
    #[pyo3(signature = (name, call, options=None))]
    fn blocking(&mut self, name: &str, call: Py<PyAny>, options: Option<&str>) -> PyResult<()> {
        let mut definition = on_thread(name.to_string(), call);
        definition.options = Given::read(options)?.of_activity()?;
        self.activities.push(definition);
        Ok(())
    }

    fn workflow(&mut self, name: &str, version: u32, make: Py<PyAny>) {
        let turns = self.turns.clone();
        self.workflows.push(run::definition(name.to_string(), version, make, turns));
    }

    /// Everything that can be set about the engine, as JSON.
    fn set(&mut self, name: &str, json: &str) -> PyResult<()> {
        let given: Value = serde_json::from_str(json).map_err(mistake)?;
        let wrong = || mistake(format!("{name}={json}: not a value of this option"));
        let number = || given.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong);
        let time = || {
            let seconds = given.as_f64().ok_or_else(wrong)?;
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
        };
        match name {
            "setup" => self.setup = Some(given.as_str().ok_or_else(wrong)?.to_string()),
            "retry" => self.options.retry = read_policy(&given)?,
            "slots" => self.options.slots = number()?,
            "hot_runs" => self.options.hot_runs = number()?,
            "attempt_timeouts" => {
                self.options.attempt_timeouts = given.as_bool().ok_or_else(wrong)?;
            }
            "max_history" => self.options.max_history = number()? as u64,
            "max_payload" => self.options.max_payload = number()?,
            "grace" => self.options.grace = time()?,
            "retention" => {
                let dead_letters = self.options.retention.dead_letters;
                self.options.retention = resurgam::Retention::all(time()?);
                self.options.retention.dead_letters = dead_letters;
            }
            "gates" => {
                let gates = given.as_object().ok_or_else(wrong)?;
                for (key, settings) in gates {
                    let told = |why: &dyn std::fmt::Display| mistake(format!("gate {key}: {why}"));
                    let pattern = KeyPattern::parse(key).map_err(|why| told(&why))?;
                    let gate = Gate::from_value(settings).map_err(|why| told(&why))?;
                    self.options.gates.push((pattern, gate));
                }
            }
            "queues" => {
                let queues: Vec<String> =
                    serde_json::from_value(given.clone()).map_err(|_| wrong())?;
                self.options.queues = Some(queues.into());
            }
            "queue_slots" => {
                self.options.queue_slots =
                    serde_json::from_value(given.clone()).map_err(|_| wrong())?;
            }
            _ => return Err(mistake(format!("there is no option {name}"))),
        }
        Ok(())
    }

    /// Runs the code of workflows against a history that was exported. The answer says where it
    /// takes another way.
    fn replay(&mut self, py: Python<'_>, history: &str) -> Option<String> {
        let workflows = std::mem::take(&mut self.workflows);
        let replayer = workflows.into_iter().fold(Replayer::new(), Replayer::workflow_definition);
        py.detach(|| replayer.replay(history).err().map(|error| error.to_string()))
    }

    /// Begins to work on a SQLite file.
    fn sqlite(&mut self, py: Python<'_>, file: PathBuf) -> PyResult<App> {
        let builder = self.builder();
        self.open(py, async move { builder.sqlite(file).await })
    }

    /// Begins to work on a PostgreSQL database.
    fn postgres(&mut self, py: Python<'_>, url: String) -> PyResult<App> {
        let builder = self.builder();
        self.open(py, async move { builder.postgres(&url).await })
    }

    /// Begins an app under test, in virtual time.
    fn test(&mut self, py: Python<'_>) -> PyResult<App> {
        let mut builder = TestBuilder::default();
        for definition in std::mem::take(&mut self.activities) {
            builder = builder.activity_definition(definition);
        }
        for definition in std::mem::take(&mut self.workflows) {
            builder = builder.workflow_definition(definition);
        }
        let options = std::mem::take(&mut self.options);
        let mut builder = builder.options(|known| *known = options);
        if let Some(setup) = self.setup.take() {
            builder = builder.sqlite_setup(move |made| Ok(made.execute_batch(&setup)?));
        }
        let started = py.detach(|| runtime().block_on(runtime().spawn(builder.start())));
        let app = started.map_err(|died| match died.try_into_panic() {
            Ok(panic) => mistake(resurgam_core::turn::panic_message(&*panic)),
            Err(died) => trouble(died),
        })?;
        let target = Target::Test(app);
        Ok(App { target, running: Mutex::new(None), port: self.port.clone() })
    }
}

impl Builder {
    fn builder(&mut self) -> AppBuilder {
        let mut builder = RustApp::builder();
        for definition in std::mem::take(&mut self.activities) {
            builder = builder.activity_definition(definition);
        }
        for definition in std::mem::take(&mut self.workflows) {
            builder = builder.workflow_definition(definition);
        }
        let options = std::mem::take(&mut self.options);
        if let Some(setup) = self.setup.take() {
            builder = builder.sqlite_setup(move |made| Ok(made.execute_batch(&setup)?));
        }
        builder.options(|known| *known = options)
    }

    fn open(
        &self,
        py: Python<'_>,
        opens: impl Future<Output = Result<RustApp>> + Send + 'static,
    ) -> PyResult<App> {
        let opened = py.detach(|| runtime().block_on(runtime().spawn(opens)));
        let app = opened.map_err(trouble)?.map_err(|error| trouble(told(&error)))?;
        let target = Target::Real((*app).clone());
        Ok(App { target, running: Mutex::new(Some(app)), port: self.port.clone() })
    }
}

/// An app at work. Every question has a token; its answer comes through the port.
#[pyclass(frozen)]
pub(crate) struct App {
    pub(crate) target: Target,
    running: Mutex<Option<RustApp>>,
    pub(crate) port: Arc<Shared>,
}

/// Something to start.
#[derive(Clone)]
struct Wanted {
    id: String,
    workflow: String,
    input: Arc<Box<RawValue>>,
    options: Arc<Given>,
}

impl Wanted {
    fn read(id: String, workflow: String, input: &str, options: Option<&str>) -> PyResult<Self> {
        let input = RawValue::from_string(input.to_string()).map_err(mistake)?;
        let mut options = Given::read(options)?;
        // Found to make sense here: what is wrong is said where it was written.
        options.of_instance()?;
        options.if_exists()?;
        options.request_id.get_or_insert_with(|| format!("python-{}", uuid()));
        Ok(Wanted { id, workflow, input: Arc::new(input), options: Arc::new(options) })
    }

    async fn start(&self, client: Client, bare: bool) -> Result<String> {
        let Wanted { id, workflow, input, options } = self;
        let mut start = match bare {
            true => client.submit_named::<Box<RawValue>>(id, workflow, &**input),
            false => client.start_named::<Box<RawValue>>(id, workflow, &**input),
        };
        let ignored = "was checked when it was read";
        if let Some(policy) = options.policy().expect(ignored) {
            start = start.retry(policy);
        }
        if let Some(queue) = options.queue() {
            start = start.queue(queue);
        }
        if let Some(time) = options.run_timeout().expect(ignored) {
            start = start.run_timeout(time);
        }
        if let Some(time) = options.total_timeout().expect(ignored) {
            start = start.total_timeout(time);
        }
        if let Some(time) = options.delay().expect(ignored) {
            start = start.delay(time);
        }
        if let Some(priority) = options.priority {
            start = start.priority(priority);
        }
        for (name, value) in &options.tags {
            start = start.tag(name, value);
        }
        if let Some(request) = &options.request_id {
            start = start.request_id(request);
        }
        let started = start.if_exists(options.if_exists().expect(ignored)).await?;
        Ok(started.id().to_string())
    }
}

/// Tells one request from others.
fn uuid() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

fn no_instance(id: &str) -> String {
    json!({"error": "not_found", "code": "", "message": format!("there is no instance {id}")})
        .to_string()
}

#[pymethods]
impl App {
    /// Starts an instance of a workflow, or of a single activity.
    #[pyo3(signature = (token, id, name, input, options, bare))]
    fn start(
        &self,
        token: u64,
        id: String,
        name: String,
        input: &str,
        options: Option<&str>,
        bare: bool,
    ) -> PyResult<()> {
        let (target, wanted) = (self.target.clone(), Wanted::read(id, name, input, options)?);
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, wanted) = (client.clone(), wanted.clone());
                Box::pin(async move { wanted.start(client, bare).await })
            };
            let started = target.ask(&format!("start {}", wanted.id), ask).await;
            started.map(Some).map_err(|error| told(&error))
        });
        Ok(())
    }

    /// Starts an instance and waits for its end: one answer instead of two.
    #[pyo3(signature = (token, id, name, input, options, bare))]
    fn run(
        &self,
        token: u64,
        id: String,
        name: String,
        input: &str,
        options: Option<&str>,
        bare: bool,
    ) -> PyResult<()> {
        let (target, wanted) = (self.target.clone(), Wanted::read(id, name, input, options)?);
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, wanted) = (client.clone(), wanted.clone());
                Box::pin(async move { wanted.start(client, bare).await })
            };
            match target.ask(&format!("start {}", wanted.id), ask).await {
                Ok(id) => ends(&target, &id).await,
                Err(error) => Err(told(&error)),
            }
        });
        Ok(())
    }

    fn result(&self, token: u64, id: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move { ends(&target, &id).await });
    }

    /// Sends a signal; a repeated request is the same signal.
    #[pyo3(signature = (token, id, name, json, request=None))]
    fn signal(
        &self,
        token: u64,
        id: String,
        name: String,
        json: &str,
        request: Option<String>,
    ) -> PyResult<()> {
        let sent = RawValue::from_string(json.to_string()).map_err(mistake)?;
        let request = request.unwrap_or_else(uuid);
        let (target, sent) = (self.target.clone(), Arc::new(sent));
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id, name) = (client.clone(), id.clone(), name.clone());
                let (sent, request) = (sent.clone(), request.clone());
                Box::pin(async move { client.signal_once(&id, &name, &*sent, request).await })
            };
            let told_it = target.ask("send a signal", ask).await;
            told_it.map(|()| None).map_err(|error| told(&error))
        });
        Ok(())
    }

    /// Asks an instance to end, or ends it where it stands.
    fn end(&self, token: u64, id: String, reason: String, at_once: bool) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id, reason) = (client.clone(), id.clone(), reason.clone());
                Box::pin(async move {
                    match at_once {
                        true => client.terminate(&id, &reason).await,
                        false => client.cancel(&id, &reason).await,
                    }
                })
            };
            let ended = target.ask("end an instance", ask).await;
            ended.map(|()| None).map_err(|error| told(&error))
        });
    }

    #[pyo3(signature = (token, id, run=None))]
    fn history(&self, token: u64, id: String, run: Option<u32>) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move {
                    match run {
                        Some(run) => client.run_history(&id, run).await,
                        None => client.history(&id).await,
                    }
                })
            };
            match target.ask("read a history", ask).await {
                Ok(Some(history)) => Ok(Some(history)),
                Ok(None) => Err(no_instance(&id)),
                Err(error) => Err(told(&error)),
            }
        });
    }

    /// The processes that work on the database.
    fn nodes(&self, token: u64) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let client = client.clone();
                Box::pin(async move { client.nodes().await })
            };
            value(
                target
                    .ask("list nodes", ask)
                    .await
                    .map(|nodes| nodes.iter().map(look::node).collect()),
            )
        });
    }

    fn describe(&self, token: u64, id: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move { client.describe(&id).await })
            };
            let found = target.ask("describe an instance", ask).await;
            value(found.map(|found| found.map_or(Value::Null, |it| look::description(&it))))
        });
    }

    fn attempts(&self, token: u64, id: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move { client.attempts(&id).await })
            };
            let found = target.ask("read attempts", ask).await;
            value(found.map(|rows| rows.iter().map(look::attempt).collect()))
        });
    }

    /// What an instance told the world, or an entry of its own data.
    #[pyo3(signature = (token, id, key=None))]
    fn value(&self, token: u64, id: String, key: Option<String>) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id, key) = (client.clone(), id.clone(), key.clone());
                Box::pin(async move {
                    match key {
                        Some(key) => client.value::<Value>(&id, &key).await,
                        None => client.status::<Value>(&id).await,
                    }
                })
            };
            let found = target.ask("read what an instance says", ask).await;
            value(found.map(|found| found.unwrap_or(Value::Null)))
        });
    }

    /// Instances, by a filter as JSON.
    fn list(&self, token: u64, filter: &str) -> PyResult<()> {
        let filter = read_filter(filter)?;
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, filter) = (client.clone(), filter.clone());
                Box::pin(async move { client.list(filter).await })
            };
            let found = target.ask("list instances", ask).await;
            value(found.map(|rows| rows.iter().map(look::instance).collect()))
        });
        Ok(())
    }

    /// Waits until what an instance tells the world is this, as JSON.
    #[pyo3(signature = (token, id, wanted, key=None))]
    fn wait_for(&self, token: u64, id: String, wanted: &str, key: Option<String>) -> PyResult<()> {
        let wanted: Value = serde_json::from_str(wanted).map_err(mistake)?;
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id, key) = (client.clone(), id.clone(), key.clone());
                let wanted = wanted.clone();
                Box::pin(async move {
                    let is_it = |value: &Value| *value == wanted;
                    match key {
                        Some(key) => client.wait_for_value(&id, &key, is_it).await,
                        None => client.wait_for_status(&id, is_it).await,
                    }
                })
            };
            value(target.ask(&format!("wait for what {id} says"), ask).await)
        });
        Ok(())
    }

    fn delete(&self, token: u64, id: String) {
        let target = self.target.clone();
        spawn(&self.port, token, async move {
            let ask = |client: &Client| {
                let (client, id) = (client.clone(), id.clone());
                Box::pin(async move { client.delete(&id).await })
            };
            let deleted = target.ask("delete an instance", ask).await;
            deleted.map(|()| None).map_err(|error| told(&error))
        });
    }

    fn is_owner(&self) -> bool {
        match &self.target {
            Target::Real(client) => client.is_owner(),
            Target::Test(_) => true,
        }
    }

    /// Stops in an orderly way. When this has been answered no thread has the file open: whoever
    /// forks then leaves the child no lock that nobody gives back.
    fn stop(&self, token: u64) {
        let (target, app) = (self.target.clone(), lock(&self.running).take());
        spawn(&self.port, token, async move {
            match (target, app) {
                (Target::Test(app), _) => {
                    app.stop().await;
                    Ok(None)
                }
                (Target::Real(client), Some(app)) => {
                    let stopped = app.stop().await;
                    // Nothing depends on how: it was stopped, or the error says why not.
                    let _closed = client.handle().store().close().await;
                    stopped.map(|()| None).map_err(|error| told(&error))
                }
                (_, None) => Ok(None),
            }
        });
    }

    /// Stops where it stands, as in a crash.
    fn abandon(&self) {
        drop(lock(&self.running).take());
    }

    // Only for apps under test.

    fn advance(&self, token: u64, time: f64) -> PyResult<()> {
        let (app, time) = (self.under_test()?, Duration::try_from_secs_f64(time));
        let time = time.map_err(mistake)?;
        spawn(&self.port, token, async move {
            app.advance(time).await;
            Ok(None)
        });
        Ok(())
    }

    fn restart(&self, token: u64) -> PyResult<()> {
        let app = self.under_test()?;
        spawn(&self.port, token, async move {
            app.restart().await;
            Ok(None)
        });
        Ok(())
    }

    fn attempts_of(&self, activity: &str) -> PyResult<u32> {
        Ok(self.under_test()?.attempts_of(activity))
    }

    fn commits(&self) -> PyResult<u64> {
        Ok(self.under_test()?.commits())
    }

    fn now(&self) -> PyResult<f64> {
        Ok(seconds(self.under_test()?.now()))
    }
}

impl App {
    fn under_test(&self) -> PyResult<TestApp> {
        match &self.target {
            Target::Test(app) => Ok(app.clone()),
            Target::Real(_) => Err(mistake("only a TestApp has virtual time")),
        }
    }
}

/// Waits for the end of an instance.
async fn ends(target: &Target, id: &str) -> crate::port::Answer {
    let ask = |client: &Client| {
        let (client, id) = (client.clone(), id.to_string());
        Box::pin(async move {
            match client.instance::<Box<RawValue>>(&id).await? {
                Some(instance) => instance.outcome().await.map(Some),
                None => Ok(None),
            }
        })
    };
    match target.ask(&format!("wait for {id}"), ask).await {
        Ok(Some(ended)) => outcome(Ok(ended)),
        Ok(None) => Err(no_instance(id)),
        Err(error) => Err(told(&error)),
    }
}

fn read_filter(json: &str) -> PyResult<InstanceFilter> {
    let given: Value = serde_json::from_str(json).map_err(mistake)?;
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_string);
    let mut filter = InstanceFilter {
        workflow: text("workflow"),
        schedule: text("schedule"),
        ..InstanceFilter::default()
    };
    for name in given.get("status").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let status = Status::ALL.into_iter().find(|status| status.name() == name);
        filter.status.push(status.ok_or_else(|| mistake(format!("there is no status {name:?}")))?);
    }
    if let Some((name, value)) = given.get("tag").and_then(Value::as_array).and_then(|tag| {
        Some((tag.first()?.as_str()?.to_string(), tag.get(1)?.as_str()?.to_string()))
    }) {
        filter.tag = Some((name, value));
    }
    if let Some(limit) = given.get("limit").and_then(Value::as_u64) {
        filter.limit = usize::try_from(limit).unwrap_or(usize::MAX);
    }
    if let Some(name) = given.get("compensation").and_then(Value::as_str) {
        filter.compensation = Some(match name {
            "complete" => resurgam::Compensation::Complete,
            "incomplete" => resurgam::Compensation::Incomplete,
            other => {
                return Err(mistake(format!("compensation={other:?}: complete or incomplete")));
            }
        });
    }
    if let Some(since) = given.get("since").and_then(Value::as_i64) {
        filter.since = Some(Timestamp::from_millis(since));
    }
    if let Some(after) = given.get("after").and_then(Value::as_str) {
        let wrong = |_| mistake(format!("after={after:?}: not a place in a list of instances"));
        filter.after = Some(after.parse().map_err(wrong)?);
    }
    filter.retrying = given.get("retrying").and_then(Value::as_bool).unwrap_or(false);
    Ok(filter)
}
