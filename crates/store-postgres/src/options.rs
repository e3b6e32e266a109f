//! How a database is used.

use std::time::Duration;

use resurgam_store::fleet::Purpose;

/// How a database is used. The defaults are what a person would choose who knows nothing else.
///
/// ```
/// use resurgam_store_postgres::Options;
///
/// let options = Options::default().schema("orders").lanes(4);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    schema: Option<String>,
    pub(crate) lanes: u16,
    pub(crate) readers: usize,
    pub(crate) listen: Listen,
    pub(crate) ledger_rows: u32,
    pub(crate) lease: Duration,
    pub(crate) transactions: u16,
    pub(crate) transaction_timeout: Duration,
    looks_only: bool,
}

/// Where hints about the commits of others come from.
#[derive(Clone, Debug)]
pub(crate) enum Listen {
    /// A connection to the same URL.
    Here,
    /// A connection to another one.
    At(String),
    /// Nowhere: polling alone tells.
    Nowhere,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            schema: None,
            lanes: 2,
            readers: 2,
            listen: Listen::Here,
            ledger_rows: 1_000,
            lease: Duration::from_secs(10),
            transactions: 4,
            transaction_timeout: Duration::from_secs(5),
            looks_only: false,
        }
    }
}

impl Options {
    /// The schema that the tables are in, in place of the one that the URL names
    /// (`?schema=orders`); `resurgam` unless either is set. One schema is one program.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// The schema, where the URL names this one.
    pub(crate) fn schema_of<'a>(&'a self, of_url: Option<&'a str>) -> &'a str {
        self.schema.as_deref().or(of_url).unwrap_or("resurgam")
    }

    /// For a client that only looks: a standby will do, where no primary answers or the URL names
    /// none. What is read there may be a little old.
    pub fn looking_only(mut self) -> Self {
        (self.looks_only, self.listen) = (true, Listen::Nowhere);
        self
    }

    /// What a client's connections are for.
    pub(crate) fn purpose(&self) -> Purpose {
        if self.looks_only { Purpose::Look } else { Purpose::Ask }
    }

    /// How many connections commit, at least one; 2 unless set. A batch takes one of them.
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes.clamp(1, 256);
        self
    }

    /// How many connections read, at least one; 2 unless set.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }

    /// Where to listen for hints, when a pooler stands between that keeps no sessions: the URL of
    /// the server itself.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen = Listen::At(url.into());
        self
    }

    /// Listens nowhere: what others commit is seen by polling, within half a second.
    pub fn without_listening(mut self) -> Self {
        self.listen = Listen::Nowhere;
        self
    }

    /// How many rows the ledger of one activity call may have; 1,000 unless set. The first ten
    /// stay, and the oldest after them go.
    pub fn ledger_rows(mut self, rows: u32) -> Self {
        self.ledger_rows = rows;
        self
    }

    /// How many transactions on the user's own tables run at a time, at least one; 4 unless set.
    /// Each takes a connection, made when it is first needed; others wait for one.
    pub fn transactions(mut self, transactions: u16) -> Self {
        self.transactions = transactions.clamp(1, 1_000);
        self
    }

    /// How long the user's code may take in a transaction on their own tables; 5 seconds unless
    /// set.
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// How long the beat of a node must stand still before others take its shards, the same for all
    /// nodes of a schema; 10 seconds unless set. Shorter ones move work sooner after a crash, and
    /// take a node for dead that only paused.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(100));
        self
    }
}
