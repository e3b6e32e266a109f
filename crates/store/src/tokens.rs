//! API tokens as rows: who may ask a server what.
//!
//! A store keeps what a token is known by, which is not the token: only its hash is written. What
//! its role and settings mean is the server's. A token that is revoked stays, so that what it did
//! can be traced to it. A login is what a browser gets for a token, and ends with it.

use resurgam_core::Timestamp;

use crate::Answer;

/// Keeping tokens.
pub trait Tokens {
    /// All tokens, those that were revoked too, by their ids.
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>>;

    /// Changes one token. False when there is nothing to change: the id of a new one is taken, or
    /// there is no such token to revoke, or it was revoked before.
    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool>;

    /// The login that is known by this hash.
    fn login(&self, hash: &str) -> Answer<'_, Option<LoginRow>>;

    /// Changes one login. False when there is nothing to change: the hash of a new one is taken, or
    /// there is no such login to end.
    fn write_login(&self, write: LoginWrite) -> Answer<'_, bool>;
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// What it is called by; no secret.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do, as the server names it.
    pub role: String,
    /// The hash of its secret, as text.
    pub hash: String,
    /// What else is set about it, as JSON.
    pub settings: String,
    /// Who made it.
    pub by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// A change of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenWrite {
    /// Keep a new one.
    Insert(TokenRow),
    /// Let nobody in with it any more.
    Revoke {
        /// Which.
        id: String,
        /// When.
        at: Timestamp,
    },
}

/// What a browser got for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRow {
    /// The hash of what the browser sends.
    pub hash: String,
    /// The id of the token; empty for one that is stored nowhere.
    pub token: String,
    /// What ties it to that token, which may be replaced by another one of no id.
    pub bound: String,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
}

/// A change of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginWrite {
    /// Keep a new one, and none of those that ended before this time.
    Insert {
        /// The new one.
        row: LoginRow,
        /// When those ended that go.
        ended_before: Timestamp,
    },
    /// End one.
    Delete {
        /// The hash of what its browser sends.
        hash: String,
    },
}
