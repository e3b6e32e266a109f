//! Questions to a server: how they are written, and what an answer says when something cannot be
//! done.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use resurgam::{Acted, ActionAnswer, Error, Result};
use resurgam_core::{Code, identifier};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::address::Address;
use super::http::{Answer, Http, Lost, Request};
use super::wire;

/// How long an answer may take: to a look, and to something that workers carry out first.
const LOOK: Duration = Duration::from_secs(90);
const ACT: Duration = Duration::from_secs(600);

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Ask(Request);

impl Ask {
    fn new(method: &'static str, path: String, body: Option<Vec<u8>>) -> Self {
        let patience = if method == "GET" { LOOK } else { ACT };
        let path = format!("/api/v1/{path}");
        Ask(Request { method, path, body, key: None, patience })
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Ask::new("GET", path.into(), None)
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Ask::new("DELETE", path.into(), None)
    }

    pub(super) fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Ask::new("POST", path.into(), Some(json(body)))
    }

    pub(super) fn put(path: impl Into<String>, body: &impl Serialize) -> Self {
        Ask::new("PUT", path.into(), Some(json(body)))
    }

    /// Adds what stands behind the question mark, where it is given.
    pub(super) fn with(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            let mark = if self.0.path.contains('?') { '&' } else { '?' };
            // Nothing keeps text from taking more text.
            let _infallible = write!(self.0.path, "{mark}{name}={}", encoded(&value.to_string()));
        }
        self
    }

    /// Makes a repeat one request.
    pub(super) fn key(mut self, key: Option<&str>) -> Self {
        self.0.key = key.map(str::to_string);
        self
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("a request holds nothing that JSON cannot")
}

/// A text as it stands in a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

/// An id or a name as any store can keep it; refused in the words of a database.
pub(super) fn given(attempted: &str, what: &str, text: &str) -> Result<()> {
    identifier::check(what, text).map_err(|error| {
        // What was attempted may hold it, and is cut short.
        let attempted: String = attempted.chars().take(60).collect();
        Error::invalid(format!("{}: {error}", attempted.replace('\0', "\\0")))
    })
}

/// A request id as a line of a request; what the API takes as one.
pub(super) fn checked_key<'a>(what: &str, key: Option<&'a str>) -> Result<Option<&'a str>> {
    let is_fine = |key: &str| {
        (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match key {
        Some("") => Err(Error::invalid(format!("{what}: an empty request id is not allowed"))),
        Some(key) if !is_fine(key) => Err(Error::invalid(format!(
            "{what}: a server takes a request id of 1 to 200 visible characters of ASCII"
        ))),
        key => Ok(key),
    }
}

/// Asks, and reads the answer.
pub(super) async fn ask<T: DeserializeOwned>(http: &Http, what: &str, ask: Ask) -> Result<T> {
    let answer = sent(http, what, &ask).await?;
    match answer.status {
        200..=299 => read(http, what, &answer),
        _ => Err(trouble(http, what, &answer)),
    }
}

/// The same of something that may be there or not.
pub(super) async fn find<T: DeserializeOwned>(
    http: &Http,
    what: &str,
    ask: Ask,
) -> Result<Option<T>> {
    let answer = sent(http, what, &ask).await?;
    match answer.status {
        200..=299 => read(http, what, &answer).map(Some),
        404 => match trouble(http, what, &answer) {
            error if error.code() == Code::E2 => Ok(None),
            error => Err(error),
        },
        _ => Err(trouble(http, what, &answer)),
    }
}

/// Has something done, and answers with what came of it: what changed nothing says why.
pub(super) async fn act(http: &Http, what: &str, ask: Ask) -> Result<Acted> {
    let answer = sent(http, what, &ask).await?;
    match answer.status {
        200..=299 => {
            let done: wire::Done = read(http, what, &answer)?;
            let wire::Done { changed, stored, answer: text } = done;
            Ok(match stored {
                true => Acted::Stored,
                false => Acted::Answered(ActionAnswer { changed, text }),
            })
        }
        409 => match trouble(http, what, &answer) {
            error if error.code() == Code::E9 => {
                Ok(Acted::Answered(ActionAnswer::refused(error.to_string())))
            }
            error => Err(error),
        },
        _ => Err(trouble(http, what, &answer)),
    }
}

async fn sent(http: &Http, what: &str, Ask(request): &Ask) -> Result<Answer> {
    http.ask(request).await.map_err(|lost| unreached(&http.address, what, request.method, &lost))
}

/// There is no answer.
fn unreached(address: &Address, what: &str, method: &str, lost: &Lost) -> Error {
    let code = if lost.is_transient { Code::D1 } else { Code::C6 };
    let doubt = match method {
        "GET" => "",
        _ => "; it may have been done: look before you repeat it",
    };
    Error::told(code, format!("{what}: the server at {address}: {}{doubt}", lost.why))
}

fn read<T: DeserializeOwned>(http: &Http, what: &str, answer: &Answer) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| {
        let address = &http.address;
        let text = format!(
            "{what}: the answer of {address} cannot be read ({error}); is it a Resurgam server of \
             the version of this command?"
        );
        Error::told(Code::C6, text)
    })
}

/// Why something was not done.
fn trouble(http: &Http, what: &str, answer: &Answer) -> Error {
    let (address, status) = (&http.address, answer.status);
    let problem = serde_json::from_slice::<wire::Problem>(&answer.body).ok();
    let invalid = |why: String| Error::told(Code::E9, format!("{what}: {why}"));
    match (status, problem) {
        (401, _) if !http.has_token() => {
            invalid(format!("{address} asks for a token; set RESURGAM_TOKEN, or give --token-file"))
        }
        (401, _) => invalid(format!(
            "{address} does not know the token, or it was revoked; `resurgam token create` on its \
             database makes one"
        )),
        (403 | 421, Some(problem)) => invalid(format!("{address} refuses it: {}", problem.detail)),
        (429 | 503, Some(problem)) => Error::told(Code::D1, problem.detail),
        (_, Some(problem)) => Error::told(code(&problem.code), problem.detail),
        (300..=399, None) => {
            let location = answer.location.as_deref().unwrap_or("another address");
            let place = location.split(['?', '#']).next().unwrap_or_default();
            invalid(format!(
                "{address} leads to {place}, and the token is for {address} alone; give --server \
                 the address that is meant"
            ))
        }
        (502..=504, None) => {
            let why =
                format!("{what}: the server at {address}: what stands before it answers {status}");
            Error::told(Code::D1, why)
        }
        (413, None) => invalid(format!("what stands before {address} takes no body so large")),
        (_, None) => invalid(format!(
            "{address} answers {status}, as no Resurgam server does; is the path in the address \
             right?"
        )),
    }
}

/// The code of this name; one of a later version is as good as none.
fn code(name: &str) -> Code {
    Code::ALL.iter().copied().find(|code| code.name() == name).unwrap_or(Code::C6)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_stands_in_a_path_and_a_query_is_encoded() {
        let Ask(request) = Ask::get(format!("instances/{}", encoded("a/b #1")))
            .with("tag", Some("city=Zürich & more"))
            .with("none", None::<&str>)
            .with("limit", Some(7));
        let path = "/api/v1/instances/a%2Fb%20%231?tag=city%3DZ%C3%BCrich%20%26%20more&limit=7";
        assert_eq!((request.method, request.path.as_str()), ("GET", path));
    }

    #[test]
    fn a_request_id_is_a_line_of_a_request() {
        assert_eq!(checked_key("retry x", Some("form-1")).unwrap(), Some("form-1"));
        let refused = |key| checked_key("retry x", Some(key)).unwrap_err().to_string();
        assert_eq!(refused(""), "retry x: an empty request id is not allowed");
        assert!(refused("a\r\nHost: b").contains("visible characters"));
    }

    #[test]
    fn what_a_server_refuses_is_told_as_a_database_would() {
        let http = |token: Option<&str>| {
            let token = token.map(|token| zeroize::Zeroizing::new(token.to_string()));
            Http::new(Address::parse("http://ops/x").unwrap(), token).unwrap()
        };
        let told = |token, status, body: &str| {
            let location = Some("https://ops/x?token=1".to_string());
            let answer = Answer { status, location, body: body.as_bytes().to_vec() };
            let error = trouble(&http(token), "show o-1", &answer);
            format!("{} {error}", error.code())
        };
        let problem = r#"{"type":"/x","code":"E4","detail":"cancel o-1: it is closed"}"#;
        assert_eq!(told(None, 409, problem), "E4 cancel o-1: it is closed");
        let unknown = r#"{"code":"Z9","detail":"new"}"#;
        assert_eq!(told(None, 500, unknown), "C6 new");
        assert!(told(None, 401, problem).contains("asks for a token; set RESURGAM_TOKEN"));
        assert!(told(Some("rsg_x"), 401, problem).contains("does not know the token"));
        assert!(!told(Some("rsg_x"), 401, problem).contains("rsg_x"));
        assert!(told(None, 302, "").contains("leads to https://ops/x, and the token is for"));
        assert!(told(None, 404, "<html>").contains("is the path in the address right?"));
        assert!(told(None, 502, "<html>").starts_with("D1 show o-1: the server at http://ops/x"));
        assert!(told(None, 503, problem).starts_with("D1 cancel"));
    }
}
