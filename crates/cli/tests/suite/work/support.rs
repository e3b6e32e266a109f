//! A folder with a database, files and actions, and the program to run them with.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal};
use serde_json::Value;

pub(crate) use crate::processes::until;

/// Whether a program is there that a test needs. Where it is not, the test is skipped and says so.
pub(crate) fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: there is no {program} here");
    }
    is_there
}

/// Numbers for the files that output goes to.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Places that are made now ask a server wherever one can answer.
    static ASKS_A_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test with every command that a server can answer asked of one.
pub(crate) fn asking_a_server(test: impl FnOnce()) {
    ASKS_A_SERVER.set(true);
    test();
    ASKS_A_SERVER.set(false);
}

/// True for a command that a server can answer.
fn is_for_servers(args: &[&str]) -> bool {
    const OPERATORS: &[&str] = &[
        "activity",
        "attempts",
        "bulk",
        "call",
        "cancel",
        "dead",
        "delete",
        "export",
        "gate",
        "history",
        "list",
        "pause",
        "paused",
        "queue",
        "reset",
        "restart",
        "resume",
        "schedule",
        "show",
        "signal",
        "start",
        "terminate",
        "watch",
    ];
    match args {
        ["policy", verb, ..] => ["list", "set", "unset", "what-if"].contains(verb),
        [command, ..] => OPERATORS.contains(command),
        [] => false,
    }
}

/// A folder of its own.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    database: String,
    environment: Vec<(String, String)>,
    asks_a_server: bool,
    /// The server of the database, once somebody has asked it, and its address.
    server: OnceLock<(Process, String)>,
}

/// What a process left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The one JSON value on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same of a process that was to end with this code.
    pub(crate) fn json_with(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.json()
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("actions")).unwrap();
        let (database, environment) = ("sqlite:test.db".to_string(), Vec::new());
        let asks_a_server = ASKS_A_SERVER.get();
        Place { folder, database, environment, asks_a_server, server: OnceLock::new() }
    }

    /// The same on another database.
    pub(crate) fn on(mut self, database: &str) -> Self {
        self.database = database.to_string();
        self
    }

    /// Sets a variable for all processes that begin from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_string(), value.to_string()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Writes a shell script as an action. It appears as a whole, as careful people put it there.
    pub(crate) fn action(&self, name: &str, script: &str) {
        let (new, file) = (self.path("new-action"), self.path("actions").join(name));
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// What a file holds; nothing when there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The address of a server of the database that asks for no token. It ends with the place.
    pub(crate) fn server(&self) -> &str {
        let (_, address) = self.server.get_or_init(|| self.serve(&[]));
        address
    }

    /// A server of the database, and its address.
    pub(crate) fn serve(&self, more: &[&str]) -> (Process, String) {
        let args = [&["server", "--listen", "0"], more].concat();
        let server = self.spawn(self.plain(&args), &args);
        until("the server serves", || server.said().contains("serving at http"));
        let said = server.said();
        let address = said.split("serving at ").nth(1).unwrap();
        let address = address.split([';', ',', ' ', '\n']).next().unwrap().to_string();
        (server, address)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.plain(args);
        if self.asks_a_server && is_for_servers(args) {
            command.env_remove("RESURGAM_DB").env("RESURGAM_SERVER", self.server());
        }
        command
    }

    /// A command that asks the database, unless it says otherwise.
    fn plain(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RESURGAM_")) {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("RESURGAM_DB", &self.database);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.begin(args).end()
    }

    /// Runs a command to its end that reads this from standard input.
    pub(crate) fn run_reading(&self, input: &[u8], args: &[&str]) -> Ended {
        let file = self.path(&format!("in-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::write(&file, input).unwrap();
        let mut command = self.command(args);
        command.stdin(fs::File::open(file).unwrap());
        self.spawn(command, args).end()
    }

    /// Runs a command to its end, in a shell that first takes something away from it.
    pub(crate) fn run_limited(&self, limit: &str, args: &[&str]) -> Ended {
        let inner = self.command(args);
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\"")).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.spawn(command, args).end()
    }

    /// Begins a command. Its output goes to files, so that nobody need read it.
    pub(crate) fn begin(&self, args: &[&str]) -> Process {
        self.spawn(self.command(args), args)
    }

    /// Begins a command that reads from standard input what the caller writes, when it does.
    pub(crate) fn begin_reading(&self, args: &[&str]) -> (Process, ChildStdin) {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut process = self.spawn(command, args);
        let input = process.child.stdin.take().unwrap();
        (process, input)
    }

    fn spawn(&self, mut command: Command, args: &[&str]) -> Process {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (format!("out-{number}"), format!("err-{number}"));
        let file = |name: &str| fs::File::create(self.path(name)).unwrap();
        command.stdout(file(&out)).stderr(file(&err));
        let child = command.spawn().unwrap();
        let what = format!("resurgam {}", args.join(" "));
        Process { child, what, out: self.path(&out), err: self.path(&err) }
    }

    /// One JSON value of a command that was to succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).json_with(0)
    }
}

/// A process that runs. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    /// What it was told.
    what: String,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Whether it handles a signal. Before it does, the signal would end it where it stands.
    pub(crate) fn listens_for(&self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        caught & (1 << (signal.as_raw() - 1)) != 0
    }

    /// What it has written to standard error so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let what = format!("{} ends", self.what);
        until(&what, || self.has_ended());
        let code = self.child.wait().unwrap().code();
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        Ended { code, stdout: text(&self.out), stderr: text(&self.err) }
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _unless_gone = self.child.kill();
        let _unless_gone = self.child.wait();
    }
}

/// Whether a process is there and not only a memory.
pub(crate) fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The events of a kind.
pub(crate) fn events<'a>(history: &'a Value, kind: &str) -> Vec<&'a Value> {
    history.as_array().unwrap().iter().filter(|event| event["kind"] == kind).collect()
}
