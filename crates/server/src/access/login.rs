//! Logins: what a browser gets for a token, so that it need not keep the token.
//!
//! The browser sends a cookie with 32 random bytes, of which only the hash is stored. A login is
//! tied to its token, also to one that is stored nowhere: when the token is revoked or replaced,
//! the login lets nobody in any more. It ends by itself after twelve hours.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use resurgam::{Code, Error, Timestamp};
use resurgam_store::{LoginRow, LoginWrite};

use super::token::{hash_of, is_same, random};
use super::{Known, TokenSettings};
use crate::access::Role;
use crate::api::Api;
use crate::links;
use crate::problem::Problem;

/// The name of the cookie.
const COOKIE: &str = "resurgam_login";

/// How long a login lasts.
const LASTS: Duration = Duration::from_secs(12 * 3_600);

/// How often an address may name a token that lets nobody in, and over how long.
const MOST_FAILURES: u32 = 10;
const OVER: Duration = Duration::from_secs(60);

/// How many addresses are remembered.
const ADDRESSES: usize = 10_000;

/// A login that has begun.
pub(crate) struct Begun {
    pub(crate) known: Known,
    pub(crate) ends_at: Timestamp,
    /// What the browser is to keep.
    pub(crate) cookie: String,
}

/// Lets in whoever names a token that does, and gives them a cookie for it.
pub(crate) async fn begin(
    api: &Api,
    token: &str,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
) -> Result<Begun, Problem> {
    let now = api.client.handle().now();
    api.failures.refuse_many(peer, now)?;
    let Some((known, hash)) = api.token_of(token).await? else {
        api.failures.add(peer, now);
        return Err(Problem::unauthorized("the token is not known, or it was revoked"));
    };
    let what = "log in";
    let secret = random::<32>(what)?;
    let ends_at = now.saturating_add(LASTS);
    let row = LoginRow {
        hash: hash_of(&secret),
        token: known.id.clone(),
        bound: bound(&secret, &hash),
        created_at: now,
        ends_at,
    };
    let handle = api.client.handle();
    let busy = handle.busy();
    let write = LoginWrite::Insert { row, ended_before: now };
    let written = handle.store().write_login(write).await;
    drop(busy);
    match written.map_err(|error| Error::store(what, error))? {
        true => {
            let cookie = cookie(&secret, LASTS.as_secs(), headers);
            Ok(Begun { known, ends_at, cookie })
        }
        false => Err(Error::invalid(format!("{what}: the number is taken; try again")).into()),
    }
}

/// Ends the login of a cookie. Answers with whether there was one, and with what makes the browser
/// forget it.
pub(crate) async fn end(api: &Api, headers: &HeaderMap) -> Result<(bool, String), Problem> {
    let forget = cookie("", 0, headers);
    let Some(secret) = secret_of(headers) else { return Ok((false, forget)) };
    let handle = api.client.handle();
    let _busy = handle.busy();
    let write = LoginWrite::Delete { hash: hash_of(secret) };
    let ended = handle.store().write_login(write).await;
    Ok((ended.map_err(|error| Error::store("log out", error))?, forget))
}

/// Whose login a request carries.
pub(super) async fn known(api: &Api, headers: &HeaderMap) -> Result<Option<Known>, Problem> {
    let Some(secret) = secret_of(headers) else { return Ok(None) };
    let handle = api.client.handle();
    let busy = handle.busy();
    let found = handle.store().login(&hash_of(secret)).await;
    drop(busy);
    let found = found.map_err(|error| Error::store("look for a login", error))?;
    let open = found.filter(|row| row.ends_at > handle.now());
    let over = || Problem::unauthorized("the login is over; log in again");
    let row = open.ok_or_else(over)?;
    let (known, hash) = match &api.options.admin {
        Some(admin) if row.token.is_empty() => (Known::admin(), admin.clone()),
        _ => api.tokens.of_id(&api.client, &row.token).await?.ok_or_else(over)?,
    };
    match is_same(&row.bound, &bound(secret, &hash)) {
        true => Ok(Some(known)),
        false => Err(over()),
    }
}

/// True when a request carries a login.
pub(super) fn is_carried(headers: &HeaderMap) -> bool {
    secret_of(headers).is_some()
}

impl Known {
    /// Who names the token that is stored nowhere.
    pub(super) fn admin() -> Self {
        let (id, name) = (String::new(), "admin".to_string());
        Known { id, name, role: Role::Admin, settings: TokenSettings::default() }
    }
}

/// What ties what a browser sends to the token that it was given for.
fn bound(secret: &str, token_hash: &str) -> String {
    hash_of(&format!("{secret} {token_hash}"))
}

/// What a browser sends of its login.
fn secret_of(headers: &HeaderMap) -> Option<&str> {
    let named = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        named.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim() == COOKIE)?;
    Some(found.1.trim()).filter(|secret| !secret.is_empty())
}

/// A cookie for the paths of this server. It goes over encrypted connections only, unless the
/// browser is on this very machine.
fn cookie(secret: &str, seconds: u64, headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let secure = if crate::serve::is_here(host) { "" } else { "; Secure" };
    let path = match links::base() {
        base if base.is_empty() => "/".to_string(),
        base => base,
    };
    format!("{COOKIE}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Who named tokens that let nobody in, lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures(Arc<Mutex<ByAddress>>);

/// Since when an address failed, and how often; the one that is not known, too.
type ByAddress = HashMap<Option<IpAddr>, (Timestamp, u32)>;

impl Failures {
    /// Refuses an address that has failed too often.
    fn refuse_many(&self, peer: Option<IpAddr>, now: Timestamp) -> Result<(), Problem> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failures.get(&peer);
        let is_over = |since: Timestamp| now < since || now.since(since) >= OVER;
        match failed.filter(|(since, count)| *count >= MOST_FAILURES && !is_over(*since)) {
            None => Ok(()),
            Some(_) => {
                let detail = "too many tokens were wrong; try again in a minute";
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::E9, detail))
            }
        }
    }

    fn add(&self, peer: Option<IpAddr>, now: Timestamp) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, (since, _)| now >= *since && now.since(*since) < OVER);
        if failures.len() < ADDRESSES || failures.contains_key(&peer) {
            failures.entry(peer).or_insert((now, 0)).1 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use resurgam_watchdog::test;

    use super::*;

    fn headers(list: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_login_is_found_among_other_cookies() {
        let of = |text| secret_of(&headers(&[(header::COOKIE, text)])).map(str::to_string);
        assert_eq!(of("a=b; resurgam_login=00ff ;c=d").as_deref(), Some("00ff"));
        assert_eq!((of("a=b"), of("resurgam_login="), of("xresurgam_login=1")), (None, None, None));
    }

    #[test]
    fn a_cookie_is_for_encrypted_connections_unless_the_browser_is_here() {
        let of = |host| cookie("00", 5, &headers(&[(header::HOST, host)]));
        let here = "resurgam_login=00; Path=/; Max-Age=5; HttpOnly; SameSite=Strict";
        assert_eq!(of("localhost:8080"), here);
        assert_eq!(of("127.0.0.1"), here);
        assert_eq!(of("ops.example.com"), format!("{here}; Secure"));
    }

    #[test]
    fn an_address_that_fails_again_and_again_is_refused_for_a_minute() {
        let failures = Failures::default();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        for _ in 0..MOST_FAILURES {
            assert!(failures.refuse_many(one, at(5)).is_ok());
            failures.add(one, at(5));
        }
        assert_eq!(failures.refuse_many(one, at(64)).unwrap_err().status().as_u16(), 429);
        assert!(failures.refuse_many(other, at(5)).is_ok());
        assert!(
            failures.refuse_many(one, at(65)).is_ok() && failures.refuse_many(one, at(4)).is_ok()
        );
    }
}
