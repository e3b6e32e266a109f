//! PgBouncer in transaction mode in front of a server, for tests of what a pooler forgets.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{PATIENCE, Process, free_port, output};
use crate::{ROLE, Server, find, try_ask};

const SETTINGS: &str = "pgbouncer.ini";

/// A running pooler. It ends with the server that it was started before.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    /// Where its files are: the folder of that server.
    folder: PathBuf,
    connections: u32,
}

impl Pooler {
    pub(crate) fn start(process: &Process, connections: u32) -> Result<Pooler, String> {
        let program = find::pooler();
        let pooler =
            Pooler { port: free_port()?, folder: process.folder().to_path_buf(), connections };
        let written = fs::write(pooler.file("users"), format!("\"{ROLE}\" \"\"\n"))
            .and_then(|()| fs::write(pooler.file(SETTINGS), pooler.settings(process)));
        written.map_err(|error| format!("write its settings: {error}"))?;
        for name in ["users", SETTINGS] {
            process.give(&pooler.file(name))?;
        }
        let mut command: Command = process.command(&program);
        output(command.arg("-d").arg(pooler.file(SETTINGS)))?;
        let begun = Instant::now();
        // It begins to listen only after its program has returned, and tells nobody.
        while TcpStream::connect(("127.0.0.1", pooler.port)).is_err() {
            if begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(pooler.file("pgbouncer.log")).unwrap_or_default();
                return Err(format!("it does not answer; its log says:\n{log}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(pooler)
    }

    /// Leads to another server from now on, as an operator has it do: its clients stay connected
    /// and are told nothing.
    pub async fn lead_to(&self, server: &Server) {
        let settings = self.settings(&server.process);
        fs::write(self.file(SETTINGS), settings).expect("the settings of a pooler");
        let number = fs::read_to_string(self.file("pgbouncer.pid")).expect("its process");
        let mut read_again = Command::new("kill");
        output(read_again.args(["-HUP", number.trim()])).expect("it reads its settings again");
        let port = server.port().to_string();
        let begun = Instant::now();
        // For a moment it may remember that the server before did not let it in.
        while try_ask(&self.url("postgres"), "SHOW port").await.ok().as_ref() != Some(&port) {
            assert!(begun.elapsed() < PATIENCE, "it did not lead there within {PATIENCE:?}");
            // A pause between two questions: it tells nobody when it has read its settings.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn settings(&self, server: &Process) -> String {
        // A server that was restarted is looked for sooner than after the usual 15 seconds.
        format!(
            "[databases]\n* = host={folder} port={server} user={ROLE}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {users}\npool_mode = transaction\n\
             max_client_conn = 1000\ndefault_pool_size = {connections}\nserver_idle_timeout = 5\n\
             server_login_retry = 1\n\
             logfile = {log}\npidfile = {pid}\n",
            folder = server.folder().display(),
            server = server.port(),
            port = self.port,
            connections = self.connections,
            users = self.file("users").display(),
            log = self.file("pgbouncer.log").display(),
            pid = self.file("pgbouncer.pid").display(),
        )
    }

    /// Where a database is behind the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }
}

/// Where packages put the program, which is not on everybody's `PATH`.
pub(crate) const PLACES: [&str; 3] =
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer"];
