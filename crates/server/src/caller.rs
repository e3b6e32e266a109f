//! Who asks, and with which key a request can be repeated.

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use resurgam::Code;

use crate::access::{Known, Role};
use crate::problem::Problem;

/// The longest key of a request.
const LONGEST_KEY: usize = 200;

/// Who asks. What they do is recorded under this name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The name of the token; none where none is asked for.
    token: Option<String>,
    /// What tells the token from others of its name.
    id: String,
    /// The queues that the token is for; all when there are none.
    queues: Vec<String>,
    /// It starts instances on these queues only.
    starts_there: bool,
    /// How many of its requests may wait at once, where the token says so.
    polls: Option<usize>,
    /// Its role is admin.
    is_admin: bool,
}

impl Caller {
    /// Who named this token, or none.
    pub(crate) fn of(known: Option<Known>) -> Self {
        let Some(Known { id, name, role, settings }) = known else {
            return Caller::default();
        };
        let (queues, polls) = (settings.all_queues(), settings.polls);
        let (starts_there, is_admin) = (role == Role::Work, role == Role::Admin);
        Caller { token: Some(name), id, queues, starts_there, polls, is_admin }
    }
}

impl Caller {
    /// Of the queues that a worker asks for those that its token is for.
    pub(crate) fn queues(&self, wanted: Vec<String>) -> Result<BTreeSet<String>, Problem> {
        let wanted: BTreeSet<String> = wanted.into_iter().collect();
        let mine: BTreeSet<String> = self.queues.iter().cloned().collect();
        match (mine.is_empty(), wanted.is_empty()) {
            (true, _) => Ok(wanted),
            (false, true) => Ok(mine),
            (false, false) => match wanted.difference(&mine).next() {
                None => Ok(wanted),
                Some(other) => Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    Code::E9,
                    format!("the token is not for the queue {other}"),
                )),
            },
        }
    }

    /// The queue that an instance is started on: a token that is for workers starts on its own
    /// queues only.
    pub(crate) fn starts_on(&self, queue: Option<String>) -> Result<Option<String>, Problem> {
        let mine = self.queues.as_slice();
        if !self.starts_there || mine.is_empty() {
            return Ok(queue);
        }
        match (queue, mine) {
            (Some(queue), mine) if mine.contains(&queue) => Ok(Some(queue)),
            (None, [only]) => Ok(Some(only.clone())),
            (queue, mine) => {
                let mine = mine.join(", ");
                let given = queue.map_or("no queue is named".to_string(), |queue| {
                    format!("it is not for the queue {queue}")
                });
                let detail = format!("the token starts instances on {mine}: {given}");
                Err(Problem::new(StatusCode::FORBIDDEN, Code::E9, detail))
            }
        }
    }

    /// Refuses who may not do what only admins may. Where no token is asked for, everybody may.
    pub(crate) fn needs_admin(&self, what: &str) -> Result<(), Problem> {
        match &self.token {
            Some(token) if !self.is_admin => {
                let detail = format!("{what} needs the role admin, and token {token} has another");
                Err(Problem::new(StatusCode::FORBIDDEN, Code::E9, detail))
            }
            _ => Ok(()),
        }
    }

    /// How many requests of the token may wait at once, where it says so.
    pub(crate) fn polls(&self) -> Option<usize> {
        self.polls
    }

    /// What tells the token from others of its name; none where none is asked for.
    pub(crate) fn token_id(&self) -> Option<&str> {
        self.token.as_ref().map(|_| self.id.as_str())
    }

    /// The name of the token that let whoever asks in; none where none was asked for.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The name that is recorded: whom the request names, and the token that let it in.
    pub(crate) fn signs(&self, by: Option<String>) -> String {
        let by = by.filter(|by| !by.is_empty());
        match (&self.token, by) {
            (None, by) => by.unwrap_or_else(|| "http".to_string()),
            (Some(token), None) => token.clone(),
            (Some(token), Some(by)) => format!("{by} (token {token})"),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Caller>().cloned().unwrap_or_default())
    }
}

/// The key of a request: repeated with the same key, it is the same request. The header
/// `Idempotency-Key`.
pub(crate) struct RequestKey(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for RequestKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Some(key) = parts.headers.get("idempotency-key") else { return Ok(RequestKey(None)) };
        let key = key.to_str().ok().filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
        let key = key.map(str::to_string).ok_or_else(|| {
            Problem::unreadable(format!(
                "Idempotency-Key: write 1 to {LONGEST_KEY} visible characters of ASCII"
            ))
        })?;
        // Those of one token are no concern of another.
        let Ok(caller) = Caller::from_request_parts(parts, state).await;
        Ok(RequestKey(Some(match caller.token {
            Some(_) => format!("{}.{key}", caller.id),
            None => key,
        })))
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_recorded_names_the_person_and_the_token() {
        let ana = || Some("ana".to_string());
        assert_eq!(Caller::default().signs(ana()), "ana");
        assert_eq!(Caller::default().signs(None), "http");
        let caller = Caller { token: Some("ci".to_string()), ..Caller::default() };
        assert_eq!(caller.signs(None), "ci");
        assert_eq!(caller.signs(ana()), "ana (token ci)");
    }
}
