//! How a database is opened.

use std::time::Duration;

/// How a database is opened. The defaults are what a person would choose who knows nothing else.
///
/// ```
/// use resurgam_store_sqlite::{Options, SyncMode};
///
/// use std::time::Duration;
///
/// let fast = Options::default().sync(SyncMode::Normal).readers(4);
/// let careful = Options::default()
///     .create(false) // a file that is not there is an error
///     .busy_timeout(Duration::from_secs(30)) // while others write
///     .transaction_timeout(Duration::from_secs(1)) // of activities on their own tables
///     .foreign_keys(true)
///     .ledger_rows(100) // that are kept of one call
///     .log_bytes(16 << 20); // of the write-ahead log
/// # drop((fast, careful));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) sync: SyncMode,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) create: bool,
    pub(crate) ledger_rows: u32,
    pub(crate) log_bytes: u32,
    pub(crate) transaction_timeout: Duration,
    pub(crate) foreign_keys: bool,
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// The loss of power: every commit waits for the disk.
    #[default]
    Full,
    /// The death of the process. Losing power may undo the last commits, never half of one.
    Normal,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sync: SyncMode::Full,
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            create: true,
            ledger_rows: 1_000,
            log_bytes: 64 << 20,
            transaction_timeout: Duration::from_secs(5),
            foreign_keys: false,
        }
    }
}

impl Options {
    /// What an acknowledged commit survives; [`SyncMode::Full`] unless set.
    pub fn sync(mut self, sync: SyncMode) -> Self {
        self.sync = sync;
        self
    }

    /// How long a commit waits while another process writes, before it is a transient error;
    /// 5 seconds unless set.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How many connections read, at least one; 2 unless set.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }

    /// Whether a file that is not there is made; true unless set.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How many rows the ledger of one activity call may have; 1,000 unless set. The first ten
    /// stay, and the oldest after them go.
    pub fn ledger_rows(mut self, rows: u32) -> Self {
        self.ledger_rows = rows;
        self
    }

    /// How long the write-ahead log may grow, about, before commits wait for it to be copied into
    /// the database; 64 MiB unless set. Long before, it is copied beside them.
    pub fn log_bytes(mut self, bytes: u32) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// How long the user's code may take in a transaction on their own tables; 5 seconds unless
    /// set. Nobody else can write meanwhile.
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// Whether foreign keys between the user's own tables are enforced. Not unless set, as is
    /// SQLite's own way.
    pub fn foreign_keys(mut self, enforced: bool) -> Self {
        self.foreign_keys = enforced;
        self
    }
}
