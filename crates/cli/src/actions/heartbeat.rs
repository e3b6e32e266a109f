//! Signs of life of an action: each line that it writes to a file is one.
//!
//! The file is a named pipe, so that writing to it is heard at once and works with `>` as well as
//! with `>>`, from any language and without a library.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The longest line that is kept; of a longer one it is only heard that it came. It has to fit into
/// an environment variable of the next attempt.
const LONGEST: usize = 32 << 10;

/// A private folder for the pipes of this process.
#[derive(Debug)]
pub(super) struct Pipes {
    folder: tempfile::TempDir,
    next: AtomicU64,
}

impl Pipes {
    pub(super) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("resurgam-").tempdir()?;
        Ok(Pipes { folder, next: AtomicU64::new(1) })
    }

    /// A pipe for one attempt.
    pub(super) fn open(&self) -> io::Result<Pipe> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("heartbeat-{number}"));
        make(&path)?;
        let opened = open_ends(&path);
        let (reader, writer) = opened.inspect_err(|_| remove(&path))?;
        Ok(Pipe { path, reader, _writer: writer, line: Vec::new(), too_long: false })
    }
}

fn open_ends(path: &Path) -> io::Result<(pipe::Receiver, File)> {
    let reader = pipe::OpenOptions::new().open_receiver(path)?;
    // While we hold an end for writing, the pipe does not end when an action closes its own.
    Ok((reader, File::options().write(true).open(path)?))
}

/// What stays goes away with the folder, which does with the process.
fn remove(path: &Path) {
    let _unless_gone = std::fs::remove_file(path);
}

#[cfg(not(target_vendor = "apple"))]
fn make(path: &Path) -> io::Result<()> {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, mode)?)
}

/// rustix does not offer the call there.
#[cfg(target_vendor = "apple")]
fn make(path: &Path) -> io::Result<()> {
    match std::process::Command::new("mkfifo").arg(path).status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("mkfifo failed")),
    }
}

/// The pipe of an attempt; it goes away with it.
#[derive(Debug)]
pub(super) struct Pipe {
    path: PathBuf,
    reader: pipe::Receiver,
    _writer: File,
    line: Vec<u8>,
    too_long: bool,
}

impl Pipe {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The lines that have come: at least one, in their order.
    pub(super) async fn next(&mut self) -> io::Result<Vec<Value>> {
        let mut chunk = [0; 4 << 10];
        loop {
            let count = self.reader.read(&mut chunk).await?;
            let lines = self.take(&chunk[..count]);
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    /// The lines that end in this piece.
    fn take(&mut self, piece: &[u8]) -> Vec<Value> {
        let mut lines = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.too_long |= self.line.len() + part.len() > LONGEST;
            if !self.too_long {
                self.line.extend_from_slice(part);
            }
            if parts.peek().is_some() {
                let too_long = std::mem::take(&mut self.too_long);
                let line = std::mem::take(&mut self.line);
                lines.push(if too_long { Value::Null } else { details(&line) });
            }
        }
        lines
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// What a line says: JSON, else a text.
fn details(line: &[u8]) -> Value {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_string()))
}

/// What a heartbeat said, as it was written, for the environment of the next attempt.
pub(super) fn text_of(details: &Value) -> String {
    match details {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::io::Write;

    use serde_json::json;

    use super::*;

    #[test]
    async fn each_line_is_heard_whoever_wrote_it_and_however_it_was_cut() {
        let pipes = Pipes::new().unwrap();
        let mut pipe = pipes.open().unwrap();
        for line in ["{\"row\": 7}\n", "half", " a line\n12\n"] {
            // Opened anew each time, as a shell does.
            let mut file = File::options().append(true).open(pipe.path()).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
        let mut heard = Vec::new();
        while heard.len() < 3 {
            heard.extend(pipe.next().await.unwrap());
        }
        assert_eq!(heard, [json!({"row": 7}), json!("half a line"), json!(12)]);
        let texts: Vec<String> = heard.iter().map(text_of).collect();
        assert_eq!(texts, ["{\"row\":7}", "half a line", "12"]);
    }

    #[test]
    async fn a_line_too_long_to_keep_is_a_sign_of_life_all_the_same() {
        let mut pipe = Pipes::new().unwrap().open().unwrap();
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(pipe.take(long.as_bytes()), [] as [Value; 0]);
        assert_eq!(pipe.take(b"\nshort\n"), [Value::Null, json!("short")]);
    }

    #[test]
    async fn a_pipe_goes_away_with_its_attempt() {
        let pipes = Pipes::new().unwrap();
        let pipe = pipes.open().unwrap();
        let path = pipe.path().to_path_buf();
        assert!(path.exists());
        drop(pipe);
        assert!(!path.exists());
    }
}
