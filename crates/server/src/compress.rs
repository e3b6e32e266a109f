//! Bodies with gzip: of requests, and of answers to those who take it.
//!
//! A request is inflated where its body is read, so behind the question who asks, and never to more
//! than a body may have. An answer is compressed when it is whole: a stream of events goes out as
//! it is, because whoever waits for a hint would wait for the rest of a block.

use std::io::{Read, Write};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use resurgam::Code;

use crate::api::LARGEST_BODY;
use crate::problem::Problem;

/// What is shorter goes out as it is.
const SHORT: u64 = 1_000;

/// What is longer is worked on beside other requests, and not between them.
const LONG: usize = 256 << 10;

/// A request with the body that was meant, when it came compressed.
pub(crate) async fn inflated(request: Request) -> Result<Request, Problem> {
    let Some(encoding) = request.headers().get(header::CONTENT_ENCODING) else {
        return Ok(request);
    };
    match encoding.to_str().map(str::to_ascii_lowercase).as_deref() {
        Ok("identity" | "") => return Ok(request),
        Ok("gzip" | "x-gzip") => {}
        other => {
            let given = other.unwrap_or("something else");
            let detail = format!("read the body: its Content-Encoding is {given}; send gzip");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::E9, detail));
        }
    }
    let (mut parts, body) = request.into_parts();
    let compressed = to_bytes(body, LARGEST_BODY).await.map_err(|_| too_large())?;
    let plain = beside(compressed, inflate).await??;
    parts.headers.remove(header::CONTENT_ENCODING);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(plain.len()));
    Ok(Request::from_parts(parts, Body::from(plain)))
}

fn inflate(compressed: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut plain = Vec::new();
    let most = LARGEST_BODY as u64 + 1;
    let read = MultiGzDecoder::new(compressed).take(most).read_to_end(&mut plain);
    read.map_err(|error| Problem::unreadable(format!("read the body: it is no gzip: {error}")))?;
    if plain.len() > LARGEST_BODY { Err(too_large()) } else { Ok(plain) }
}

fn too_large() -> Problem {
    let detail = format!("read the body: it has more than {} MiB", LARGEST_BODY >> 20);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Code::E6, detail)
}

/// Compresses what is answered to those who take gzip.
pub(crate) async fn compressed(request: Request, next: Next) -> Response {
    let takes = takes_gzip(request.headers());
    let response = next.run(request).await;
    let bytes = response.body().size_hint().exact();
    if !can_be_compressed(&response) || bytes.is_none_or(|bytes| bytes < SHORT) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Also where it is not compressed this time: a cache must not give it to others.
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !takes {
        return Response::from_parts(parts, body);
    }
    // It is in memory, so it is neither late nor too large.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match beside(plain.clone(), |plain| gzip(plain, Compression::fast())).await {
        Ok(compressed) if compressed.len() < plain.len() => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(compressed.len()));
            Response::from_parts(parts, Body::from(compressed))
        }
        _ => Response::from_parts(parts, Body::from(plain)),
    }
}

/// Whether an answer may be sent in another form than it has.
fn can_be_compressed(response: &Response) -> bool {
    let headers = response.headers();
    let has = |name: header::HeaderName, text: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.contains(text))
    };
    let is_stream = has(header::CONTENT_TYPE, "text/event-stream");
    // A cookie is a secret of its own; it never shares a block with what somebody else wrote.
    let is_kept = has(header::CACHE_CONTROL, "no-transform")
        || headers.contains_key(header::SET_COOKIE)
        || headers.contains_key(header::CONTENT_ENCODING);
    !is_stream && !is_kept
}

/// Whether whoever asks takes gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter();
    let named = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut any = None;
    for coding in named {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight: f32 =
            weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()).unwrap_or(1.0);
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => return weight > 0.0,
            "*" => any = Some(weight > 0.0),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

/// A text with gzip.
pub(crate) fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 3), level);
    let written = encoder.write_all(plain);
    debug_assert!(written.is_ok(), "a list takes everything");
    encoder.finish().unwrap_or_default()
}

/// Works on bytes, beside other requests where it takes a while.
async fn beside<T: Send + 'static>(
    bytes: Bytes,
    work: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, Problem> {
    if bytes.len() < LONG {
        return Ok(work(&bytes));
    }
    tokio::task::spawn_blocking(move || work(&bytes)).await.map_err(|_| {
        let detail = "read the body: the server is about to end";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::E8, detail)
    })
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn takes(encoding: &'static str) -> bool {
        let value = HeaderValue::from_static(encoding);
        takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
    }

    #[test]
    fn who_takes_gzip_says_so() {
        assert!(takes("gzip") && takes("br, GZIP;q=0.5") && takes("*") && takes("gzip, *;q=0"));
        assert!(!takes("br") && !takes("gzip;q=0, *") && !takes("") && !takes("*;q=0"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_inflated_is_what_was_compressed_and_never_too_large() {
        let text = "many words ".repeat(1_000);
        let compressed = gzip(text.as_bytes(), Compression::fast());
        assert!(compressed.len() < 200);
        assert_eq!(inflate(&compressed).ok(), Some(text.into_bytes()));
        let bomb = gzip(&vec![0; LARGEST_BODY + 1], Compression::best());
        assert_eq!(inflate(&bomb).unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(inflate(b"{}").unwrap_err().status(), StatusCode::BAD_REQUEST);
    }
}
