//! Why an action could not be started: what the node lacks, and what the action does.
//!
//! A node that is out of file descriptors, processes or memory says nothing about an action, so
//! that is no failure of it: it waits (see [`line`](super::line)), uncounted and without end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use resurgam_core::Failure;
use rustix::io::Errno;

/// When an action is tried again that the node could not start.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// [`PAUSE`] as a failure in JSON writes it.
pub(super) const PAUSE_TEXT: &str = "1s";

/// How often people are told.
const TELL: Duration = Duration::from_secs(10);

/// The longest first line of a script that is looked at; kernels read 256 bytes at most.
const FIRST_LINE: u64 = 512;

/// Why an action could not be started.
#[derive(Debug)]
pub(super) enum Unstarted {
    /// The node lacks something that it has at other times; what, for people.
    Lacks(String),
    /// Something is wrong with the action.
    Failed(Failure),
}

impl Unstarted {
    pub(super) fn new(what: &str, file: &Path, error: &io::Error) -> Self {
        let message = format!("{what} {}: {}", file.display(), explained(file, error));
        match is_of_the_node(error) {
            true => Unstarted::Lacks(message),
            false => Unstarted::Failed(Failure::of_type("CannotExecute", message)),
        }
    }
}

impl From<Unstarted> for Failure {
    fn from(unstarted: Unstarted) -> Self {
        match unstarted {
            Unstarted::Lacks(what) => snoozed(what),
            Unstarted::Failed(failure) => failure,
        }
    }
}

/// What becomes of an attempt that is to be made later, uncounted.
pub(super) fn snoozed(why: impl Into<String>) -> Failure {
    let mut failure = Failure::snooze(PAUSE);
    failure.message = why.into();
    failure
}

/// Tells people, now and then, that the node lacks something.
#[derive(Debug, Default)]
pub(super) struct Lacking(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    /// How often an action could not be started since then.
    since: u64,
}

impl Lacking {
    /// Tells people what the node lacks. False when they were told not long ago.
    pub(super) fn tell(&self, what: &str) -> bool {
        let Some(times) = self.is_time_to_tell(Instant::now()) else { return false };
        tracing::warn!(
            "{what}; this node is short of it, so actions wait and nothing is counted \
             ({times} times since this was said last); use fewer --slots, or raise the limit"
        );
        true
    }

    /// How often an action could not be started since people were told, when it is time to tell.
    fn is_time_to_tell(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.since += 1;
        if told.at.is_some_and(|at| now.duration_since(at) < TELL) {
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.since))
    }
}

/// True when the node lacks something that it has at other times.
pub(super) fn is_of_the_node(error: &io::Error) -> bool {
    const LACKS: [Errno; 6] =
        [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT];
    let raw = error.raw_os_error();
    LACKS.iter().any(|lack| raw == Some(lack.raw_os_error()))
}

/// The error with what it means for a file that is there.
pub(super) fn explained(file: &Path, error: &io::Error) -> String {
    let raw = error.raw_os_error();
    let about = if raw == Some(Errno::NOENT.raw_os_error()) && file.exists() {
        Some(missing_interpreter(file))
    } else if raw == Some(Errno::NOEXEC.raw_os_error()) {
        Some("begin a script with a line such as #!/bin/sh".to_string())
    } else {
        None
    };
    about.map_or_else(|| error.to_string(), |about| format!("{about} ({error})"))
}

/// The system says "no such file" of a file that is there: it means the program that runs it.
fn missing_interpreter(file: &Path) -> String {
    let mut start = Vec::new();
    // What cannot be read now is told as if it named nothing.
    let _ = File::open(file).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut start));
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(rest) = line.strip_prefix(b"#!") else {
        return "it needs a loader that is not there; is it built for this system?".to_string();
    };
    let rest = String::from_utf8_lossy(rest);
    let interpreter = rest.trim_start().split([' ', '\t']).next().unwrap_or_default();
    match interpreter.strip_suffix('\r') {
        Some(interpreter) => format!(
            "its first line ends as on Windows, so its interpreter {interpreter} is looked for \
             under a name with a carriage return; write the file with plain line ends"
        ),
        None => format!(
            "its interpreter {interpreter} is not there; install it, or change its first line"
        ),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn error(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn what_the_node_lacks_is_not_counted_and_what_the_action_lacks_is() {
        let file = Path::new("/actions/charge");
        for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM] {
            let failure = Failure::from(Unstarted::new("start", file, &error(errno)));
            assert_eq!(failure.snooze, Some(PAUSE), "{failure}");
            assert!(failure.message.starts_with("start /actions/charge: "), "{failure}");
        }
        for errno in [Errno::ACCESS, Errno::NOEXEC, Errno::NOENT, Errno::TOOBIG] {
            let failure = Failure::from(Unstarted::new("start", file, &error(errno)));
            assert_eq!(
                (failure.snooze, failure.type_name.as_deref()),
                (None, Some("CannotExecute"))
            );
        }
    }

    #[test]
    fn people_are_told_every_ten_seconds_how_often_an_action_could_not_be_started() {
        let (lacking, now) = (Lacking::default(), Instant::now());
        assert_eq!(lacking.is_time_to_tell(now), Some(1));
        assert_eq!(lacking.is_time_to_tell(now), None);
        assert_eq!(lacking.is_time_to_tell(now + TELL / 2), None);
        assert_eq!(lacking.is_time_to_tell(now + TELL), Some(3));
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("charge");
        for (text, expected) in [
            ("#!/usr/bin/pyton3 -u\nprint()\n", "its interpreter /usr/bin/pyton3 is not there"),
            ("#! /bin/nosh\n", "its interpreter /bin/nosh is not there"),
            (
                "#!/bin/sh\r\necho 1\r\n",
                "its first line ends as on Windows, so its interpreter /bin/sh",
            ),
            ("\u{7f}ELF", "it needs a loader that is not there"),
        ] {
            std::fs::write(&file, text).unwrap();
            let said = explained(&file, &error(Errno::NOENT));
            assert!(said.starts_with(expected), "{said}");
        }
        let gone = explained(&folder.path().join("gone"), &error(Errno::NOENT));
        assert_eq!(gone, error(Errno::NOENT).to_string());
    }
}
