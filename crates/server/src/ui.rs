//! The dashboard: pages that are part of the program, without a build step.
//!
//! The pages are in `ui/`. They ask the API like any other program, so they are served to whoever
//! asks for them, and what they show is what the API shows to the token of whoever looks. `/` leads
//! to `ui/`; everything else of it lies below a name made of its content, so that a browser may
//! keep it for ever and never mixes two versions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use sha2::{Digest, Sha256};

use crate::api::Api;
use crate::compress::{gzip, takes_gzip};
use crate::problem::Problem;

/// A file of the dashboard.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($kind:literal: $($name:literal)*;)*) => {
        &[$($(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("../ui/", $name)),
        },)*)*]
    };
}

const ASSETS: &[Asset] = assets! {
    "text/css; charset=utf-8": "style.css" "views.css" "small.css";
    "image/svg+xml": "icon.svg";
    "text/javascript; charset=utf-8":
        "main.js" "shell.js" "keys.js" "address.js" "api.js" "live.js" "offers.js" "words.js" "shapes.js" "parts.js"
        "acts.js" "deed.js" "bulk.js" "payload.js" "band.js" "flight.js" "now.js" "instances.js"
        "instance.js" "call.js" "gates.js" "inbox.js" "schedules.js" "workers.js" "lists.js" "history.js"
        "explain.js" "pressure.js" "changed.js" "activities.js" "lab.js" "whatif.js"
        "vendor/preact.mjs" "vendor/hooks.mjs" "vendor/htm.mjs" "vendor/html.js";
};

/// The first page. `BUILD` stands where the name made of the content is to stand.
const PAGE: &str = include_str!("../ui/index.html");

/// A name made of all content.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    hash.update(PAGE);
    for asset in ASSETS {
        hash.update(asset.name);
        hash.update(asset.bytes);
    }
    let mut name = String::new();
    for byte in hash.finalize().iter().take(8) {
        write!(name, "{byte:02x}").expect("a text takes everything");
    }
    name
});

/// The files with gzip, by their names: what is asked for again and again is compressed once.
static COMPRESSED: LazyLock<HashMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
    ASSETS.iter().map(|asset| (asset.name, gzip(asset.bytes, Compression::best()))).collect()
});

/// The pages, which anybody may have: there is nothing in them.
pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/", get(entrance))
        .route("/ui/", get(page))
        .route("/ui/{build}/{*name}", get(asset))
}

/// Leads from where the API is mounted to the pages. The way is relative: a proxy may have taken a
/// part of the path away.
async fn entrance(OriginalUri(uri): OriginalUri) -> Response {
    let way = match uri.path().rsplit('/').next() {
        None | Some("") => "ui/".to_string(),
        Some(last) => format!("{last}/ui/"),
    };
    match HeaderValue::from_str(&way) {
        Ok(way) => (StatusCode::SEE_OTHER, [(header::LOCATION, way)]).into_response(),
        Err(_) => Problem::missing("the path is no address").into_response(),
    }
}

async fn page(State(api): State<Api>, headers: HeaderMap) -> Response {
    // The pages ask for switches where there are some, which is hardly anywhere.
    let (page, kind) = match api.options.switches.is_empty() {
        true => (PAGE.to_string(), ""),
        false => (PAGE.replace("<body>", "<body data-switches>"), "-switches"),
    };
    // Weak, because it names the page in every form, also compressed.
    let tag = format!("W/\"{}{kind}\"", *BUILD);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let kept = [(header::CACHE_CONTROL, "no-cache".to_string()), (header::ETAG, tag)];
    if known {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (kept, kind, page.replace("BUILD", &BUILD)).into_response()
}

async fn asset(Path((build, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    if let Some(answer) = from_disk(&name) {
        return answer;
    }
    let found = ASSETS.iter().find(|asset| asset.name == name && build == *BUILD);
    match found {
        Some(asset) => {
            let for_ever = "public, max-age=31536000, immutable";
            let kind = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, for_ever)];
            match COMPRESSED.get(asset.name).filter(|_| takes_gzip(&headers)) {
                Some(bytes) => {
                    let how =
                        [(header::CONTENT_ENCODING, "gzip"), (header::VARY, "accept-encoding")];
                    (kind, how, bytes.as_slice()).into_response()
                }
                None => (kind, asset.bytes).into_response(),
            }
        }
        None => Problem::missing("this server has another version of its pages; load them anew")
            .into_response(),
    }
}

/// A file as it is on the disk, where `RESURGAM_UI` names the folder of the pages: whoever changes
/// them need not build for each look. Programs that are released know nothing of it.
#[cfg(debug_assertions)]
fn from_disk(name: &str) -> Option<Response> {
    let folder = std::path::PathBuf::from(std::env::var_os("RESURGAM_UI")?);
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let bytes = std::fs::read(folder.join(name)).ok()?;
    let headers = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "no-store")];
    Some((headers, bytes).into_response())
}

#[cfg(not(debug_assertions))]
fn from_disk(_name: &str) -> Option<Response> {
    None
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use resurgam_watchdog::test;

    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("ui")
    }

    /// What no browser asks for.
    fn is_for_people(name: &str) -> bool {
        let endings = [".html", ".md", ".d.mts", ".json"];
        endings.iter().any(|ending| name.ends_with(ending))
    }

    #[test]
    fn every_file_of_the_pages_is_served_and_none_that_is_not_there() {
        let mut found = Vec::new();
        let mut folders = vec![folder()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).expect("the pages") {
                let path = entry.expect("a file").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(folder()).expect("it is in there");
                        found.push(name.to_str().expect("a plain name").replace('\\', "/"));
                    }
                }
            }
        }
        found.retain(|name| !is_for_people(name) && !name.contains("LICENSE"));
        found.sort();
        let mut served: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        served.sort_unstable();
        assert_eq!(found, served);
    }

    /// Everything that a browser loads, each file packed by itself as it is sent.
    #[test]
    fn all_pages_together_are_120_kb_with_gzip_at_most() {
        let page = gzip(PAGE.as_bytes(), Compression::best()).len();
        let size = page + COMPRESSED.values().map(Vec::len).sum::<usize>();
        assert!(size <= 120_000, "{size} bytes with gzip");
    }
}
