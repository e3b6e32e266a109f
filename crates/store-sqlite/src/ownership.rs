//! Who works on a database, and how one that was overtaken is kept from writing.
//!
//! The right to work is a lock beside a file, and a note in memory. Taking it also writes the
//! node's name into the database. From then on every commit of that node begins with reading the
//! name, inside its transaction: once another name is there nothing is written, whatever happened
//! to the lock, and however long the process slept before this commit.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resurgam_store::rows::Owner;
use resurgam_store::{Error, Result};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::errors;
use crate::lock::{self, Lock, LockFile, Locked};
use crate::lock_files::{Gone, LockFiles};

/// Where it is noted who owns a database.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In a lock file.
    File(LockFiles),
    /// Here: nobody else can reach a database in memory.
    Memory(Note),
}

/// The owner of a database in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Option<Owner>>>);

/// What proves the right to work, for as long as it lives.
pub(crate) enum Proof {
    File(#[allow(dead_code, reason = "only its drop matters")] Lock),
    Memory(Note),
}

/// What a node must find before it writes.
#[derive(Debug)]
pub(crate) struct Fence {
    node: String,
    /// None in memory.
    locked: Option<Locked>,
    /// The lock file was seen to be gone, so that somebody else can become the owner.
    lost: bool,
}

/// The answer to who wants to work.
pub(crate) enum Taking {
    Taken(Proof, Fence),
    Held(Owner),
}

impl Place {
    /// Takes the right to work and writes the node's name into the database. When that fails, the
    /// right is given back.
    pub(crate) fn take(&self, connection: &Connection, node: &str) -> Result<Taking> {
        let taken = self.try_take(node)?;
        if let Taking::Taken(..) = &taken {
            let written = write_owner(connection, node);
            written.map_err(|error| errors::on_opening(self.path(), error))?;
        }
        Ok(taken)
    }

    /// The database, for messages.
    fn path(&self) -> &Path {
        match self {
            Place::File(files) => files.database(),
            Place::Memory(_) => Path::new(":memory:"),
        }
    }

    fn try_take(&self, node: &str) -> Result<Taking> {
        let owner = lock::this_process(node);
        let fence = |locked| Fence { node: node.to_string(), locked, lost: false };
        match self {
            Place::File(files) => {
                let file = LockFile::new(files);
                Ok(match file.try_take(&owner)? {
                    Some((lock, locked)) => Taking::Taken(Proof::File(lock), fence(Some(locked))),
                    None => Taking::Held(file.holder()),
                })
            }
            Place::Memory(note) => Ok(match &mut *note.lock() {
                Some(holder) => Taking::Held(holder.clone()),
                free => {
                    *free = Some(owner);
                    Taking::Taken(Proof::Memory(note.clone()), fence(None))
                }
            }),
        }
    }

    /// The file of the database that is missing, or is another one.
    pub(crate) fn gone(&self) -> Option<Gone> {
        match self {
            Place::File(files) => files.gone(),
            Place::Memory(_) => None,
        }
    }

    /// The error of everything that is asked then.
    pub(crate) fn refusal(&self, gone: Gone) -> Error {
        let (path, why) = match (gone, self) {
            (Gone::Log, Place::File(files)) => (
                files.log(),
                "what is written now would be lost; what was committed is copied into the \
                 database, so stop every process that uses it and begin them anew",
            ),
            (Gone::Index, Place::File(files)) => (
                files.index(),
                "another process could now write at the same time and damage the database; stop \
                 every process that uses it and begin them anew",
            ),
            _ => (
                self.path().to_path_buf(),
                "what is written now would be lost; put it back and begin the process anew",
            ),
        };
        let path = path.display();
        let text = format!("{path} was removed or replaced while it was in use; {why}");
        match gone {
            Gone::Database => Error::missing(text),
            Gone::Log | Gone::Index => Error::unusable(text),
        }
    }

    /// Who has the right to work now.
    pub(crate) fn owner(&self) -> Result<Option<Owner>> {
        match self {
            Place::File(files) => LockFile::new(files).owner(),
            Place::Memory(note) => Ok(note.lock().clone()),
        }
    }
}

impl Note {
    fn lock(&self) -> MutexGuard<'_, Option<Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        if let Proof::Memory(note) = self {
            *note.lock() = None;
        }
    }
}

impl Fence {
    /// Looks whether the lock file is still there. Once it is not, another process can take the
    /// right to work at any moment, and this one no longer has it.
    pub(crate) fn look(&mut self) {
        self.lost |= self.locked.as_ref().is_some_and(|locked| !locked.is_in_place());
    }

    /// True once the lock file was seen to be gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Refuses to write without the right to work. `owner` is who the database says owns it.
    pub(crate) fn check(&self, owner: Option<&str>) -> Result<()> {
        match (owner, &self.locked) {
            (Some(owner), Some(locked)) if owner == self.node && self.lost => {
                Err(Error::fenced(format!(
                    "its lock file {} was removed, so that another node can own it",
                    locked.path().display()
                )))
            }
            (Some(owner), _) if owner == self.node => Ok(()),
            (Some(owner), _) => Err(Error::fenced(format!("node {owner} owns it by now"))),
            (None, _) => Err(Error::fenced("no node owns it by now")),
        }
    }
}

/// Who the database says owns it.
pub(crate) fn owner_of(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached("SELECT owner FROM meta")?.query_row([], |row| row.get(0))
}

fn write_owner(connection: &Connection, node: &str) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute("UPDATE meta SET owner = ?1", [node])?;
    transaction.commit()
}
