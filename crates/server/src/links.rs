//! The way to what an answer names, as whoever asks would write it.
//!
//! The router does not know where it is mounted, and a proxy may have taken a part of the path away
//! before a request comes here. So the beginning of links is found for each request: what the
//! options say ([`Options::base_path`](crate::Options::base_path)), else what a trusted proxy and
//! an outer router have taken from the path.

use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::api::Api;
use crate::serve::Peer;

tokio::task_local! {
    /// What paths begin with while an answer is made.
    static BASE: String;
}

/// The way to a path of the API.
pub(crate) fn link(path: &str) -> String {
    BASE.try_with(|base| format!("{base}{path}")).unwrap_or_else(|_| path.to_string())
}

/// What paths begin with, outside of every router.
pub(crate) fn base() -> String {
    BASE.try_with(String::clone).unwrap_or_default()
}

/// A path as the beginning of others: it begins with a slash, and ends with none.
pub(crate) fn as_base(path: &str) -> String {
    match path.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

/// Answers with links that lead back to where the API is mounted.
pub(crate) async fn with_links(State(api): State<Api>, request: Request, next: Next) -> Response {
    let base = match api.options.base.as_str() {
        "" => format!("{}{}", forwarded(&api, &request), mounted_at(&request)),
        base => base.to_string(),
    };
    BASE.scope(base, next.run(request)).await
}

/// What a proxy says that it has taken from the path, if that counts.
fn forwarded(api: &Api, request: &Request) -> String {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let counts = peer.is_some_and(|peer| api.options.proxies.iter().any(|it| it.contains(peer)));
    let prefix = request.headers().get("x-forwarded-prefix").filter(|_| counts);
    let prefix = prefix.and_then(|prefix| prefix.to_str().ok());
    as_base(prefix.unwrap_or_default())
}

/// What outer routers have taken from the path.
fn mounted_at(request: &Request) -> &str {
    let outer = request.extensions().get::<OriginalUri>().map(|uri| uri.0.path());
    outer.and_then(|outer| outer.strip_suffix(request.uri().path())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_base_begins_with_a_slash_and_ends_with_none() {
        for (given, base) in [("", ""), ("/", ""), ("ops", "/ops"), ("/ops/a/", "/ops/a")] {
            assert_eq!(as_base(given), base);
        }
    }

    #[test]
    async fn a_link_begins_with_the_base_of_its_request() {
        assert_eq!(link("/a"), "/a");
        BASE.scope("/ops".to_string(), async { assert_eq!(link("/a"), "/ops/a") }).await;
    }
}
