//! Tokens: how they are made, what is stored of them, and whether one lets in.
//!
//! `rsg_ID_SECRET`: the id says which row to compare with, the secret is 32 bytes from the random
//! source of the operating system.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resurgam::{Client, Error, Timestamp};
use resurgam_store::{TokenRow, TokenWrite};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Role;

/// What every token begins with, so that people and programs that look for secrets know it.
const PREFIX: &str = "rsg";

/// How long what was read of tokens is taken for true.
const FRESH: Duration = Duration::from_secs(2);

/// What is set about a token beside its role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenSettings {
    /// It sees no payloads: inputs, results and values of signals.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_payloads: bool,
    /// The queues of which it may run activities; all when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The namespace that it is for: of its queue, `ns:NAMESPACE`, it may run activities, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// It may start instances, although its role is `work`: on its queues, where it has some.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub start: bool,
    /// How many of its requests wait at once for an attempt, a result or a change; as the server
    /// says unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polls: Option<usize>,
}

impl TokenSettings {
    /// The queues that it is for; all when there are none.
    pub(crate) fn all_queues(&self) -> Vec<String> {
        let of_namespace = self.namespace.iter().map(|name| format!("ns:{name}"));
        self.queues.iter().cloned().chain(of_namespace).collect()
    }
}

/// A token, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is called by; no secret.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do; `None` when another version of the server stored a role that this one does
    /// not know. It lets nobody in then.
    pub role: Option<Role>,
    /// What else is set about it.
    pub settings: TokenSettings,
    /// Who made it.
    pub by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    fn of(row: &TokenRow) -> Self {
        // Settings that cannot be read could hold a limit.
        let settings = serde_json::from_str(&row.settings).ok();
        Token {
            id: row.id.clone(),
            name: row.name.clone(),
            role: row.role.parse().ok().filter(|_| settings.is_some()),
            settings: settings.unwrap_or_default(),
            by: row.by.clone(),
            created_at: row.created_at,
            revoked_at: row.revoked_at,
        }
    }

    /// All tokens of a database, those that were revoked too.
    pub async fn all(client: &Client) -> Result<Vec<Token>, Error> {
        let _busy = client.handle().busy();
        let rows = client.handle().store().tokens().await;
        let rows = rows.map_err(|error| Error::store("read the API tokens", error))?;
        Ok(rows.iter().map(Token::of).collect())
    }

    /// Lets nobody in with this token any more; servers know it within two seconds. False when
    /// there is no such token, or it was revoked before.
    pub async fn revoke(client: &Client, id: &str) -> Result<bool, Error> {
        let (id, at) = (id.to_string(), client.handle().now());
        let what = format!("revoke token {id}");
        let _busy = client.handle().busy();
        let revoked = client.handle().store().write_token(TokenWrite::Revoke { id, at }).await;
        revoked.map_err(|error| Error::store(what, error))
    }
}

/// A token that is to be made.
///
/// ```
/// # use resurgam::prelude::*;
/// use resurgam_server::{NewToken, Role, Token};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), resurgam::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// let app = App::builder().sqlite(folder.path().join("app.db")).await?;
/// let (token, secret) = NewToken::new("ci", Role::Operate).by("ana").make(&app).await?;
/// assert!(secret.starts_with("rsg_"));
/// assert_eq!(Token::all(&app).await?, [token.clone()]);
/// assert!(Token::revoke(&app, &token.id).await?);
/// # app.stop().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NewToken {
    name: String,
    role: Role,
    settings: TokenSettings,
    by: String,
}

impl NewToken {
    /// A token of this name and role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        let settings = TokenSettings::default();
        NewToken { name: name.into(), role, settings, by: String::new() }
    }

    /// What else is set about it.
    pub fn settings(mut self, settings: TokenSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Who makes it.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = by.into();
        self
    }

    /// Makes it. Answers with the token and with the text that lets in, which is stored nowhere.
    pub async fn make(self, client: &Client) -> Result<(Token, String), Error> {
        let what = "make an API token";
        if self.name.is_empty() || self.name.len() > 100 {
            return Err(Error::invalid(format!("{what}: its name has 1 to 100 bytes")));
        }
        if self.role == Role::Work && self.settings.no_payloads {
            let why = "one that sees no payloads cannot run activities, which need their input";
            return Err(Error::invalid(format!("{what}: {why}")));
        }
        if self.settings.start && self.role != Role::Work {
            let why = "`start` is for the role work; operate and admin may start, read may not";
            return Err(Error::invalid(format!("{what}: {why}")));
        }
        if self.settings.namespace.as_deref().is_some_and(str::is_empty) {
            return Err(Error::invalid(format!("{what}: the namespace is empty")));
        }
        let (id, secret) = (random::<6>(what)?, random::<32>(what)?);
        let text = format!("{PREFIX}_{id}_{secret}");
        let row = TokenRow {
            hash: hash_of(&text),
            id,
            name: self.name,
            role: self.role.name().to_string(),
            settings: serde_json::to_string(&self.settings).unwrap_or_default(),
            by: self.by,
            created_at: client.handle().now(),
            revoked_at: None,
        };
        let token = Token::of(&row);
        let _busy = client.handle().busy();
        let written = client.handle().store().write_token(TokenWrite::Insert(row)).await;
        match written.map_err(|error| Error::store(what, error))? {
            true => Ok((token, text)),
            false => Err(Error::invalid(format!("{what}: the id is taken; try again"))),
        }
    }
}

/// Random bytes of the operating system, as text.
pub(super) fn random<const N: usize>(what: &str) -> Result<String, Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::invalid(format!("{what}: no random numbers: {error}")))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is stored of a token. Its secret has 256 random bits, so that guessing is no way, and the
/// hash need not be slow.
pub(crate) fn hash_of(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

/// A token that lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// What tells it from others of its name; empty for the one that is stored nowhere.
    pub(crate) id: String,
    /// The name that is recorded.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) settings: TokenSettings,
}

/// The tokens of a database, as they were read last.
#[derive(Clone, Default)]
pub(crate) struct KnownTokens(Arc<Mutex<Option<Read>>>);

struct Read {
    at: Timestamp,
    rows: Arc<[TokenRow]>,
}

impl fmt::Debug for KnownTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownTokens")
    }
}

impl KnownTokens {
    /// The token of this text, when it lets in, with its hash.
    pub(crate) async fn find(
        &self,
        client: &Client,
        text: &str,
    ) -> Result<Option<(Known, String)>, Error> {
        let Some((id, _)) = parts(text) else { return Ok(None) };
        let found = self.of_id(client, id).await?;
        Ok(found.filter(|(_, hash)| is_same(hash, &hash_of(text))))
    }

    /// The token of this id, when it lets in, with its hash.
    pub(crate) async fn of_id(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<Option<(Known, String)>, Error> {
        let rows = self.rows(client).await?;
        let row = rows.iter().find(|row| row.id == id && row.revoked_at.is_none());
        Ok(row.and_then(|row| {
            let Token { id, name, role, settings, .. } = Token::of(row);
            Some((Known { id, name, role: role?, settings }, row.hash.clone()))
        }))
    }

    async fn rows(&self, client: &Client) -> Result<Arc<[TokenRow]>, Error> {
        let now = client.handle().now();
        if let Some(read) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && now.since(read.at) < FRESH
            && now >= read.at
        {
            return Ok(read.rows.clone());
        }
        let _busy = client.handle().busy();
        let rows = client.handle().store().tokens().await;
        let rows: Arc<[TokenRow]> =
            rows.map_err(|error| Error::store("read the API tokens", error))?.into();
        let read = Read { at: now, rows: rows.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Ok(rows)
    }
}

/// The id and the secret of a token.
fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')
}

/// Takes the same time wherever they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_token_says_which_row_it_is_compared_with() {
        assert_eq!(parts("rsg_0a_ff"), Some(("0a", "ff")));
        for wrong in ["", "rsg_0a", "rsg0a_ff", "abc_0a_ff"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_stored_is_the_hash() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash_of(""), empty);
        assert!(is_same(&hash_of("a"), &hash_of("a")) && !is_same(&hash_of("a"), empty));
    }
}
