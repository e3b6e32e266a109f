//! Reading requests: as axum does, with our problems where a request cannot be read.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::{Json, http::StatusCode};
use resurgam::{Code, Uid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::compress::inflated;
use crate::names;
use crate::problem::Problem;
use crate::serve::Arrives;

/// What stands behind the question mark. A name that nobody knows is refused: a filter that is
/// misspelt would find too much.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(query)| Query(query)).map_err(|rejection: QueryRejection| {
            Problem::unreadable(format!("read the query: {}", cause(&rejection)))
        })
    }
}

/// What stands in the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(path)| Path(path)).map_err(|rejection: PathRejection| {
            Problem::unreadable(format!("read the path: {}", cause(&rejection)))
        })
    }
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        // Where nothing says how long it may take, somebody else serves, and sees to that.
        let arrives = request.extensions().get::<Arrives>().copied();
        let reading = async { Ok(Json::from_request(inflated(request).await?, state).await) };
        let read: Result<_, Problem> = match arrives {
            Some(Arrives(time)) => tokio::time::timeout(time, reading).await.map_err(|_| {
                let detail = format!("read the body: it had not arrived after {time:?}");
                Problem::new(StatusCode::REQUEST_TIMEOUT, Code::E9, detail)
            })?,
            None => reading.await,
        };
        read?.map(|Json(body)| Body(body)).map_err(|rejection: JsonRejection| {
            let detail = format!("read the body: {}", cause(&rejection));
            let code = match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => Code::E6,
                _ => Code::E9,
            };
            Problem::new(rejection.status(), code, detail)
        })
    }
}

/// Reads a field that is there, also when it is null.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The innermost reason: what stands around it only repeats that something cannot be read.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Reads a uid in a path. A text that is none is the name of nothing.
pub(crate) fn uid(text: &str) -> Result<Uid, Problem> {
    text.parse().map_err(|error| {
        Problem::missing(format!(
            "there is no instance {text:?}: {error}; instances?id= finds the uid of an id"
        ))
    })
}

/// Reads the name of a call in a path.
pub(crate) fn call(text: &str) -> Result<resurgam::CallKey, Problem> {
    names::call(text).map_err(Problem::missing)
}
