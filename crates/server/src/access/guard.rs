//! What stands before every route: who asks, where the request comes from, whether it may.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use resurgam::Code;
use utoipa_axum::router::OpenApiRouter;

use super::{Asks, Known, Role, hash_of, login};
use crate::api::Api;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::wire;

/// The role that a group of routes needs.
#[derive(Clone)]
pub(crate) struct Needs {
    api: Api,
    role: Role,
    /// Tokens of workers will do, where they may start instances.
    or_starts: bool,
}

impl Needs {
    pub(crate) fn new(api: &Api, role: Role) -> Self {
        Needs { api: api.clone(), role, or_starts: false }
    }

    /// Whether this token will do.
    fn lets(&self, known: &Known) -> bool {
        let starts = known.role == Role::Work && known.settings.start;
        known.role.may(self.role) || (self.or_starts && starts)
    }
}

/// Puts a guard before routes.
pub(crate) fn guarded(routes: OpenApiRouter<Api>, api: &Api, role: Role) -> OpenApiRouter<Api> {
    routes.route_layer(from_fn_with_state(Needs::new(api, role), guard))
}

/// Puts a guard before routes that start instances.
pub(crate) fn guarded_start(routes: OpenApiRouter<Api>, api: &Api) -> OpenApiRouter<Api> {
    let needs = Needs { or_starts: true, ..Needs::new(api, Role::Operate) };
    routes.route_layer(from_fn_with_state(needs, guard))
}

/// The same for routes without a description.
impl Needs {
    pub(crate) fn guard(self, routes: Router<Api>) -> Router<Api> {
        routes.route_layer(from_fn_with_state(self, guard))
    }
}

/// Puts before routes that are open to everybody that no page of somebody else may ask them.
pub(crate) fn from_here(routes: OpenApiRouter<Api>) -> OpenApiRouter<Api> {
    routes.route_layer(from_fn(async |request: Request, next: Next| {
        match foreign(request.method(), request.headers()) {
            Some(problem) => problem.into_response(),
            None => next.run(request).await,
        }
    }))
}

async fn guard(State(needs): State<Needs>, mut request: Request, next: Next) -> Response {
    let (method, headers) = (request.method(), request.headers());
    if let Some(problem) = foreign(method, headers).or_else(|| unproven(method, headers)) {
        return problem.into_response();
    }
    let known = match known(&needs.api, request.headers()).await {
        Ok(known) => known,
        Err(problem) => return problem.into_response(),
    };
    if let Some(known) = &known
        && !needs.lets(known)
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
        match (login::known(api, headers).await, api.options.asks) {
            (Ok(Some(known)), _) => return Ok(Some(known)),
            // A cookie of another server on this host, or one that is over, keeps nobody out.
            (Err(problem), Asks::IfNamed) if problem.status() == StatusCode::UNAUTHORIZED => {}
            (Err(problem), _) => return Err(problem),
            (Ok(None), _) => {}
        }
        return match api.options.asks {
            Asks::IfNamed => Ok(None),
            Asks::Always => Err(Problem::unauthorized(
                "no token; send one as `Authorization: Bearer rsg_...`; `resurgam token create` \
                 makes one",
            )),
        };
    };
    match api.token_of(token).await? {
        Some((known, _)) => Ok(Some(known)),
        None => Err(Problem::unauthorized("the token is not known, or it was revoked")),
    }
}

impl Api {
    /// The token of a text, when it lets in, with its hash.
    pub(super) async fn token_of(&self, text: &str) -> Result<Option<(Known, String)>, Problem> {
        if let Some(admin) = &self.options.admin
            && super::token::is_same(admin, &hash_of(text))
        {
            return Ok(Some((Known::admin(), admin.clone())));
        }
        Ok(self.tokens.find(&self.client, text).await?)
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

/// Why a request that changes something and carries a login is refused: a browser adds the cookie
/// by itself, so it must also say that the request comes from our own pages. Who names a token has
/// shown that already: no page of somebody else knows it.
fn unproven(method: &Method, headers: &HeaderMap) -> Option<Problem> {
    let is_safe = matches!(*method, Method::GET | Method::HEAD);
    if is_safe || headers.contains_key(header::AUTHORIZATION) || !login::is_carried(headers) {
        return None;
    }
    // Where they are given, they were found to be right.
    let site = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    if site || headers.contains_key(header::ORIGIN) {
        return None;
    }
    let detail = "the request carries a login, and neither Origin nor Sec-Fetch-Site says that it \
                  comes from a page of this server; a program sends a token";
    Some(Problem::new(StatusCode::FORBIDDEN, Code::E9, detail))
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
    fn who_acts_by_a_login_shows_that_the_request_comes_from_our_pages() {
        let post = |list: &[(&'static str, &'static str)]| {
            unproven(&Method::POST, &headers(list)).is_none()
        };
        let cookie = ("cookie", "resurgam_login=00ff");
        assert!(!post(&[cookie]) && !post(&[cookie, ("sec-fetch-site", "none")]));
        assert!(post(&[cookie, ("origin", "http://a:1")]));
        assert!(post(&[cookie, ("sec-fetch-site", "same-origin")]));
        assert!(post(&[cookie, ("authorization", "Bearer rsg_1_2")]));
        assert!(post(&[("cookie", "other=1")]) && post(&[]));
        assert!(unproven(&Method::GET, &headers(&[cookie])).is_none());
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
