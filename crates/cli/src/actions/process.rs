//! A process in a group of its own, which is signalled as a whole and never left behind.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::answer::{Ended, Exit};
use super::launch::Launcher;
use super::output::{self, TooMuch};

/// How long pipes may stay open after the action itself has ended: a child of it may be writing its
/// last line.
const LAST_LINES: Duration = Duration::from_secs(1);

/// An action that runs.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Group,
}

/// A process group. Dropping it kills what is left in it.
#[derive(Debug)]
pub(super) struct Group {
    id: GroupId,
    launcher: Arc<Launcher>,
}

/// What a group is signalled by.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupId(Pid);

impl GroupId {
    /// Sends a signal to everything in the group.
    pub(super) fn signal(&self, signal: Signal) {
        // Nobody there to be told is as good.
        let _unless_gone = rustix::process::kill_process_group(self.0, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.id.signal(Signal::KILL);
        self.launcher.ended(self.id.0);
    }
}

impl Process {
    /// Starts a command in a group of its own.
    ///
    /// The kernel kills an action together with the *thread* that started it: this is for threads
    /// that live as long as the process.
    pub(super) fn start(mut command: Command, launcher: Arc<Launcher>) -> io::Result<Self> {
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = tokio::process::Command::from(command).spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| io::Error::other("a process without an id"))?;
        launcher.begun(id);
        Ok(Process { child, group: Group { id: GroupId(id), launcher } })
    }

    /// What its group is signalled by, for as long as it is there.
    pub(super) fn group(&self) -> GroupId {
        self.group.id
    }

    /// Hands over the input and waits for the end.
    pub(super) async fn finish(&mut self, input: &[u8]) -> io::Result<Result<Ended, TooMuch>> {
        let pipes = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let mut printed = Printed::default();
        let mut reading = Box::pin(read(pipes, input, &mut printed));
        let (status, read) = tokio::select! {
            biased;
            status = self.child.wait() => (status?, last_lines(self.group.id, &mut reading).await?),
            read = &mut reading => match read? {
                // It has closed its pipes, and goes on.
                Ok(()) => (self.child.wait().await?, Ok(())),
                Err(TooMuch) => return Ok(Err(TooMuch)),
            },
        };
        drop(reading);
        Ok(read.map(|()| ended(status, printed)))
    }
}

/// Reads on after an action has ended, while somebody holds its pipes: for a moment.
async fn last_lines(
    group: GroupId,
    reading: &mut (impl Future<Output = io::Result<Result<(), TooMuch>>> + Unpin),
) -> io::Result<Result<(), TooMuch>> {
    if let Ok(read) = tokio::time::timeout(LAST_LINES, &mut *reading).await {
        return read;
    }
    // Children of the action hold the pipes.
    group.signal(Signal::KILL);
    // Who has left the group, as daemons do, may hold them for ever and is not waited for.
    tokio::time::timeout(LAST_LINES, reading).await.unwrap_or(Ok(Ok(())))
}

/// What a process has printed so far.
#[derive(Debug, Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// Writes the input and reads what is printed, until all pipes are closed.
async fn read(
    (stdin, stdout, stderr): Pipes,
    input: &[u8],
    printed: &mut Printed,
) -> io::Result<Result<(), TooMuch>> {
    let write = async {
        if let Some(mut stdin) = stdin {
            // An action need not read what it does not want to know.
            let _unless_unread = stdin.write_all(input).await;
        }
        Ok(())
    };
    let head = async {
        match stdout {
            Some(stdout) => {
                match output::head(stdout, output::STDOUT, &mut printed.stdout).await {
                    // Ends the others at once.
                    Ok(Err(TooMuch)) => Err(None),
                    Ok(Ok(())) => Ok(()),
                    Err(error) => Err(Some(error)),
                }
            }
            None => Ok(()),
        }
    };
    let tail = async {
        match stderr {
            Some(stderr) => {
                output::tail(stderr, output::STDERR, &mut printed.stderr).await.map_err(Some)
            }
            None => Ok(()),
        }
    };
    match tokio::try_join!(write, head, tail) {
        Ok(_) => Ok(Ok(())),
        Err(None) => Ok(Err(TooMuch)),
        Err(Some(error)) => Err(error),
    }
}

fn ended(status: ExitStatus, printed: Printed) -> Ended {
    let Printed { stdout, mut stderr } = printed;
    output::cut(&mut stderr, output::STDERR);
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    };
    Ended { exit, stdout, stderr }
}
