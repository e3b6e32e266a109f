//! Questions about retry policies, and their answers as JSON.
//!
//! `resurgam policy` and the server's `POST policies/...` answer alike because both ask here: what
//! a policy does ([`explain`]), whether it is one ([`check`]), what it is in other systems' words
//! ([`convert`]), which delay follows a failure ([`answer`]), what an outage costs under it
//! ([`simulate`]), and what recorded calls would have come to ([`what_if`]).
//!
//! Nothing here reads files or prints: that is the command line's. Nothing decides, either: what
//! follows a failure is decided by [`resurgam_core::retry`].

pub mod answer;
pub mod check;
pub mod convert;
pub mod explain;
pub mod outlook;
mod printable;
pub mod simulate;
pub mod what_if;
pub mod words;

pub use printable::printable;
