//! Runs the program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use crate::processes;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Ran {
    /// The one JSON value on standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Everything that was printed, for a snapshot.
    pub(crate) fn all(&self) -> String {
        format!("{}{}exit {}\n", self.stdout, self.stderr, self.code)
    }
}

/// A folder of its own for a test, where the program runs and finds files.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.0.join(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs `resurgam policy` with these arguments, separated by spaces.
    pub(crate) fn policy(&self, arguments: &str) -> Ran {
        let mut command = policy(arguments);
        command.current_dir(&self.0);
        finish(command, b"")
    }
}

/// `resurgam policy` with these arguments and nothing on standard input.
pub(crate) fn run(arguments: &str) -> Ran {
    run_with(arguments, "")
}

/// The same with standard input.
pub(crate) fn run_with(arguments: &str, stdin: impl AsRef<[u8]>) -> Ran {
    finish(policy(arguments), stdin.as_ref())
}

/// The command, not yet started.
pub(crate) fn policy(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
    command.arg("policy").args(arguments.split_whitespace());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end. It never panics, whatever the input.
pub(crate) fn finish(mut command: Command, stdin: &[u8]) -> Ran {
    let what = format!("{command:?}");
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // The program may end without having read everything.
    let writer = thread::spawn(move || drop(input.write_all(&stdin)));
    let output = processes::ended(child, &what);
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let ran = Ran {
        stdout: text(output.stdout),
        stderr: text(output.stderr),
        code: output.status.code().expect("ended by itself"),
    };
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    ran
}
