//! API tokens: making, listing and revoking them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::access::{NewToken, Role, Token, TokenSettings};
use crate::api::Api;
use crate::audit::Did;
use crate::caller::Caller;
use crate::extract::{Body, Path};
use crate::problem::Problem;
use crate::wire::{Page, both, rfc3339};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(make)).routes(routes!(revoke))
}

/// A token, without what lets in.
#[derive(Serialize, ToSchema)]
struct Shown {
    id: String,
    name: String,
    /// read, operate, work or admin; null when this version does not know it: it lets nobody in
    role: Option<String>,
    no_payloads: bool,
    queues: Vec<String>,
    namespace: Option<String>,
    start: bool,
    polls: Option<usize>,
    by: String,
    created_at_ms: i64,
    created_at: String,
    revoked_at_ms: Option<i64>,
    revoked_at: Option<String>,
}

impl From<&Token> for Shown {
    fn from(token: &Token) -> Self {
        let (revoked_at_ms, revoked_at) = both(token.revoked_at);
        let TokenSettings { no_payloads, queues, namespace, start, polls } = token.settings.clone();
        Shown {
            id: token.id.clone(),
            name: token.name.clone(),
            role: token.role.map(|role| role.name().to_string()),
            no_payloads,
            queues,
            namespace,
            start,
            polls,
            by: token.by.clone(),
            created_at_ms: token.created_at.as_millis(),
            created_at: rfc3339(token.created_at),
            revoked_at_ms,
            revoked_at,
        }
    }
}

/// Lists tokens, those that were revoked too
#[utoipa::path(
    get, path = "/api/v1/tokens", tag = "system", responses((status = OK, body = Page<Shown>))
)]
async fn list(State(api): State<Api>) -> Reply<Page<Shown>> {
    let found = Token::all(&api.client).await?;
    Ok(Json(Page { items: found.iter().map(Shown::from).collect(), cursor: None }))
}

/// A token that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    /// read, operate, work or admin
    role: String,
    /// It sees no payloads.
    #[serde(default)]
    no_payloads: bool,
    /// The queues of which it may run activities; all when there are none.
    #[serde(default)]
    queues: Vec<String>,
    /// The namespace that it is for: of its queue, `ns:NAMESPACE`, it may run activities, too.
    namespace: Option<String>,
    /// work: it may start instances, on its queues where it has some.
    #[serde(default)]
    start: bool,
    /// How many of its requests wait at once; as the server says unless given.
    polls: Option<usize>,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
struct Made {
    #[serde(flatten)]
    token: Shown,
    /// What lets in. It is shown once, and stored nowhere.
    secret: String,
}

/// Makes a token
#[utoipa::path(
    post, path = "/api/v1/tokens", tag = "system", request_body = Wanted,
    responses((status = CREATED, body = Made))
)]
async fn make(
    State(api): State<Api>,
    caller: Caller,
    Body(wanted): Body<Wanted>,
) -> Result<(StatusCode, Json<Made>), Problem> {
    let Wanted { name, role, no_payloads, queues, namespace, start, polls } = wanted;
    let settings = TokenSettings { no_payloads, queues, namespace, start, polls };
    let role: Role = role.parse().map_err(|why| Problem::invalid(format!("role: {why}")))?;
    let new = NewToken::new(name, role).by(caller.signs(None));
    let (token, secret) = new.settings(settings).make(&api.client).await?;
    let told = format!("made the token {} with the role {role}", token.name);
    api.record(&caller, None, None, Did::new("token", &token.id, told)).await;
    Ok((StatusCode::CREATED, Json(Made { token: Shown::from(&token), secret })))
}

/// What was revoked.
#[derive(Serialize, ToSchema)]
struct Revoked {
    revoked: bool,
}

/// Revokes a token: within two seconds it lets nobody in any more
#[utoipa::path(
    delete, path = "/api/v1/tokens/{id}", tag = "system",
    params(("id" = String, Path, description = "The id of the token, which is no secret")),
    responses((status = OK, body = Revoked))
)]
async fn revoke(State(api): State<Api>, Path(id): Path<String>, caller: Caller) -> Reply<Revoked> {
    match Token::revoke(&api.client, &id).await? {
        true => {
            let did = Did::new("token", &id, format!("revoked the token {id}"));
            api.record(&caller, None, None, did).await;
            Ok(Json(Revoked { revoked: true }))
        }
        false => Err(Problem::missing(format!("there is no token {id}, or it was revoked before"))),
    }
}
