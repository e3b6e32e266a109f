//! Sees to it that no action outlives the process that runs it, however that one ends.
//!
//! Two things do that, because each has a gap. On Linux an action asks the kernel to be killed with
//! its parent; only a process can ask that for itself, so actions are started through this program
//! (`resurgam __action`), which asks and then becomes the action. The children of an action are not
//! covered by that; for them there is a *guard* (`resurgam __guard`): it is told of every process
//! group on a pipe, and when the pipe ends it kills those that are left.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::lack;
use crate::limits;

/// The hidden commands.
const ACTION: &str = "__action";
const GUARD: &str = "__guard";

/// How often a file that is still being written is tried again, and after what time.
const BUSY: (u32, Duration) = (100, Duration::from_millis(20));

/// Does what a hidden command says. Never returns when it is one.
pub(crate) fn be_hidden() {
    let mut args = std::env::args_os().skip(1);
    match args.next().and_then(|name| name.into_string().ok()).as_deref() {
        Some(ACTION) => std::process::exit(become_action(args)),
        Some(GUARD) => std::process::exit(guard(io::stdin().lock())),
        _ => {}
    }
}

/// Becomes an action, whose parent is the first argument. Comes back only when it cannot.
fn become_action(mut args: impl Iterator<Item = OsString>) -> i32 {
    let mut text = || args.next().and_then(|text| text.into_string().ok());
    let (parent, open_files) = (text(), text());
    let Some((parent, file)) = parent.zip(args.next()) else { return 2 };
    if let Some(open_files) = open_files.and_then(|number| number.parse().ok()) {
        limits::give_back_open_files(open_files);
    }
    #[cfg(target_os = "linux")]
    {
        // A kernel that refuses leaves us with the guard.
        let _asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if now.as_ref() != Some(&parent) {
            // It died before we asked.
            return 1;
        }
    }
    let mut error = Command::new(&file).exec();
    for _ in 0..BUSY.0 {
        if error.kind() != io::ErrorKind::ExecutableFileBusy {
            break;
        }
        std::thread::sleep(BUSY.1);
        error = Command::new(&file).exec();
    }
    // Read by the process that waits for us, as any failure of an action.
    eprintln!("{}", refused(Path::new(&file), &error));
    126
}

/// What is said of an action that cannot be run.
fn refused(file: &Path, error: &io::Error) -> Value {
    let message = format!("run {}: {}", file.display(), lack::explained(file, error));
    match lack::is_of_the_node(error) {
        true => json!({"snooze": lack::PAUSE_TEXT, "message": message}),
        false => json!({"type": "CannotExecute", "message": message}),
    }
}

/// Kills the process groups that are left when the other end of the pipe is gone.
fn guard(lines: impl BufRead) -> i32 {
    let mut groups = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        let number = |rest: &str| rest.parse::<i32>().ok();
        if let Some(group) = line.strip_prefix('+').and_then(number) {
            groups.insert(group);
        } else if let Some(group) = line.strip_prefix('-').and_then(number) {
            groups.remove(&group);
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // It may have ended at the same moment.
        let _unless_gone = rustix::process::kill_process_group(group, Signal::KILL);
    }
    0
}

/// How actions are started.
#[derive(Debug)]
pub(crate) enum Launcher {
    /// Through this program.
    Guarded(Guard),
    /// As they are: where this program is not the one to start them through, as in tests.
    #[cfg(test)]
    Plain,
}

/// The process that kills what is left.
#[derive(Debug)]
pub(crate) struct Guard(Mutex<Child>);

impl Launcher {
    /// Starts the guard.
    pub(crate) fn guarded() -> io::Result<Self> {
        let mut guard = Command::new(program()?);
        guard.arg(GUARD).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What is typed at the terminal is not meant for it.
        guard.process_group(0).current_dir("/");
        Ok(Launcher::Guarded(Guard(Mutex::new(guard.spawn()?))))
    }

    /// The command that becomes an action.
    pub(super) fn command(&self, file: &Path) -> io::Result<Command> {
        match self {
            Launcher::Guarded(_) => {
                let mut command = Command::new(program()?);
                let files = limits::open_files_of_actions().map(|files| files.to_string());
                command.arg(ACTION).arg(std::process::id().to_string());
                command.arg(files.as_deref().unwrap_or("as they are")).arg(file);
                Ok(command)
            }
            #[cfg(test)]
            Launcher::Plain => Ok(Command::new(file)),
        }
    }

    /// A process group has begun.
    pub(super) fn begun(&self, group: Pid) {
        self.tell('+', group);
    }

    /// A process group has ended.
    pub(super) fn ended(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        match self {
            Launcher::Guarded(Guard(guard)) => {
                let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(stdin) = &mut guard.stdin {
                    // Somebody killed the guard: the kernel still kills the actions themselves.
                    let _unless_killed = writeln!(stdin, "{sign}{}", group.as_raw_nonzero());
                }
            }
            #[cfg(test)]
            Launcher::Plain => {}
        }
    }
}

/// This program, also when its file was replaced meanwhile.
fn program() -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    return Ok(PathBuf::from("/proc/self/exe"));
    #[cfg(not(target_os = "linux"))]
    std::env::current_exe()
}
