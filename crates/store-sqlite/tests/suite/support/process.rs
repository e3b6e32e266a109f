//! Other processes: this test program once more, running one of its ignored tests.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;

use super::PATIENCE;

/// The variable in which another process finds the path of its database.
const DATABASE: &str = "RESURGAM_TEST_DATABASE";
/// What stands before what it says. The test harness writes to the same pipe.
const SAYS: &str = "=> ";

/// Another process, killed when this is dropped.
pub struct Process {
    child: Child,
    says: Receiver<String>,
    hears: ChildStdin,
}

impl Process {
    /// Starts this program as another process that runs the ignored test of this name.
    pub fn start(test: &str, database: &Path) -> Self {
        Process::spawn(Command::new(std::env::current_exe().unwrap()), test, database)
    }

    /// Starts a program that was made ready.
    pub fn spawn(mut program: Command, test: &str, database: &Path) -> Self {
        let mut child = program
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DATABASE, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let hears = child.stdin.take().unwrap();
        // Few are kept for us, so that the process does not run ahead of who listens.
        let (heard, says) = sync_channel(1);
        thread::spawn(move || listen(output, &heard));
        Process { child, says, hears }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says next; none when it has ended.
    pub fn hear(&mut self) -> Option<String> {
        match self.says.recv_timeout(PATIENCE) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("process {} said nothing for {PATIENCE:?}", self.id())
            }
        }
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        self.hears.write_all(b"\n").unwrap();
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) {
        let kill = ["-c", "kill -s \"$0\" \"$1\"", name, &self.id().to_string()];
        assert!(Command::new("sh").args(kill).status().unwrap().success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on what a process says until it ends, or nobody listens any more.
fn listen(output: ChildStdout, heard: &SyncSender<String>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some((_, said)) = line.split_once(SAYS)
            && heard.send(said.to_string()).is_err()
        {
            return;
        }
    }
}

/// The path of the database, in another process. None when somebody runs the ignored test by hand.
pub fn database() -> Option<PathBuf> {
    std::env::var_os(DATABASE).map(PathBuf::from)
}

/// Says something to the process that started this one.
pub fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{SAYS}{what}").unwrap();
    out.flush().unwrap();
}

/// Waits until the process that started this one lets it go on, or is gone.
pub fn wait() {
    let _ = std::io::stdin().read_line(&mut String::new());
}
