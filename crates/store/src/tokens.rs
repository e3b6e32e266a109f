//! API tokens as rows: who may ask a server what.
//!
//! A store keeps what a token is known by, which is not the token: only its hash is written. What
//! its role and settings mean is the server's. A token that is revoked stays, so that what it did
//! can be traced to it.

use resurgam_core::Timestamp;

use crate::Answer;

/// Keeping tokens.
pub trait Tokens {
    /// All tokens, those that were revoked too, by their ids.
    fn tokens(&self) -> Answer<'_, Vec<TokenRow>>;

    /// Changes one token. False when there is nothing to change: the id of a new one is taken, or
    /// there is no such token to revoke, or it was revoked before.
    fn write_token(&self, write: TokenWrite) -> Answer<'_, bool>;
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
