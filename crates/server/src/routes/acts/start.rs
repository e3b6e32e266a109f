//! Starting instances: a workflow by its name, a program, a graph, or an activity by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use resurgam::{Client, IfExists, InstanceRow, Payload, Start};
use resurgam_graph::Template;
use resurgam_ir::Program;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Why, policy};
use crate::api::Api;
use crate::audit::Did;
use crate::caller::{Caller, RequestKey};
use crate::extract::Body;
use crate::problem::Problem;
use crate::routes::graphs::graph_of;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(start))
}

/// What is to be started. One of `program`, `graph`, `graph_template` and `activity`, or `workflow`
/// alone.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewInstance {
    /// The id; made up unless given.
    id: Option<String>,
    /// A workflow by its name; for a program or a graph, the name that lists show.
    workflow: Option<String>,
    /// The text of a program.
    program: Option<String>,
    /// The dialect of the program: rappel or waymark; guessed unless given.
    dialect: Option<String>,
    /// A graph template.
    graph: Option<Value>,
    /// A graph that is kept, by its name.
    graph_template: Option<String>,
    /// An activity that runs by itself, with its own policy.
    activity: Option<String>,
    /// The arguments: an object with a key for each.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// Values of the store of a graph.
    store: Option<Map<String, Value>>,
    /// What follows when the id is taken: refuse, use_running, replace_closed or
    /// use_running_or_replace; refuse unless given.
    #[serde(default)]
    if_exists: Taken,
    queue: Option<String>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// The policy of the workflow, or of the activity that runs by itself.
    retry: Option<Value>,
    run_timeout_ms: Option<u64>,
    total_timeout_ms: Option<u64>,
    delay_ms: Option<u64>,
    /// Who starts it. It is recorded beside the name of the token.
    by: Option<String>,
    reason: Option<String>,
}

/// What follows when an id is taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Taken {
    #[default]
    Refuse,
    UseRunning,
    ReplaceClosed,
    UseRunningOrReplace,
}

impl From<Taken> for IfExists {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Refuse => IfExists::Refuse,
            Taken::UseRunning => IfExists::UseRunning,
            Taken::ReplaceClosed => IfExists::ReplaceClosed,
            Taken::UseRunningOrReplace => IfExists::UseRunningOrReplace,
        }
    }
}

/// What was started.
#[derive(Serialize, ToSchema)]
struct Begun {
    uid: String,
    id: String,
    workflow: String,
}

/// Starts an instance
///
/// It is durable when this answers. With an `Idempotency-Key` a repeated request is the first one.
#[utoipa::path(
    post, path = "/api/v1/instances", tag = "instances",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeat one request")),
    request_body = NewInstance,
    responses((status = CREATED, body = Begun), (status = OK, body = Begun))
)]
async fn start(
    State(api): State<Api>,
    caller: Caller,
    RequestKey(key): RequestKey,
    Body(mut new): Body<NewInstance>,
) -> Result<(StatusCode, Json<Begun>), Problem> {
    new.queue = caller.starts_on(new.queue.take())?;
    let what = match new.graph_template.take() {
        None => new.read()?,
        Some(name) => new.kept(&api, &name).await?,
    };
    let id = new.id.clone().unwrap_or_else(|| what.made_up_id(&api.client));
    let workflow = what.workflow.clone();
    let start = new.with_options(what.begin(&api.client, id), key.clone())?;
    if let Some(key) = &key
        && let Some(before) = api.client.started_by(key).await?
    {
        let is_id = new.id.as_ref().is_none_or(|id| *id == before.id);
        if !is_id || !start.is_repeat_of(&before).await? {
            return Err(Problem::another_body(key));
        }
        let InstanceRow { uid, id, workflow, .. } = before;
        return Ok((StatusCode::OK, Json(Begun { uid: uid.to_string(), id, workflow })));
    }
    let started = start.await?;
    let (uid, id) = (started.uid().to_string(), started.id().to_string());
    let did = Did::new("start", &uid, format!("started {id}, which runs {workflow}"));
    Why { by: new.by, reason: new.reason }.record(&api, &caller, did).await;
    Ok((StatusCode::CREATED, Json(Begun { uid, id, workflow })))
}

/// A workflow, or an activity by itself, with its argument.
struct What {
    workflow: String,
    activity: Option<String>,
    argument: Payload,
}

impl NewInstance {
    fn read(&self) -> Result<What, Problem> {
        let NewInstance { workflow, program, graph, activity, .. } = self;
        let named = |usual: &str| workflow.clone().unwrap_or_else(|| usual.to_string());
        match (program, graph, activity, workflow) {
            (Some(text), None, None, _) => {
                let argument = self.program(text)?;
                Ok(What { workflow: named("program"), activity: None, argument })
            }
            (None, Some(graph), None, _) => {
                let argument = self.graph(graph, None)?;
                Ok(What { workflow: named("graph"), activity: None, argument })
            }
            (None, None, Some(activity), None) => {
                let argument = self.argument();

                Ok(What {
                    workflow: Client::BARE_ACTIVITY.to_string(),
                    activity: Some(activity.clone()),
                    argument,
                })
            }
            (None, None, None, Some(workflow)) => {
                let argument = self.argument();
                Ok(What { workflow: workflow.clone(), activity: None, argument })
            }
            _ => Err(Problem::invalid(
                "start an instance: name a workflow, or give one of program, graph, graph_template \
                 and activity",
            )),
        }
    }

    fn argument(&self) -> Payload {
        Payload::from_text(self.input.as_ref().map_or("{}", |input| input.get()))
    }

    fn program(&self, text: &str) -> Result<Payload, Problem> {
        let dialect = self.dialect.as_deref().map(|name| {
            let known = resurgam_ir::Dialect::named(name);
            known.ok_or_else(|| {
                Problem::invalid(format!("dialect={name:?}: write rappel or waymark"))
            })
        });
        let program = Program::read("program", text, dialect.transpose()?);
        let program = program.map_err(|errors| Problem::of_program(&errors))?;
        let inputs = serde_json::from_str(self.argument().as_str());
        let inputs = inputs.map_err(|error| Problem::invalid(format!("input: {error}")))?;
        let input = program.input(inputs);
        encoded(&input.map_err(|wrong| Problem::invalid(format!("input: {}", wrong.join("; "))))?)
    }

    /// A graph that is kept, with the secrets that are kept with it.
    async fn kept(&self, api: &Api, name: &str) -> Result<What, Problem> {
        let NewInstance { workflow, program, graph, activity, .. } = self;
        if program.is_some() || graph.is_some() || activity.is_some() {
            let detail = "start an instance: `graph_template` stands alone, or beside `workflow`";
            return Err(Problem::invalid(detail));
        }
        let row = graph_of(api, name).await?;
        let graph = serde_json::from_str(&row.template);
        let graph: Value =
            graph.map_err(|error| Problem::invalid(format!("read graph {name}: {error}")))?;
        let argument = self.graph(&graph, Some(row.secrets))?;
        let workflow = workflow.clone().unwrap_or_else(|| "graph".to_string());
        Ok(What { workflow, activity: None, argument })
    }

    fn graph(&self, graph: &Value, stored_secrets: Option<String>) -> Result<Payload, Problem> {
        let template = Template::from_value(graph);
        let template = template.map_err(|problems| Problem::of_input("graph", &problems))?;
        let inputs = serde_json::from_str(self.argument().as_str());
        let start = resurgam_graph::Start {
            inputs: inputs.map_err(|error| Problem::invalid(format!("input: {error}")))?,
            store: self.store.clone().unwrap_or_default(),
            stored_secrets,
            ..resurgam_graph::Start::default()
        };
        let started = template.start(&start);
        encoded(&started.map_err(|problems| Problem::of_input("graph", &problems))?.run)
    }

    fn with_options(
        &self,
        mut start: Start<Value>,
        key: Option<String>,
    ) -> Result<Start<Value>, Problem> {
        start = start.if_exists(self.if_exists.into()).priority(self.priority);
        for (name, value) in &self.tags {
            start = start.tag(name, value);
        }
        if let Some(queue) = &self.queue {
            start = start.queue(queue);
        }
        if let Some(key) = key {
            start = start.request_id(key);
        }
        if let Some(retry) = &self.retry {
            start = start.retry(policy(retry)?);
        }
        if let Some(ms) = self.run_timeout_ms {
            start = start.run_timeout(Duration::from_millis(ms));
        }
        if let Some(ms) = self.total_timeout_ms {
            start = start.total_timeout(Duration::from_millis(ms));
        }
        if let Some(ms) = self.delay_ms {
            start = start.delay(Duration::from_millis(ms));
        }
        Ok(start)
    }
}

fn encoded(argument: &impl Serialize) -> Result<Payload, Problem> {
    let encoded = Payload::encode(argument);
    encoded.map_err(|error| Problem::invalid(format!("write the argument: {error}")))
}

impl What {
    fn made_up_id(&self, client: &Client) -> String {
        let name = self.activity.as_ref().unwrap_or(&self.workflow);
        format!("{name}-{}", client.handle().new_name())
    }

    fn begin(&self, client: &Client, id: String) -> Start<Value> {
        // As it stands, and not taken apart and put together again.
        let argument = crate::wire::value(&self.argument);
        match &self.activity {
            Some(activity) => client.submit_named(id, activity, &argument),
            None => client.start_named(id, &self.workflow, &argument),
        }
    }
}
