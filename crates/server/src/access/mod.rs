//! Who may do what.
//!
//! Whoever asks names a token, `Authorization: Bearer rsg_...`. A token has a role, and each group
//! of routes needs one. Of a token only the hash is stored; it is compared in constant time. What
//! is known of tokens is read again after two seconds, so a token that was revoked lets nobody in
//! for longer than that.
//!
//! A browser exchanges its token for a login (`login.rs`).
//!
//! Beside that every request is looked at for where it comes from: a page of somebody else must not
//! act through the browser of somebody who may.

mod guard;
mod login;
mod role;
mod token;

pub(crate) use guard::{Needs, from_here, guarded, guarded_start, still_lets_in};
pub(crate) use login::{Failures, begin as begin_login, end as end_login};
pub use role::Role;
pub(crate) use token::{Known, KnownTokens, hash_of};
pub use token::{NewToken, Token, TokenSettings};

/// Whether a token is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Nobody gets in without.
    #[default]
    Always,
    /// Who names none may do everything; who names one may do what that may.
    IfNamed,
}
