//! A server, asked for what a database would be asked for.
//!
//! The API names instances by their uids, because ids change hands; people name them by their ids.
//! So an id is looked up first, and what the server says about the uid is told about the id.

mod instances;
mod levers;
mod many;
mod unresolved;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam::{Action, Error, InstanceRow, Result, Timestamp, os_user};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::acts::Who;
use super::address::Address;
use super::ask::{self, Ask};
use super::http::Http;
use super::wire;
use crate::trouble::{Mistake, Trouble};

/// What the server must be able to do.
const LEVEL: u32 = 1;

/// How many there are on a page at most.
const PAGE: usize = 500;

/// How often is asked whether an action on many is over, and again where nobody answered.
const AGAIN: Duration = Duration::from_millis(500);

/// A server that was reached. Cloning gives another one that shares its connections.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    http: Arc<Http>,
    /// How much later it is there than here, in milliseconds.
    ahead_ms: i64,
}

/// The time here.
fn here() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Server {
    /// A server that answers, lets us in, and can do what is asked of it here.
    pub(in crate::operator) async fn reached(
        address: Address,
        token: Option<Zeroizing<String>>,
    ) -> Result<Self, Trouble> {
        let told = address.to_string();
        let what = format!("ask {told}");
        let http = Http::new(address, token)
            .map_err(|lost| Trouble::failed(format!("{what}: {}", lost.why)))?;
        let began = here();
        let found = ask::find::<wire::Server>(&http, &what, Ask::get("server")).await?;
        let hint = "bring it up to date, or give --db";
        let Some(server) = found else {
            let message = format!("the server at {told} is older than this command");
            return Err(Mistake::new(message).hint(hint).into());
        };
        if server.level < LEVEL {
            let wire::Server { version, .. } = server;
            let message = format!("the server at {told} has version {version}, which is too old");
            return Err(Mistake::new(message).hint(hint).into());
        }
        // It was that late there somewhere between the question and the answer.
        let ended = here();
        let ahead_ms = server.at_ms.as_millis() - (began + (ended - began) / 2);
        Ok(Server { http: Arc::new(http), ahead_ms })
    }

    pub(in crate::operator) fn now(&self) -> Timestamp {
        Timestamp::from_millis(here().saturating_add(self.ahead_ms))
    }

    async fn ask<T: DeserializeOwned>(&self, what: &str, ask: Ask) -> Result<T> {
        ask::ask(&self.http, what, ask).await
    }

    async fn find<T: DeserializeOwned>(&self, what: &str, ask: Ask) -> Result<Option<T>> {
        ask::find(&self.http, what, ask).await
    }

    /// Reads pages until there are as many as are wanted. `first` asks for the first page.
    async fn pages<T: DeserializeOwned>(
        &self,
        what: &str,
        first: Ask,
        more: impl Fn(Ask, &str) -> Ask,
        base: Ask,
        limit: usize,
    ) -> Result<Vec<T>> {
        let (mut found, mut next) = (Vec::new(), first);
        loop {
            let left = (limit - found.len()).min(PAGE);
            let page: wire::Page<T> = self.ask(what, next.with("limit", Some(left))).await?;
            found.extend(page.items);
            match page.cursor {
                Some(cursor) if found.len() < limit => next = more(base.clone(), &cursor),
                _ => {
                    found.truncate(limit);
                    return Ok(found);
                }
            }
        }
    }

    /// The same of a list that begins behind a place.
    async fn list_behind<T: DeserializeOwned>(
        &self,
        what: &str,
        list: Ask,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<T>> {
        let first = list.clone().with("after", after);
        self.pages(what, first, |list, cursor| list.with("cursor", Some(cursor)), list, limit).await
    }

    /// A value, which the server only leads to where it is large.
    async fn whole(&self, what: &str, value: Box<RawValue>) -> Result<Box<RawValue>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Large {
            #[serde(rename = "$payload")]
            payload: Way,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Way {
            href: String,
            #[serde(rename = "bytes")]
            _bytes: u64,
        }
        let Ok(Large { payload: Way { href, .. } }) = serde_json::from_str(value.get()) else {
            return Ok(value);
        };
        // What stands before it is how the server is called elsewhere, or how a proxy calls it.
        match href.split_once("/api/v1/") {
            Some((_, path)) => self.ask(what, Ask::get(path)).await,
            None => Ok(value),
        }
    }
}

/// Tells about the id what the server said about the uid.
fn about(row: &InstanceRow) -> impl Fn(Error) -> Error {
    let run = format!("run {} of instance {}", row.run, row.uid);
    let (instance, id) = (format!("instance {}", row.uid), row.id.clone());
    move |error| {
        let text = error.to_string().replace(&run, &id).replace(&instance, &id);
        Error::told(error.code(), text)
    }
}

/// An object with these fields, and who asks and why.
fn signed(who: Who<'_>, fields: Value) -> Map<String, Value> {
    let mut body = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    body.insert("by".to_string(), who.by.map_or_else(os_user, str::to_string).into());
    if let Some(reason) = who.reason {
        body.insert("reason".to_string(), reason.into());
    }
    body
}

/// The same behind the question mark.
fn signed_ask(ask: Ask, who: Who<'_>) -> Ask {
    ask.with("by", Some(who.by.map_or_else(os_user, str::to_string))).with("reason", who.reason)
}

/// What an action asks for, beside its name.
fn fields(action: &Action) -> Value {
    match action {
        Action::Retry { reset, .. } | Action::Resume { reset, .. } => json!({ "reset": reset }),
        Action::Pause { clock_runs } => json!({ "clock_runs": clock_runs }),
        Action::Complete { value, unchecked } => {
            let value: Value = value.decode().unwrap_or_default();
            json!({ "value": value, "unchecked": unchecked })
        }
        Action::Fail { failure } => json!({ "message": failure.message }),
        Action::SetPolicy { policy } => {
            let stored: Value = serde_json::from_str(policy).unwrap_or_default();
            json!({ "policy": stored["policy"] })
        }
        Action::PauseRun { calls } => json!({ "calls": calls }),
        Action::Reset(reset) => json!({
            "to": reset.to,
            "drop_signals": reset.drop_signals,
            "even_if_undone": reset.even_if_undone,
        }),
        Action::Redrive(how) => json!({ "new_key": how.new_key }),
        Action::RedriveAsNew => json!({ "as_new": true }),
        Action::PauseWithRun
        | Action::ResumeWithRun
        | Action::ResumeRun
        | Action::Restart
        | Action::Discard => json!({}),
    }
}
