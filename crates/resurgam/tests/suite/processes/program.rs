//! A program that runs as a process of its own: the test binary again, in a role that its
//! environment names.
//!
//! A module that starts programs has a test named [`ENTRY`], ignored, which looks for its role with
//! [`role`] and plays it. The program talks to the test through its standard streams: [`say`] and
//! [`Program::hear`] one way, [`Program::tell`] and [`ears`] the other. It ends when the test that
//! started it is gone.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{PATIENCE, until_some};

/// The test of a module that is the program.
pub(crate) const ENTRY: &str = "the_program_that_other_tests_start";

/// Where a program finds its role.
const ROLE: &str = "RESURGAM_TEST_ROLE";

/// What a line begins with that is meant for the test. The test harness prints lines too.
const MARK: &str = "say ";

/// A program that runs. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    heard: mpsc::Receiver<String>,
}

impl Program {
    /// Starts the program of a module (`module_path!()`) in a role.
    pub(crate) fn start(module: &str, role: &impl Serialize) -> Self {
        Program::start_at(&std::env::current_exe().unwrap(), module, role, |_| {})
    }

    /// Starts a copy of the program, in a process that is changed before it begins.
    pub(crate) fn start_at(
        program: &Path,
        module: &str,
        role: &impl Serialize,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(program);
        let (_this_binary, module) = module.split_once("::").unwrap();
        let entry = format!("{module}::{ENTRY}");
        command.args(["--exact", &entry, "--ignored", "--nocapture"]);
        command.env(ROLE, serde_json::to_string(role).unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (sender, heard) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            let said = lines.map_while(Result::ok);
            let said = said.filter_map(|line| line.strip_prefix(MARK).map(str::to_string));
            said.for_each(|line| drop(sender.send(line)));
        });
        Program { child, heard }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing it says; `None` when it is gone.
    pub(crate) fn hear(&self) -> Option<String> {
        self.hear_wanted("anything")
    }

    /// Waits until it says this.
    pub(crate) fn hear_that(&self, line: &str) {
        assert_eq!(self.hear_wanted(line).as_deref(), Some(line));
    }

    fn hear_wanted(&self, wanted: &str) -> Option<String> {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("process {} did not say within {PATIENCE:?}: {wanted}", self.pid())
            }
        }
    }

    /// What it says within this time: for those who show that it says nothing.
    pub(crate) fn hear_within(&self, time: Duration) -> Option<String> {
        self.heard.recv_timeout(time).ok()
    }

    /// Gives it a line to read. One that has ended reads nothing, and what it said is heard all the
    /// same.
    pub(crate) fn tell(&mut self, line: &str) {
        let _unless_it_has_ended = writeln!(self.child.stdin.as_mut().unwrap(), "{line}");
    }

    /// Tells it something, and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        let answer = self.hear_wanted(&format!("an answer to {line}"));
        answer.unwrap_or_else(|| panic!("process {} ended before it answered {line}", self.pid()))
    }

    /// Ends it at this instant, as `kill -9` does.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let what = format!("process {} ends by itself", self.pid());
        until_some(&what, || self.child.try_wait().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The role of this process; `None` when nobody gave it one.
pub(crate) fn role<T: DeserializeOwned>() -> Option<T> {
    let role = std::env::var(ROLE).ok()?;
    Some(serde_json::from_str(&role).unwrap())
}

/// Says something to the test that started this program.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The harness may stand in the middle of a line.
    write!(out, "\n{MARK}{line}\n").unwrap();
    out.flush().unwrap();
}

/// What the test tells this program. When the test is gone, so is the program.
pub(crate) fn ears() -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (sender, told) = tokio::sync::mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _nobody_listens = sender.send(line);
        }
        std::process::exit(3);
    });
    told
}

/// Plays a role to its end, and ends the process. The runtime is not dropped before: that would
/// wait for plain functions that are in the middle of something.
pub(crate) fn play(role: impl Future<Output = ()>) -> ! {
    let runtime = runtime();
    runtime.block_on(role);
    std::process::exit(0)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}
