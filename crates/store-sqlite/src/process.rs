//! The process that opened a store, which is the only one that may use it.
//!
//! A fork copies the memory and none of the threads. A call through the copy would wait for ever
//! for an answer, and SQLite's own locks do not survive a fork either. So every call looks first
//! where it is.

use std::process;

use resurgam_store::{Error, Result};

/// A process, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The one that runs this.
    pub(crate) fn this() -> Self {
        Process(process::id())
    }

    /// The one of this id.
    #[cfg(test)]
    pub(crate) fn of_id(id: u32) -> Self {
        Process(id)
    }

    /// Refuses any other.
    pub(crate) fn refuse_others(self) -> Result<()> {
        self.refuse(Process::this())
    }

    fn refuse(self, caller: Process) -> Result<()> {
        if self == caller {
            return Ok(());
        }
        Err(Error::unusable(format!(
            "opened by process {}, and this is process {}: open it again after a fork",
            self.0, caller.0
        )))
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn only_the_process_that_opened_a_store_may_use_it() {
        assert!(Process::this().refuse_others().is_ok());
        let error = Process::of_id(12).refuse(Process::of_id(34)).unwrap_err();
        assert!(error.is_unusable());
        let expected = "opened by process 12, and this is process 34: open it again after a fork";
        assert_eq!(error.to_string(), expected);
    }
}
