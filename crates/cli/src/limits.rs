//! What the system lets this process have at once: open files.
//!
//! Each action that runs takes six: three pipes, two ends of its heartbeats, its process. The limit
//! that a shell sets (1,024 as a rule) is meant for programs that cannot count further, and the
//! hard limit is what a process may really have. So we take that, and actions get what we were
//! given.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files were allowed when the process began, if it allows itself more.
static GIVEN: OnceLock<u64> = OnceLock::new();

/// Takes as many open files as the process may have. Where that is refused there are fewer, and
/// actions wait for each other.
pub(crate) fn take_open_files() {
    let given = getrlimit(Resource::Nofile);
    let Some(soft) = given.current.filter(|_| given.current != given.maximum) else { return };
    let all = Rlimit { current: given.maximum, maximum: given.maximum };
    if setrlimit(Resource::Nofile, all).is_ok() {
        let _unless_told_before = GIVEN.set(soft);
    }
}

/// How many files an action is allowed, where that is another number than ours.
pub(crate) fn open_files_of_actions() -> Option<u64> {
    GIVEN.get().copied()
}

/// Goes back to fewer open files, in a process that is to become an action.
pub(crate) fn give_back_open_files(soft: u64) {
    let now = getrlimit(Resource::Nofile);
    // Fewer than there are is refused by nobody.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..now });
}
