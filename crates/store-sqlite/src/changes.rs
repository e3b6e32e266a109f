//! Hears of the commits of others.
//!
//! SQLite counts for each connection how often it found that somebody else has written
//! (`PRAGMA data_version`). Asking touches no table: it compares a few bytes of shared memory. The
//! writer asks on its own connection, whose commits do not count, fifty times a second whether it
//! has something to do or not. A connection to a database that was opened as one that never changes
//! (see `still`) cannot tell, and the files are looked at. In memory there are no others and nobody
//! asks.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Result};
use tokio::sync::watch;

use crate::still::Still;

/// How often the writer looks. It is what a signal from another process waits at most.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Tells those who listen when somebody else has committed.
pub(crate) struct Changes {
    told: watch::Sender<u64>,
    /// None in memory.
    looking: Option<Looking>,
}

struct Looking {
    seen: Version,
    next: Instant,
}

/// What is different after a commit of somebody else.
#[derive(PartialEq, Eq)]
enum Version {
    Counted(i64),
    Files(Still),
}

impl Changes {
    /// For a database that others can open. What they commit from here on is heard of, however long
    /// it takes the writer to begin.
    pub(crate) fn in_a_file(connection: &Connection, still: Option<&Still>) -> Result<Self> {
        let seen = match still {
            Some(still) => Version::Files(still.clone()),
            None => Version::Counted(data_version(connection)?),
        };
        let looking = Looking { seen, next: Instant::now() };
        Ok(Changes { told: watch::Sender::new(0), looking: Some(looking) })
    }

    /// For a database that is this store's alone.
    pub(crate) fn in_memory() -> Self {
        Changes { told: watch::Sender::new(0), looking: None }
    }

    /// What changes when somebody else has committed, for as long as the writer lives.
    pub(crate) fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// How long until the next look; none in memory.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        let next = self.looking.as_ref()?.next;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Looks, and says whether somebody else has committed. When that fails nothing is missed: the
    /// next look sees what this one did not.
    pub(crate) fn look(&mut self, connection: &Connection) -> bool {
        let Some(looking) = &mut self.looking else { return false };
        looking.next = Instant::now() + LOOK_EVERY;
        let found = match &looking.seen {
            Version::Counted(_) => data_version(connection).map(Version::Counted),
            Version::Files(still) => Ok(Version::Files(still.now())),
        };
        match found {
            Ok(found) if found != looking.seen => {
                looking.seen = found;
                self.tell();
                true
            }
            _ => false,
        }
    }

    /// Tells those who listen.
    pub(crate) fn tell(&self) {
        self.told.send_modify(|count| *count += 1);
    }
}

fn data_version(connection: &Connection) -> Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
