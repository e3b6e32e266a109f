//! What was done, by whom and why, across instances: for auditors, and for whoever asks what
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use resurgam::{Timestamp, Uid};
use resurgam_store::rows::ActionRow;
use resurgam_store::{AuditRange, AuditRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use super::page::{length, page, place, time};
use crate::api::Api;
use crate::extract::Query;
use crate::names::call_name;
use crate::wire::{Page, rfc3339};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// What is listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ActionsQuery {
    /// Only what was done at that time or later: milliseconds since 1970, or RFC 3339.
    since: Option<String>,
    /// Where the page begins: the `cursor` of the page before it.
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// How many there are on a page; 100 unless given, 500 at most.
    #[serde(skip_serializing)]
    limit: Option<usize>,
}

/// Something that somebody did.
#[derive(Serialize, ToSchema)]
struct Done {
    at_ms: i64,
    at: String,
    /// Who: whom they named, and the name of the token that let them in.
    by: String,
    /// The id of the token, where it was recorded: what is done to calls and runs has its name in
    /// `by` only.
    token: Option<String>,
    reason: Option<String>,
    /// retry, pause, pause_run and the like for calls and runs; otherwise start, signal, cancel,
    /// terminate, delete, schedule, policy, gate, hold, bulk, dead_letter, token or graph.
    action: String,
    /// The instance it was done to, where it was one.
    uid: Option<String>,
    /// The id of that instance; null when it is there no more.
    instance: Option<String>,
    /// The call it was done to.
    call: Option<String>,
    /// What else it was done to: the id of a schedule, the key of a gate.
    subject: Option<String>,
    /// False when it was refused.
    changed: bool,
    /// What was done, or why nothing was.
    answer: String,
}

/// Something that was done, wherever it is recorded.
enum Found {
    Action(ActionRow),
    Audit(AuditRow),
}

/// A place in the list: behind what was done at this time and has this key. Actions on calls and
/// runs come before what else was done at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    at: Timestamp,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Audit(String),
    Action(Uid, String),
}

impl Found {
    fn place(&self) -> Place {
        match self {
            Found::Action(row) => {
                Place { at: row.at, key: Key::Action(row.call.run.uid, row.request.id.clone()) }
            }
            Found::Audit(row) => Place { at: row.at, key: Key::Audit(row.id.clone()) },
        }
    }

    fn uid(&self) -> Option<Uid> {
        match self {
            Found::Action(row) => Some(row.call.run.uid),
            Found::Audit(row) => row.subject.parse().ok(),
        }
    }

    fn told(&self, ids: &BTreeMap<Uid, Option<String>>) -> Done {
        let uid = self.uid();
        let instance = uid.and_then(|uid| ids.get(&uid).cloned()).flatten();
        let uid = uid.map(|uid| uid.to_string());
        match self {
            Found::Action(row) => Done {
                at_ms: row.at.as_millis(),
                at: rfc3339(row.at),
                by: row.request.by.clone(),
                token: None,
                reason: row.request.reason.clone(),
                action: row.request.action.name().to_string(),
                uid,
                instance,
                call: (!row.is_on_run()).then(|| call_name(row.call)),
                subject: None,
                changed: row.answer.changed,
                answer: row.answer.text.clone(),
            },
            Found::Audit(row) => Done {
                at_ms: row.at.as_millis(),
                at: rfc3339(row.at),
                by: row.by.clone(),
                token: row.token.clone(),
                reason: row.reason.clone(),
                action: row.kind.clone(),
                subject: uid.is_none().then(|| row.subject.clone()),
                uid,
                instance,
                call: None,
                changed: true,
                answer: row.told.clone(),
            },
        }
    }
}

impl Place {
    /// What is read of actions behind this place.
    fn of_actions(self) -> (Timestamp, Option<(Uid, String)>) {
        match self.key {
            Key::Action(uid, id) => (self.at, Some((uid, id))),
            // Those of this time were told before.
            Key::Audit(_) => (self.at, None),
        }
    }

    /// What is read of everything else behind this place.
    fn of_audit(self) -> (Timestamp, Option<String>) {
        match self.key {
            Key::Audit(id) => (self.at, Some(id)),
            // Those of this time come next.
            Key::Action(..) => {
                (Timestamp::from_millis(self.at.as_millis().saturating_add(1)), None)
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at.as_millis();
        match &self.key {
            Key::Audit(id) => write!(f, "{at}-{id}"),
            Key::Action(uid, id) => write!(f, "{at}-{uid}-{id}"),
        }
    }
}

/// The error is the rest of a sentence that begins with the text.
impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let sign = usize::from(text.starts_with('-'));
            let end = sign + text.get(sign..)?.find('-')?;
            let at = Timestamp::from_millis(text.get(..end)?.parse().ok()?);
            let rest = text.get(end + 1..)?;
            let of_action = rest.split_once('-').and_then(|(uid, id)| {
                let is_uid = uid.len() == 32;
                Some(Key::Action(uid.parse().ok().filter(|_| is_uid)?, id.to_string()))
            });
            Some(Place { at, key: of_action.unwrap_or_else(|| Key::Audit(rest.to_string())) })
        };
        read().ok_or_else(|| "is no place in a list; take the one that a list ends with".into())
    }
}

/// What was done, by whom and why, the newest first
///
/// Actions on calls and runs stay as long as their instance, everything else 90 days. What was done
/// from the command line or in code to anything but calls and runs is not in it.
#[utoipa::path(
    get, path = "/api/v1/actions", tag = "system", params(ActionsQuery),
    responses((status = OK, body = Page<Done>))
)]
async fn list(State(api): State<Api>, Query(query): Query<ActionsQuery>) -> Reply<Page<Done>> {
    let length = length(query.limit)?;
    let since = time("since", query.since.as_deref())?;
    let behind: Option<Place> = place(query.cursor.as_deref(), &query)?;
    let (limit, store) = (length + 1, api.client.handle().store());
    let trouble = |error| resurgam::Error::store("read what was done", error);
    let _busy = api.client.handle().busy();
    let before = behind.clone().map(Place::of_actions);
    let actions = store.newest_actions(AuditRange { since, before, limit }).await;
    let before = behind.map(Place::of_audit);
    let audit = store.audit(AuditRange { since, before, limit }).await.map_err(trouble)?;
    let actions = actions.map_err(trouble)?.into_iter().map(Found::Action);
    let mut found: Vec<Found> = actions.chain(audit.into_iter().map(Found::Audit)).collect();
    found.sort_by_cached_key(|found| {
        let Place { at, key } = found.place();
        std::cmp::Reverse((at, key))
    });
    found.truncate(limit);
    let uids: BTreeSet<Uid> = found.iter().filter_map(Found::uid).collect();
    let mut ids = BTreeMap::new();
    for uid in uids {
        let row = store.instance(uid).await.map_err(trouble)?;
        ids.insert(uid, row.map(|row| row.id));
    }
    let told = |found: &Found| found.told(&ids);
    Ok(Json(page(found, length, &query, |found| found.place().to_string(), told)))
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let at = Timestamp::from_millis(-5);
        let keys = [
            Key::Audit("0198-ab".to_string()),
            Key::Audit("x".to_string()),
            Key::Action(Uid(7), "bulk/1-2".to_string()),
        ];
        for key in keys {
            let place = Place { at, key };
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert!("".parse::<Place>().is_err() && "x-y".parse::<Place>().is_err());
    }
}
