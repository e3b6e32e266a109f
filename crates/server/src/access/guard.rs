//! What stands before every route: who asks, where the request comes from, whether it may.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use resurgam::Code;
use utoipa_axum::router::OpenApiRouter;

use super::{Asks, Known, Role, TokenSettings, hash_of};
use crate::api::Api;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::wire;

/// The role that a group of routes needs.
#[derive(Clone)]
pub(crate) struct Needs {
    api: Api,
    role: Role,
}

impl Needs {
    pub(crate) fn new(api: &Api, role: Role) -> Self {
        Needs { api: api.clone(), role }
    }
}

/// Puts a guard before routes.
pub(crate) fn guarded(routes: OpenApiRouter<Api>, api: &Api, role: Role) -> OpenApiRouter<Api> {
    routes.route_layer(from_fn_with_state(Needs::new(api, role), guard))
}

/// The same for routes without a description.
impl Needs {
    pub(crate) fn guard(self, routes: Router<Api>) -> Router<Api> {
        routes.route_layer(from_fn_with_state(self, guard))
    }
}

async fn guard(State(needs): State<Needs>, mut request: Request, next: Next) -> Response {
    if let Some(problem) = foreign(request.method(), request.headers()) {
        return problem.into_response();
    }
    let known = match known(&needs.api, request.headers()).await {
        Ok(known) => known,
        Err(problem) => return problem.into_response(),
    };
    if let Some(known) = &known
        && !known.role.may(needs.role)
    {
        let Known { name, role, .. } = known;
        let detail = format!("token {name} has the role {role}, and this needs {}", needs.role);
        return Problem::new(StatusCode::FORBIDDEN, Code::E9, detail).into_response();
    }
    if let Some(known) = &known
        && needs.role == Role::Work
        && known.settings.no_payloads
    {
        let name = &known.name;
        let detail = format!("token {name} sees no payloads, and who runs activities needs them");
        return Problem::new(StatusCode::FORBIDDEN, Code::E9, detail).into_response();
    }
    let hides = known.as_ref().is_some_and(|known| known.settings.no_payloads);
    request.extensions_mut().insert(Caller::of(known));
    wire::hiding_payloads(hides, next.run(request)).await
}

/// Who asks; `None` where nobody must say so.
async fn known(api: &Api, headers: &HeaderMap) -> Result<Option<Known>, Problem> {
    let Some(token) = bearer(headers)? else {
        return match api.options.asks {
            Asks::IfNamed => Ok(None),
            Asks::Always => Err(Problem::unauthorized(
                "no token; send one as `Authorization: Bearer rsg_...`; `resurgam token create` \
                 makes one",
            )),
        };
    };
    if let Some(admin) = &api.options.admin
        && super::token::is_same(admin, &hash_of(token))
    {
        let name = "admin".to_string();
        let settings = TokenSettings::default();
        let id = String::new();
        return Ok(Some(Known { id, name, role: Role::Admin, settings }));
    }
    match api.tokens.find(&api.client, token).await? {
        Some(known) => Ok(Some(known)),
        None => Err(Problem::unauthorized("the token is not known, or it was revoked")),
    }
}

/// Whether who was let in with these headers would be now.
pub(crate) async fn still_lets_in(api: &Api, headers: &HeaderMap) -> bool {
    known(api, headers).await.is_ok()
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
    let token = token.map(str::trim).filter(|token| !token.is_empty());
    token
        .map(Some)
        .ok_or_else(|| Problem::unauthorized("the header Authorization is no `Bearer` and a token"))
}

/// Why a request that changes something comes from the wrong place: a page of somebody else, in the
/// browser of somebody who can reach this server.
fn foreign(method: &Method, headers: &HeaderMap) -> Option<Problem> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = |what: String| {
        let detail = format!("{what}: pages of others may not act here");
        Some(Problem::new(StatusCode::FORBIDDEN, Code::E9, detail))
    };
    if let Some(site) =
        text("sec-fetch-site").filter(|site| !["same-origin", "none"].contains(site))
    {
        return refused(format!("Sec-Fetch-Site is {site}"));
    }
    let host = text("host").unwrap_or_default();
    let origin = text("origin")?;
    let of = origin.split_once("://").map_or("", |(_, of)| of);
    match !host.is_empty() && of == host {
        true => None,
        false => refused(format!("Origin is {origin}")),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use resurgam_watchdog::test;

    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let named = |(name, value): &(&'static str, &'static str)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        list.iter().map(named).collect()
    }

    #[test]
    fn a_page_of_somebody_else_cannot_act_and_can_only_look_at_what_it_is_told() {
        let post = |list: &[(&'static str, &'static str)]| {
            foreign(&Method::POST, &headers(list)).is_none()
        };
        assert!(post(&[("host", "a:1")]), "a program sends no origin");
        assert!(post(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(post(&[("host", "a:1"), ("sec-fetch-site", "same-origin")]));
        assert!(!post(&[("host", "a:1"), ("origin", "http://b:1")]));
        assert!(!post(&[("host", "a:1"), ("origin", "null")]));
        assert!(!post(&[("host", "a:1"), ("sec-fetch-site", "cross-site")]));
        assert!(!post(&[("origin", "http://a:1")]));
        let get = headers(&[("host", "a:1"), ("origin", "http://b:1")]);
        assert!(foreign(&Method::GET, &get).is_none(), "no answer lets a foreign page read it");
    }

    #[test]
    fn a_token_is_a_bearer() {
        let read = |value: &'static str| {
            bearer(&headers(&[("authorization", value)])).ok().flatten().is_some()
        };
        assert!(read("Bearer rsg_1_2"));
        assert!(!read("Basic rsg_1_2") && !read("Bearer ") && !read("rsg_1_2"));
        assert_eq!(bearer(&HeaderMap::new()).ok(), Some(None));
    }
}
