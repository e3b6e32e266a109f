//! Logging in with a browser: a token is exchanged for a cookie.

use std::net::IpAddr;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{begin_login, end_login};
use crate::api::Api;
use crate::extract::Body;
use crate::problem::Problem;
use crate::serve::Peer;
use crate::wire::rfc3339;

/// Open to everybody: what is given decides.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(begin, end))
}

/// Who wants to be let in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// Who was let in.
#[derive(Serialize, ToSchema)]
struct Begun {
    /// The name of the token.
    name: String,
    /// read, operate, work or admin
    role: String,
    ends_at_ms: i64,
    ends_at: String,
}

/// What an answer says to the browser about its cookie.
type WithCookie<T> = Result<([(HeaderName, String); 1], Json<T>), Problem>;

/// Exchanges a token for a cookie
///
/// The cookie lasts for twelve hours, and no longer than the token. A program has no need of it: it
/// sends its token with each request.
#[utoipa::path(
    post, path = "/api/v1/login", tag = "system", request_body = Login,
    responses((status = OK, body = Begun))
)]
async fn begin(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Body(login): Body<Login>,
) -> WithCookie<Begun> {
    let peer = peer.map(|Extension(Peer(peer))| peer_behind(&api, peer, &headers));
    let begun = begin_login(&api, &login.token, peer, &headers).await?;
    let told = Begun {
        name: begun.known.name,
        role: begun.known.role.name().to_string(),
        ends_at_ms: begun.ends_at.as_millis(),
        ends_at: rfc3339(begun.ends_at),
    };
    Ok(([(header::SET_COOKIE, begun.cookie)], Json(told)))
}

/// Who asks through a proxy whose word is taken; otherwise whoever has connected.
fn peer_behind(api: &Api, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let is_trusted = api.options.proxies.iter().any(|network| network.contains(peer));
    let told = headers.get("x-forwarded-for").filter(|_| is_trusted);
    let told = told.and_then(|told| told.to_str().ok());
    // The proxy has added the last one; what stands before it anybody may have written.
    let last = told.and_then(|told| told.rsplit(',').next()?.trim().parse().ok());
    last.unwrap_or(peer)
}

/// What has ended.
#[derive(Serialize, ToSchema)]
struct Ended {
    /// There was a login.
    ended: bool,
}

/// Ends the login of a browser
#[utoipa::path(
    delete, path = "/api/v1/login", tag = "system", responses((status = OK, body = Ended))
)]
async fn end(State(api): State<Api>, headers: HeaderMap) -> WithCookie<Ended> {
    let (ended, forget) = end_login(&api, &headers).await?;
    Ok(([(header::SET_COOKIE, forget)], Json(Ended { ended })))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use resurgam_watchdog::test;

    use super::*;
    use crate::Options;

    #[test]
    async fn who_asks_through_a_proxy_is_known_where_its_word_is_taken() {
        let app = resurgam_testing::TestApp::builder().start().await;
        let options = Options::default().trusted_proxy("10.0.0.0/8".parse().unwrap());
        let api = Api::new(&app.client(), options);
        let told = HeaderValue::from_static("1.1.1.1, 2.2.2.2");
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), told)]);
        let of = |peer: &str| peer_behind(&api, peer.parse().unwrap(), &headers).to_string();
        assert_eq!((of("10.0.0.1"), of("11.0.0.1")), ("2.2.2.2".into(), "11.0.0.1".into()));
    }
}
