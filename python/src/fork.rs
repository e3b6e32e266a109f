//! SQLite's own locks while the process is forked.
//!
//! The child of a fork has one thread, and its parent's memory as it was: a lock that another
//! thread held stays locked for ever. Those of SQLite are held for moments only, but by every
//! thread that allocates. So whoever forks takes them first, and both processes give them back.

use pyo3::prelude::*;
use rusqlite::ffi;

/// The locks that SQLite has for the whole process, in the order in which it takes them itself.
const LOCKS: [i32; 7] = [
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
    ffi::SQLITE_MUTEX_STATIC_MEM,
];

/// Takes the locks, without the interpreter's: who holds one of them may be waiting for that.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    py.detach(|| {
        for lock in LOCKS {
            // SAFETY: the numbers are of static locks, which are always there and never freed.
            unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(lock)) }
        }
    });
}

/// Gives the locks back, in the parent and in the child.
#[pyfunction]
pub(crate) fn after_fork() {
    for lock in LOCKS.into_iter().rev() {
        // SAFETY: `before_fork` took it, in the thread that forked. Static locks do not remember
        // which thread that was.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(lock)) }
    }
}
