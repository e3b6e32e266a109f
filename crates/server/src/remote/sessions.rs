//! What the servers of one database know of each other's workers, as rows.
//!
//! A server writes which sessions it has heard from, at most every [`EVERY`], and what they offer.
//! It reads the rows of the others before it takes a session for lost, so that one which speaks
//! with another server keeps its attempts; while the database does not answer nobody is lost. What
//! is stored of activities outlives all of them: calls are made by that while no worker has spoken.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use resurgam::{Client, Timestamp};
use resurgam_core::retry::RetryPolicy;
use resurgam_store::{RemoteActivity, RemoteWrite, WorkerSession};
use serde::{Deserialize, Serialize};

use super::desk::Offer;
use super::{Name, Remote, Seen};

/// How often it is written which sessions were heard of, at most; and at least, while they speak.
const EVERY: Duration = Duration::from_secs(5);

/// How often it is written that an activity is still offered.
const STILL_OFFERED: Duration = Duration::from_secs(60);

/// How long it is known what was said about an activity that nobody offers any more.
const KNOWN: Duration = Duration::from_secs(7 * 24 * 3_600);

/// For how many leases a row of a session is kept.
const KEPT: u32 = 10;

/// How often rows are deleted that are old.
const CLEANED: Duration = Duration::from_secs(60);

/// The shortest time between two reads of what others have heard.
const LOOKED: Duration = Duration::from_secs(1);

/// What was told to others, and when.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Option<Timestamp>,
    cleaned: Option<Timestamp>,
}

/// What is stored of a session beside its key and its time.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct About {
    activities: Vec<String>,
    running: usize,
    polls: bool,
    /// The attempts that it has and that are not at the desk of the server which wrote this.
    elsewhere: Vec<String>,
}

/// What is stored of an activity.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredOffer {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

impl StoredOffer {
    fn text_of(offer: &Offer) -> String {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let retry = offer.retry.as_ref().map(RetryPolicy::to_stored);
        let stored = StoredOffer { retry, timeout_ms: offer.timeout.map(millis) };
        serde_json::to_string(&stored).expect("an offer holds nothing that JSON cannot")
    }

    /// What was stored, also by a newer version.
    pub(super) fn read(text: &str) -> Result<Offer, String> {
        let stored: StoredOffer = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let retry = stored.retry.map(|policy| RetryPolicy::from_stored(&policy)).transpose();
        let retry = retry.map_err(|problems| problems.to_string())?;
        Ok(Offer { retry, timeout: stored.timeout_ms.map(Duration::from_millis) })
    }
}

fn text_of(about: &About) -> String {
    serde_json::to_string(about).expect("what is known of a session has a JSON form")
}

impl Remote {
    /// Writes for other servers, and for those that come after this one, which sessions were heard
    /// of and what they offer, when it is time or something is new.
    pub(crate) async fn tell_others(&self, client: &Client) {
        let handle = client.handle();
        let Some(write) = self.to_tell(handle.now()) else { return };
        let _busy = handle.busy();
        if let Err(error) = handle.store().write_remote_workers(write).await {
            // It is written again before anybody is taken for lost.
            tracing::debug!("keep what workers said: {error}");
        }
    }

    fn to_tell(&self, now: Timestamp) -> Option<RemoteWrite> {
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut desk = self.desk();
        let every = EVERY.min(self.lease() / 6);
        let is_early = told.at.is_some_and(|at| now.since(at) < every);
        if !desk.take_changed() && is_early {
            return None;
        }
        let since = told.at.replace(now);
        let is_new = |seen: &Seen| since.is_none_or(|at| seen.heard >= at);
        let sessions = desk.seen().filter(is_new).map(|seen| {
            let elsewhere = desk.elsewhere(&seen.session).map(|name| name.to_string()).collect();
            let Seen { session, heard, activities, running, polls } = seen;
            let about = text_of(&About { activities, running, polls, elsewhere });
            WorkerSession { session, server: self.0.server.clone(), heard_at: heard, about }
        });
        let sessions = sessions.collect();
        let before = |time: Duration| now.saturating_sub(time);
        let offers = desk.offers_to_store(now, before(STILL_OFFERED), before(KNOWN));
        let activities = offers.into_iter().map(|(name, offer)| {
            let offer = StoredOffer::text_of(&offer);
            RemoteActivity { name, offered_at: now, offer }
        });
        let cleans = told.cleaned.is_none_or(|at| now.since(at) >= CLEANED);
        told.cleaned = if cleans { Some(now) } else { told.cleaned };
        Some(RemoteWrite {
            sessions,
            activities: activities.collect(),
            sessions_before: cleans.then(|| before(self.lease() * KEPT)),
            activities_before: cleans.then(|| before(KNOWN)),
        })
    }

    /// Reads what other servers have heard of sessions. False when the database does not answer.
    pub(super) async fn hears_of_others(&self, now: Timestamp) -> bool {
        let Some(store) = self.0.store.get() else { return true };
        let mut looked = self.0.looked.lock().await;
        if looked.is_some_and(|at| now.since(at) < LOOKED) {
            return true;
        }
        let Some(store) = store.upgrade() else { return false };
        let rows = match store.worker_sessions().await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::debug!("read what others have heard of workers: {error}");
                return false;
            }
        };
        *looked = Some(now);
        let mut desk = self.desk();
        for row in rows.into_iter().filter(|row| row.server != self.0.server) {
            let about: About = serde_json::from_str(&row.about).unwrap_or_default();
            let names = about.elsewhere.iter().filter_map(|name| Name::read(name));
            desk.heard_elsewhere(&row.session, row.heard_at, names);
        }
        true
    }

    /// The activity as it was stored. True when it is known now and was not before.
    pub(super) fn learns_of(&self, name: &str, offered_at: Timestamp, offer: &str) -> bool {
        match StoredOffer::read(offer) {
            Ok(offer) => self.desk().learns(name, offer, offered_at),
            Err(error) => {
                tracing::warn!("what workers said about activity {name} cannot be read: {error}");
                false
            }
        }
    }
}

/// The sessions that any server has heard of within a lease: those that this one knows, and of the
/// others what is stored.
pub(crate) fn all_seen(here: Vec<Seen>, stored: Vec<WorkerSession>, since: Timestamp) -> Vec<Seen> {
    let mut all: BTreeMap<String, Seen> =
        here.into_iter().map(|seen| (seen.session.clone(), seen)).collect();
    for WorkerSession { session, heard_at, about, .. } in stored {
        if heard_at < since {
            continue;
        }
        let About { activities, running, polls, elsewhere } =
            serde_json::from_str(&about).unwrap_or_default();
        let running = running + elsewhere.len();
        let heard = heard_at;
        let found = || Seen { session: session.clone(), heard, activities, running, polls };
        let seen = all.entry(session.clone()).or_insert_with(found);
        seen.heard = seen.heard.max(heard);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn what_is_stored_of_an_activity_is_read_back() {
        let whole = Offer {
            retry: Some(RetryPolicy::DEFAULT.max_attempts(7)),
            timeout: Some(Duration::from_millis(1_500)),
        };
        for offer in [whole, Offer::default()] {
            assert_eq!(StoredOffer::read(&StoredOffer::text_of(&offer)), Ok(offer));
        }
        assert!(StoredOffer::read("7").is_err());
        assert_eq!(StoredOffer::read(r#"{"from_the_future":1}"#), Ok(Offer::default()));
    }

    #[test]
    fn sessions_are_listed_once_whoever_has_heard_of_them_last() {
        let at = Timestamp::from_millis;
        let seen = |session: &str, heard| Seen {
            session: session.to_string(),
            heard: at(heard),
            activities: vec!["charge".to_string()],
            running: 2,
            polls: true,
        };
        let stored = |session: &str, heard| WorkerSession {
            session: session.to_string(),
            server: "b".to_string(),
            heard_at: at(heard),
            about: r#"{"activities":["refund"],"running":1,"elsewhere":["x"]}"#.to_string(),
        };
        let rows = vec![stored("a", 9), stored("b", 8), stored("c", 3)];
        let all = all_seen(vec![seen("a", 5)], rows, at(4));
        let told: Vec<(&str, Timestamp, usize)> =
            all.iter().map(|it| (it.session.as_str(), it.heard, it.running)).collect();
        assert_eq!(told, [("a", at(9), 2), ("b", at(8), 2)]);
    }
}
