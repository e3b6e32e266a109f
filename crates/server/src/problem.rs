//! What an answer says when something cannot be done: a problem of RFC 9457, with our code and the
//! link to its page.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use resurgam::{Code, Error};
use resurgam_core::config::Problems;
use serde::Serialize;
use utoipa::ToSchema;

use crate::links::link;
use crate::pages;

/// Where the pages of codes are.
pub(crate) const PAGES: &str = "/api/v1/errors/";

/// After how many seconds something that is out of reach is worth asking for again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

/// Why something was not done. RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The path of the page of the code.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was attempted, on what, and why it was not done.
    detail: String,
    /// The code; `resurgam explain CODE` prints its page.
    code: &'static str,
    /// Everything that is wrong with what was sent, where it is more than a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
}

/// One thing that is wrong with what was sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Mistake {
    /// The way to it.
    path: String,
    message: String,
    code: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Problem {
            kind: link(&format!("{PAGES}{code}")),
            title: pages::title(code),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.name(),
            errors: Vec::new(),
        }
    }

    /// Nobody who is let in asks.
    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, Code::E9, detail)
    }

    /// Something changed nothing, and the detail says why.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, Code::E9, detail)
    }

    /// A request has the key of another one.
    pub(crate) fn another_body(key: &str) -> Self {
        Problem::invalid(format!(
            "Idempotency-Key {key}: another request had it; a repeat has the same body"
        ))
    }

    /// A policy, a schedule or a graph cannot work.
    pub(crate) fn of_input(what: &str, problems: &Problems) -> Self {
        let code = problems.iter().next().map_or(Code::E9, |problem| problem.code);
        let errors = problems.iter().map(|problem| Mistake {
            path: problem.path.clone(),
            message: problem.message.clone(),
            code: problem.code.name().to_string(),
        });
        let detail = format!("{what}: {problems}");
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem { errors: errors.collect(), ..Problem::new(status, code, detail) }
    }

    /// A program cannot run.
    pub(crate) fn of_program(wrong: &resurgam_ir::Errors) -> Self {
        let code = wrong.iter().next().map_or(Code::E9, |error| error.code);
        let errors = wrong.iter().map(|error| Mistake {
            path: format!("{}:{}", error.line, error.column),
            message: error.message.clone(),
            code: error.code.name().to_string(),
        });
        let errors: Vec<Mistake> = errors.collect();
        let first = errors
            .first()
            .map_or(String::new(), |first| format!("{} at {}", first.message, first.path));
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem { errors, ..Problem::new(status, code, format!("program: {first}")) }
    }

    /// The request cannot be read.
    pub(crate) fn unreadable(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, Code::E9, detail)
    }

    /// The request can be read, and what it asks for cannot work.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::E9, detail)
    }

    /// There is nothing of this name.
    pub(crate) fn missing(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, Code::E2, detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The status that says to a program what it can do about an error.
fn status_of(error: &Error) -> StatusCode {
    match error.code() {
        Code::E1 | Code::E4 | Code::E5 => StatusCode::CONFLICT,
        Code::E2 => StatusCode::NOT_FOUND,
        Code::E3 | Code::E9 => StatusCode::UNPROCESSABLE_ENTITY,
        Code::E6 => StatusCode::PAYLOAD_TOO_LARGE,
        Code::E7 => StatusCode::TOO_MANY_REQUESTS,
        Code::E8 => StatusCode::SERVICE_UNAVAILABLE,
        _ if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::new(status_of(&error), error.code(), error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn the_status_says_what_a_program_can_do() {
        let status = |error| Problem::from(error).status().as_u16();
        assert_eq!(status(Error::no_instance("look at x")), 404);
        assert_eq!(status(Error::invalid("start x: the id is empty")), 422);
        assert_eq!(status(Error::ended("signal x")), 409);
        assert_eq!(status(Error::engine_stopped("start x")), 503);
        let problem = Problem::from(Error::no_instance("look at x"));
        assert_eq!((problem.code, problem.kind.as_str()), ("E2", "/api/v1/errors/E2"));
        assert_eq!(problem.title, "there is nothing of this id");
    }
}
