//! A primary and a standby that take turns, for tests of failovers.
//!
//! Both are servers as any other; a pair knows which one is the primary now. Commits wait for the
//! standby for as long as there is one that follows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::process::PATIENCE;
use crate::{PASSWORD, ROLE, Server};

/// A primary and its standby.
#[derive(Debug)]
pub struct Pair {
    servers: [Server; 2],
    primary: AtomicUsize,
}

impl Pair {
    /// A primary, and a standby that follows it synchronously.
    ///
    /// Where there is no PostgreSQL and none can be installed, the test that asks is skipped.
    pub async fn start() -> Pair {
        let primary = Server::start();
        let standby = primary.standby();
        let pair = Pair { servers: [primary, standby], primary: AtomicUsize::new(0) };
        pair.follow_synchronously().await;
        pair
    }

    /// The server that is the primary, or was last.
    pub fn primary(&self) -> &Server {
        &self.servers[self.primary.load(Ordering::SeqCst)]
    }

    /// The other one.
    pub fn other(&self) -> &Server {
        &self.servers[1 - self.primary.load(Ordering::SeqCst)]
    }

    /// Where a database is over TCP: on one of both servers, in the order in which they were made.
    pub fn url(&self, database: &str) -> String {
        self.url_of(database, [self.servers[0].port(), self.servers[1].port()])
    }

    /// A URL of both servers where proxies with these ports stand before them.
    pub fn url_of(&self, database: &str, ports: [u16; 2]) -> String {
        let (password, [first, second]) = (PASSWORD.replace(' ', "%20"), ports);
        format!(
            "postgres://{ROLE}:{password}@127.0.0.1:{first},127.0.0.1:{second}/{database}\
             ?sslmode=disable"
        )
    }

    /// The servers, in the order in which they were made.
    pub fn servers(&self) -> &[Server; 2] {
        &self.servers
    }

    /// Kills the primary and promotes the standby; when that was one. Nobody follows the new
    /// primary, which therefore waits for nobody.
    pub async fn fail_over(&self) -> Instant {
        self.primary().kill();
        self.other().promote();
        let promoted = Instant::now();
        self.primary.fetch_xor(1, Ordering::SeqCst);
        wait_for_nobody(self.primary()).await;
        promoted
    }

    /// Starts the old primary as it was left: it believes that it still is the primary.
    pub fn revive(&self) {
        self.other().start_again();
    }

    /// Starts the old primary as it was left, and has it wait for no standby any more: it would
    /// acknowledge whatever it is asked to write.
    pub async fn revive_alone(&self) {
        self.revive();
        wait_for_nobody(self.other()).await;
    }

    /// Rewinds the old primary, which was killed, and has it follow the new one.
    pub async fn rejoin(&self) {
        // Until its first checkpoint a server that was promoted tells pg_rewind of the timeline
        // before, and then nothing would be taken back.
        self.primary().run("CHECKPOINT").await;
        self.other().rewind_to(self.primary());
        self.follow_synchronously().await;
    }

    /// Has commits wait for the standby, as soon as it has everything.
    async fn follow_synchronously(&self) {
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        until(self.primary(), "a standby that follows", streams, "1").await;
        self.primary().run("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        self.primary().run("SELECT pg_reload_conf()").await;
        let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        until(self.primary(), "a synchronous standby", waits, "1").await;
    }
}

/// Has commits of a server wait for no standby.
async fn wait_for_nobody(server: &Server) {
    server.run("ALTER SYSTEM SET synchronous_standby_names = ''").await;
    server.run("SELECT pg_reload_conf()").await;
    until(server, "no synchronous standby", "SHOW synchronous_standby_names", "").await;
}

async fn until(server: &Server, what: &str, sql: &str, expected: &str) {
    let since = Instant::now();
    while server.ask(sql).await != expected {
        assert!(since.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        // A pause between two questions: the server tells nobody when its state changes.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
