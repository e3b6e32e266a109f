//! Rows that cannot be read: in which tables they are kept out of the way, and how people see them.
//!
//! A read that steps over such a row marks it in the column `bad`. Marked rows are left out where
//! work is looked for, so they cost nothing and hold up nobody; an operator sees them with the
//! reason. Marks are cleared when a program opens a database to work on it: what one version cannot
//! read, another may. For the same reason a store that only looks marks nothing. Rows of the inbox
//! are refused instead: they have a column for the reason, and whoever inserted them looks there.

use resurgam_core::Uid;

/// How many unreadable rows one read marks; the next read takes more.
pub const MARKED_AT_ONCE: usize = 1_000;

/// A row that could not be read, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its table.
    pub table: &'static str,
    /// The instance it belongs to, when it belongs to one and that much can be read.
    pub uid: Option<Uid>,
    /// Why it could not be read.
    pub why: String,
}

/// A table whose rows can be kept out of the way. Events cannot: a run without one of its events is
/// blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// What somebody started.
    Instance,
    /// What wakes a run.
    Message,
    /// An activity call that is not finished.
    Task,
    /// A row of the ledger.
    Attempt,
    /// What an operator did.
    Action,
    /// A call that was given up.
    DeadLetter,
    /// What starts instances again and again.
    Schedule,
    /// What others ask for in SQL.
    Inbox,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 8] = [
        Table::Instance,
        Table::Message,
        Table::Task,
        Table::Attempt,
        Table::Action,
        Table::DeadLetter,
        Table::Schedule,
        Table::Inbox,
    ];

    /// Those with a column `bad`.
    pub const MARKED: [Table; 7] = [
        Table::Instance,
        Table::Message,
        Table::Task,
        Table::Attempt,
        Table::Action,
        Table::DeadLetter,
        Table::Schedule,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Instance => "instance",
            Table::Message => "message",
            Table::Task => "task",
            Table::Attempt => "attempt",
            Table::Action => "action",
            Table::DeadLetter => "dead_letter",
            Table::Schedule => "schedule",
            Table::Inbox => "inbox",
        }
    }

    /// The column that the reason goes to.
    pub const fn reason(self) -> &'static str {
        match self {
            Table::Inbox => "error",
            _ => "bad",
        }
    }

    /// True when its rows belong to instances, whose uid they carry.
    pub const fn has_uid(self) -> bool {
        !matches!(self, Table::Schedule | Table::Inbox)
    }
}
