//! Processes that the tests start, and waits for them that end.
//!
//! Nothing here depends on how fast the machine is: a wait ends when what it is for has come, and
//! fails with its name after [`PATIENCE`].
#![cfg_attr(not(unix), allow(dead_code))]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest wait for anything. Whoever waits this long waits in vain, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at what other processes do: neither they nor their files tell that something
/// has changed.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until something holds in the world outside, which has no virtual time.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "after {PATIENCE:?} this has not come to pass: {what}");
        thread::sleep(PAUSE);
    }
}

/// Runs a command to its end, and answers with what it printed. It reads what the caller has set as
/// its standard input.
pub(crate) fn output(command: &mut Command) -> Output {
    let what = format!("{command:?}");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    ended(child.unwrap_or_else(|error| panic!("{what}: {error}")), &what)
}

/// Waits for the end of a process, and answers with what it printed that nobody has read.
pub(crate) fn ended(child: Child, what: &str) -> Output {
    let mut running = Running(child);
    drop(running.0.stdin.take());
    let (stdout, stderr) = (read(running.0.stdout.take()), read(running.0.stderr.take()));
    until(&format!("the end of {what}"), || running.0.try_wait().unwrap().is_some());
    let status = running.0.wait().unwrap();
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// A process that is not left behind by a test that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _unless_gone = self.0.kill();
        let _unless_gone = self.0.wait();
    }
}

/// What a process prints, line by line.
pub(crate) struct Lines(mpsc::Receiver<String>);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        let read = BufReader::new(pipe).lines().map_while(Result::ok);
        // Somebody who has heard enough does not listen any more.
        thread::spawn(move || read.for_each(|line| drop(sender.send(line))));
        Lines(lines)
    }

    /// The next line, or none when there will be no more.
    pub(crate) fn hear(&self, wanted: &str) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("after {PATIENCE:?} this was not said: {wanted}")
            }
        }
    }
}
