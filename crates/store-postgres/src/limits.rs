//! How long a server may take: nothing here waits without a bound.
//!
//! | what | how long | and then |
//! |---|---|---|
//! | connecting | 10 s, or `connect_timeout` of the URL | the other hosts, or another try |
//! | reaching the machine of one of several hosts | 3 s, or the same | the same |
//! | a beat | a quarter of a lease | another one, on another connection |
//! | joining, taking and giving up shards, looking for news | a lease | another try |
//! | a commit | a lease, and at least 5 s | its fate is unknown, and is found out |
//! | preparing a commit, rolling back | the same | another try, on another connection |
//! | finding that out | the same, again and again | |
//! | reading, and what surrounds the user's code | a minute | another try |
//! | bringing the schema up to date | 10 minutes | an error |
//!
//! These are our own limits, and connections that exceed them are given up. The server's
//! `statement_timeout` will not do: one that ends while a commit waits for a standby has the server
//! answer that the transaction is committed, although the standby does not have it.

use std::time::Duration;

use resurgam_core::duration::Human;
use resurgam_store::{Error, Result};

/// How long reading may take.
pub(crate) const fn read() -> Duration {
    Duration::from_secs(60)
}

/// How long it may take to bring the schema up to date: tables may be large, and another process
/// may be at it.
pub(crate) const fn migration() -> Duration {
    Duration::from_secs(600)
}

/// How long it may take to change who works on what, and to look for news.
pub(crate) fn control(lease: Duration) -> Duration {
    lease
}

/// How long a commit may take.
pub(crate) fn commit(lease: Duration) -> Duration {
    lease.max(Duration::from_secs(5))
}

/// Waits for something that attempts this, and no longer than the limit.
pub(crate) async fn within<T>(
    limit: Duration,
    attempted: &str,
    asked: impl Future<Output = T>,
) -> Result<T> {
    tokio::time::timeout(limit, asked).await.map_err(|_| exceeded(attempted, limit))
}

/// A commit took longer than its limit, or something around it did. What usually holds one up is
/// said too.
pub(crate) fn commit_exceeded(attempted: &str, limit: Duration) -> Error {
    Error::transient(attempted).because(format!(
        "no answer within {}; a server whose synchronous standby is gone holds back commits",
        Human(limit)
    ))
}

/// What was attempted took longer than its limit.
pub(crate) fn exceeded(attempted: impl Into<String>, limit: Duration) -> Error {
    Error::transient(attempted).because(format!("no answer within {}", Human(limit)))
}
