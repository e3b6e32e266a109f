//! What several files of tests need.

pub(crate) mod acted;
pub(crate) mod attempts;
pub(crate) mod ground;
pub(crate) mod log;
pub(crate) mod tables;

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use resurgam_testing::{Crash, TestStore};

/// Everything at once, so that commits are shared: what becomes of each, in order.
pub(crate) async fn at_once<T: Send + 'static>(
    all: impl IntoIterator<Item: IntoFuture<Output = T, IntoFuture: Send + 'static>>,
) -> Vec<T> {
    let tasks: Vec<_> = all.into_iter().map(|one| tokio::spawn(one.into_future())).collect();
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.unwrap());
    }
    ended
}

/// True on PostgreSQL, where a commit takes a millisecond and a new app a good part of a second.
pub(crate) fn is_slow() -> bool {
    TestStore::chosen() == TestStore::Postgres
}

/// How many of something there are: on PostgreSQL, where ten thousand take a minute, a fifth.
pub(crate) fn many(usually: u64) -> u64 {
    if is_slow() { usually / 5 } else { usually }
}

/// The crashes that a scenario goes through, one after the other: before and after every commit. On
/// PostgreSQL, where a scenario can take a second, three of them unless `RESURGAM_CRASHES=all`.
pub(crate) fn crashes(commits: u64) -> impl Iterator<Item = Crash> {
    const SOME: u64 = 3;
    let wants_all = std::env::var("RESURGAM_CRASHES").is_ok_and(|wanted| wanted == "all");
    let count = if is_slow() && !wants_all { SOME.min(2 * commits) } else { 2 * commits };
    (0..count).map(move |n| {
        // From the first commit to the last, before and after in turn.
        let k = 1 + n * commits / count;
        if n % 2 == 0 { Crash::BeforeCommit(k) } else { Crash::AfterCommit(k) }
    })
}

/// A crash at the commit that is so many later.
pub(crate) fn later(crash: Crash, commits: u64) -> Crash {
    match crash {
        Crash::BeforeCommit(k) => Crash::BeforeCommit(commits + k),
        Crash::AfterCommit(k) => Crash::AfterCommit(commits + k),
    }
}

/// A long sentence in lines that fit a page, to be compared.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut width = 0;
        for word in line.split(' ') {
            if width + word.len() > 80 {
                lines.push('\n');
                width = 0;
            } else if width > 0 {
                lines.push(' ');
            }
            lines.push_str(word);
            width += word.len() + 1;
        }
        lines.push('\n');
    }
    lines
}

/// Waits in wall time, for real nodes are asked.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    /// Longer than anything takes that is waited for, also on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(300);
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        // Between two looks: nobody tells when a node has come to something.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
