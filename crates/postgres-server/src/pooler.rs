//! PgBouncer in transaction mode in front of a server, for tests of what a pooler forgets.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{PATIENCE, Process, free_port, output};
use crate::{ROLE, find};

/// A running pooler. It ends with its server.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
}

impl Pooler {
    pub(crate) fn start(process: &Process, connections: u32) -> Result<Pooler, String> {
        let program = find::pooler();
        let port = free_port()?;
        let file = |name: &str| process.folder().join(name);
        // A server that was restarted is looked for sooner than after the usual 15 seconds.
        let settings = format!(
            "[databases]\n* = host={folder} port={server} user={ROLE}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {users}\npool_mode = transaction\n\
             max_client_conn = 1000\ndefault_pool_size = {connections}\nserver_idle_timeout = 5\n\
             server_login_retry = 1\n\
             logfile = {log}\npidfile = {pid}\n",
            folder = process.folder().display(),
            server = process.port(),
            users = file("users").display(),
            log = file("pgbouncer.log").display(),
            pid = file("pgbouncer.pid").display(),
        );
        let written = fs::write(file("users"), format!("\"{ROLE}\" \"\"\n"))
            .and_then(|()| fs::write(file("pgbouncer.ini"), settings));
        written.map_err(|error| format!("write its settings: {error}"))?;
        for name in ["users", "pgbouncer.ini"] {
            process.give(&file(name))?;
        }
        let mut command: Command = process.command(&program);
        output(command.arg("-d").arg(file("pgbouncer.ini")))?;
        let begun = Instant::now();
        // It begins to listen only after its program has returned, and tells nobody.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(file("pgbouncer.log")).unwrap_or_default();
                return Err(format!("it does not answer; its log says:\n{log}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Pooler { port })
    }

    /// Where a database is behind the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }
}

/// Where packages put the program, which is not on everybody's `PATH`.
pub(crate) const PLACES: [&str; 3] =
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer"];
