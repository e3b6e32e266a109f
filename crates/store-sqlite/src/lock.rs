//! The lock that makes a process the owner of a database file.
//!
//! The operating system keeps it and drops it when the process ends, however it ends. So there are
//! no renewals and no times to wait out: a lock that can be taken is free, and one that is held has
//! a living holder, even one that is stopped. The file says in one line of JSON who that is, for
//! people only.
//!
//! The handle is closed in programs that the owner starts. A fork that starts none keeps the lock
//! with its parent's, until both are gone.
//!
//! A lock binds those who lock the same file. Somebody may remove the file while it is locked, and
//! the next process would make and lock another one. So whoever has locked a file looks whether it
//! is still the one at its path, and the owner looks again and again. The fence in the database
//! holds in any case: see `ownership`.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resurgam_core::Timestamp;
use resurgam_store::rows::Owner;
use resurgam_store::{Error, Result};
use serde_json::{Value, json};

use crate::lock_files::LockFiles;
use crate::process::Process;

/// How often a lock is tried that somebody holds only to look, or on a file that was replaced.
/// Looks are over in microseconds, so that all of these tries meet one is next to impossible.
const TRIES: u32 = 10;
/// How long to wait between such tries, and for an owner that has not written its line yet.
const SHORTLY: Duration = Duration::from_micros(200);

/// The lock file of a database.
#[derive(Clone, Debug)]
pub(crate) struct LockFile {
    files: LockFiles,
    path: PathBuf,
}

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    process: Process,
}

/// Which file was locked.
#[derive(Debug)]
pub(crate) struct Locked {
    path: PathBuf,
    identity: Option<Identity>,
}

/// What tells a file from another one of the same name: device and inode.
pub(crate) type Identity = (u64, u64);

impl LockFile {
    pub(crate) fn new(files: &LockFiles) -> Self {
        LockFile { files: files.clone(), path: files.owner() }
    }

    /// Locks the file and writes down who has done so; `None` when somebody else holds it.
    pub(crate) fn try_take(&self, owner: &Owner) -> Result<Option<(Lock, Locked)>> {
        for _ in 0..TRIES {
            let file = self.files.open(&self.path).map_err(|error| self.refused(error))?;
            match file.try_lock() {
                Ok(()) => {
                    let locked = Locked { path: self.path.clone(), identity: identity_of(&file) };
                    if locked.is_in_place() {
                        write_line(&file, owner);
                        return Ok(Some((Lock { file, process: Process::this() }, locked)));
                    }
                }
                Err(TryLockError::WouldBlock) if self.is_held(&file)? => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(SHORTLY),
                Err(TryLockError::Error(error)) => return Err(self.without_locks(error)),
            }
        }
        Ok(None)
    }

    /// Who holds the lock now.
    pub(crate) fn owner(&self) -> Result<Option<Owner>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.refused(error)),
        };
        match self.is_held(&file)? {
            true => Ok(Some(self.holder())),
            false => Ok(None),
        }
    }

    /// True when somebody holds the lock to work. Those who look take a lock that can be shared,
    /// for as long as a system call takes, so they never take each other for an owner.
    fn is_held(&self, file: &File) -> Result<bool> {
        match file.try_lock_shared() {
            Ok(()) => {
                // When this fails, closing the handle does it.
                let _ = file.unlock();
                Ok(false)
            }
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(self.without_locks(error)),
        }
    }

    /// What the file says about its holder. An owner of this very moment may not have written its
    /// line yet; and on some systems nobody else can read a locked file.
    pub(crate) fn holder(&self) -> Owner {
        for _ in 0..TRIES {
            if let Some(owner) = fs::read_to_string(&self.path).ok().and_then(|line| parsed(&line))
            {
                return owner;
            }
            thread::sleep(SHORTLY);
        }
        Owner {
            node: "unknown".to_string(),
            pid: 0,
            program: "unknown".to_string(),
            since: Timestamp::EPOCH,
        }
    }

    /// The file could not be opened.
    fn refused(&self, error: io::Error) -> Error {
        let path = self.path.display();
        let refused = match error.kind() {
            io::ErrorKind::PermissionDenied if self.path.exists() => Error::unusable(format!(
                "this process may not read and write {path}; let it, as it may the database"
            )),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::unusable(
                format!("this process may not make {path}; let it write to that folder"),
            ),
            io::ErrorKind::IsADirectory => {
                Error::unusable(format!("{path} is a folder; move it elsewhere"))
            }
            _ => Error::transient(format!("open {path}")),
        };
        refused.because(error)
    }

    fn without_locks(&self, error: io::Error) -> Error {
        Error::unusable(format!(
            "{} cannot be locked, so two processes could work on the database at once; put it on \
             a local disk",
            self.path.display()
        ))
        .because(error)
    }
}

impl Drop for Lock {
    /// Closing the handle is not enough when a fork of this process has a copy of it. And such a
    /// fork that drops its copy must not unlock what its parent holds.
    fn drop(&mut self) {
        if self.process == Process::this() {
            // When this fails, closing the handle does it.
            let _ = self.file.unlock();
        }
    }
}

impl Locked {
    /// True unless the file at this path is missing, or is another one.
    pub(crate) fn is_in_place(&self) -> bool {
        match fs::metadata(&self.path) {
            Ok(now) => self.identity.is_none() || identity(&now) == self.identity,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// This process as the owner of a file, from now on.
pub(crate) fn this_process(node: &str) -> Owner {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Owner {
        node: node.to_string(),
        pid: std::process::id(),
        program: program.map_or("unknown".into(), |name| name.to_string_lossy()).into_owned(),
        since: Timestamp::EPOCH.saturating_add(since),
    }
}

/// Writes who holds the lock. Trouble is left alone: the line is for people, and a disk that is
/// full is no reason not to work.
fn write_line(mut file: &File, owner: &Owner) {
    let line = json!({
        "node": owner.node,
        "pid": owner.pid,
        "program": owner.program,
        "since": owner.since,
    });
    // Emptied first, so that nobody takes the line of an earlier owner for ours.
    let _ = file.set_len(0).and_then(|()| file.write_all(format!("{line}\n").as_bytes()));
}

fn parsed(line: &str) -> Option<Owner> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| Some(line.get(key)?.as_str()?.to_string());
    Some(Owner {
        node: text("node")?,
        pid: line.get("pid")?.as_u64()?.try_into().ok()?,
        program: text("program")?,
        since: Timestamp::from_millis(line.get("since")?.as_i64()?),
    })
}

fn identity_of(file: &File) -> Option<Identity> {
    file.metadata().ok().as_ref().and_then(identity)
}

#[cfg(unix)]
pub(crate) fn identity(file: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    Some((file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be replaced by mistake.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> Option<Identity> {
    None
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use tempfile::TempDir;

    use super::*;

    fn lock_file() -> (TempDir, LockFile) {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("orders.db");
        fs::write(&database, "").unwrap();
        let files = LockFiles::of(&database).unwrap();
        (folder, LockFile::new(&files))
    }

    #[test]
    fn what_is_written_about_an_owner_can_be_read() {
        let (_folder, file) = lock_file();
        let owner = this_process("node-\"ü\"");
        let lock = file.try_take(&owner).unwrap().unwrap();
        assert_eq!(file.owner().unwrap(), Some(owner.clone()));
        assert_eq!(owner.pid, std::process::id());
        assert!(owner.program.contains("resurgam"), "{}", owner.program);
        drop(lock);
        assert_eq!(file.owner().unwrap(), None);
    }

    #[test]
    fn a_shorter_line_leaves_nothing_of_a_longer_one() {
        let (_folder, file) = lock_file();
        for node in ["a node with a long name", "b"] {
            let _lock = file.try_take(&this_process(node)).unwrap().unwrap();
            assert_eq!(file.owner().unwrap().unwrap().node, node);
        }
    }

    #[test]
    fn an_owner_that_has_not_written_its_line_is_unknown() {
        let (_folder, file) = lock_file();
        let _lock = file.try_take(&this_process("a")).unwrap().unwrap();
        for half in ["", "{\"node\":\"a\",\"pi", "[]"] {
            fs::write(&file.path, half).unwrap();
            let owner = file.owner().unwrap().unwrap();
            assert_eq!((owner.pid, owner.program.as_str()), (0, "unknown"));
        }
    }

    #[test]
    fn those_who_look_keep_nobody_from_owning() {
        const PATIENCE: Duration = Duration::from_secs(120);
        let (_folder, file) = lock_file();
        let done = AtomicBool::new(false);
        let (taken, tries) = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        file.owner().unwrap();
                    }
                });
            }
            // A process that looks can be put aside while it does, so not every try succeeds.
            let (mut taken, mut tries, since) = (0, 0, Instant::now());
            while taken < 100 && since.elapsed() < PATIENCE {
                taken += usize::from(file.try_take(&this_process("a")).unwrap().is_some());
                tries += 1;
            }
            done.store(true, Ordering::Relaxed);
            (taken, tries)
        });
        println!("{taken} of {tries} tries");
        assert_eq!(taken, 100, "of {tries} tries within {PATIENCE:?}");
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_noticed() {
        let (_folder, file) = lock_file();
        let (_lock, locked) = file.try_take(&this_process("a")).unwrap().unwrap();
        assert!(locked.is_in_place());
        fs::remove_file(&file.path).unwrap();
        assert!(!locked.is_in_place());
        fs::write(&file.path, "").unwrap();
        assert_eq!(locked.is_in_place(), cfg!(not(unix)));
    }

    #[test]
    fn a_file_system_without_locks_is_refused_with_advice() {
        let (_folder, file) = lock_file();
        let error = file.without_locks(io::ErrorKind::Unsupported.into());
        assert!(error.is_unusable());
        for word in ["orders.db-owner cannot be locked", "local disk", "unsupported"] {
            assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
        }
    }

    #[test]
    fn a_folder_in_place_of_the_lock_file_is_named() {
        let (_folder, file) = lock_file();
        fs::create_dir(&file.path).unwrap();
        let error = file.try_take(&this_process("a")).unwrap_err();
        assert!(error.is_unusable(), "{error}");
        assert!(error.to_string().contains("orders.db-owner is a folder"), "{error}");
    }
}
