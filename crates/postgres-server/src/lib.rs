//! A private PostgreSQL server for tests.
//!
//! ```no_run
//! # async fn example() {
//! let database = resurgam_postgres_server::Server::shared().database().await;
//! println!("{}", database.url());
//! # }
//! ```
//!
//! One server for each test process, in a folder of its own, with a database for each test. It ends
//! with the process that started it, however that ends: a small shell script waits for the end of a
//! pipe whose other end only the test process holds, and then stops the server and removes its
//! folder. Data is not synced to the disk: what these tests ask of PostgreSQL is what it answers,
//! not that it survives a power cut.
//!
//! - `find`: where the programs are, and how they get there on Debian and Ubuntu.
//! - `user`: PostgreSQL refuses to run as root, so root runs it as the user `postgres`.
//! - `process`: making the folder, starting, stopping and killing. `pooler`: PgBouncer before it.
//! - `pair`: a primary and a standby that take turns. `proxy`: a network that can be cut.

#![allow(clippy::missing_panics_doc, reason = "a test helper fails the test")]

mod find;
mod pair;
mod pooler;
mod process;
mod proxy;
mod user;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

pub use pair::Pair;
pub use pooler::Pooler;
use process::Process;
pub use proxy::{Passage, Proxy};

/// A running server.
#[derive(Debug)]
pub struct Server {
    process: Process,
    pooler: OnceLock<Pooler>,
    template: OnceCell<String>,
    strategy: OnceCell<&'static str>,
    made: AtomicU64,
    /// Databases that nobody needs any more.
    left: Mutex<Vec<String>>,
}

/// A database of one test.
#[derive(Debug)]
pub struct Database<'s> {
    server: &'s Server,
    name: String,
}

/// The role that owns everything, and its password over TCP.
pub const ROLE: &str = "resurgam";
/// The password of [`ROLE`], asked for over TCP and not on the socket.
pub const PASSWORD: &str = "a test";

impl Server {
    /// The server that all tests of this process share, started by the first of them.
    ///
    /// Where there is no PostgreSQL and none can be installed, the test that asks is skipped.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Server::start)
    }

    /// A server of one's own, for tests that stop it.
    ///
    /// Where there is no PostgreSQL and none can be installed, the test that asks is skipped.
    pub fn start() -> Server {
        let started = Process::start(&find::programs());
        Server::of(started.unwrap_or_else(|why| panic!("start a PostgreSQL server: {why}")))
    }

    /// A standby that follows this server, with everything that is in it.
    pub fn standby(&self) -> Server {
        let started = Process::follow(&self.process);
        Server::of(started.unwrap_or_else(|why| panic!("start a standby: {why}")))
    }

    fn of(process: Process) -> Server {
        Server {
            process,
            pooler: OnceLock::new(),
            template: OnceCell::new(),
            strategy: OnceCell::new(),
            made: AtomicU64::new(0),
            left: Mutex::default(),
        }
    }

    /// Skips the test that asks where there is no PostgreSQL and none can be installed.
    pub fn require() {
        find::programs();
    }

    /// An empty database.
    pub async fn database(&self) -> Database<'_> {
        self.create("template0").await
    }

    /// A database that is there already: on a standby, for example.
    pub fn existing(&self, name: &str) -> Database<'_> {
        Database { server: self, name: name.to_string() }
    }

    /// A copy of a database that is made once by `prepare`, which gets its URL and must leave no
    /// connection behind.
    pub async fn copy<F: Future<Output = ()>>(
        &self,
        prepare: impl FnOnce(String) -> F,
    ) -> Database<'_> {
        let template = self.template.get_or_init(async || {
            let template = self.create("template0").await;
            prepare(template.url()).await;
            let name = template.name.clone();
            // The original outlives its copies.
            std::mem::forget(template);
            name
        });
        self.create(template.await).await
    }

    async fn create(&self, template: &str) -> Database<'_> {
        let name = format!("test_{}", self.made.fetch_add(1, Ordering::Relaxed));
        let left: Vec<String> = self.left().drain(..).collect();
        for name in left {
            self.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
        let strategy = self.strategy.get_or_init(|| self.find_strategy()).await;
        self.run(&format!("CREATE DATABASE {name} TEMPLATE {template} {strategy}")).await;
        Database { server: self, name }
    }

    /// Copying files is the fastest way where nothing is synced, and the only one before version
    /// 15, which does not know the word.
    async fn find_strategy(&self) -> &'static str {
        let version = ask(&self.url("postgres"), "SHOW server_version_num").await;
        match version.parse::<u32>() {
            Ok(150_000..) => "STRATEGY FILE_COPY",
            _ => "",
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<String>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL as the superuser in the database `postgres`.
    pub async fn run(&self, sql: &str) {
        run(&self.url("postgres"), sql).await;
    }

    /// The single value that a query answers in the database `postgres`, as text.
    pub async fn ask(&self, sql: &str) -> String {
        ask(&self.url("postgres"), sql).await
    }

    /// Runs SQL as the superuser in a database of this name.
    pub async fn run_in(&self, database: &str, sql: &str) {
        run(&self.url(database), sql).await;
    }

    /// The single value that a query answers in a database of this name, as text.
    pub async fn ask_in(&self, database: &str, sql: &str) -> String {
        ask(&self.url(database), sql).await
    }

    /// Where a database is on the socket, which asks for no password.
    pub fn url(&self, database: &str) -> String {
        let folder = self.process.folder().display().to_string().replace('/', "%2F");
        format!("postgres://{ROLE}@{folder}:{}/{database}", self.port())
    }

    /// Where a database is over TCP.
    pub fn tcp_url(&self, database: &str) -> String {
        let password = PASSWORD.replace(' ', "%20");
        format!("postgres://{ROLE}:{password}@127.0.0.1:{}/{database}", self.port())
    }

    /// PgBouncer in transaction mode in front of it, with few connections for all, started by the
    /// first who asks.
    ///
    /// Where there is no PgBouncer and none can be installed, the test that asks is skipped.
    pub fn pooler(&self) -> &Pooler {
        self.pooler_of(3)
    }

    /// The same with so many connections, for several processes at once.
    ///
    /// Where there is no PgBouncer and none can be installed, the test that asks is skipped.
    pub fn pooler_of(&self, connections: u32) -> &Pooler {
        self.pooler.get_or_init(|| {
            let started = Pooler::start(&self.process, connections);
            started.unwrap_or_else(|why| panic!("start PgBouncer: {why}"))
        })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// Offers encryption over TCP with this certificate and its key, both as PEM.
    pub async fn use_certificate(&self, certificate: &str, key: &str) {
        let files = [("server.crt", certificate), ("server.key", key)];
        let written = files.iter().try_for_each(|(name, text)| self.process.write(name, text));
        written.unwrap_or_else(|why| panic!("offer encryption: {why}"));
        self.run("ALTER SYSTEM SET ssl = on").await;
        self.run("SELECT pg_reload_conf()").await;
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.process.log_text()
    }

    /// Stops at once, as if the machine had lost its power, and says nothing to anybody.
    pub fn kill(&self) {
        self.process.stop_immediately();
    }

    /// Starts again after [`kill`](Server::kill), as whatever it was.
    pub fn start_again(&self) {
        self.process.start_again();
    }

    /// Makes a [`standby`](Server::standby) a primary, and waits until it is one.
    pub fn promote(&self) {
        self.process.promote();
    }

    /// Takes back what another server does not have, after [`kill`](Server::kill), and starts again
    /// as a standby of that one.
    pub fn rewind_to(&self, primary: &Server) {
        self.process.rewind_to(&primary.process);
    }
}

impl Database<'_> {
    /// Where it is on the socket.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Where it is over TCP.
    pub fn tcp_url(&self) -> String {
        self.server.tcp_url(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its server.
    pub fn server(&self) -> &Server {
        self.server
    }

    /// Runs SQL as the superuser.
    pub async fn run(&self, sql: &str) {
        run(&self.url(), sql).await;
    }

    /// The single value that a query answers, as text.
    pub async fn ask(&self, sql: &str) -> String {
        ask(&self.url(), sql).await
    }
}

/// Dropped later, when somebody makes the next one: here nobody can wait.
impl Drop for Database<'_> {
    fn drop(&mut self) {
        self.server.left().push(std::mem::take(&mut self.name));
    }
}

async fn ask(url: &str, sql: &str) -> String {
    try_ask(url, sql).await.expect(sql)
}

async fn try_ask(url: &str, sql: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(sql).await?;
    drop(client);
    // The connection's own end is no news once the answer is here.
    let _ = driver.await;
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.unwrap_or_default().to_string())
}

async fn run(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect(sql);
    let driver = tokio::spawn(connection);
    // Of two that wait for each other the server gives one up; whoever works beside it goes on.
    let is_deadlock = |error: &tokio_postgres::Error| {
        error.code() == Some(&tokio_postgres::error::SqlState::T_R_DEADLOCK_DETECTED)
    };
    let mut done = client.batch_execute(sql).await;
    for _ in 0..20 {
        if !done.as_ref().is_err_and(is_deadlock) {
            break;
        }
        done = client.batch_execute(sql).await;
    }
    done.expect(sql);
    drop(client);
    // The connection's own end is no news once the answer is here.
    let _ = driver.await;
}
