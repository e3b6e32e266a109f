//! The server's process: its folder, its start and its end.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::user::User;
use crate::{PASSWORD, ROLE};

/// A server and the pipe that keeps it alive.
#[derive(Debug)]
pub(crate) struct Process {
    programs: PathBuf,
    user: User,
    folder: PathBuf,
    port: u16,
    /// Closed by the system when this process ends, by whatever means.
    #[allow(dead_code, reason = "the watcher sees its end")]
    alive: ChildStdin,
}

/// How many kilobytes must be free in memory before it is used.
const ENOUGH: u64 = 2 << 20;

/// How long the server may take to start or to stop, and any other program to end; a busy machine
/// takes a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for the end of its input, which is the end of the test process, and cleans up. Signals to
/// the whole group, as Ctrl-C sends them, must not end it before that.
const WATCHER: &str = r#"
trap '' HUP INT TERM
cat > /dev/null
pooler=$(cat "$1/pgbouncer.pid" 2> /dev/null) && kill -QUIT "$pooler" 2> /dev/null
server=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null) && kill -QUIT "$server" 2> /dev/null
looks=0
while [ -e "$1/data/postmaster.pid" ] && [ "$looks" -lt 600 ]; do
    looks=$((looks + 1))
    sleep 0.2
done
rm -rf "$1"
"#;

impl Process {
    /// Makes a folder and starts a server in it.
    pub(crate) fn start(programs: &Path) -> Result<Process, String> {
        let process = Process::new(programs)?;
        let mut copy = process.command(Path::new("cp"));
        output(copy.arg("-pR").arg(original(programs)?.data()).arg(process.data()))?;
        process.begin()?;
        Ok(process)
    }

    /// Copies a running server, and starts the copy as a standby that follows it.
    pub(crate) fn follow(primary: &Process) -> Result<Process, String> {
        let process = Process::new(&primary.programs)?;
        let mut copy = process.program("pg_basebackup");
        copy.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--dbname"]);
        output(copy.arg(primary.conninfo()).arg("--pgdata").arg(process.data()))?;
        process.begin()?;
        Ok(process)
    }

    /// A folder for a server, with nothing in it yet.
    fn new(programs: &Path) -> Result<Process, String> {
        let user = User::find()?;
        let folder = tempfile::Builder::new().prefix("resurgam-pg-").tempdir_in(place());
        // From here on the watcher removes it, which outlives this process.
        let folder = folder.map_err(|error| format!("make a folder: {error}"))?.keep();
        user.give(&folder).map_err(|error| format!("give {} away: {error}", folder.display()))?;
        let alive = watch(&user, &folder)?;
        let port = free_port()?;
        Ok(Process { programs: programs.to_path_buf(), user, folder, port, alive })
    }

    /// Where it is, for PostgreSQL's own programs.
    fn conninfo(&self) -> String {
        let folder = self.folder.display();
        format!("host={folder} port={} user={ROLE} dbname=postgres", self.port)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Kills it as a power cut would.
    pub(crate) fn stop_immediately(&self) {
        let seconds = PATIENCE.as_secs().to_string();
        let stopped = self.pg_ctl(&["stop", "-m", "immediate", "-w", "-t", &seconds]);
        stopped.unwrap_or_else(|why| panic!("stop the server: {why}"));
    }

    /// Starts it again on the same port.
    pub(crate) fn start_again(&self) {
        self.begin().unwrap_or_else(|why| panic!("start the server again: {why}"));
    }

    /// Makes a standby a primary, on the next timeline.
    pub(crate) fn promote(&self) {
        let seconds = PATIENCE.as_secs().to_string();
        let promoted = self.pg_ctl(&["promote", "-w", "-t", &seconds]);
        promoted.unwrap_or_else(|why| panic!("promote a standby: {why}"));
    }

    /// Takes back what another server does not have, and starts this one as its standby.
    pub(crate) fn rewind_to(&self, primary: &Process) {
        let mut rewind = self.program("pg_rewind");
        rewind.args(["--no-sync", "--write-recovery-conf", "--source-server"]);
        let rewound =
            output(rewind.arg(primary.conninfo()).arg("--target-pgdata").arg(self.data()));
        rewound.unwrap_or_else(|why| panic!("rewind an old primary: {why}"));
        self.start_again();
    }

    fn initialise(&self) -> Result<(), String> {
        let password = self.folder.join("password");
        fs::write(&password, PASSWORD).map_err(|error| format!("write a password: {error}"))?;
        self.user.give(&password).map_err(|error| format!("give a password away: {error}"))?;
        let mut initdb = self.program("initdb");
        initdb.args(["--no-sync", "--encoding=UTF8", "--locale=C", "--username", ROLE]);
        initdb.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile"]);
        initdb.arg(&password).arg("--pgdata").arg(self.data());
        output(&mut initdb)?;
        // Hints and some WAL are kept for those who rewind.
        let settings = "\nlisten_addresses = '127.0.0.1'\nfsync = off\nmax_connections = 500\n\
                        max_prepared_transactions = 0\nlog_min_messages = warning\n\
                        autovacuum = off\nwal_log_hints = on\nwal_keep_size = 512MB\n";
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).unwrap_or_default() + settings;
        fs::write(&file, text).map_err(|error| format!("write {}: {error}", file.display()))
    }

    /// Starts it and waits until it answers.
    fn begin(&self) -> Result<(), String> {
        let seconds = PATIENCE.as_secs().to_string();
        let begun = Instant::now();
        // Not in the settings, which a standby and its primary copy from each other.
        let address = format!("-p {} -k {}", self.port, self.folder.display());
        match self.pg_ctl(&["start", "-w", "-t", &seconds, "-o", &address]) {
            Ok(()) => Ok(()),
            Err(why) => {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                Err(format!("{why} after {:?}; its log says:\n{log}", begun.elapsed()))
            }
        }
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.program("pg_ctl");
        command.args(arguments).arg("-D").arg(self.data()).arg("-l").arg(self.log());
        output(&mut command)
    }

    /// Writes a file that only the server may read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let file = self.data().join(name);
        let failed = |error| format!("write {}: {error}", file.display());
        fs::write(&file, text).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        }
        self.give(&file)
    }

    /// Gives a file to whoever runs the server.
    pub(crate) fn give(&self, file: &Path) -> Result<(), String> {
        self.user.give(file).map_err(|error| format!("give {} away: {error}", file.display()))
    }

    fn program(&self, name: &str) -> Command {
        self.command(&self.programs.join(name))
    }

    /// A command that runs as the server's user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.user.run(&mut command);
        // Not where the tests stand, which its user may not be allowed to enter.
        command.current_dir(&self.folder).env_remove("PGDATA").stdin(Stdio::null());
        // The server must not get a signal that is for the tests.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// What the server has logged.
    pub(crate) fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

/// A server that is never started, of which all others are copies: `initdb` takes longer than the
/// rest of a start. All servers of a test process therefore have one system identifier.
fn original(programs: &Path) -> Result<&'static Process, String> {
    static ORIGINAL: OnceLock<Result<Process, String>> = OnceLock::new();
    let made = ORIGINAL.get_or_init(|| {
        let original = Process::new(programs)?;
        original.initialise()?;
        Ok(original)
    });
    made.as_ref().map_err(Clone::clone)
}

/// Starts the script that ends the server when this process does.
fn watch(user: &User, folder: &Path) -> Result<ChildStdin, String> {
    let mut command = Command::new("sh");
    user.run(&mut command);
    command.args(["-c", WATCHER, "watcher"]).arg(folder).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let watcher = command.spawn().map_err(|error| format!("start its watcher: {error}"))?;
    watcher.stdin.ok_or_else(|| "start its watcher: it has no input".to_string())
}

/// Where folders are made: in memory where there is plenty, for a database for each test is a lot
/// to write.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = Command::new("df").args(["-Pk", "/dev/shm"]).output().ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok()
    });
    match free {
        Some(kilobytes) if kilobytes > ENOUGH && memory.is_dir() => memory.to_path_buf(),
        _ => std::env::temp_dir(),
    }
}

/// A port that is free now. Somebody may take it meanwhile; then the start fails and says so.
pub(crate) fn free_port() -> Result<u16, String> {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(found.map_err(|error| format!("find a free port: {error}"))?.port())
}

/// Runs a program to its end. Its output goes to a file and not to a pipe: a server that it starts
/// keeps the pipe open for ever.
pub(crate) fn output(command: &mut Command) -> Result<(), String> {
    let said = tempfile::NamedTempFile::new().map_err(|error| format!("keep output: {error}"))?;
    let file = || said.reopen().map(Stdio::from).unwrap_or_else(|_| Stdio::null());
    let mut child = command
        .stdout(file())
        .stderr(file())
        .spawn()
        .map_err(|error| format!("run {}: {error}", command.get_program().display()))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            // A little longer than what is given to programs that wait themselves, and say more.
            Ok(None) if begun.elapsed() > PATIENCE + Duration::from_secs(10) => {
                // It may have ended just now, and that it took too long is what is said.
                let _ended = child.kill().and_then(|()| child.wait());
                let program = command.get_program().display();
                return Err(format!("{program} did not end within {:?}", begun.elapsed()));
            }
            // The standard library cannot wait for a process with a bound, so it is asked again.
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(format!("wait for a program: {error}")),
        }
    };
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "{} failed ({status}): {}",
            command.get_program().display(),
            fs::read_to_string(said.path()).unwrap_or_default().trim()
        )),
    }
}
